"""The members of a status that upstream encodes even when they are empty.

Turns a status into the same status with those members filled in; the same object where nothing is
missing.

Mirrors  kubernetes v1.25 pkg/apis/*/types.go (fields without omitempty).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.kinds.common.fill import present, within
from sim.api.memo import IdentityMemo
from sim.api.types import Obj

# Members of conditions and container statuses that the encoding writes even when nothing is known.
TRANSITION_TIME: Mapping[str, Any] = {"lastTransitionTime": None}

PROBE_TIMES: Mapping[str, Any] = {"lastProbeTime": None, "lastTransitionTime": None}

UPDATE_TIMES: Mapping[str, Any] = {"lastUpdateTime": None, "lastTransitionTime": None}

HEARTBEAT_TIMES: Mapping[str, Any] = {"lastHeartbeatTime": None, "lastTransitionTime": None}

_wholes: IdentityMemo[list[Obj]] = IdentityMemo()


def with_members(items: list[Obj], members: Mapping[str, Any]) -> list[Obj]:
    """The items with these members; the same list if each item has them all.  Every status write
    calls this.
    """
    names = members.keys()
    for item in items:
        if not names <= item.keys():
            known = _wholes.get(items, members)
            if known is None:
                made = [each if names <= each.keys() else {**members, **each} for each in items]
                known = _wholes.put(made, items, members)
            return known
    return items


def fill_conditions(status: Obj, members: Mapping[str, Any]) -> Obj:
    """The status with these members in each condition."""
    conditions = status.get("conditions")
    if not conditions:
        return status
    whole = with_members(conditions, members)
    return status if whole is conditions else {**status, "conditions": whole}


def fill_status_conditions(obj: Obj, members: Mapping[str, Any] = TRANSITION_TIME) -> Obj:
    """The object with these members in each condition of its status."""
    return within(obj, "status", lambda status: fill_conditions(status, members))


def fill_counters(obj: Obj, *names: str) -> Obj:
    """The object with these counters in its status, 0 where they are missing."""
    zeros = dict.fromkeys(names, 0)
    obj = within(present(obj, {"status": {}}), "status", lambda status: present(status, zeros))
    return fill_status_conditions(obj)
