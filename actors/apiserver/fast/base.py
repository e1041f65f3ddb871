"""The base class of the coalesced calls: the client that they serve, and the check that the server
can serve them now.

See `coalesced_calls` and `coalesced_pod_calls`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from actors.apiserver.caches.watch_caches import Caches
from actors.apiserver.fast.lease_updates import LeasePaths
from actors.apiserver.fast.write_templates import WriteTemplates
from actors.apiserver.ports import Server
from sim.api.store import Item
from sim.api.types import Request
from sim.kernel import Context


class FastState(NamedTuple):
    """What the fast paths of one incarnation of a server share.

    templates: the write templates, None if they are switched off
    """

    ctx: Context
    caches: Caches
    lease_paths: LeasePaths
    templates: WriteTemplates | None


class CallPath:
    """The coalesced calls of one client, valid until a process changes its state.

    asked: a request of the client
    draw: the lot of the request that is served now, by which the storage draws its latency
    """

    __slots__ = ("_asked", "_fast", "draw", "server")

    def __init__(self, server: Server, fast: FastState, asked: Request) -> None:
        self.server = server
        self._fast = fast
        self._asked = asked
        self.draw = 0

    def guards(self, item: Item) -> bool:
        """True if `item` is stored and no guard is set on it, so that `guard` can be called."""
        store = self.server.storage.store
        return item.key not in store.guards and store.get(item.key) is item

    def guard(self, item: Item, plan: Callable[[], None]) -> None:
        """Call `plan` before the next write of the object commits."""
        self.server.storage.store.guards[item.key] = plan

    def unguard(self, item: Item, plan: Callable[[], None]) -> None:
        """Remove the guard that `guard` has set, if it is still there."""
        guards = self.server.storage.store.guards
        if guards.get(item.key) == plan:
            del guards[item.key]

    def _answer(self, item: Item, writes: int) -> tuple[Item, int]:
        """Count one more request; return its result and the storage's latency."""
        server = self.server
        server.flown += 1
        server.tally[self._asked.manager, 200] += 1
        return item, server.storage.latency_us(writes, self.draw)

    def _open(self) -> bool:
        return not self.server.bounded
