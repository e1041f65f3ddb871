"""Lets pods use only nodes on which their claims have, or can get, their volumes.

The choice that passed the filter is bound by `actors.scheduler.volumes.binding` before the pod is.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/volumebinding: volume_binding.go,
         scorer.go; pkg/scheduler/apis/config/v1/defaults.go: the shape of VolumeBindingArgs.
"""

from __future__ import annotations

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import MAX_SCORE, ClusterEvent, Status, VolumePlugin
from actors.scheduler.volumes.pod_volumes import PodVolumes
from sim.api.kinds.common.volumes.binding import foreign_claim_problem
from sim.api.objects import is_deleting, phase_of
from sim.options.features.gates import VOLUME_CAPACITY_PRIORITY

IMMEDIATE = Status("VolumeBinding", ("pod has unbound immediate PersistentVolumeClaims",), True)


class VolumeBinding(VolumePlugin):
    """Refuses pods with claims that cannot be used, and nodes that volumes cannot reach."""

    name = "VolumeBinding"
    absolute_scores = True
    events = (
        ClusterEvent.STORAGE_CLASS
        | ClusterEvent.CLAIM
        | ClusterEvent.VOLUME
        | ClusterEvent.NODE_ADD
        | ClusterEvent.NODE_LABEL
        | ClusterEvent.CSI_NODE
        | ClusterEvent.CSI_DRIVER
        | ClusterEvent.CSI_CAPACITY
    )

    def pre_filter(self, pod: PodVolumes) -> Status | None:
        """Refuse a pod with a claim that does not exist, is lost, is being deleted or should have
        been bound.
        """
        for volume in pod.volumes:
            if (key := pod.claim_key(volume)) and (problem := self._problem(pod, key, "ephemeral" in volume)):
                return self.refuse(problem, unresolvable=True)
        pod.sort_claims()
        return IMMEDIATE if pod.immediate else None

    def _problem(self, pod: PodVolumes, key: str, is_ephemeral: bool) -> str:
        name, claim = key.partition("/")[2], pod.storage.shown_claim(key)
        if claim is None:
            if is_ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return f'persistentvolumeclaim "{name}" not found'
        if phase_of(claim) == "Lost":
            volume = claim["spec"].get("volumeName") or ""
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        if is_deleting(claim):
            return f'persistentvolumeclaim "{name}" is being deleted'
        return foreign_claim_problem(pod.pod, claim) if is_ephemeral else ""

    def filter(self, pod: PodVolumes, node: NodeInfo) -> Status | None:
        """Refuse a node that a volume cannot reach, or where a claim finds none."""
        reasons = pod.choice(node).reasons if pod.bound or pod.waiting else ()
        return self.refuse(*reasons, unresolvable=True) if reasons else None

    def score(self, pod: PodVolumes, node: NodeInfo) -> int:
        """Return how much of the chosen volumes the claims use, if the gate is on: the fuller, the
        better.
        """
        if VOLUME_CAPACITY_PRIORITY not in self.gates:
            return 0
        shares = [
            MAX_SCORE if not capacity or requested > capacity else requested * MAX_SCORE // capacity
            for requested, capacity in pod.used_capacity(node)
        ]
        # Half a point is rounded up, as Go does it.
        return (2 * sum(shares) + len(shares)) // (2 * len(shares)) if shares else 0
