"""What an informer without handlers has received and has not indexed, until it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from sim.api.store import Item
from sim.api.types import WatchEvent
from sim.api.watch.columnar_renewals import Run, Runs
from sim.api.watch.lease_renewals import Renewal, all_renewals

RENEWALS_MAX = 50_000  # lease renewals that may wait before they are indexed by key


class Unread:
    """Items received while no handler was registered, and not read yet.

    late: by key in the store
    renewals: later than those, in order of arrival
    run: columnar renewals were received up to this one; they are looked up on demand
    is_sorted: True if all columnar renewals have been looked up
    news: the items for the one reader of news; None before its first call
    """

    __slots__ = ("is_sorted", "late", "news", "renewals", "run")

    def __init__(self) -> None:
        self.late: dict[str, Item] = {}
        self.renewals: list[Item] = []
        self.run: Run | None = None
        self.is_sorted = True
        self.news: list[Item | Runs] | None = None

    def absorb(self, events: Sequence[WatchEvent]) -> bool:
        """Receive events that are all lease renewals; False, and nothing is done, for others."""
        if type(events) is Runs:
            self.run, self.is_sorted = events.last or self.run, False
            self.renewals += [piece for piece in events.pieces if isinstance(piece, Renewal)]
            if self.news is not None:
                self.news.append(events)
            return True
        if not all_renewals(events):
            return False
        renewals = cast(Sequence[Item], events)
        if len(self.renewals) > RENEWALS_MAX:
            self.sort_in()
        self.renewals += renewals
        if self.news is not None:
            self.news += renewals
        return True

    def sort_in(self) -> None:
        """Index waiting lease renewals by key."""
        if self.renewals:
            self.late.update({item.key: item for item in self.renewals})
            self.renewals = []

    def drop_news(self, long: str) -> None:
        """The object of this key is deleted."""
        if self.news:
            self.news = [item for item in self.news if isinstance(item, Runs) or item.key != long]
