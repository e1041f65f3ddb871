"""An API server's connection to the storage.

Turns what happens to the line between the two (`sim.kernel.network`) into what the server meets:
while nothing disturbs it the storage is beside the server, and `Storage.latency_us` is all that a
request costs; while something does, each operation and each answer crosses it, late, or after it is
healed.

Holds: an operation is handed to the storage at most once, and while only answers are lost, not once
the connection is dead; one whose request is over when the line is healed is not sent any more; one
that had arrived stays done, whether its answer comes or not; when the line is as before, the server
is too.

Mirrors  kubernetes v1.25 apiserver pkg/storage/storagebackend/factory/etcd3.go;
         go.etcd.io/etcd/client/v3 v3.5 (a watch goes on after the last revision that it showed; if
         that is compacted, watch caches list anew).
Differs  what meets a cut line waits until that is healed or its request is over. Upstream finds the
         connection dead after 40 s (keepalive of 30 s, 10 s for its answer) and dials again, ever
         later: from then on a write may fail at once (500), and after a long cut the connection is
         back up to two minutes late. A cache trails by the longest delay of a slow line, and loss
         does not hold it up. A server that starts while it is cut off waits; upstream's ends, and
         is started again.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.apiserver.ports import StorageProcess
from sim.api.store import Answer, Op
from sim.kernel import Context
from sim.kernel.network import DEFAULT_HIGH_US, Link
from sim.units import SECOND

# etcd3.go: keepaliveTime and keepaliveTimeout: then a connection is dead, and to make another takes
#     messages both ways.
DEAD_CONNECTION_US = 40 * SECOND
# Over which line, whether it is still wanted, and what comes of it on the other side.
_Crossing = tuple[Link, Callable[[], bool], Callable[[], None]]


class Reach:
    """Of one incarnation of the server `name`.

    clear: nothing disturbs it; cut: nothing gets through, in one direction at least; lag_us: how
        much later than by default what is new comes from the storage; changed: told when one of
        these has changed
    """

    def __init__(self, ctx: Context, name: str, storage: StorageProcess, changed: Callable[[], None]) -> None:
        network = ctx.kernel.network
        self._ctx = ctx
        self._storage = storage
        self._changed = changed
        self._out = network.link(name, storage.name, own=True)
        self._back = network.link(storage.name, name, own=True)
        self._halted: list[_Crossing] = []
        self._look()
        self._dead_us = ctx.kernel.now_us  # when the connection is dead, while the line is cut
        network.settled.append(self._settle)
        ctx.on_stop(lambda: network.settled.remove(self._settle))
        ctx.on_stop(self._halted.clear)

    def _look(self) -> tuple[bool, bool, int]:
        self.clear = self._out.clear and self._back.clear
        self.cut = not (self._out.up and self._back.up)
        self.lag_us = max(0, self._back.high_us - DEFAULT_HIGH_US)
        return self.clear, self.cut, self.lag_us

    def _settle(self) -> None:
        before = self.clear, self.cut, self.lag_us
        if self._look() == before:
            return
        if self.cut and not before[1]:
            self._dead_us = self._ctx.kernel.now_us + DEAD_CONNECTION_US
        self._changed()
        halted = self._halted[:]
        self._halted.clear()
        for crossing in halted:
            self._cross(*crossing)

    def submit(
        self, op: Op, writer: tuple[str, str], wanted: Callable[[], bool], on_answer: Callable[[Answer], None]
    ) -> None:
        """As `Storage.submit`, across the line.  wanted: whether anybody still waits for it."""

        def answered(answer: Answer) -> None:
            self._cross(self._back, wanted, lambda: on_answer(answer))

        self._cross(self._out, wanted, lambda: self._storage.submit(op, writer, wanted, answered))

    def _cross(self, link: Link, wanted: Callable[[], bool], then: Callable[[], None]) -> None:
        if not self._ctx.alive or not wanted():
            return
        if self._stopped(link):
            self._halted.append((link, wanted, then))
        elif link.clear:
            then()
        else:
            kernel = self._ctx.kernel
            kernel.call_later(link.delay_us(link.lot(kernel.now_us)), self._arrive, (link, wanted, then))

    def _arrive(self, crossing: _Crossing) -> None:
        link, _, then = crossing
        if not self._stopped(link):
            then()
        elif self._ctx.alive:
            self._halted.append(crossing)

    def _stopped(self, link: Link) -> bool:
        """Whether nothing crosses: the line is cut that way, or either way for so long that the
        connection is dead.
        """
        return not link.up or (self.cut and self._ctx.kernel.now_us >= self._dead_us)
