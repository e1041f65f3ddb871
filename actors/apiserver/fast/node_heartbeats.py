"""Heartbeats of a node: patches that change nothing but the heartbeat times of its conditions.

Turns the stored conditions and those of a patch into the resulting conditions, and the record of
ownership into the resulting one, without merging, checking and comparing what is unchanged.

Holds: a result is the one of `sim.api.patch.strategic_merge` and `sim.api.ownership.managed` for
the same patch; it is None where that cannot be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from sim.api.ownership.managed import UPDATE, order
from sim.api.store import Managed
from sim.api.types import Obj

HEARTBEAT = "lastHeartbeatTime"
TIME_LENGTH = 20  # "2022-08-23T00:00:00Z"
Signature = tuple[Any, ...]
type_of = itemgetter("type")


def with_new_times(held: Sequence[Obj], sent: Sequence[Obj]) -> list[Obj] | None:
    """The conditions with the times that were sent; None if the patch would change anything else."""
    news: dict[Any, Obj] = {}
    for condition in sent:
        if type(condition) is not dict:
            return None
        news[condition.get("type")] = condition
    if len(news) != len(sent):
        return None
    after = []
    for before in held:
        now = news.pop(before["type"], None)
        if now is None:
            after.append(before)
            continue
        time = now.get(HEARTBEAT)
        if type(time) is not str or len(time) != TIME_LENGTH or time == before.get(HEARTBEAT):
            return None
        made = {**before, HEARTBEAT: time}
        if len(now) > 2 and {**before, **now} != made:
            return None
        after.append(made)
    return None if news else after


def whole(held: Sequence[Obj], sent: Sequence[Obj]) -> list[Obj] | None:
    """As `with_new_times`, if the last patch had times of the same conditions in the same order."""
    if len(held) != len(sent):
        return with_new_times(held, sent)
    return [{**before, HEARTBEAT: now[HEARTBEAT]} for before, now in zip(held, sent, strict=True)]


def signature(record: tuple[Managed, ...], manager: str, sent: Sequence[Obj]) -> Signature:
    """The key of a template: owners with the fields of each but without times, and which conditions
    the
    manager updates.  Sets of fields are interned.
    """
    owners = [(id(entry.fields), entry.manager, entry.operation, entry.subresource) for entry in record]
    owners.sort()
    return (manager, *owners, *[condition["type"] for condition in sent])


def moved(
    record: tuple[Managed, ...], manager: str, api_version: str, now_s: int
) -> tuple[Managed, ...] | None:
    """The record in which the time of this manager's entry for the status is now; None if it has no
    such entry.
    """
    if not record:
        return record  # no owner is recorded, before and after
    entries = list(record)
    for index, entry in enumerate(record):
        if (
            entry.manager == manager
            and entry.operation == UPDATE
            and entry.subresource == "status"
            and entry.api_version == api_version
        ):
            entries[index] = Managed(manager, UPDATE, api_version, now_s, entry.fields, "status")
            entries.sort(key=order)
            return tuple(entries)
    return None
