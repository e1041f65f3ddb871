"""Why a pod does not get what it requests, as its status shows it.

Mirrors  pkg/kubelet/cm/admission/errors.go: GetPodAdmitResult;
         cpumanager/policy_static.go: SMTAlignmentError;
         topologymanager/topology_manager.go: TopologyAffinityError (v1.25).
"""

from __future__ import annotations


class Unallocatable(Exception):
    """A manager cannot allocate what a container requests.

    reason, message: of the pod's status
    """

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason or "UnexpectedAdmissionError"
        self.message = text if reason else f"Allocate failed due to {text}, which is unexpected"


def misaligned(requested: int, per_core: int) -> Unallocatable:
    """A request that is no number of whole cores."""
    text = f"SMT Alignment Error: requested {requested} cpus not multiple cpus per core = {per_core}"
    return Unallocatable(text, "SMTAlignmentError")


def unaligned() -> Unallocatable:
    """Resources that cannot come from NUMA nodes which the policy accepts."""
    return Unallocatable("Resources cannot be allocated with Topology locality", "TopologyAffinityError")
