"""Expectations over a run: within, never, always, eventually, count, order; each with what was
measured.

An expectation watches commits as they happen and gives a `Verdict` at the end.  Times are measured
from the step named by `after` (its first occurrence), or from the start of the run.

If a condition holds already when the window opens, the measured time is 0 s, and the words of the
verdict say so ("held already at 2m00s", in virtual time): nothing in the window made it hold. With
`again` such a condition has to cease to hold first.

Holds: a verdict depends only on the committed objects and their times. A condition is tested after
every commit that could change it, at a cost proportional to that one object (`Tally`), not to the
cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from msgspec import UNSET

from sim.api.store import Change, path_of
from sim.check.again import Again
from sim.check.condition import Condition, parse_condition
from sim.check.monitors import stored_key
from sim.check.over import Bounds
from sim.check.tally import Matter, Tally, parse_matter, seen_by
from sim.check.world import World
from sim.faults.disturbances import LAST, disturbs
from sim.ident import Names
from sim.units import format_instant, parse_duration_us
from sim.verdict import Unit, Verdict, shown_us, unit_of


class Spec(Protocol):
    """An expectation in the form of the schema (sim.scenario.schema.sections.Expectation)."""

    name: str
    when: Any
    within: Any
    never: Any
    always: Any
    eventually: Any
    count: Any
    order: Any
    unavailability: Any
    invariant: Any
    after: str
    until: str
    by: str
    over: Any
    per: Any
    equals: Any
    at_least: Any
    at_most: Any
    again: bool
    fails: bool


class Expectation(ABC):
    """One expectation during a run.

    The window runs from the step `after` to `until`; `over` judges many runs.
    """

    matter: Condition | Matter
    tally: Tally | None = None
    kind = ""
    held_before = False  # True if the condition held at some time before the window
    over: Bounds | None = None
    witness: int
    decided_us: int | None  # when the witness was committed
    subject: str  # key of the object of the witness
    unit: Unit = "s"  # of the times that are shown
    needs_origins = False  # True if it needs the causes of commits (`World.origins`)
    needs_processes = False  # True if it needs what becomes of processes
    needs_requests = False  # True if it needs the numbers of requests
    needs_clients = False  # True if it needs what becomes of the requests of users
    needs_views = False  # True if it needs what processes remember at the end

    def __init__(self, spec: Spec) -> None:
        self.name = spec.name
        self.after = spec.after
        self.until = spec.until
        self.fails = spec.fails
        self.follows_last = spec.after in LAST
        self.from_us: int | None = 0 if not spec.after or self.follows_last else duration_us(spec.after)
        self.end_us: int | None = duration_us(spec.until) if spec.until else None
        self.opened = False
        self._again = spec.again
        Expectation.reset(self)

    def reset(self) -> None:
        """Forget what was measured, for a window that begins again at a later step."""
        self.witness, self.decided_us, self.subject = 0, None, ""

    def step(self, name: str, kind: str, at_us: int, world: World) -> None:
        """A step of the timeline takes place now."""
        closed = self.end_us is not None and self.end_us < at_us
        if self.follows_last and not closed and disturbs(self.after, kind):
            self.from_us, self.opened = at_us, True
            self.reset()
            self.open(at_us)
        elif self.from_us is None and not closed and is_step(self.after, name, kind):
            self.from_us, self.opened = at_us, True
            self.open(at_us)
        begun = self.from_us is not None and self.from_us <= at_us
        if self.end_us is None and begun and is_step(self.until, name, kind):
            self.end_us = at_us

    def in_window(self, at_us: int) -> bool:
        """True if a time lies in the window."""
        from_us, end_us = self.from_us, self.end_us
        return from_us is not None and at_us >= from_us and (end_us is None or at_us <= end_us)

    def since_us(self, at_us: int) -> int:
        """The time since the start of the window."""
        return at_us - (self.from_us or 0)

    def unopened(self, wanted: str) -> Verdict | None:
        """The failed verdict of a window that never began; None if it did."""
        if self.from_us is not None:
            return None
        by_when = f" before {self.until}" if self.end_us is not None else ""
        return Verdict(self.name, False, f"{self.after} never came{by_when}", wanted)

    def open(self, at_us: int) -> None:
        """The window begins: take what holds already."""
        return

    def machine(self, node: str, serves: bool, at_us: int) -> None:
        """The machine of a node begins or ceases to serve; most expectations do not depend on it."""
        return

    def process(self, what: str, name: str, at_us: int) -> None:
        """A process starts, ends, or is hindered; most expectations do not depend on it."""
        return

    def request(self, request: Any, at_us: int) -> None:
        """A request of a user has ended; most expectations do not depend on it."""
        return

    def finish(self, diverged: Callable[[int], Mapping[str, str]]) -> None:
        """The run has ended; `diverged` finds what processes have wrong, but for a last time."""
        return

    def requests(self, counts: Mapping[str, int], at_us: int, world: World) -> None:
        """Numbers of requests so far, by client; most expectations do not depend on them."""
        return

    def matters(self) -> Sequence[Condition | Matter]:
        """The conditions and matters that the expectation is about."""
        return (self.matter,)

    def resources(self) -> frozenset[str]:
        """The resources with commits that concern this expectation."""
        return frozenset(resource for matter in self.matters() for resource in seen_by(matter))

    def see(self, world: World, resource: str, change: Change) -> None:
        """Take a commit; the world has been updated with it already.

        A window that starts at a time opens with the state before the first commit in it. One from
        the start of the run opens with the first commit; if that comes too late, it opens empty.
        """
        if not self.opened and self.from_us is not None and change.at_us >= self.from_us:
            self.opened = True
            if self.from_us or not self.in_window(change.at_us):
                self.open(self.from_us)
        self.take(world, resource, change)
        if self.tally is not None and not self.held_before:
            early = self.from_us is None or change.at_us < self.from_us
            self.held_before = early and self.tally.holds

    @abstractmethod
    def take(self, world: World, resource: str, change: Change) -> None:
        """Take a commit, after the window has opened if it was due."""

    def _never(self, again: Again) -> str:
        """The words for a condition that never held; of objects other than nodes, which are well
        before a fault, also that it did not hold before the window.
        """
        ready = self.tally is not None and self.tally.condition.resource != "nodes"
        early = self.held_before or again.awaited or not self.from_us or not ready
        return again.never if early else f"{again.never}, not even before"

    def decide(self, change: Change) -> None:
        """This commit decides the verdict."""
        self.witness, self.decided_us, self.subject = change.item.rev, change.at_us, change.item.key

    def verdict(self, end_us: int) -> Verdict:
        """The verdict on a run that ended at `end_us`, with what decided it."""
        if not self.opened and self.from_us is not None:
            self.opened = True
            self.open(self.from_us)
        result = self.judge(end_us)
        opened = self.from_us is not None
        if self.fails and opened:
            result = result.reversed()
        at_us = self.decided_us if opened else None
        return replace(
            result,
            kind=self.kind,
            after=self.after,
            witness=self.witness,
            at_us=at_us,
            since_us=None if at_us is None or not self.in_window(at_us) else self.since_us(at_us),
            held_already=self.held_already,
            objects=() if result.ok or not opened else self.at_fault(),
            counted=result.counted or ("" if self.tally is None or not opened else self.tally.counted),
        )

    @property
    def held_already(self) -> bool:
        """True if all that was measured held when the window opened."""
        return False

    def at_fault(self) -> tuple[str, ...]:
        """Keys of the objects because of which the verdict is a failure."""
        if self.subject:
            return (self.subject,)
        return () if self.tally is None else self.tally.at_fault

    def may_still_hold(self, now_us: int) -> bool:
        """True if an expectation that does not hold now, in its window, may come to hold in it."""
        return False

    def shown(self, us: int) -> str:
        """A measured time in the unit of the expectation."""
        return shown_us(us, self.unit)

    @abstractmethod
    def judge(self, end_us: int) -> Verdict:
        """The verdict, apart from the start of the window."""
        ...


def is_step(wanted: str, name: str, kind: str) -> bool:
    """True if `wanted` is the step's name, its kind, or NAME for the occurrence "NAME/3"."""
    return bool(wanted) and wanted in (name, kind, name.rpartition("/")[0])


def duration_us(text: str) -> int | None:
    """Return a duration in microseconds, None if the text is none."""
    try:
        return parse_duration_us(text)
    except ValueError:
        return None


def _span(key: str, text: str) -> int:
    """A time from the start of the window.  Raises ValueError if it is not one."""
    result = duration_us(text)
    if result is None or result < 0:
        raise ValueError(f"{key!r}: {text!r} is no time after the start of the window, write it as 90s or 5m")
    return result


def held_already_at(at_us: int) -> str:
    """The words for a condition that held at the opening of the window."""
    return f"held already at {format_instant(at_us)}"


class Within(Expectation):
    """The first time a condition holds (for "each": the time of every object) lies in an interval."""

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        if spec.within is UNSET and spec.over is UNSET:
            raise ValueError("'when' goes with 'within: [from, to]' or 'over: {...}'")
        matter = parse_matter(spec.when, names)
        self.within_us: tuple[int, int] | None = None  # measured only, and judged over many runs
        if spec.within is not UNSET:
            low_us, high_us = (_span("within", text) for text in spec.within)
            if high_us < low_us:
                raise ValueError(f"the interval {spec.within[0]} to {spec.within[1]} ends before it begins")
            self.within_us = low_us, high_us
            self.unit = unit_of(*spec.within)
        self.matter = matter
        self.tally = Tally(matter) if isinstance(matter, Condition) else None
        self.each = isinstance(matter, Condition) and matter.each
        self.reset()

    def reset(self) -> None:
        """Forget the times."""
        super().reset()
        self.again = Again(self._again, self.tally)
        self.first_us: int | None = None
        self.times: dict[str, int] = {}
        self.revisions: dict[str, int] = {}  # of the commits at these times
        # Number of objects (or 1 for a condition) that held when the window opened.
        self.held_at_open = 0

    def open(self, at_us: int) -> None:
        """Take the objects, or the condition, that hold already."""
        if self.tally is None or self.again.awaited:
            self.again.open()
            return
        if self.each:
            self.times = {key: at_us for key, true in self.tally.state.items() if true}
        if self.tally.holds:
            self.first_us = at_us
        self.held_at_open = len(self.times) if self.each else int(self.first_us is not None)

    def take(self, world: World, resource: str, change: Change) -> None:
        """Note the first time of the condition or of each object."""
        if self.first_us is not None and not self.each:
            return
        # What happens after the window is not part of the expectation.
        if self.end_us is not None and change.at_us > self.end_us:
            return
        if self.tally is not None:
            if self.tally.see(world, resource, change) and self.in_window(change.at_us):
                own = resource == self.tally.condition.resource
                self._look(change, (change.item.key,) if own else tuple(self.tally.state))
        elif isinstance(self.matter, Matter) and self.in_window(change.at_us):
            if self.matter.happened(world, resource, change):
                self.first_us = change.at_us
                self.decide(change)

    def _look(self, change: Change, keys: Sequence[str]) -> None:
        """Note what holds now.  keys: objects with a change"""
        tally, at_us = self.tally, change.at_us
        assert tally is not None
        self.again.look(keys)
        for key in keys if self.each else ():
            if tally.state.get(key) and key not in self.times and self.again.ceased(key):
                self.times[key], self.revisions[key] = at_us, change.item.rev
                self.decide(change)
                self.held_at_open += not at_us  # the first instant of a run is its opening
        if self.first_us is None and tally.holds and (self.each or self.again.ceased()):
            self.first_us = at_us
            if not self.each:
                self.decide(change)
                self.held_at_open = int(not at_us)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the measured times."""
        if self.each and self.tally is not None:
            times = [self.since_us(at) for at in self.times.values()]
            missing = self.tally.selected - len([key for key in self.tally.state if key in self.times])
            ok = not self._judges or (bool(times) and not missing and all(map(self._inside, times)))
            self._decide_each()
            values = tuple(at / 1e6 for at in times)
            return Verdict(
                self.name, ok, self._each_measured(times, missing), self._wanted(), values, missing=missing
            )
        if self.first_us is None:
            return Verdict(self.name, not self._judges, self._never(self.again), self._wanted(), missing=1)
        took = self.since_us(self.first_us)
        text = held_already_at(self.first_us) if self.held_at_open else self.shown(took)
        return Verdict(self.name, self._inside(took), text, self._wanted(), (took / 1e6,))

    def _decide_each(self) -> None:
        """Of objects at a wrong time, the first decides."""
        for key, rev in self.revisions.items():
            if not self._inside(self.since_us(self.times[key])):
                self.witness, self.decided_us, self.subject = rev, self.times[key], key
                break

    def at_fault(self) -> tuple[str, ...]:
        """Of a condition of each object: those that never held, and those at a wrong time."""
        if not self.each or self.tally is None:
            return super().at_fault()
        never = [key for key in self.tally.state if key not in self.times]
        wrong = [key for key, at in self.times.items() if not self._inside(self.since_us(at))]
        return (*wrong, *never)

    @property
    def held_already(self) -> bool:
        """True if the condition, or each object that ever held, held when the window opened."""
        return bool(self.held_at_open) and self.held_at_open >= len(self.times)

    def _each_measured(self, times: Sequence[int], missing: int) -> str:
        """The times of all objects in words, how many objects held when the window opened, and for
        how many the condition never held.
        """
        if not times:
            return self.again.never
        at_open = self.held_at_open
        parts = []
        if at_open < len(times):
            parts.append(f"{self.shown(min(times))} to {self.shown(max(times))}")
        if at_open:
            already = held_already_at(self.from_us or 0)
            parts.append(already if at_open == len(times) else f"{at_open} {already}")
        if missing:
            parts.append(f"{missing} never")
        return ", ".join(parts)

    def may_still_hold(self, now_us: int) -> bool:
        """True up to the end of the interval, while nothing has come outside of it."""
        wrong = any(not self._inside(self.since_us(at)) for at in self.times.values())
        in_time = self.within_us is not None and self.since_us(now_us) <= self.within_us[1]
        return in_time and not wrong and (self.each or self.first_us is None)

    @property
    def _judges(self) -> bool:
        """True if a run may fail: by the measured time or, if a share of the runs is judged, by a
        condition that never held.
        """
        return self.within_us is not None or (self.over is not None and self.over.shares)

    def _inside(self, took_us: int) -> bool:
        return self.within_us is None or self.within_us[0] <= took_us <= self.within_us[1]

    def _wanted(self) -> str:
        if self.within_us is not None:
            return f"{self.shown(self.within_us[0])} to {self.shown(self.within_us[1])}"
        return self.over.wanted if self.over is not None else ""


class Never(Expectation):
    """A condition or matter does not occur in the window.

    One node breaks "never: nodes have Ready=Unknown", because the default quantifier is "any" here.
    """

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        self.matter = parse_matter(spec.never, names, unsaid="any")
        self.tally = Tally(self.matter) if isinstance(self.matter, Condition) else None
        self.reset()

    def reset(self) -> None:
        """Forget the occurrences."""
        super().reset()
        self.first: tuple[int, str] | None = None
        self.times = 0
        self.held = False  # a condition that continues to hold counts once
        self.held_at_open = False
        self.true_at_open: tuple[str, ...] = ()

    def open(self, at_us: int) -> None:
        """A condition that holds already counts."""
        if self.tally is not None and self.tally.holds:
            self.held = self.held_at_open = True
            self._note(at_us)

    def take(self, world: World, resource: str, change: Change) -> None:
        """Count the times at which the condition or matter occurs."""
        if self.tally is not None:
            if self.tally.see(world, resource, change) and self.in_window(change.at_us):
                before, self.held = self.held, self.tally.holds
                if self.held and not before:
                    self._note(change.at_us, change)
        elif isinstance(self.matter, Matter) and self.in_window(change.at_us):
            if self.matter.happened(world, resource, change):
                self._note(change.at_us, change)

    def _note(self, at_us: int, change: Change | None = None) -> None:
        self.times += 1
        if self.first is not None:
            return
        self.first = at_us, "" if change is None else change.item.key
        if change is not None:
            self.decide(change)
        elif self.tally is not None:  # the objects of which it was true at the opening
            self.decided_us, self.true_at_open = at_us, self.tally.of(True)

    def at_fault(self) -> tuple[str, ...]:
        """The object that occurred first, or those of which the condition held at the opening."""
        return (self.subject,) if self.subject else self.true_at_open

    @property
    def held_already(self) -> bool:
        """True if the condition held when the window opened."""
        return self.held_at_open

    def judge(self, end_us: int) -> Verdict:
        """The verdict: it fails if the condition or matter occurred."""
        if self.first is None:
            return self.unopened("never") or Verdict(self.name, True, "never", "never")
        at_us, key = self.since_us(self.first[0]), self.first[1]
        if self.held_at_open:
            often = f"{self.times} times, first " if self.times > 1 else ""
            return Verdict(
                self.name, False, f"{often}{held_already_at(self.first[0])}", "never", (at_us / 1e6,)
            )
        often = "once, at" if self.times == 1 else f"{self.times} times, first at"
        key = stored_key(key)
        what = f" ({path_of(key)})" if key else ""
        return Verdict(self.name, False, f"{often} {shown_us(at_us)}{what}", "never", (at_us / 1e6,))


class Always(Expectation):
    """A condition holds from the start of the window to its end."""

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        self.matter = parse_condition(spec.always, names)
        self.tally: Tally = Tally(self.matter)
        self.reset()

    def reset(self) -> None:
        """Forget that the condition ceased to hold."""
        super().reset()
        self.broken_us: int | None = None
        self.broken_at_open = False
        self.broken_by: tuple[str, ...] = ()
        self.counted = ""

    def open(self, at_us: int) -> None:
        """Fail if the condition does not hold when the window opens."""
        if not self.tally.holds:
            self.broken_us, self.broken_at_open = at_us, True
            self._broken(at_us)

    def _broken(self, at_us: int) -> None:
        self.decided_us, self.broken_by, self.counted = at_us, self.tally.at_fault, self.tally.counted

    def take(self, world: World, resource: str, change: Change) -> None:
        """Note the first time at which the condition does not hold."""
        if not self.tally.see(world, resource, change):
            return
        if self.broken_us is None and self.in_window(change.at_us) and not self.tally.holds:
            self.broken_us = change.at_us
            self._broken(change.at_us)
            self.decide(change)

    def at_fault(self) -> tuple[str, ...]:
        """The object that broke the condition, or those that did not fulfil it at the opening."""
        return (self.subject,) if self.subject else self.broken_by

    def judge(self, end_us: int) -> Verdict:
        """The verdict: it fails if the condition ceased to hold."""
        if unopened := self.unopened("always"):
            return unopened
        broken_us = self.broken_us
        if broken_us is None:
            text = "always"
        elif self.broken_at_open:
            text = f"did not hold at {format_instant(broken_us)}, when the window opened"
            early = self.held_before or not broken_us or self.matter.resource == "nodes"
            text += "" if early else ", and never did before"
        else:
            text = f"not at {shown_us(self.since_us(broken_us))}"
        return Verdict(self.name, broken_us is None, text, "always", counted=self.counted)


class Eventually(Expectation):
    """A condition holds at some time (and may cease to), or a matter happens, up to a time."""

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        self.by_us = _span("by", spec.by) if spec.by else None
        self.unit = unit_of(spec.by) if spec.by else "s"
        self.matter = parse_matter(spec.eventually, names)
        self.tally = Tally(self.matter) if isinstance(self.matter, Condition) else None
        self.reset()

    def reset(self) -> None:
        """Forget the first time."""
        super().reset()
        self.again = Again(self._again, self.tally)
        self.first_us: int | None = None
        self.held_at_open = False

    def open(self, at_us: int) -> None:
        """A condition that holds already counts."""
        self.again.open()
        if self.tally is not None and self.tally.holds and not self.again.awaited:
            self.first_us, self.held_at_open = at_us, True

    @property
    def held_already(self) -> bool:
        """True if the condition held when the window opened."""
        return self.held_at_open

    def take(self, world: World, resource: str, change: Change) -> None:
        """Note the first time of the condition or matter."""
        if self.first_us is not None or (self.end_us is not None and change.at_us > self.end_us):
            return
        if self.tally is not None and not self.tally.see(world, resource, change):
            return
        if not self.in_window(change.at_us):
            return
        self.again.look(())
        if self.tally is None:
            met = isinstance(self.matter, Matter) and self.matter.happened(world, resource, change)
        else:
            met = self.tally.holds and self.again.ceased()
        if met:
            self.first_us = change.at_us
            self.decide(change)
            self.held_at_open = self.tally is not None and not change.at_us

    def may_still_hold(self, now_us: int) -> bool:
        """True up to the time by which it is to happen."""
        return self.first_us is None and (self.by_us is None or self.since_us(now_us) <= self.by_us)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the first time."""
        target = f"by {self.shown(self.by_us)}" if self.by_us is not None else "by the end"
        if self.first_us is None:
            return Verdict(self.name, False, self._never(self.again), target, missing=1)
        took = self.since_us(self.first_us)
        text = held_already_at(self.first_us) if self.held_at_open else self.shown(took)
        return Verdict(self.name, self.by_us is None or took <= self.by_us, text, target, (took / 1e6,))
