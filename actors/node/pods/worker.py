"""One pod on one node: sync, terminating, terminated.  A state machine driven by callbacks; no task.

Turns updates of the pod, relists of the runtime, probe results and timers into commands to the machine, events
and a status.  Work that takes time is a generator that yields how long (`_sync`, `_terminate`, `_finish`);
updates that come meanwhile coalesce to the latest.

Holds: one piece of work at a time; a worker that is terminating never goes back; the next piece of work begins
at a relist, as upstream waits for a runtime status newer than the end of the last one.  A steady pod has no
timer.

Mirrors  pkg/kubelet/pod_workers.go, kubelet.go: syncPod, syncTerminatingPod, syncTerminatedPod;
         kuberuntime_manager.go: SyncPod (v1.25).
Differs  of the resyncs of a healthy pod after 60 to 90 s only those are made that probe a container that is not ready:
         nothing else can have changed without a callback.  Volumes take no time to mount; unmounting takes up to one
         poll of 0.3 s.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from actors.node.causes import caused, met_first, unseen_end
from actors.node.pods.actions import UNASKED, Asked, compute_actions, effective_grace_us
from actors.node.pods.killing import kill_failed, kill_pod, run_post_start
from actors.node.pods.pod_status import (
    DEADLINE_MESSAGE,
    DEADLINE_REASON,
    NOTHING,
    Reason,
    View,
    ended,
    generate,
    past_deadline,
    probed,
    reasoned,
    unseen_us,
)
from actors.node.pods.prober import Probe, output_of, probe_specs
from actors.node.pods.restarts import held_back
from actors.node.pods.status_manager import status_in
from actors.node.runtime.call_deadlines import LATE, call
from actors.node.runtime.machine import Container, PodRuntime
from actors.node.runtime.sandboxes import behaviour_of, limit_memory, make_sandbox
from actors.node.sources.references import volumes_of
from actors.node.sources.volumes import keeps_volumes, reclaimed_after_us
from sim.api.objects import TERMINAL
from sim.api.types import Obj
from sim.units import SECOND, format_time, parse_time

if TYPE_CHECKING:
    from actors.node.agent import NodeAgent
    from sim.api.store import Item
    from sim.kernel.timer import Timer

Work = Generator[int, None, str]

SYNC, TERMINATING, TERMINATED, FINISHED = "sync", "terminating", "terminated", "finished"
RETRY_US = 10 * SECOND  # pod_workers.go: backOffPeriod, jitter 0.5
NETWORK_RETRY_US = 1 * SECOND  # kubelet.go: backOffOnTransientErrorPeriod
NO_NETWORK = "network is not ready: "


class Worker:
    """A pod's worker.  `item` is the newest from its source.

    _held: the status as it was last worked out, or the item that says the same
    """

    __slots__ = (
        "_again", "_ending", "_held", "_made_us", "_over", "_settled_us", "_stalled", "_timer", "_work", "agent", "asked", "item", "limit_us",
        "probes", "reasons", "removed", "requests", "runtime", "state", "uid",
    )  # fmt: skip

    def __init__(self, agent: NodeAgent, uid: str, item: Item) -> None:
        self.agent = agent
        self.uid = uid
        self.item = item
        self.state = SYNC
        self._held: Obj | Item = item
        self.runtime: PodRuntime | None = agent.machine.pods.get(uid)
        self.reasons: Mapping[str, Reason] = NOTHING
        self.probes: tuple[Probe, ...] = ()
        self.asked = UNASKED
        self.removed = False  # the source no longer has the pod
        self._ending = False  # it is being terminated
        self._over = False  # it ends because it has come to its end, not because somebody asked for that
        self.requests: Any = None  # what it holds of the node, once admitted
        self._work: Work | None = None
        self._stalled: Work | None = None  # waits for the runtime to answer
        self.limit_us = -1  # when the call under way is given up
        self._again = False
        self._timer: Timer | None = None
        self._settled_us = -1  # end of the last piece of work
        self._made_us = -1  # when a sandbox or container was made that no relist has shown yet

    @property
    def pod(self) -> Obj:
        return self.item.obj

    @property
    def status(self) -> Obj:
        return status_in(self._held)

    @status.setter
    def status(self, status: Obj) -> None:
        self._held = status

    # --- what makes it work -------------------------------------------------------------------------------

    def update(self, item: Item) -> None:
        """A new state of the object, other than its status."""
        self.item = item
        if item.obj["metadata"].get("deletionTimestamp") and self.state == SYNC:
            self._begin_termination()
        else:
            self.wake()

    def kill(self, *, grace_s: int | None = None, override: tuple[str, str, str] | None = None) -> None:
        """End the pod: evicted, preempted, removed from its source, or the node shuts down."""
        if self.state == SYNC:
            self.asked = Asked(grace_s, override)
            self._begin_termination()
        elif self.state == TERMINATING and not self._ending and override is not None:
            # of several who ask before it begins to end the last is heard, with the shortest grace
            had_s = self.asked.grace_s
            self.asked = Asked(min(grace_s or had_s or 0, had_s or grace_s or 0) or None, override)

    def _begin_termination(self) -> None:
        self.state = TERMINATING  # Quirk: a sync under way is not cut short, not even one that pulls an image
        self.wake()

    def wake(self) -> None:
        """Do the next piece of work as soon as a relist newer than the last one has been."""
        if self.state == FINISHED:
            return
        if self._work is not None:
            self._again = True
        else:
            self._wake_at(max(self.agent.now_us, self._ready_us()))

    def _ready_us(self) -> int:
        return self.agent.relist_after(self._settled_us) if self._settled_us >= 0 else 0

    def _wake_at(self, at_us: int) -> None:
        now_us = self.agent.now_us
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
        # What the eviction manager or a shutdown asks for does not go through the loop, nor does what follows from it; what
        # has to be tried again does.
        ends = self.state == TERMINATING
        by_loop = self.state == SYNC or (ends and (self._ending or self.asked.override is None))
        if agent.runtime.silent or (by_loop and agent.loop.asleep):
            agent.loop.resume_later(self)
            return
        if self.state == SYNC:
            if agent.mirrors.uids and not agent.mirrors.may_start(self):
                self._wake_at(agent.resync_after(RETRY_US))
                return
            kernel = agent.ctx.kernel
            kernel.cause = unseen_end(self.runtime, self.status, kernel.now_us) or kernel.cause
            self._work = self._sync()
        elif self.state == TERMINATING:
            self._work = self._terminate()
        else:
            self._work = self._finish()
        self._step(self._work)

    def _step(self, work: Work) -> None:
        """Go on with a piece of work until it next takes time, or ends."""
        if self._work is not work:
            return  # cancelled meanwhile
        agent = self.agent
        try:
            while True:
                if agent.machine.runtime_delay_us is None and not 0 <= self.limit_us <= agent.now_us:
                    self._stalled = work  # the runtime does not answer
                    agent.loop.answer_later(self)
                    if self.limit_us >= 0:
                        agent.ctx.call_at_us(self.limit_us, self._give_up, work)
                    return
                delay_us = next(work)
                if delay_us < 0:
                    return  # somebody calls `proceed`
                if delay_us:
                    agent.ctx.call_at_us(agent.now_us + delay_us, self._step, work)
                    return
        except StopIteration as end:
            self._ended(end.value)

    def _give_up(self, work: Work) -> None:
        """The call that it waits for takes too long, if it is still the one."""
        if self._stalled is work:
            self._stalled = None
            self._step(work)

    def resync(self) -> None:
        """Let its next regular sync be run, whenever that falls."""
        if self._work is not None:
            self._again = True
        else:
            agent = self.agent
            self._wake_at(agent.tick_after(agent.now_us + agent.dice.below(agent.options.sync_frequency_us)))

    def proceed(self, work: Work) -> None:
        """Called when what the work waits for (an image) has come."""
        self._step(work)

    def answered(self) -> None:
        """The runtime answers what it was asked."""
        stalled, self._stalled = self._stalled, None
        if stalled is not None:
            self._step(stalled)

    @property
    def wanted(self) -> bool:
        """Whether nobody has asked for its end."""
        return self.state == SYNC

    @property
    def work(self) -> Work | None:
        return self._work

    def _ended(self, error: str) -> None:
        agent = self.agent
        self._work = None
        self._settled_us = agent.now_us
        stale = agent.container_gc.trim(self)
        if self.state == FINISHED:
            agent.worker_finished(self)
            return
        if error:
            base_us = NETWORK_RETRY_US if error.startswith(NO_NETWORK) else RETRY_US
            agent.ctx.call_at_us(agent.resync_after(base_us), self._retry, self._settled_us)
        if self._again or self.state == TERMINATED or (self.state == TERMINATING and not error):
            self._again, self._made_us = False, -1  # that relist shows what was made, too
            self._wake_at(self._ready_us())
            return
        if error:
            pass
        elif stale or self._is_unready():
            self._wake_at(agent.resync_after(agent.options.sync_frequency_us))
        if self._made_us >= 0:  # a relist shows it, were it all that there is to see
            shown_us, self._made_us = agent.relist_after(self._made_us), -1
            self._wake_at(max(shown_us, self._ready_us()))
        self.observe()

    def _retry(self, settled_us: int) -> None:
        """The time after an error is over.  Work that has ended since then has a time of its own; what is under way is followed."""
        if self._settled_us == settled_us:
            self.wake()

    def observe(self) -> None:
        """Wake at the relist that will show the next change of the runtime, and at the deadline."""
        if self._work is not None or self.state != SYNC:
            return
        runtime, now_us = self.runtime, self.agent.now_us
        if runtime is not None:
            change_us = unseen_us(runtime, self.status, now_us)
            if change_us is not None:
                self._wake_at(max(self.agent.relist_after(change_us), self._ready_us()))
        deadline_s = self.pod["spec"].get("activeDeadlineSeconds")
        if deadline_s is not None and self.status.get("startTime"):
            ctx = self.agent.ctx
            left_us = parse_time(self.status["startTime"]) + deadline_s * SECOND - ctx.wall_us()
            tick_us = self.agent.tick_after(now_us + ctx.clock.real_us(left_us) - 1)
            self._wake_at(max(tick_us, self._ready_us()))

    # --- status -------------------------------------------------------------------------------------------

    def view(self) -> View:
        unready = unstarted = NOTHING
        for probe in self.probes:
            probe.refresh()
            if probe.result != "Success":
                if probe.kind == "Readiness":
                    unready = {**unready, probe.container: None}
                elif probe.kind == "Startup":
                    unstarted = {**unstarted, probe.container: None}
        agent = self.agent
        return View(
            agent.now_us, agent.ctx.said_us, agent.host_ip, self.runtime, self.reasons, unready, unstarted,
            self.asked.override if self.state == TERMINATING else None, self._is_late(),
        )  # fmt: skip

    def refresh(self, *, finished: bool = False) -> Obj:
        """Compute the status and hand it to the status manager.  `finished`: nothing runs or will run."""
        held = self._held
        old = status_in(held)
        status = generate(self.pod, old, self.view())
        if finished:
            status = ended(status)
        shown = None if isinstance(held, dict) or status != old else held
        if self.agent.statuses.set(self.uid, status, shown) or isinstance(held, dict):
            self._held = status if shown is None else shown
        return status

    def adopt(self, item: Item) -> None:
        """The API's copy came back: share its status in place of our equal one; put right what others changed."""
        self.item = item
        if status_in(item) is self.status or self.agent.statuses.reconcile(self.uid, item):
            self._held = item

    # --- sync ---------------------------------------------------------------------------------------------

    def _sync(self) -> Work:
        """syncPod: status first, then the runtime.  Returns what went wrong ("" for nothing)."""
        agent, pod = self.agent, self.pod
        self._tell_late()
        if self.refresh()["phase"] in TERMINAL:
            self.state, self._over = TERMINATING, True
            return ""
        self._look_at_probes()
        if agent.runtime.network_problem and not pod["spec"].get("hostNetwork"):
            message = NO_NETWORK + agent.runtime.network_problem
            agent.event(pod, "Warning", "NetworkNotReady", message)
            return message
        if agent.is_static(self):
            agent.mirrors.sync(self)
        if needs := volumes_of(pod["spec"]):
            error = yield from agent.references.mount(self, needs)
            if error:
                return error
        self._add_probes()
        return (yield from self._sync_runtime())

    def _is_late(self) -> bool:
        pod, agent = self.pod, self.agent
        start = self.status.get("startTime") if "activeDeadlineSeconds" in pod["spec"] else None
        return bool(start) and past_deadline(pod, parse_time(start), agent.ctx.wall_us())

    def _tell_late(self) -> None:
        """Quirk: each time that its status is worked out."""
        if self._is_late():
            self.agent.event(self.pod, "Normal", DEADLINE_REASON, DEADLINE_MESSAGE)

    def _sync_runtime(self) -> Work:
        agent, pod = self.agent, self.pod
        failed: dict[str, str] = {}
        for probe in self.probes:
            if probe.kind != "Readiness" and probe.result == "Failure":
                failed[probe.container] = probe.kind.lower()
        actions = compute_actions(pod, self.runtime, failed, agent.now_us)
        # Quirk: back-offs go by these, not by the ends of what is killed here.
        ended = self.runtime.ends(agent.now_us) if self.runtime is not None else {}
        first: Container | None = None  # of the init container that begins again, as it was before
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
            self._made_us = agent.now_us
        errors = []
        for container in actions.ephemeral:
            errors.append((yield from self._start_container(container, ended, init=False)))
        if actions.init is not None:
            errors.append((yield from self._start_container(actions.init, ended, init=True, after=first)))
        for container in actions.starts:
            errors.append((yield from self._start_container(container, ended, init=False)))
        return next(filter(None, errors), "")

    def _start_container(
        self, spec: Obj, ended: Mapping[str, Container], *, init: bool, after: Container | None = None
    ) -> Work:
        """Back-off, image, create, start.  The reason of a failure shows from the next sync on.

        ended: what had ended when the sync began; after: the instance before it, if that is not kept any more
        """
        agent, pod, name = self.agent, self.pod, spec["name"]
        runtime = self.runtime
        assert runtime is not None
        held = held_back(self, spec, ended.get(name))
        if held:
            return held
        reason = yield from agent.images.ensure(self, spec)
        if reason is not None:
            self.reasons = reasoned(self.reasons, name, reason)
            return reason[0]
        target = spec.get("targetContainerName")
        if target and runtime.newest(target) is None:
            problem = f"unable to find target container {target}"
        else:
            problem = yield from agent.references.config(self, spec)
        if problem:
            self.reasons = reasoned(self.reasons, name, ("CreateContainerConfigError", problem))
            agent.event(pod, "Warning", "Failed", f"Error: {problem}", container=name)
            return "CreateContainerConfigError"
        if not (yield from call(self, agent.spec.profile.start_us)):
            self.reasons = reasoned(self.reasons, name, ("CreateContainerError", LATE))
            agent.event(pod, "Warning", "Failed", f"Error: {LATE}", container=name)
            return "CreateContainerError"
        profile, kernel = agent.spec.profile, agent.ctx.kernel
        behaviour = behaviour_of(self, pod, name, init)
        agent.event(pod, "Normal", "Created", f"Created container {name}", container=name)
        by = profile.imposed(pod, name, init, "start_error" if behaviour.start_error else "exit_after_us")
        container = agent.machine.start(runtime, name, spec["image"], behaviour, agent.now_us, by, after)
        self._made_us = agent.now_us
        if behaviour.start_error:
            self.reasons = reasoned(self.reasons, name, ("RunContainerError", behaviour.start_error))
            with caused(kernel, met_first(runtime, container, by)):
                agent.event(pod, "Warning", "Failed", f"Error: {container.message}", container=name)
            return "RunContainerError"
        self.reasons = reasoned(self.reasons, name, None)
        if behaviour.uses_much:
            by = profile.imposed(pod, name, init, "memory_bytes")
            limit_memory(self, spec, container, by)
            with caused(kernel, met_first(runtime, container, by)):
                agent.consider_pressure()
        agent.event(pod, "Normal", "Started", f"Started container {name}", container=name)
        return (yield from run_post_start(self, spec, container))

    # --- the end ------------------------------------------------------------------------------------------

    def _terminate(self) -> Work:
        """syncTerminatingPod."""
        agent, self._ending = self.agent, True
        self._tell_late()
        self.refresh()
        self._look_at_probes()
        self._stop_probes("Liveness", "Startup")
        if self.runtime is not None:
            asked = not self._over or "deletionTimestamp" in self.pod["metadata"]
            stop_us = effective_grace_us(self.pod, self.asked.grace_s) if asked else None
            if error := (yield from kill_pod(self, self.runtime, stop_us)):
                agent.event(self.pod, "Warning", "FailedKillPod", f"error killing pod: {error}")
                return error
        self._stop_probes("Readiness")
        self.state = TERMINATED
        entry = agent.statuses.entry(self.uid)
        if entry is not None:
            entry.running = False
        agent.worker_stopped(self)
        return ""

    def _finish(self) -> Work:
        """syncTerminatedPod: the final status, volumes and cgroups gone."""
        agent = self.agent
        self._tell_late()
        self.refresh()
        yield reclaimed_after_us(self)
        self.state = FINISHED
        entry = agent.statuses.entry(self.uid)
        if entry is not None:
            entry.reclaimed = True
            if keeps_volumes(self):
                agent.statuses.leave(self.uid)
            else:
                self.refresh(finished=True)
                agent.statuses.push(self.uid)
        return ""

    # --- probes -------------------------------------------------------------------------------------------

    def _add_probes(self) -> None:
        specs = () if self.probes else probe_specs(self.pod["spec"]["containers"])
        if not specs:
            return
        self.probes = tuple([Probe(self.agent.ctx, self, *row) for row in specs])
        for probe in self.probes:
            probe.refresh()  # a restarted agent's status tells of the container already
            probe.start(self.agent.first_probe_wait_us(int(probe.spec.get("periodSeconds") or 10)))

    def _look_at_probes(self) -> None:
        """Quirk: every sync probes a container that has started and is not ready at once."""
        for probe in self.probes:
            if probe.kind == "Readiness" and probe.result != "Success" and self._has_started(probe.container):
                probe.check()
            else:
                probe.look()

    def _is_unready(self) -> bool:
        """Whether a sync would probe something sooner than its own ticks do."""
        unready = [p.container for p in self.probes if p.kind == "Readiness" and p.result != "Success"]
        return any(not self.tells_end(name) for name in unready)

    def _stop_probes(self, *kinds: str) -> None:
        for probe in self.probes:
            if probe.kind in kinds:
                probe.stop()

    def may_probe(self, probe: Probe) -> bool:
        name = probe.container
        if not any(p.kind == "Startup" and p.container == name for p in self.probes):
            return True  # an instance that is told of as running
        return self._has_started(name) != (probe.kind == "Startup")

    def _has_started(self, container: str) -> bool:
        """Whether that is told of it."""
        shown = self.status.get("containerStatuses") or ()
        return any(s["name"] == container and s.get("started") for s in shown)

    def is_over(self) -> bool:
        return self.status.get("phase") in TERMINAL

    def tells_end(self, container: str) -> bool:
        shown = self.status.get("containerStatuses") or ()
        return any(s["name"] == container and "running" not in s["state"] for s in shown)

    def blamed(self, container: Container) -> int:
        profile = self.agent.spec.profile
        by = profile.imposed(self.pod, container.name, False, "healthy_after_us", "unhealthy_after_us")
        return met_first(self.runtime, container, by) if self.runtime is not None else 0

    def unhealthy(self, probe: Probe) -> None:
        specs = {spec["name"]: spec for spec in self.pod["spec"]["containers"]}
        ip = self.runtime.ip if self.runtime is not None else ""
        text = f"{probe.kind} probe failed: {output_of(probe.spec, specs.get(probe.container) or {}, ip)}"
        self.agent.event(self.pod, "Warning", "Unhealthy", text, container=probe.container)

    def began(self, probe: Probe) -> None:
        """Quirk: an agent before this one knew it as ready, or as started; it is told not to be, if only for a moment."""
        if not self.agent.loop.asleep:
            self._tell(probe, False)

    def looked(self) -> None:
        """What a probe begins with leads to a sync like any result."""
        if self.state == SYNC and not self._is_ready():
            if self.agent.loop.asleep:
                self.agent.loop.resume_later(self)
            else:
                self._follow()

    def _follow(self) -> None:
        """The sync that follows knows what all probes say that tick at this instant."""
        self.agent.ctx.call_later_us(0, self._followed)

    def _followed(self, _: object) -> None:
        if self.state == SYNC:
            self.wake()

    def probed(self, probe: Probe, result: str) -> None:
        """Readiness and startup set the status at once; a liveness or startup failure restarts."""
        if probe.kind == "Liveness" and result == "Success":
            return
        if self.agent.loop.asleep:
            self.agent.loop.resume_later(self)
            return
        if probe.kind != "Liveness":
            self._tell(probe, result == "Success")
        if self.state != SYNC:
            return
        if probe.kind == "Startup" and result == "Success":
            for other in self.probes:
                if other.container == probe.container and other.kind != "Startup":
                    other.look()
        if result == "Failure" or probe.kind != "Readiness" or not self._is_ready():
            self._follow()

    def _tell(self, probe: Probe, value: bool) -> None:
        key, shown = "ready" if probe.kind == "Readiness" else "started", self.status.get("containerStatuses")
        if any(s["name"] == probe.container and s[key] != value for s in shown or ()):
            now = format_time(self.agent.ctx.wall_us())
            self.status = probed(self.pod, self.status, probe.container, key, value, now)
            self.agent.statuses.set(self.uid, self.status)

    def _is_ready(self) -> bool:
        """Whether all its containers are told of as started and ready, and are: then a sync would find nothing to do."""
        told = all(s["started"] and s["ready"] for s in self.status.get("containerStatuses") or ())
        return told and all(p.result == "Success" for p in self.probes if p.kind != "Liveness")

    def look(self) -> None:
        """Something in the machine changed by a fault: plan anew what it can lead to."""
        for probe in self.probes:
            probe.look()
        self.observe()
