"""A parameter study: every combination of varied settings under many seeds.

Turns `key=v1,v2,...` texts into points, each with the settings of one study, and their studies into
rows, one for each point and quantity.

Holds: the points are in the order of the values as given, and the last key varies fastest; every
point is planned and checked before any is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from sim.app.audit.outputs import refuse_many
from sim.app.options import check_options
from sim.app.process.own_programs import bound
from sim.app.study.outcome import Job, Outcome
from sim.app.study.summary import Quantity, Study, jobs_of, study_of
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.scenario.compile import compile_plan, load
from sim.scenario.plan.plan import Plan
from sim.scenario.read.settings import override
from sim.scenario.read.source import Document
from sim.units import parse_duration_us

POINTS_MAX = 10_000
_OPEN, _CLOSE, _QUOTES = "[{(", "]})", "'\""


@dataclass(frozen=True, slots=True)
class Axis:
    """A key of `--set` and its values."""

    key: str
    values: tuple[str, ...]

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The values as numbers (durations in seconds); None if one of them is neither."""
        found = [_number(value) for value in self.values]
        return tuple(one for one in found if one is not None) if None not in found else None

    @property
    def label(self) -> str:
        """The last part of the key."""
        return self.key.rpartition(".")[2]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return parse_duration_us(text) / 1e6
    except ValueError:
        return None


def parse_axis(text: str) -> Axis:
    """Parse `key=v1,v2,...`; commas within brackets and quotes belong to a value.  Raises
    InputError.
    """
    key, equals, values = text.partition("=")
    found = tuple(_split(values))
    if not equals or not key or not all(found):
        raise InputError("wants key=value,value,...", f"--vary {text}")
    if len(set(found)) < len(found):
        raise InputError("has a value twice", f"--vary {text}")
    return Axis(key, found)


def _split(text: str) -> Iterator[str]:
    depth, quote, start = 0, "", 0
    for index, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in _QUOTES:
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        elif letter == "," and not depth:
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()


@dataclass(frozen=True, slots=True)
class Point:
    """One combination: a value for each axis, the resulting settings, and their plan."""

    values: tuple[str, ...]
    settings: tuple[str, ...]
    plan: Plan


def points_of(
    scenario: Path | Mapping[str, Any],
    settings: Sequence[str],
    axes: Sequence[Axis],
    programs: Mapping[str, str] | None = None,
) -> list[Point]:
    """All combinations, planned and checked.  Raises InputError.

    scenario: its file, or the document itself
    programs: "module:function" of programs of a user, by name
    """
    count = 1
    for axis in axes:
        count *= len(axis.values)
    if count > POINTS_MAX:
        raise InputError(f"{count} combinations; at most {POINTS_MAX} are run", "--vary")
    keys = {axis.key for axis in axes}
    if len(keys) < len(axes):
        raise InputError("a key is varied twice", "--vary")
    for setting in settings:
        if setting.partition("=")[0] in keys:
            raise InputError("has no effect, for the key is varied", f"--set {setting}", "take it away")
    points = []
    for values in product(*(axis.values for axis in axes)):
        varied = [f"{axis.key}={value}" for axis, value in zip(axes, values, strict=True)]
        all_settings = (*settings, *varied)
        try:
            plan = bound(_planned(scenario, all_settings), programs or {})
            refuse_many(check_options(plan.cluster).api_server.audit)
            study_of(plan, [], 0)
        except InputError as error:
            if error.place.removeprefix("--set ") in varied:
                error.place = error.place.replace("--set", "--vary", 1)
            elif varied:
                error.remedy = "; ".join(filter(None, (error.remedy, f"with {' '.join(varied)}")))
            raise
        points.append(Point(values, all_settings, plan))
    return points


def _planned(scenario: Path | Mapping[str, Any], settings: Sequence[str]) -> Plan:
    """The plan of a scenario under settings."""
    if isinstance(scenario, Path):
        return load(scenario, settings)
    document = Document("", deepcopy(dict(scenario)))
    for setting in settings:
        override(document, setting)
    try:
        return replace(compile_plan(document, Path()), settings=tuple(settings))
    except InputError as error:
        if error.place.startswith(":"):  # the place in a file that there is not
            error.place = ""
        raise


def jobs_of_points(points: Sequence[Point], first: int | None, seeds: int) -> Iterator[Job]:
    """The jobs of all points, in order."""
    for point in points:
        yield from jobs_of(point.plan, point.plan.seed if first is None else first, seeds)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The studies of all points."""

    axes: tuple[Axis, ...]
    points: tuple[Point, ...]
    studies: tuple[Study, ...]

    @property
    def quantities(self) -> dict[str, list[Quantity | None]]:
        """By name, each quantity that was measured at any point: its value at every point, None
        where no run has ended.
        """
        found: dict[str, list[Quantity | None]] = {}
        for index, study in enumerate(self.studies):
            for finding in study.findings:
                for one in finding.quantities:
                    at = found.setdefault(one.name, [None] * len(self.points))
                    at[index] = one if one.sought else None
        return {name: at for name, at in found.items() if any(one is not None and one.values for one in at)}

    @property
    def refused(self) -> list[str]:
        """For each point with rejected commands: the point and the commands."""
        return [
            f"at {', '.join(point.values)} {study.refused}"
            for point, study in zip(self.points, self.studies, strict=True)
            if study.refused
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Flat rows, one for each point and quantity, and one for each point and expectation
        without quantities.
        """
        rows = []
        for name, at in self.quantities.items():
            for index, one in enumerate(at):
                point, study = self.points[index], self.studies[index]
                row: dict[str, Any] = {
                    axis.key: value for axis, value in zip(self.axes, point.values, strict=True)
                }
                row |= {"quantity": name, "seeds": len(study.outcomes), "held": _held(study, name)}
                summary = one.summary if one is not None else None
                if summary is not None:
                    numbers = summary.to_json()
                    interval = numbers.pop("mean_ci95")
                    low, high = interval if isinstance(interval, list) else (None, None)
                    row |= {**numbers, "mean_low": low, "mean_high": high}
                elif one is not None:
                    row |= {"n": 0, "missing": one.missing}
                rows.append(row)
        return rows + self._unmeasured_rows()

    def _unmeasured_rows(self) -> list[dict[str, Any]]:
        """Rows of expectations without any measured quantity: the number of seeds under which they
        hold.
        """
        shown = {
            finding.name
            for study in self.studies
            for finding in study.findings
            if any(one.name in self.quantities for one in finding.quantities)
        }
        names = [finding.name for finding in self.studies[0].findings if finding.name not in shown]
        return [
            {
                **{axis.key: value for axis, value in zip(self.axes, point.values, strict=True)},
                "quantity": name,
                "seeds": len(study.outcomes),
                "held": next(one.held for one in study.findings if one.name == name),
            }
            for name in names
            for point, study in zip(self.points, self.studies, strict=True)
        ]

    @property
    def done(self) -> tuple[int, int]:
        """The number of finished runs, and the number of wanted ones."""
        return sum(len(one.outcomes) for one in self.studies), sum(one.wanted_seeds for one in self.studies)


def _held(study: Study, quantity: str) -> int:
    """The number of seeds under which the expectation of a quantity held."""
    names = {one.name: finding.held for finding in study.findings for one in finding.quantities}
    return names.get(quantity, 0)


def sweep_of(
    axes: Sequence[Axis],
    points: Sequence[Point],
    outcomes: Sequence[Outcome],
    jobs: Sequence[Job],
    seeds: int,
) -> Sweep:
    """Assign outcomes to the points of their jobs: an equal number of jobs for each, in order."""
    done = {(one.key, one.seed): one for one in outcomes}
    studies = []
    for index, point in enumerate(points):
        mine = jobs[index * seeds : (index + 1) * seeds]
        found = [done[job.key, job.seed] for job in mine if (job.key, job.seed) in done]
        studies.append(study_of(point.plan, found, seeds))
    return Sweep(tuple(axes), tuple(points), tuple(studies))
