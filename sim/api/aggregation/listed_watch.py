"""A watch of a resource that another server answers: its lists, one after the other, as events.

Turns each list into events for what is new, changed and gone since the list before.

Holds: the events lead from the list that the client has to the newest one.

Mirrors  nothing upstream, where the stream of the other server is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sim.api.store import Item
from sim.api.types import WatchEvent
from sim.units import Revision

FIRST = Revision(1)


def events_between(
    before: Mapping[str, Item], after: Mapping[str, Item], revision: Revision
) -> list[WatchEvent]:
    """What has changed from one list to the next, the gone objects first.

    revision: of the later list
    """
    gone = [
        WatchEvent("DELETED", item, max(item.rev, revision))
        for key, item in before.items()
        if key not in after
    ]
    changed = [
        WatchEvent("MODIFIED" if key in before else "ADDED", item, max(item.rev, FIRST))
        for key, item in after.items()
        if key not in before or before[key].obj != item.obj
    ]
    return [*gone, *sorted(changed, key=_revision)]


def _revision(event: WatchEvent) -> int:
    return event.revision


class ListedWatch:
    """The server's side of such a watch.

    known: what the client has, by key
    on_stop: called once when the watch ends
    """

    def __init__(self, known: Iterable[Item], on_stop: Callable[[], None]) -> None:
        self.ended = False
        self._known = {item.key: item for item in known}
        self._on_stop = on_stop
        self._on_end: list[Callable[[], object]] = []
        self._pending: list[WatchEvent] = []
        self._notify: Callable[[], None] | None = None

    def attach(self, notify: Callable[[], None]) -> None:
        """Start notifications."""
        self._notify = notify

    def observe_end(self, on_end: Callable[[], object]) -> None:
        """Call `on_end` once when the watch ends, for any reason."""
        self._on_end.append(on_end)

    def take(self, limit: int = 1000) -> Sequence[WatchEvent]:
        """The events of the lists so far, at most `limit`."""
        found, self._pending = self._pending[:limit], self._pending[limit:]
        return found

    def stop(self) -> None:
        """End the watch."""
        if self.ended:
            return
        self.ended = True
        self._on_stop()
        for on_end in self._on_end:
            on_end()

    def take_list(self, items: Iterable[Item], revision: Revision) -> None:
        """Take the newest list."""
        newest = {item.key: item for item in items}
        self._pending += events_between(self._known, newest, revision)
        self._known = newest
        if self._pending and self._notify is not None:
            self._notify()

    def close(self) -> None:
        """End the watch from the server's side: the other server is gone, or its time is over."""
        was = self.ended
        self.stop()
        if not was and self._notify is not None:
            self._notify()
