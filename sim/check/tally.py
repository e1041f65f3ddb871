"""Tallies: how many objects fulfil a condition, and whether a matter happened, commit by commit.

Turns commits into the numbers of objects that a condition selects and is true of (`Tally`), and
into whether a matter has happened (`Matter`); `parse_matter` reads either from a scenario's text or
mapping.

Holds: a commit costs as much as its one object, except for a node that changes its zone: that costs
as much as all objects of its resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from sim.api.store import Change, Item
from sim.check.condition import Condition, Select, check_resource, check_where, parse_condition, selector
from sim.check.world import World
from sim.dataclass import dataclass
from sim.ident import Names


class Tally:
    """Counts, object by object, how many a condition selects and for how many it is true.

    Objects that belong to a zone by their node change the zone together with the node.
    """

    __slots__ = ("_by_zone", "_placed", "condition", "selected", "state", "true")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.state: dict[str, bool] = {}
        self.selected = 0
        self.true = 0
        self._by_zone = len(seen_by(condition)) > 1
        # Objects that belong to a node, if the condition depends on the zone of the node.
        self._placed: dict[str, Item] = {}

    def see(self, world: World, resource: str, change: Change) -> bool:
        """Take a commit; returns True if the condition was evaluated for any object."""
        item, there = change.item, not change.deleted
        if resource == self.condition.resource:
            if self._by_zone:
                if there and world.node_of(resource, item.obj):
                    self._placed[item.key] = item
                else:
                    self._placed.pop(item.key, None)
            self._count(world, item, there)
            return True
        if resource != "nodes" or not world.moved:
            return False
        of = self.condition.resource
        moved = [one for one in self._placed.values() if world.node_of(of, one.obj) == world.moved]
        for one in moved:
            self._count(world, one, there=True)
        return bool(moved)

    def _count(self, world: World, item: Item, there: bool) -> None:
        key, obj, condition = item.key, item.obj, self.condition
        before, now = self.state.get(key), None
        if there and condition.select(world, condition.resource, obj):
            now = condition.test(obj)
        if now is before:
            return
        if before is not None:
            del self.state[key]
            self.selected -= 1
            self.true -= before
        if now is not None:
            self.state[key] = now
            self.selected += 1
            self.true += now

    def of(self, true: bool) -> tuple[str, ...]:
        """The keys of the objects of which the condition is true, or of those of which it is not."""
        return tuple(key for key, state in self.state.items() if state is true)

    @property
    def at_fault(self) -> tuple[str, ...]:
        """The keys of the objects because of which the condition does not hold: too many of which
        it is true, or those of which it is not.
        """
        quantifier, number = self.condition.quantifier, self.condition.number
        too_many = quantifier in ("no", "at most") or (quantifier == "exactly" and self.true > number)
        return self.of(too_many)

    @property
    def counted(self) -> str:
        """Of how many objects the condition is true, in words."""
        return f"{self.true} of {self.selected} {self.condition.resource.partition('@')[0]}"

    @property
    def holds(self) -> bool:
        """True if the condition holds now."""
        return self.condition.holds(self.selected, self.true)


@dataclass(frozen=True, slots=True)
class Matter:
    """Something that happens to an object: created, deleted (marked or gone), removed, changed, or
    an Event.
    """

    text: str
    what: str
    resource: str
    reason: str
    select: Select
    where: Mapping[str, Any]

    def happened(self, world: World, resource: str, change: Change) -> bool:
        """True if a commit is the matter and matches its selection."""
        if resource != self.resource or not self._is(change):
            return False
        return self.select(world, resource, change.item.obj)

    def _is(self, change: Change) -> bool:
        if self.what == "created":
            return change.prev is None
        if self.what == "removed":
            return change.deleted
        if self.what == "deleted":
            marked = "deletionTimestamp" in change.item.obj["metadata"]
            before = change.prev is not None and "deletionTimestamp" in change.prev.obj["metadata"]
            return not before and (change.deleted or marked)
        if self.what == "event":
            return not change.deleted and change.item.obj.get("reason") == self.reason
        return change.prev is not None and not change.deleted


def seen_by(matter: Condition | Matter) -> tuple[str, ...]:
    """The resources with commits that can change a condition or be a matter."""
    if isinstance(matter, Condition) and "zone" in matter.where and matter.resource != "nodes":
        return matter.resource, "nodes"
    return (matter.resource,)


def parse_matter(given: Any, names: Names, unsaid: str = "all") -> Condition | Matter:
    """A condition text or a matter mapping.  unsaid: as in `parse_condition`"""
    if isinstance(given, str):
        return parse_condition(given, names, unsaid)
    kinds = [(key, getattr(given, key)) for key in ("created", "deleted", "removed", "changed", "event")]
    named = [(key, value) for key, value in kinds if value is not UNSET]
    if len(named) != 1:
        raise ValueError("give exactly one of created, deleted, removed, changed and event")
    what, value = named[0]
    if not value:
        raise ValueError(f"'{what}' names nothing; write e.g. event: FailedScheduling, created: pods")
    resource = "events" if what == "event" else value.lower()
    check_resource(resource, names)
    check_where(resource, given.where, names)
    text = f"{value} {what}" + (f" where {given.where}" if given.where else "")
    return Matter(
        text, what, resource, value if what == "event" else "", selector(given.where, names), given.where
    )
