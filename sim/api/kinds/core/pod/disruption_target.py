"""The condition of a pod that a disruption is about to delete (gate PodDisruptionConditions).

Turns a pod and the cause of its deletion into the pod with the condition, or into the patch of its
status that is sent before the delete.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/storage/eviction.go,
         pkg/controller/{podgc,nodelifecycle/scheduler}, pkg/scheduler/framework/preemption: each
         adds the condition; pkg/util/pod/pod.go (PatchPodStatus).
Differs  the scheduler starts from the victim's status (upstream 1.25: by mistake from that of the
         pod it makes room for).
"""

from __future__ import annotations

from enum import Enum

from sim.api.objects import is_terminal, with_condition
from sim.api.types import Obj


class Disruption(Enum):
    """The component that deletes a pod: reason and message of the condition."""

    EVICTION = ("EvictionByEvictionAPI", "Eviction API: evicting")
    TAINT = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
    COLLECTOR = ("DeletionByPodGC", "PodGC: node no longer exists")
    PREEMPTION = ("PreemptionByKubeScheduler", "Kube-scheduler: preempting")


def disrupted(pod: Obj, by: Disruption, now: str) -> Obj:
    """The pod with the condition; the same object if it has it already."""
    reason, message = by.value
    disruption = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    return with_condition(pod, disruption)


def failed(pod: Obj) -> Obj:
    """The pod with the phase Failed, for a pod that no node agent manages any more."""
    if is_terminal(pod):
        return pod
    return {**pod, "status": {**(pod.get("status") or {}), "phase": "Failed"}}


def status_patch(pod: Obj, wanted: Obj) -> Obj | None:
    """The strategic patch from the status of a pod to the wanted one; None if they are the same.

    The patch names the uid, so that it fails on another pod of that name.
    """
    if wanted is pod:
        return None
    before, after = pod.get("status") or {}, wanted["status"]
    known = before.get("conditions") or []
    changed: Obj = {}
    if after.get("phase") != before.get("phase"):
        changed["phase"] = after["phase"]
    conditions = after.get("conditions") or []
    if conditions is not known:
        changed["$setElementOrder/conditions"] = [{"type": each["type"]} for each in conditions]
        changed["conditions"] = [each for each in conditions if each not in known]
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": changed}
