"""The node agent and a pod worker as the parts of a worker see them.

`worker`, and the modules that carry out parts of its work (`container_start`, `killing`,
`restarts`, `sandboxes`), depend on these protocols instead of on each other's classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from actors.node.backoff import Backoff
from actors.node.clients import NodeClients
from actors.node.heartbeat.node_loop import NodeLoop
from actors.node.heartbeat.runtime_health import RuntimeHealth
from actors.node.pods.preemption import Preemption
from actors.node.pods.prober import Probe
from actors.node.pods.status_manager import StatusManager
from actors.node.runtime.container_gc import ContainerGC
from actors.node.runtime.image_store.gc import ImageGC
from actors.node.runtime.image_store.images import Images
from actors.node.runtime.ports import Agent, NodePod
from actors.node.sources.manifests import Manifests
from actors.node.sources.mirrors import Mirrors
from actors.node.sources.references import References
from actors.node.sync_loop import SyncLoop
from actors.node.volumes.manager import VolumeManager
from sim.api.types import Obj
from sim.kernel.draws.dice import Dice


class PodResources(Protocol):
    """The managers of processors, memory and devices (`resources`) as the start of a container sees
    them.
    """

    def starting(self, pod: Obj, name: str, instance: str) -> None:
        """A container is about to start as this instance."""
        ...

    def devices(self, pod: Obj, name: str) -> Sequence[str]:
        """The names below /dev of the devices that a container has."""
        ...

    def environment(self, pod: Obj, name: str) -> Mapping[str, str]:
        """The variables that devices give to a container."""
        ...

    def views(self, pod: Obj, name: str, instance: str) -> tuple[Callable[[], int], Callable[[], int]] | None:
        """The processors and NUMA nodes that an instance may use, when called; None: all."""
        ...


class PodAgent(Agent, Protocol):
    """The agent with the parts that pod workers and housekeeping use.

    restarts: the back-off of each container
    """

    dice: Dice
    loop: SyncLoop
    restarts: Backoff
    statuses: StatusManager
    preemption: Preemption
    mirrors: Mirrors
    manifests: Manifests
    references: References
    volumes: VolumeManager
    images: Images
    image_gc: ImageGC
    container_gc: ContainerGC
    node_loop: NodeLoop
    clients: NodeClients

    @property
    def resources(self) -> PodResources:
        """The managers of processors, memory and devices."""
        ...

    @property
    def runtime(self) -> RuntimeHealth:
        """What the agent knows of the container runtime."""
        ...

    @property
    def pod_cidr(self) -> str:
        """The range of the node's pod addresses."""
        ...

    def first_probe_wait_us(self, period_s: int) -> int:
        """How long a probe waits before its first tick."""
        ...

    def housekeeping_after_us(self) -> int:
        """How long it is until the next housekeeping."""
        ...

    def worker_stopped(self, uid: str) -> None:
        """Nothing of the pod runs any more."""
        ...

    def worker_finished(self, uid: str) -> None:
        """The pod's worker has done all of its work."""
        ...


class PodWorker(NodePod, Protocol):
    """A pod worker as seen by the modules that carry out parts of its work.

    made_us: when a sandbox or container was made that no relist has shown yet; -1 for none
    """

    made_us: int
    probes: tuple[Probe, ...]

    @property
    def agent(self) -> PodAgent:
        """The agent that runs the worker."""
        ...

    @property
    def wanted(self) -> bool:
        """True until the end of the pod is requested."""
        ...
