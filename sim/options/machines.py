"""What a scenario says of the machines of nodes besides their capacity: how processors and memory
are divided, and the devices of plug-ins.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.dataclass import dataclass
from sim.units import SECOND, quantity_value


@dataclass(frozen=True, slots=True)
class TopologySpec:
    """What a scenario says of a machine's processors and memory.

    memory: quantity text for each NUMA node; without it all have the same
    """

    sockets: int = 1
    numa_nodes: int = 1
    threads_per_core: int = 1
    memory: tuple[str, ...] = ()


PLAIN = TopologySpec()
SWAPS_HEAD = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority"


def swap_row(size: int) -> str:
    """The row of /proc/swaps for a machine's swap, of so many bytes."""
    return f"/dev/sda2                               partition\t{size // 1024}\t\t0\t\t-2"


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """The devices of one plug-in.

    resource: the extended resource as which pods request them
    numa: the NUMA node of each; empty: they are near to none
    env: the variable by which programs learn the ids of their devices; "": there is none
    register_us: how long after the start of an agent its plug-in registers
    """

    resource: str
    ids: tuple[str, ...]
    numa: tuple[int, ...] = ()
    env: str = ""
    register_us: int = SECOND


def topology_problem(spec: TopologySpec, capacity: Mapping[str, str]) -> str | None:
    """Why no machine of this capacity is built like this."""
    cpu_count = quantity_value(capacity.get("cpu", "0"))
    per_core, parts = spec.threads_per_core, max(spec.sockets, spec.numa_nodes)
    if cpu_count % per_core or (cpu_count // per_core) % parts:
        return f"{cpu_count} processors cannot be divided into {parts} equal parts of cores with {per_core} threads"
    if parts % min(spec.sockets, spec.numa_nodes):
        return f"{spec.sockets} sockets and {spec.numa_nodes} NUMA nodes are no multiple of each other"
    if spec.memory and len(spec.memory) != spec.numa_nodes:
        return f"memory has {len(spec.memory)} amounts for {spec.numa_nodes} NUMA nodes"
    total = quantity_value(capacity.get("memory", "0"))
    if spec.memory and sum(map(quantity_value, spec.memory)) != total:
        return f"the memory of all NUMA nodes is not the capacity {capacity.get('memory', '0')}"
    return None


def devices_problem(spec: DeviceSpec, numa_count: int, *, counted: bool) -> str | None:
    """Why no plug-in has these devices.  counted: True if their number is given besides their
    ids
    """
    if counted or not spec.ids:
        return "devices have either a count or ids"
    if len({*spec.ids}) < len(spec.ids):
        return "two devices have the same id"
    if spec.numa and (len(spec.numa) != len(spec.ids) or max(spec.numa) >= numa_count):
        return f"numa names one of {numa_count} NUMA nodes for each of {len(spec.ids)} devices"
    return None
