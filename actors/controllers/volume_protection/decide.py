"""Which claims and volumes keep their protection finalizer.  Pure.

Turns a claim with the pods of its namespace, or a volume, into the object to write; a pod into the
claims that it may release.

Mirrors  kubernetes v1.25 pkg/controller/volume/pvcprotection, pkg/controller/volume/pvprotection,
         pkg/controller/volume/protectionutil/utils.go, pkg/volume/util/util.go (IsPodTerminated),
         component-helpers storage/ephemeral/ephemeral.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.controllers.shared.pods_by_claim import is_terminated
from sim.api.kinds.common.volumes.binding import claim_name
from sim.api.objects import controller_of, is_deleting, phase_of, with_metadata
from sim.api.types import Obj


def protects(obj: Obj, finalizer: str) -> bool:
    """True if an object has the finalizer."""
    return finalizer in (obj["metadata"].get("finalizers") or ())


def needs_sync(obj: Obj, finalizer: str) -> bool:
    """True if the finalizer is to be added, or may have to be removed."""
    return is_deleting(obj) == protects(obj, finalizer)


def protected(obj: Obj, finalizer: str) -> Obj:
    """The object with the finalizer."""
    return with_metadata(obj, finalizers=[*(obj["metadata"].get("finalizers") or ()), finalizer])


def released(obj: Obj, finalizer: str) -> Obj:
    """The object without the finalizer."""
    return with_metadata(
        obj, finalizers=[name for name in obj["metadata"]["finalizers"] if name != finalizer]
    )


# --- volumes --------------------------------------------------------------------------------------


def is_bound(volume: Obj) -> bool:
    """True if the volume is in use by a claim."""
    return phase_of(volume) == "Bound"


# --- claims ---------------------------------------------------------------------------------------


def is_used(claim: Obj, pods: Iterable[Obj]) -> bool:
    """True if one of the pods of the claim's namespace uses the claim."""
    return any(_uses(pod, claim) for pod in pods)


def _uses(pod: Obj, claim: Obj) -> bool:
    """True if a pod that is bound to a node mounts the claim."""
    spec, name = pod["spec"], claim["metadata"]["name"]
    if not spec.get("nodeName"):
        return False
    for volume in spec.get("volumes") or ():
        source = volume.get("persistentVolumeClaim")
        if source is not None and source.get("claimName") == name:
            return True
        if volume.get("ephemeral") is None or claim_name(pod, volume) != name:
            continue
        owner = controller_of(claim)
        if not _is_shut_down(pod) and owner is not None and owner["uid"] == pod["metadata"].get("uid"):
            return True
    return False


def _is_shut_down(pod: Obj) -> bool:
    """True if the node agent has released the pod, or it was deleted by force."""
    return is_deleting(pod) and pod["metadata"].get("deletionGracePeriodSeconds") == 0


def may_release(pod: Obj) -> bool:
    """True for a pod that does not run on a node, so that a claim of it may be free."""
    return not pod["spec"].get("nodeName") or is_terminated(pod)
