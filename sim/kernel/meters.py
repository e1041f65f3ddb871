"""Counters and histograms of a run, for a reader of metrics.

Turns events into numbers by family and labels.

Holds: nothing in a simulation depends on these numbers; while `Kernel.meters` is None nothing is
counted, so that a run without a reader pays one comparison at each place that counts.

Mirrors  nothing upstream; the idea is that of component-base/metrics.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

Labels = tuple[str, ...]


class Histogram:
    """How many values are at most as large as each bound, and their sum.

    counts: values by the first bound that they do not exceed; the last of them exceed all bounds
    """

    __slots__ = ("counts", "total")

    def __init__(self, size: int) -> None:
        self.counts = [0] * (size + 1)
        self.total = 0.0

    def add(self, bounds: tuple[float, ...], value: float, times: int = 1) -> None:
        """Add a value, once or several times."""
        self.counts[bisect_left(bounds, value)] += times
        self.total += value * times

    def plus(self, other: Histogram) -> Histogram:
        """Both together, for the same bounds."""
        found = Histogram(len(self.counts) - 1)
        found.counts = [one + two for one, two in zip(self.counts, other.counts, strict=True)]
        found.total = self.total + other.total
        return found


class Meters:
    """The numbers since the first reader.

    bounds: of the buckets of each family that is a histogram
    summaries: how often each value was sampled
    begun_us: when counting began
    since: begins of what is measured, by a key of its owner
    """

    def __init__(self, bounds: Mapping[str, tuple[float, ...]]) -> None:
        self.bounds = bounds
        self.counters: dict[str, dict[Labels, float]] = {}
        self.histograms: dict[str, dict[Labels, Histogram]] = {}
        self.summaries: dict[str, dict[Labels, dict[float, int]]] = {}
        self.since: dict[Any, int] = {}
        self.begun_us = 0

    def count(self, family: str, labels: Labels, by: float = 1) -> None:
        """Add to a counter."""
        series = self.counters.setdefault(family, {})
        series[labels] = series.get(labels, 0) + by

    def counter(self, family: str, labels: Labels) -> tuple[dict[Labels, float], Labels]:
        """The place of a counter, which begins with 0, for what adds to it often."""
        self.count(family, labels, 0)
        return self.counters[family], labels

    def sample(self, family: str, labels: Labels, value: float) -> None:
        """Add a value to a summary."""
        values = self.summaries.setdefault(family, {}).setdefault(labels, {})
        values[value] = values.get(value, 0) + 1

    def set(self, family: str, labels: Labels, value: float) -> None:
        """Show a value of the present state; of several, the largest."""
        series = self.counters.setdefault(family, {})
        series[labels] = max(series.get(labels, value), value)

    def merge(self, family: str, labels: Labels, measured: Histogram) -> None:
        """Add the values of a histogram."""
        series = self.histograms.setdefault(family, {})
        series[labels] = measured.plus(series[labels]) if labels in series else measured

    def show(self, family: str, labels: Labels) -> Histogram:
        """The series of a histogram, which begins without a value."""
        series = self.histograms.setdefault(family, {})
        found = series.get(labels)
        if found is None:
            found = series[labels] = Histogram(len(self.bounds[family]))
        return found

    def observe(self, family: str, labels: Labels, value: float, times: int = 1) -> None:
        """Add a value to a histogram, once or several times."""
        self.show(family, labels).add(self.bounds[family], value, times)
