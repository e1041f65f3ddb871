"""Options of the node agent about the division of its machine: reservations, control groups, and
the managers of processors, memory and devices.

Mirrors  kubernetes v1.25 pkg/kubelet/apis/config/validation/validation.go,
         validation_reserved_memory.go; pkg/util/flag/flags.go: ReservedMemoryVar;
         cmd/kubelet/app/server.go: run; pkg/kubelet/cm: NewManager of each manager.
Differs  several values of reserved-memory are one text with semicolons. Control groups that options
         name exist on each machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sim.dataclass import dataclass
from sim.ident import NAMES
from sim.options.base import Check, boolean, duration, mapping, more_than, option, string, strings
from sim.options.features.gates import enabled
from sim.patterns import pattern
from sim.units import SECOND, quantity_nano, quantity_value

RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")


def _reserved(value: Mapping[str, str]) -> str | None:
    for resource, text in value.items():
        if resource not in RESERVABLE:
            return f'cannot reserve "{resource}" resource'
        try:
            if quantity_nano(text) < 0:
                return f'resource quantity for "{resource}" cannot be negative: {text}'
        except ValueError:
            return f"{text} of {resource} is no quantity"
    return None


PODS, ENFORCE_NOTHING, SYSTEM_RESERVED = "pods", "none", "system-reserved"
OWN_RESERVED = tuple(f"{names.short}-reserved" for names in NAMES.values())


def _enforced(value: Sequence[str]) -> str | None:
    """validation.go: ValidateKubeletConfiguration."""
    for level in value:
        if level not in (PODS, ENFORCE_NOTHING, SYSTEM_RESERVED, *OWN_RESERVED):
            known = f'"{PODS}", "{SYSTEM_RESERVED}", "{OWN_RESERVED[0]}", or "{ENFORCE_NOTHING}"'
            return f'option "{level}" specified. Valid options are {known}'
        if ENFORCE_NOTHING in value and level != ENFORCE_NOTHING:
            return f'may not contain additional enforcements when "{ENFORCE_NOTHING}" is specified'
    return None


CPUS_MAX = 100_000
_CPU_RANGE = pattern(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


def _cpus(value: object) -> tuple[int, ...]:
    """The cpus of "0-3,8"."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    listed: dict[int, None] = {}
    for part in str(value).split(",") if value else ():
        found = _CPU_RANGE.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
        if not first <= last < CPUS_MAX:
            raise ValueError("cpus such as 0-3,8")
        listed |= dict.fromkeys(range(first, last + 1))
    return tuple(sorted(listed))


def _policy(*known: str) -> Check:
    return lambda value: None if value in known else f'unknown policy: "{value}"'


_TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def _topology_policy(value: str) -> str | None:
    listed = " ".join(f'"{one}"' for one in _TOPOLOGY_POLICIES)
    return None if value in _TOPOLOGY_POLICIES else f'"{value}" must be one of: [{listed}]'


def _topology_scope(value: str) -> str | None:
    return None if value in ("container", "pod") else f'"{value}" must be one of: "container", or "pod"'


QUOTA_US_MIN = 1000  # helpers_linux.go: MinQuotaPeriod
_RESERVED_FORM = "the reserved memory in the form numaNodeID:type=quantity[,type=quantity...]"
_NODE = pattern(r"[0-9]{1,4}")


def _memory(value: object) -> Mapping[int, Mapping[str, int]]:
    """ "0:memory=1Gi;1:memory=500Mi" as NUMA node -> resource -> bytes."""
    found: dict[int, dict[str, int]] = {}
    for part in string(value).split(";") if value else ():
        node, colon, text = part.strip().partition(":")
        pairs = [pair.partition("=") for pair in text.split(",")]
        if not (colon and _NODE.fullmatch(node) and all(equals for _, equals, _ in pairs)):
            raise ValueError(_RESERVED_FORM)
        limits = found.setdefault(int(node), {})
        for name, _, amount in pairs:
            if name != "memory" and not name.startswith("hugepages-"):
                raise ValueError(f'no memory of unknown type: "{name}"')
            if name in limits:
                raise ValueError(
                    f'the reserved memory has a duplicate value for NUMA node {node} and resource "{name}"'
                )
            limits[name] = quantity_value(amount)
    return found


def _some_memory(value: Mapping[int, Mapping[str, int]]) -> str | None:
    for node, limits in value.items():
        for name, size in limits.items():
            if size <= 0:
                return f'reserved memory may not be zero for NUMA node {node} and resource "{name}"'
    return None


@dataclass(frozen=True)  # without slots: it is one of several bases
class ResourceFlags:
    """The options of reservations and managers.  feature_gates: of the class that adds them"""

    orch_reserved: Mapping[str, str] = option("{short}-reserved", mapping, "", check=_reserved)
    system_reserved: Mapping[str, str] = option("system-reserved", mapping, "", check=_reserved)
    reserved_cpus: tuple[int, ...] = option("reserved-cpus", _cpus, "")
    orch_reserved_cgroup: str = option("{short}-reserved-cgroup", string, "")
    system_reserved_cgroup: str = option("system-reserved-cgroup", string, "")
    enforce_node_allocatable: tuple[str, ...] = option(
        "enforce-node-allocatable", strings, PODS, check=_enforced
    )
    cgroups_per_qos: bool = option("cgroups-per-qos", boolean, True)
    cpu_cfs_quota: bool = option("cpu-cfs-quota", boolean, True)
    cpu_cfs_quota_period_us: int = option("cpu-cfs-quota-period", duration, "100ms")
    cpu_manager_policy: str = option("cpu-manager-policy", string, "none", check=_policy("none", "static"))
    cpu_manager_policy_options: Mapping[str, str] = option("cpu-manager-policy-options", mapping, "")
    cpu_manager_reconcile_period_us: int = option(
        "cpu-manager-reconcile-period", duration, "10s", check=more_than(0)
    )
    memory_manager_policy: str = option(
        "memory-manager-policy", string, "None", check=_policy("None", "Static")
    )
    reserved_memory: Mapping[int, Mapping[str, int]] = option(
        "reserved-memory", _memory, "", check=_some_memory
    )
    topology_manager_policy: str = option("topology-manager-policy", string, "none", check=_topology_policy)
    topology_manager_scope: str = option("topology-manager-scope", string, "container", check=_topology_scope)

    def check_resources(self, gates: Mapping[str, str]) -> None:
        """Check the rules between several options.  Raises ValueError.

        gates: the feature gates that are set
        """
        enforced = [level for level in self.enforce_node_allocatable if level != ENFORCE_NOTHING]
        if enforced and not self.cgroups_per_qos:
            raise ValueError(
                "enforce-node-allocatable is not supported unless cgroups-per-qos is set to true"
            )
        cgroups = {SYSTEM_RESERVED: self.system_reserved_cgroup}
        for level in enforced:
            if level != PODS and not cgroups.get(level, self.orch_reserved_cgroup):
                raise ValueError(
                    f'{level}-cgroup must be specified when "{level}" contained in enforce-node-allocatable'
                )
        if self.reserved_cpus and (self.system_reserved_cgroup or self.orch_reserved_cgroup):
            raise ValueError("can't use reserved-cpus with system-reserved-cgroup or a cgroup of its own")
        period_us = self.cpu_cfs_quota_period_us
        if not enabled(gates, "CustomCPUCFSQuotaPeriod"):
            if period_us != SECOND // 10:
                raise ValueError("cpu-cfs-quota-period requires feature gate CustomCPUCFSQuotaPeriod")
        elif not 1 <= period_us <= SECOND:
            raise ValueError("cpu-cfs-quota-period must be between 1usec and 1sec, inclusive")
        if not enabled(gates, "TopologyManager"):
            for name, value, default in (
                ("topology-manager-policy", self.topology_manager_policy, "none"),
                ("topology-manager-scope", self.topology_manager_scope, "container"),
            ):
                if value != default:
                    raise ValueError(f"{name} {value} requires feature gate TopologyManager")
        options_gate = enabled(gates, "CPUManagerPolicyOptions")
        if enabled(gates, "CPUManager") and self.cpu_manager_policy_options and not options_gate:
            raise ValueError(
                "cpu-manager-policy-options require feature gates CPUManager, CPUManagerPolicyOptions enabled"
            )

    def quota_us(self, milli: int) -> int:
        """The time in each period that a limit of cpu allows; 0: no limit.

        Mirrors  pkg/kubelet/cm/helpers_linux.go: MilliCPUToQuota (v1.25).
        """
        if not milli or not self.cpu_cfs_quota:
            return 0
        return max(milli * self.cpu_cfs_quota_period_us // 1000, QUOTA_US_MIN)

    @property
    def enforces_pods(self) -> bool:
        """True if all pods together are limited to the allocatable memory."""
        return PODS in self.enforce_node_allocatable
