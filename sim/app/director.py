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

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import log
from random import Random
from typing import Any, TypeVar

from actors.storage.kept_snapshots import Snapshots
from actors.storage.snapshots import Snapshot
from actors.users import Orders
from sim.api.objects import is_ready
from sim.app.parts.ports import BuiltCluster
from sim.app.parts.resting import notice
from sim.check import Observer, Trigger, World
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.faults.shared.kinds import Action, Undo
from sim.faults.shared.ledger import AspectName, Ledger
from sim.kernel.causes import caused_by, without_cause
from sim.scenario.plan.plan import PlannedAction, PlannedStep, Span
from sim.units import Virtual, format_duration

T = TypeVar("T")
Hook = Callable[[str, str, int], None]
_NOW = "now"  # the step at which a condition opens


@dataclass(frozen=True, slots=True)
class _Active:
    """An occurrence with an effect that has not ended: its record, its kind, what ends it, and what
    waits for that.
    """

    begin: int
    kind: str
    undo: Undo
    ended: Callable[[], None]


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
        self._room: tuple[int, int] | None = None  # of the orders of steps
        self._orders: dict[str, int] = {}  # of the first occurrences, by step
        self._started: dict[str, None] = {}
        self._active: dict[str, _Active] = {}
        self._state: dict[Callable[[], Any], Any] = {}
        self._begin = self.kernel.kind("step", "name", "kind", "detail")
        self._end = self.kernel.kind("step-end", "name", "step")

    def schedule(self, steps: tuple[PlannedStep, ...], room: int = 0, later: Collection[str] = ()) -> None:
        """Schedule the first occurrence of each step, and observe the conditions of the others.

        Steps may be added during a run, if they have no conditions.

        room: of orders, for steps that `insert` puts between these
        later: steps that `insert` schedules
        """
        for step in steps:
            for choice in step.choices:
                past_us = choice.action.past_us
                if past_us is not None and not self.state(Snapshots).keep(self.cluster.storage, past_us):
                    what = f"the storage keeps no history of {format_duration(past_us)} any more"
                    raise InputError(what, step.place, "name a later instant")
        courses = [_Course(self, step) for step in steps if step.name not in later]
        triggers = [course.trigger for course in courses if course.trigger is not None]
        if triggers:
            self._observer = Observer(World(self.cluster.names, self.zones), triggers)
            self.cluster.observe(self._observer.see)
            self.cluster.machine_watch.watch_programs(self._observer)
            notice(self.kernel, self._observer.monitors, self._observer.advance)
        if room:
            self._room = self.kernel.next_order(), self.kernel.next_order(room)
        self._start(courses, steps)

    def learn(self, zones: Mapping[str, str]) -> None:
        """Take in the zones of nodes that are created later."""
        self.zones = zones
        self._observer.world.learn(zones)

    def insert(self, steps: tuple[PlannedStep, ...], later: Collection[str] = ()) -> None:
        """Schedule those steps of a whole timeline that are not scheduled yet, in the order that
        they would have among all others from the start of the run (`schedule` with room).

        They have no conditions, and are due later than now.

        later: steps that another call schedules
        """
        new = (step for step in steps if step.name not in self._started and step.name not in later)
        self._start([_Course(self, step) for step in new], steps)

    def _start(self, courses: list[_Course], steps: tuple[PlannedStep, ...]) -> None:
        self._followers += [course for course in courses if course.follows]
        self._started.update(dict.fromkeys(course.name for course in courses))
        if self._room is not None:
            self._orders = spaced([step.name for step in steps], self._orders, *self._room)
        with without_cause(self.kernel):
            for course in courses:
                course.start()

    def order_of(self, step: PlannedStep) -> int:
        """The order of the first occurrence of a step; 0 for the next one."""
        return self._orders.get(step.name, 0)

    def _report(self, name: str, kind: str) -> None:
        now_us = self.kernel.now_us
        self._on_step(name, kind, now_us)
        self._observer.step(name, kind, now_us)
        for course in self._followers:
            course.saw(name)

    def occur(self, step: PlannedStep, name: str, chosen: PlannedAction, for_us: int | None) -> None:
        """Carry out one occurrence of a step now, caused by the present cause of the kernel."""
        detail = {**chosen.action.detail(), "by": step.by} if step.by else chosen.action.detail()
        self._occur(name, chosen.kind, detail, chosen.action, for_us)

    def _occur(
        self,
        name: str,
        kind: str,
        detail: Mapping[str, Any],
        action: Action,
        for_us: int | None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        kernel = self.kernel
        begin = kernel.record(self._begin, (name, kind, detail))
        kernel.follow(begin)
        undo = action.begin(self, name)
        if undo is not None:
            self._active[name] = _Active(begin, kind, undo, ended)
            if for_us is not None:
                kernel.call_later(for_us, self._finish, name)
        if undo is None or for_us is None:
            ended()
        self._report(name, kind)

    def act(
        self, name: str, kind: str, action: Action, for_us: int | None, then: Callable[[str], None]
    ) -> None:
        """Carry an action out; `then` is called when its commands and its effect have ended."""
        parts = Orders(lambda problem: self.kernel.call_later(0, then, problem))
        parts.begun()  # the effect
        with self.cluster.admin.ordered(parts):
            self._occur(name, kind, action.detail(), action, for_us, parts.done)

    def kept(self, at_us: Virtual) -> Snapshot:
        """The snapshot of the storage at an instant that an action of the run looks back to."""
        return self.state(Snapshots).at[at_us]

    def when(self, condition: str, then: Callable[[], None]) -> Undo:
        """Call `then` once when a condition holds; the result cancels that."""
        cluster, kernel = self.cluster, self.kernel

        def fire() -> None:
            trigger.close()
            kernel.call_later(0, lambda _: then())

        trigger = Trigger(condition, cluster.names, _NOW, fire)
        observer = Observer(World(cluster.names, self.zones), [trigger])
        for change in cluster.present(observer.resources):
            observer.see(change)
        cancel = cluster.observe(observer.see, observer.resources)
        observer.step(_NOW, "", kernel.now_us)

        def end() -> None:
            trigger.close()
            cancel()

        return end

    def _finish(self, name: str) -> None:
        active = self._active.pop(name, None)
        if active is not None:
            # The end is no cause of what else is healed.
            with caused_by(self.kernel, self.kernel.record(self._end, (name, active.begin))):
                active.undo()
                self._report(f"end of {name}", f"end of {active.kind}")
                active.ended()

    def is_healthy(self, host: str) -> bool:
        """True if a process runs without a fault and, if it is a node, is Ready."""
        cluster = self.cluster
        if not cluster.supervisor[cluster.actor_named(host)].running or self.faults.is_faulty(host):
            return False
        node = cluster.storage.store.get(cluster.scheme.key("nodes", "", host))
        return node is None or is_ready(node.obj)

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
        result: T = self._state[make]
        return result


class _Course:
    """The course of one step through its occurrences."""

    def __init__(self, director: Director, step: PlannedStep) -> None:
        self._director = director
        self._kernel = director.kernel
        self._step, self.name = step, step.name
        self._random: Random = director.kernel.stream(f"scenario/{step.name}")
        self._count = 0
        self._over = False
        self._spent: dict[int, dict[str, None]] = {}  # drawn targets, by the index of the choice
        start = step.start
        self.trigger: Trigger | None = None
        if start.condition is not None:
            names = director.cluster.names
            self.trigger = Trigger(start.condition, names, start.after, self._delayed)
        self.follows = start.at_us is None and start.condition is None

    def start(self) -> None:
        if self._step.start.at_us is not None:
            self._plan(Virtual(self._draw(self._step.start.at_us)), self._director.order_of(self._step))

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

    def _plan(self, at_us: Virtual, order: int = 0) -> None:
        """Schedule an occurrence, unless the instant is after `until`.  order: 0 for the next one"""
        repeat = self._step.repeat
        if repeat is None or repeat.until_us is None or at_us <= repeat.until_us:
            self._kernel.call_in(order or self._kernel.next_order(), at_us, self._happen)

    def _happen(self, _: Any) -> None:
        step, repeat, kernel = self._step, self._step.repeat, self._kernel
        if self._over:
            return
        cause = kernel.cause
        self._count += 1
        chosen = self._choose()
        if chosen is None:
            self._over = True
            return
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

    def _choose(self) -> PlannedAction | None:
        """The action with its targets; None if it has drawn all of them before."""
        choices = self._step.choices
        chosen = choices[0]
        if len(choices) > 1:
            (chosen,) = self._random.choices(choices, [choice.weight for choice in choices])
        if chosen.pick is None:
            return chosen
        pick, hosts = chosen.pick, chosen.action.hosts
        if pick.not_yet:
            spent = self._spent.setdefault(choices.index(chosen), {})
            if all(host in spent for host in hosts):
                return None
            pick = replace(pick, spent=spent)
        if pick.healthy:
            hosts = tuple(host for host in hosts if self._director.is_healthy(host))
        return replace(chosen, action=chosen.action.only(tuple(pick.of(hosts, self._random))))


def spaced(names: Sequence[str], known: Mapping[str, int], low: int, high: int) -> dict[str, int]:
    """Orders between two numbers that increase along the names; those that are known stay.

    Raises ValueError if there is no room.
    """
    orders, new = dict(known), list[str]()
    for name in [*names, ""]:
        end = known.get(name, 0) if name else high
        if not end:
            new.append(name)
            continue
        gap = (end - low) // (len(new) + 1)
        if not gap:
            raise ValueError("there is no room for more steps")
        orders.update((each, low + gap * number) for number, each in enumerate(new, 1))
        low, new = end, []
    return orders


def exponential_us(random: Random, mean_us: int) -> int:
    """A random gap between events of a Poisson process."""
    return 1 + int(-mean_us * log(1.0 - random.random()))
