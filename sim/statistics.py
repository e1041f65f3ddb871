"""Statistics of samples: quantiles, a mean with its confidence, histograms, a two-sample test.
Pure.

A sample consists of groups, one per run: values of one run (the nodes of one outage) are not
independent of each other, so confidence follows from the differences between runs, not between
values.

Holds: results depend on the values and their groups only; the order of values within a group does
not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, exp, floor, inf, log10, pi, sqrt, tan
from statistics import NormalDist

from sim.dataclass import dataclass

QUANTILES = (0.50, 0.90, 0.99)
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Summary:
    """The statistics of a sample.

    half_width: of the mean's confidence interval, None with less than two runs
    deviation: None with less than two values
    missing: number of times without a value (it never happened); quantiles rank these beyond every
        value
    """

    count: int
    runs: int
    missing: int
    low: float
    quantiles: tuple[tuple[float, float], ...]
    high: float
    mean: float
    half_width: float | None
    deviation: float | None

    def to_json(self) -> dict[str, float | int | list[float] | None]:
        """The summary as JSON values."""
        shown: dict[str, float | int | list[float] | None] = {
            "n": self.count,
            "runs": self.runs,
            "missing": self.missing,
            "min": self.low,
        }
        shown |= {f"p{100 * share:g}": finite(value) for share, value in self.quantiles}
        half = self.half_width
        interval = None if half is None else [self.mean - half, self.mean + half]
        return {**shown, "max": self.high, "mean": self.mean, "mean_ci95": interval, "sd": self.deviation}


def finite(value: float) -> float | None:
    """None for infinity, which JSON lacks: a quantile that falls on a missing value is null."""
    return None if value == inf else value


def number(value: float) -> str:
    """A number for people, to the hundredth."""
    return "never" if value == inf else f"{value:.2f}"


def plain(value: float) -> str:
    """A number for an axis: all its digits, and no more."""
    return f"{value:.12g}"  # of 3 * 0.1, which is a little more than 0.3, as of 30.000001


def summarize(
    groups: Sequence[Sequence[float]], missing: int = 0, shares: Iterable[float] = QUANTILES
) -> Summary | None:
    """The summary of a sample, one group per run; None if it holds no value."""
    values = sorted(value for group in groups for value in group)
    if not values:
        return None
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    deviation = sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
    quantiles = tuple((share, quantile(values, share, missing)) for share in shares)
    runs = sum(bool(group) for group in groups)
    half = half_width(groups)
    return Summary(len(values), runs, missing, values[0], quantiles, values[-1], mean, half, deviation)


def quantile(ordered: Sequence[float], share: float, missing: int = 0) -> float:
    """Nearest rank, of a sorted sample with `missing` values beyond its end: the least value that
    at least that share of the sample does not exceed (numpy's `inverted_cdf`).
    """
    # 0.07 * 100 is a little more than 7
    rank = max(0, ceil(share * (len(ordered) + missing) - 1e-9) - 1)
    return ordered[rank] if rank < len(ordered) else inf


def half_width(groups: Sequence[Sequence[float]], confidence: float = CONFIDENCE) -> float | None:
    """Half of the mean's confidence interval, from the differences between runs (the ratio
    estimator of cluster
    samples: Cochran, Sampling Techniques, 1977, 9A.2); None with less than two runs.
    """
    filled = [group for group in groups if group]
    runs, count = len(filled), sum(map(len, filled))
    if runs < 2:
        return None
    mean = sum(map(sum, filled)) / count
    squares = sum((sum(group) - mean * len(group)) ** 2 for group in filled)
    return student((1 + confidence) / 2, runs - 1) * sqrt(squares * runs / (runs - 1)) / count


def student(share: float, freedom: int) -> float:
    """Quantile of Student's t: exact for one and two degrees of freedom, else Abramowitz and Stegun
    26.7.5 (within 0.2 % of three, 0.03 % of more).
    """
    if freedom == 1:
        return tan(pi * (share - 0.5))
    if freedom == 2:
        return (2 * share - 1) / sqrt(2 * share * (1 - share))
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(freedom) ** (power + 1) for power, term in enumerate(terms))


# --- histograms -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts[i]` values lie from `start + i * width` on, below the next edge."""

    start: float
    width: float
    counts: tuple[int, ...]

    @property
    def end(self) -> float:
        """The upper edge of the last bin."""
        return self.start + self.width * len(self.counts)


def histogram(
    values: Sequence[float],
    bins: int,
    low: float | None = None,
    high: float | None = None,
    whole: bool = False,
) -> Histogram:
    """At most about `bins` bins of a round width (1, 2, 2.5 or 5 of a power of ten) over the values
    or a wider range.

    whole: True if the values, and so the width, are integers, so that each bin covers equally many
    """
    low = min(values) if low is None else low
    high = max(values) if high is None else high
    width = _round_up((high - low) / max(1, bins - 1) or 1.0, whole)
    first, last = _bin(low, width), _bin(high, width)
    counts = [0] * (last - first + 1)
    for value in values:
        counts[min(last, max(first, _bin(value, width))) - first] += 1
    return Histogram(first * width, width, tuple(counts))


def _bin(value: float, width: float) -> int:
    return floor(value / width + 1e-9)  # 0.3 / 0.1 is a little less than 3


def _round_up(width: float, whole: bool = False) -> float:
    width = max(width, 1.0) if whole else width
    power: float = 10.0 ** floor(log10(width))
    steps = (1, 2, 5, 10) if whole and power == 1 else (1, 2, 2.5, 5, 10)
    return next(step * power for step in steps if step * power >= width * (1 - 1e-9))


def ticks(low: float, high: float, about: int = 6, whole: bool = False) -> list[float]:
    """Round values from `low` to `high`; whole: whole numbers only."""
    step = _round_up((high - low) / about, whole) if high > low else 1.0
    return [number * step for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


# --- two samples ----------------------------------------------------------------------------------


def ks_distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Kolmogorov-Smirnov: the largest gap between two empirical distributions."""
    a, b = sorted(one), sorted(other)
    i = j = 0
    largest = 0.0
    while i < len(a) and j < len(b):
        at = min(a[i], b[j])
        while i < len(a) and a[i] <= at:
            i += 1
        while j < len(b) and b[j] <= at:
            j += 1
        largest = max(largest, abs(i / len(a) - j / len(b)))
    return largest


EXACT_MAX = 400_000  # pairs of values, up to which the exact test takes less than half a second


def ks_test(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """The largest gap between two samples, and the probability of one at least so large for one
    distribution.

    The probability is exact for small samples, ties included (of all ways to distribute these
    values over two samples of these sizes, the share with at least this gap; Schroeer and Trenkler
    1995), and asymptotic for more than `EXACT_MAX` pairs.
    """
    if len(one) * len(other) > EXACT_MAX:
        gap = ks_distance(one, other)
        return gap, ks_p_value(gap, len(one), len(other))
    small, large = sorted((one, other), key=len)
    pooled = sorted([(value, 1) for value in small] + [(value, 0) for value in large])
    m, n, before = len(small), len(large), 0
    ends: list[bool] = []  # True after the last of equal values
    widest = 0  # gaps times m n, which are whole
    for drawn, (value, of_small) in enumerate(pooled, 1):
        before += of_small
        ends.append(drawn == m + n or pooled[drawn][0] > value)
        if ends[-1]:
            widest = max(widest, abs(before * n - (drawn - before) * m))
    return widest / (m * n), _parted(m, n, ends, widest)


def _parted(m: int, n: int, ends: Sequence[bool], gap: int) -> float:
    """The share of all ways to distribute m + n values that have a gap (times m n) of at least this
    size.

    ends: True at positions where a gap counts
    """
    if gap == 0:
        return 1.0
    beyond, ways = 0.0, {0: 1.0}  # by how many of the first so many values are of the first sample
    for drawn, ended in enumerate(ends, 1):
        left = m + n - drawn + 1
        following: dict[int, float] = {}
        for before, share in ways.items():
            mine = (m - before) / left
            if mine < 1:
                following[before] = following.get(before, 0.0) + share * (1 - mine)
            if mine > 0:
                following[before + 1] = share * mine
        ways = following
        if ended:
            out = [before for before in ways if abs(before * n - (drawn - before) * m) >= gap]
            beyond += sum(ways.pop(before) for before in out)
    return min(1.0, beyond)


def ks_p_value(gap: float, one: int, other: int) -> float:
    """How likely a gap at least so large is between samples of one distribution (asymptotic,
    Stephens 1970).
    """
    root = sqrt(one * other / (one + other))
    scaled = (root + 0.12 + 0.11 / root) * gap
    if scaled < 0.2:
        return 1.0
    terms = (2.0 * (-1.0) ** (k - 1) * exp(-2 * k * k * scaled * scaled) for k in range(1, 101))
    return min(1.0, max(0.0, sum(terms)))
