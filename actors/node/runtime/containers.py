"""Containers and the sandboxes of pods, as records of the container runtime.

Turns the start of a container into a record with a state that is a function of time: the instant of
its end is known unless a fault interferes, so a running container costs no event.

Holds: a container's `ident` is its id as the API shows it; all times are the kernel's microseconds;
a container's `exit_us` only moves earlier, except before it is stopped; instances that have ended
are kept, newest last, until the agent removes them.

Mirrors  what the container runtime shows to pkg/kubelet/kuberuntime.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any

from actors.node.runtime.profile import ContainerBehaviour, Override

RUNTIME = "containerd"
RUNTIME_VERSION = "1.6.8"  # of the time of v1.25


@lru_cache(maxsize=1024)
def _ident(uid: str, sandbox: int, name: str, attempt: int, removals: int) -> str:
    """The container's id, which stored would take a third of the memory of a running container."""
    text = f"{uid}/{sandbox}/{name}/{attempt}" + (f"/{removals}" if removals else "")
    return f"{RUNTIME}://{hashlib.sha256(text.encode()).hexdigest()}"


# Name, image, number of the sandbox, number of the instance, how often all instances of the name
# had been removed before, and its health by a fault (None: no fault). The last is so rare
# that it has no attribute of its own.
Origin = tuple[str, str, int, int, int, bool | None]
# exit code, reason, message, and the fault that causes it
End = tuple[int, str, str, Override | None]
NO_END: End = (0, "", "", None)


@lru_cache(maxsize=1024)
def _origin(*fields: Any) -> Origin:
    """The origin, as one shared tuple for all containers of a template."""
    return fields


@lru_cache(maxsize=1024)
def _address(base: str, offset: int) -> str:
    a, b, c, d = (int(part) for part in base.split("."))
    value = (a << 24) + (b << 16) + (c << 8) + d + offset
    return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"


class Container:
    """One instance of a container.

    exit_us: its end, which may lie in the future: until then it is running
    _origin, _end: what it was made of, and how it ends
    """

    __slots__ = ("_end", "_origin", "behaviour", "exit_us", "started_us", "uid")

    def __init__(
        self,
        pod: PodRuntime,
        name: str,
        attempt: int,
        image: str,
        behaviour: ContainerBehaviour,
        removals: int = 0,
    ) -> None:
        self.uid = pod.uid
        self._origin = _origin(name, image, pod.attempt, attempt, removals, None)
        self.behaviour = behaviour
        self.started_us = -1
        self.exit_us: int | None = None
        self._end: End = NO_END

    @property
    def name(self) -> str:
        """The container's name in its pod."""
        return self._origin[0]

    @property
    def image(self) -> str:
        """The name of its image."""
        return self._origin[1]

    @property
    def attempt(self) -> int:
        """The number of the instance, from 0."""
        return self._origin[3]

    @property
    def unhealthy(self) -> bool | None:
        """Its health by a fault; None without such a fault."""
        return self._origin[5]

    @unhealthy.setter
    def unhealthy(self, value: bool | None) -> None:
        self._origin = (*self._origin[:5], value)

    @property
    def exit_code(self) -> int:
        """The exit code of its program."""
        return self._end[0]

    @property
    def reason(self) -> str:
        """The reason of its end, as its status shows it."""
        return self._end[1]

    @property
    def message(self) -> str:
        """The message about its end, as its status shows it."""
        return self._end[2]

    @property
    def ended_by(self) -> Override | None:
        """The fault that ends it, now or later."""
        return self._end[3]

    @property
    def ident(self) -> str:
        """The container's id as the API shows it."""
        name, _, sandbox, attempt, removals, _ = self._origin
        return _ident(self.uid, sandbox, name, attempt, removals)

    def running(self, now_us: int) -> bool:
        """True if it runs at an instant."""
        return self.started_us >= 0 and (self.exit_us is None or self.exit_us > now_us)

    def exited(self, now_us: int) -> bool:
        """True if it has ended at an instant."""
        return self.exit_us is not None and self.exit_us <= now_us

    def healthy(self, now_us: int) -> bool:
        """True if a probe of it would succeed now."""
        if not self.running(now_us):
            return False
        if self.unhealthy is not None:
            return not self.unhealthy
        age_us, behaviour = now_us - self.started_us, self.behaviour
        if age_us < behaviour.healthy_after_us:
            return False
        return behaviour.unhealthy_after_us is None or age_us < behaviour.unhealthy_after_us

    def next_change_us(self, now_us: int) -> int | None:
        """When `healthy` will next change by itself, also by the container's end; None if never."""
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
        """When the kernel ends the container for using more than `limit` bytes; None if never."""
        behaviour = self.behaviour
        if behaviour.memory_bytes <= limit:
            return None
        # The ramp reaches the limit at the quotient and is above it one microsecond later.
        start = behaviour.memory_from
        growth_us = behaviour.memory_ramp_us * max(0, limit - start) // (behaviour.memory_bytes - start)
        return self.started_us + growth_us + 1

    def end(
        self, at_us: int, code: int, reason: str = "", message: str = "", fault: Override | None = None
    ) -> None:
        """Let it end at this instant at the latest, because of a fault if one is given."""
        if self.exit_us is None or at_us < self.exit_us:
            self.exit_us = at_us
            self._end = code, reason or ("Completed" if code == 0 else "Error"), message, fault

    def add_message(self, text: str) -> None:
        """Show what its program has left as a message about its end."""
        if text:
            code, reason, message, fault = self._end
            self._end = code, reason, f"{message}: {text}" if message else text, fault


class PodRuntime:
    """A pod's sandbox and containers.

    attempt: the number of the newest sandbox, from 0; -1 before the first
    ready: the state of that sandbox
    key: "namespace/name", as the string that informers hold
    host: the number of its address within the node's range; 0 without an address of its own
    """

    __slots__ = ("_address", "_containers", "attempt", "host", "key", "ready", "uid")

    def __init__(self, uid: str, namespace: str, name: str) -> None:
        self.uid = uid
        self.key = intern(f"{namespace}/{name}")
        self.attempt = -1
        self.ready = False
        self._address = ""
        self.host = 0
        self._containers: tuple[Container, ...] | Container = ()

    @property
    def containers(self) -> tuple[Container, ...]:
        """The instances that are kept: in the order of the containers' first starts, then by age."""
        held = self._containers  # mostly there is one, without a tuple
        return held if type(held) is tuple else (held,)  # type: ignore[return-value]

    @property
    def several(self) -> bool:
        """True if more than one instance is kept."""
        held = self._containers
        return isinstance(held, tuple) and len(held) > 1

    @property
    def ip(self) -> str:
        """The pod's address."""
        return _address(self._address, self.host) if self.host else self._address

    def set_address(self, address: str, host: int = 0) -> None:
        """Give the pod an address; with `host`, the one this many numbers after `address`."""
        self._address, self.host = address, host

    def instances(self, name: str) -> list[Container]:
        """The kept instances of a container, oldest first."""
        held = self._containers
        if not isinstance(held, tuple):
            return [held] if held.name == name else []
        return [container for container in held if container.name == name]

    def newest(self, name: str) -> Container | None:
        """The newest instance of a container, if one is kept."""
        held = self._containers
        if type(held) is not tuple:
            return held if held.name == name else None  # type: ignore[union-attr, return-value]
        for container in reversed(held):
            if container.name == name:
                return container
        return None

    def add(self, container: Container) -> None:
        """Add a new instance."""
        older, kept = self.instances(container.name), list(self.containers)
        if not older:
            self._containers = (*kept, container) if kept else container
            return
        kept.insert(kept.index(older[-1]) + 1, container)
        self._containers = tuple(kept)

    def purge(self, names: Sequence[str]) -> list[Container]:
        """Remove all instances, which have ended, of these containers; returns them."""
        gone = [held for held in self.containers if held.name in names]
        self.drop(gone)
        return gone

    def drop(self, gone: Sequence[Container]) -> None:
        """Remove these instances, which have ended."""
        kept = tuple([held for held in self.containers if held not in gone])
        self._containers = kept[0] if len(kept) == 1 else kept

    def running(self, now_us: int) -> list[Container]:
        """The containers that run at an instant."""
        held = self._containers
        if not isinstance(held, tuple):
            return [held] if held.running(now_us) else []
        newest = {container.name: container for container in held}
        return [container for container in newest.values() if container.running(now_us)]

    def ends(self, now_us: int) -> dict[str, Container]:
        """By container, the newest of its instances that have ended."""
        return {container.name: container for container in self.containers if container.exited(now_us)}

    def next_exit_us(self, now_us: int) -> int | None:
        """The earliest future end of its containers."""
        soonest: int | None = None
        for container in self.containers:
            exit_us = container.exit_us
            if exit_us is not None and exit_us > now_us and (soonest is None or exit_us < soonest):
                soonest = exit_us
        return soonest


_NONE: Mapping[Any, Any] = MappingProxyType({})


class CpuTime:
    """The CPU time that the containers of a machine have used, in nanoseconds of a core.

    Holds: it never falls while the machine has power; a container that uses no CPU costs nothing.

    _before: id of an instance with a use that has changed -> its time until then, and when that was
    _gone: pod uid, or "" for all pods that are gone -> the time of instances that are not kept
    """

    __slots__ = ("_before", "_gone")

    def __init__(self) -> None:
        self._before: Mapping[str, tuple[int, int]] = _NONE
        self._gone: Mapping[str, int] = _NONE

    def of(self, container: Container, now_us: int) -> int:
        """The time of one instance."""
        milli = container.behaviour.cpu_milli
        spent, since_us = 0, container.started_us
        if self._before:
            spent, since_us = self._before.get(container.ident, (0, since_us))
        if not milli or container.started_us < 0:
            return spent
        until_us = now_us if container.exit_us is None else min(now_us, container.exit_us)
        # A thousandth of a core for a microsecond is a nanosecond.
        return spent + milli * max(0, until_us - since_us)

    def of_pod(self, pod: PodRuntime, now_us: int) -> int:
        """The time of a pod."""
        return self._gone.get(pod.uid, 0) + sum(self.of(one, now_us) for one in pod.containers)

    def of_all(self, pods: Mapping[str, PodRuntime], now_us: int) -> int:
        """The time of all pods, also of those that are gone."""
        return self._gone.get("", 0) + sum(self.of_pod(pod, now_us) for pod in pods.values())

    def note(self, container: Container, now_us: int) -> None:
        """The use of a container is about to change."""
        self._before = {**self._before, container.ident: (self.of(container, now_us), now_us)}

    def drop(self, uid: str, gone: Sequence[Container], now_us: int) -> None:
        """These instances are not kept any more.  uid: of the pod"""
        spent = sum(self.of(one, now_us) for one in gone)
        if spent:
            self._gone = {**self._gone, uid: self._gone.get(uid, 0) + spent}
        if self._before:
            idents = [one.ident for one in gone]
            self._before = {key: held for key, held in self._before.items() if key not in idents} or _NONE

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        if spent := self._gone.get(uid, 0):
            others = {key: held for key, held in self._gone.items() if key != uid}
            self._gone = {**others, "": others.get("", 0) + spent}
