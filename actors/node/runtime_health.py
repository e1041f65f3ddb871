"""What an agent knows of its container runtime, by its regular checks and relists.

Turns a runtime that says it is not ready, answers late or not at all into the errors of the Ready condition, and into
the standstill of the sync loop that comes with them.

Holds: a runtime that answers at once schedules nothing; a slow one only the instants at which an error comes or goes.

Mirrors  pkg/kubelet/runtime.go: runtimeErrors; kubelet.go: updateRuntimeUp; pleg/generic.go: relist, Healthy (v1.25).
Differs  a runtime that answers again is seen to at the next check and relist: calls that hung until then are not told
         from these. Calls of a slow runtime take as long as they take: upstream gives up after two minutes, or as
         --runtime-request-timeout says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.node.blame import caused
from actors.node.machine import SLOW_RUNTIME
from sim.units import MINUTE, SECOND, format_duration

if TYPE_CHECKING:
    from actors.node.agent import NodeAgent

RELIST_US = 1 * SECOND  # kubelet.go: plegRelistPeriod
RELIST_LIMIT_US = 3 * MINUTE  # pleg/generic.go: relistThreshold
CHECK_US = 5 * SECOND  # kubelet.go: updateRuntimeUp
CHECK_LIMIT_US = 30 * SECOND  # kubelet.go: maxWaitForContainerRuntime
NEVER_SEEN = (
    "container runtime status check may not have completed yet",
    "PLEG is not healthy: pleg has yet to be successful",
    "network state unknown",
)


class Relists:
    """The rhythm of relists: `first_us` is the start of one, each takes `took_us`, a second lies between two.

    took_us None: they never end.  `past`: (end, start) of relists that ended before or are under way, oldest first
    """

    __slots__ = ("_past", "first_us", "took_us")

    def __init__(self, first_us: int) -> None:
        self.first_us = first_us
        self.took_us: int | None = 0
        self._past: list[tuple[int, int]] = []

    @property
    def _period_us(self) -> int:
        return RELIST_US + (self.took_us or 0)

    def change(self, took_us: int | None, now_us: int) -> None:
        """From now on a relist takes so long; one that is under way has begun when it did."""
        seen_us = self.seen_us(now_us)
        started_us = self._started_us(now_us)
        past = [(now_us, seen_us)]
        if started_us == seen_us:  # none is under way
            first_us = started_us + self._period_us
        else:
            end_us = max(now_us, started_us + (took_us or 0))
            first_us = end_us + RELIST_US
            if took_us is not None:
                past.append((end_us, started_us))
        self.first_us, self.took_us, self._past = first_us, took_us, past

    def _started_us(self, now_us: int) -> int:
        """When the last relist began."""
        if now_us < self.first_us:
            return max([start_us for _, start_us in self._past], default=self.first_us)
        if self.took_us is None:
            return self.first_us
        return now_us - (now_us - self.first_us) % self._period_us

    def seen_us(self, now_us: int) -> int:
        """When the last relist that has ended began: the runtime was seen active then."""
        if self.took_us is not None and now_us >= self.first_us + self.took_us:
            ended_us = now_us - self.took_us
            return ended_us - (ended_us - self.first_us) % self._period_us
        return max([start for end, start in self._past if end <= now_us], default=self.first_us)

    def end_after(self, at_us: int) -> int:
        """The end of the first relist that begins strictly after that instant; a second later if none ever ends."""
        period_us = self._period_us
        return at_us + period_us - (at_us - self.first_us) % period_us + (self.took_us or 0)

    def silent_us(self, now_us: int) -> int:
        """For how long the runtime has not been seen, if that is too long; else 0."""
        if self.took_us == 0 and now_us >= self.first_us:
            return 0
        silent_us = now_us - self.seen_us(now_us)
        return silent_us if silent_us > RELIST_LIMIT_US else 0

    def next_turn_us(self, now_us: int) -> int | None:
        """When `silent_us` should be looked at next; None while relists are quick enough never to be missed."""
        took_us = self.took_us
        ends = [end_us for end_us, _ in self._past if end_us > now_us]
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
    """One agent incarnation's view.  `error`, `network_error`: what the last check was told; `up`: once it was ready."""

    __slots__ = (
        "_agent",
        "_began_us",
        "_checking",
        "_due_us",
        "_good_us",
        "_never",
        "error",
        "network_error",
        "relists",
        "up",
    )

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._began_us = agent.now_us
        self._checking = False
        self._due_us = -1
        self._good_us = -1  # the last good check, while there is none since
        machine = agent.machine
        self.error = machine.runtime_error
        self.network_error = machine.network_error
        self._never = machine.runtime_delay_us is None
        self.up = not (self._never or self.error)
        self.relists = Relists(agent.now_us)
        if machine.runtime_delay_us != 0:
            with caused(agent.ctx.kernel, machine.blamed(SLOW_RUNTIME)):
                self.changed()

    # --- what it comes to ---------------------------------------------------------------------------------

    def errors(self) -> list[str]:
        """The errors of the Ready condition, in upstream's order."""
        now_us = self._agent.now_us
        errors: list[str] = []
        if self.well:
            return errors
        if self._never:
            errors += NEVER_SEEN
        elif self._good_us >= 0 and now_us - self._good_us >= CHECK_LIMIT_US:
            errors.append("container runtime is down")
        silent_us = self.relists.silent_us(now_us)
        if silent_us and not self._never:
            errors.append(
                f"PLEG is not healthy: pleg was last seen active {format_duration(silent_us)} ago; "
                f"threshold is {format_duration(RELIST_LIMIT_US)}"
            )
        if self.error:
            errors.append(
                f"container runtime not ready: RuntimeReady=false reason:RuntimeNotReady message:{self.error}"
            )
        if self.network_problem and not self._never:
            errors.append(self.network_problem)
        return errors

    @property
    def network_problem(self) -> str:
        """What the last check was told of the pods' network, "" if all is well."""
        if not self.network_error:
            return ""
        return (
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
            f"message:{self.network_error}"
        )

    @property
    def well(self) -> bool:
        """Nothing is wrong, or has been that still shows."""
        if self._never or self.error or self.network_error or self._good_us >= 0:
            return False
        relists = self.relists
        return relists.took_us == 0 and self._agent.ctx.kernel.now_us >= relists.first_us

    def moves(self) -> bool:
        """Whether the texts of the errors change as time goes by."""
        return self.relists.silent_us(self._agent.now_us) > 0

    def failed(self) -> bool:
        """Whether an error stands other than the network's: the sync loop handles nothing then."""
        if self._never or self.error:
            return True
        if self._good_us < 0 and self.relists.took_us == 0:
            return False
        now_us = self._agent.now_us
        return 0 <= self._good_us <= now_us - CHECK_LIMIT_US or self.relists.silent_us(now_us) > 0

    # --- checks -------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """The machine's runtime is not as it was: the next check and the relists will show it."""
        machine, now_us = self._agent.machine, self._agent.now_us
        if machine.runtime_delay_us != self.relists.took_us:
            self.relists.change(machine.runtime_delay_us, now_us)
            self._plan()
        stale = machine.runtime_error != self.error or machine.network_error != self.network_error
        if (stale or self._bad != (self._good_us >= 0)) and not self._checking:
            self._checking = True
            since_us = (now_us - self._began_us) % CHECK_US
            if self._bad and self._good_us < 0:
                self._good_us = now_us - since_us
            self._agent.ctx.call_at_us(now_us + CHECK_US - since_us, self._check)

    @property
    def _bad(self) -> bool:
        """Whether a check would fail now."""
        machine = self._agent.machine
        return bool(machine.runtime_error) or machine.runtime_delay_us is None

    def _check(self, _: object) -> None:
        self._checking = False
        machine = self._agent.machine
        if machine.runtime_delay_us is not None:
            self._never = False
            self.error = machine.runtime_error
            self.network_error = machine.network_error
        if not self._bad:
            self._good_us = -1
            if not self.up:
                self.up = True
                self._agent.runtime_up()
                self._agent.consider_pressure()
        self._look(None)

    def _plan(self) -> None:
        """The next instant at which an error comes or goes without a check."""
        now_us = self._agent.now_us
        times = [self.relists.next_turn_us(now_us)]
        if self._good_us >= 0 and now_us < self._good_us + CHECK_LIMIT_US:
            times.append(self._good_us + CHECK_LIMIT_US)
        at_us = min((at_us for at_us in times if at_us is not None), default=None)
        if at_us is not None and at_us != self._due_us:
            self._due_us = at_us
            self._agent.ctx.call_at_us(at_us, self._turn, at_us)

    def _turn(self, planned_us: int) -> None:
        if planned_us == self._due_us:
            self._due_us = -1
            self._look(None)

    def _look(self, _: object) -> None:
        self._plan()
        self._agent.runtime_looked()
