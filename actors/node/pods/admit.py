"""Whether a pod may run on the node: the node's own admission.  Pure.

Turns a pod, what the node's other pods use, and the Node object into None or (reason, message).

Mirrors  pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/sysctl/allowlist.go,
         pkg/scheduler/framework/plugins fit, nodeaffinity, nodename, nodeports;
         pkg/kubelet/eviction/eviction_manager.go: Admit (v1.25).
Differs  a refused pod that ran before is
         stopped by the first housekeeping; upstream removes its cgroup by then (SIGKILL).
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.node.pod_spec import FIRST, Requests, amount, is_critical, pod_qos
from sim.api.objects import labels_of
from sim.api.scheduling import (
    BEST_EFFORT,
    NO_EXECUTE,
    NO_SCHEDULE,
    required_nodes,
    taint_of,
    tolerates,
    tolerations_of,
)
from sim.api.types import Obj

# allowlist.go: SafeSysctlAllowlist
SAFE_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
)


class Used:
    """Running totals over the admitted pods.

    ports: (protocol, host address, port) of each host port
    """

    __slots__ = ("amounts", "pods", "ports")

    def __init__(self) -> None:
        self.pods = 0
        self.amounts: dict[str, int] = {}
        self.ports: list[tuple[str, str, int]] = []

    def add(self, requests: Requests) -> None:
        """Count a pod that is admitted."""
        self.pods += 1
        for resource, value in requests.amounts:
            self.amounts[resource] = self.amounts.get(resource, 0) + value
        self.ports.extend(requests.ports)

    def remove(self, requests: Requests) -> None:
        """Count a pod no longer."""
        self.pods -= 1
        for resource, value in requests.amounts:
            self.amounts[resource] -= value
        for port in requests.ports:
            self.ports.remove(port)


def refuse_under_pressure(
    pod: Obj, pressures: tuple[str, ...], static: bool, memory_taint: str
) -> tuple[str, str] | None:
    """Why a node under pressure refuses the pod.

    Memory pressure alone refuses only pods of class BestEffort that do not tolerate its taint.
    """
    if not pressures or is_critical(pod, static):
        return None
    if pressures == ("MemoryPressure",):
        taint = (memory_taint, "", NO_SCHEDULE)
        if pod_qos(pod) != BEST_EFFORT or tolerates(tolerations_of(pod["spec"]), taint):
            return None
    return "Evicted", f"The node had condition: [{' '.join(pressures)}]. "


def refuse_sysctls(pod: Obj, allowed: Sequence[str]) -> tuple[str, str] | None:
    """Why the pod's sysctls are refused.

    Safe ones, and those in `allowed` (names, or prefixes that end with "*"), may be set unless the
    pod uses the host's namespace for them.
    """
    spec = pod["spec"]
    for sysctl in (spec.get("securityContext") or {}).get("sysctls") or ():
        name = sysctl["name"].replace("/", ".")
        host, hosts = ("net", "hostNetwork") if name.startswith("net.") else ("ipc", "hostIPC")
        known = (*SAFE_SYSCTLS, *allowed)
        if not any(name == own or (own.endswith("*") and name.startswith(own[:-1])) for own in known):
            return "SysctlForbidden", f'forbidden sysctl: "{name}" not allowlisted'
        if spec.get(hosts):
            return "SysctlForbidden", f'forbidden sysctl: "{name}" not allowed with host {host} enabled'
    return None


def refuse_os(pod: Obj, node: Obj, os_label: str) -> tuple[str, str] | None:
    """Why the operating system of the node does not fit the pod.

    Quirk: a pod also names it in a label.
    """
    labels, named = pod["metadata"].get("labels") or {}, pod["spec"].get("os") or {}
    if os_label not in labels and "name" not in named:
        return None  # the usual case
    runs = ((node.get("status") or {}).get("nodeInfo") or {}).get("operatingSystem", "linux")
    if labels.get(os_label, runs) != runs:
        text = f"Failed to admit pod as the `{os_label}` label doesn't match node label"
        return "PodOSSelectorNodeLabelDoesNotMatch", text
    if named.get("name", runs) != runs:
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    return None


def refuse(pod: Obj, requests: Requests, used: Used, node: Obj, static: bool) -> tuple[str, str] | None:
    """The first reason against the pod, in upstream's order."""
    short = shortages(requests, used, node)
    if short:
        resource, requested, held, capacity = short[0]
        text = f"Node didn't have enough resource: {resource}, requested: {requested}, used: {held}, capacity: {capacity}"
        return f"OutOf{resource}", text
    return refuse_otherwise(pod, requests, used, node, static)


def refuse_otherwise(
    pod: Obj, requests: Requests, used: Used, node: Obj, static: bool
) -> tuple[str, str] | None:
    """The first reason against the pod other than a shortage of resources."""
    name = node["metadata"]["name"]
    if not required_nodes(pod["spec"]).match(name, labels_of(node)):
        return "NodeAffinity", "Predicate NodeAffinity failed"
    if pod["spec"].get("nodeName") not in (None, "", name):
        return "NodeName", "Predicate NodeName failed"
    if requests.ports and any(_ports_clash(port, other) for port in requests.ports for other in used.ports):
        return "NodePorts", "Predicate NodePorts failed"
    taints = [taint_of(taint) for taint in (node.get("spec") or {}).get("taints") or ()]
    if taints and not static:
        tolerations = tolerations_of(pod["spec"])
        if not all(taint[2] != NO_EXECUTE or tolerates(tolerations, taint) for taint in taints):
            return "TaintToleration", "Predicate TaintToleration failed"
    return None


def shortages(requests: Requests, used: Used, node: Obj) -> list[tuple[str, int, int, int]]:
    """Each resource that is short: its name, the request, the use of others, and the capacity."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    found = []
    limit = amount("pods", allocatable.get("pods", 0))
    if used.pods + 1 > limit:
        found.append(("pods", 1, used.pods, limit))
    # An extended resource that the node lacks is ignored.  Quirk: not in init containers
    # (removeMissingExtendedResources).
    wanted = {name: value for name, value in requests.amounts if "/" not in name or name in allocatable}
    wanted |= {name: value for name, value in requests.unchecked if name not in allocatable}
    others = [name for name in wanted if name not in FIRST]
    if not others and not any(wanted.values()):
        return found
    # Quirk: a pod with any request is refused also because of a resource that it does not request,
    # if others use too much of that.
    for resource in (*FIRST, *others):
        requested, held = wanted.get(resource, 0), used.amounts.get(resource, 0)
        capacity = amount(resource, allocatable.get(resource, 0))
        if requested + held > capacity:
            found.append((resource, requested, held, capacity))
    return found


def _ports_clash(a: tuple[str, str, int], b: tuple[str, str, int]) -> bool:
    return a[0] == b[0] and a[2] == b[2] and (a[1] == b[1] or "0.0.0.0" in (a[1], b[1]))
