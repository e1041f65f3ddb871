"""Summary of a study: how often each expectation holds, and the distribution of each quantity.

Holds: a study is a function of its plan and its outcomes in any order; an expectation holds if it
holds under every seed and its bounds over the distribution hold or, if a share of the seeds is
judged, if its bounds hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sim.app.possible import expectations_of
from sim.app.study.outcome import Job, Measured, Outcome, key_of, packed
from sim.check import Judgement, judge
from sim.check.build import MEASURED
from sim.check.expect import Expectation, Within
from sim.check.over import Like
from sim.dataclass import dataclass
from sim.scenario.plan.plan import Plan
from sim.statistics import Summary, summarize

FAILURES_SHOWN = 10
TIMED = ("when", "eventually", "order", "unavailability")


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something measured in every run.

    groups: its values, one group for each run, in the order of the seeds
    like: samples from elsewhere for comparison
    """

    name: str
    unit: str
    groups: tuple[tuple[float, ...], ...]
    missing: int
    wanted: tuple[float, float] | None
    like: Like | None = None

    @property
    def values(self) -> list[float]:
        """All values."""
        return [value for group in self.groups for value in group]

    @property
    def sought(self) -> int:
        """How many values were expected: those measured, and those of events that never occurred."""
        return sum(map(len, self.groups)) + self.missing

    @property
    def summary(self) -> Summary | None:
        """The statistics of the values; None if there are none."""
        return summarize(self.groups, self.missing)


@dataclass(frozen=True, slots=True)
class Finding:
    """An expectation under many seeds.

    held: number of `runs` in which it holds
    strict: True if it has to hold in all of them
    judged: the judgement of its bounds over the distribution
    """

    name: str
    ok: bool
    held: int
    runs: int
    strict: bool
    wanted: str
    judged: Judgement | None
    quantities: tuple[Quantity, ...]

    def to_json(self) -> dict[str, Any]:
        """The finding for JSON output."""
        found: dict[str, Any] = {
            "name": self.name,
            "ok": self.ok,
            "held": self.held,
            "runs": self.runs,
            "wanted": self.wanted,
        }
        if self.judged is not None:
            found["over"] = {
                "ok": self.judged.ok,
                "measured": self.judged.measured,
                "wanted": self.judged.wanted,
            }
        found["quantities"] = [
            {
                "name": one.name,
                "unit": one.unit,
                "missing": one.missing,
                "summary": None if one.summary is None else one.summary.to_json(),
                "values": one.values,
            }
            for one in self.quantities
        ]
        return found


@dataclass(frozen=True, slots=True)
class Study:
    """The results of the outcomes so far."""

    name: str
    wanted_seeds: int
    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> list[Outcome]:
        """The runs that ended with an exception."""
        return [one for one in self.outcomes if one.error]

    @property
    def complete(self) -> bool:
        """True if all seeds have an outcome."""
        return len(self.outcomes) == self.wanted_seeds

    @property
    def ok(self) -> bool:
        """True if all runs ended and all findings hold."""
        return not self.errors and all(one.ok for one in self.findings)

    @property
    def held(self) -> int:
        """The number of seeds under which everything holds."""
        return sum(one.ok for one in self.outcomes)

    @property
    def refused(self) -> str:
        """The number of seeds with rejected commands of the scenario, and the first of the
        commands; "" if there are none.
        """
        found = [one for one in self.outcomes if one.refused]
        if not found:
            return ""
        first = found[0]
        return f"in {len(found)} of {len(self.outcomes)} seeds; seed {first.seed}: {first.refused[0]}"

    def to_json(self) -> dict[str, Any]:
        """The study for JSON output."""
        return {
            "ok": self.ok,
            "complete": self.complete,
            "scenario": self.name,
            "seeds": len(self.outcomes),
            "held": self.held,
            "expectations": [one.to_json() for one in self.findings],
            "runs": [
                {
                    "seed": one.seed,
                    "ok": one.ok,
                    "trace_sha256": one.sha256,
                    "wall_s": one.wall_s,
                    "events": one.events,
                    "failed": [each.name for each in one.expectations if not each.ok],
                    **({"error": one.error} if one.error else {}),
                    **({"refused": list(one.refused)} if one.refused else {}),
                }
                for one in self.outcomes
            ],
        }


def jobs_of(plan: Plan, first: int, count: int) -> Iterator[Job]:
    """One job for each seed, from `first` on."""
    key, blob = key_of(plan), packed(plan)
    programs = tuple(reference for _, reference in plan.own_programs)
    return (Job(key, seed, blob, programs) for seed in range(first, first + count))


def study_of(plan: Plan, outcomes: Iterable[Outcome], wanted_seeds: int) -> Study:
    """Summarize outcomes."""
    ordered = tuple(sorted(outcomes, key=lambda one: one.seed))
    ended = [one for one in ordered if not one.error]
    findings = tuple(
        _finding(expectation, [one.expectations[index] for one in ended], len(ordered))
        for index, expectation in enumerate(expectations_of(plan))
    )
    return Study(plan.name, wanted_seeds, ordered, findings)


def _finding(expectation: Expectation, runs: Sequence[Measured], count: int) -> Finding:
    held = sum(one.ok for one in runs)
    quantities = tuple(_quantities(expectation, runs))
    judged, bounds = None, expectation.over
    if bounds is not None and count:
        groups = [one.values for one in runs] + [()] * (count - len(runs))
        judged = judge(bounds, groups, sum(one.missing for one in runs), held)
    strict = bounds is None or not bounds.shares
    ok = (held == count or not strict) and (judged is None or judged.ok is not False)
    wanted = runs[0].wanted if runs else ""
    return Finding(expectation.name, ok, held, count, strict, wanted, judged, quantities)


def _quantities(expectation: Expectation, runs: Sequence[Measured]) -> Iterator[Quantity]:
    """What an expectation measures: times or counts; for an order, the time of each part."""
    kind, name = expectation.kind, expectation.name
    unit = "s" if kind in TIMED else ""
    if kind == "order":
        for part in range(max((len(one.values) for one in runs), default=0)):
            groups = tuple(one.values[part : part + 1] for one in runs)
            yield Quantity(f"{name}: part {part + 1}", unit, groups, groups.count(()), None)
    elif kind in MEASURED:
        wanted = None
        if isinstance(expectation, Within) and expectation.within_us is not None:
            wanted = expectation.within_us[0] / 1e6, expectation.within_us[1] / 1e6
        groups, missing = tuple(one.values for one in runs), sum(one.missing for one in runs)
        like = None if expectation.over is None else expectation.over.like
        yield Quantity(name, unit, groups, missing, wanted, like)


def failures(study: Study) -> list[tuple[Outcome, str]]:
    """Each seed under which an expectation failed that must hold in all runs, with what failed."""
    strict = {one.name for one in study.findings if one.strict}
    found = []
    for one in study.outcomes:
        texts = [one.error] if one.error else []
        texts += [
            f"{each.name}: measured {each.measured}, wanted {each.wanted}"
            for each in one.expectations
            if not each.ok and each.name in strict
        ]
        if texts:
            found.append((one, "; ".join(texts)))
    return found
