"""The node agent and its pods as the parts of the agent see them.

The parts (`runtime`, `heartbeat`, `pressure`, `sources`, `volumes`, `pods`) get the agent in their
constructor, and depend on these protocols instead of on the classes above them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from actors.node.pod_spec import Requests
from actors.node.pod_work import Override, Reason, Work, WorkerState
from actors.node.requests import Api
from actors.node.runtime.containers import PodRuntime
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import NodeSpec
from sim.api.store import Item
from sim.api.types import Obj
from sim.client.events.recorder import EventKind
from sim.ident import Names
from sim.kernel.actor import Context
from sim.options.node.agent import NodeAgentOptions

if TYPE_CHECKING:
    from actors.node.durations import Durations


class NodePod(Protocol):
    """A pod of the node: its worker (`actors.node.pods.worker`) as seen from outside of `pods`.

    item: the newest state of the pod's object
    runtime: the pod's sandbox and containers; None before the first sandbox
    reasons: why containers did not start when that was last tried
    removed: True if the pod's source no longer has the pod
    requests: what the pod uses of the node; None before its admission and after its end
    limit_us: when the call of the runtime that is under way is given up; -1 without such a call
    """

    uid: str
    state: WorkerState
    item: Item
    runtime: PodRuntime | None
    reasons: Mapping[str, Reason]
    removed: bool
    requests: Requests | None
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
    def work(self) -> Work | None:
        """The piece of work that runs now."""
        ...

    def proceed(self, work: Work) -> None:
        """Continue a piece of work that has yielded `WAIT`."""
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

    def replan_probes(self) -> None:
        """Plan again the checks of its probes, because the clock was set."""
        ...

    def sync_is_due(self) -> bool:
        """True if the pod's status does not show the newest ends of containers."""
        ...

    def resync(self) -> None:
        """Run the next regular sync, which is skipped otherwise."""
        ...

    def update(self, item: Item) -> None:
        """Take over a new state of the pod's object."""
        ...

    def kill(self, *, grace_s: int | None = None, override: Override | None = None) -> None:
        """End the pod."""
        ...


class RuntimeState(Protocol):
    """The container runtime as its last checks showed it.  up: True once it was ready."""

    up: bool

    @property
    def silent(self) -> bool:
        """True while calls that change nothing get no answer."""
        ...

    def failed(self) -> bool:
        """True while the runtime has an error other than that of the network."""
        ...

    def texts_change(self) -> bool:
        """True while the texts of the runtime's errors change as time passes."""
        ...


class Agent(Protocol):
    """The node agent (`actors.node.agent`) as its parts see it.

    host_ips: the node's addresses, the main one first, which pods in its network namespace share
    durations: how long its work has taken
    """

    ctx: Context
    machine: Machine
    spec: NodeSpec
    options: NodeAgentOptions
    names: Names
    api: Api
    host_ips: tuple[str, ...]
    durations: Durations

    @property
    def now_us(self) -> int:
        """The kernel's time."""
        ...

    @property
    def sources_ready(self) -> bool:
        """True once each source has delivered the node's pods."""
        ...

    @property
    def node(self) -> Obj:
        """The newest Node object; empty before the first."""
        ...

    @property
    def registered(self) -> bool:
        """True once the API holds the Node object."""
        ...

    @property
    def runtime(self) -> RuntimeState:
        """The container runtime."""
        ...

    @property
    def workers(self) -> Mapping[str, NodePod]:
        """The workers of all pods, by uid."""
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

    def event(
        self,
        pod: Obj,
        type_: EventKind,
        reason: str,
        message: str,
        container: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record an event about a pod or one of its containers."""
        ...

    def event_about(self, obj: Obj, type_: EventKind, reason: str, message: str) -> None:
        """Record an event about an object that is not a pod."""
        ...

    def node_event(self, reason: str, text: str = "", type_: EventKind = "Normal") -> None:
        """Record an event about the node."""
        ...

    def node_changed(self) -> None:
        """The health that the node's status shows has changed."""
        ...

    def images_changed(self) -> None:
        """The machine holds other images: the next status pass reports them."""
        ...

    def volumes_changed(self) -> None:
        """The volumes in use have changed: the next status pass reports them."""
        ...

    def consider_pressure(self) -> None:
        """Plan again what depends on the use of memory, disks and process numbers."""
        ...

    def is_static(self, uid: str) -> bool:
        """True if the pod comes from the manifest directory."""
        ...

    def pod_added(self, item: Item, pod: Obj) -> None:
        """Admit a new pod and start its worker."""
        ...

    def pod_returns(self, uid: str) -> bool:
        """True if a static pod is to start again when its worker has finished."""
        ...

    def pod_removed(self, uid: str) -> None:
        """End a pod that its source no longer has."""
        ...

    def end_pod(
        self, worker: NodePod, override: Override, then: Callable[[bool], None], grace_s: int | None = None
    ) -> None:
        """End a pod; `then` is called once, with True if the pod ended in time."""
        ...

    def resync(self, uid: str) -> None:
        """Let the next regular sync of a pod take place, which is skipped otherwise."""
        ...

    def housekeep_later(self) -> None:
        """Run the next housekeeping, which is skipped otherwise."""
        ...
