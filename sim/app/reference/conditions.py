"""The language of conditions and events, as rows with an example each.

`sim.check.condition` reads what is described here; a test reads each example with it.
"""

from __future__ import annotations

from typing import NamedTuple


class ConditionRow(NamedTuple):
    """One form of the language.

    part: "how many", "which objects", "what is true of them" or "what happens"
    example: a whole condition, or an event as YAML
    """

    part: str
    form: str
    meaning: str
    example: str


SYNTAX = "[HOW MANY] RESOURCE [WHICH] ... (have | has | are | is) PREDICATE [and PREDICATE] ...  |  ... exist"

_MANY, _WHICH, _TRUE, _EVENT = "how many", "which objects", "what is true of them", "what happens"

CONDITIONS: tuple[ConditionRow, ...] = (
    ConditionRow(_MANY, "all", "every selected object, and there is one", "all nodes have Ready=True"),
    ConditionRow(_MANY, "each", "as all; measured for each object by itself", "each nodes have Ready=Unknown"),
    ConditionRow(_MANY, "any", "at least one", "any pods are terminating"),
    ConditionRow(_MANY, "no", "none", "no pods are Pending"),
    ConditionRow(_MANY, "at least N", "N or more", "at least 3 pods are Running"),
    ConditionRow(_MANY, "at most N", "N or fewer", "at most 2 nodes are cordoned"),
    ConditionRow(_MANY, "exactly N", "this number", "exactly 1 leases are held"),
    ConditionRow(_WHICH, "in zone Z[,Z]", "on or for nodes of a zone", "all pods in zone a are ready"),
    ConditionRow(_WHICH, "in namespace N", "of a namespace", "any pods in namespace shop are ready"),
    ConditionRow(_WHICH, "named N[,N]", "by name; a glob", "all pods named web-* are Running"),
    ConditionRow(_WHICH, "on node N", "bound to a node", "no pods on node node-0 are Running"),
    ConditionRow(_WHICH, "labelled K=V", "with a label", "all pods labelled app=web are ready"),
    ConditionRow(
        _WHICH, "owned by NAME", "made by this object, or by a ReplicaSet or Job that it made",
        "at least 6 pods owned by web are ready",
    ),
    ConditionRow(_TRUE, "TYPE=STATUS", "a condition of the status", "any nodes have Ready=Unknown"),
    ConditionRow(
        _TRUE, "taint KEY[:EFFECT]", "a taint of a node", "any nodes have taint unreachable:NoExecute"
    ),
    ConditionRow(_TRUE, "PHASE", "the phase", "all pods are Running"),
    ConditionRow(
        _TRUE, "ready, terminating, bound, cordoned", "as kubectl shows it", "no nodes are cordoned"
    ),
    ConditionRow(_TRUE, "held", "a lease with a holder", "at least 2 leases are held"),
    ConditionRow(
        _TRUE, "a.b.c=VALUE", "a field; also !=, and >= and <= for numbers and quantities",
        "all deployments named web have status.readyReplicas>=3",
    ),
    ConditionRow(_TRUE, "not PREDICATE", "the opposite", "any pods are not ready"),
    ConditionRow(_TRUE, "exist", "objects are there", "no jobs exist"),
    ConditionRow(
        _EVENT, "created, changed, deleted, removed", "deleted is the mark, removed the end of the object",
        "{created: pods, where: {owner: web}}",
    ),
    ConditionRow(_EVENT, "event: REASON", "an Event object", "{event: FailedScheduling}"),
)  # fmt: skip
