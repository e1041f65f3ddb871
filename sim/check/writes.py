"""Writes that change a cluster, beside heartbeats and notes, and what they change in words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sim.api.scheme.scheme import Scheme
from sim.api.store import Change, path_of
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import format_instant

HISTORY = ("events", "leases")  # resources of which each write is a heartbeat or a note
CUSTOM = "custom"  # stands for all resources that definitions add
SHOWN = 3  # objects in the words of a verdict


def listed(parts: Sequence[str]) -> str:
    """The first of several parts, and how many more there are."""
    more = len(parts) - SHOWN
    return ", ".join(parts[:SHOWN]) + (f" and {more} more" if more > 0 else "")


@lru_cache(maxsize=8)
def written_resources(names: Names) -> frozenset[str]:
    """All resources but those of which each write is a heartbeat or a note."""
    return frozenset((CUSTOM, *(one.plural for one in Scheme(names).resources))) - {*HISTORY}


@lru_cache(maxsize=8)
def fixed_resources(names: Names) -> frozenset[tuple[str, str]]:
    """Group and plural of the resources that no definition adds."""
    return frozenset((one.group, one.plural) for one in Scheme(names).resources)


def is_heartbeat(resource: str, change: Change) -> bool:
    """True if a write of a node changes nothing but the times at which its agent reported."""
    if resource != "nodes" or change.prev is None or change.deleted:
        return False
    before, after = change.prev.obj, change.item.obj
    return not changed_fields(before, after)


def changed_fields(before: Obj, after: Obj) -> list[str]:
    """The fields in which two states of an object differ, as "spec.replicas"; times of heartbeats
    and what each write changes are left out.
    """
    fields = []
    for part in sorted({*before, *after}):
        old, new = before.get(part), after.get(part)
        if old is new or old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            keys = sorted({*old, *new})
            fields += [f"{part}.{key}" for key in keys if not _same(key, old.get(key), new.get(key))]
        else:
            fields.append(part)
    return fields


def _same(key: str, old: Any, new: Any) -> bool:
    if old == new or key == "resourceVersion":
        return True
    if key != "conditions" or not isinstance(old, list) or not isinstance(new, list):
        return False
    return [_silent(one) for one in old] == [_silent(one) for one in new]


def _silent(condition: Obj) -> Obj:
    """A condition without the time of its heartbeat."""
    return {key: value for key, value in condition.items() if key != "lastHeartbeatTime"}


@dataclass(slots=True)
class Written:
    """The writes of one object: how many, when the last one was, and the fields that they changed."""

    count: int
    last_us: int
    fields: dict[str, None]

    def words(self, key: str) -> str:
        """The object and its writes, in words."""
        often = "once, at" if self.count == 1 else f"{self.count} times, last at"
        return f"{path_of(key)} ({listed([*self.fields])}; {often} {format_instant(self.last_us)})"


class Unrest:
    """The writes of each object since some instant."""

    def __init__(self) -> None:
        self.of: dict[str, Written] = {}

    def add(self, change: Change) -> None:
        """Take a write."""
        written = self.of.setdefault(change.item.key, Written(0, 0, {}))
        written.count, written.last_us = written.count + 1, change.at_us
        if change.deleted or change.prev is None:
            written.fields["it is removed" if change.deleted else "it is created"] = None
        else:
            written.fields.update(dict.fromkeys(changed_fields(change.prev.obj, change.item.obj)))

    def words(self, since_us: int) -> str:
        """What was written since then, the most frequent object first; "" if nothing was."""
        late = [(key, one) for key, one in self.of.items() if one.last_us >= since_us]
        late.sort(key=lambda pair: (-pair[1].count, pair[0]))
        return listed([one.words(key) for key, one in late])
