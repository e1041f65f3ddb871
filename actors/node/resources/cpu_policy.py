"""The static policy of the CPU manager: processors that one container has for itself.  Pure.

Turns a container of a Guaranteed pod with a whole number of CPUs into processors that are taken
from those that all other containers share.

Holds: the reserved processors stay among the shared ones.

Mirrors  pkg/kubelet/cm/cpumanager: policy_static.go, policy_options.go, cpu_manager.go (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.node.resources.cpu_assignment import take_distributed, take_packed
from actors.node.resources.hints import Hint, Hints, hints_of
from actors.node.resources.refusals import misaligned
from actors.node.resources.requests import containers_of, cpus_of, is_init, of_pod
from actors.node.resources.state import Allocations
from actors.node.resources.topology import Topology
from sim.api.types import Obj

FULL_CORES, DISTRIBUTE, BY_SOCKET = "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket"
Affinity = Callable[[str, str], Hint]  # pod uid, container name -> the merged hint


class CpuPolicy:
    """Decides for one machine.  reserved: the processors that no container gets for itself

    _reusable: of the pod that is being admitted, the processors of its init containers
    """

    def __init__(
        self,
        topology: Topology,
        options: Mapping[str, bool],
        reserved_count: int,
        reserved: int,
        state: Allocations,
        affinity: Affinity,
    ) -> None:
        self._topology = topology
        self._full_cores = options.get(FULL_CORES, False)
        self._distribute = options.get(DISTRIBUTE, False)
        self._by_socket = options.get(BY_SOCKET, False)
        self._state = state
        self._affinity = affinity
        self._reusable: tuple[str, int] = ("", 0)
        self.reserved = reserved or self._take(topology.cpus, reserved_count)
        if not state.shared:
            state.shared = state.applied = topology.cpus

    def cpus_of(self, uid: str, container: str) -> int:
        """The processors that a container has for itself; 0 without any."""
        return self._state.cpus.get(uid, {}).get(container, 0)

    def _take(self, available: int, count: int) -> int:
        if self._distribute:
            group = self._topology.cpus_per_core if self._full_cores else 1
            return take_distributed(self._topology, available, count, group)
        return take_packed(self._topology, available, count)

    def allocate(self, pod: Obj, container: Obj) -> None:
        """Give a container processors, if it gets some.  Raises Unallocatable."""
        count = cpus_of(pod, container)
        if not count:
            return
        per_core = self._topology.cpus_per_core
        if self._full_cores and count % per_core:
            raise misaligned(count, per_core)
        uid, name = pod["metadata"]["uid"], container["name"]
        if not (cpus := self.cpus_of(uid, name)):
            cpus = self._allocated(count, self._affinity(uid, name).nodes, self._reusable_of(uid))
            self._state.cpus.setdefault(uid, {})[name] = cpus
        before = self._reusable_of(uid)
        self._reusable = uid, before | cpus if is_init(pod, name) else before & ~cpus

    def _reusable_of(self, uid: str) -> int:
        return self._reusable[1] if self._reusable[0] == uid else 0

    def _allocated(self, count: int, nodes: int | None, reusable: int) -> int:
        available = (self._state.shared & ~self.reserved) | reusable
        result = 0
        if nodes is not None:
            aligned = available & self._aligned(nodes)
            result = self._take(aligned, min(count, aligned.bit_count()))
        result |= self._take(available & ~result, count - result.bit_count())
        self._state.shared &= ~result
        return result

    def _aligned(self, nodes: int) -> int:
        """The processors of some NUMA nodes, or of their whole sockets."""
        cpus = self._topology.in_numa_nodes(nodes)
        if not self._by_socket:
            return cpus
        return sum(socket for socket in self._topology.sockets if socket & cpus)

    def release(self, uid: str, name: str) -> None:
        """Share the processors of a container again, but those that another of its pod has too."""
        of_pod = self._state.cpus.get(uid, {})
        cpus = of_pod.pop(name, 0)
        for held in of_pod.values():
            cpus &= ~held
        self._state.shared |= cpus
        if not of_pod:
            self._state.cpus.pop(uid, None)

    # --- hints ------------------------------------------------------------------------------------

    def hints(self, pod: Obj, container: Obj) -> Hints:
        """From which NUMA nodes the container could have its processors."""
        count = cpus_of(pod, container)
        if not count:
            return {}
        uid = pod["metadata"]["uid"]
        if held := self.cpus_of(uid, container["name"]):
            return {"cpu": self._hints(held, 0, count) if held.bit_count() == count else []}
        return {"cpu": self._hints(self._state.shared & ~self.reserved, self._reusable_of(uid), count)}

    def pod_hints(self, pod: Obj) -> Hints:
        """From which NUMA nodes all containers of the pod could have their processors."""
        count = of_pod(pod, lambda container: {"cpu": cpus_of(pod, container)})["cpu"]
        if not count:
            return {}
        uid, assigned = pod["metadata"]["uid"], 0
        for container in containers_of(pod):
            if held := self.cpus_of(uid, container["name"]):
                if held.bit_count() != cpus_of(pod, container):
                    return {"cpu": []}
                assigned |= held
        if assigned.bit_count() == count:
            return {"cpu": self._hints(assigned, 0, count)}
        reusable = self._reusable_of(uid) | assigned
        return {"cpu": self._hints(self._state.shared & ~self.reserved, reusable, count)}

    def _hints(self, available: int, reusable: int, count: int) -> list[Hint]:
        topology = self._topology

        def can_now(nodes: int) -> bool:
            cpus = topology.in_numa_nodes(nodes)
            return not reusable & ~cpus and reusable.bit_count() + (available & cpus).bit_count() >= count

        def could_ever(nodes: int) -> bool:
            return topology.in_numa_nodes(nodes).bit_count() >= count

        found = hints_of(range(len(topology.numa_nodes)), could_ever, can_now)
        return [
            Hint(nodes, nodes.bit_count() == least or (self._by_socket and self._fills_sockets(nodes, least)))
            for nodes, least in found
        ]

    def _fills_sockets(self, nodes: int, least: int) -> bool:
        """True if the NUMA nodes are of as few sockets as the least number of nodes needs."""
        per_socket = len(self._topology.numa_nodes) // len(self._topology.sockets)
        if not per_socket:
            return False
        cpus = self._topology.in_numa_nodes(nodes)
        return sum(1 for socket in self._topology.sockets if socket & cpus) == -(-least // per_socket)


def option_problem(policy_options: Mapping[str, str], *, alpha: bool, beta: bool) -> str | None:
    """Why the options of the policy are refused.  alpha, beta: if options of these stages are
    enabled.
    """
    for name, value in policy_options.items():
        if name not in (FULL_CORES, DISTRIBUTE, BY_SOCKET):
            return f'unknown CPU Manager Policy option: "{name}"'
        if name != FULL_CORES and not alpha:
            return f'CPU Manager Policy Alpha-level Options not enabled, but option "{name}" provided'
        if name == FULL_CORES and not beta:
            return f'CPU Manager Policy Beta-level Options not enabled, but option "{name}" provided'
        if value not in ("true", "false"):
            return f'bad value for option "{name}": {value}'
    return None
