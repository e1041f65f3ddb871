"""Small decisions about single objects: the state of a pod, the change of a node, the status to
write.

Mirrors  kubernetes v1.25 pkg/scheduler/eventhandlers.go: assignedPod, responsibleForPod,
         nodeSchedulingPropertiesChange; pkg/api/v1/pod: UpdatePodCondition.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from actors.scheduler.plugins.base import NO_EVENT, ClusterEvent
from sim.api.objects import TERMINAL, is_terminal
from sim.api.types import Obj

NOTHING: Obj = {}


def assigned(pod: Obj) -> bool:
    """Return True if the pod takes room on a node."""
    return bool(pod["spec"].get("nodeName")) and (pod.get("status") or NOTHING).get("phase") not in TERMINAL


def waits(pod: Obj, names: Collection[str]) -> bool:
    """Return True if this scheduler must find a node for the pod."""
    spec = pod["spec"]
    return not spec.get("nodeName") and spec.get("schedulerName") in names and not is_terminal(pod)


def node_event(old: Obj, new: Obj) -> ClusterEvent:
    """Return the first kind of change that may make room for a pod, or NO_EVENT."""
    was, now = old.get("spec") or {}, new.get("spec") or {}
    if was.get("unschedulable") and not now.get("unschedulable"):
        return ClusterEvent.NODE_TAINT  # NodeSpecUnschedulableChange has the same action
    before, after = old.get("status") or {}, new.get("status") or {}
    if before.get("allocatable") != after.get("allocatable"):
        return ClusterEvent.NODE_ALLOCATABLE
    if old["metadata"].get("labels") != new["metadata"].get("labels"):
        return ClusterEvent.NODE_LABEL
    if was.get("taints") != now.get("taints"):
        return ClusterEvent.NODE_TAINT
    if before is not after and _conditions(before) != _conditions(after):
        return ClusterEvent.NODE_CONDITION
    return NO_EVENT


def _conditions(status: Obj) -> dict[str, Any]:
    return {c["type"]: c["status"] for c in status.get("conditions") or ()}


def condition_patch(pod: Obj, reason: str, message: str, now: str) -> Obj | None:
    """Return the status patch that makes PodScheduled False for this reason; None if nothing
    changes.
    """
    wanted = {"status": "False", "reason": reason, "message": message}
    for have in (pod.get("status") or {}).get("conditions") or ():
        if have["type"] == "PodScheduled":
            changed = {key: value for key, value in wanted.items() if have.get(key) != value}
            if not changed:
                return None
            if "status" in changed:
                changed["lastTransitionTime"] = now
            return {"conditions": [{"type": "PodScheduled", **changed}]}
    made = {"type": "PodScheduled", **wanted, "lastProbeTime": None, "lastTransitionTime": now}
    return {"conditions": [made]}


def changed(old: Obj, new: Obj) -> bool:
    """Return True if more differs than status, finalizers and bookkeeping (isPodUpdated)."""
    if old["spec"] is not new["spec"] and old["spec"] != new["spec"]:
        return True
    was, now = old["metadata"], new["metadata"]
    return any(
        was.get(field) != now.get(field)
        for field in ("labels", "annotations", "deletionTimestamp", "ownerReferences")
    )
