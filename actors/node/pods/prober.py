"""Probes of one node's containers: a ticker per probe that runs only while it can change something.

Turns the health of containers into results (`Success`, `Failure`), and changes of results into
calls of the pod's worker.

Holds: a probe with a result that agrees with the health of its container, if that will not change
by itself, schedules nothing; its ticks stay where a ticker that never stops would have put them.

Mirrors  pkg/kubelet/prober/{worker,prober_manager}.go: one ticker from the first sync on,
         prober.go (a probe without a handler ends in an error, and its result is thrown away);
         thresholds, initial delay in whole seconds, holds after a liveness or startup failure until
         there is a new container id (v1.25).  A probe identifies an instance by the status that
         shows it; the initial result of an instance is reported like any other.
Differs  only a probe that runs a command or connects to a known program takes time, and one of a
         container that is late. Any other succeeds if the runtime model says so and nothing is
         known of its handler that makes it fail (`actors.node.runtime.probe_answers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, Protocol

from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.probe_answers import Answer, too_late
from sim.api.memo import IdentityMemo
from sim.api.types import Obj
from sim.kernel.actor import Context
from sim.kernel.causes import caused_by
from sim.kernel.timer import Timer
from sim.units import SECOND

if TYPE_CHECKING:
    from actors.node.runtime.pod_programs import Outcome, PodPrograms

ProbeKind = Literal["Startup", "Readiness", "Liveness"]
KINDS: tuple[tuple[str, ProbeKind], ...] = (
    ("startupProbe", "Startup"),
    ("readinessProbe", "Readiness"),
    ("livenessProbe", "Liveness"),
)
# The initial results of an instance; before it has one there is no result, which looks like a
# success from outside.
NO_RESULT: Final = ""
Result = Literal["Success", "Failure", "Unknown", ""]  # "": none yet
INITIAL: Mapping[ProbeKind, Result] = {"Startup": "Unknown", "Readiness": "Failure", "Liveness": "Success"}
BEFORE: Mapping[ProbeKind, Result] = {"Startup": NO_RESULT, "Readiness": NO_RESULT, "Liveness": "Success"}


# Pods of a template share their containers, so they share the list of their probes.
_SPECS: IdentityMemo[tuple[tuple[ProbeKind, str, Obj], ...]] = IdentityMemo()


def probe_specs(containers: list[Obj]) -> tuple[tuple[ProbeKind, str, Obj], ...]:
    """(kind, container name, probe) of all probes of these containers."""
    known = _SPECS.get(containers)
    if known is None:
        rows = [(kind, c["name"], c[key]) for c in containers for key, kind in KINDS if c.get(key)]
        known = _SPECS.put(tuple(rows), containers)
    return known


def output_of(probe: Obj, container: Obj, ip: str) -> str:
    """The output of a probe that fails."""
    if "httpGet" in probe:
        return "HTTP probe failed with statuscode: 500"
    if "grpc" in probe:
        return 'service unhealthy (responded with "NOT_SERVING")'
    if "tcpSocket" in probe:
        port = probe["tcpSocket"]["port"]
        named = [p["containerPort"] for p in container.get("ports") or () if p.get("name") == port]
        host = probe["tcpSocket"].get("host") or ip
        return f"dial tcp {host}:{named[0] if named else port}: connect: connection refused"
    return "command failed"


TRIES_MAX = 3  # prober.go: maxProbeRetries


class ProbedPod(Protocol):
    """What a probe uses of its pod's worker.

    runtime: the pod's sandbox and containers; None before the first sandbox
    """

    runtime: PodRuntime | None

    def probed(self, probe: Probe, result: Result) -> None:
        """The result has changed."""
        ...

    def instance_found(self, probe: Probe) -> None:
        """The probe has a new instance, which counts as not ready, or as not started, now."""
        ...

    def instance_initialized(self) -> None:
        """The first check of a new instance is over."""
        ...

    def unhealthy(self, probe: Probe, container: Container) -> None:
        """A probe of a container failed: record the event."""
        ...

    def late_us(self, container: Container) -> int:
        """How much longer the container takes to answer."""
        ...

    @property
    def counts_timeouts(self) -> bool:
        """True if a probe fails when its command takes too long."""
        ...

    def programs_in(self, container: Container) -> PodPrograms | None:
        """The pod's processes if some of them are in the container."""
        ...

    def spec_of(self, container: str) -> Obj:
        """The spec of a container."""
        ...

    def errored(self, probe: Probe, error: str) -> None:
        """A probe could not be carried out: record the event."""
        ...

    def fault_record(self, container: Container) -> int:
        """The record of the fault that makes the container fail its probes.

        0 if that fault is not new, or there is none.
        """
        ...

    def may_probe(self, probe: Probe) -> bool:
        """True if the status shows the container as started; for the startup probe, as not started."""
        ...

    def is_over(self) -> bool:
        """True if the status shows that the pod has failed or succeeded.

        Some of its containers may still run.
        """
        ...

    def shows_end(self, container: str) -> bool:
        """True if the status shows that the container does not run."""
        ...


class Probe:
    """One probe of one container.

    spec: periodSeconds, thresholds and so on
    _begun_us: when its command began that runs now; -1 if none runs
    _text: the output of its last command
    _answer: what its handler makes of it; None: as the container's behaviour says
    hold: True from a liveness or startup failure until there is a new instance
    _check_requested: True if a check was requested before the first tick
    _container_id: of the instance that the status shows
    _streak: how many results in a row are equal
    _last_healthy: the last one of them
    _made, _failed: how many probes have succeeded, and failed
    _asleep_us: since when those are not carried out that would succeed, by the agent's clock; or -1
    """

    __slots__ = (
        "_answer", "_asleep_us", "_begun_us", "_check_requested", "_container_id", "_ctx", "_failed", "_first_us",
        "_last_healthy", "_made", "_owner", "_streak", "_text", "_timer", "container", "hold", "kind", "result", "spec", "stopped",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        owner: ProbedPod,
        kind: ProbeKind,
        container: str,
        spec: Obj,
        answer: Answer | None = None,
    ) -> None:
        self._answer = answer
        self._ctx = ctx
        self._owner = owner
        self.kind = kind
        self.container = container
        self.spec = spec
        self.result = BEFORE[kind]
        self.hold = False
        self.stopped = False
        self._check_requested = False
        self._container_id = ""
        self._streak = 0
        self._last_healthy: bool | None = None
        self._first_us = ctx.now_us()
        self._timer: Timer | None = None
        self._begun_us = self._asleep_us = -1
        self._text = ""
        self._made = self._failed = 0

    @property
    def counted(self) -> tuple[int, int]:
        """How many probes have succeeded, and failed."""
        return self._made + self._slept(self._ctx.now_us()), self._failed

    def _slept(self, until_us: int) -> int:
        """The ticks since it sleeps, while the container runs."""
        if self._asleep_us < 0:
            return 0
        newest = self._newest()
        if newest is not None and newest.exit_us is not None:
            until_us = min(until_us, self._ctx.clock.read_us(newest.exit_us))
        ticks = [(at_us - self._first_us) // self._period_us for at_us in (self._asleep_us, until_us)]
        return max(0, ticks[1] - ticks[0])

    def _wake(self, until_us: int) -> None:
        """Count what was not carried out so far."""
        self._made += self._slept(until_us)
        self._asleep_us = -1

    @property
    def is_first(self) -> bool:
        """True if the last result differs from the one before it."""
        return self._streak == 1

    @property
    def _period_us(self) -> int:
        return int(self.spec.get("periodSeconds") or 10) * SECOND

    def start(self, wait_us: int) -> None:
        """Tick for the first time after `wait_us` (a restarted agent spreads its probes)."""
        self._first_us += wait_us
        self._tick_at(self._first_us)

    def stop(self) -> None:
        """Stop for good."""
        self.stopped = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick_at(self, at_us: int) -> None:
        """Plan the next tick, in the agent's own clock like all ticks."""
        self._cancel()
        self._timer = self._ctx.timer_us(max(0, at_us - self._ctx.now_us()), self._tick)

    def _age_us(self, container: Container) -> int:
        """The container's age by the wall clock.

        Quirk: the status shows its start in whole seconds, and that start counts.
        """
        since_us = self._ctx.said_us(container.started_us)
        return self._ctx.wall_us() - since_us + since_us % SECOND

    @property
    def _delay_us(self) -> int:
        """The age at which probing begins.

        Quirk: upstream cuts the age off to whole seconds, so that without a delay an age above -1 s
        is enough.  After a clock was set back, the age can be lower.
        """
        return int(self.spec.get("initialDelaySeconds") or 0) * SECOND or 1 - SECOND

    def _next_tick_us(self, after_us: int) -> int:
        """The first tick strictly after an instant."""
        period_us = self._period_us
        if after_us < self._first_us:
            return self._first_us
        return after_us + period_us - (after_us - self._first_us) % period_us

    def _tick(self, _: object) -> None:
        self._timer = None
        self.check()
        if self._check_requested:
            self._check_requested = False
            self.check()

    def check(self) -> None:
        """Probe now, then plan the next probe that can matter.

        Quirk: before its first tick a probe only notes that a check was requested.
        """
        now_us = self._ctx.kernel.now_us
        self._wake(self._ctx.now_us() - 1)
        if self.stopped or self._begun_us >= 0:
            return
        if self._owner.is_over():
            self.stop()
            return
        container = self._current()
        if self._ctx.now_us() < self._first_us:
            self._check_requested = True
            self._plan(container, now_us)
            return
        if container is not None:
            # Quirk: the status from before this check counts, which `instance_found` may change to
            # not started.
            may = self._owner.may_probe(self)
            is_new = self.result == NO_RESULT
            if is_new:
                self.result = INITIAL[self.kind]
                self._owner.instance_found(self)
            self._probe(container, now_us, may)
            if is_new:
                self._owner.instance_initialized()
        if not self.stopped:
            self._plan(container, now_us)

    def refresh(self) -> None:
        """The status shows the container's newest instance from now on, which has no result yet.

        Quirk: the streak of the former instance continues.
        """
        newest = self._newest()
        if newest is not None and newest.ident != self._container_id:
            self._container_id = newest.ident
            self.result = BEFORE[self.kind]
            self.hold = False

    def replan(self) -> None:
        """The container's health may have changed: plan the next tick that matters."""
        if not self.stopped:
            self._plan(self._current(), self._ctx.kernel.now_us)

    def _newest(self) -> Container | None:
        runtime = self._owner.runtime
        return runtime.newest(self.container) if runtime is not None else None

    def _current(self) -> Container | None:
        """The instance that the status shows; None if it shows none, or one that was removed."""
        newest = self._newest()
        if newest is None or newest.ident == self._container_id:
            return newest
        runtime = self._owner.runtime
        instances = runtime.instances(self.container) if runtime is not None else ()
        return next((one for one in instances if one.ident == self._container_id), None)

    def _set(self, result: Result) -> None:
        if result != self.result:
            self.result = result
            self._owner.probed(self, result)

    def _probe(self, container: Container, now_us: int, may: bool) -> None:
        if self.hold:
            return
        if not container.running(now_us):
            if self._owner.shows_end(self.container):
                # Quirk: this syncs the pod, which restarts the back-off of its next start.
                self._set("Failure")
                return
            if "exec" in self.spec:
                return  # no command runs in it, which counts neither way
        if self._age_us(container) < self._delay_us:
            return
        if not may:
            return
        # Quirk: the newest container answers at the address and is probed, also before the status
        # shows it.
        container = self._newest() or container
        if self.error:
            self._owner.unhealthy(self, container)
            return
        if self._takes_time(container):
            self._begun_us = now_us
            self._begin(container)
            return
        self._judge(container, self._succeeds(container, now_us))

    def _late_us(self, container: Container) -> int:
        """How much longer the container takes; a connection alone is made by the kernel."""
        return 0 if "tcpSocket" in self.spec or self.error else self._owner.late_us(container)

    def _took_us(self, container: Container) -> int:
        """How long a probe takes that runs no simulated program."""
        answer = self._answer_for(container)
        return self._late_us(container) + (0 if answer is None else answer.took_us)

    def _takes_time(self, container: Container) -> bool:
        return self._executes(container) or self._took_us(container) > 0

    @property
    def _limit_us(self) -> int:
        return int(self.spec.get("timeoutSeconds") or 1) * SECOND

    def _executes(self, container: Container) -> bool:
        """True if the probe's command is run by the interpreter, or connects to its programs."""
        if self._owner.programs_in(container) is None:
            return False
        if container.unhealthy is not None or container.behaviour.answers_probes:
            return False
        if "exec" in self.spec:
            return True
        from actors.node.runtime.network_probes import connects

        return connects(self._owner.spec_of(self.container), self.spec)

    def _begin(self, container: Container, tries: int = 1) -> None:
        """Begin a probe that takes time, which is late as its container is.

        container: the instance in which the command runs
        tries: how often this probe was tried, this time included
        """
        is_run = self._executes(container)
        took_us = self._late_us(container) if is_run else self._took_us(container)
        if is_run and not took_us:
            self._carry_out((container, tries))
        elif took_us >= self._limit_us:
            self._ctx.call_later_us(self._limit_us, self._given_up, (container, tries))
        else:
            self._ctx.call_later_us(
                took_us, self._carry_out if is_run else self._answered, (container, tries)
            )

    def _given_up(self, probed: tuple[Container, int]) -> None:
        """The probe had no answer in its time."""
        container, tries = probed
        if "exec" in self.spec:
            self._timed_out(container, tries)
        else:
            self._ended(container, False, too_late(self.spec, self._owner.spec_of(self.container)))

    def _answered(self, probed: tuple[Container, int]) -> None:
        """A container without simulated programs has answered."""
        container, _ = probed
        healthy = self._succeeds(container, self._ctx.kernel.now_us)
        runtime = self._owner.runtime
        ip = runtime.ip if runtime is not None else ""
        text = "" if healthy else self._shown(container, self._owner.spec_of(self.container), ip)
        self._ended(container, healthy, text)

    def _carry_out(self, probed: tuple[Container, int]) -> None:
        """Run the probe's command, or connect to the container's programs."""
        container, tries = probed
        programs, runtime, ctx = self._owner.programs_in(container), self._owner.runtime, self._ctx
        if programs is None:  # it has ended while it was late
            self._ended(container, False, "")
            return
        assert runtime is not None
        if "exec" in self.spec:
            words = tuple(self.spec["exec"].get("command") or ())
            limit_us = self._limit_us - self._late_us(container)

            def ended(outcome: Outcome) -> None:
                self._executed(container, outcome, tries)

            programs.command(container, words, lambda outcome: ctx.run(ended, outcome), limit_us)
            return
        from actors.node.programs.network.driving import Driven
        from actors.node.runtime.network_probes import network_probe

        steps = network_probe(
            programs.host_network(),
            self._owner.spec_of(self.container),
            self.spec,
            runtime.ip,
            programs.prober_name,
            lambda: ctx.kernel.now_us,
        )
        assert steps is not None
        Driven(ctx, steps, lambda text: self._ended(container, not text, text))

    def _executed(self, container: Container, outcome: Outcome, tries: int) -> None:
        """The probe's command has ended."""
        if outcome.timed_out:
            self._timed_out(container, tries)
            return
        text = (outcome.stdout + outcome.stderr).decode(errors="replace")
        error = f"rpc error: code = Unknown desc = {outcome.error}" if outcome.error else ""
        self._ended(container, outcome.code == 0, text, error)

    def _timed_out(self, container: Container, tries: int) -> None:
        """The probe's command took too long.

        Quirk: without the gate ExecProbeTimeout this is an error, not a failure: the probe is tried
        again, and then has no result.

        Mirrors  pkg/probe/exec/exec.go: Probe; pkg/kubelet/prober/prober.go: runProbeWithRetries
        """
        text = too_late(self.spec, {})
        if self._owner.counts_timeouts:
            self._ended(container, False, text)
        elif tries < TRIES_MAX and not self.stopped:
            self._begin(container, tries + 1)
        else:
            self._ended(container, False, "", text)

    def _ended(self, container: Container, succeeded: bool, text: str, error: str = "") -> None:
        """The probe has ended.  text: its output; error: why the command was not started"""
        began_us, self._begun_us = self._begun_us, -1
        now_us = self._ctx.kernel.now_us
        if self.stopped:
            return
        if container.running(now_us) and not self.hold:
            if error:
                self._owner.errored(self, error)
            else:
                self._text = text
                self._judge(container, succeeded)
        clock = self._ctx.clock
        if self._next_tick_us(clock.read_us(began_us)) <= self._ctx.now_us():
            self.check()  # Quirk: one tick that came in the meantime is kept
        else:
            self._plan(self._current(), now_us)

    def _judge(self, container: Container, healthy: bool) -> None:
        """Take over the result of one probe."""
        self._streak = self._streak + 1 if healthy is self._last_healthy else 1
        self._last_healthy = healthy
        if healthy:
            self._made += 1
            self._count(True)
        else:
            self._failed += 1
            with caused_by(self._ctx.kernel, self._owner.fault_record(container)):
                self._owner.unhealthy(self, container)
                self._count(False)

    @property
    def error(self) -> str:
        """The error in which each probe ends: there is no result then.  Empty if there is none."""
        return "" if self._answer is None else self._answer.error

    def _answer_for(self, container: Container) -> Answer | None:
        """The answer of the handler, unless a fault says how the container answers."""
        if container.unhealthy is not None or container.behaviour.answers_probes:
            return None
        return self._answer

    def _succeeds(self, container: Container, now_us: int) -> bool:
        """True if a probe of the container succeeds now."""
        answer = self._answer_for(container)
        return (
            container.healthy(now_us)
            and (answer is None or answer.succeeds(now_us - container.started_us))
            and self._took_us(container) < self._limit_us
        )

    def _next_change_us(self, container: Container, now_us: int) -> int | None:
        """When that will next change by itself; None if never."""
        change_us, answer = container.next_change_us(now_us), self._answer_for(container)
        if answer is None:
            return change_us
        age_us = answer.next_change_us(now_us - container.started_us)
        times = (change_us, None if age_us is None else container.started_us + age_us)
        return min([at_us for at_us in times if at_us is not None], default=None)

    def output(self, container: Container, spec: Obj, ip: str) -> str:
        """What the probe shows, which fails: by its handler, or because of the container's behaviour.

        spec: the container's
        """
        if self._takes_time(container):
            return self._text.replace("{ip}", ip)
        return self._shown(container, spec, ip)

    def _shown(self, container: Container, spec: Obj, ip: str) -> str:
        """What a handler that is not simulated shows when it fails."""
        answer = self._answer_for(container)
        if answer is None or not container.healthy(self._ctx.kernel.now_us):
            return output_of(self.spec, spec, ip)
        return answer.output.replace("{ip}", ip)

    def _count(self, healthy: bool) -> None:
        """Make the result of enough equal probes in a row the probe's result."""
        threshold = int(
            self.spec.get("successThreshold" if healthy else "failureThreshold") or (1 if healthy else 3)
        )
        if self._streak < threshold:
            return
        if not healthy and self.kind != "Readiness":
            self.hold = True
            self._streak = 0
        self._set("Success" if healthy else "Failure")

    def _plan(self, container: Container | None, now_us: int) -> None:
        """Sleep while nothing can change, else until the first tick that can change something.

        A tick that is due at this instant will plan the next one by itself.
        """
        if self._begun_us >= 0 or (self._timer is not None and self._timer.at_us <= now_us):
            return
        if container is None or self.hold:
            self._cancel()  # a sync of the pod plans again
            return
        clock, local_us = self._ctx.clock, self._ctx.now_us()
        self._wake(local_us)
        if not container.running(now_us):
            if self.result != "Failure" or not self._owner.shows_end(self.container):
                self._tick_at(self._next_tick_us(local_us))
            else:
                self._cancel()
            return
        if self.result == NO_RESULT:
            self._tick_at(self._next_tick_us(local_us))
            return
        delay_us, age_us = self._delay_us, self._age_us(container)
        if age_us < delay_us:
            self._tick_at(self._next_tick_us(local_us + delay_us - age_us - 1))
            return
        if not self._owner.may_probe(self):
            self._cancel()
            return
        is_finished = self.kind == "Startup" and self.result == "Success"
        settled = (
            self._succeeds(container, now_us)
            and self.result == "Success"
            and self._last_healthy is not False
            and not self.error
            and not self._executes(container)
        )
        if not settled and not is_finished:
            self._tick_at(self._next_tick_us(local_us))
            return
        if not is_finished:
            self._asleep_us = local_us
        change_us = self._next_change_us(container, now_us)
        if change_us is None or is_finished:
            self._cancel()
        else:
            # A slow clock maps several instants to one, of which the change may be the last.
            self._tick_at(self._next_tick_us(clock.read_us(change_us) - (clock.drift_ppm >= 0)))
