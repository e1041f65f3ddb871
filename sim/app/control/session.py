"""One steered cluster: what a user does to it from outside while it is served, and its state.

Turns calls of a user into steps, expectations and moves of virtual time. What changes the
simulation (steps, expectations) is an operation of the gate, CONTROL, with the user and the whole
value, so that a replay repeats it at its position; moves of time change only when things are done,
and are none.

Holds: a call that raises InputError has no effect. A step of a user is done one microsecond after
    the instant at which it came, as a step of a scenario `at` that instant, so that what was done
    by hand can be run as a scenario (`sim.app.control.saved`); a paused cluster moves on by that
    microsecond. Paused means that the goal of virtual time is reached; the pace is kept.

How it fails visibly: the replay of a journal has another hash than the session, or the scenario
that was saved has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from sim.app.cluster import Cluster
from sim.app.control.judging import take_part
from sim.app.control.until import Awaited
from sim.check import Checker, World, build
from sim.check.build import Mistakes
from sim.check.expect import Expectation
from sim.errors import InputError, suggestion
from sim.kernel import NEVER_US, Kernel
from sim.scenario.actions import KINDS
from sim.scenario.plan.plan import Plan
from sim.scenario.plan.timeline import TIMES
from sim.scenario.schema import sections
from sim.units import Virtual, format_duration, parse_duration_us
from sim.verdict import Verdict

Obj = dict[str, Any]
CONTROL = "control"  # the operation of the gate
STEP, EXPECT = "step", "expect"
PACE_MAX = 1_000_000.0  # virtual seconds a real second
UNITS_MAX = 1_000_000  # of work, that one call steps over
STEPS_MAX, EXPECTATIONS_MAX = 100_000, 1_000  # of a session
# Fields of a step that a user outside does not choose: it is done once, now.
_LATER = [*sorted(TIMES - {"for"}), "random", "by"]


class Done(NamedTuple):
    """A step that a user has done: its name, its instant, its user, and what was asked for."""

    name: str
    at_us: Virtual
    user: str
    step: Obj


class Judged(NamedTuple):
    """An expectation that was added: its instant, its user and its entry as in a scenario."""

    at_us: Virtual
    user: str
    entry: Obj


class Control:
    """The steering of one cluster, which has begun.

    expectations: of its scenario
    end_us: virtual time at which the run ends; NEVER_US for one that is served
    others: requests of other clients that may have changed something
    on_change: called after each change of time, faults or expectations
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        expectations: list[Expectation],
        end_us: Virtual = NEVER_US,
    ) -> None:
        self.cluster, self.plan, self.end_us = cluster, plan, end_us
        cluster.kernel.pace.end_us = end_us
        self.done: list[Done] = []
        self.judged: list[Judged] = []
        self.others = 0
        # Called before a user learns how far the run has come.
        self.before_news: Callable[[], None] = lambda: None
        self.on_change: list[Callable[[], None]] = []
        self._zones = {node.name: node.zone for node in plan.cluster.nodes}
        self._checkers = [self._followed(expectations)] if expectations else []
        self._names = {one.name for one in expectations}
        self._begun: dict[str, tuple[str, Virtual]] = {}
        self._steps = {step.name for step in plan.steps}
        self._holds: dict[str, int] = {}
        self._move = 0  # the number of the last call that moved time
        self._awaited: Awaited | None = None
        cluster.do.on_step(self._occurred)
        cluster.kernel.gate.handle(CONTROL, self._handle)

    # --- time -------------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """True while virtual time rests until a call moves it."""
        kernel = self.cluster.kernel
        return kernel.pace.is_still(kernel.now_us) or bool(self._holds)

    @property
    def pace(self) -> float | str:
        """Virtual seconds for each real second, or "max"."""
        rate = self.cluster.kernel.rate
        return "max" if rate == math.inf else rate

    async def pause(self) -> None:
        """Let virtual time rest at the present instant; returns when it does."""
        self._begin_move()
        kernel = self.cluster.kernel
        await kernel.run_until(Virtual(max(kernel.now_us, kernel.outside_now_us())))
        self._changed()

    def resume(self) -> None:
        """Let virtual time go on without end, at the pace that is set."""
        self._begin_move()
        self.cluster.kernel.set_goal(NEVER_US)
        self._changed()

    def set_pace(self, pace: float) -> None:
        """Virtual seconds for each real second; math.inf as fast as possible.  Raises InputError."""
        if not (0 < pace <= PACE_MAX or pace == math.inf):
            raise InputError(f"{pace:g} is no pace", "pace", f"a number up to {PACE_MAX:g}, or max")
        self.cluster.kernel.set_rate(pace)
        self._changed()

    async def step(self, units: int) -> None:
        """Do some units of work, whenever they are due, and rest then.  Raises InputError."""
        if not 1 <= units <= UNITS_MAX:
            raise InputError(f"{units} is no number of events", "events", f"from 1 to {UNITS_MAX}")
        kernel = self.cluster.kernel
        await self.pause()
        await kernel.step(units).wait()
        self._changed()

    async def run_for(self, duration_us: int, *, fast: bool = False) -> bool:
        """Run for a time and rest then; False if another call moved time first.

        fast: as fast as possible, at any pace
        """
        return await self.run_to(Virtual(self.cluster.kernel.outside_now_us() + duration_us), fast=fast)

    async def run_to(self, at_us: Virtual, *, fast: bool = False) -> bool:
        """Run to an instant and rest then; False if another call moved time first."""
        move, kernel = self._begin_move(), self.cluster.kernel
        if at_us < kernel.now_us:
            raise InputError(f"{format_duration(at_us)} is past", "until", "give a later instant")
        with _hurried(kernel, fast):
            self._changed()
            await kernel.run_until(at_us)
        self._changed()
        return move == self._move and kernel.now_us >= at_us

    async def finish(self) -> None:
        """Wait until the run has ended, however often its time rests before."""
        kernel = self.cluster.kernel
        while kernel.now_us < self.end_us:
            await kernel.reached()
        await self.cluster.run_until(self.end_us)

    async def run_until(self, condition: str | Mapping[str, Any], limit_us: int, *, fast: bool) -> bool:
        """Run until a condition holds, or an event happens, and rest then; False if the limit came
        first, or another call moved time.  Raises InputError.
        """
        move, kernel = self._begin_move(), self.cluster.kernel
        self._awaited = awaited = Awaited(self.cluster, condition, kernel.halt)
        try:
            if awaited.holds:
                kernel.halt()
            else:
                with _hurried(kernel, fast):
                    self._changed()
                    await awaited.run(kernel.run_until, kernel.outside_now_us() + limit_us)
        finally:
            awaited.forget()
        self._changed()
        return awaited.holds and move == self._move

    def hold(self, name: str) -> None:
        """Let virtual time rest for a client outside, at any pace, until it releases it."""
        if name not in self._holds:
            self.cluster.kernel.rest()
        self._holds[name] = self._holds.get(name, 0) + 1
        self._changed()

    def release(self, name: str) -> None:
        """End all that a client holds.  Raises InputError if it holds nothing."""
        if name not in self._holds:
            raise InputError(
                f"{name!r} holds nothing", "name", suggestion(name, self._holds, "see the state")
            )
        del self._holds[name]
        self.cluster.kernel.resume()
        self._changed()

    def _begin_move(self) -> int:
        """Let a call move time in place of an earlier one, which ends; its number."""
        self._move += 1
        if self._awaited is not None:
            self._awaited.forget()
            self._awaited = None
        return self._move

    # --- what a user does -------------------------------------------------------------------------

    async def perform(self, user: str, step: Mapping[str, Any]) -> str:
        """Do a step of the language of scenarios, given as its entry; the name of the step.

        Raises InputError.
        """
        entry = self._checked(step)
        kernel = self.cluster.kernel
        at_us = await self._submitted(STEP, user, entry)
        if isinstance(at_us, str):
            raise InputError(at_us)
        if kernel.pace.is_still(kernel.now_us) and kernel.now_us < at_us:
            await kernel.run_until(at_us)
        self._changed()
        return str(entry["name"])

    async def expect(self, user: str, entry: Mapping[str, Any]) -> str:
        """Judge an expectation from now on; its name.  Raises InputError."""
        named = {"name": f"expectation-{len(self._names) + 1}", **entry}
        if len(self._names) >= EXPECTATIONS_MAX:
            raise InputError(f"there are {EXPECTATIONS_MAX} expectations", "", "start another session")
        self._built(named)
        if named["name"] in self._names:
            raise InputError(f"there is an expectation {named['name']!r}", "name", "choose another name")
        await self._submitted(EXPECT, user, named)
        self._changed()
        return str(named["name"])

    async def _submitted(self, what: str, user: str, value: Obj) -> Any:
        if self.cluster.kernel.now_us >= self.end_us:
            raise InputError("the run has ended")
        return await self.cluster.kernel.gate.submit(CONTROL, [what, user, value])

    def _checked(self, step: Mapping[str, Any]) -> Obj:
        """The entry of a step with a name of its own.  Raises InputError."""
        wrong = [key for key in _LATER if key in step]
        if wrong:
            raise InputError(
                f"{wrong[0]!r} has no effect on a step that is done now",
                wrong[0],
                "write a scenario for what is to happen later",
            )
        kinds = [key for key in step if key not in ("name", "for")]
        if len(kinds) != 1 or kinds[0] not in _BY_NAME:
            named = ", ".join(kinds) or "nothing"
            remedy = suggestion(kinds[0], _BY_NAME) if len(kinds) == 1 else ""
            raise InputError(
                f"a step has exactly one action; this one has {named}",
                "",
                remedy or f"one of: {', '.join(_BY_NAME)}",
            )
        healed = step["heal"].get("step") if isinstance(step.get("heal"), dict) else None
        if healed is not None and not any(healed in (one, one.rpartition("/")[0]) for one in self._lasting):
            lasting = ", ".join(self._lasting) or "none"
            raise InputError(f"no effect of {healed!r} lasts", "heal.step", f"these do: {lasting}")
        if len(self.done) >= STEPS_MAX:
            raise InputError(f"{STEPS_MAX} steps were done", "", "start another session")
        entry = dict(step)
        if not isinstance(entry.get("name", ""), str):
            raise InputError("a name is a text", "name")
        if not entry.get("name"):
            number = 1
            while f"{kinds[0]}-{number}" in self._steps:
                number += 1
            entry["name"] = f"{kinds[0]}-{number}"
        self.cluster.do.check(entry)
        return entry

    def _handle(self, payload: Any, done: Callable[[Any], None]) -> None:
        """Do what a user asks for, at this position of the run; in a replay too."""
        what, user, value = payload
        kernel = self.cluster.kernel
        at_us = Virtual(kernel.now_us + 1)
        try:
            if what == STEP:
                self.cluster.do.perform_entry(value, at_us=at_us, by=user)
                self._steps.add(value["name"])
                self.done.append(Done(value["name"], at_us, user, value))
            else:
                self._judge(user, value, at_us)
        except InputError as error:  # another operation came first, since it was checked
            done(str(error))
            return
        done(at_us)

    def _occurred(self, name: str, kind: str, at_us: int) -> None:
        for checker in self._checkers:
            checker.step(name, kind, at_us)
        ended = name.removeprefix("end of ")
        if ended != name:
            self._begun.pop(ended, None)
        else:
            self._begun[name] = kind, Virtual(at_us)
        self._changed()

    # --- expectations -----------------------------------------------------------------------------

    def _built(self, entry: Mapping[str, Any], after: str = "") -> Expectation:
        """An expectation of its entry.  Raises InputError."""
        try:
            spec = msgspec.convert(dict(entry), sections.Expectation)
            return build(msgspec.structs.replace(spec, after=spec.after or after), self.cluster.names)
        except (msgspec.ValidationError, Mistakes) as error:
            raise InputError(str(error)) from None

    def _judge(self, user: str, entry: Obj, at_us: Virtual) -> None:
        entry = {"after": format_duration(at_us), **entry}
        self._checkers.append(self._followed([self._built(entry)]))
        self._names.add(entry["name"])
        self.judged.append(Judged(at_us, user, entry))

    def _followed(self, expectations: list[Expectation]) -> Checker:
        """A checker of expectations that takes part in the run from now on."""
        cluster = self.cluster
        checker = Checker(World(cluster.names, self._zones), expectations)
        checker.begin(cluster.kernel.now_us)
        for change in cluster.present(checker.resources):
            checker.see(change)
        take_part(cluster, checker)
        return checker

    @property
    def has_expectations(self) -> bool:
        """True if something is judged."""
        return bool(self._checkers)

    def verdicts(self, end_us: int) -> Iterator[Verdict]:
        """The verdicts of a session that ended at `end_us`."""
        for checker in self._checkers:
            yield from checker.verdicts(end_us)

    def judgements(self) -> Iterator[Obj]:
        """What each expectation has come to so far."""
        now_us = self.cluster.kernel.now_us
        for checker in self._checkers:
            for expectation, verdict in zip(checker.expectations, checker.verdicts(now_us), strict=True):
                yield {
                    "name": verdict.name,
                    "kind": verdict.kind,
                    "state": _state(expectation, verdict.ok, now_us),
                    "measured": verdict.measured,
                    "wanted": verdict.wanted,
                    "after": verdict.after,
                    "objects": list(verdict.objects),
                    "at_us": verdict.at_us,
                }

    # --- state ------------------------------------------------------------------------------------

    def faults(self) -> list[Obj]:
        """The steps with an effect that lasts."""
        return [
            {"name": name, "kind": kind, "since_s": at_us / 1e6, "since_us": at_us}
            for name in self._lasting
            for kind, at_us in (self._begun[name],)
        ]

    @property
    def _lasting(self) -> list[str]:
        """The names of these steps, in the order in which they began."""
        active = self.cluster.do.active
        return [name for name in self._begun if name in active]

    def clock(self, *, noted: bool = True) -> Obj:
        """The state of time, which costs little to find.

        noted: False for a display, of which the journal need not know
        """
        if noted:
            self.before_news()
        kernel = self.cluster.kernel
        goal_us = kernel.pace.goal_us
        return {
            "virtual_us": kernel.outside_now_us(),
            "pace": self.pace,
            "paused": self.paused,
            "goal_us": None if goal_us >= NEVER_US else goal_us,
            "end_us": None if self.end_us >= NEVER_US else self.end_us,
            "held_by": list(self._holds),
            "clocks": self.cluster.clients.turns.names,
            "events": kernel.steps,
            "requests": sum(server.flown for server in self.cluster.api_servers.values()),
            "faults": self.faults(),
        }

    def state(self) -> Obj:
        """The present state in numbers."""
        kernel, clock = self.cluster.kernel, self.clock()
        return {
            "scenario": self.plan.name,
            "seed": kernel.seed,
            "naming": self.plan.cluster.naming,
            "virtual": format_duration(clock["virtual_us"]),
            "wall_us": kernel.epoch_us + clock["virtual_us"],
            **clock,
            "records": kernel.trace.count,
            "trace_sha256": kernel.trace.sha256(),
            **self.cluster.counts(),
            "expectations": list(self.judgements()),
        }

    def _changed(self) -> None:
        for hear in self.on_change:
            hear()


@contextmanager
def _hurried(kernel: Kernel, fast: bool) -> Iterator[None]:
    """Let time run as fast as possible, then at its former pace, unless another was set."""
    rate = kernel.rate
    if fast:
        kernel.set_rate(math.inf)
    try:
        yield
    finally:
        if fast and kernel.rate == math.inf:
            kernel.set_rate(rate)


_BY_NAME = {kind.name: kind for kind in KINDS.values()}


def _state(expectation: Expectation, ok: bool, now_us: int) -> str:
    """What an expectation has come to: "waits" for its window, "holds", "failed" or is "open"."""
    if expectation.from_us is None or now_us < expectation.from_us:
        return "waits"
    if ok:
        return "holds"
    closed = expectation.end_us is not None and expectation.end_us < now_us
    return "failed" if closed or not expectation.may_still_hold(now_us) else "open"


def duration_of(text: str, place: str) -> int:
    """A duration in microseconds.  Raises InputError."""
    try:
        result = parse_duration_us(text)
    except ValueError:
        result = -1
    if result < 0:
        raise InputError(f"{text!r} is no duration", place, "write it as 90s, 5m or 1h30m")
    return result
