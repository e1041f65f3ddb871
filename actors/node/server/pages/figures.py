"""What the containers, pods, volumes and disks of a node use at an instant.

Turns a machine and its agent into numbers, from which all pages with statistics are made.

Holds: what a page says of memory and disks is what the agent evicts pods by; a cumulative time
never falls while its container runs.

Mirrors  what pkg/kubelet/stats/cri_stats_provider.go and cadvisor measure (v1.25).
Differs  each reading is of its instant, where upstream samples each 10 to 15 seconds; a load that
         pods share counts in cumulative times by its shares at the readings; the agent, the
         runtime and the kernel themselves use nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.node.agent import NodeAgent
from actors.node.pods.worker import Worker
from actors.node.programs.traffic import QUIET, Traffic
from actors.node.runtime.containers import Container
from actors.node.runtime.forecast import (
    BYTES_PER_INODE,
    available,
    capacity,
    log_bytes_of,
    memory_of,
    pods_use,
)
from sim.api.kinds.common.volumes.binding import claim_name
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.units import quantity_milli, quantity_value

# The kinds of volumes of which upstream measures the use (pkg/volume: SupportsMetrics).
_IN_DIRECTORIES = ("emptyDir", "configMap", "secret", "projected", "downwardAPI")


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system.  used: by what is measured, on a disk that others may use too"""

    available: int
    capacity: int
    used: int
    inodes_free: int
    inodes: int
    inodes_used: int


@dataclass(frozen=True, slots=True)
class ContainerFigures:
    """A running container.

    cpu_milli: the CPU that it uses now; cpu_ns: all that it has used
    memory_limit: 0 without one
    layer, logs, inodes: on disks
    """

    container: Container
    cpu_milli: int
    cpu_ns: int
    memory: int
    memory_limit: int
    layer: int
    logs: int
    inodes: int
    processes: int


@dataclass(frozen=True, slots=True)
class VolumeFigures:
    """A volume of a pod.  claim: the name of its claim, "" without one"""

    name: str
    claim: str
    disk: Disk


@dataclass(frozen=True, slots=True)
class PodFigures:
    """A pod with running containers.  cpu_ns: also of its instances that have ended"""

    worker: Worker
    containers: tuple[ContainerFigures, ...]
    cpu_ns: int

    @property
    def cpu_milli(self) -> int:
        """The CPU that it uses now."""
        return sum(one.cpu_milli for one in self.containers)

    @property
    def memory(self) -> int:
        """Its working set."""
        return sum(one.memory for one in self.containers)

    @property
    def processes(self) -> int:
        """The number of its processes, with that of the sandbox."""
        return 1 + sum(one.processes for one in self.containers)


class Figures:
    """The readings of one incarnation of an agent.

    _loads: id of an instance with a shared load -> the time of that load, and when it was read
    _shared_gone: the time of shared loads of instances that no longer run
    """

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._loads: dict[str, tuple[int, int]] = {}
        self._shared_gone = 0

    def pods(self) -> list[PodFigures]:
        """The pods with running containers, by namespace and name."""
        found = [pod for worker in by_name(self._agent) if (pod := self._pod(worker)) is not None]
        if self._loads:
            self._forget_ended([one.container.ident for pod in found for one in pod.containers])
        return found

    def _pod(self, worker: Worker) -> PodFigures | None:
        now_us, runtime = self._agent.now_us, worker.runtime
        running = runtime.running(now_us) if runtime is not None else []
        if runtime is None or not running:
            return None
        rows = tuple(self._container(worker, one) for one in running)
        shared = sum(self._loads.get(one.ident, (0, 0))[0] for one in running)
        spent = self._agent.machine.cpu.of_pod(runtime, now_us) + shared
        return PodFigures(worker, rows, spent)

    def of(self, uid: str) -> PodFigures | None:
        """One pod, if it has running containers."""
        worker = self._agent.workers.get(uid)
        return None if worker is None else self._pod(worker)

    def _container(self, worker: Worker, container: Container) -> ContainerFigures:
        machine, now_us = self._agent.machine, self._agent.now_us
        behaviour, spec = container.behaviour, spec_of(worker.pod, container.name)
        limits = (spec.get("resources") or {}).get("limits") or {}
        programs = machine.programs.get(worker.uid)
        written = (0, 0) if programs is None else programs.layer(container)
        shared_ns = self._shared(worker.pod, container, limits.get("cpu"))
        return ContainerFigures(
            container,
            behaviour.cpu_milli + self._share(worker.pod, container, limits.get("cpu")),
            machine.cpu.of(container, now_us) + shared_ns,
            memory_of(container, now_us),
            quantity_value(limits["memory"]) if limits.get("memory") else 0,
            behaviour.layer_bytes + written[0],
            log_bytes_of(machine, container, now_us),
            behaviour.inodes + written[1],
            behaviour.processes,
        )

    def _share(self, pod: Obj, container: Container, limit: Any) -> int:
        """What a container takes of the load of its kind, in thousandths of a core."""
        sharing, behaviour = self._agent.machine.sharing, container.behaviour
        if not behaviour.load_milli or sharing is None:
            return 0
        pods = sharing(pod)
        share = behaviour.load_milli // pods if pods else 0
        if limit is None:
            return share
        return max(0, min(share, quantity_milli(limit) - behaviour.cpu_milli))

    def _shared(self, pod: Obj, container: Container, limit: Any) -> int:
        """The time that a container has spent for a shared load, in nanoseconds."""
        now_us, ident = self._agent.now_us, container.ident
        if not container.behaviour.load_milli and ident not in self._loads:
            return 0
        spent, read_us = self._loads.get(ident, (0, container.started_us))
        spent += self._share(pod, container, limit) * (now_us - read_us)
        self._loads[ident] = spent, now_us
        return spent

    def _forget_ended(self, running: list[str]) -> None:
        ended = [ident for ident in self._loads if ident not in running]
        for ident in ended:
            self._shared_gone += self._loads.pop(ident)[0]

    # --- the node ---------------------------------------------------------------------------------

    def node_cpu_ns(self, pods: list[PodFigures]) -> int:
        """The time of all pods that the machine has run since it has power."""
        machine = self._agent.machine
        shared = sum(spent for spent, _ in self._loads.values())
        return machine.cpu.of_all(machine.pods, self._agent.now_us) + self._shared_gone + shared

    def node_memory(self) -> tuple[int, int]:
        """What the machine has available, and its working set, with that of a fault."""
        machine = self._agent.machine
        left = available(machine, "memory", self._agent.now_us)
        return left, capacity(machine, "memory") - left

    def disk(self, name: str) -> Disk:
        """The file system "nodefs" or "imagefs"."""
        machine, now_us = self._agent.machine, self._agent.now_us
        resource = machine.shared(name)
        size, left = capacity(machine, resource), available(machine, resource, now_us)
        inodes = capacity(machine, f"{resource}-inodes")
        free = available(machine, f"{resource}-inodes", now_us)
        return Disk(left, size, size - left, free, inodes, inodes - free)

    def images_disk(self) -> Disk:
        """The file system of images, of which the images use a part."""
        machine, whole = self._agent.machine, self.disk("imagefs")
        used = sum(machine.images.values()) + sum(
            one.behaviour.layer_bytes for pod in machine.pods.values() for one in pod.containers
        )
        used += sum(programs.use()[3] for programs in machine.programs.values())
        return Disk(whole.available, whole.capacity, used, whole.inodes_free, whole.inodes, whole.inodes_used)

    def processes(self) -> int:
        """How many processes run on the machine."""
        return pods_use(self._agent.machine, "pid", self._agent.now_us)

    # --- networks -------------------------------------------------------------------------------

    def network(self, pod: PodFigures) -> Traffic | None:
        """The traffic of a pod; None for one that has the node's network."""
        agent, worker = self._agent, pod.worker
        if worker.pod["spec"].get("hostNetwork"):
            return None
        programs = agent.machine.programs.get(worker.uid)
        found = None if programs is None else programs.traffic
        return QUIET if found is None else found

    def node_network(self) -> Traffic:
        """The traffic of pods and of the agent with other hosts."""
        machine = self._agent.machine
        if machine.fabric is None or not machine.programs:
            return QUIET
        return machine.fabric().hosts.get(machine.spec.name, QUIET)

    # --- volumes ----------------------------------------------------------------------------------

    def volumes(self, pod: PodFigures) -> Iterator[VolumeFigures]:
        """The volumes of a pod, if the agent measures any."""
        if self._agent.options.volume_stats_agg_period_us <= 0:
            return
        worker = pod.worker
        written = self._written(pod)
        programs = self._agent.machine.programs.get(worker.uid)
        for volume in worker.pod["spec"].get("volumes") or ():
            name = volume["name"]
            claim = claim_name(worker.pod, volume) or ""
            held = programs.volumes.get(name) if programs is not None else None
            if claim:
                target = self._agent.volumes.target(worker.uid, name)
                if target is not None and target.disk is not None and not target.is_block:
                    size = quantity_value(
                        str((target.disk["spec"].get("capacity") or {}).get("storage") or "0")
                    )
                    yield VolumeFigures(name, claim, _own_disk(size, held))
            elif any(kind in volume for kind in _IN_DIRECTORIES):
                yield VolumeFigures(name, "", self._directory(volume, held, written.get(name, 0)))

    def _written(self, pod: PodFigures) -> dict[str, int]:
        """What the behaviours of containers say that they hold in the first emptyDir volume."""
        spec = pod.worker.pod["spec"]
        empty = [each["name"] for each in spec.get("volumes") or () if "emptyDir" in each]
        found: dict[str, int] = {}
        for one in pod.containers:
            mounts = spec_of(pod.worker.pod, one.container.name).get("volumeMounts") or ()
            first = next((each["name"] for each in mounts if each["name"] in empty), "")
            if first and one.container.behaviour.volume_bytes:
                found[first] = found.get(first, 0) + one.container.behaviour.volume_bytes
        return found

    def _directory(self, volume: Obj, held: Any, written: int) -> Disk:
        """A directory on the node's file system, or in memory."""
        given = volume.get("emptyDir") or {}
        used = written + (held.filesystem.bytes_used if held is not None else 0)
        inodes = held.filesystem.inodes_used if held is not None else 1
        if given.get("medium") == "Memory":
            size = quantity_value(str(given.get("sizeLimit") or self._agent.spec.capacity.get("memory", "0")))
            return _sized(size, used, inodes)
        disk = self.disk("nodefs")
        return Disk(disk.available, disk.capacity, used, disk.inodes_free, disk.inodes, inodes)


def spec_of(pod: Obj, name: str) -> Obj:
    """The spec of a container of any kind; empty if there is none."""
    kinds = ("containers", "initContainers", "ephemeralContainers")
    specs = (one for kind in kinds for one in pod["spec"].get(kind) or ())
    return next((one for one in specs if one["name"] == name), {})


def by_name(agent: NodeAgent) -> list[Worker]:
    """The workers of an agent, by the namespaces and names of their pods."""
    return sorted(agent.workers.values(), key=lambda one: _place(one.pod))


def _place(pod: Obj) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _own_disk(size: int, held: Any) -> Disk:
    if held is None:
        return _sized(size, 0, 1)
    return _sized(size, held.filesystem.bytes_used, held.filesystem.inodes_used)


def _sized(size: int, used: int, inodes_used: int) -> Disk:
    inodes = max(inodes_used, size // BYTES_PER_INODE)
    return Disk(max(0, size - used), size, used, inodes - inodes_used, inodes, inodes_used)
