"""What the managers read in a pod: its containers in the order of allocation, and their requests.
Pure.

Mirrors  cpumanager/policy_static.go: guaranteedCPUs, podGuaranteedCPUs;
         memorymanager/policy_static.go: getRequestedResources, getPodRequestedResources;
         devicemanager/topology_hints.go: getPodDeviceRequest (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sim.api.scheduling import GUARANTEED, qos_class
from sim.api.types import Obj
from sim.units import quantity_milli, quantity_value

Request = Mapping[str, int]


def containers_of(pod: Obj) -> list[Obj]:
    """Init containers first, then the others."""
    spec = pod["spec"]
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def is_init(pod: Obj, name: str) -> bool:
    """True for the name of an init container."""
    return any(container["name"] == name for container in pod["spec"].get("initContainers") or ())


def is_guaranteed(pod: Obj) -> bool:
    """True for a pod of the class Guaranteed."""
    return qos_class(pod["spec"]) == GUARANTEED


def cpus_of(pod: Obj, container: Obj) -> int:
    """How many processors a container gets for itself: a whole number in a Guaranteed pod, else
    0.
    """
    text = ((container.get("resources") or {}).get("requests") or {}).get("cpu")
    if text is None or quantity_milli(str(text)) % 1000 or not is_guaranteed(pod):
        return 0
    return quantity_value(str(text))


def memory_of(container: Obj) -> dict[str, int]:
    """Bytes of memory and of huge pages that a container requests, by resource."""
    requests = (container.get("resources") or {}).get("requests") or {}
    return {
        name: quantity_value(str(text))
        for name, text in requests.items()
        if name == "memory" or name.startswith("hugepages-")
    }


def limits_of(container: Obj) -> dict[str, int]:
    """Whole units of each resource to which a container is limited."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: quantity_value(str(text)) for name, text in limits.items()}


def of_pod(pod: Obj, request_of: Callable[[Obj], Request]) -> dict[str, int]:
    """The requests of the app containers together, or the largest of an init container, if more."""
    init: dict[str, int] = {}
    total: dict[str, int] = {}
    for container in pod["spec"].get("initContainers") or ():
        for name, amount in request_of(container).items():
            init[name] = max(init.get(name, 0), amount)
    for container in pod["spec"]["containers"]:
        for name, amount in request_of(container).items():
            total[name] = total.get(name, 0) + amount
    return {name: max(total.get(name, 0), init.get(name, 0)) for name in {**init, **total}}
