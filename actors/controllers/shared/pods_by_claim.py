"""The index of pods by the claims that they use.

Mirrors  kubernetes v1.25 pkg/controller/volume/common/common.go (PodPVCIndexFunc).
"""

from __future__ import annotations

from sim.api.types import Obj
from sim.api.volumes import claim_name
from sim.client import Informer

CLAIM_INDEX = "pod-pvc-index"


def index_by_claim(pods: Informer) -> None:
    """Add the index to the pod informer; its values are keys of claims."""
    pods.add_index(CLAIM_INDEX, claim_keys)


def claim_keys(pod: Obj) -> tuple[str, ...]:
    """The keys of the claims that a pod uses."""
    namespace = pod["metadata"]["namespace"]
    names = (claim_name(pod, volume) for volume in pod["spec"].get("volumes") or ())
    return tuple(f"{namespace}/{name}" for name in names if name)
