"""The managers of one agent incarnation together: what a pod gets when it is admitted.

Turns options, the machine's topology and devices, and what earlier incarnations have allocated into
the admission of pods, the processors that programs see, and the amounts of devices in the node's
status.

Holds: an agent without devices and with the default policies has no managers (`managers_of` is
None);
       what a pod has is freed by the next admission or reconciliation after its containers ended.

Mirrors  pkg/kubelet/cm: container_manager_linux.go: NewContainerManager, resourceAllocator;
         topologymanager/scope*.go; cpumanager/cpu_manager.go: reconcileState, removeStaleState;
         internal_container_lifecycle_linux.go (v1.25).
Differs  the period of reconciliation begins with the agent, not with the runtime's first readiness.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from actors.node.resources.cpu_policy import CpuPolicy
from actors.node.resources.devices import DeviceManager
from actors.node.resources.hints import NONE, Hint, Hints, merged
from actors.node.resources.memory_policy import MemoryPolicy
from actors.node.resources.refusals import Unallocatable, unaligned
from actors.node.resources.requests import containers_of
from actors.node.resources.state import Allocations
from actors.node.resources.topology import Topology, topology_of
from actors.node.thresholds import reserved_nano
from sim.api.types import Obj
from sim.options.features.gates import enabled
from sim.options.machines import DeviceSpec, TopologySpec
from sim.options.node.agent import NodeAgentOptions
from sim.units import NANO

STATIC_CPU, STATIC_MEMORY = "static", "Static"


def has_static_cpus(options: NodeAgentOptions) -> bool:
    """True if containers can get processors for themselves."""
    return options.cpu_manager_policy == STATIC_CPU and enabled(options.feature_gates, "CPUManager")


def has_static_memory(options: NodeAgentOptions) -> bool:
    """True if containers get memory of certain NUMA nodes."""
    return options.memory_manager_policy == STATIC_MEMORY and enabled(options.feature_gates, "MemoryManager")


class ResourceManagers:
    """The managers of one incarnation.

    devices: the manager of devices
    active: the uids of the pods that may have something
    sources_ready: True once the pods of all sources are known, so that others can be forgotten
    _hints: the merged hint of each container, by pod uid and name
    """

    def __init__(
        self,
        topology: Topology,
        devices: Sequence[DeviceSpec],
        unhealthy: Mapping[str, Collection[str]],
        options: NodeAgentOptions,
        reserved_cpus: tuple[int, int],
        state: Allocations,
    ) -> None:
        self.sources_ready = False
        self._state = state
        self._hints: dict[tuple[str, str], Hint] = {}
        self._policy = options.topology_manager_policy
        self._whole_pods = options.topology_manager_scope == "pod"
        self._node_count = len(topology.numa_nodes)
        self.devices = DeviceManager(devices, self._node_count, unhealthy, state, self._hint)
        self._providers: list[DeviceManager | CpuPolicy | MemoryPolicy] = [self.devices]
        self.cpus: CpuPolicy | None = None
        self._memory: MemoryPolicy | None = None
        if has_static_cpus(options):
            flags = {name: value == "true" for name, value in options.cpu_manager_policy_options.items()}
            self.cpus = CpuPolicy(topology, flags, *reserved_cpus, state, self._hint)
            self._providers.append(self.cpus)
        if has_static_memory(options):
            self._memory = MemoryPolicy(topology, options.reserved_memory, state, self._hint)
            self._providers.append(self._memory)

    def _hint(self, uid: str, name: str) -> Hint:
        return self._hints.get((uid, name), Hint())

    def admit(self, pod: Obj, active: Collection[str]) -> tuple[str, str] | None:
        """Allocate for all containers of a pod, or say why the pod is refused."""
        uid = pod["metadata"]["uid"]
        self._forget((*active, uid))
        try:
            if self._policy != NONE and self._whole_pods:
                hint = self._merged([provider.pod_hints(pod) for provider in self._providers])
            for container in containers_of(pod):
                if self._policy != NONE:
                    if not self._whole_pods:
                        hint = self._merged([each.hints(pod, container) for each in self._providers])
                    self._hints[uid, container["name"]] = hint
                for provider in self._providers:
                    provider.allocate(pod, container)
        except Unallocatable as refusal:
            return refusal.reason, refusal.message
        return None

    def _merged(self, hints: Sequence[Hints]) -> Hint:
        hint, admits = merged(self._policy, self._node_count, hints)
        if not admits:
            raise unaligned()
        return hint

    def _forget(self, active: Collection[str]) -> None:
        """Free what other pods have, once all pods are known."""
        if not self.sources_ready:
            return
        state = self._state
        for uid in [uid for uid in state.cpus if uid not in active]:
            for name in list(state.cpus[uid]):
                assert self.cpus is not None
                self.cpus.release(uid, name)
        for uid in [uid for uid in state.memory if uid not in active]:
            for name in list(state.memory[uid]):
                assert self._memory is not None
                self._memory.release(uid, name)
        for uid in [uid for uid in state.devices if uid not in active]:
            self.devices.release(uid)
        for key in [key for key in self._hints if key[0] not in active]:
            del self._hints[key]

    # --- containers -------------------------------------------------------------------------------

    def starting(self, pod: Obj, name: str, instance: str) -> None:
        """A container is about to start as this instance."""
        if self._memory is not None:
            self._memory.started(pod, name)
        if self.cpus is not None and not self.cpus.cpus_of(pod["metadata"]["uid"], name):
            self._state.started[instance] = self._state.shared

    def reconcile(self, active: Collection[str]) -> None:
        """Let all containers without processors of their own use those that are shared now."""
        self._forget(active)
        self._state.applied = self._state.shared
        self._state.started.clear()

    @property
    def reconciled(self) -> bool:
        """True if a reconciliation would change nothing for containers."""
        state = self._state
        return state.applied == state.shared and all(each == state.shared for each in state.started.values())


def usable_cpus(state: Allocations, topology: Topology, uid: str, name: str, instance: str) -> int:
    """The processors that the programs of a container may use."""
    own = state.cpus.get(uid, {}).get(name, 0)
    return own or state.started.get(instance) or state.applied or topology.cpus


def memory_nodes(state: Allocations, topology: Topology, uid: str, name: str) -> int:
    """The NUMA nodes of the memory that a container may use."""
    nodes = 0
    for block in state.memory.get(uid, {}).get(name, ()):
        nodes |= block.nodes
    return nodes or (1 << len(topology.numa_nodes)) - 1


def managers_of(
    capacity: Mapping[str, str],
    spec: TopologySpec,
    devices: Sequence[DeviceSpec],
    unhealthy: Mapping[str, Collection[str]],
    options: NodeAgentOptions,
    state: Allocations,
) -> ResourceManagers | None:
    """The managers of an agent; None if it allocates nothing."""
    if not devices and not has_static_cpus(options) and not has_static_memory(options):
        return None
    held = -(-reserved_nano("cpu", capacity.get("cpu", "0"), options) // NANO)
    reserved = sum(1 << cpu for cpu in options.reserved_cpus)
    return ResourceManagers(topology_of(capacity, spec), devices, unhealthy, options, (held, reserved), state)
