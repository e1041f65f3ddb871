"""The importance, class of service and requests of a pod, from its object.  Pure.

Turns a pod into the few values that admission, preemption, eviction and shutdown compare.

Mirrors  pkg/api/v1/resource/helpers.go: PodRequestsAndLimits;
         pkg/kubelet/types/pod_update.go: IsCriticalPod;
         kuberuntime/security_context_others.go: verifyRunAsNonRoot (v1.25).
Differs  images are taken to run as a user other than root.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from sim.api.memo import IdentityMemo
from sim.api.scheduling import qos_class
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.units import quantity_milli, quantity_value

RestartPolicy = Literal["Always", "OnFailure", "Never"]
CRITICAL_PRIORITY = 2_000_000_000  # scheduling.SystemCriticalPriority
FIRST = ("cpu", "memory", "ephemeral-storage")
# Pods of a template share their containers, so they share their requests.
_REQUESTS: IdentityMemo[Requests] = IdentityMemo()


def restart_policy(pod: Obj) -> RestartPolicy:
    """The pod's restart policy, Always by default."""
    policy: RestartPolicy = pod["spec"].get("restartPolicy", "Always")
    return policy


def should_restart(policy: RestartPolicy, exit_code: int) -> bool:
    """True if a container that ended with this code starts again under the policy."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def priority_of(pod: Obj) -> int:
    """The pod's priority, 0 by default."""
    return int(pod["spec"].get("priority") or 0)


def is_critical(pod: Obj, static: bool) -> bool:
    """True for a static pod, and for a pod of at least the system's critical priority."""
    return static or int(pod["spec"].get("priority") or 0) >= CRITICAL_PRIORITY


def pod_qos(pod: Obj) -> str:
    """The class of service that the status shows, or else that follows from the pod's spec."""
    known = (pod.get("status") or {}).get("qosClass")
    if known:
        return str(known)
    return qos_class(pod["spec"])


@dataclass(frozen=True, slots=True)
class Requests:
    """What a pod uses of the node, in the order in which admission checks it.

    amounts: CPU in thousandths, every other resource in units
    ports: (protocol, host address, port)
    unchecked: extended resources that init containers request; they count although the node may not
        offer them
    """

    amounts: tuple[tuple[str, int], ...]
    ports: tuple[tuple[str, str, int], ...] = ()
    unchecked: tuple[tuple[str, int], ...] = ()


@lru_cache(maxsize=1024, typed=True)
def amount(resource: str, text: object) -> int:
    """A quantity of a resource: CPU in thousandths, every other resource in units."""
    return quantity_milli(str(text)) if resource == "cpu" else quantity_value(str(text))


def requests_of(pod: Obj) -> Requests:
    """The larger of the sum of the app containers and of any init container, plus the overhead."""
    spec = pod["spec"]
    parts = (spec["containers"], spec.get("initContainers"), spec.get("overhead"))
    known = _REQUESTS.get(*parts)
    return _REQUESTS.put(_requests_of(spec), *parts) if known is None else known


def _requests_of(spec: Obj) -> Requests:
    total: dict[str, int] = {}
    ports: list[tuple[str, str, int]] = []
    for container in spec["containers"]:
        for resource, text in ((container.get("resources") or {}).get("requests") or {}).items():
            total[resource] = total.get(resource, 0) + amount(resource, text)
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                ports.append((port.get("protocol", "TCP"), port.get("hostIP") or "0.0.0.0", port["hostPort"]))
    unchecked: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        for resource, text in ((container.get("resources") or {}).get("requests") or {}).items():
            total[resource] = max(total.get(resource, 0), amount(resource, text))
            if "/" in resource and amount(resource, text):
                unchecked[resource] = max(unchecked.get(resource, 0), amount(resource, text))
    for resource, text in (spec.get("overhead") or {}).items():
        total[resource] = total.get(resource, 0) + amount(resource, text)
    amounts = [(resource, total[resource]) for resource in FIRST if resource in total]
    amounts += sorted((resource, value) for resource, value in total.items() if resource not in FIRST)
    return Requests(tuple(amounts), tuple(ports), tuple(unchecked.items()))


def root_problem(pod: Obj, container: Obj) -> str:
    """Why the container may not run as root although its user is root; "" if it may run."""
    whole, own = (holder.get("securityContext") or {} for holder in (pod["spec"], container))
    if (
        not own.get("runAsNonRoot", whole.get("runAsNonRoot"))
        or own.get("runAsUser", whole.get("runAsUser")) != 0
    ):
        return ""
    meta = pod["metadata"]
    about = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
    return f'container\'s runAsUser breaks non-root policy (pod: "{about}", container: {container["name"]})'
