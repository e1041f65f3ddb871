"""Processors and memory of a machine: sockets, NUMA nodes, cores and threads.  Pure.

Turns what a scenario says of a machine into sets of processors.  A set of processors, or of NUMA
nodes, is an integer with a bit for each number.

Mirrors  pkg/kubelet/cm/cpumanager/topology/topology.go: Discover (a core has the number of its
         first thread); pkg/kubelet/cm/cpuset: String; cadvisor's machine information (v1.25).
Differs  processors are numbered as Linux does on most machines of x86: the first thread of each
         core, socket by socket, then all second threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from sim.options.machines import TopologySpec
from sim.units import quantity_value


def bits_of(mask: int) -> Iterator[int]:
    """The numbers in a set, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(numbers: Sequence[int]) -> int:
    """The set of these numbers."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def cpu_text(mask: int) -> str:
    """A set as the kernel writes it, such as 0-3,8."""
    parts, first = list[str](), 0
    while mask:
        first += (mask & -mask).bit_length() - 1
        mask >>= (mask & -mask).bit_length() - 1
        count = (~mask & mask + 1).bit_length() - 1
        parts.append(str(first) if count == 1 else f"{first}-{first + count - 1}")
        mask >>= count
        first += count
    return ",".join(parts)


class Topology:
    """The processors and the memory of one machine.

    cores: core -> its processors; sockets, numa_nodes: the processors of each, by number
    memory: for each NUMA node, resource -> bytes, of memory (with huge pages) and of each size of
        huge pages
    """

    def __init__(self, cpu_count: int, spec: TopologySpec, memory: Sequence[Mapping[str, int]]) -> None:
        core_count = cpu_count // spec.threads_per_core
        self.cores = {
            core: mask_of(range(core, core_count * spec.threads_per_core, core_count))
            for core in range(core_count)
        }
        self.sockets = self._divided(spec.sockets)
        self.numa_nodes = self._divided(spec.numa_nodes)
        self.memory = tuple(memory)

    def _divided(self, count: int) -> tuple[int, ...]:
        """The cores in so many parts of equal size, one after the other."""
        each = len(self.cores) // count
        parts = [0] * count
        for core, mask in self.cores.items():
            parts[min(core // each, count - 1)] |= mask
        return tuple(parts)

    @cached_property
    def cpus(self) -> int:
        """All processors."""
        return sum(self.cores.values())

    @property
    def cpus_per_core(self) -> int:
        """How many threads a core has."""
        return self.cpus.bit_count() // len(self.cores)

    @property
    def cpus_per_socket(self) -> int:
        """How many processors a socket has."""
        return self.cpus.bit_count() // len(self.sockets)

    def in_numa_nodes(self, nodes: int) -> int:
        """The processors of some NUMA nodes."""
        return sum(self.numa_nodes[node] for node in bits_of(nodes))


def topology_of(capacity: Mapping[str, str], spec: TopologySpec) -> Topology:
    """The topology of a machine with this capacity; huge pages are the same on each NUMA node."""
    return _topology_of(tuple(capacity.items()), spec)


@lru_cache(maxsize=64)
def _topology_of(capacity: tuple[tuple[str, str], ...], spec: TopologySpec) -> Topology:
    amounts, count = dict(capacity), spec.numa_nodes
    sizes = [name for name in amounts if name.startswith("hugepages-")]
    total = quantity_value(amounts.get("memory", "0"))
    nodes: list[dict[str, int]] = []
    for node in range(count):
        given = quantity_value(spec.memory[node]) if spec.memory else _share(total, count, node)
        pages = {name: _share(quantity_value(amounts[name]), count, node) for name in sizes}
        nodes.append({"memory": given, **pages})
    return Topology(max(1, quantity_value(amounts.get("cpu", "1"))), spec, nodes)


def _share(total: int, count: int, index: int) -> int:
    """A part of an amount; the first one has the rest too."""
    return total // count + (total % count if index == 0 else 0)
