"""What all short ways share: whose they are, and whether they may be gone now.

Turns nothing by itself: see `coalesced_calls` and `coalesced_pod_calls`.
"""

from __future__ import annotations

from actors.apiserver.ports import FastPathServer
from sim.api.store import Item, Planned
from sim.api.types import Request


class Way:
    """For one client, while no process changes its state.

    asked: a request of the client; lot: of the request that is served now
    """

    __slots__ = ("_asked", "lot", "server")

    def __init__(self, server: FastPathServer, asked: Request) -> None:
        self.server = server
        self._asked = asked
        self.lot = 0

    def guards(self, item: Item) -> bool:
        """True if the next write of this object can be announced (`guard`): it is what is stored."""
        store = self.server.storage.store
        return item.key not in store.guards and store.get(item.key) is item

    def guard(self, item: Item, planned: Planned) -> None:
        """Have `planned` told before the next write of the object commits."""
        self.server.storage.store.guards[item.key] = planned

    def unguard(self, item: Item, planned: Planned) -> None:
        """It need not be told any more."""
        guards = self.server.storage.store.guards
        if guards.get(item.key) is planned:
            del guards[item.key]

    def _answer(self, item: Item, writes: int) -> tuple[Item, int]:
        """What came of one more request, and the storage's latency."""
        server = self.server
        server.flown += 1
        return item, server.storage.latency_us(writes, self.lot)

    def _open(self) -> bool:
        return not self.server.bounded
