"""The requests and limits of pods, as the scheduler's page /metrics/resources shows them.

Turns pods into values of kube_pod_resource_request and kube_pod_resource_limit.

Holds: a pod that has ended has no value; a resource of which a pod takes 0 has none either.

Mirrors  kubernetes v1.25 pkg/scheduler/metrics/resources/resources.go,
         pkg/api/v1/resource/helpers.go (PodRequestsAndLimitsReuse).
"""

from __future__ import annotations

from collections.abc import Iterable

from sim.api.kinds.core.pod.quota import used_by_containers
from sim.api.types import Obj
from sim.kernel.meters import Meters
from sim.units import quantity_nano

FAMILIES = {"requests": "kube_pod_resource_request", "limits": "kube_pod_resource_limit"}
BYTES = ("memory", "storage", "ephemeral-storage")
NANO = 1_000_000_000


def show_resources(pods: Iterable[Obj], shown: Meters) -> None:
    """Show what pods request, and their limits."""
    for pod in pods:
        spec = pod["spec"]
        node = spec.get("nodeName", "")
        if node and (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        meta, priority = pod["metadata"], spec.get("priority")
        of_pod = (meta["namespace"], meta["name"], node, spec.get("schedulerName", ""))
        shown_priority = "" if priority is None else str(priority)
        for kind, family in FAMILIES.items():
            for resource, nano in totals(spec, kind).items():
                if nano:
                    labels = (*of_pod, shown_priority, resource, unit(resource))
                    shown.set(family, labels, nano / NANO)


def totals(spec: Obj, kind: str) -> dict[str, int]:
    """What a pod takes of each resource, in billionths: the sum of its containers, or the largest
    of its init containers, and the overhead.

    kind: "requests" or "limits"; the overhead adds to limits that are not 0
    """
    found = {resource: nano for resource, (nano, _) in used_by_containers(spec, kind).items()}
    for resource, text in (spec.get("overhead") or {}).items():
        if kind == "requests" or found.get(resource):
            found[resource] = found.get(resource, 0) + quantity_nano(text)
    return found


def unit(resource: str) -> str:
    """The unit of a resource; "" for one without."""
    if resource == "cpu":
        return "cores"
    if resource in BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
