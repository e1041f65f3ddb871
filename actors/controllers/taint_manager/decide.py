"""How long a pod may stay on a node with NoExecute taints.  Pure.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/scheduler/taint_manager.go
         (getMinTolerationTime).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sim.api.scheduling import NO_EXECUTE, taint_of, tolerates, toleration_of
from sim.units import SECOND

# The pod must go at once. This cancels a running timer, which a toleration of 0 s does not.
UNTOLERATED = -1

Toleration = Mapping[str, Any]
Taint = Mapping[str, Any]


def no_execute_taints(taints: Sequence[Taint]) -> list[Taint]:
    """The taints with the effect NoExecute."""
    return [taint for taint in taints if taint["effect"] == NO_EXECUTE]


def stay_us(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int | None:
    """The time that a pod with these tolerations may stay; None for ever, UNTOLERATED not at all.

    It is the shortest tolerationSeconds among the tolerations that match a taint; a toleration
    without tolerationSeconds sets no limit.
    """
    shortest: int | None = None
    for taint in taints:
        own = taint_of(taint)
        match = next((each for each in tolerations if tolerates((toleration_of(each),), own)), None)
        if match is None:
            return UNTOLERATED
        seconds = match.get("tolerationSeconds")
        if seconds is not None:
            limit = max(0, seconds) * SECOND
            shortest = limit if shortest is None else min(shortest, limit)
    return shortest
