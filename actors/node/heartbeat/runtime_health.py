"""What an agent knows of its container runtime, from its regular checks and relists.

Turns a runtime that reports that it is not ready, answers late or not at all into the errors of the
Ready condition, and into the sleep of the sync loop that goes with them.

Holds: a runtime that answers at once schedules nothing, a slow one only the instants at which an
error appears or disappears.  An agent that was paused finds nothing wrong when it continues,
however long the pause: what was due is done in its order, the relist and the check of the runtime
before a status pass, which has to read the node first.

Mirrors  pkg/kubelet/runtime.go: runtimeErrors; kubelet.go: updateRuntimeUp; pleg/generic.go:
         relist, Healthy (v1.25).
Differs  a slow disk delays relists and no checks.  A status pass does not read the runtime's
         version: upstream's first pass with a runtime that does not answer waits for the version as
         long as --runtime-request-timeout says, and reports only then that the runtime is down.
"""

from __future__ import annotations

from actors.node.heartbeat.ports import HeartbeatAgent
from actors.node.runtime.machine import SLOW_RUNTIME
from sim.kernel.causes import caused_by
from sim.units import MINUTE, SECOND, format_duration

RELIST_US = 1 * SECOND  # kubelet.go: plegRelistPeriod
RELIST_LIMIT_US = 3 * MINUTE  # pleg/generic.go: relistThreshold
CHECK_US = 5 * SECOND  # kubelet.go: updateRuntimeUp
CHECK_LIMIT_US = 30 * SECOND  # kubelet.go: maxWaitForContainerRuntime
NEVER_SEEN = (
    "container runtime status check may not have completed yet",
    "PLEG is not healthy: pleg has yet to be successful",
    "network state unknown",
)


def is_waiting(since_us: int, limit_us: int, retry_us: int) -> bool:
    """True if a call that was first made `since_us` ago waits for its answer.

    Each attempt is given up after `limit_us` and repeated `retry_us` later.
    """
    return since_us >= 0 and since_us % (limit_us + retry_us) < limit_us


class Relists:
    """The rhythm of relists.

    first_us: the start of one relist
    took_us: the duration of each; None: each is given up after `limit_us`
    _past: (end, start, True unless given up) of relists before `first_us`, oldest first
    _earlier: (duration, interval, number) of those of earlier rhythms
    """

    __slots__ = ("_earlier", "_past", "first_us", "limit_us", "took_us")

    def __init__(self, first_us: int, limit_us: int = 2 * MINUTE) -> None:
        self.first_us = first_us
        self.limit_us = limit_us
        self.took_us: int | None = 0
        self._past: list[tuple[int, int, bool]] = []
        self._earlier: tuple[tuple[int, int, int], ...] = ()

    @property
    def _period_us(self) -> int:
        return RELIST_US + (self.limit_us if self.took_us is None else self.took_us)

    def done(self, now_us: int) -> tuple[tuple[int, int, int], ...]:
        """The relists that are over: their duration, the interval between them, how many."""
        period_us = self._period_us
        count = (now_us - self.first_us + RELIST_US) // period_us  # the last one waits for nothing
        return (*self._earlier, (period_us - RELIST_US, period_us, max(0, count)))

    def wanted(self, delay_us: int | None) -> int | None:
        """The duration of a relist if the runtime delays its answers by `delay_us`."""
        return None if delay_us is None or delay_us >= self.limit_us else delay_us

    def change(self, took_us: int | None, now_us: int) -> None:
        """Relists take `took_us` from now on; one that is under way keeps its start."""
        past = [(now_us, self.seen_us(now_us), True)]
        started_us, end_us = self._last_us(now_us)
        self._earlier = self.done(now_us)
        if end_us > now_us:  # the relist is under way
            self._earlier += ((now_us - started_us, RELIST_US, 1),)
            end_us = started_us + self.limit_us if took_us is None else max(now_us, started_us + took_us)
            past.append((end_us, started_us, took_us is not None))
        self.first_us, self.took_us, self._past = end_us + RELIST_US, took_us, past

    def _last_us(self, now_us: int) -> tuple[int, int]:
        """When the last relist began, and when it ends."""
        if now_us < self.first_us and self._past:
            end_us, started_us, _ = self._past[-1]
            return started_us, end_us
        started_us = now_us - (now_us - self.first_us) % self._period_us
        return started_us, started_us + self._period_us - RELIST_US

    def seen_us(self, now_us: int) -> int:
        """The start of the last relist that has ended, when the runtime was active."""
        if self.took_us is not None and now_us >= self.first_us + self.took_us:
            ended_us = now_us - self.took_us
            return ended_us - (ended_us - self.first_us) % self._period_us
        ended = [started_us for end_us, started_us, well in self._past if well and end_us <= now_us]
        return max(ended, default=self.first_us)

    def end_after(self, at_us: int) -> int:
        """The end of the first relist that begins strictly after an instant.

        If none ends well: one second after that instant.
        """
        if self.took_us is None:
            return at_us + RELIST_US
        period_us = self._period_us
        return at_us + period_us - (at_us - self.first_us) % period_us + self.took_us

    def unseen_us(self, now_us: int) -> int:
        """The time since the last answer of the runtime, if it is too long; else 0."""
        if self.took_us == 0 and now_us >= self.first_us:
            return 0
        unseen_us = now_us - self.seen_us(now_us)
        return unseen_us if unseen_us > RELIST_LIMIT_US else 0

    def next_change_us(self, now_us: int) -> int | None:
        """When `unseen_us` can next change; None while relists are quick enough."""
        took_us = self.took_us
        ends = [end_us for end_us, _, well in self._past if well and end_us > now_us]
        if took_us is not None:
            ended_us = now_us - took_us
            period_us = self._period_us
            behind_us = (ended_us - self.first_us) % period_us if ended_us >= self.first_us else 0
            next_us = ended_us - behind_us + period_us if ended_us >= self.first_us else self.first_us
            ends.append(next_us + took_us)
            quick = 2 * took_us + RELIST_US <= RELIST_LIMIT_US
            if quick and now_us >= self.first_us + took_us:
                return None
        late_us = self.seen_us(now_us) + RELIST_LIMIT_US + 1
        return min([late_us, *ends] if late_us > now_us else ends, default=None)


class RuntimeHealth:
    """One agent incarnation's view of the runtime.

    error, network_error: results of the last check
    up: True once the runtime was ready
    _last_good_us: the last good check while later ones fail; -1 otherwise
    _never_answered: True until the runtime has answered a check
    _unanswered_since_us: the first check without an answer; -1 while the runtime answers
    _checking: True if the next check is scheduled, because its result will differ
    _due_us: the planned instant at which an error appears or disappears
    """

    __slots__ = (
        "_agent", "_began_us", "_checking", "_due_us", "_last_good_us", "_never_answered",
        "_unanswered_since_us", "error", "network_error", "relists", "up",
    )  # fmt: skip

    def __init__(self, agent: HeartbeatAgent) -> None:
        self._agent = agent
        self._began_us = agent.now_us
        self._checking = False
        self._due_us = -1
        self._unanswered_since_us = -1
        self._last_good_us = -1
        machine = agent.machine
        self.error = machine.errors.runtime
        self.network_error = machine.errors.network
        self._never_answered = machine.runtime_delay_us is None
        self.up = not (self._never_answered or self.error)
        self.relists = Relists(agent.now_us, agent.options.runtime_request_timeout_us)
        if machine.runtime_delay_us != 0:
            with caused_by(agent.ctx.kernel, machine.fault_record(SLOW_RUNTIME)):
                self.changed()

    # --- the errors -------------------------------------------------------------------------------

    def errors(self) -> list[str]:
        """The errors of the Ready condition, in upstream's order."""
        now_us = self._agent.now_us
        errors: list[str] = []
        if self.well:
            return errors
        if self._never_answered:
            errors += NEVER_SEEN
        elif self._last_good_us >= 0 and now_us - self._last_good_us >= CHECK_LIMIT_US:
            errors.append("container runtime is down")
        unseen_us = self.relists.unseen_us(now_us)
        if unseen_us and not self._never_answered:
            errors.append(
                f"PLEG is not healthy: pleg was last seen active {format_duration(unseen_us)} ago; "
                f"threshold is {format_duration(RELIST_LIMIT_US)}"
            )
        if self.error:
            errors.append(
                f"container runtime not ready: RuntimeReady=false reason:RuntimeNotReady message:{self.error}"
            )
        if self.network_problem and not self._never_answered:
            errors.append(self.network_problem)
        return errors

    @property
    def network_problem(self) -> str:
        """Why the network of pods is not ready, by the last check; "" if it is."""
        if not self.network_error:
            return ""
        return (
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
            f"message:{self.network_error}"
        )

    @property
    def well(self) -> bool:
        """True if nothing is wrong, and nothing was that still shows."""
        if self._never_answered or self.error or self.network_error or self._last_good_us >= 0:
            return False
        relists = self.relists
        return relists.took_us == 0 and self._agent.ctx.kernel.now_us >= relists.first_us

    def texts_change(self) -> bool:
        """True while the texts of the errors change as time passes."""
        return self.relists.unseen_us(self._agent.now_us) > 0

    def failed(self) -> bool:
        """True while there is an error other than that of the network: the sync loop sleeps then."""
        if self._never_answered or self.error:
            return True
        if self._last_good_us < 0 and self.relists.took_us == 0:
            return False
        now_us = self._agent.now_us
        return 0 <= self._last_good_us <= now_us - CHECK_LIMIT_US or self.relists.unseen_us(now_us) > 0

    # --- checks -----------------------------------------------------------------------------------

    def changed(self) -> None:
        """The machine's runtime has changed: plan the check and the relists that will show it."""
        machine, now_us = self._agent.machine, self._agent.now_us
        if (took_us := self.relists.wanted(machine.runtime_delay_us)) != self.relists.took_us:
            self.relists.change(took_us, now_us)
            self._plan()
        self._note_answers()
        stale = machine.errors.runtime != self.error or machine.errors.network != self.network_error
        if (stale or self._bad != (self._last_good_us >= 0)) and not self._checking:
            self._checking = True
            since_us = (now_us - self._began_us) % CHECK_US
            if self._bad and self._last_good_us < 0:
                self._last_good_us = now_us - since_us
            self._agent.ctx.call_at_us(now_us + CHECK_US - since_us, self._check)

    def _note_answers(self) -> None:
        """Note that the runtime stops or resumes answering.

        A check that waits for its answer ends with it, unless it was given up.
        """
        silent, now_us = self.silent, self._agent.now_us
        if silent and self._unanswered_since_us < 0:
            self._unanswered_since_us = now_us + (self._began_us - now_us) % CHECK_US
            self._agent.runtime_silent()
        elif not silent and self._unanswered_since_us >= 0:
            waited_us, self._unanswered_since_us = now_us - self._unanswered_since_us, -1
            self._agent.runtime_answered()
            # With a slow disk checks are answered, so only a failed check can wait.
            waits_for_check = self._last_good_us >= 0 and not self._checking
            if waits_for_check and is_waiting(waited_us, self.relists.limit_us, CHECK_US):
                self._began_us, self._checking = now_us, True
                self._agent.ctx.call_at_us(now_us, self._check)

    @property
    def silent(self) -> bool:
        """True while calls that change nothing get no answer."""
        return self.relists.took_us is None

    @property
    def _bad(self) -> bool:
        """True if a check would fail now."""
        machine = self._agent.machine
        return bool(machine.errors.runtime) or machine.runtime_delay_us is None

    def _check(self, _: object) -> None:
        self._checking = False
        machine = self._agent.machine
        if machine.runtime_delay_us is not None:
            self._never_answered = False
            self.error = machine.errors.runtime
            self.network_error = machine.errors.network
        if not self._bad:
            self._last_good_us = -1
            if not self.up:
                self.up = True
                self._agent.runtime_up()
                self._agent.consider_pressure()
        self._report(None)

    def _plan(self) -> None:
        """Plan the next instant at which an error appears or disappears without a check."""
        now_us = self._agent.now_us
        times = [self.relists.next_change_us(now_us)]
        if self._last_good_us >= 0 and now_us < self._last_good_us + CHECK_LIMIT_US:
            times.append(self._last_good_us + CHECK_LIMIT_US)
        at_us = min((at_us for at_us in times if at_us is not None), default=None)
        if at_us is not None and at_us != self._due_us:
            self._due_us = at_us
            self._agent.ctx.call_at_us(at_us, self._change_due, at_us)

    def _change_due(self, planned_us: int) -> None:
        if planned_us == self._due_us:
            self._due_us = -1
            self._report(None)

    def _report(self, _: object) -> None:
        self._plan()
        self._agent.runtime_checked()
