"""Patches of a pod's conditions that differ only in their times.

Turns what one patch made of the conditions and of the record of ownership into what the same patch
makes of them at other times, without another merge and comparison.

Holds: two patches have one shape only if all their texts are equal, if the same of their times
are equal to each other, and if each time of the record is before, at or after the present in both.
The verb, validation and ownership use times only to compare them, so patches of one shape give
results that differ only in times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.apiserver.rules import Reads
from sim.api.store import Managed
from sim.api.types import Obj
from sim.units import parse_time

TIMES = ("lastProbeTime", "lastTransitionTime")
# "2022-08-23T00:00:00Z", the API's own format, so that the text is stored unchanged.
TIME_LENGTH = 20
SENT, HELD, NULL = range(3)
Words = tuple[Any, ...]
Recipe = tuple[int, int, tuple[tuple[str, int], ...]]
Entry = tuple[int, Managed | None, bool]


class Shape(NamedTuple):
    """How the conditions and the record of ownership result from a patch.

    recipes: for each resulting condition, the index of the stored one and of the sent one (-1:
    none),
        and the source of each member; no members if the stored condition is unchanged
    entries: for each resulting entry of the record, the index of the entry that it replaces (-1:
    none),
        its content except for the time (None: unchanged), and True if its time is the present
    held: keeps the objects alive that the words name by identity
    """

    recipes: tuple[Recipe, ...]
    entries: tuple[Entry, ...]
    reads: Reads
    held: Any


def words_of(before: Any, sent: Any, order: Any, record: tuple[Managed, ...], now_s: int) -> Words | None:
    """The key by which a patch's shape is found; None if the patch has no shape."""
    if type(before) is not list or type(sent) is not list:
        return None
    times: dict[str, int] = {}
    words: list[Any] = [len(before), len(sent), len(record)]
    for condition in (*before, *sent):
        if type(condition) is not dict:
            return None
        words.append(len(condition))
        for name, value in condition.items():
            words.append(name)
            if value is not None and type(value) is not str:
                return None
            words.append(value if name not in TIMES or value is None else times.setdefault(value, len(times)))
    for time in times:
        if not _is_time(time):
            return None
    for entry in record:
        later = (entry.time_s > now_s) - (entry.time_s < now_s)
        words += (
            id(entry.fields), entry.manager, entry.operation, entry.api_version, entry.subresource, later
        )  # fmt: skip
    if order is not None:
        if type(order) is not list:
            return None
        for element in order:
            if type(element) is not dict or len(element) != 1 or type(element.get("type")) is not str:
                return None
            words.append(element["type"])
    return tuple(words)


def _is_time(text: str) -> bool:
    try:
        return len(text) == TIME_LENGTH and parse_time(text) >= 0
    except ValueError:
        return False


def learned(
    conditions: tuple[Sequence[Obj], Sequence[Obj], Sequence[Obj]],
    records: tuple[tuple[Managed, ...], tuple[Managed, ...]],
    now_s: int,
    reads: Reads,
) -> Shape | None:
    """The shape of a patch that has been carried out; None if the source of a result is unclear.

    conditions: stored before, sent, stored after
    records: before and after
    """
    before, sent, after = conditions
    recipes = [_recipe(before, sent, condition) for condition in after]
    entries = [_origin(records[0], entry, now_s) for entry in records[1]]
    known_recipes = tuple([recipe for recipe in recipes if recipe is not None])
    known_entries = tuple([entry for entry in entries if entry is not None])
    if len(known_recipes) != len(recipes) or len(known_entries) != len(entries):
        return None
    return Shape(known_recipes, known_entries, reads, records)


def _recipe(before: Sequence[Obj], sent: Sequence[Obj], condition: Obj) -> Recipe | None:
    old, new = _place(before, condition), _place(sent, condition)
    held = {} if old < 0 else before[old]
    if old >= 0 and list(held.items()) == list(condition.items()):
        return old, new, ()
    given = {} if new < 0 else sent[new]
    members = []
    for name, value in condition.items():
        if name in given and given[name] == value:
            members.append((name, SENT))
        elif name in held and held[name] == value:
            members.append((name, HELD))
        elif value is None:
            members.append((name, NULL))
        else:
            return None
    return old, new, tuple(members)


def _place(conditions: Sequence[Obj], condition: Obj) -> int:
    kinds = [each.get("type") for each in conditions]
    return kinds.index(condition.get("type")) if condition.get("type") in kinds else -1


def _origin(record: tuple[Managed, ...], entry: Managed, now_s: int) -> Entry | None:
    for index, old in enumerate(record):
        if (
            old.manager == entry.manager
            and old.operation == entry.operation
            and old.api_version == entry.api_version
            and old.subresource == entry.subresource
        ):
            if old.time_s == entry.time_s:
                return index, None if old.fields is entry.fields else entry, False
            return (index, entry, True) if entry.time_s == now_s else None
    return (-1, entry, True) if entry.time_s == now_s else None


def made_conditions(shape: Shape, before: Sequence[Obj], sent: Sequence[Obj]) -> list[Obj]:
    """Return the conditions after a patch of this shape."""
    made = []
    for old, new, members in shape.recipes:
        if not members:
            made.append(before[old])
            continue
        sources: tuple[Any, Any] = (sent[new] if new >= 0 else None, before[old] if old >= 0 else None)
        made.append({name: None if source == NULL else sources[source][name] for name, source in members})
    return made


def made_record(shape: Shape, record: tuple[Managed, ...], now_s: int) -> tuple[Managed, ...]:
    """Return the record of ownership after a patch of this shape."""
    made = []
    for index, like, now in shape.entries:
        if like is None:
            made.append(record[index])
            continue
        time_s = now_s if now else record[index].time_s
        made.append(
            Managed(like.manager, like.operation, like.api_version, time_s, like.fields, like.subresource)
        )
    return tuple(made)
