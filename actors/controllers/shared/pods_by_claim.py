"""The index of pods by the claims that they use, and if they may still use them.

Mirrors  kubernetes v1.25 pkg/controller/volume/common/common.go (PodPVCIndexFunc),
         pkg/volume/util/util.go (IsPodTerminated).
"""

from __future__ import annotations

from sim.api.kinds.common.volumes.binding import claim_names
from sim.api.objects import is_deleting, is_terminal, status_of
from sim.api.types import Obj
from sim.client import Informer

CLAIM_INDEX = "pod-pvc-index"


def index_by_claim(pods: Informer) -> None:
    """Add the index to the pod informer; its values are keys of claims."""
    pods.add_index(CLAIM_INDEX, claim_keys, ("spec", "volumes"))


def claim_keys(pod: Obj) -> tuple[str, ...]:
    """The keys of the claims that a pod uses."""
    names = claim_names(pod)
    if not names:
        return ()
    namespace = pod["metadata"]["namespace"]
    return tuple(f"{namespace}/{name}" for name in names)


def is_terminated(pod: Obj) -> bool:
    """True for a pod that has ended, or is being deleted and has no running container."""
    if is_terminal(pod):
        return True
    return is_deleting(pod) and not any(
        _runs(container)
        for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for container in status_of(pod).get(field) or ()
    )


def _runs(container: Obj) -> bool:
    state = container.get("state") or {}
    return state.get("terminated") is None and state.get("waiting") is None
