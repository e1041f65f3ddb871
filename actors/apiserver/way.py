"""What all short ways share: whose they are, and whether they may be gone now.

Turns nothing by itself: see `short_ways` and `pod_ways`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.machinery.api import Request
from sim.machinery.store import Item

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
