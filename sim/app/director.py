"""Carries the timeline of a plan out on a cluster.

Turns planned steps into occurrences, each a callback at its instant, which begins the step's
action. An occurrence is a trace record ("step") and the cause of its effects. The end of an effect
(`for`, a heal) is a record too ("step-end", with the id of the record of the occurrence).

Holds: the draws of a step (time, choice, targets, duration) come from a stream of its own, in the
    order of its occurrences; a step with a condition occurs at the instant of the commit that made
    the condition true, after everything that is due then, and the commit is its cause; occurrences
    of a step that repeats are named NAME/1, NAME/2, ….
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from math import log
from random import Random
from typing import Any, TypeVar

from sim.app.parts.ports import BuiltCluster
from sim.check import Observer, Trigger, World
from sim.dataclass import dataclass
from sim.faults.shared.kinds import Undo
from sim.faults.shared.ledger import AspectName, Ledger
from sim.kernel.causes import caused_by, without_cause
from sim.scenario.plan.plan import PlannedAction, PlannedStep, Span
from sim.units import Virtual

T = TypeVar("T")
Hook = Callable[[str, str, int], None]


@dataclass(frozen=True, slots=True)
class _Active:
    """An occurrence with an effect that has not ended: its record, its kind, and what ends it."""

    begin: int
    kind: str
    undo: Undo


class Director:
    """Schedules the steps of a plan, and is the stage of their actions.

    on_step: called with name, kind and time of each occurrence; the end of an occurrence is
        reported as "end of NAME" of kind "end of KIND"
    zones: the zone of each node, for conditions about a zone; default the nodes of the plan
    """

    def __init__(self, cluster: BuiltCluster, on_step: Hook) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self._on_step = on_step
        self.zones: Mapping[str, str] = {node.name: node.zone for node in cluster.plan.nodes}
        self._observer = Observer(World(cluster.names), ())
        self._followers: list[_Course] = []
        self._active: dict[str, _Active] = {}
        self._state: dict[Callable[[], Any], Any] = {}
        self._begin = self.kernel.kind("step", "name", "kind", "detail")
        self._end = self.kernel.kind("step-end", "name", "step")

    def schedule(self, steps: tuple[PlannedStep, ...]) -> None:
        """Schedule the first occurrence of each step, and observe the conditions of the others.

        Steps may be added during a run, if they have no conditions.
        """
        courses = [_Course(self, step) for step in steps]
        triggers = [course.trigger for course in courses if course.trigger is not None]
        if triggers:
            self._observer = Observer(World(self.cluster.names, self.zones), triggers)
            self.cluster.observe(self._observer.see)
        self._followers += [course for course in courses if course.follows]
        with without_cause(self.kernel):
            for course in courses:
                course.start()

    def _report(self, name: str, kind: str) -> None:
        now_us = self.kernel.now_us
        self._on_step(name, kind, now_us)
        self._observer.step(name, kind, now_us)
        for course in self._followers:
            course.saw(name)

    def occur(self, step: PlannedStep, name: str, chosen: PlannedAction, for_us: int | None) -> None:
        """Carry out one occurrence of a step now, caused by the present cause of the kernel."""
        kernel = self.kernel
        detail = chosen.action.detail()
        if step.by:
            detail = {**detail, "by": step.by}
        begin = kernel.record(self._begin, (name, chosen.kind, detail))
        kernel.follow(begin)
        undo = chosen.action.begin(self, name)
        if undo is not None:
            self._active[name] = _Active(begin, chosen.kind, undo)
            if for_us is not None:
                kernel.call_later(for_us, self._finish, name)
        self._report(name, chosen.kind)

    def _finish(self, name: str) -> None:
        active = self._active.pop(name, None)
        if active is not None:
            # The end is no cause of what else is healed.
            with caused_by(self.kernel, self.kernel.record(self._end, (name, active.begin))):
                active.undo()
                self._report(f"end of {name}", f"end of {active.kind}")

    @property
    def active(self) -> Collection[str]:
        """The occurrences with an effect that has not ended."""
        return self._active.keys()

    # --- what an action may act on (sim.faults.shared.kinds.Stage) --------------------------------

    @property
    def faults(self) -> Ledger:
        """The active faults of the cluster."""
        return self.cluster.faults

    def heal(self, target: str, aspect: AspectName | None = None) -> None:
        """End faults of a node or process, of one aspect or all, and steps without others."""
        ended = self.faults.heal(target, aspect)
        if not aspect and not ended and target in self.cluster.nodes:
            self.cluster.supervisor[target].start()  # an agent that exited by itself
        for name in ended:
            self._finish(name)

    def end_step(self, name: str) -> None:
        """End the active occurrences of a step, or one occurrence NAME/3."""
        for active in [one for one in self._active if name in (one, one.rpartition("/")[0])]:
            self._finish(active)

    def state(self, make: Callable[[], T]) -> T:
        """The one value of this class in a run, made when it is first needed."""
        if make not in self._state:
            self._state[make] = make()
        found: T = self._state[make]
        return found


class _Course:
    """The course of one step through its occurrences."""

    def __init__(self, director: Director, step: PlannedStep) -> None:
        self._director = director
        self._kernel = director.kernel
        self._step = step
        self._random: Random = director.kernel.stream(f"scenario/{step.name}")
        self._count = 0
        self._over = False
        start = step.start
        self.trigger: Trigger | None = None
        if start.condition is not None:
            names = director.cluster.names
            self.trigger = Trigger(start.condition, names, start.after, self._delayed)
        self.follows = start.at_us is None and start.condition is None

    def start(self) -> None:
        if self._step.start.at_us is not None:
            self._plan(Virtual(self._draw(self._step.start.at_us)))

    def saw(self, name: str) -> None:
        """A step occurred or ended; if it is the awaited one, schedule this step."""
        if self._step.start.after in (name, name.rpartition("/")[0]):
            self.follows = False
            self._director._followers = [one for one in self._director._followers if one.follows]
            self._delayed()

    def _delayed(self) -> None:
        repeat = self._step.repeat
        if self.trigger is not None and (repeat is None or repeat.every_us or repeat.mean_gap_us):
            self.trigger.close()
        self._plan(self._kernel.now_us + self._draw(self._step.start.delay_us))

    def _plan(self, at_us: Virtual) -> None:
        """Schedule an occurrence, unless the instant is after `until`."""
        repeat = self._step.repeat
        if repeat is None or repeat.until_us is None or at_us <= repeat.until_us:
            self._kernel.call_at(at_us, self._happen)

    def _happen(self, _: Any) -> None:
        step, repeat, kernel = self._step, self._step.repeat, self._kernel
        if self._over:
            return
        cause = kernel.cause
        self._count += 1
        chosen = self._choose()
        for_us = None if chosen.for_us is None else self._draw(chosen.for_us)
        name = step.name if repeat is None else f"{step.name}/{self._count}"
        self._director.occur(step, name, chosen, for_us)
        kernel.follow(cause)  # this occurrence is no cause of the next one
        if repeat is None or self._count == repeat.times:
            self._over = True
        elif repeat.every_us is not None:
            self._plan(kernel.now_us + self._draw(repeat.every_us))
        elif repeat.mean_gap_us is not None:
            self._plan(kernel.now_us + exponential_us(self._random, repeat.mean_gap_us))

    # --- draws ------------------------------------------------------------------------------------

    def _draw(self, span: Span) -> int:
        low_us, high_us = span
        return low_us if low_us == high_us else self._random.randint(low_us, high_us)

    def _choose(self) -> PlannedAction:
        choices = self._step.choices
        chosen = choices[0]
        if len(choices) > 1:
            (chosen,) = self._random.choices(choices, [choice.weight for choice in choices])
        if chosen.pick is None:
            return chosen
        hosts = chosen.action.hosts
        picked = sorted(self._random.sample(range(len(hosts)), chosen.pick))
        return replace(chosen, action=chosen.action.only(tuple(hosts[index] for index in picked)))


def exponential_us(random: Random, mean_us: int) -> int:
    """A random gap between events of a Poisson process."""
    return 1 + int(-mean_us * log(1.0 - random.random()))
