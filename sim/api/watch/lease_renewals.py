"""A revision that moves one time of an object on: history keeps thousands of these per second.

Turns the object before and a time into the revision after, of which the object itself, its ownership and the time's
text are made when somebody reads them.

Holds: what is read of it is what an ordinary revision would hold; it is its own change (`store.Change`) and its own
event (`api.WatchEvent`), so that a renewal is one thing to make, keep, tell of and forget; it holds on to one before it
that is not in the history any more, and to none before that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sim.api.store import Item, Managed
from sim.units import format_micro_time


class Line:
    """What the renewals of one object share: `item` but for the time at `path`, owned as `owner` says.

    listeners: who is told of a renewal, as long as `heard` is what the store's bucket says
    series: of the trace records of renewals that `cause` causes (`Trace.series`), 0 for none yet
    """

    __slots__ = (
        "base", "cause", "created", "field", "heard", "key", "listeners", "owner", "section", "series",
    )  # fmt: skip

    def __init__(self, item: Item, path: tuple[str, str], owner: Managed) -> None:
        self.key = item.key
        self.created = item.created
        self.base = item.obj
        self.section, self.field = path
        self.owner = owner
        self.heard: object = None
        self.listeners: Sequence[Callable[[Any], None]] = ()
        self.series = self.cause = 0


class Renewal(Item):
    """value: the time, microseconds since 1970; time_s: of its ownership; at_us: of the commit.

    prev: the revision before; None once that has gone from the history (`forget`), so that no chain grows
    The object is kept, once built, only while it is the current one.
    """

    __slots__ = ("_built", "_line", "at_us", "prev", "time_s", "value")

    _built: dict[str, Any] | None
    deleted = False
    type = "MODIFIED"
    status = None

    def __init__(
        self, line: Line, before: Item, rev: int, value: int, time_s: int, cause: int, at_us: int
    ) -> None:
        self.key = line.key
        self.rev = rev
        self.cause = cause
        self.raw = self._built = None
        self.value = value
        self.time_s = time_s
        self.at_us = at_us
        self._line = line
        self.prev: Item | None = before
        if isinstance(before, Renewal):
            before._built = None  # superseded: whoever needs the object holds it, or has it built again

    def forget(self) -> None:
        """It is not in the history any more."""
        self.prev = None

    def end(self) -> None:
        """What comes next is no renewal: its `Change`, which the cyclic collector does not see, leads to no listeners."""
        self._line.heard, self._line.listeners = None, ()

    @property
    def item(self) -> Renewal:
        return self

    @property
    def created(self) -> int:  # type: ignore[override]
        return self._line.created

    @property
    def revision(self) -> int:
        return self.rev

    @property
    def managed(self) -> tuple[Managed, ...]:  # type: ignore[override]
        owner = self._line.owner
        return (
            Managed(
                owner.manager,
                owner.operation,
                owner.api_version,
                self.time_s,
                owner.fields,
                owner.subresource,
            ),
        )

    @property
    def obj(self) -> dict[str, Any]:  # type: ignore[override]
        built = self._built
        if built is None:
            line = self._line
            built = self._built = line.base.copy()
            metadata = built["metadata"] = built["metadata"].copy()
            metadata["resourceVersion"] = str(self.rev)
            values = built[line.section] = built[line.section].copy()
            values[line.field] = format_micro_time(self.value)
        return built

    def peek(self, section: str, field: str) -> Any:
        line = self._line
        if field == line.field and section == line.section:
            return format_micro_time(self.value)
        if (section, field) == ("metadata", "resourceVersion"):
            return str(self.rev)
        return (line.base.get(section) or {}).get(field)

    def peek_us(self, section: str, field: str) -> int:
        line = self._line
        if field == line.field and section == line.section:
            return self.value
        return super().peek_us(section, field)


KINDS: set[type] = {Renewal}  # and what is derived from it


def all_renewals(found: Sequence[object]) -> bool:
    """Whether there is nothing else."""
    return {*map(type, found)} <= KINDS
