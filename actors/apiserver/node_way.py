"""The short way of a node's report: its agent reads the node, finds itself as it was, and writes new heartbeat times.

Turns the read into a look at the watch cache, and the write into the commit that the patch would make.

Holds: what is answered, written and drawn is what the ordinary requests would get, write and draw (`plans` has served
such a patch); in every other case the answer is None and nothing was done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from actors.apiserver import beats
from actors.apiserver.rules import Reads
from sim.kernel import State
from sim.machinery.api import Obj, Request
from sim.machinery.managed import UPDATE
from sim.machinery.store import Item, Managed
from sim.units import SECOND

if TYPE_CHECKING:
    from actors.apiserver.server import ApiServer


def offer_node_way(server: ApiServer, request: Request) -> NodeWay | None:
    """For reads like `request` and the patches that follow; None if this server has none for them now."""
    if (request.resource, request.group, request.namespace) != ("nodes", "", "") or not request.name:
        return None
    ctx = server.ctx
    if ctx is None or ctx.state is not State.RUNNING or not server.storage.prompt:
        return None
    return NodeWay(server, request)


class NodeWay:
    """For one client and its node, while no process changes its state.

    _last: what was written last; _reads: what admission had read for that; _owner: the client's entry in its record
    _whole: all of its conditions were beaten, in their order
    """

    __slots__ = ("_asked", "_cache", "_last", "_owner", "_reads", "_whole", "server")

    def __init__(self, server: ApiServer, asked: Request) -> None:
        caches = server.caches
        assert caches is not None
        self.server = server
        self._asked = asked
        self._cache = caches.of(server.scheme.resource("nodes"))
        self._last: Item | None = None
        self._owner: Managed | None = None
        self._reads: Reads = Reads()
        self._whole = False

    def _open(self) -> bool:
        server, asked = self.server, self._asked
        return not server.bounded and server.authorizer.refuse(asked.user, asked) is None

    def look(self) -> tuple[Item, int] | None:
        """The node as the watch cache shows it, and the storage's latency."""
        server = self.server
        caches = server.caches
        if caches is None or not caches.ready or not self._open():
            return None
        item = self._cache.get(f"{self._cache.prefix}/{self._asked.name}")
        if item is None:
            return None
        server.flown += 1
        return item, server.storage.latency_us(0)

    def beat(self, held: Item, sent: Sequence[Obj]) -> tuple[Item, int] | None:
        """Write conditions of `held` that were given other heartbeat times."""
        plans = self.server.plans
        status = held.obj["status"]
        if not sent or plans is None or not self._open():
            return None
        before: Sequence[Obj] = status["conditions"]
        if self._last is held and plans.holds(self._reads):
            conditions = [*sent] if self._whole and len(sent) == len(before) else beats.beaten(before, sent)
        else:
            self._last = None
            conditions = beats.beaten(before, sent)
            reads = None if conditions is None else plans.beaten_before(held, self._asked.manager, sent)
            if reads is None:
                return None
            self._reads = reads
            self._whole = [*map(beats.type_of, before)] == [*map(beats.type_of, sent)]
        if conditions is None:
            return None
        return self._commit(held, status, conditions)

    def _commit(self, held: Item, status: Obj, conditions: list[Obj]) -> tuple[Item, int] | None:
        server, node = self.server, held.obj
        assert server.ctx is not None
        storage = server.storage
        obj = {**node, "metadata": {**node["metadata"]}, "status": {**status, "conditions": conditions}}
        storage.writer = self._asked.user.name, "patch status"
        record = self._record(held, server.ctx.wall_us() // SECOND)
        done = storage.store.beat(held, obj, record, server.kernel.cause)
        if done is None:
            self._last = None
            return None
        self._last = done
        server.flown += 1
        return done, storage.latency_us(1)

    def _record(self, held: Item, now_s: int) -> tuple[Managed, ...]:
        """Who owns what after the write."""
        record, owner = held.managed, self._owner
        if self._last is held and record and record[-1] is owner and now_s >= owner.time_s:
            self._owner = owner = Managed(
                owner.manager, UPDATE, owner.api_version, now_s, owner.fields, owner.subresource
            )
            return (*record[:-1], owner)  # the latest comes last
        moved = beats.moved(
            record, self._asked.manager, self.server.scheme.resource("nodes").api_version, now_s
        )
        assert moved is not None  # one was learned from
        self._owner = moved[-1] if moved and moved[-1] not in record else None
        return moved
