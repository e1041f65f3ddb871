"""The part of a store that watch caches read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from sim.api.store import Change, Compacted, Item, Range
from sim.units import Revision


class Feed(Protocol):
    """What a watch cache and its watches use of a store."""

    @property
    def revision(self) -> Revision:
        """The revision of the newest write."""
        ...

    @property
    def floor(self) -> Revision:
        """The revision up to which history is compacted."""
        ...

    def events(self, after: Revision, prefix: str, limit: int = 0) -> Sequence[Change] | Compacted:
        """The changes below a prefix after a revision, in revision order."""
        ...

    def stretches(self, after: Revision, prefix: str) -> Iterable[Sequence[Change]] | Compacted:
        """The same as `events`, in the pieces in which the store keeps them."""
        ...

    def log_of(self, prefix: str) -> Sequence[Any]:
        """The changes of a prefix's resource that are kept, in one list that grows."""
        ...

    def range(self, op: Range) -> Any:
        """The answer to a range read: Page, Compacted or FutureRevision."""
        ...

    def get(self, key: str) -> Item | None:
        """The newest item of a key."""
        ...

    def get_at(self, key: str, rev: Revision) -> Item | None:
        """The item of a key as of a revision."""
        ...

    def subscribe(self, prefix: str, on_change: Callable[[Change], None]) -> Callable[[], None]:
        """Calls `on_change` for each commit below a prefix; returns a function that ends this."""
        ...
