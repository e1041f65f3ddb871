"""An API server's connection to the storage.

Turns faults of the network link between the two (`sim.kernel.network`) into their effects on the
server.  While no fault is active, the storage is beside the server, and a request costs only
`Storage.latency_us`.  During a fault each operation and each answer crosses the link: it arrives
late, or after the link is healed.

Holds: an operation reaches the storage at most once.  It is still sent while only answers are
lost, but not once the connection is dead.  When the link is healed, an operation of a request that
has ended is not sent any more.  An operation that has arrived stays done, even if its answer is
lost.  When the link is healed, the server behaves as before.

Mirrors  kubernetes v1.25 apiserver pkg/storage/storagebackend/factory/etcd3.go;
         go.etcd.io/etcd/client/v3 v3.5 (a watch continues after the last revision that it showed;
         if
         that is compacted, watch caches relist).
Differs  - What meets a cut link waits until the link is healed or its request has ended. Upstream
           declares the connection dead after 40 s (keepalive of 30 s, 10 s for its answer) and
           reconnects with growing delays: from then on a write may fail at once (500), and after
           a long cut the connection returns up to two minutes late.
         - A cache lags by the longest delay of a slow link, and packet loss does not delay it.
         - A server that starts while it is cut off waits; upstream's exits and is restarted.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.apiserver.ports import StorageProcess
from sim.api.store import Answer, Op
from sim.kernel import Context
from sim.kernel.network import DEFAULT_HIGH_US, Link
from sim.units import SECOND

# etcd3.go: keepaliveTime plus keepaliveTimeout, after which a connection is dead; a new connection
# needs messages in both directions.
DEAD_CONNECTION_US = 40 * SECOND
# The link to cross, whether the operation is still wanted, and what to do on the other side.
_Crossing = tuple[Link, Callable[[], bool], Callable[[], None]]


class Reach:
    """The connection of one incarnation of the server `name`.

    clear: True while no fault is active on the link
    cut: True if the link is cut in at least one direction
    lag_us: additional delay of changes that the storage sends
    changed: called when one of these has changed
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
        self._dead_us = ctx.kernel.now_us  # when the connection is dead if the link stays cut
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
        """As `Storage.submit`, across the link.

        wanted: True while the request waits for the answer
        """

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
            kernel.call_later(link.delay_at_us(kernel.now_us), self._arrive, (link, wanted, then))

    def _arrive(self, crossing: _Crossing) -> None:
        link, _, then = crossing
        if not self._stopped(link):
            then()
        elif self._ctx.alive:
            self._halted.append(crossing)

    def _stopped(self, link: Link) -> bool:
        """True if nothing crosses: the link is cut in that direction, or cut in either direction
        for so long that the connection is dead.
        """
        return not link.up or (self.cut and self._ctx.kernel.now_us >= self._dead_us)
