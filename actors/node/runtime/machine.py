"""The machine under a node agent: boots, sandboxes and containers that outlive the agent's process.

Turns commands (make a sandbox, start, stop) into records whose state is a function of time: when a container
starts, the instant of its end is known unless someone interferes, so a running container costs no event.
The agent reads these records; whoever interferes (`end_container`, `set_health`, `power_loss`) calls
`changed`, by which a living agent learns that it should look again.

Holds: a container's `ident` is its id as the API shows it; all times are the kernel's microseconds; a container's `exit_us` only moves earlier, except before it
is stopped; instances that have ended are kept, newest last, until the agent removes them.

Mirrors  what the container runtime promises to pkg/kubelet/kuberuntime.
Differs  SIGKILL at the end of the grace period is the runtime's own doing: an agent that dies while it waits
         does not save the container.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any

from actors.node.runtime.log_files import LogFiles
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Override, manifest_file
from actors.node.runtime.ramps import Most, Ramp

_NONE: Mapping[Any, Any] = MappingProxyType({})

RUNTIME = "containerd"
RUNTIME_VERSION = "1.6.8"  # of the time of v1.25
SIGKILL_CODE = 137
# What can be wrong with a machine, beside what it is short of: its runtime says so, is slow or does not answer; its network.
BAD_RUNTIME, SLOW_RUNTIME, BAD_NETWORK = "runtime", "runtime-delay", "pod-network"
# containerd shows a container whose end it did not see as exit code 255, reason Unknown.
LOST_CODE = 255


@lru_cache(maxsize=1024)
def _ident(uid: str, sandbox: int, name: str, attempt: int, anew: int) -> str:
    """Worked out when it is asked for: kept, it would be a third of what a running container takes."""
    text = f"{uid}/{sandbox}/{name}/{attempt}" + (f"/{anew}" if anew else "")
    return f"{RUNTIME}://{hashlib.sha256(text.encode()).hexdigest()}"


# Name, image, which sandbox's, which instance, how often all instances of its name had been removed; what a fault says of its
# health (None: nothing), which is so rare that it has no place of its own.
Made = tuple[str, str, int, int, int, bool | None]
End = tuple[int, str, str, Override | None]  # exit code, reason, message, the fault that brings it
NO_END: End = (0, "", "", None)


@lru_cache(maxsize=1024)
def _made(*made: Any) -> Made:
    """The same of all containers of a template."""
    return made


class Container:
    """One instance of a container.  `exit_us` may lie in the future: then it is running until then."""

    __slots__ = ("_end", "_made", "behaviour", "exit_us", "started_us", "uid")

    def __init__(
        self,
        pod: PodRuntime,
        name: str,
        attempt: int,
        image: str,
        behaviour: ContainerBehaviour,
        anew: int = 0,
    ) -> None:
        self.uid = pod.uid
        self._made = _made(name, image, pod.attempt, attempt, anew, None)
        self.behaviour = behaviour
        self.started_us = -1
        self.exit_us: int | None = None
        self._end: End = NO_END

    @property
    def name(self) -> str:
        return self._made[0]

    @property
    def image(self) -> str:
        return self._made[1]

    @property
    def attempt(self) -> int:
        return self._made[3]

    @property
    def unhealthy(self) -> bool | None:
        """As a fault has it; None: as the behaviour says."""
        return self._made[5]

    @unhealthy.setter
    def unhealthy(self, value: bool | None) -> None:
        self._made = (*self._made[:5], value)

    @property
    def exit_code(self) -> int:
        return self._end[0]

    @property
    def reason(self) -> str:
        return self._end[1]

    @property
    def message(self) -> str:
        return self._end[2]

    @property
    def ended_by(self) -> Override | None:
        """The fault that ends it, or will."""
        return self._end[3]

    @property
    def ident(self) -> str:
        name, _, sandbox, attempt, anew, _ = self._made
        return _ident(self.uid, sandbox, name, attempt, anew)

    def running(self, now_us: int) -> bool:
        return self.started_us >= 0 and (self.exit_us is None or self.exit_us > now_us)

    def exited(self, now_us: int) -> bool:
        return self.exit_us is not None and self.exit_us <= now_us

    def healthy(self, now_us: int) -> bool:
        """Whether a probe of it would succeed now."""
        if not self.running(now_us):
            return False
        if self.unhealthy is not None:
            return not self.unhealthy
        age_us, behaviour = now_us - self.started_us, self.behaviour
        if age_us < behaviour.healthy_after_us:
            return False
        return behaviour.unhealthy_after_us is None or age_us < behaviour.unhealthy_after_us

    def next_change_us(self, now_us: int) -> int | None:
        """When `healthy` will next change by itself, if it does: also by its end."""
        if self.started_us < 0:
            return None
        times = [] if self.exit_us is None else [self.exit_us]
        if self.unhealthy is None:
            behaviour, since_us = self.behaviour, self.started_us
            times += [
                since_us + after_us
                for after_us in (behaviour.healthy_after_us, behaviour.unhealthy_after_us)
                if after_us is not None
            ]
        return min([at_us for at_us in times if at_us > now_us], default=None)

    def out_of_memory_us(self, limit: int) -> int | None:
        """When the kernel ends the container for using more than `limit` bytes; None if it never does."""
        behaviour = self.behaviour
        if behaviour.memory_bytes <= limit:
            return None
        # The ramp reaches the limit at the quotient and is above it one microsecond later.
        return self.started_us + behaviour.memory_ramp_us * limit // behaviour.memory_bytes + 1

    def end(
        self, at_us: int, code: int, reason: str = "", message: str = "", by: Override | None = None
    ) -> None:
        """It ends then at the latest, by this fault if there is one."""
        if self.exit_us is None or at_us < self.exit_us:
            self.exit_us = at_us
            self._end = code, reason or ("Completed" if code == 0 else "Error"), message, by


class PodRuntime:
    """A pod's sandbox and containers.  `attempt` counts sandboxes; `ready` is the newest one's state.

    `containers`: the instances that are kept, by name in the order of their first starts, then by age.
    `key`: "namespace/name", the string that informers have.
    """

    __slots__ = ("_address", "_containers", "attempt", "host", "key", "ready", "uid")

    def __init__(self, uid: str, namespace: str, name: str) -> None:
        self.uid = uid
        self.key = intern(f"{namespace}/{name}")
        self.attempt = -1
        self.ready = False
        self._address = ""
        self.host = 0  # number within the node's range; 0: none of its own
        self._containers: tuple[Container, ...] | Container = ()

    @property
    def containers(self) -> tuple[Container, ...]:
        held = self._containers  # mostly there is one: no tuple is kept for it
        return held if isinstance(held, tuple) else (held,)

    @property
    def several(self) -> bool:
        """Whether more than one instance is kept."""
        held = self._containers
        return isinstance(held, tuple) and len(held) > 1

    @property
    def ip(self) -> str:
        return _address(self._address, self.host) if self.host else self._address

    def settle(self, address: str, host: int = 0) -> None:
        """It has this address; with `host`, that of so many behind it."""
        self._address, self.host = address, host

    def instances(self, name: str) -> list[Container]:
        held = self._containers
        if not isinstance(held, tuple):
            return [held] if held.name == name else []
        return [container for container in held if container.name == name]

    def newest(self, name: str) -> Container | None:
        held = self._containers
        if not isinstance(held, tuple):
            return held if held.name == name else None
        for container in reversed(held):
            if container.name == name:
                return container
        return None

    def add(self, container: Container) -> None:
        """A new instance."""
        older, kept = self.instances(container.name), list(self.containers)
        if not older:
            self._containers = (*kept, container) if kept else container
            return
        kept.insert(kept.index(older[-1]) + 1, container)
        self._containers = tuple(kept)

    def purge(self, names: Sequence[str]) -> list[Container]:
        """Nothing is left of the instances of these containers, which have ended; returns them."""
        gone = [held for held in self.containers if held.name in names]
        self.drop(gone)
        return gone

    def drop(self, gone: Sequence[Container]) -> None:
        """These instances, which have ended, are removed."""
        kept = tuple([held for held in self.containers if held not in gone])
        self._containers = kept[0] if len(kept) == 1 else kept

    def running(self, now_us: int) -> list[Container]:
        held = self._containers
        if not isinstance(held, tuple):
            return [held] if held.running(now_us) else []
        newest = {container.name: container for container in held}
        return [container for container in newest.values() if container.running(now_us)]

    def ends(self, now_us: int) -> dict[str, Container]:
        """Of each container the newest instance that has ended."""
        return {container.name: container for container in self.containers if container.exited(now_us)}

    def next_exit_us(self, now_us: int) -> int | None:
        """The earliest end still to come of its containers."""
        soonest: int | None = None
        for container in self.containers:
            exit_us = container.exit_us
            if exit_us is not None and exit_us > now_us and (soonest is None or exit_us < soonest):
                soonest = exit_us
        return soonest


def _log_key(container: Container) -> tuple[str, str, int]:
    """Which log is its own."""
    return container.uid, container.name, container.attempt


def _no_listener(_: PodRuntime | None) -> None:
    pass


class Machine:
    """One node's hardware and runtime."""

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec
        self.boots = 1
        self.powered = True
        self.pods: dict[str, PodRuntime] = {}
        self.images: dict[str, int] = dict(spec.profile.images)
        # Of a node that has all images: those that a registry refused, until they are pulled.
        self.missing: tuple[str, ...] = ()
        # The manifest directory: file -> its pod; None: there is something in it that is none.
        self.manifests = _manifests(spec)
        self.logs: Mapping[tuple[str, str, int], LogFiles] = _NONE  # of containers whose logs grow, or did
        self.looked_us = -1  # when somebody looks next how they have grown
        self.runtime_error = ""  # message of RuntimeReady=false
        self.network_error = ""  # message of NetworkReady=false
        self.runtime_delay_us: int | None = (
            0  # its answers take so much longer (a slow disk); None: there is none
        )
        self.pull_faults: dict[str, int] = {}  # image -> the record of what made its pulls fail
        self.troubles: dict[str, int] = {}  # what is wrong with it -> the record of what made it so
        self.usage_fault = 0  # the record by which programs here use more or less than before
        self.eased = 0  # the record by which something that is no pod last gave a resource back
        # resource -> what is used of it by everything that is no pod
        self.outside: dict[str, Ramp | Most] = {}
        self.agent: Any = None  # the living NodeAgent, for the log endpoint and for faults
        self.changed: Callable[[PodRuntime | None], None] = _no_listener
        # uid, name -> how often all instances of it were removed
        self._wiped: Mapping[str, Mapping[str, int]] = _NONE
        self._last_ip = 1
        self._used_ips = 0  # a bit for each host number

    @property
    def boot_id(self) -> str:
        return _uuid(f"{self.spec.name}/boot/{self.boots}")

    @property
    def machine_id(self) -> str:
        return hashlib.md5(self.spec.name.encode(), usedforsecurity=False).hexdigest()

    @property
    def system_uuid(self) -> str:
        return _uuid(f"{self.spec.name}/system")

    def trouble(self, what: str, record: int) -> None:
        """This is wrong with it, by that record; 0: it is put right."""
        if record:
            self.troubles[what] = record
        else:
            self.troubles.pop(what, None)

    def fault_record(self, *whats: str) -> int:
        """The record of the last of these troubles; 0 if there is none.  For who finds them, and did not see them come."""
        return max((self.troubles.get(what, 0) for what in whats), default=0)

    def shared(self, resource: str) -> str:
        """The resource that a resource shares its amount with.

        Images use the node's file system unless they have a file system of their own.
        """
        return resource if self.spec.profile.image_disk_bytes else resource.replace("imagefs", "nodefs")

    def forget_agent(self) -> None:
        """The agent's process has ended."""
        self.agent = None
        self.changed = _no_listener

    # --- commands of the agent ----------------------------------------------------------------------------

    def run_sandbox(self, uid: str, namespace: str, name: str, cidr: str, host_ip: str) -> PodRuntime:
        """A new sandbox for the pod; what ran in the old one must have been stopped."""
        pod = self.pods.get(uid)
        if pod is None:
            pod = self.pods[uid] = PodRuntime(uid, namespace, name)
        self._free_ip(pod)
        pod.attempt += 1
        pod.ready = True
        if host_ip:
            pod.settle(host_ip)
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
        by: Override | None = None,
        after: Container | None = None,
    ) -> Container:
        """A new instance, running from now on (or failed at once, if its behaviour says so).

        by: the fault by which it fails or ends; after: the one before it, if that is not kept any more
        """
        old = after or pod.newest(name)
        # Without any it is the first one again: their logs, by which they would be counted, went with them.
        attempt = old.attempt + 1 if old is not None else 0
        anew = self._wiped.get(pod.uid, _NONE).get(name, 0)
        container = Container(pod, name, attempt, image, behaviour, anew)
        container.started_us = now_us
        if behaviour.start_error:
            container.end(now_us, 128, "StartError", behaviour.start_error, by)
        elif behaviour.exit_after_us is not None:
            container.end(now_us + behaviour.exit_after_us, behaviour.exit_code, by=by)
        pod.add(container)
        if behaviour.log_rate or self.logs:
            self._forget_logs((container,))
            self.write_log(container, now_us)
        return container

    def log_of(self, container: Container) -> LogFiles | None:
        """The files of its log, if that grows, or did."""
        return self.logs.get(_log_key(container)) if self.logs else None

    def keep_log(self, container: Container, log: LogFiles) -> None:
        self.logs = {**self.logs, _log_key(container): log}

    def write_log(self, container: Container, now_us: int) -> None:
        """From now on its log grows as its behaviour says."""
        held, rate = self.log_of(container), container.behaviour.log_rate
        if held is not None:
            self.keep_log(container, held.written(rate, now_us))
        elif rate:
            self.keep_log(container, LogFiles(rate, 0, now_us))

    def growing(self, now_us: int) -> bool:
        """Whether a log does."""
        return bool(self.logs) and any(
            (log := self.log_of(container)) is not None and log.rate > 0
            for pod in self.pods.values()
            for container in pod.running(now_us)
        )

    def purge(self, pod: PodRuntime, names: Sequence[str]) -> list[Container]:
        """Nothing is left of the instances of these containers, which have ended; returns them."""
        gone = pod.purge(names)
        self._forget_logs(gone)
        return gone

    def _forget_logs(self, gone: Sequence[Container]) -> None:
        if self.logs:
            keys = [_log_key(container) for container in gone]
            self.logs = {key: log for key, log in self.logs.items() if key not in keys}

    def limit_memory(self, container: Container, limit: int, now_us: int, by: Override | None = None) -> None:
        """The kernel ends the container when it uses more than so many bytes, which it does by this fault."""
        at_us = container.out_of_memory_us(limit)
        if at_us is not None:
            container.end(max(at_us, now_us), SIGKILL_CODE, "OOMKilled", by=by)

    def stop(self, container: Container, grace_us: int, now_us: int, after_us: int = 0) -> int:
        """SIGTERM after `after_us`, SIGKILL after the grace period; returns when it will have ended."""
        term_us = container.behaviour.stop_us
        if term_us is not None and after_us + term_us < grace_us:
            container.end(now_us + after_us + term_us, container.behaviour.stop_exit_code)
        else:
            container.end(now_us + grace_us, SIGKILL_CODE)
        assert container.exit_us is not None
        return max(now_us, container.exit_us)

    def stop_sandbox(self, pod: PodRuntime) -> None:
        pod.ready = False
        self._free_ip(pod)

    def drop(self, uid: str, gone: Sequence[Container]) -> None:
        """Remove these of the pod's dead containers."""
        pod = self.pods[uid]
        pod.drop(gone)
        self._forget_logs(gone)
        for name in dict.fromkeys(container.name for container in gone):
            if pod.newest(name) is None:
                wiped = self._wiped.get(uid, _NONE)
                self._wiped = {**self._wiped, uid: {**wiped, name: wiped.get(name, 0) + 1}}

    def remove(self, uid: str) -> None:
        """Forget the pod's dead containers and its sandbox."""
        if uid in self._wiped:
            self._wiped = {held: wiped for held, wiped in self._wiped.items() if held != uid} or _NONE
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._forget_logs(pod.containers)
            self._free_ip(pod)

    # --- faults -------------------------------------------------------------------------------------------

    def end_container(self, container: Container, now_us: int, code: int, reason: str = "") -> None:
        """The container's program ends now (a crash, the OOM killer)."""
        container.end(now_us, code, reason)
        self.changed(None)

    def set_health(self, container: Container, healthy: bool | None) -> None:
        """From now on its probes succeed, fail, or (None) do as its behaviour says."""
        container.unhealthy = None if healthy is None else not healthy
        self.changed(None)

    def press(self, resource: str, uses: Sequence[Ramp]) -> None:
        """From now on these use the resource beside the pods."""
        self.outside[self.shared(resource)] = uses[0] if len(uses) == 1 else Most(tuple(uses))
        self.changed(None)

    def end_pressure(self, resource: str) -> None:
        """Nothing but pods uses the resource from now on."""
        self.outside.pop(self.shared(resource), None)
        self.changed(None)

    def power_loss(self, now_us: int) -> None:
        """Everything that runs is gone; what is on disk (dead containers, images) stays."""
        self.powered = False
        for pod in self.pods.values():
            pod.ready = False
            for container in pod.running(now_us):
                container.end(now_us, LOST_CODE, "Unknown")

    def erase(self) -> None:
        """Its disk is lost, and what else comes back when it is powered on is another machine of its name."""
        self.pods = {}
        self.images = dict(self.spec.profile.images)
        self.missing = ()
        self.manifests = _manifests(self.spec)
        self._wiped = _NONE
        self.logs = _NONE
        self._last_ip, self._used_ips = 1, 0

    def power_on(self) -> None:
        if not self.powered:
            self.powered = True
            self.boots += 1

    # --- pod addresses ------------------------------------------------------------------------------------

    def _take_ip(self, pod: PodRuntime, cidr: str) -> None:
        """The next free address after the last one given, as the host-local plug-in does."""
        base, _, bits = cidr.partition("/")
        size = 1 << (32 - int(bits or 24))
        host = self._last_ip
        for _ in range(size):
            host = host + 1 if host < size - 2 else 2  # 0 network, 1 gateway, last broadcast
            if not self._used_ips >> host & 1:
                self._used_ips |= 1 << host
                self._last_ip = host
                pod.settle(intern(base), host)  # one string for all pods of the node
                return
        pod.settle("")

    def _free_ip(self, pod: PodRuntime) -> None:
        if pod.host:
            self._used_ips ^= 1 << pod.host
            pod.settle(pod.ip)


def _manifests(spec: NodeSpec) -> Mapping[str, dict[str, Any] | None]:
    return {manifest_file(pod): pod for pod in spec.static_pods} or _NONE


@lru_cache(maxsize=1024)
def _address(base: str, offset: int) -> str:
    a, b, c, d = (int(part) for part in base.split("."))
    value = (a << 24) + (b << 16) + (c << 8) + d + offset
    return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"


def _uuid(text: str) -> str:
    h = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
