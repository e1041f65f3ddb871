"""Timeline steps of a scenario to planned steps: their times, repetitions and draws.

Refuses parameters without effect: `for` on an action that has no end, `times` without a repetition,
two durations of one fault, a `pick` of more targets than exist.

Holds: steps are planned in the order of the file; a step may follow any other step, but may heal
    earlier ones only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from sim.errors import Problems
from sim.faults.machines.heal import EndStep, HealNodes
from sim.faults.shared.kinds import Action, Ends, StepKind
from sim.faults.shared.parameters import Nodes, OfProcesses
from sim.faults.shared.picks import checked_pick, draw_of
from sim.kernel.draws.streams import Drawn
from sim.patterns import pattern
from sim.scenario.actions import KINDS
from sim.scenario.plan.context import Compiler, Known, StepContext
from sim.scenario.plan.plan import PlannedAction, PlannedStep, Repeat, Span, Start
from sim.scenario.read.source import Path_
from sim.scenario.schema import steps
from sim.units import format_duration, parse_duration_us

TIMES_MAX = 100_000  # of one step in a run
# Fields of a step that say when it occurs.
TIMES = frozenset(("at", "when", "after", "delay", "every", "rate", "times", "until", "for"))
_NAME = pattern(r"^(?!end of )[^/]+$")


def plan_timeline(
    compiler: Compiler, timeline: Sequence[steps.Step], known: Known, naming: str, duration_us: int
) -> dict[int, PlannedStep]:
    """Plan the steps that have no errors, by their numbers; the errors are collected."""
    names = [step_name(step, index) for index, step in enumerate(timeline)]
    planner = Planner(compiler, known, naming, duration_us, names)
    planned: dict[int, PlannedStep] = {}
    for index, step in enumerate(timeline):
        with compiler.part(("spec", "timeline", index)):
            planned[index] = planner.step(step, index)
    if _check_cycles(compiler, planned):
        steps = {step.name: step for step in planned.values()}
        for index, one in planned.items():
            with compiler.part(("spec", "timeline", index)):
                _check_reach(compiler, one, index, steps, duration_us)
    return planned


def _check_cycles(compiler: Compiler, planned: Mapping[int, PlannedStep]) -> bool:
    """True if no step waits for itself; an error for each circle of steps is collected."""
    before = {step.name: awaited(step.start.after) for step in planned.values()}
    circles: list[str] = []
    for index, step in planned.items():
        chain = [step.name]
        while (other := before.get(chain[-1], "")) and other not in chain:
            chain.append(other)
        if other == step.name and step.name not in circles:
            circles += chain
            path: Path_ = ("spec", "timeline", index)
            with compiler.part(path):
                never = f"{' after '.join([*chain, other])} never comes"
                raise compiler.document.error((*path, "after"), never)
    return not circles


def _check_reach(
    compiler: Compiler, step: PlannedStep, index: int, steps: Mapping[str, PlannedStep], duration_us: int
) -> None:
    """Check that a step occurs, and repeats, before the end of the run.  Raises InputError."""
    path: Path_ = ("spec", "timeline", index)
    first_us = _earliest_us(step, steps)
    if first_us > duration_us:
        key = "delay" if step.start.delay_us[0] else "after"
        shown = format_duration(first_us)
        raise compiler.document.error(
            (*path, key), f"that is {shown} at the earliest, after the end of the run"
        )
    for choice in step.choices:
        past_us = choice.action.past_us
        if past_us is not None and past_us >= first_us:
            what = f"{format_duration(past_us)} is not before the step, {format_duration(first_us)} at the earliest"
            raise compiler.document.error(path, what, "it goes back to an instant before it")
    repeat = step.repeat
    if repeat is None:
        return
    if repeat.until_us is not None and repeat.until_us < first_us:
        problem = f"it ends before the step's first time, {format_duration(first_us)} at the earliest"
        raise compiler.document.error((*path, "until"), problem)
    if repeat.every_us is None or repeat.times == 1:
        return
    again_us = first_us + repeat.every_us[0]
    end_us = duration_us if repeat.until_us is None else min(repeat.until_us, duration_us)
    if again_us > end_us:
        what = "the end of the run" if end_us == duration_us else "the step's 'until'"
        shown = format_duration(again_us)
        raise compiler.document.error((*path, "every"), f"it never repeats: {shown} is after {what}")


def _earliest_us(step: PlannedStep, steps: Mapping[str, PlannedStep]) -> int:
    """The earliest time of a step.  No step waits for itself."""
    start = step.start
    if start.at_us is not None:
        return start.at_us[0]
    if not start.after:
        return start.delay_us[0]
    other = steps.get(awaited(start.after))
    if other is None:  # it has errors
        return 0
    begin_us = _earliest_us(other, steps)
    number = start.after.rpartition("/")[2]
    if number.isdecimal() and other.repeat is not None and other.repeat.every_us is not None:
        begin_us += max(0, int(number) - 1) * other.repeat.every_us[0]
    if start.after.startswith("end of "):
        begin_us += _shortest_us(other, steps.values())
    return begin_us + start.delay_us[0]


def _shortest_us(step: PlannedStep, steps: Iterable[PlannedStep]) -> int:
    """The shortest time that a step's fault lasts: 0 if a step may heal it."""
    if any(choice.action.may_end(step.name) for other in steps for choice in other.choices):
        return 0
    return min(0 if choice.for_us is None else choice.for_us[0] for choice in step.choices)


def awaited(after: str) -> str:
    """The step that `after: NAME`, `end of NAME` or `NAME/NUMBER` waits for."""
    return after.removeprefix("end of ").partition("/")[0]


def step_name(step: steps.Step, index: int) -> str:
    """The name of a step: its own, or one made of its action and number."""
    entry = steps.given_actions(step)
    return step.name or f"{_shown(entry[0]) if entry else 'step'}-{index + 1}"


def possible_names(timeline: Iterable[steps.Step]) -> set[str]:
    """Names of all steps and kinds of their actions, whether or not they have errors."""
    result: set[str] = set()
    for index, step in enumerate(timeline):
        drawn = () if step.random is UNSET else step.random
        result |= {step_name(step, index), *map(_shown, (*steps.given_actions(step), *_actions_of(drawn)))}
    return result


def _actions_of(drawn: Iterable[steps.Drawn]) -> list[str]:
    return [action for one in drawn for action in steps.given_actions(one)]


def kinds_of(planned: Iterable[PlannedStep]) -> set[str]:
    """The kinds of all actions that may occur."""
    return {choice.kind for step in planned for choice in step.choices} | {step.kind for step in planned}


def _is_time(text: str) -> bool:
    try:
        parse_duration_us(text)
    except ValueError:
        return False
    return True


def _shown(key: str) -> str:
    """A field of a step as the file has it."""
    return KINDS[key].name if key in KINDS else key


class Planner:
    """Plans the steps of a timeline."""

    def __init__(
        self, compiler: Compiler, known: Known, naming: str, duration_us: int, names: Sequence[str]
    ) -> None:
        self.compiler = compiler
        self.document = compiler.document
        self.known = known
        self.naming = naming
        self.duration_us = duration_us
        self.names = names

    def step(self, step: steps.Step, index: int) -> PlannedStep:
        """Plan one step.  Raises InputError with every error."""
        path: Path_ = ("spec", "timeline", index)
        name = self.names[index]
        problems = Problems()
        with problems.part():
            self._check_name(name, index, (*path, "name"))
        entry = steps.given_actions(step)
        if entry:  # later steps may name it, although it has errors
            self.known.steps[name] = _shown(entry[0])
        with problems.part():
            choices = self._choices(step, path)
            self.known.steps[name] = choices[0].kind
        with problems.part():
            start = self._start(step, path, name)
            repeat = self._repeat(step, path, start)
        problems.report()
        for choice in choices:
            self._check_draws(choice, repeat, path)
        return PlannedStep(name, start, choices, repeat, self.document.place(path), step.by)

    def _check_name(self, name: str, index: int, path: Path_) -> None:
        if not _NAME.match(name):
            raise self.document.error(
                path, "a step's name has no '/' and no 'end of '", "occurrences are NAME/NUMBER"
            )
        if _is_time(name):
            raise self.document.error(path, f"a step's name is no time, as {name!r} is")
        if name in self.names[:index]:
            raise self.document.error(path, f"two steps are named {name!r}")

    # --- what -------------------------------------------------------------------------------------

    def _choices(self, step: steps.Step, path: Path_) -> tuple[PlannedAction, ...]:
        entry = steps.given_actions(step)
        if len(entry) != 1:
            what = " and ".join(map(_shown, entry)) or "nothing"
            raise self.document.error(path, f"a step has exactly one action; this one has {what}")
        if not isinstance(step.random, list):
            return (self.action(step, entry[0], path),)
        if step.for_ is not UNSET:
            raise self.document.error(
                (*path, "for"), "a random step has no end", "give each draw its own 'for'"
            )
        choices = []
        problems = Problems()
        for number, drawn in enumerate(step.random):
            where = (*path, "random", number)
            kinds = steps.given_actions(drawn)
            with problems.part():
                if len(kinds) != 1:
                    what = " and ".join(map(_shown, kinds)) or "nothing"
                    raise self.document.error(where, f"a draw has exactly one action; this one has {what}")
                choices.append(self.action(drawn, kinds[0], where))
        problems.report()
        return tuple(choices)

    def action(self, step: steps.Step | steps.Drawn, key: str, path: Path_) -> PlannedAction:
        """Plan what a step does by its field `key`.  Raises InputError."""
        body, kind = getattr(step, key), KINDS[key]
        where = (*path, kind.name)
        problems = Problems()
        with problems.part():
            context = StepContext(self.compiler, self.known, where, self.naming, kind.check)
            action = kind.check(context, body)
            if isinstance(action, EndStep | HealNodes) and isinstance(step, steps.Drawn):
                raise self.document.error(where, "a draw cannot heal", "give each draw its own 'for'")
            if not action.lasts and step.for_ is not UNSET:
                raise self.document.error((*path, "for"), f"'for' has no effect here: {kind.name} has no end")
            pick = self._pick(body, action, context)
        with problems.part():
            for_us = self._lasts(step, kind, body, path)
        problems.report()
        weight = step.weight if isinstance(step, steps.Drawn) else 1
        return PlannedAction(kind.name, action, for_us, pick, weight, kind.ends)

    def _lasts(self, step: steps.Step | steps.Drawn, kind: StepKind, body: Any, path: Path_) -> Span | None:
        """How long the effect lasts, by `for` or by a parameter; None if neither is given."""
        for_us = None if step.for_ is UNSET else self.span(str(step.for_), (*path, "for"))
        if for_us == (0, 0):
            raise self.document.error((*path, "for"), f"{step.for_} has no effect")
        if for_us is not None and kind.ends is not Ends.LATER:
            raise self.document.error((*path, "for"), f"'for' has no effect on {kind.name}: it has no end")
        if (own := kind.duration_of(body)) is not None:
            if for_us is not None:
                raise self.document.error(
                    (*path, "for"), f"'for' and {kind.duration} say the same", "give one"
                )
            for_us = self.span(own, (*path, kind.name, kind.duration))
        return for_us

    def _pick(self, body: Any, action: Action, context: StepContext) -> Drawn | None:
        of = body if isinstance(body, OfProcesses) else getattr(body, "nodes", UNSET)
        if not isinstance(of, OfProcesses | Nodes) or not action.picked:
            return None
        text = checked_pick(context, of.pick, of.among)
        if isinstance(of.pick, int) and of.pick > len(action.hosts):
            raise context.error("", f"cannot pick {of.pick}: there are {len(action.hosts)}")
        return draw_of(text) if text else None

    def _check_draws(self, choice: PlannedAction, repeat: Repeat | None, path: Path_) -> None:
        """Check that a draw without repetition has something to leave out, and something left."""
        pick, times = choice.pick, None if repeat is None else repeat.times
        of_objects = getattr(choice.action, "pick", None) or ""
        if repeat is None and ("not-yet" in of_objects or (pick is not None and pick.not_yet)):
            text = "'not-yet' has no effect on a step that occurs once"
            raise self.document.error(path, text, "give 'every', 'rate' or 'times'")
        if pick is None or not pick.not_yet or pick.share or times is None:
            return
        if (times - 1) * pick.low >= (count := len(choice.action.hosts)):
            text = f"{times} draws of {pick.low} among {count}: the last ones find none left"
            raise self.document.error((*path, "times"), text, f"give {-(-count // pick.low)} or fewer")

    # --- when -------------------------------------------------------------------------------------

    def _start(self, step: steps.Step, path: Path_, name: str) -> Start:
        after = "" if step.after is UNSET else str(step.after)
        if step.at is not UNSET:
            for key in ("when", "after", "delay"):
                if getattr(step, key) is not UNSET:
                    raise self.document.error((*path, key), f"a step has either 'at' or '{key}'")
            at_us = self.span(str(step.at), (*path, "at"))
            if at_us[1] > self.duration_us:
                raise self.document.error((*path, "at"), f"{step.at} is after the end of the run")
            return Start(at_us)
        if step.when is UNSET and not after:
            raise self.document.error(
                path,
                "the step does not say when it happens",
                "give 'at: 5m', 'when: CONDITION' or 'after: STEP'",
            )
        if after:
            self._known_step(after, (*path, "after"), name)
        delay_us = (0, 0) if step.delay is UNSET else self.span(str(step.delay), (*path, "delay"))
        return Start(None, None if step.when is UNSET else step.when, after, delay_us)

    def _known_step(self, after: str, path: Path_, name: str) -> None:
        base = after.removeprefix("end of ").partition("/")[0]
        if base == name:
            raise self.document.error(path, "a step cannot follow itself", "give 'every' to repeat it")
        if base not in self.names:
            entry = f"known are: {', '.join(self.names)}"
            remedy = f"'at: {after}' is a time" if _is_time(after) else entry
            raise self.document.error(path, f"no step is named {base!r}", remedy)

    def _check_times(self, gap_us: int, times: int | None, path: Path_) -> None:
        often = self.duration_us // gap_us
        if min(often, often if times is None else times) > TIMES_MAX:
            remedy = f"at most {TIMES_MAX:,} are carried out; a load makes many requests"
            raise self.document.error(path, f"the step would repeat some {often:,} times", remedy)

    def _repeat(self, step: steps.Step, path: Path_, start: Start) -> Repeat | None:
        if step.every is not UNSET and step.rate is not UNSET:
            raise self.document.error((*path, "rate"), "a step has either 'every' or 'rate'")
        times = None if step.times is UNSET else int(step.times)
        until_us = None if step.until is UNSET else self.compiler.duration(str(step.until), (*path, "until"))
        if until_us is not None and start.at_us is not None and until_us < start.at_us[1]:
            raise self.document.error((*path, "until"), f"{step.until} is before the step's first time")
        if step.every is not UNSET:
            every_us = self.span(str(step.every), (*path, "every"))
            if not every_us[0]:
                raise self.document.error((*path, "every"), "a step cannot repeat without time between")
            self._check_times(every_us[1], times, (*path, "every"))
            return Repeat(every_us, None, times, until_us)
        if step.rate is not UNSET:
            gap_us = self.compiler.rate(str(step.rate), (*path, "rate"))
            self._check_times(gap_us, times, (*path, "rate"))
            return Repeat(None, gap_us, times, until_us)
        if times is None and until_us is None:
            return None
        if start.condition is None:
            key = "times" if times is not None else "until"
            raise self.document.error(
                (*path, key), f"'{key}' has no effect without 'every', 'rate' or 'when'"
            )
        return Repeat(None, None, times, until_us)

    def span(self, text: str, path: Path_) -> Span:
        """Both ends of a duration or of a range of durations."""
        span = self.compiler.latency(text, path)
        assert span is not None
        return span
