"""A revision that moves one time of an object on: history keeps thousands of these per second.

Turns the object before and a time into the revision after, of which the object itself is built when somebody reads it.

Holds: what is read of it is what an ordinary revision would hold; it is its own change (`store.Change`), so that a
renewal is one thing to make, keep and forget; it holds no chain of those before it.
"""

from __future__ import annotations

from typing import Any

from sim.machinery.store import Item, Managed
from sim.units import format_micro_time

Core = tuple[int, int | str, tuple[Managed, ...], int, int]  # rev, value, managed, cause, at_us


class Renewal(Item):
    """path: section and field of the time; value: the time, text or microseconds since 1970; at_us: of the commit.

    The object is kept, once built, only while it is the current one.
    _before: the revision before, if that was not a renewal; else what made it.  (Of a past one nobody asks further.)
    """

    __slots__ = ("_base", "_before", "_built", "_path", "at_us", "value")

    _base: dict[str, Any]
    _before: Item | Core
    _built: dict[str, Any] | None
    _path: tuple[str, str]
    at_us: int
    value: int | str
    deleted = False

    @staticmethod
    def of(
        before: Item, rev: int, managed: tuple[Managed, ...], path: tuple[str, str], value: int | str
    ) -> Renewal:
        """The next revision; whoever commits it sets `at_us`, the store `cause`."""
        new = Renewal.__new__(Renewal)
        new.key = before.key
        new.rev = rev
        new.created = before.created
        new.managed = managed
        new.raw = None
        new.cause = 0
        new.value = value
        new._path = path
        new._built = None
        if type(before) is Renewal:
            new._base = before._base
            new._before = (before.rev, before.value, before.managed, before.cause, before.at_us)
            before._built = None  # superseded: whoever needs the object holds it, or has it built again
        else:
            new._base = before.obj
            new._before = before
        return new

    @property
    def item(self) -> Renewal:
        return self

    @property
    def prev(self) -> Item:
        before = self._before
        if not isinstance(before, tuple):
            return before
        prev = Renewal.__new__(Renewal)
        prev.key, prev.created, prev.raw = self.key, self.created, None
        prev.rev, prev.value, prev.managed, prev.cause, prev.at_us = before
        prev._path, prev._base, prev._before, prev._built = self._path, self._base, before, None
        return prev

    @property
    def text(self) -> str:
        value = self.value
        return value if isinstance(value, str) else format_micro_time(value)

    @property
    def obj(self) -> dict[str, Any]:  # type: ignore[override]
        built = self._built
        if built is None:
            built = self._built = self._base.copy()
            metadata = built["metadata"] = built["metadata"].copy()
            metadata["resourceVersion"] = str(self.rev)
            section, field = self._path
            values = built[section] = built[section].copy()
            values[field] = self.text
        return built

    def peek(self, section: str, field: str) -> Any:
        path = self._path
        if field == path[1] and section == path[0]:
            value = self.value
            return value if isinstance(value, str) else format_micro_time(value)
        if (section, field) == ("metadata", "resourceVersion"):
            return str(self.rev)
        return (self._base.get(section) or {}).get(field)
