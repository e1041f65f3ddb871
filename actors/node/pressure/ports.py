"""What the eviction manager uses of the node agent and of pod workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from actors.node.pod_work import KillablePod, Killer
from actors.node.runtime.containers import PodRuntime
from actors.node.runtime.ports import RuntimeHost
from actors.node.runtime.profile import NodeSpec
from sim.api.types import Obj


class EvictablePod(KillablePod, Protocol):
    """A pod worker as seen by the eviction manager.

    runtime: the pod's sandbox and containers; None before the first sandbox
    """

    runtime: PodRuntime | None


class RuntimeState(Protocol):
    """The container runtime.  up: True once it was ready."""

    up: bool

    @property
    def silent(self) -> bool:
        """True while calls that change nothing get no answer."""
        ...


class DeadContainers(Protocol):
    """The garbage collection of dead containers."""

    def collect(self, *, ended: bool = False) -> None:
        """Remove dead containers; with `ended`, also those of pods that have ended."""
        ...


class UnusedImages(Protocol):
    """The garbage collection of images."""

    def clear(self) -> None:
        """Remove every image that no container uses."""
        ...


class Owner(RuntimeHost, Protocol):
    """What the eviction manager uses of the node agent."""

    spec: NodeSpec

    @property
    def runtime(self) -> RuntimeState:
        """The container runtime."""
        ...

    @property
    def workers(self) -> Mapping[str, EvictablePod]:
        """The workers of all pods, by uid."""
        ...

    @property
    def kills(self) -> Killer:
        """Ends pods."""
        ...

    @property
    def container_gc(self) -> DeadContainers:
        """The garbage collection of dead containers."""
        ...

    @property
    def image_gc(self) -> UnusedImages:
        """The garbage collection of images."""
        ...

    def is_static(self, uid: str) -> bool:
        """True if the pod comes from the manifest directory."""
        ...

    def node_changed(self) -> None:
        """The node's conditions have changed."""
        ...

    def event(
        self,
        pod: Obj,
        type_: str,
        reason: str,
        message: str,
        container: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record an event about a pod."""
        ...
