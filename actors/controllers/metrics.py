"""Where autoscaling learns what pods use, and whatever else is measured.

Holds: a source is asked and answers at once, by values or by the words of its failure; it draws nothing.

Mirrors  kubernetes v1.25 pkg/controller/podautoscaler/metrics/{interfaces.go,client.go}.
Differs  the APIs of metrics (metrics, custom.metrics and external.metrics) are none of their own here: a source is
         handed to the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sim.ident import Names
from sim.machinery.api import Obj
from sim.machinery.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class Sample:
    """What a pod used of one resource, in milli units: the mean over `window_us` up to `at_us` of Unix time.

    cause: the trace record by which it is so much (0: it always was)
    """

    milli: int
    at_us: int
    window_us: int
    cause: int = 0


@dataclass(frozen=True, slots=True)
class Value:
    """What is measured of one thing, in milli units; cause as that of a sample."""

    milli: int
    cause: int = 0


@dataclass(frozen=True, slots=True)
class Metric:
    """Which metric: its name, and which of its series count."""

    namespace: str
    name: str
    series: LabelSelector


class Metrics(Protocol):
    """What is measured; in place of values the words by which a client of that API tells why it has none."""

    def resource(
        self, pods: Sequence[Obj], name: str, container: str, wall_us: int
    ) -> Mapping[str, Sample] | str:
        """What pods use of a resource, those of which it is known; container: of that one alone ("": of all)."""
        ...

    def of_pods(self, pods: Sequence[Obj], metric: Metric, wall_us: int) -> Mapping[str, Sample] | str:
        """What is measured of pods, those of which it is known."""
        ...

    def of_object(self, about: Obj, metric: Metric) -> Value | str:
        """about: {apiVersion, kind, name}"""
        ...

    def external(self, metric: Metric) -> Value | str:
        """The sum of all series that count."""
        ...


def not_fetched(api: str, problem: str) -> str:
    return f"unable to fetch metrics from {api} metrics API: {problem}"


def none_returned(api: str) -> str:
    return f"no metrics returned from {api} metrics API"


class NoMetrics:
    """A cluster without any of the APIs of metrics, as a new one is."""

    def __init__(self, names: Names) -> None:
        self._domain = names.group_domain

    def resource(
        self, pods: Sequence[Obj], name: str, container: str, wall_us: int
    ) -> Mapping[str, Sample] | str:
        return not_fetched("resource", self._unknown("pods.metrics"))

    def of_pods(self, pods: Sequence[Obj], metric: Metric, wall_us: int) -> Mapping[str, Sample] | str:
        return self._no_custom()

    def of_object(self, about: Obj, metric: Metric) -> Value | str:
        return self._no_custom()

    def external(self, metric: Metric) -> Value | str:
        return not_fetched("external", self._unknown(f"{metric.name}.external.metrics"))

    def _unknown(self, what: str) -> str:
        return f"the server could not find the requested resource (get {what}.{self._domain})"

    def _no_custom(self) -> str:
        return not_fetched("custom", f"no custom metrics API (custom.metrics.{self._domain}) registered")
