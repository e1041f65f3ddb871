"""Expectations about several occurrences: how many there are, and in which order they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import takewhile

from msgspec import UNSET

from sim.api.store import Change
from sim.check.condition import Condition, quantified
from sim.check.expect import Expectation, Spec, duration_us, held_already_at
from sim.check.tally import Matter, Tally, parse_matter
from sim.check.world import World
from sim.ident import Names
from sim.verdict import Verdict


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
        per = "" if spec.per is UNSET else spec.per
        self.per_us = duration_us(per) if per else None
        if per and (not self.per_us or self.per_us < 0):
            raise ValueError(f"'per': {per!r} is no duration, write it as 1m")
        if per and self.tally is not None:
            raise ValueError(
                "'per' goes with what happens, as count: {changed: deployments}, not with a condition"
            )
        self.reset()

    def reset(self) -> None:
        """Count from 0; the objects of a condition stay counted."""
        super().reset()
        self.number = 0 if self.tally is None else self.tally.true
        self._times_us: dict[str, deque[int]] = {}  # of the last changes of each object, with `per`

    def take(self, world: World, resource: str, change: Change) -> None:
        """Count the matter, or the objects for which the condition holds."""
        if self.tally is not None:
            self.tally.see(world, resource, change)
            if self.end_us is None or change.at_us <= self.end_us:
                self.number = self.tally.true
        elif isinstance(self.matter, Matter) and self.in_window(change.at_us):
            if self.matter.happened(world, resource, change):
                if not self._more(change):
                    return
                if self.number == self._limit + 1 or self.number <= self._least:
                    self.decide(change)

    def _more(self, change: Change) -> bool:
        """Count a change; False if the number stays the same."""
        if self.per_us is None:
            self.number += 1
            return True
        times_us = self._times_us.setdefault(change.item.key, deque())
        times_us.append(change.at_us)
        while times_us[0] <= change.at_us - self.per_us:
            times_us.popleft()
        before, self.number = self.number, max(self.number, len(times_us))
        return self.number > before

    @property
    def _limit(self) -> int:
        """The largest number that is wanted; one more decides."""
        return int(self.bounds.get("exactly", self.bounds.get("at most", -1)))

    @property
    def _least(self) -> int:
        """The smallest number that is wanted; while there are fewer, the last one decides."""
        return int(self.bounds.get("exactly", self.bounds.get("at least", 0)))

    def at_fault(self) -> tuple[str, ...]:
        """The object that was one too many; of a condition those of which it is true, or not true
        if there are too few.
        """
        if self.tally is None:
            return super().at_fault()
        return self.tally.of(self.number >= self._least)

    def may_still_hold(self, now_us: int) -> bool:
        """True of a number of objects, and of events while there are not too many."""
        return self.tally is not None or self._limit < 0 or self.number <= self._limit

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the number."""
        number = self.number
        tests = {
            "exactly": lambda b: number == b,
            "at least": lambda b: number >= b,
            "at most": lambda b: number <= b,
        }
        ok = all(tests[word](bound) for word, bound in self.bounds.items())
        target = " and ".join(f"{word} {bound}" for word, bound in self.bounds.items())
        target += f" of one object in {self.shown(self.per_us)}" if target and self.per_us else ""
        target = target or (self.over.wanted if self.over is not None else "")
        return self.unopened(target) or Verdict(self.name, ok, str(number), target, (float(number),))


class Order(Expectation):
    """Each of a list of conditions or matters occurs, and none before its predecessor."""

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        self.parts = [parse_matter(entry, names) for entry in spec.order]
        if len(self.parts) < 2:
            raise ValueError("an order has at least two parts")
        self.matter = self.parts[0]
        self.tallies = [Tally(part) if isinstance(part, Condition) else None for part in self.parts]
        self.reset()

    def reset(self) -> None:
        """Forget the first times."""
        super().reset()
        self.first_us: list[int | None] = [None] * len(self.parts)
        self.held_at_open = [False] * len(self.parts)

    @property
    def held_already(self) -> bool:
        """True if every part held when the window opened."""
        return all(self.held_at_open)

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
                    self.first_us[index] = change.at_us
                    self.decide(change)
                    self.held_at_open[index] = tally is not None and not change.at_us

    def may_still_hold(self, now_us: int) -> bool:
        """True while what has come, has come in this order."""
        entry = [at for at in self.first_us if at is not None]
        return entry == sorted(entry) and self.first_us[: len(entry)] == entry

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the order of the first times."""
        times = [at for at in self.first_us if at is not None]
        ok = len(times) == len(self.parts) and times == sorted(times)
        text = ", ".join(self._part_measured(index) for index in range(len(self.parts)))
        entry = takewhile(
            lambda at: at is not None, self.first_us
        )  # in order, so only up to the first missing one
        values = tuple(self.since_us(at) / 1e6 for at in entry if at is not None)
        return Verdict(self.name, ok, text, "in this order", values)

    def _part_measured(self, index: int) -> str:
        at_us = self.first_us[index]
        if at_us is None:
            return "never"
        return held_already_at(at_us) if self.held_at_open[index] else self.shown(self.since_us(at_us))
