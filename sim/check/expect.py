"""Expectations over a run: within, never, always, eventually, count, order; each with what was
measured.

An expectation watches commits as they happen and gives a `Verdict` at the end.  Times are measured
from the step named by `after` (its first occurrence), or from the start of the run.

If a condition holds already when the window opens, the measured time is 0 s, and the words of the
verdict say so ("held already at 2m00s", in virtual time): nothing in the window made it hold.

Holds: a verdict depends only on the committed objects and their times. A condition is tested after
every commit that could change it, at a cost proportional to that one object (`Tally`), not to the
cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

from msgspec import UNSET

from sim.api.store import Change
from sim.check.condition import Condition, parse_condition, quantified
from sim.check.over import Bounds
from sim.check.tally import Matter, Tally, parse_matter, seen_by
from sim.check.world import World, split_key
from sim.ident import Names
from sim.units import format_instant, parse_duration_us


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one expectation.

    measured, wanted: in words
    measured_s: the times or counts behind `measured`
    kind: the expectation's key in the file
    missing: number of times that should have been measured and were not
    witness: revision of the commit that decided it, 0 if there is none
    after: the start of the window
    """

    name: str
    ok: bool
    measured: str
    wanted: str
    measured_s: tuple[float, ...] = ()
    kind: str = ""
    missing: int = 0
    witness: int = 0
    after: str = ""


class Spec(Protocol):
    """An expectation in the form of the scenario's schema (sim.scenario.read.schema.Expectation)."""

    name: str
    when: Any
    within: Any
    never: Any
    always: Any
    eventually: Any
    count: Any
    order: Any
    unavailability: Any
    after: str
    until: str
    by: str
    over: Any
    equals: Any
    at_least: Any
    at_most: Any


class Expectation(ABC):
    """One expectation during a run.

    The window runs from the step `after` to `until`; `over` judges many runs.
    """

    matter: Condition | Matter
    kind = ""
    over: Bounds | None = None
    witness = 0

    def __init__(self, spec: Spec) -> None:
        self.name = spec.name
        self.after = spec.after
        self.until = spec.until
        self.from_us: int | None = 0 if not spec.after else duration_us(spec.after)
        self.end_us: int | None = duration_us(spec.until) if spec.until else None
        self.opened = False

    def step(self, name: str, kind: str, at_us: int, world: World) -> None:
        """A step of the timeline takes place now."""
        closed = self.end_us is not None and self.end_us < at_us
        if self.from_us is None and not closed and is_step(self.after, name, kind):
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

    @abstractmethod
    def take(self, world: World, resource: str, change: Change) -> None:
        """Take a commit, after the window has opened if it was due."""

    def verdict(self, end_us: int) -> Verdict:
        """The verdict on a run that ended at `end_us`."""
        if not self.opened and self.from_us is not None:
            self.opened = True
            self.open(self.from_us)
        return self.judge(end_us)

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
    found = duration_us(text)
    if found is None or found < 0:
        raise ValueError(f"{key!r}: {text!r} is no time after the start of the window, write it as 90s or 5m")
    return found


def shown_us(us: int) -> str:
    """Return a duration as reports show it, such as 1.50s."""
    return f"{us / 1e6:.2f}s"


def _held_already(at_us: int) -> str:
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
        self.matter = matter
        self.tally = Tally(matter) if isinstance(matter, Condition) else None
        self.each = isinstance(matter, Condition) and matter.each
        self.first_us: int | None = None
        self.times: dict[str, int] = {}
        # Number of objects (or 1 for a condition) that held when the window opened.
        self.held_at_open = 0

    def open(self, at_us: int) -> None:
        """Take the objects, or the condition, that hold already."""
        if self.each and self.tally is not None:
            self.times = {key: at_us for key, true in self.tally.state.items() if true}
        self._look(at_us)
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
                self._look(change.at_us, (change.item.key,) if own else self.tally.state, change.item.rev)
        elif isinstance(self.matter, Matter) and self.in_window(change.at_us):
            if self.matter.happened(world, resource, change):
                self.first_us, self.witness = change.at_us, change.item.rev

    def _look(self, at_us: int, keys: Iterable[str] = (), rev: int = 0) -> None:
        """Note what holds now.  keys: objects with a change"""
        if self.tally is None:
            return
        for key in keys if self.each else ():
            if self.tally.state.get(key) and key not in self.times:
                self.times[key], self.witness = at_us, rev
        if self.first_us is None and self.tally.holds:
            self.first_us = at_us
            self.witness = self.witness if self.each else rev

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the measured times."""
        if self.each and self.tally is not None:
            times = [self.since_us(at) for at in self.times.values()]
            missing = self.tally.selected - len([key for key in self.tally.state if key in self.times])
            ok = not self._judges or (bool(times) and not missing and all(map(self._inside, times)))
            values = tuple(at / 1e6 for at in times)
            return Verdict(
                self.name, ok, self._each_measured(times, missing), self._wanted(), values, missing=missing
            )
        if self.first_us is None:
            return Verdict(self.name, not self._judges, "never", self._wanted(), missing=1)
        took = self.since_us(self.first_us)
        text = _held_already(self.first_us) if self.held_at_open else shown_us(took)
        return Verdict(self.name, self._inside(took), text, self._wanted(), (took / 1e6,))

    def _each_measured(self, times: Sequence[int], missing: int) -> str:
        """The times of all objects in words, how many objects held when the window opened, and for
        how many the condition never held.
        """
        if not times:
            return "never"
        at_open = self.held_at_open
        parts = []
        if at_open < len(times):
            parts.append(f"{shown_us(min(times))} to {shown_us(max(times))}")
        if at_open:
            already = _held_already(self.from_us or 0)
            parts.append(already if at_open == len(times) else f"{at_open} {already}")
        if missing:
            parts.append(f"{missing} never")
        return ", ".join(parts)

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
            return f"{shown_us(self.within_us[0])} to {shown_us(self.within_us[1])}"
        return self.over.wanted if self.over is not None else ""


class Never(Expectation):
    """A condition or matter does not occur in the window.

    One node breaks "never: nodes have Ready=Unknown", because the default quantifier is "any" here.
    """

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        self.matter = parse_matter(spec.never, names, unsaid="any")
        self.tally = Tally(self.matter) if isinstance(self.matter, Condition) else None
        self.first: tuple[int, str] | None = None
        self.times = 0
        self.held = False  # a condition that continues to hold counts once
        self.held_at_open = False

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
                    self._note(change.at_us, change.item.key, change.item.rev)
        elif isinstance(self.matter, Matter) and self.in_window(change.at_us):
            if self.matter.happened(world, resource, change):
                self._note(change.at_us, change.item.key, change.item.rev)

    def _note(self, at_us: int, key: str = "", rev: int = 0) -> None:
        self.times += 1
        if self.first is None:
            self.first, self.witness = (at_us, key), rev

    def judge(self, end_us: int) -> Verdict:
        """The verdict: it fails if the condition or matter occurred."""
        if self.first is None:
            return self.unopened("never") or Verdict(self.name, True, "never", "never")
        at_us, key = self.since_us(self.first[0]), self.first[1]
        if self.held_at_open:
            often = f"{self.times} times, first " if self.times > 1 else ""
            return Verdict(
                self.name, False, f"{often}{_held_already(self.first[0])}", "never", (at_us / 1e6,)
            )
        often = "once, at" if self.times == 1 else f"{self.times} times, first at"
        what = f" ({'/'.join(filter(None, split_key(key)))})" if key else ""
        return Verdict(self.name, False, f"{often} {shown_us(at_us)}{what}", "never", (at_us / 1e6,))


class Always(Expectation):
    """A condition holds from the start of the window to its end."""

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        self.matter = parse_condition(spec.always, names)
        self.tally = Tally(self.matter)
        self.broken_us: int | None = None
        self.broken_at_open = False

    def open(self, at_us: int) -> None:
        """Fail if the condition does not hold when the window opens."""
        if not self.tally.holds:
            self.broken_us, self.broken_at_open = at_us, True

    def take(self, world: World, resource: str, change: Change) -> None:
        """Note the first time at which the condition does not hold."""
        if not self.tally.see(world, resource, change):
            return
        if self.broken_us is None and self.in_window(change.at_us) and not self.tally.holds:
            self.broken_us, self.witness = change.at_us, change.item.rev

    def judge(self, end_us: int) -> Verdict:
        """The verdict: it fails if the condition ceased to hold."""
        if unopened := self.unopened("always"):
            return unopened
        broken_us = self.broken_us
        if broken_us is None:
            text = "always"
        elif self.broken_at_open:
            text = f"did not hold at {format_instant(broken_us)}, when the window opened"
        else:
            text = f"not at {shown_us(self.since_us(broken_us))}"
        return Verdict(self.name, broken_us is None, text, "always")


class Eventually(Expectation):
    """A condition holds at some time (and may cease to), or a matter happens, up to a time."""

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        self.by_us = _span("by", spec.by) if spec.by else None
        self.matter = parse_matter(spec.eventually, names)
        self.tally = Tally(self.matter) if isinstance(self.matter, Condition) else None
        self.first_us: int | None = None
        self.held_at_open = False

    def open(self, at_us: int) -> None:
        """A condition that holds already counts."""
        if self.tally is not None and self.tally.holds:
            self.first_us, self.held_at_open = at_us, True

    def take(self, world: World, resource: str, change: Change) -> None:
        """Note the first time of the condition or matter."""
        if self.first_us is not None:
            return
        if self.tally is not None and not self.tally.see(world, resource, change):
            return
        if not self.in_window(change.at_us):
            return
        if self.tally.holds if self.tally is not None else self._happened(world, resource, change):
            self.first_us, self.witness = change.at_us, change.item.rev

    def _happened(self, world: World, resource: str, change: Change) -> bool:
        return isinstance(self.matter, Matter) and self.matter.happened(world, resource, change)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the first time."""
        wanted = f"by {shown_us(self.by_us)}" if self.by_us is not None else "by the end"
        if self.first_us is None:
            return Verdict(self.name, False, "never", wanted, missing=1)
        took = self.since_us(self.first_us)
        text = _held_already(self.first_us) if self.held_at_open else shown_us(took)
        return Verdict(self.name, self.by_us is None or took <= self.by_us, text, wanted, (took / 1e6,))


class Count(Expectation):
    """How often a matter happens in the window, or for how many objects a condition is true at its
    end.
    """

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        self.matter = parse_matter(spec.count, names)
        if isinstance(self.matter, Condition) and quantified(self.matter.text):
            remedy = "leave out the quantifier, and give equals, atLeast or atMost"
            raise ValueError(f"'count' counts all objects for which {self.matter.text!r} is true; {remedy}")
        self.tally = Tally(self.matter) if isinstance(self.matter, Condition) else None
        self.bounds = {
            "exactly": spec.equals,
            "at least": spec.at_least,
            "at most": spec.at_most,
        }
        self.bounds = {word: bound for word, bound in self.bounds.items() if bound is not UNSET}
        if not self.bounds and spec.over is UNSET:
            raise ValueError("'count' goes with equals, atLeast or atMost, or with 'over: {...}'")
        if not self.bounds and "share" in spec.over:
            raise ValueError("'over: share' of a count goes with equals, atLeast or atMost")
        if "exactly" in self.bounds and len(self.bounds) > 1:
            raise ValueError("'equals' says how many there are; atLeast and atMost add nothing")
        low, high = spec.at_least, spec.at_most
        if self.bounds == {"at least": 0} and spec.over is UNSET:
            raise ValueError("at least 0 is always true; write atLeast: 1, or atMost")
        if low is not UNSET and high is not UNSET and high < low:
            raise ValueError(f"no count is at least {low} and at most {high}")
        self.number = 0

    def take(self, world: World, resource: str, change: Change) -> None:
        """Count the matter, or the objects for which the condition holds."""
        if self.tally is not None:
            self.tally.see(world, resource, change)
            if self.end_us is None or change.at_us <= self.end_us:
                self.number = self.tally.true
        elif isinstance(self.matter, Matter) and self.in_window(change.at_us):
            self.number += self.matter.happened(world, resource, change)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the number."""
        number = self.number
        tests = {
            "exactly": lambda b: number == b,
            "at least": lambda b: number >= b,
            "at most": lambda b: number <= b,
        }
        ok = all(tests[word](bound) for word, bound in self.bounds.items())
        wanted = " and ".join(f"{word} {bound}" for word, bound in self.bounds.items())
        wanted = wanted or (self.over.wanted if self.over is not None else "")
        return self.unopened(wanted) or Verdict(self.name, ok, str(number), wanted, (float(number),))


class Order(Expectation):
    """Each of a list of conditions or matters occurs, and none before its predecessor."""

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        self.parts = [parse_matter(given, names) for given in spec.order]
        if len(self.parts) < 2:
            raise ValueError("an order has at least two parts")
        self.matter = self.parts[0]
        self.tallies = [Tally(part) if isinstance(part, Condition) else None for part in self.parts]
        self.first_us: list[int | None] = [None] * len(self.parts)
        self.held_at_open = [False] * len(self.parts)

    def matters(self) -> Sequence[Condition | Matter]:
        """The conditions and matters of the list."""
        return self.parts

    def open(self, at_us: int) -> None:
        """Conditions that hold already count."""
        for index, tally in enumerate(self.tallies):
            if tally is not None and tally.holds:
                self.first_us[index], self.held_at_open[index] = at_us, True

    def take(self, world: World, resource: str, change: Change) -> None:
        """Note the first time of each condition or matter."""
        for index, (part, tally) in enumerate(zip(self.parts, self.tallies, strict=True)):
            looked = part.resource == resource if tally is None else tally.see(world, resource, change)
            if not looked:
                continue
            if self.first_us[index] is None and self.in_window(change.at_us):
                if (
                    tally.holds
                    if tally is not None
                    else isinstance(part, Matter) and part.happened(world, resource, change)
                ):
                    self.first_us[index], self.witness = change.at_us, change.item.rev

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the order of the first times."""
        times = [at for at in self.first_us if at is not None]
        ok = len(times) == len(self.parts) and times == sorted(times)
        text = ", ".join(self._part_measured(index) for index in range(len(self.parts)))
        known = takewhile(
            lambda at: at is not None, self.first_us
        )  # in order, so only up to the first missing one
        values = tuple(self.since_us(at) / 1e6 for at in known if at is not None)
        return Verdict(self.name, ok, text, "in this order", values)

    def _part_measured(self, index: int) -> str:
        at_us = self.first_us[index]
        if at_us is None:
            return "never"
        return _held_already(at_us) if self.held_at_open[index] else shown_us(self.since_us(at_us))
