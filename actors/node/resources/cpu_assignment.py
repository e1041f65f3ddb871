"""Which processors are taken for a request, near to each other or distributed over NUMA nodes.
Pure.

Mirrors  pkg/kubelet/cm/cpumanager/cpu_assignment.go: takeByTopologyNUMAPacked,
         takeByTopologyNUMADistributed (v1.25).
Differs  a set of NUMA nodes with free processors in too small groups for a remainder is passed
         over; upstream would not end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from math import inf, sqrt

from actors.node.resources.refusals import Unallocatable
from actors.node.resources.topology import Topology, bits_of


class _Taker:
    """One request being served.  left: what may still be taken; needed: how many are missing."""

    def __init__(self, topology: Topology, available: int, count: int) -> None:
        self.topology = topology
        self.left = available & topology.cpus
        self.needed = count
        self.taken = 0
        self._numa_first = len(topology.sockets) >= len(topology.numa_nodes)

    def fails(self) -> bool:
        """True if there are fewer than needed."""
        return self.needed > self.left.bit_count()

    def take(self, cpus: int) -> None:
        """Take these."""
        self.taken |= cpus
        self.left &= ~self.taken
        self.needed -= cpus.bit_count()

    def free_in(self, cpus: int) -> int:
        """How many of these may still be taken."""
        return (self.left & cpus).bit_count()

    def _sorted(self, parts: Mapping[int, int], within: int) -> list[int]:
        """The parts with free processors in a set, by how many are free, then by number."""
        found = [number for number, cpus in parts.items() if self.left & cpus & within]
        return sorted(found, key=lambda number: (self.free_in(parts[number]), number))

    def numa_nodes(self) -> list[int]:
        """NUMA nodes with free processors, in the order in which they are taken from."""
        parts, whole = dict(enumerate(self.topology.numa_nodes)), self.topology.cpus
        if self._numa_first:
            return self._sorted(parts, whole)
        sockets = self.topology.sockets
        return [node for socket in self.sockets() for node in self._sorted(parts, sockets[socket])]

    def sockets(self) -> list[int]:
        """The same of sockets."""
        parts = dict(enumerate(self.topology.sockets))
        if not self._numa_first:
            return self._sorted(parts, self.topology.cpus)
        nodes = self.topology.numa_nodes
        return [socket for node in self.numa_nodes() for socket in self._sorted(parts, nodes[node])]

    def cores(self) -> list[int]:
        """The same of cores."""
        numbers, parts = (
            (self.sockets(), self.topology.sockets)
            if self._numa_first
            else (self.numa_nodes(), self.topology.numa_nodes)
        )
        return [core for number in numbers for core in self._sorted(self.topology.cores, parts[number])]

    def take_whole(
        self, numbers: Iterable[int], cpus_of: Callable[[int], int], size: int | None = None
    ) -> None:
        """Take whole parts that are free, while that many are needed.

        size: how many processors a free part has; None: as many as it has
        """
        free = [
            number
            for number in numbers
            if self.free_in(cpus_of(number)) == (cpus_of(number).bit_count() if size is None else size)
        ]
        for number in free:
            if self.needed >= cpus_of(number).bit_count():
                self.take(cpus_of(number))

    def take_levels(self) -> None:
        """Take whole NUMA nodes and sockets, the larger level first, then cores, then threads."""
        topology = self.topology
        nodes = self.numa_nodes, topology.numa_nodes.__getitem__, None
        sockets = self.sockets, topology.sockets.__getitem__, topology.cpus_per_socket
        cores = self.cores, topology.cores.__getitem__, topology.cpus_per_core
        for ordered, cpus_of, size in (
            (nodes, sockets, cores) if self._numa_first else (sockets, nodes, cores)
        ):
            self.take_whole(ordered(), cpus_of, size)
            if self.needed < 1:
                return
        for core in self.cores():
            for cpu in bits_of(topology.cores[core] & self.left):
                self.take(1 << cpu)
                if self.needed < 1:
                    return


def take_packed(topology: Topology, available: int, count: int) -> int:
    """So many of the available processors, as near to each other as possible."""
    taker = _Taker(topology, available, count)
    if count < 1:
        return 0
    if taker.fails():
        raise Unallocatable("not enough cpus available to satisfy request")
    taker.take_levels()
    return taker.taken


def take_distributed(topology: Topology, available: int, count: int, group: int) -> int:
    """So many processors, evenly from as few NUMA nodes as can serve the request, in groups.

    group: how many processors, of one core, are taken together
    """
    if count % group:
        return take_packed(topology, available, count)
    taker = _Taker(topology, available, count)
    if count < 1:
        return 0
    if taker.fails():
        raise Unallocatable("not enough cpus available to satisfy request")
    free = {node: taker.free_in(topology.numa_nodes[node]) for node in taker.numa_nodes()}
    groups = (count - 1) // group + 1
    of_node = ((topology.cpus.bit_count() - 1) // group) // len(topology.numa_nodes) + 1
    for size in range((groups - 1) // of_node + 1, min(groups, len(free)) + 1):
        best = _best_nodes(free, size, count, group)
        if best is None:
            continue
        nodes, remainder_nodes = best
        each = count // size // group * group

        def take(node: int, number: int) -> None:
            taker.take(take_packed(topology, taker.left & topology.numa_nodes[node], number))

        for node in nodes:
            take(node, each)
        while taker.needed > 0:
            for node in remainder_nodes:
                if taker.needed > 0 and taker.free_in(topology.numa_nodes[node]) >= group:
                    take(node, group)
        return taker.taken
    return take_packed(topology, available, count)


def _best_nodes(
    free: Mapping[int, int], size: int, count: int, group: int
) -> tuple[Sequence[int], Sequence[int]] | None:
    """The NUMA nodes of a number that leave the most even rest, and those that serve a
    remainder.
    """
    best: tuple[Sequence[int], Sequence[int]] | None = None
    best_balance = inf
    each = count // size // group * group
    for nodes in combinations(free, size):
        if best_balance == 0:
            break
        if sum(free[node] // group for node in nodes) * group < count:
            continue
        if any(free[node] < each for node in nodes):
            continue
        after = {**free, **{node: free[node] - each for node in nodes}}
        balance, remainder_nodes = _best_remainder(after, nodes, count - each * size, group)
        if balance < best_balance:
            best, best_balance = (nodes, remainder_nodes), balance
    return best


def _best_remainder(
    free: Mapping[int, int], nodes: Sequence[int], remainder: int, group: int
) -> tuple[float, Sequence[int]]:
    """The most even rest after the remainder of a request was taken too, and the nodes that serve
    it.
    """
    if remainder == 0:
        return _deviation(free.values()), ()
    able = [node for node in nodes if free[node] >= group]
    best: Sequence[int] = ()
    best_balance = inf
    for size in range(len(able), 0, -1):
        for subset in combinations(able, size):
            if sum(free[node] for node in subset) < remainder:
                continue
            after, missing = dict(free), remainder
            while missing > 0 and any(after[node] >= group for node in subset):
                for node in subset:
                    if missing > 0 and after[node] >= group:
                        after[node] -= group
                        missing -= group
            if missing > 0:
                continue
            if (balance := _deviation(after.values())) < best_balance:
                best, best_balance = subset, balance
    return best_balance, best


def _deviation(values: Iterable[int]) -> float:
    """The standard deviation.  Quirk: the mean and the result are rounded to thousandths."""
    numbers = list(values)
    mean = _rounded(sum(numbers) / len(numbers))
    return _rounded(sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers)))


def _rounded(value: float) -> float:
    """The nearest thousandth, with halves away from zero, as Go rounds."""
    return int(value * 1000 + 0.5) / 1000
