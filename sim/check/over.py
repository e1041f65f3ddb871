"""Bounds on a distribution: `over: {p99: [0s, 44.2s], mean: [36s, 39s], seeds: 1000}` judged over
the runs of many seeds.

    min max mean p50 p99.9 ...   of all values measured in all runs: [FROM, TO], or "<= TO", or
                                 ">= FROM"
    share                        of the runs in which the expectation itself holds (0.95 or 95%); a
                                 `when` without `within` holds where the condition occurred
    like                         samples from elsewhere: a two-sample Kolmogorov-Smirnov test must
                                 not distinguish the measured values from them at `level` (1 %)
    seeds                        minimal number of runs; with fewer nothing is judged, and neither
                                 is `like` with too few values for a significant difference

Turns such a mapping into `Bounds`, and values in groups, one for each run, into a judgement.

Holds: a value that never occurred counts as later than all others (a quantile may fall on it; a
mean or maximum is never).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb, inf, isfinite
from typing import Any

from sim.dataclass import dataclass
from sim.patterns import pattern
from sim.statistics import finite, ks_test, quantile
from sim.units import SECOND, parse_duration_us
from sim.verdict import Unit, shown_us, unit_of

_QUANTILE = pattern(r"^p(\d{1,2}(?:\.\d+)?)$")
_ONE_SIDED = pattern(r"^(<=|>=)\s*(.+)$")
_EPSILON = 1e-9
LEVEL = 0.01  # default level of significance of the test


@dataclass(frozen=True, slots=True)
class Bound:
    """One number of a distribution and its bounds.

    timed: True if it is a time in seconds; it is shown in `unit`
    """

    what: str
    low: float
    high: float
    timed: bool
    unit: Unit = "s"

    @property
    def wanted(self) -> str:
        """The bounds in words."""
        if self.low == -inf:
            return f"{self.what} <= {self._shown(self.high)}"
        low = self._shown(self.low)
        return (
            f"{self.what} >= {low}" if self.high == inf else f"{self.what} {low} to {self._shown(self.high)}"
        )

    def measured(self, value: float) -> str:
        """A measured value in words."""
        return f"{self.what} {'never' if finite(value) is None else self._shown(value)}"

    def holds(self, value: float) -> bool:
        """True if a value is within the bounds."""
        return self.low - _EPSILON <= value <= self.high + _EPSILON and value != inf

    def _shown(self, value: float) -> str:
        if self.what == "share":
            return f"{100 * value:.4g}%"
        return shown_us(round(value * SECOND), self.unit) if self.timed else f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class Like:
    """Samples that were measured elsewhere.  level: significance, the probability that the test
    distinguishes samples of one distribution.
    """

    name: str
    values: tuple[float, ...]
    level: float

    @property
    def wanted(self) -> str:
        """The test in words."""
        return f"as {self.name} (p >= {self.level:g})"

    def judge(self, ordered: Sequence[float], missing: int) -> tuple[bool | None, str]:
        """Whether the values may have the same distribution (None if there are too few values for
        any difference to be significant), and the test in words.
        """
        here = [*ordered, *[inf] * missing]
        # The least likely case: all values of one sample below all of the other, in two orders.
        if here and 2 / comb(len(here) + len(self.values), len(here)) >= self.level:
            return None, f"{len(here)} values beside {len(self.values)} are too few"
        gap, p = ks_test(here, self.values) if here else (1.0, 0.0)
        return p >= self.level, f"D {gap:.3f}, p {p:.3f}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """All bounds of one expectation.  `seeds`: minimal number of runs."""

    bounds: tuple[Bound, ...]
    seeds: int
    like: Like | None = None

    @property
    def wanted(self) -> str:
        """The bounds in words."""
        bounds: tuple[Bound | Like, ...] = self.bounds if self.like is None else (*self.bounds, self.like)
        text = ", ".join(bound.wanted for bound in bounds)
        return f"{text} over {self.seeds} seeds" if self.seeds > 1 else f"{text} over seeds"

    @property
    def shares(self) -> bool:
        """True if single runs may fail, because a share of the runs is judged."""
        return any(bound.what == "share" for bound in self.bounds)


@dataclass(frozen=True, slots=True)
class Judgement:
    """ok: None if there were too few runs or values."""

    ok: bool | None
    measured: str
    wanted: str


def parse_over(given: Mapping[str, Any], timed: bool, measures: bool = True) -> Bounds:
    """Parse the mapping; raises ValueError with the error.

    measures: True if the expectation measures more than whether it holds
    """
    seeds = given.get("seeds", 1)
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise ValueError(f"'over: seeds' is a whole number from 1, not {seeds!r}")
    like = _like(given["like"]) if "like" in given and measures else None
    others = ("seeds",) if like is None else ("seeds", "like")
    bounds = tuple(
        _bound(what, value, timed, measures) for what, value in given.items() if what not in others
    )
    if not bounds and like is None:
        raise ValueError("'over' wants at least one of min, max, mean, share, like and quantiles like p99")
    return Bounds(bounds, seeds, like)


def _like(given: Mapping[str, Any]) -> Like:
    """The samples that `sim.scenario.read.samples` has read."""
    name = " ".join(str(given[key]) for key in ("file", "column") if key in given)
    level = _number("level", given.get("level", LEVEL), timed=False)
    if not 0 < level < 1:
        raise ValueError(f"'over: like: level' is a share between 0 and 1, not {given['level']!r}")
    return Like(name, tuple(given["values"]), level)


def _bound(what: str, value: Any, timed: bool, measures: bool) -> Bound:
    entry = ("min", "max", "mean", "share", "like") if measures else ("share",)
    if what not in entry and not (measures and _QUANTILE.match(what)):
        extra = ", and quantiles like p99" if measures else "; this expectation measures nothing else"
        raise ValueError(f"'over' does not know {what!r}; known are seeds, {', '.join(entry)}{extra}")

    def number(text: Any) -> float:
        return _number(what, text, timed and what != "share")

    one_sided = _ONE_SIDED.match(value) if isinstance(value, str) else None
    texts: tuple[str, ...]
    if one_sided:
        limit = number(one_sided[2])
        low, high = (-inf, limit) if one_sided[1] == "<=" else (limit, inf)
        texts = (one_sided[2],)
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        low, high = number(value[0]), number(value[1])
        texts = (str(value[0]), str(value[1]))
    else:
        raise ValueError(f'\'over: {what}\' is [FROM, TO], "<= TO" or ">= FROM", not {value!r}')
    if what == "share" and (low > 1 or high < 0):
        raise ValueError(f"'over: share' lies between 0 and 100%, never at {value!r}")
    if high < low:
        raise ValueError(f"'over: {what}': the interval ends before it begins")
    if high < 0:
        raise ValueError(f"'over: {what}' is never below 0, as {value!r} wants it")
    timed = timed and what != "share"
    return Bound(what, low, high, timed, unit_of(*texts) if timed else "s")


def _number(what: str, text: Any, timed: bool) -> float:
    if timed and isinstance(text, str):
        try:
            return parse_duration_us(text) / 1e6
        except ValueError:
            raise ValueError(f"'over: {what}': {text!r} is not a duration, write it as 44.2s") from None
    percent = isinstance(text, str) and what in ("share", "level") and text.endswith("%")
    try:
        value = float(text[:-1]) / 100 if percent else float(text)
    except (TypeError, ValueError):
        value = inf
    if isinstance(text, bool) or not isfinite(value):
        raise ValueError(f"'over: {what}': {text!r} is not a number")
    if timed:
        raise ValueError(f"'over: {what}': {text!r} is not a duration, write it as 44.2s")
    return value


def judge(bounds: Bounds, groups: Sequence[Sequence[float]], missing: int, held: int) -> Judgement:
    """Judge values in groups, one for each run.  held: number of runs in which the expectation held"""
    runs = len(groups)
    if runs < bounds.seeds:
        return Judgement(None, f"{runs} seed{'s are' if runs > 1 else ' is'} too few", bounds.wanted)
    ordered = sorted(value for group in groups for value in group)
    result = [(bound, _measure(bound.what, ordered, missing, held / runs)) for bound in bounds.bounds]
    judged: list[tuple[bool | None, str]] = [
        (bound.holds(value), bound.measured(value)) for bound, value in result
    ]
    if bounds.like is not None:
        judged.append(bounds.like.judge(ordered, missing))
    oks, measured = [ok for ok, _ in judged], ", ".join(text for _, text in judged)
    return Judgement(False if False in oks else None if None in oks else True, measured, bounds.wanted)


def _measure(what: str, ordered: Sequence[float], missing: int, share: float) -> float:
    if what == "share":
        return share
    if not ordered:
        return inf
    if what == "min":
        return ordered[0]
    if what == "max":
        return inf if missing else ordered[-1]
    if what == "mean":
        return inf if missing else sum(ordered) / len(ordered)
    return quantile(ordered, float(what[1:]) / 100, missing)
