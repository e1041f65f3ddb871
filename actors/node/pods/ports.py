"""What a pod worker uses of the node agent, and what the helpers of a worker use of it.

`worker`, and the modules that carry out parts of its work (`container_start`, `killing`,
`restarts`, `sandboxes`), depend on these protocols instead of on each other's classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from actors.node.backoff import Backoff
from actors.node.pod_work import Reason, Work
from actors.node.pods.prober import Probe
from actors.node.pods.status_manager import StatusManager
from actors.node.runtime.container_gc import ContainerGC
from actors.node.runtime.containers import PodRuntime
from actors.node.runtime.image_gc import ImageGC
from actors.node.runtime.images import Images
from actors.node.runtime.ports import Host
from actors.node.runtime.profile import NodeSpec
from actors.node.sources.mirrors import Mirrors
from actors.node.sources.references import References
from actors.node.volumes.manager import VolumeManager
from sim.api.types import Obj
from sim.kernel.dice import Dice


class Events(Protocol):
    """Records events about pods and the node."""

    def event(
        self,
        pod: Obj,
        type_: str,
        reason: str,
        message: str,
        container: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record an event about a pod or one of its containers."""
        ...

    def node_event(self, reason: str, text: str = "", type_: str = "Normal") -> None:
        """Record an event about the node."""
        ...


class RuntimeView(Protocol):
    """The container runtime as its last checks showed it."""

    @property
    def silent(self) -> bool:
        """True while calls that change nothing get no answer."""
        ...

    @property
    def network_problem(self) -> str:
        """Why the network of pods is not ready; "" if it is."""
        ...


class Loop(Protocol):
    """The agent's sync loop, which handles nothing while the runtime reports an error."""

    @property
    def asleep(self) -> bool:
        """True while the loop handles nothing."""
        ...

    def resume_later(self, worker: SleepingPod) -> None:
        """Wake the worker when the loop continues."""
        ...

    def answer_later(self, worker: SleepingPod) -> None:
        """Call `answered` of the worker when the runtime answers."""
        ...


class SleepingPod(Protocol):
    """A pod worker as the sync loop knows it."""

    uid: str

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The pod's probes, once they are started."""
        ...

    def wake(self) -> None:
        """Do the next piece of work."""
        ...

    def answered(self) -> None:
        """Continue a call that the runtime had left without an answer."""
        ...

    def replan(self) -> None:
        """Plan again what a change of the machine can lead to."""
        ...


class Agent(Host, Events, Protocol):
    """What pod workers use of the node agent.

    host_ip: the node's address, which pods in its network namespace share
    restarts: the back-off of each container
    """

    spec: NodeSpec
    host_ip: str
    dice: Dice
    restarts: Backoff
    statuses: StatusManager
    mirrors: Mirrors
    references: References
    volumes: VolumeManager
    images: Images
    image_gc: ImageGC
    container_gc: ContainerGC

    @property
    def loop(self) -> Loop:
        """The agent's sync loop."""
        ...

    @property
    def runtime(self) -> RuntimeView:
        """What the agent knows of the container runtime."""
        ...

    @property
    def pod_cidr(self) -> str:
        """The range of the node's pod addresses."""
        ...

    def is_static(self, uid: str) -> bool:
        """True if the pod comes from the manifest directory."""
        ...

    def relist_after(self, at_us: int) -> int:
        """When the first relist of the runtime that begins strictly after an instant has ended."""
        ...

    def tick_after(self, at_us: int) -> int:
        """The first tick of the sync loop strictly after an instant."""
        ...

    def resync_after(self, base_us: int) -> int:
        """The tick at which a pod is synced again after a wait with jitter."""
        ...

    def first_probe_wait_us(self, period_s: int) -> int:
        """How long a probe waits before its first tick."""
        ...

    def housekeeping_after_us(self) -> int:
        """How long it is until the next housekeeping."""
        ...

    def consider_pressure(self) -> None:
        """Plan again what depends on the use of memory, disks and process numbers."""
        ...

    def worker_stopped(self, uid: str) -> None:
        """Nothing of the pod runs any more."""
        ...

    def worker_finished(self, uid: str) -> None:
        """The pod's worker has done all of its work."""
        ...


class PodWorker(Protocol):
    """A pod worker as seen by the modules that carry out parts of its work.

    runtime: the pod's sandbox and containers; None before the first sandbox
    reasons: why containers did not start when that was last tried
    limit_us: when the call of the runtime that is under way is given up; -1 without such a call
    """

    uid: str
    runtime: PodRuntime | None
    reasons: Mapping[str, Reason]
    limit_us: int

    @property
    def agent(self) -> Agent:
        """The agent that runs the worker."""
        ...

    @property
    def pod(self) -> Obj:
        """The newest object of the pod."""
        ...

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The pod's probes, once they are started."""
        ...

    @property
    def wanted(self) -> bool:
        """True until the end of the pod is requested."""
        ...

    @property
    def work(self) -> Work | None:
        """The piece of work that runs now."""
        ...

    def proceed(self, work: Work) -> None:
        """Continue a piece of work that has yielded `WAIT`."""
        ...
