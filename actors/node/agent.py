"""One node agent: sources, workers, heartbeats and the machine under them, put together.

Turns a `Machine` and clients into `main(ctx)`, a plain function that sets up callbacks and returns,
so that thousands of agents cost no task.  The state of an incarnation is lost with it; what must
survive (containers, images) belongs to the machine.

The parts of the agent see it by the protocols `Agent` (`runtime.ports`), `HeartbeatAgent` and
`PodAgent`; only this module imports all of them.

Holds: a steady node runs one event per lease renewal and one status pass per five minutes; a steady
pod none.

Mirrors  pkg/kubelet/kubelet.go: Run, syncLoopIteration,
         HandlePodAdditions/Updates/Removes/Reconcile (v1.25).
Differs  tickers (relist, sync, housekeeping) are instants that are computed when needed, and follow
         the kernel's time even if the agent's clock drifts; back-offs, grace periods and heartbeats
         follow that clock.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.node.agent_events import AgentEvents
from actors.node.agent_log import log_of
from actors.node.backoff import Backoff
from actors.node.clients import NodeClients
from actors.node.durations import Durations
from actors.node.heartbeat.leases import Leases
from actors.node.heartbeat.node_loop import NodeLoop
from actors.node.heartbeat.node_status import HEALTHY, VERSION, Health, host_addresses
from actors.node.heartbeat.runtime_health import RuntimeHealth
from actors.node.heartbeat.shutdown import NOT_READY, REFUSAL, Shutdown
from actors.node.pod_spec import Requests, is_critical, requests_of
from actors.node.pod_work import FINISHED, Override
from actors.node.pods.admit import (
    Used,
    refuse,
    refuse_os,
    refuse_otherwise,
    refuse_under_pressure,
)
from actors.node.pods.housekeeping import Housekeeping
from actors.node.pods.kill_waits import Kills
from actors.node.pods.pod_objects import age, only_status_differs
from actors.node.pods.preemption import Preemption
from actors.node.pods.resources import Resources
from actors.node.pods.sandboxes import apply_behaviour
from actors.node.pods.status_manager import StatusManager
from actors.node.pods.worker import Worker
from actors.node.pressure import oom
from actors.node.pressure.eviction import Evictor
from actors.node.requests import Api, user_of
from actors.node.runtime.container_gc import ContainerGC
from actors.node.runtime.containers import PodRuntime
from actors.node.runtime.image_store.gc import ImageGC
from actors.node.runtime.image_store.images import Images
from actors.node.runtime.log_rotation import LogRotation
from actors.node.runtime.machine import BAD_NETWORK, BAD_RUNTIME, NO_STARTS, SLOW_RUNTIME, Machine
from actors.node.runtime.ports import NodePod
from actors.node.runtime.profile import DEFAULT_CIDR
from actors.node.sources.api_source import Source
from actors.node.sources.manifest_url import ManifestUrl
from actors.node.sources.manifests import Manifests
from actors.node.sources.mirrors import Mirrors
from actors.node.sources.references import References
from actors.node.sources.run_once import RunOnce
from actors.node.sync_loop import SyncLoop
from actors.node.volumes.manager import VolumeManager
from sim.api.objects import TERMINAL
from sim.api.store import Item
from sim.api.types import Obj
from sim.ident import Names
from sim.kernel.actor import Context
from sim.kernel.causes import caused_by
from sim.kernel.draws.dice import Dice
from sim.options.node.agent import NodeAgentOptions
from sim.options.storage_drivers import StorageDrivers
from sim.units import SECOND

TICK_US = 1 * SECOND  # kubelet.go: syncLoop's syncTicker
RESYNC_JITTER_PERCENT = 50  # pod_workers.go: workerResyncIntervalJitterFactor
SYNCED_POLL_US = 1 * SECOND  # config/apiserver.go: WaitForAPIServerSyncPeriod
NO_DRIVERS = StorageDrivers()


def node_agent_main(
    machine: Machine,
    clients: NodeClients,
    options: NodeAgentOptions,
    names: Names,
    drivers: StorageDrivers = NO_DRIVERS,
    bootstrap: NodeClients | None = None,
) -> Callable[[Context], None]:
    """The agent's `main`, which the supervisor runs under the node's name.

    bootstrap: the clients with which it requests its first certificate
    """

    def main(ctx: Context) -> None:
        def start() -> None:
            NodeAgent(ctx, machine, clients, options, names, drivers).start()

        if bootstrap is None:
            start()
            return
        from actors.node.certificates.manager import CertificateManager  # for few agents

        CertificateManager(ctx, machine, (clients, bootstrap), options, names).start(start)

    return main


class NodeAgent(AgentEvents):
    """One incarnation of a node's agent.

    began_us: when it started
    used: what the admitted pods use of the node
    durations: how long its work has taken
    sessions: the open streams of clients (`actors.node.server`); None before the first
    server: what answers requests to its ports; None before the first

    Size: an incarnation is a list of some thirty parts, as upstream's Kubelet, which it makes and
    which know each other through the protocols of `runtime.ports`.  Each part holds its own state;
    the agent's own is `workers`, `used` and if its sources are ready.
    """

    __slots__ = (
        "_nodes", "_pods", "_pods_listed", "_pods_started", "_scheme", "_tick_phase_us", "api", "began_us",
        "clients", "container_gc", "ctx", "dice", "durations", "evictor", "heartbeats", "host_ips", "housekeeping", "image_gc",
        "images", "kills", "leases", "log_rotation", "loop", "manifests", "mirrors", "node_loop", "options",
        "preemption", "references", "resources", "restarts", "runtime", "server", "sessions", "shutdown", "statuses",
        "used", "volumes", "workers",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        machine: Machine,
        clients: NodeClients,
        options: NodeAgentOptions,
        names: Names,
        drivers: StorageDrivers = NO_DRIVERS,
    ) -> None:
        self.ctx = ctx
        self.options = options
        name = machine.spec.name
        user = user_of(names, name)
        # server.go: buildKubeletClientConfig
        timeout_us = min(options.node_status_update_frequency_us, options.node_lease_duration_s * SECOND)
        heartbeat = clients.heartbeat(ctx, name, timeout_us)
        main = clients.main(ctx, name, options.api_qps or 5, options.api_burst or 10)
        self.api = Api(ctx, main, user, names)
        self.heartbeats = Api(ctx, heartbeat, user, names)
        recorder = clients.recorder(ctx, name, options.event_qps or 5, options.event_burst or 10)
        super().__init__(machine, names, recorder, log_of(ctx, machine, options, names, VERSION))
        self._scheme, self.clients = clients.scheme, clients
        self.host_ips = host_addresses(machine, options)
        self.dice = Dice(ctx.stream("agent").getrandbits(64))
        self.began_us = ctx.kernel.now_us
        self._tick_phase_us = self.dice.below(TICK_US)
        self.workers: dict[str, Worker] = {}
        self.used, self.durations = Used(), Durations()
        self.restarts = Backoff()
        self.loop = SyncLoop(self)
        self.preemption = Preemption(self, self.used)
        self.kills = Kills(self)
        self.image_gc, self.log_rotation = ImageGC(self), LogRotation(self)
        self.images = Images(self, self.image_gc)
        self.references = References(self)
        self.volumes = VolumeManager(self, drivers)
        self.container_gc = ContainerGC(self, self.image_gc, self.preemption.holds)
        self.evictor = Evictor(self, self.container_gc, self.image_gc)
        self.statuses = StatusManager(ctx, self.api)
        self.mirrors = Mirrors(self, self.statuses.retarget)
        self.manifests = Manifests(self, self.loop, self.mirrors, self.preemption.drop)
        self._pods_listed = False
        self._pods_started = False
        self.sessions: object = None
        self.server: object = None
        self.runtime, self.housekeeping = RuntimeHealth(self), Housekeeping(self)
        self.node_loop = NodeLoop(self, heartbeat)
        self.shutdown, self.resources = Shutdown(self, self.node_loop), Resources(self)
        clients_of_lease, jitter = (self.heartbeats, heartbeat), self.spec.lease_jitter
        self.leases = Leases(ctx, clients_of_lease, name, options, self.node_uid, self.node_unknown, jitter)
        node_handlers = (self._nodes_set, self._node_event, self.node_unknown)
        self._nodes = Source(ctx, self.api, "nodes", f"metadata.name={name}", self.dice, node_handlers)
        pod_handlers = (self._pods_set, self._pod_event, self.node_unknown)
        self._pods = Source(ctx, self.api, "pods", f"spec.nodeName={name}", self.dice, pod_handlers)

    def start(self) -> None:
        """Begin to run on the machine, as it was left by earlier incarnations and by faults."""
        machine = self.machine
        machine.agent = self
        machine.changed = self._machine_changed
        machine.starts = NO_STARTS
        self.ctx.on_stop(machine.forget_agent)
        self.ctx.on_resume(self.node_loop.resumed)
        self.node_event("Starting")
        for text in machine.oom.messages if machine.oom is not None else ():
            self.node_event("SystemOOM", text, "Warning")
        self.container_gc.start()
        self.image_gc.start()
        if not self.runtime.well:
            with caused_by(self.ctx.kernel, machine.fault_record(BAD_RUNTIME, SLOW_RUNTIME, BAD_NETWORK)):
                self.runtime_checked()
        if self.runtime.up:
            self.runtime_up()
        self._start_sources()
        if machine.outside or machine.images or machine.pods:
            with caused_by(self.ctx.kernel, machine.fault_record(*machine.outside)):
                self.consider_pressure()

    def _start_sources(self) -> None:
        """Begin with the node's object and the sources of pods that the options name."""
        options = self.options
        with_api = not options.standalone and not options.runonce
        if with_api:
            self.node_loop.start()
            self.leases.start()
        else:
            self._pods_listed = True  # there is no such source
            self.resources.pods_known()
        self.manifests.start()
        if options.manifest_url:
            ManifestUrl(self, self.manifests, self._scheme).start()
        if with_api:
            self._nodes.start()
        elif options.runonce:
            RunOnce(self).start()

    # --- time -------------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """The machine's time, which is the kernel's."""
        return self.ctx.kernel.now_us

    def relist_after(self, at_us: int) -> int:
        """When the first relist of the runtime that begins strictly after an instant has ended."""
        return self.runtime.relists.end_after(at_us)

    def tick_after(self, at_us: int) -> int:
        """The first tick of the sync loop strictly after an instant."""
        return at_us + TICK_US - (at_us - self.began_us - self._tick_phase_us) % TICK_US

    def resync_after(self, base_us: int) -> int:
        """The tick at which a pod is synced again after `base_us` and a random share of it."""
        wait_us = self.ctx.clock.real_us(self.dice.jitter_us(base_us, RESYNC_JITTER_PERCENT))
        return self.tick_after(self.now_us + wait_us)

    def first_probe_wait_us(self, period_s: int) -> int:
        """How long a probe waits before its first tick.

        A restarted agent spreads the first probes of the pods that it finds running.
        """
        period_us = period_s * SECOND
        return self.dice.below(period_us) if self.now_us - self.began_us < period_us else 0

    @property
    def sources_ready(self) -> bool:
        """True once each source has delivered the node's pods."""
        return self._pods_listed and self.manifests.ready

    # --- the node ---------------------------------------------------------------------------------

    @property
    def node(self) -> Obj:
        """The newest Node object; empty before the first."""
        return self.node_loop.node

    @property
    def registered(self) -> bool:
        """True once the API holds the Node object."""
        return self.node_loop.registered

    def node_uid(self) -> str:
        """The Node's uid; "" before the first Node object."""
        return str(self.node["metadata"]["uid"]) if self.node else ""

    @property
    def pod_cidr(self) -> str:
        """The range of the node's pod addresses; "" if the node waits for one."""
        own = "" if self.spec.pod_cidr is None else self.spec.pod_cidr or DEFAULT_CIDR
        return str((self.node.get("spec") or {}).get("podCIDR") or self.options.pod_cidr or own)

    def node_registered(self) -> None:
        """The Node object is stored now."""
        self.mirrors_due()
        self.volumes.register()

    def volumes_changed(self) -> None:
        """The volumes in use have changed: the next status pass reports them."""
        self.node_loop.list_volumes(self.volumes.in_use())

    def images_changed(self) -> None:
        """The machine holds other images: the next status pass reports them."""
        self.node_loop.list_images()

    def node_changed(self) -> None:
        """The health that the node's status shows has changed."""
        self.node_loop.health_changed()

    def knows_node(self) -> bool:
        """True if the agent knows the stored state of the node without a read."""
        return self._nodes.live and self.leases.healthy

    def node_unknown(self) -> None:
        """A renewal failed or the node's watch ended: status passes read the node again."""
        self.node_loop.check_again()

    def health(self) -> Health:
        """What the node's conditions are computed from."""
        pressures, shuts_down, runtime = self.evictor.past.conditions, self.shutdown.active, self.runtime
        if not pressures and not shuts_down and runtime.well:
            return HEALTHY  # the usual case
        errors = runtime.errors()
        if shuts_down:
            errors.append(NOT_READY)
        return Health(tuple(errors), pressures) if errors or pressures else HEALTHY

    def consider_pressure(self) -> None:
        """The use of the machine's memory, disks or process numbers has changed."""
        self.log_rotation.consider()
        self.evictor.consider()
        self.image_gc.consider()
        oom.consider(self)

    def _nodes_set(self, nodes: list[Item]) -> None:
        for node in nodes:
            self.node_loop.observed(node.obj)
        if not nodes:
            self.node_loop.lost()
        if not self._pods_started:
            self._pods_started = True
            # The source of pods polls each second whether the node's own list is there.
            wait_us = SYNCED_POLL_US - (self.now_us - self.began_us) % SYNCED_POLL_US
            self.ctx.call_later_us(wait_us, lambda _: self._pods.start())

    def _node_event(self, type_: str, node: Item) -> None:
        if type_ == "DELETED":
            self.node_loop.lost()
        else:
            self.node_loop.observed(node.obj)

    # --- the runtime ------------------------------------------------------------------------------

    def _machine_changed(self, runtime: PodRuntime | None) -> None:
        if runtime is not None:  # a program has ended
            if (worker := self.workers.get(runtime.uid)) is not None:
                worker.replan()
            return
        self.runtime.changed()
        self.node_loop.changed()
        self.consider_pressure()
        for worker in list(self.workers.values()):
            worker.replan()

    def runtime_up(self) -> None:
        """The runtime is ready for the first time: start what depends on it."""
        self.resources.start()
        self.evictor.start()
        self.log_rotation.start()

    def runtime_checked(self) -> None:
        """The errors of the runtime may have changed."""
        self.node_loop.health_changed()
        self.loop.runtime_checked()

    def runtime_silent(self) -> None:
        """Calls that change nothing get no answer from the runtime from now on."""
        self.evictor.unanswered()
        self.image_gc.unanswered()
        self.container_gc.consider()

    def runtime_answered(self) -> None:
        """Calls that change nothing are answered by the runtime again."""
        self.ctx.call_at_us(self.now_us, lambda _: self.loop.answered())
        self.evictor.answered()
        self.container_gc.answered()
        self.image_gc.answered()

    # --- pods -------------------------------------------------------------------------------------

    def is_static(self, uid: str) -> bool:
        """True if the pod comes from the manifest directory."""
        return uid in self.mirrors.uids

    def mirrors_due(self) -> None:
        """The Node or the API's pods were read now: static pods can get their mirrors."""
        static = self.mirrors.uids
        for worker in [worker for uid, worker in self.workers.items() if uid in static]:
            worker.wake()

    def _is_mirror(self, meta: Obj) -> bool:
        return self.names.annotation_mirror_pod in (meta.get("annotations") or ())

    def _pods_set(self, items: list[Item]) -> None:
        if self.loop.asleep:
            self.loop.handle_later(self._pods_set, items)
            return
        first = not self._pods_listed
        self._pods_listed = True
        static = self.mirrors.uids
        if entry := [uid for uid in self.workers if uid not in static]:
            listed = {item.peek("metadata", "uid"): None for item in items}
            self.preemption.keep(listed)
            for uid in entry:
                if uid not in listed:
                    self.pod_removed(uid)
        if not first:
            self.mirrors.keep(items)
        for item in sorted(items, key=age):
            pod = item.obj
            # A pod that no agent has begun, and a pod that changed, are caused by their writes, as
            # if a watch had shown them.  The others are taken up because the agent starts.
            is_news = not first or "startTime" not in (pod.get("status") or ())
            with caused_by(self.ctx.kernel, item.cause if is_news else 0):
                self._observed(item, pod)
        if first:
            self.resources.pods_known()
            self.mirrors_due()
            self.housekeep_later()
            self.volumes.reconstruct(self._runs)

    def _runs(self, uid: str) -> bool:
        """True if the pod has a worker that has not finished."""
        return uid in self.workers and self.workers[uid].state != FINISHED

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
        self.log_pod("REMOVE", pod)
        self.preemption.drop(meta["uid"])
        if meta["uid"] in self.workers:
            self.pod_removed(meta["uid"])

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
            self.log_pod("DELETE" if "deletionTimestamp" in meta else "UPDATE", pod)
            worker.update(item)
            if worker.state == FINISHED:
                self.statuses.push(worker.uid)
            return
        worker.adopt(item)
        if pod["spec"].get("readinessGates") and before.get("status") != pod.get("status"):
            worker.wake()

    def pod_added(self, item: Item, pod: Obj) -> None:
        """Admit a pod that is new to this incarnation and start its worker."""
        meta, status = pod["metadata"], pod.get("status") or {}
        runtime = self.machine.pods.get(meta["uid"])
        uid = meta["uid"] if runtime is None else runtime.uid  # one text for both
        if self.preemption.holds(uid, item):
            return
        self.log_pod("ADD", pod)
        worker = self.workers[uid] = Worker(self, uid, item)
        # The behaviour may have changed since an earlier agent started the containers.
        apply_behaviour(worker, pod)
        entry, static = self.statuses.track(uid, item), uid in self.mirrors.uids
        if static:
            entry.target = ""  # until its mirror exists
        requests = requests_of(pod)
        # Quirk: pods that have ended, or are to end, pass admission too.
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
        """Why the pod may not run here; a critical pod may have to wait for room."""
        pod, refusal = worker.pod, None
        if pressures := self.evictor.past.conditions:
            refusal = refuse_under_pressure(pod, pressures, static, self.names.taint_memory_pressure)
        refusal = refusal or self.resources.admit(pod)
        if refusal is not None:
            return refusal
        # Before the registration, the node that is about to be registered counts.
        node = self.resources.node_for(pod, self.node or self.node_loop.initial()[0])
        critical = is_critical(pod, static)
        judge = refuse_otherwise if critical else refuse
        refusal = judge(pod, requests, self.used, node, static)
        if refusal is None and critical:
            # Quirk: pods are preempted although the checks below may still refuse this one.
            if failure := self.preemption.make_room(worker, requests, node):
                return "UnexpectedAdmissionError", failure
            if self.preemption.holds(worker.uid):
                return None
        refusal = refusal or refuse_os(pod, node, self.names.label_os)
        return refusal or (REFUSAL if self.shutdown.active else None)

    def _reject(self, worker: Worker, reason: str, message: str) -> None:
        self.event(worker.pod, "Warning", reason, message)
        status = {  # without any other field
            "phase": "Failed",
            "reason": reason,
            "message": "Pod " + message,
            "startTime": worker.status.get("startTime") or self.node_loop.now(),
        }
        self._end_at_once(worker, status, unsure=not self.housekeeping.done)
        if worker.runtime is not None:  # it ran under an earlier agent
            self.housekeep_later()

    def _end_at_once(self, worker: Worker, status: Obj, *, unsure: bool = False) -> None:
        """End a pod of which nothing runs here: only its status, and its deletion, are written.

        unsure: True to delete it only after the first housekeeping.  Quirk: until then the agent
            takes a pod without a worker for one that may run
        """
        worker.move(FINISHED)
        worker.status = status
        entry = self.statuses.track(worker.uid, worker.item)
        entry.running = unsure
        entry.reclaimed = not unsure
        self.statuses.set(worker.uid, {"conditions": [], **status})

    def pod_returns(self, uid: str) -> bool:
        """True if a static pod is to start again when its worker has finished."""
        return self.manifests.returns(uid)

    def pod_removed(self, uid: str) -> None:
        """Kill what runs of a pod that its source no longer has.

        Quirk: its requests count no more from now on, though it may run for its whole grace period.
        """
        worker = self.workers[uid]
        worker.removed = True
        self._release(worker)
        if worker.state == FINISHED:
            self._forget(uid)
        else:
            self.statuses.forget(uid)
            worker.kill()

    def worker_stopped(self, uid: str) -> None:
        """Nothing of the pod runs any more."""
        worker = self.workers[uid]
        self._release(worker)
        self.mirrors.stopped(worker)
        self.kills.stopped(worker)

    def _release(self, worker: Worker) -> None:
        """Release what the pod used of the node."""
        if worker.requests is not None:
            self.used.remove(worker.requests)
            worker.requests = None
            self.resources.changed()

    def worker_finished(self, uid: str) -> None:
        """The pod's worker has done all of its work."""
        worker = self.workers[uid]
        self.mirrors.finished(worker)
        override = worker.requested_end.override
        requested_reason = "" if override is None else override[1]
        deleted = worker.removed or "deletionTimestamp" in worker.pod["metadata"]
        if deleted or "Evicted" in (requested_reason, worker.status.get("reason")):
            self.image_gc.remove(uid)  # its dead containers are removed at once
        if worker.removed:
            self._forget(uid)

    def end_pod(
        self, worker: NodePod, override: Override, then: Callable[[bool], None], grace_s: int | None = None
    ) -> None:
        """End a pod; `then` is called once, with True if the pod ended in time."""
        self.kills.end(worker, override, then, grace_s)

    def _forget(self, uid: str) -> None:
        self.workers.pop(uid, None)
        self.durations.forget(uid)
        self.statuses.forget(uid)
        self.restarts.forget(uid)
        self.images.forget(uid)
        self.references.forget(uid)
        self.volumes.forget(uid)
        if uid in self.machine.pods:  # the pod had ended before it was deleted
            self.container_gc.consider()

    def housekeep_later(self) -> None:
        """Run the next housekeeping, which is skipped otherwise."""
        self.housekeeping.later()

    def housekeeping_after_us(self) -> int:
        """How long it is until the next housekeeping."""
        return self.housekeeping.after_us()

    def resync(self, uid: str) -> None:
        """Let the next regular sync of a pod take place, which is skipped otherwise."""
        if (worker := self.workers.get(uid)) is not None:
            worker.resync()

    def tidy(self) -> None:
        """Release memory that is no longer used."""
        self.tidy_events()
        self.statuses.tidy()
