"""One pod on one node: a state machine that callbacks drive, without a task.

Turns updates of the pod, relists of the runtime, probe results and timers into commands to the
machine, events and a status.  Work that takes time is a generator that yields how long (`_sync`,
`_terminate`, `_finish`); updates that arrive during it coalesce to the latest.

Holds: one piece of work runs at a time; a terminating worker never returns to sync; the next piece
of work begins at a relist, as upstream waits for a runtime status newer than the end of the last
one.  A steady pod has no timer.

Mirrors  pkg/kubelet/pod_workers.go, kubelet.go: syncPod, syncTerminatingPod, syncTerminatedPod;
         kuberuntime_manager.go: SyncPod (v1.25).
Differs  of the resyncs of a healthy pod every 60 to 90 s only those are run that probe a container
         that is not ready: nothing else can have changed without a callback.  Volumes without a
         driver take no time to mount, and up to one poll of 0.3 s to unmount.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

from actors.node.durations import CGROUPS
from actors.node.pod_spec import Requests
from actors.node.pod_work import (
    ENDING,
    FINISHED,
    KILLING,
    SYNC,
    TERMINATED,
    TERMINATING,
    TRANSITIONS,
    Override,
    Reason,
    Work,
    WorkerState,
)
from actors.node.pods.actions import NO_REQUEST, RequestedEnd, compute_actions, effective_grace_us
from actors.node.pods.container_start import start_container
from actors.node.pods.fault_records import met_first, unseen_end
from actors.node.pods.killing import kill_failed, kill_pod
from actors.node.pods.pod_status import (
    DEADLINE_MESSAGE,
    DEADLINE_REASON,
    NOTHING,
    View,
    final_status,
    generate,
    past_deadline,
    probed,
    unseen_us,
)
from actors.node.pods.ports import PodAgent
from actors.node.pods.prober import Probe, Result, probe_specs
from actors.node.pods.sandboxes import make_sandbox
from actors.node.pods.status_manager import status_in
from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.probe_answers import gated_answer
from actors.node.sources.references import volumes_of
from actors.node.sources.volumes import keeps_volumes, unmounted_after_us
from sim.api.objects import TERMINAL
from sim.api.store import Item
from sim.api.types import Obj
from sim.kernel.timer import Timer
from sim.options.features.gates import EXEC_TIMEOUTS, enabled
from sim.units import SECOND, format_time, parse_time

if TYPE_CHECKING:
    from actors.node.runtime.pod_programs import PodPrograms

RETRY_US = 10 * SECOND  # pod_workers.go: backOffPeriod, jitter 0.5
NETWORK_RETRY_US = 1 * SECOND  # kubelet.go: backOffOnTransientErrorPeriod
NO_NETWORK = "network is not ready: "


class Worker:
    """A pod's worker.

    item: the newest state of the pod's object
    runtime: the pod's sandbox and containers; None before the first sandbox
    reasons: why containers did not start when that was last tried
    requested_end: how the end of the pod was requested
    removed: True if the pod's source no longer has it
    requests: what it uses of the node; None before its admission and after its end
    limit_us: when the call of the runtime under way is given up; -1 without one
    made_us: when a sandbox or container was made that no relist has shown yet; -1 for none
    _held: the status as last computed, or the item with an equal one
    _again: True if another piece of work follows the present one
    _stalled: the work that waits for the runtime to answer
    _settled_us: the end of the last piece of work; -1 before it
    _end_cause: the record of what ends the pod, while work under way has another cause; 0 for none
    """

    __slots__ = (
        "_again", "_end_cause", "_held", "_settled_us", "_stalled", "_timer", "_work", "agent", "item",
        "limit_us", "made_us", "probes", "reasons", "removed", "requested_end", "requests", "runtime", "state", "uid",
    )  # fmt: skip

    def __init__(self, agent: PodAgent, uid: str, item: Item) -> None:
        self.agent = agent
        self.uid = uid
        self.item = item
        self.state: WorkerState = TRANSITIONS.start
        self._held: Obj | Item = item
        self.runtime: PodRuntime | None = agent.machine.pods.get(uid)
        self.reasons: Mapping[str, Reason] = NOTHING
        self.probes: tuple[Probe, ...] = ()
        self.requested_end = NO_REQUEST
        self.removed = False
        self.requests: Requests | None = None
        self._work: Work | None = None
        self._stalled: Work | None = None
        self.limit_us = -1
        self._again = False
        self._timer: Timer | None = None
        self._settled_us = self.made_us = -1
        self._end_cause = 0

    def move(self, state: WorkerState) -> None:
        """Pass to a state that may follow the present one (`pod_work.TRANSITIONS`)."""
        self.state = TRANSITIONS.move(self.state, state)

    @property
    def pod(self) -> Obj:
        """The newest object of the pod."""
        return self.item.obj

    @property
    def status(self) -> Obj:
        """The status as last computed."""
        held = self._held
        return held if type(held) is dict else status_in(held)

    @status.setter
    def status(self, status: Obj) -> None:
        self._held = status

    def replan_probes(self) -> None:
        """Plan again the checks of its probes, because the clock was set."""
        for probe in self.probes:
            probe.replan()

    # --- what starts its work ---------------------------------------------------------------------

    def update(self, item: Item) -> None:
        """Take over a new state of the object that differs in more than its status."""
        self.item = item
        if item.obj["metadata"].get("deletionTimestamp") and self.state is SYNC:
            self._begin_termination()
        else:
            self.agent.durations.updated(self.uid)
            self.wake()

    def kill(self, *, grace_s: int | None = None, override: Override | None = None) -> None:
        """End the pod: it is evicted, preempted or removed from its source, or the node shuts down."""
        if self.state is SYNC:
            self.requested_end = RequestedEnd(grace_s, override)
            self._begin_termination()
        elif self.state is TERMINATING and override is not None:
            # Of several requests before the termination begins the last one counts, with the
            # shortest grace period.
            earlier_s = self.requested_end.grace_s
            shortest_s = min(grace_s or earlier_s or 0, earlier_s or grace_s or 0) or None
            self.requested_end = self.requested_end._replace(grace_s=shortest_s, override=override)

    def _begin_termination(self) -> None:
        self.move(TERMINATING)  # Quirk: a sync under way continues, also one that pulls an image
        self._end_cause = self.agent.ctx.kernel.cause
        self.wake()

    def wake(self) -> None:
        """Do the next piece of work at a relist that is newer than the last one."""
        if self.state is FINISHED:
            return
        if self._work is not None:
            self._again = True
        else:
            self._wake_at(max(self.agent.ctx.kernel.now_us, self._ready_us()))

    def _ready_us(self) -> int:
        return self.agent.relist_after(self._settled_us) if self._settled_us >= 0 else 0

    def _wake_at(self, at_us: int) -> None:
        now_us = self.agent.ctx.kernel.now_us
        if self._timer is not None:
            if self._timer.at_us <= at_us:
                return
            self._timer.cancel()
            self._timer = None
        if at_us <= now_us:
            self._start(None)
        else:
            self._timer = self.agent.ctx.timer_at_us(at_us, self._start)

    def _start(self, _: object) -> None:
        self._timer = None
        agent = self.agent
        # A kill by the eviction manager or a shutdown, and the work that follows from it, do not go
        # through the loop; a retry does.
        ends = self.state is TERMINATING
        by_loop = self.state in (SYNC, KILLING) or (ends and self.requested_end.override is None)
        if agent.runtime.silent or (by_loop and agent.loop.asleep):
            agent.loop.resume_later(self)
            return
        kernel = agent.ctx.kernel
        if self.state is SYNC:
            if agent.mirrors.uids and not agent.mirrors.may_start(self):
                self._wake_at(agent.resync_after(RETRY_US))
                return
            kernel.follow(unseen_end(self.runtime, self.status, kernel.now_us) or kernel.cause)
            self._work = agent.durations.measured(self.uid, self._sync(), kernel, first=self._settled_us < 0)
        else:
            kernel.follow(self._end_cause or kernel.cause)  # a timer may be older than the deletion
            self._end_cause, self._work = 0, self._terminate() if self.state in ENDING else self._finish()
        self._step(self._work)

    def _step(self, work: Work) -> None:
        """Continue a piece of work until it takes time or ends."""
        if self._work is not work:
            return  # another piece of work took its place
        agent = self.agent
        try:
            while True:
                if (
                    agent.machine.runtime_delay_us is None
                    and not 0 <= self.limit_us <= agent.ctx.kernel.now_us
                ):
                    self._stalled = work  # the runtime does not answer
                    agent.loop.answer_later(self)
                    if self.limit_us >= 0:
                        agent.ctx.call_at_us(self.limit_us, self._give_up, work)
                    return
                delay_us = next(work)
                if delay_us < 0:
                    return  # a callback will call `proceed`
                if delay_us:
                    agent.ctx.call_at_us(agent.ctx.kernel.now_us + delay_us, self._step, work)
                    return
        except StopIteration as end:
            self._ended(end.value)

    def _give_up(self, work: Work) -> None:
        """Continue the work if it still waits for the call that has taken too long."""
        if self._stalled is work:
            self._stalled = None
            self._step(work)

    def resync(self) -> None:
        """Run the next regular sync, which is skipped otherwise."""
        if self._work is not None:
            self._again = True
        else:
            agent = self.agent
            self._wake_at(
                agent.tick_after(agent.ctx.kernel.now_us + agent.dice.below(agent.options.sync_frequency_us))
            )

    def proceed(self, work: Work) -> None:
        """Continue a piece of work that has yielded `WAIT`."""
        self._step(work)

    def answered(self) -> None:
        """The runtime answers the call that the work waits for."""
        stalled, self._stalled = self._stalled, None
        if stalled is not None:
            self._step(stalled)

    @property
    def wanted(self) -> bool:
        """True until the end of the pod is requested."""
        return self.state is SYNC

    @property
    def work(self) -> Work | None:
        """The piece of work that runs now."""
        return self._work

    def _ended(self, error: str) -> None:
        agent = self.agent
        self._work = None
        self._settled_us = agent.ctx.kernel.now_us
        stale = agent.container_gc.trim(self)
        if self.state is FINISHED:
            agent.worker_finished(self.uid)
            return
        if error:
            base_us = NETWORK_RETRY_US if error.startswith(NO_NETWORK) else RETRY_US
            agent.ctx.call_at_us(agent.resync_after(base_us), self._retry, self._settled_us)
        if self._again or self.state is TERMINATED or (self.state in ENDING and not error):
            self._again, self.made_us = False, -1  # the same relist shows what was made
            self._wake_at(self._ready_us())
            return
        if not error and (stale or self._is_unready()):
            self._wake_at(agent.resync_after(agent.options.sync_frequency_us))
        if self.made_us >= 0:  # A relist shows what was made, even if nothing else happens.
            shown_us, self.made_us = agent.relist_after(self.made_us), -1
            self._wake_at(max(shown_us, self._ready_us()))
        self.observe()

    def _retry(self, settled_us: int) -> None:
        """Retry after an error, unless other work has ended since then, which has its own retry."""
        if self._settled_us == settled_us:
            self.wake()

    def observe(self) -> None:
        """Wake at the relist that will show the next change of the runtime, and at the deadline."""
        if self._work is not None or self.state is not SYNC:
            return
        runtime, now_us = self.runtime, self.agent.ctx.kernel.now_us
        if runtime is not None:
            change_us = unseen_us(runtime, self.status, now_us)
            if change_us is not None:
                self._wake_at(max(self.agent.relist_after(change_us), self._ready_us()))
        deadline_s = self.item.obj["spec"].get("activeDeadlineSeconds")
        if deadline_s is not None and self.status.get("startTime"):
            ctx = self.agent.ctx
            left_us = parse_time(self.status["startTime"]) + deadline_s * SECOND - ctx.wall_us()
            tick_us = self.agent.tick_after(now_us + ctx.clock.real_us(left_us) - 1)
            self._wake_at(max(tick_us, self._ready_us()))

    # --- status -----------------------------------------------------------------------------------

    def view(self) -> View:
        """What the agent knows about the pod besides its object."""
        unready = unstarted = NOTHING
        for probe in self.probes:
            probe.refresh()
            if probe.result != "Success":
                match probe.kind:
                    case "Readiness":
                        unready = {**unready, probe.container: None}
                    case "Startup":
                        unstarted = {**unstarted, probe.container: None}
                    case "Liveness":
                        pass
                    case _:
                        assert_never(probe.kind)
        agent = self.agent
        return View(
            agent.ctx.kernel.now_us, agent.ctx.said_us, agent.host_ips, self.runtime, self.reasons, unready, unstarted,
            self.requested_end.override if self.state in ENDING else None, self._is_past_deadline(),
        )  # fmt: skip

    def sync_is_due(self) -> bool:
        """True if the status does not show the newest ends of containers."""
        runtime, now_us = self.runtime, self.agent.ctx.kernel.now_us
        return runtime is not None and unseen_us(runtime, self.status, now_us) == now_us

    def refresh(self, *, finished: bool = False) -> Obj:
        """Compute the status and hand it to the status manager.

        finished: True if nothing of the pod runs or will run
        """
        held = self._held
        old = status_in(held)
        status = generate(self.item.obj, old, self.view())
        if finished:
            status = final_status(status)
        elif status["phase"] == "Running" and old.get("phase") == "Pending":
            self.agent.durations.runs(self.uid, self.agent.ctx.kernel.now_us)
        shown = None if isinstance(held, dict) or status != old else held
        if self.agent.statuses.set(self.uid, status, shown) or isinstance(held, dict):
            self._held = status if shown is None else shown
        return status

    def adopt(self, item: Item) -> None:
        """Take over the API's state of the object.

        Its status is shared if it equals ours, else ours is written again.
        """
        self.item = item
        if status_in(item) is self.status or self.agent.statuses.reconcile(self.uid, item):
            self._held = item

    # --- sync -------------------------------------------------------------------------------------

    def _sync(self) -> Work:
        """syncPod: the status first, then the runtime.  Returns what went wrong, "" for nothing."""
        agent, pod = self.agent, self.item.obj
        self._report_deadline()
        if self.refresh()["phase"] in TERMINAL:
            if self.state is SYNC:
                self.move(TERMINATING)
            self.requested_end = self.requested_end._replace(is_own=True)
            return ""
        self._check_probes()
        if agent.runtime.network_problem and not pod["spec"].get("hostNetwork"):
            message = NO_NETWORK + agent.runtime.network_problem
            agent.event(pod, "Warning", "NetworkNotReady", message)
            return message
        if agent.is_static(self.uid):
            agent.mirrors.sync(self)
        manages = agent.volumes.begin(self)
        if needs := volumes_of(pod["spec"]):
            error = yield from agent.references.mount(self, needs)
            if error:
                return error
        if manages:
            error = yield from agent.volumes.mount(self)
            if error:
                return error
        self._add_probes()
        if (programs := agent.machine.programs.get(self.uid)) is not None:
            from actors.node.pods.volume_content import keep_fresh

            keep_fresh(self, programs)
        return (yield from self._sync_runtime())

    def _is_past_deadline(self) -> bool:
        pod, agent = self.item.obj, self.agent
        start = self.status.get("startTime") if "activeDeadlineSeconds" in pod["spec"] else None
        return bool(start) and past_deadline(pod, parse_time(start), agent.ctx.wall_us())

    def _report_deadline(self) -> None:
        """Quirk: the event repeats each time the status is computed."""
        if self._is_past_deadline():
            self.agent.event(self.item.obj, "Normal", DEADLINE_REASON, DEADLINE_MESSAGE)

    def _sync_runtime(self) -> Work:
        agent, pod = self.agent, self.item.obj
        failed: dict[str, str] = {}
        for probe in self.probes:
            if probe.kind != "Readiness" and probe.result == "Failure":
                failed[probe.container] = probe.kind.lower()
        actions = compute_actions(pod, self.runtime, failed, agent.ctx.kernel.now_us)
        # Quirk: back-offs count from these ends, not from those of containers that are killed here.
        ended = self.runtime.ends(agent.ctx.kernel.now_us) if self.runtime is not None else {}
        first: Container | None = None  # the init container's instance before the sandbox changed
        if actions.kill_pod and self.runtime is not None:
            if actions.create_sandbox:
                agent.event(
                    pod, "Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created."
                )
            if error := (yield from kill_pod(self, self.runtime)):
                return error
            if actions.create_sandbox and actions.init is not None:
                first = self.runtime.newest(actions.init["name"])
                names = [spec["name"] for spec in pod["spec"]["initContainers"]]
                agent.image_gc.unused(agent.machine.purge(self.runtime, names))
        elif actions.kills:
            if error := (yield from kill_failed(self, actions)):
                return error
        if actions.create_sandbox:
            if error := (yield from make_sandbox(self)):
                return error
            self.made_us = agent.ctx.kernel.now_us
        errors = []
        for container in actions.ephemeral:
            errors.append((yield from start_container(self, container, ended, init=False)))
        if actions.init is not None:
            errors.append((yield from start_container(self, actions.init, ended, init=True, previous=first)))
        for container in actions.starts:
            errors.append((yield from start_container(self, container, ended, init=False)))
        return next(filter(None, errors), "")

    # --- the end ----------------------------------------------------------------------------------

    def _terminate(self) -> Work:
        """syncTerminatingPod."""
        agent = self.agent
        if self.state is TERMINATING:  # not a retry
            self.move(KILLING)
        self._report_deadline()
        self.refresh()
        self._check_probes()
        self._stop_probes("Liveness", "Startup")
        if self.runtime is not None:
            requested = not self.requested_end.is_own or "deletionTimestamp" in self.item.obj["metadata"]
            stop_us = effective_grace_us(self.item.obj, self.requested_end.grace_s) if requested else None
            if error := (yield from kill_pod(self, self.runtime, stop_us)):
                agent.event(self.item.obj, "Warning", "FailedKillPod", f"error killing pod: {error}")
                return error
        self._stop_probes("Readiness")
        self.move(TERMINATED)
        entry = agent.statuses.entry(self.uid)
        if entry is not None:
            entry.running = False
        agent.worker_stopped(self.uid)
        return ""

    def _finish(self) -> Work:
        """syncTerminatedPod: the final status, after volumes and cgroups were removed."""
        agent = self.agent
        self._report_deadline()
        self.refresh()
        keeps = keeps_volumes(self.item.obj, agent.options)
        yield agent.housekeeping_after_us() if keeps else unmounted_after_us(agent.dice)
        if not keeps and (error := (yield from agent.volumes.unmount(self))):
            return error
        self.move(FINISHED)
        if self.runtime is not None and agent.options.cgroups_per_qos:
            agent.durations.add(0, CGROUPS, "destroy")
        entry = agent.statuses.entry(self.uid)
        if entry is not None:
            entry.reclaimed = True
            if keeps:
                agent.statuses.leave(self.uid)
            else:
                self.refresh(finished=True)
                agent.statuses.push(self.uid)
        return ""

    # --- probes -----------------------------------------------------------------------------------

    def _add_probes(self) -> None:
        specs = () if self.probes else probe_specs(self.item.obj["spec"]["containers"])
        if not specs:
            return
        ctx, pod, gates = self.agent.ctx, self.item.obj, self.agent.options.feature_gates
        self.probes = tuple([Probe(ctx, self, *row, gated_answer(pod, *row, gates)) for row in specs])
        for probe in self.probes:
            probe.refresh()  # a restarted agent's status shows the container already
            probe.start(self.agent.first_probe_wait_us(int(probe.spec.get("periodSeconds") or 10)))

    def late_us(self, container: Container) -> int:
        """How much longer the container takes to answer."""
        return self.agent.spec.profile.late_us(self.item.obj, container.name)

    @property
    def counts_timeouts(self) -> bool:
        """True if a probe fails when its command takes too long."""
        return enabled(self.agent.options.feature_gates, EXEC_TIMEOUTS)

    def _check_probes(self) -> None:
        """Quirk: every sync probes at once a container that has started and is not ready."""
        for probe in self.probes:
            if probe.kind == "Readiness" and probe.result != "Success" and self._has_started(probe.container):
                probe.check()
            else:
                probe.replan()

    def _is_unready(self) -> bool:
        """True if a sync would probe something sooner than the probe's own ticks do."""
        unready = [p.container for p in self.probes if p.kind == "Readiness" and p.result != "Success"]
        return any(not self.shows_end(name) for name in unready)

    def _stop_probes(self, *kinds: str) -> None:
        for probe in self.probes:
            if probe.kind in kinds:
                probe.stop()

    def may_probe(self, probe: Probe) -> bool:
        """True if the status shows the container as started; for the startup probe, as not started."""
        name = probe.container
        if not any(p.kind == "Startup" and p.container == name for p in self.probes):
            return True  # the status shows the instance as running
        return self._has_started(name) != (probe.kind == "Startup")

    def _has_started(self, container: str) -> bool:
        """True if the status shows the container as started."""
        shown = self.status.get("containerStatuses") or ()
        return any(s["name"] == container and s.get("started") for s in shown)

    def is_over(self) -> bool:
        """True if the status shows that the pod has failed or succeeded."""
        return self.status.get("phase") in TERMINAL

    def shows_end(self, container: str) -> bool:
        """True if the status shows that the container does not run."""
        shown = self.status.get("containerStatuses") or ()
        return any(s["name"] == container and "running" not in s["state"] for s in shown)

    def fault_record(self, container: Container) -> int:
        """The record of the fault that makes the container fail its probes; 0 if it is not new."""
        profile = self.agent.spec.profile
        fault = profile.imposed(
            self.item.obj, container.name, False, "healthy_after_us", "unhealthy_after_us", "late_us"
        )
        return met_first(self.runtime, container, fault) if self.runtime is not None else 0

    def programs_in(self, container: Container) -> PodPrograms | None:
        """The pod's processes if some of them are in the container."""
        machine = self.agent.machine
        return machine.programs[self.uid] if machine.simulated_program(container) is not None else None

    def spec_of(self, container: str) -> Obj:
        """The spec of a container."""
        return next(spec for spec in self.item.obj["spec"]["containers"] if spec["name"] == container)

    def errored(self, probe: Probe, error: str) -> None:
        """Record the event of a probe that could not be carried out."""
        text = f"{probe.kind} probe errored: {error}"
        self.agent.event(self.item.obj, "Warning", "Unhealthy", text, container=probe.container)

    def unhealthy(self, probe: Probe, container: Container) -> None:
        """Record the event of a failed probe of a container."""
        if probe.error:
            self.errored(probe, probe.error)
            return
        ip = self.runtime.ip if self.runtime is not None else ""
        text = f"{probe.kind} probe failed: {probe.output(container, self.spec_of(probe.container), ip)}"
        if probe.is_first:  # what only a liveness probe finds is in the way of nothing
            what = "unhealthy" if probe.kind == "Liveness" else "fails"
            meta, why = self.pod["metadata"], {"reason": "Unhealthy", "message": text.strip()}
            self.agent.ctx.decided(what, f"pods/{meta['namespace']}/{meta['name']}", why)
        self.agent.event(self.pod, "Warning", "Unhealthy", text, container=probe.container)

    def instance_found(self, probe: Probe) -> None:
        """Show the instance as not ready, or as not started.

        Quirk: an earlier agent may have shown it as ready or started, which changes for a moment.
        """
        if not self.agent.loop.asleep:
            self._show_probe(probe, False)

    def instance_initialized(self) -> None:
        """The initial result of a probe leads to a sync like any other result."""
        if self.state is SYNC and not self._is_ready():
            if self.agent.loop.asleep:
                self.agent.loop.resume_later(self)
            else:
                self._sync_soon()

    def _sync_soon(self) -> None:
        """Sync after all probes that tick at this instant."""
        self.agent.ctx.call_later_us(0, self._sync_due)

    def _sync_due(self, _: object) -> None:
        if self.state is SYNC:
            self.wake()

    def probed(self, probe: Probe, result: Result) -> None:
        """Show readiness or startup at once; a liveness or startup failure leads to a restart."""
        if probe.kind == "Liveness" and result == "Success":
            return
        if self.agent.loop.asleep:
            self.agent.loop.resume_later(self)
            return
        if probe.kind != "Liveness":
            self._show_probe(probe, result == "Success")
        if self.state is not SYNC:
            return
        if probe.kind == "Startup" and result == "Success":
            for other in self.probes:
                if other.container == probe.container and other.kind != "Startup":
                    other.replan()
        if result == "Failure" or probe.kind != "Readiness" or not self._is_ready():
            self._sync_soon()

    def _show_probe(self, probe: Probe, value: bool) -> None:
        key, shown = "ready" if probe.kind == "Readiness" else "started", self.status.get("containerStatuses")
        if any(s["name"] == probe.container and s[key] != value for s in shown or ()):
            now = format_time(self.agent.ctx.wall_us())
            self.status = probed(self.item.obj, self.status, probe.container, key, value, now)
            self.agent.statuses.set(self.uid, self.status)

    def _is_ready(self) -> bool:
        """True if the status shows all containers as started and ready, and they are.

        A sync would find nothing to do then.
        """
        shown_ready = all(s["started"] and s["ready"] for s in self.status.get("containerStatuses") or ())
        return shown_ready and all(p.result == "Success" for p in self.probes if p.kind != "Liveness")

    def replan(self) -> None:
        """A fault changed something in the machine: plan what it can lead to."""
        for probe in self.probes:
            probe.replan()
        self.observe()
