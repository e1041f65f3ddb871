"""One node agent: sources, workers, heartbeats and the machine under them, put together.

Turns a `Machine` and clients into `main(ctx)`, a plain function that sets up callbacks and returns: thousands of
agents cost no task.  What an incarnation keeps is lost with it; what must survive (containers, images) is the
machine's.

Holds: a steady node runs one event per lease renewal and one status pass per five minutes; a steady pod none.

Mirrors  pkg/kubelet/kubelet.go: Run, syncLoopIteration, HandlePodAdditions/Updates/Removes/Reconcile,
         HandlePodCleanups (v1.25).
Differs  tickers (relist, sync, housekeeping) are points in time computed when needed, and keep the kernel's time however
         the agent's clock drifts; back-offs, grace periods and heartbeats go by that clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import intern
from typing import Protocol

from actors.node.causes import caused
from actors.node.heartbeat.leases import Leases
from actors.node.heartbeat.node_loop import NodeLoop
from actors.node.heartbeat.node_status import WELL, Health, host_address
from actors.node.heartbeat.runtime_health import RuntimeHealth
from actors.node.heartbeat.shutdown import NOT_READY, REFUSAL, Shutdown
from actors.node.pods.admit import (
    Requests,
    Used,
    is_critical,
    refuse,
    refuse_os,
    refuse_otherwise,
    refuse_sysctls,
    refuse_under_pressure,
    requests_of,
)
from actors.node.pods.backoff import Backoff
from actors.node.pods.kill_waits import Kills
from actors.node.pods.pod_objects import age, only_status_differs, reference
from actors.node.pods.preemption import Preemption
from actors.node.pods.status_manager import StatusManager
from actors.node.pods.worker import FINISHED, Worker
from actors.node.pressure.eviction import Evictor
from actors.node.requests import Api, Caller, HeartbeatCaller, user_of
from actors.node.runtime.container_gc import ContainerGC
from actors.node.runtime.image_gc import ImageGC
from actors.node.runtime.images import Images
from actors.node.runtime.log_rotation import LogRotation
from actors.node.runtime.logs import container_log
from actors.node.runtime.machine import BAD_NETWORK, BAD_RUNTIME, SLOW_RUNTIME, Machine, PodRuntime
from actors.node.runtime.sandboxes import behave
from actors.node.sources.api_source import Source
from actors.node.sources.manifests import Manifests
from actors.node.sources.mirrors import Mirrors
from actors.node.sources.references import References
from actors.node.sync_loop import SyncLoop
from sim.api.objects import TERMINAL
from sim.api.store import Item
from sim.api.types import Obj
from sim.ident import Names
from sim.kernel.actor import Context
from sim.kernel.dice import Dice
from sim.options.node_agent import NodeAgentOptions
from sim.units import SECOND

TICK_US = 1 * SECOND  # kubelet.go: syncLoop's syncTicker
RESYNC_JITTER_PERCENT = 50  # pod_workers.go: workerResyncIntervalJitterFactor and that of the back-off
HOUSEKEEPING_US = 2 * SECOND  # kubelet.go: housekeepingPeriod
SYNCED_POLL_US = 1 * SECOND  # config/apiserver.go: WaitForAPIServerSyncPeriod
ORPHAN_GRACE_US = 1 * SECOND  # kubelet_pods.go: HandlePodCleanups
DEFAULT_CIDR = "10.200.0.0/24"
NOBODY: tuple[tuple[str, str, str], Obj] = ("", "", ""), {}


class Recorder(Protocol):
    def event(
        self,
        obj: Obj,
        event_type: str,
        reason: str,
        message: str,
        *,
        annotations: Mapping[str, str] | None = None,
    ) -> None: ...

    def tidy(self) -> None: ...


class Clients(Protocol):
    """What the composition root gives agents: API clients and event recorder, made per incarnation."""

    def main(self, ctx: Context, node: str, qps: int, burst: int) -> Caller: ...
    def heartbeat(self, ctx: Context, node: str, timeout_us: int) -> HeartbeatCaller: ...
    def recorder(self, ctx: Context, node: str, qps: int, burst: int) -> Recorder: ...


def node_agent_main(
    machine: Machine, clients: Clients, options: NodeAgentOptions, names: Names
) -> Callable[[Context], None]:
    """The agent's `main`: add it to the supervisor under the node's name."""

    def main(ctx: Context) -> None:
        NodeAgent(ctx, machine, clients, options, names).start()

    return main


class NodeAgent:
    """One incarnation of a node's agent."""

    __slots__ = (
        "_began_us", "_housekept", "_nodes", "_pods", "_pods_started", "_recorder", "_tick_phase_us", "_told",
        "api", "container_gc", "ctx", "dice", "evictor", "heartbeats", "host_ip", "image_gc", "images", "kills", "leases", "log_rotation", "loop", "machine", "manifests", "mirrors",
        "names", "node_loop", "options", "preemption", "references", "restarts", "runtime", "shutdown", "sources_ready", "spec", "statuses", "used",
        "workers",
    )  # fmt: skip

    def __init__(
        self, ctx: Context, machine: Machine, clients: Clients, options: NodeAgentOptions, names: Names
    ) -> None:
        self.ctx = ctx
        self.machine = machine
        self.spec = machine.spec
        self.options = options
        self.names = names
        name = machine.spec.name
        user = user_of(names, name)
        # server.go: buildKubeletClientConfig
        timeout_us = min(options.node_status_update_frequency_us, options.node_lease_duration_s * SECOND)
        heartbeat = clients.heartbeat(ctx, name, timeout_us)
        self.api = Api(
            ctx, clients.main(ctx, name, options.api_qps or 5, options.api_burst or 10), user, names
        )
        self.heartbeats = Api(ctx, heartbeat, user, names)
        self._recorder = clients.recorder(ctx, name, options.event_qps or 5, options.event_burst or 10)
        self.host_ip = host_address(machine, options)
        self.dice = Dice(ctx.stream("agent").getrandbits(64))
        self._began_us = ctx.kernel.now_us
        self._tick_phase_us = self.dice.below(TICK_US)
        self.workers: dict[str, Worker] = {}
        self.used = Used()
        self.restarts = Backoff()
        self.images = Images(self)
        self.references = References(self)
        self.container_gc = ContainerGC(self)
        self.image_gc, self.log_rotation = ImageGC(self), LogRotation(self)
        self.evictor = Evictor(self)
        self.statuses = StatusManager(ctx, self.api, self._gone)
        self.mirrors, self.manifests = Mirrors(self), Manifests(self)
        self.sources_ready = False
        self._housekept = False
        self._pods_started = False
        self._told = NOBODY  # what the last event of a pod was about
        self.loop = SyncLoop(self)
        self.runtime = RuntimeHealth(self)
        self.shutdown = Shutdown(self)
        self.preemption = Preemption(self)
        self.kills = Kills(self)
        self.node_loop = NodeLoop(self, heartbeat)
        clients_of_lease = (self.heartbeats, heartbeat)
        self.leases = Leases(ctx, clients_of_lease, name, options, self, self.spec.lease_jitter)
        self._nodes = Source(
            ctx,
            self.api,
            "nodes",
            f"metadata.name={name}",
            self.dice,
            (self._nodes_set, self._node_event, self.troubled),
        )
        self._pods = Source(
            ctx,
            self.api,
            "pods",
            f"spec.nodeName={name}",
            self.dice,
            (self._pods_set, self._pod_event, self.troubled),
        )

    def start(self) -> None:
        machine = self.machine
        machine.agent = self
        machine.changed = self._machine_changed
        self.ctx.on_stop(machine.forget_agent)
        self.ctx.on_resume(self.node_loop.resumed)
        self.node_event("Starting")
        self.container_gc.start()
        self.image_gc.start()
        if not self.runtime.well:
            with caused(self.ctx.kernel, machine.blamed(BAD_RUNTIME, SLOW_RUNTIME, BAD_NETWORK)):
                self.runtime_looked()
        if self.runtime.up:
            self.runtime_up()
        self.node_loop.start()
        self.leases.start()
        self.manifests.start()
        self._nodes.start()
        if machine.outside or machine.images or machine.pods:
            with caused(self.ctx.kernel, machine.blamed(*machine.outside)):
                self.consider_pressure()

    # --- time ---------------------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """The machine's time: the kernel's."""
        return self.ctx.kernel.now_us

    def relist_after(self, at_us: int) -> int:
        """When the first relist of the runtime that begins strictly after that instant has ended."""
        return self.runtime.relists.end_after(at_us)

    def tick_after(self, at_us: int) -> int:
        """The first tick of the sync loop strictly after that instant."""
        return at_us + TICK_US - (at_us - self._began_us - self._tick_phase_us) % TICK_US

    def resync_after(self, base_us: int) -> int:
        """When a pod is looked at again for no other reason than that so much time, and a drawn share of it, has passed."""
        wait_us = self.ctx.clock.real_us(self.dice.jitter_us(base_us, RESYNC_JITTER_PERCENT))
        return self.tick_after(self.now_us + wait_us)

    def first_probe_wait_us(self, period_s: int) -> int:
        """A restarted agent spreads the first probes of pods that it finds running."""
        period_us = period_s * SECOND
        return self.dice.below(period_us) if self.now_us - self._began_us < period_us else 0

    # --- the node -----------------------------------------------------------------------------------------

    @property
    def node(self) -> Obj:
        return self.node_loop.node

    def node_uid(self) -> str:
        return str(self.node["metadata"]["uid"]) if self.node else ""

    @property
    def pod_cidr(self) -> str:
        return str((self.node.get("spec") or {}).get("podCIDR") or self.spec.pod_cidr or DEFAULT_CIDR)

    def node_registered(self) -> None:
        self.mirrors_due()

    def node_changed(self) -> None:
        """Something that the node's status shows of its health has changed."""
        self.node_loop.health_changed()

    def informed(self) -> bool:
        """Whether what the API holds of this node is known without asking."""
        return self._nodes.live and self.leases.healthy

    def troubled(self) -> None:
        """A renewal failed or the node's watch broke: status passes ask the API again."""
        self.node_loop.ask_again()

    def health(self) -> Health:
        pressures, going, runtime = self.evictor.past.conditions, self.shutdown.going, self.runtime
        if not pressures and not going and runtime.well:
            return WELL  # nearly always
        errors = runtime.errors()
        if going:
            errors.append(NOT_READY)
        return Health(tuple(errors), pressures) if errors or pressures else WELL

    def consider_pressure(self) -> None:
        """What uses the machine's memory, disks and process numbers has changed."""
        self.log_rotation.consider()
        self.evictor.consider()
        self.image_gc.consider()

    def node_event(self, reason: str, text: str = "", type_: str = "Normal") -> None:
        name = self.spec.name
        text = text or f"Node {name} status is now: {reason}"
        if reason == "Starting":
            text = f"Starting {self.names.node_agent}."
        elif reason == "Rebooted":
            type_, text = "Warning", f"Node {name} has been rebooted, boot id: {self.machine.boot_id}"
        # Quirk: node events carry the node's name as uid.
        reference = {"kind": "Node", "name": name, "uid": name}
        self._recorder.event(reference, type_, reason, text)

    def _nodes_set(self, nodes: list[Item]) -> None:
        for node in nodes:
            self.node_loop.observed(node.obj)
        if not nodes:
            self.node_loop.lost()
        if not self._pods_started:
            self._pods_started = True
            now_us = self.now_us  # whether the node's own list is there the source of pods asks each second
            wait_us = SYNCED_POLL_US - (now_us - self._began_us) % SYNCED_POLL_US
            self.ctx.call_later_us(wait_us, lambda _: self._pods.start())

    def _node_event(self, type_: str, node: Item) -> None:
        if type_ == "DELETED":
            self.node_loop.lost()
        else:
            self.node_loop.observed(node.obj)

    # --- the runtime --------------------------------------------------------------------------------------

    def _machine_changed(self, runtime: PodRuntime | None) -> None:
        self.runtime.changed()
        self.node_loop.changed()
        self.consider_pressure()
        for uid in list(self.workers) if runtime is None else [runtime.uid]:
            worker = self.workers.get(uid)
            if worker is not None:
                worker.look()

    def runtime_up(self) -> None:
        """The runtime is ready for the first time: what depends on it starts."""
        self.node_event("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
        self.evictor.start()
        self.log_rotation.start()

    def runtime_looked(self) -> None:
        """What is known of the runtime may have changed."""
        self.node_loop.health_changed()
        self.loop.looked()

    # --- pods ---------------------------------------------------------------------------------------------

    def is_static(self, worker: Worker) -> bool:
        return worker.uid in self.mirrors.uids

    def mirrors_due(self) -> None:
        """The Node or the API's pods are known now: static pods can get their mirrors."""
        static = self.mirrors.uids
        for worker in [worker for uid, worker in self.workers.items() if uid in static]:
            worker.wake()

    def _is_mirror(self, meta: Obj) -> bool:
        return self.names.annotation_mirror_pod in (meta.get("annotations") or ())

    def _pods_set(self, items: list[Item]) -> None:
        if self.loop.asleep:
            self.loop.handle_later(self._pods_set, items)
            return
        first = not self.sources_ready
        self.sources_ready = True
        static = self.mirrors.uids
        if known := [(uid, worker) for uid, worker in self.workers.items() if uid not in static]:
            here = {item.peek("metadata", "uid"): None for item in items}
            self.preemption.keep(here)
            for uid, worker in known:
                if uid not in here:
                    self.pod_removed(worker)
        if not first:
            self.mirrors.keep(items)
        kernel = self.ctx.kernel
        cause = kernel.cause
        for item in sorted(items, key=age):
            pod = item.obj
            # What no agent has begun is begun because it was sent here, and what changed changes by who changed it, as if
            # it had been watched; the rest is taken up again because the agent starts.
            news = not first or "startTime" not in (pod.get("status") or ())
            kernel.cause = (item.cause or cause) if news else cause
            self._observed(item, pod)
        kernel.cause = cause
        if first:
            self.mirrors_due()
            self.housekeep_later()

    def _pod_event(self, type_: str, item: Item) -> None:
        if self.loop.asleep:
            self.loop.handle_later(self._pod_event, type_, item)
            return
        pod = item.obj
        if type_ != "DELETED":
            self._observed(item, pod)
            return
        meta = pod["metadata"]
        if self._is_mirror(meta):
            self.mirrors.observed(None, (meta["namespace"], meta["name"]))
            return
        self.preemption.drop(meta["uid"])
        worker = self.workers.get(meta["uid"])
        if worker is not None:
            self.pod_removed(worker)

    def _observed(self, item: Item, pod: Obj) -> None:
        meta = pod["metadata"]
        if self._is_mirror(meta):
            self.mirrors.observed(pod, (meta["namespace"], meta["name"]))
            return
        worker = self.workers.get(meta["uid"])
        if worker is None:
            self.pod_added(item, pod)
            return
        before = worker.pod
        if not only_status_differs(before, pod):
            worker.update(item)
            if worker.state == FINISHED:
                self.statuses.push(worker.uid)
            return
        worker.adopt(item)
        if pod["spec"].get("readinessGates") and before.get("status") != pod.get("status"):
            worker.wake()

    def pod_added(self, item: Item, pod: Obj) -> None:
        """A pod that is new to this incarnation: admit it and start its worker."""
        meta, status = pod["metadata"], pod.get("status") or {}
        uid = meta["uid"]
        if self.preemption.holds(uid, item):
            return
        worker = self.workers[uid] = Worker(self, uid, item)
        behave(worker, pod)  # what an agent before it started may behave otherwise by now
        entry, static = self.statuses.track(uid, item), uid in self.mirrors.uids
        if static:
            entry.target = ""  # until its mirror exists
        requests = requests_of(pod)
        # Quirk: also of those that have ended, or are to go.
        refusal = self._refusal(worker, requests, static)
        if self.preemption.holds(uid):
            del self.workers[uid]
            self.statuses.forget(uid)
            return
        if refusal is not None:
            self._reject(worker, *refusal)
            return
        ended = status.get("phase") in TERMINAL
        if ended and worker.runtime is None:
            self._end_at_once(worker, status)
            return
        if not ended:
            worker.requests = requests
            self.used.add(requests)
        worker.update(item)

    def _refusal(self, worker: Worker, requests: Requests, static: bool) -> tuple[str, str] | None:
        """Why the pod may not run here; a critical one may have to wait for room (see `preemption`)."""
        pod, refusal = worker.pod, None
        if pressures := self.evictor.past.conditions:
            refusal = refuse_under_pressure(pod, pressures, static, self.names.taint_memory_pressure)
        refusal = refusal or refuse_sysctls(pod, self.options.allowed_unsafe_sysctls)
        if refusal is not None:
            return refusal
        # who is not registered yet goes by what it is about to register
        node = self.node or self.node_loop.initial()[0]
        critical = is_critical(pod, static)
        judge = refuse_otherwise if critical else refuse
        refusal = judge(pod, requests, self.used, node, static)
        if refusal is None and critical:
            # Quirk: others go for it though it may be refused then by what is asked last.
            if failure := self.preemption.make_room(worker, requests, node):
                return "UnexpectedAdmissionError", failure
            if self.preemption.holds(worker.uid):
                return None
        refusal = refusal or refuse_os(pod, node, self.names.label_os)
        return refusal or (REFUSAL if self.shutdown.going else None)

    def _reject(self, worker: Worker, reason: str, message: str) -> None:
        self.event(worker.pod, "Warning", reason, message)
        status = {  # and nothing else
            "phase": "Failed",
            "reason": reason,
            "message": "Pod " + message,
            "startTime": worker.status.get("startTime") or self.node_loop.now(),
        }
        self._end_at_once(worker, status, unsure=not self._housekept)
        if worker.runtime is not None:  # it ran under an agent before
            self.housekeep_later()

    def _end_at_once(self, worker: Worker, status: Obj, *, unsure: bool = False) -> None:
        """A pod of which nothing runs here: only its status, and its deletion, are left to do.

        unsure: not before the first housekeeping.  Quirk: what has no worker may run for all that is known until then
        """
        worker.state = FINISHED
        worker.status = status
        entry = self.statuses.track(worker.uid, worker.item)
        entry.running = unsure
        entry.reclaimed = not unsure
        self.statuses.set(worker.uid, {"conditions": [], **status})

    def pod_removed(self, worker: Worker) -> None:
        """Its source no longer has the pod: what runs of it is killed.

        Quirk: what it holds of the node counts no more from now on, though it may run for its whole grace period.
        """
        worker.removed = True
        self._release(worker)
        if worker.state == FINISHED:
            self._forget(worker)
        else:
            self.statuses.forget(worker.uid)
            worker.kill()

    def worker_stopped(self, worker: Worker) -> None:
        """Nothing of the pod runs any more."""
        self._release(worker)
        self.mirrors.stopped(worker)
        self.kills.stopped(worker)

    def _release(self, worker: Worker) -> None:
        """What the pod held of the node is there for others."""
        if worker.requests is not None:
            self.used.remove(worker.requests)
            worker.requests = None

    def worker_finished(self, worker: Worker) -> None:
        self.mirrors.finished(worker)
        override = worker.asked.override
        asked = "" if override is None else override[1]
        deleted = worker.removed or "deletionTimestamp" in worker.pod["metadata"]
        if deleted or "Evicted" in (asked, worker.status.get("reason")):
            self.image_gc.remove(worker.uid)  # its dead containers go at once
        if worker.removed:
            self._forget(worker)

    def _forget(self, worker: Worker) -> None:
        uid = worker.uid
        self.workers.pop(uid, None)
        self.statuses.forget(uid)
        self.restarts.forget(uid)
        self.images.forget(uid)
        self.references.forget(uid)
        if uid in self.machine.pods:  # it had ended before it was deleted
            self.container_gc.consider()

    def _gone(self, uid: str) -> None:
        """Our DELETE was answered; the source will show it."""

    def _housekeep(self, _: object) -> None:
        """What is known of pods from the first time on: which may have containers, and which containers nobody knows."""
        if not self.sources_ready:
            return  # who is not known yet may be known to them
        if self.loop.stalled():
            self.housekeep_later()
            return
        self._housekept = True
        for worker in [worker for worker in self.workers.values() if worker.state == FINISHED]:
            self.statuses.stopped(worker.uid)
        self._kill_orphans()
        self.mirrors.remove_orphans()
        self.manifests.restart()

    def _kill_orphans(self) -> None:
        """Those of pods that no source knows, as after a deletion while we were away, and of pods that ran and are
        refused now."""
        machine, now_us = self.machine, self.now_us
        for uid, runtime in list(machine.pods.items()):
            worker = self.workers.get(uid)
            if (worker is not None and worker.state != FINISHED) or self.preemption.holds(uid):
                continue
            running = runtime.running(now_us)
            for container in running:
                machine.stop(container, ORPHAN_GRACE_US, now_us)
            machine.stop_sandbox(runtime)
            if running:
                self.image_gc.remove(uid)
            elif worker is None:
                self.container_gc.consider()

    def housekeep_later(self) -> None:
        self.ctx.call_later_us(self.housekeeping_after_us(), self._housekeep)

    def housekeeping_after_us(self) -> int:
        """How long it is until the next one."""
        return HOUSEKEEPING_US - (self.now_us - self._began_us) % HOUSEKEEPING_US

    # --- for the workers ----------------------------------------------------------------------------------

    def event(
        self,
        pod: Obj,
        type_: str,
        reason: str,
        message: str,
        container: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        meta = pod["metadata"]
        about = meta["uid"], meta.get("resourceVersion", ""), container
        if self._told[0] != about:
            self._told = about, reference(pod, container)
        # Very many events say the same of their pods: one text serves them all.
        self._recorder.event(self._told[1], type_, reason, intern(message), annotations=annotations)

    def tidy(self) -> None:
        self._told = NOBODY
        self._recorder.tidy()
        self.statuses.tidy()

    def log(self, namespace: str, name: str, container: str, *, previous: bool = False) -> tuple[int, str]:
        """What the node's log endpoint answers: HTTP code and text."""
        found = [
            worker
            for worker in self.workers.values()
            if worker.pod["metadata"]["name"] == name and worker.pod["metadata"]["namespace"] == namespace
        ]
        asked, clock, machine = (name, container, previous), (self.now_us, self.ctx.said_us), self.machine
        if not found:
            return container_log(None, machine, asked, {}, clock)
        return container_log(found[0].pod, machine, asked, found[0].status, clock)
