"""Pod objects from an agent's sources: order, differences, references for events.  Pure.

Mirrors  pkg/kubelet/config/config.go: podsDifferSemantically; pkg/kubelet/container/ref.go:
         GenerateContainerRef (v1.25).
"""

from __future__ import annotations

from sys import intern

from sim.api.store import Item
from sim.api.types import Obj


def age(item: Item) -> tuple[str, str]:
    """The sort key of pods: creation time, then name."""
    return item.peek("metadata", "creationTimestamp"), item.key.rpartition("/")[2]


def reference(pod: Obj, container: str) -> Obj:
    """The reference of an event to a pod, or to one of its containers."""
    meta = pod["metadata"]
    reference = {
        "kind": "Pod",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
        "apiVersion": "v1",
        "resourceVersion": meta.get("resourceVersion", ""),
    }
    if container:
        kinds = ("initContainers", "ephemeralContainers")
        kind = next(
            (k for k in kinds if any(c["name"] == container for c in pod["spec"].get(k) or ())), "containers"
        )
        reference["fieldPath"] = intern(f"spec.{kind}{{{container}}}")
    return reference


DECISIVE = ("deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations")


def only_status_differs(old: Obj, new: Obj) -> bool:
    """True if two states of a pod differ in nothing that makes its worker act."""
    if old["spec"] is not new["spec"] and old["spec"] != new["spec"]:
        return False
    before, now = old["metadata"], new["metadata"]
    return [*map(before.get, DECISIVE)] == [*map(now.get, DECISIVE)]
