"""Parts of strategic-merge patches that the statuses of pods and of the node share.  Pure.

Mirrors  apimachinery pkg/util/strategicpatch: CreateTwoWayMergePatch (v1.25).
"""

from __future__ import annotations

from operator import itemgetter

from sim.api.types import Obj

TYPE = itemgetter("type")


def condition_order(old: list[Obj], new: list[Obj]) -> Obj:
    """The directive for the order of conditions; empty where a merge in place keeps the order.

    Differs  upstream always sends it.
    """
    types = [*map(TYPE, new)]
    if types == [*map(TYPE, old)]:
        return {}
    return {"$setElementOrder/conditions": [{"type": type_} for type_ in types]}
