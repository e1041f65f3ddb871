"""The machine under a node agent: boots, sandboxes and containers that outlive the agent's process.

Turns commands (make a sandbox, start, stop) into records of containers, which the agent reads.
Faults (`end_container`, `set_health`, `press`) call `changed`, so that a running agent plans its
next steps again.

Holds: all that an agent must find after a restart belongs to the machine.

Mirrors  what the container runtime promises to pkg/kubelet/kuberuntime.
Differs  the runtime itself sends SIGKILL at the end of the grace period: an agent that crashes
         during the wait does not save the container.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from actors.node.credentials import Certificates
from actors.node.resources.state import Allocations
from actors.node.runtime.containers import Container, CpuTime, PodRuntime
from actors.node.runtime.log.files import LogFiles
from actors.node.runtime.mounts import Device
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Override, manifest_file
from actors.node.runtime.ramps import Most, Ramp

if TYPE_CHECKING:  # only a run with programs needs it
    from actors.node.programs.network.fabric import Fabric
    from actors.node.runtime.interpreter import Interpreter
    from actors.node.runtime.log.output import ContainerLog
    from actors.node.runtime.pod_programs import PodPrograms, Running
    from sim.kernel.kernel import Kernel

_NONE: Mapping[Any, Any] = MappingProxyType({})

SIGKILL_CODE = 137
# The aspects of a machine that can be faulty, besides the resources that it can be short of.
BAD_RUNTIME, SLOW_RUNTIME, BAD_NETWORK = "runtime", "runtime-delay", "pod-network"
BAD_SANDBOXES = "sandboxes"
# If containerd did not see the end of a container, it shows exit code 255 and reason Unknown.
LOST_CODE = 255
# Sandboxes and containers.
NO_STARTS = (0, 0)


def _log_key(container: Container) -> tuple[str, str, int]:
    """The key of a container's own log."""
    return container.uid, container.name, container.attempt


def _no_listener(_: PodRuntime | None) -> None:
    pass


class FaultRecords:
    """The trace records of a machine's faults.

    pulls: image -> the record of the fault that makes its pulls fail
    aspects: aspect that is faulty -> the record of the fault
    usage: the record of the fault that changed what programs use
    relief: the record by which a use from outside of the pods last ended
    """

    __slots__ = ("aspects", "pulls", "relief", "usage")

    def __init__(self) -> None:
        self.pulls: dict[str, int] = {}
        self.aspects: dict[str, int] = {}
        self.usage = 0
        self.relief = 0


class RuntimeErrors:
    """The messages of RuntimeReady=false and NetworkReady=false; "" while the runtime is well.

    sandboxes: each returns why a pod gets no sandbox, "" if it gets one
    """

    __slots__ = ("network", "runtime", "sandboxes")

    def __init__(self) -> None:
        self.runtime = ""
        self.network = ""
        self.sandboxes: Sequence[Callable[[dict[str, Any]], str]] = ()


class HostFiles:
    """What volumes have changed on the disks of a machine.

    paths: path -> what a hostPath volume has made there
    volumes: path -> the files of a hostPath volume, of pods with programs only
    grouped: volumes with files that have had their group changed
    """

    __slots__ = ("grouped", "paths", "volumes")

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self.volumes: dict[str, Any] = {}
        self.grouped: dict[str, None] = {}


class Addresses:
    """The numbers of pod addresses. used: one bit for each number"""

    __slots__ = ("last", "used")

    def __init__(self) -> None:
        self.last = 1
        self.used = 0


class Machine:
    """One node's hardware and runtime.

    version: of its agent, "" for the release that is simulated
    missing: on a node that holds all images, those that a registry refused, until they are pulled
    manifests: the manifest directory: file -> its pod, or None if the file holds no pod
    logs: the files of the logs that grow, or did
    outputs: the logs of containers that run programs
    programs: pod uid -> the processes of its containers, of pods with programs only
    certificates: those of its agent
    log: keeps what its agent logs; None: nothing does
    rotation_us: when the next rotation of logs may shrink them
    errors: what its runtime reports
    runtime_delay_us: how much longer the runtime's answers take (a slow disk); None: it gives none
    records: the trace records of its faults
    cpu: the CPU time of its containers
    starts: how many sandboxes and containers were started since the agent started
    sharing: how many pods share the load of a pod's kind, this pod included; None: it is alone
    outside: resource -> its use from outside of the pods
    mounts: unique name of a volume -> for which pods it is mounted
    host_files: what volumes have changed on its disks
    allocations: the processors, memory and devices that containers have, on its disk
    broken_devices: resource -> the ids of its devices that are not healthy
    gone_plugins: resource -> since when its plug-in does not run
    disks: uid of a persistent volume -> its files, which all machines of the cluster share
    interpreter: runs programs of containers in place of the known ones, in tests
    oom: the OOM killer (`actors.node.pressure.oom`); None until that may be necessary
    agent: the running NodeAgent, for the log endpoint and for faults
    fabric: gives the network between pods, made at the first call; None: there is none

    Size: it is all that a node keeps while its agent is gone: power, disks, images, pods, faults.
    """

    # A dictionary of so many attributes takes 1.6 KB a node.
    __slots__ = (
        "_addresses", "_removals", "agent", "allocations", "boots", "broken_devices", "certificates",
        "changed", "cpu", "disks", "errors", "fabric", "gone_plugins", "host_files", "images",
        "interpreter", "log", "logs", "manifests", "missing", "mounts", "on_power", "on_start", "oom",
        "outputs", "outside", "pods", "powered", "programs", "records", "rotation_us", "runtime_delay_us",
        "sharing", "spec", "starts", "version",
    )  # fmt: skip

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec
        self.version = ""
        self.boots = 1
        self.powered = True
        # Called when the power is switched on or off.
        self.on_power: Callable[[bool], None] | None = None
        self.on_start: Callable[[PodRuntime, Container], None] | None = None
        self.pods: dict[str, PodRuntime] = {}
        self.images: dict[str, int] = dict(spec.profile.images)
        self.missing: tuple[str, ...] = ()
        self.manifests = _manifests(spec)
        self.logs: Mapping[tuple[str, str, int], LogFiles] = _NONE
        self.outputs: Mapping[tuple[str, str, int], ContainerLog] = _NONE
        self.programs: Mapping[str, PodPrograms] = _NONE
        self.certificates = Certificates()
        self.log: Callable[[str, str | None], None] | None = None
        self.rotation_us = -1
        self.errors = RuntimeErrors()
        self.runtime_delay_us: int | None = 0
        self.records = FaultRecords()
        self.cpu = CpuTime()
        self.starts = NO_STARTS
        self.sharing: Callable[[dict[str, Any]], int] | None = None
        self.outside: dict[str, Ramp | Most] = {}
        self.mounts: dict[str, Device] = {}
        self.host_files = HostFiles()
        self.allocations = Allocations()
        self.broken_devices: Mapping[str, Collection[str]] = _NONE
        self.gone_plugins: Mapping[str, int] = _NONE
        self.disks: dict[str, Any] = {}
        self.interpreter: Interpreter | None = None
        self.oom: Any = None
        self.agent: Any = None
        self.fabric: Callable[[], Fabric] | None = None
        self.changed: Callable[[PodRuntime | None], None] = _no_listener
        # pod uid -> container name -> how often all of its instances were removed
        self._removals: Mapping[str, Mapping[str, int]] = _NONE
        self._addresses = Addresses()

    @property
    def boot_id(self) -> str:
        """The id of the present boot."""
        return _uuid(f"{self.spec.name}/boot/{self.boots}")

    @property
    def machine_id(self) -> str:
        """The id of the installed system."""
        return hashlib.md5(self.spec.name.encode(), usedforsecurity=False).hexdigest()

    @property
    def system_uuid(self) -> str:
        """The id of the hardware."""
        return _uuid(f"{self.spec.name}/system")

    def note_fault(self, aspect: str, record: int) -> None:
        """An aspect of the machine is faulty because of a trace record; 0: it works again."""
        if record:
            self.records.aspects[aspect] = record
        else:
            self.records.aspects.pop(aspect, None)

    def fault_record(self, *aspects: str) -> int:
        """The record of the last of these faults; 0 without one.

        For a caller that finds the faults and did not see them begin.
        """
        return max((self.records.aspects.get(aspect, 0) for aspect in aspects), default=0)

    def shared(self, resource: str) -> str:
        """The resource that a resource shares its amount with.

        Images use the node's file system unless they have a file system of their own.
        """
        return resource if self.spec.profile.image_disk_bytes else resource.replace("imagefs", "nodefs")

    def forget_agent(self) -> None:
        """The agent's process has ended."""
        self.agent = None
        self.changed = _no_listener

    # --- commands of the agent --------------------------------------------------------------------

    def run_sandbox(self, uid: str, namespace: str, name: str, cidr: str, host_ip: str) -> PodRuntime:
        """Make a new sandbox for the pod; everything in the old one must have been stopped."""
        pod = self.pods.get(uid)
        if pod is None:
            pod = self.pods[uid] = PodRuntime(uid, namespace, name)
        self._free_ip(pod)
        pod.attempt += 1
        pod.ready = True
        self.starts = self.starts[0] + 1, self.starts[1]
        if host_ip:
            pod.set_address(host_ip)
        else:
            self._take_ip(pod, cidr)
        return pod

    def start(
        self,
        pod: PodRuntime,
        name: str,
        image: str,
        behaviour: ContainerBehaviour,
        now_us: int,
        fault: Override | None = None,
        previous: Container | None = None,
    ) -> Container:
        """Start a new instance, which runs from now on, or fails at once if its behaviour says so.

        fault: the fault by which it fails or ends
        previous: the instance before it, if that is no longer kept
        """
        old = previous or pod.newest(name)
        # Without one this is the first instance again: the logs, by which instances are counted,
        # were removed with the others.
        attempt = old.attempt + 1 if old is not None else 0
        removals = self._removals.get(pod.uid, _NONE).get(name, 0)
        container = Container(pod, name, attempt, image, behaviour, removals)
        container.started_us = now_us
        if behaviour.start_error:
            container.end(now_us, 128, "StartError", behaviour.start_error, fault)
        elif behaviour.exit_after_us is not None:
            container.end(now_us + behaviour.exit_after_us, behaviour.exit_code, fault=fault)
        pod.add(container)
        if self.on_start is not None:
            self.on_start(pod, container)
        self.starts = self.starts[0], self.starts[1] + 1
        if behaviour.log_rate or self.logs or self.outputs:
            self._forget_logs((container,))
            self.write_log(container, now_us)
        return container

    def log_of(self, container: Container) -> LogFiles | None:
        """The files of a container's log, if the log grows, or did."""
        return self.logs.get(_log_key(container)) if self.logs else None

    def running_program(self, container: Container) -> Running | None:
        """What runs in a container that has processes."""
        programs = self.programs.get(container.uid) if self.programs else None
        return None if programs is None else programs.held.get(container.ident)

    def simulated_program(self, container: Container) -> Running | None:
        """What runs in a container, if its own program is simulated."""
        running = self.running_program(container)
        return None if running is None or running.launch.idle else running

    def programs_of(self, pod: PodRuntime, kernel: Kernel) -> PodPrograms:
        """The processes of a pod, of which there may be none yet."""
        from actors.node.runtime.pod_programs import PodPrograms

        held = self.programs.get(pod.uid)
        if held is None:
            held = PodPrograms(self, kernel, pod)
            self.programs = {**self.programs, pod.uid: held}
        return held

    def plan_end(self, container: Container, at_us: int, code: int, **why: Any) -> None:
        """Let a container end at this instant at the latest, with its processes.

        why: as in `Container.end`
        """
        container.end(at_us, code, **why)
        if self.programs and (programs := self.programs.get(container.uid)) is not None:
            programs.planned(container)

    def output_of(self, container: Container) -> ContainerLog | None:
        """The log of a container that runs programs, or did."""
        return self.outputs.get(_log_key(container)) if self.outputs else None

    def keep_output(self, container: Container, log: ContainerLog) -> None:
        """Store the log of a container that runs programs."""
        self.outputs = {**self.outputs, _log_key(container): log}

    def keep_log(self, container: Container, log: LogFiles) -> None:
        """Store the files of a container's log."""
        self.logs = {**self.logs, _log_key(container): log}

    def write_log(self, container: Container, now_us: int) -> None:
        """Let a container's log grow at the rate of its behaviour from now on."""
        held, rate = self.log_of(container), container.behaviour.log_rate
        if held is not None:
            self.keep_log(container, held.written(rate, now_us))
        elif rate:
            self.keep_log(container, LogFiles(rate, 0, now_us))

    def growing(self, now_us: int) -> bool:
        """True if a log grows."""
        return bool(self.logs) and any(
            (log := self.log_of(container)) is not None and log.rate > 0
            for pod in self.pods.values()
            for container in pod.running(now_us)
        )

    def purge(self, pod: PodRuntime, names: Sequence[str]) -> list[Container]:
        """Remove all instances, which have ended, of these containers; returns them."""
        gone = pod.purge(names)
        self._forget(pod.uid, gone)
        return gone

    def _forget(self, uid: str, gone: Sequence[Container]) -> None:
        """Instances of a pod that have ended are not kept any more."""
        self.cpu.drop(uid, gone, max((one.exit_us or 0 for one in gone), default=0))
        self._forget_logs(gone)

    def _forget_logs(self, gone: Sequence[Container]) -> None:
        if self.logs:
            keys = [_log_key(container) for container in gone]
            self.logs = {key: log for key, log in self.logs.items() if key not in keys}
        if self.outputs:
            keys = [_log_key(container) for container in gone]
            self.outputs = {key: log for key, log in self.outputs.items() if key not in keys} or _NONE

    def limit_memory(
        self, container: Container, limit: int, now_us: int, fault: Override | None = None
    ) -> None:
        """Let the kernel end the container when it uses more than `limit` bytes.

        fault: why it uses that much
        """
        at_us = container.out_of_memory_us(limit)
        if at_us is not None:
            self.plan_end(container, max(at_us, now_us), SIGKILL_CODE, reason="OOMKilled", fault=fault)

    def stop(self, container: Container, grace_us: int, now_us: int, after_us: int = 0) -> int:
        """Send SIGTERM after `after_us` and SIGKILL after the grace period; returns when it ends."""
        if self.running_program(container) is not None:
            self.programs[container.uid].stop(container, grace_us, after_us)
            self.plan_end(container, now_us + grace_us, SIGKILL_CODE)
            assert container.exit_us is not None
            return max(now_us, container.exit_us)
        term_us = container.behaviour.stop_us
        if term_us is not None and after_us + term_us < grace_us:
            container.end(now_us + after_us + term_us, container.behaviour.stop_exit_code)
        else:
            container.end(now_us + grace_us, SIGKILL_CODE)
        assert container.exit_us is not None
        return max(now_us, container.exit_us)

    def stop_sandbox(self, pod: PodRuntime) -> None:
        """Stop the pod's sandbox and free its address."""
        pod.ready = False
        if self.programs and (programs := self.programs.get(pod.uid)) is not None:
            programs.stop_sandbox()
        self._free_ip(pod)

    def drop(self, uid: str, gone: Sequence[Container]) -> None:
        """Remove these dead containers of the pod."""
        pod = self.pods[uid]
        pod.drop(gone)
        self._forget(uid, gone)
        for name in dict.fromkeys(container.name for container in gone):
            if pod.newest(name) is None:
                counts = self._removals.get(uid, _NONE)
                self._removals = {**self._removals, uid: {**counts, name: counts.get(name, 0) + 1}}

    def remove(self, uid: str) -> None:
        """Remove the pod's dead containers and its sandbox."""
        if uid in self._removals:
            self._removals = {held: counts for held, counts in self._removals.items() if held != uid} or _NONE
        self._end_programs((uid,) if uid in self.programs else ())
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._forget(uid, pod.containers)
            self.cpu.forget(uid)
            self._free_ip(pod)

    # --- faults -----------------------------------------------------------------------------------

    def end_container(self, container: Container, now_us: int, code: int, reason: str = "") -> None:
        """End the container's program now (a crash, the OOM killer)."""
        self.plan_end(container, now_us, code, reason=reason)
        self.changed(None)

    def set_health(self, container: Container, healthy: bool | None) -> None:
        """Let the container's probes succeed or fail from now on; None follows its behaviour."""
        container.unhealthy = None if healthy is None else not healthy
        self.changed(None)

    def press(self, resource: str, uses: Sequence[Ramp]) -> None:
        """From now on these uses take up the resource besides the pods."""
        self.outside[self.shared(resource)] = uses[0] if len(uses) == 1 else Most(tuple(uses))
        self.changed(None)

    def end_pressure(self, resource: str) -> None:
        """Only pods use the resource from now on."""
        self.outside.pop(self.shared(resource), None)
        self.changed(None)

    def power_loss(self, now_us: int) -> None:
        """Everything that runs is gone; the disk (dead containers, images) stays."""
        self.powered = False
        self.cpu = CpuTime()
        self.mounts = {}
        self.oom = None
        if self.on_power is not None:
            self.on_power(False)
        for pod in self.pods.values():
            pod.ready = False
            for container in pod.running(now_us):
                container.end(now_us, LOST_CODE, "Unknown")
        for programs in self.programs.values():
            programs.lose_power()

    def _end_programs(self, uids: Sequence[str]) -> None:
        if uids:
            ended = [self.programs[uid] for uid in uids]
            self.programs = {uid: held for uid, held in self.programs.items() if uid not in uids} or _NONE
            for programs in ended:
                programs.kill_all()

    def erase(self) -> None:
        """Lose the disk: what is powered on next is another machine of the same name."""
        self.host_files.paths, self.host_files.volumes = {}, {}
        self.pods = {}
        self.allocations = Allocations()
        self.images = dict(self.spec.profile.images)
        self.missing = ()
        self.manifests = _manifests(self.spec)
        self._removals = _NONE
        self._end_programs(tuple(self.programs))
        self.logs = self.outputs = _NONE
        self._addresses = Addresses()

    def power_on(self) -> None:
        """Boot, if the power is off."""
        if not self.powered:
            self.powered = True
            self.boots += 1
            if self.on_power is not None:
                self.on_power(True)

    # --- pod addresses ----------------------------------------------------------------------------

    def has_address(self, uid: str, cidr: str) -> bool:
        """True if a new sandbox of a pod can get an address of a range.

        0 is the network, 1 the gateway, the last the broadcast address.
        """
        pod = self.pods.get(uid)
        held = pod is not None and pod.host != 0
        return self._addresses.used.bit_count() - held < (1 << (32 - int(cidr.partition("/")[2]))) - 3

    def _take_ip(self, pod: PodRuntime, cidr: str) -> None:
        """Give the pod the next free address after the last one given.

        Mirrors  the host-local network plug-in.
        """
        base, _, bits = cidr.partition("/")
        size = 1 << (32 - int(bits or 24))
        addresses = self._addresses
        host = addresses.last
        for _ in range(size):
            # 0 is the network, 1 the gateway, the last the broadcast address
            host = host + 1 if host < size - 2 else 2
            if not addresses.used >> host & 1:
                addresses.used |= 1 << host
                addresses.last = host
                pod.set_address(intern(base), host)  # one string serves all pods of the node
                return
        pod.set_address("")

    def _free_ip(self, pod: PodRuntime) -> None:
        if pod.host:
            self._addresses.used ^= 1 << pod.host
            pod.set_address(pod.ip)


def _manifests(spec: NodeSpec) -> Mapping[str, dict[str, Any] | None]:
    return {manifest_file(pod): pod for pod in spec.static_pods} or _NONE


def _uuid(text: str) -> str:
    h = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
