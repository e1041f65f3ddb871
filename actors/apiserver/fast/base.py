"""What all short ways share: whose they are, and whether they may be gone now.

Turns nothing by itself: see `coalesced_calls` and `coalesced_pod_calls`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.api.store import Item
from sim.api.types import Request

if TYPE_CHECKING:
    from actors.apiserver.server import ApiServer


class Way:
    """For one client, while no process changes its state.  `asked`: a request of it."""

    __slots__ = ("_asked", "server")

    def __init__(self, server: ApiServer, asked: Request) -> None:
        self.server = server
        self._asked = asked

    def _answer(self, item: Item, writes: int) -> tuple[Item, int]:
        """What came of one more request, and the storage's latency."""
        server = self.server
        server.flown += 1
        return item, server.storage.latency_us(writes)

    def _open(self) -> bool:
        server, asked = self.server, self._asked
        return not server.bounded and server.authorizer.refuse(asked.user, asked) is None
