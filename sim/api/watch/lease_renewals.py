"""Lease renewals: revisions that change one time of an object. History keeps thousands of these per
second.

A renewal holds the time and refers to the parts that all renewals of one object share. The object
itself, its ownership and the text of the time are made when they are read.

Holds: a renewal reads like an ordinary revision; it is its own change (`store.Change`) and its own
event (`api.WatchEvent`), so that there is one thing to make, keep, deliver and drop; it refers to
at most one earlier revision that has left the history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sim.api.store import Item, Managed
from sim.units import Revision, Virtual, format_micro_time


class Line:
    """What the renewals of one object share.

    item: the object, of which renewals change only the time at `path`
    owner: the owner of that time
    listeners: callbacks of a renewal, valid while `subscription` equals that of the store's bucket
    series: of the trace records of renewals that `cause` causes (`Trace.series`), 0 for none yet
    """

    __slots__ = (
        "base",
        "cause",
        "created",
        "field",
        "key",
        "listeners",
        "owner",
        "section",
        "series",
        "subscription",
    )  # fmt: skip

    def __init__(self, item: Item, path: tuple[str, str], owner: Managed) -> None:
        self.key = item.key
        self.created = item.created
        self.base = item.obj
        self.section, self.field = path
        self.owner = owner
        self.subscription: object = None
        self.listeners: Sequence[Callable[[Any], None]] = ()
        self.series = self.cause = 0


class Renewal(Item):
    """One renewal.

    value: the time that it writes, microseconds since 1970
    time_s: the time of its ownership entry
    at_us: commit time
    prev: the revision before; None once that has left the history (`forget`), so that no chain
        grows

    The object, once built, is kept only while the renewal is the current revision.
    """

    __slots__ = ("_built", "_line", "at_us", "prev", "time_s", "value")

    _built: dict[str, Any] | None
    deleted = False
    type = "MODIFIED"
    status = None

    def __init__(
        self, line: Line, before: Item, rev: Revision, value: int, time_s: int, cause: int, at_us: Virtual
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
        if type(before) is Renewal or isinstance(before, Renewal):
            before._built = None  # superseded: it is built again if it is read

    def forget(self) -> None:
        """Called when the revision before leaves the history."""
        self.prev = None

    def end(self) -> None:
        """Called when another kind of write follows: drops the references to listeners.

        The cyclic collector does not see the `Change` of that write, so no reference cycle may lead
        through it.
        """
        self._line.subscription, self._line.listeners = None, ()

    @property
    def item(self) -> Renewal:
        """The renewal itself, as the item of its change and event."""
        return self

    @property
    def created(self) -> int:  # type: ignore[override]
        """The revision of the object's creation."""
        return self._line.created

    @property
    def revision(self) -> Revision:
        """The revision, as an event's attribute."""
        return self.rev

    @property
    def managed(self) -> tuple[Managed, ...]:  # type: ignore[override]
        """Field ownership: the one owner of the time, and of all other fields."""
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
        """The object as of this revision."""
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
        """One field of a section, read without building the object."""
        line = self._line
        if field == line.field and section == line.section:
            return format_micro_time(self.value)
        if (section, field) == ("metadata", "resourceVersion"):
            return str(self.rev)
        return (line.base.get(section) or {}).get(field)

    def peek_us(self, section: str, field: str) -> int:
        """As `peek`, for a time in microseconds."""
        line = self._line
        if field == line.field and section == line.section:
            return self.value
        return super().peek_us(section, field)


KINDS: set[type] = {Renewal}  # with its subclasses


def all_renewals(found: Sequence[object]) -> bool:
    """True if the sequence holds renewals only."""
    return {*map(type, found)} <= KINDS
