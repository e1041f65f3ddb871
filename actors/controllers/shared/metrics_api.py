"""Source of the measurements that autoscaling uses.

Holds: a source answers at once, with values or with the text of an error; it draws no random
numbers.

Mirrors  kubernetes v1.25 pkg/controller/podautoscaler/metrics/{interfaces.go,client.go}.
Differs  the process gets the simulated metrics server as an argument; the API server is asked
         (`horizontalpodautoscaler.metrics_apis`) for APIs that another server answers. Which server
         answers an API follows from the stored APIServices, not from a discovery cache of 30 s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sim.api.selectors import LabelSelector
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names

RESOURCE, CUSTOM, EXTERNAL = "metrics", "custom.metrics", "external.metrics"
# The versions that upstream's clients know, the preferred one first.
VERSIONS: Mapping[str, tuple[str, ...]] = {
    RESOURCE: ("v1beta1",),
    CUSTOM: ("v1beta2", "v1beta1"),
    EXTERNAL: ("v1beta1",),
}
# Returns the APIService of a name.
FindService = Callable[[str], Obj | None]


@dataclass(frozen=True, slots=True)
class Sample:
    """Usage of one resource by a pod, in milli units, averaged over a window.

    at_us: end of the window, Unix time
    cause: id of the trace record that led to this value, 0 if there is none
    """

    milli: int
    at_us: int
    window_us: int
    cause: int = 0


@dataclass(frozen=True, slots=True)
class Value:
    """A measured value in milli units.

    cause: id of the trace record that led to this value, 0 if there is none
    """

    milli: int
    cause: int = 0


@dataclass(frozen=True, slots=True)
class Metric:
    """Identifies a metric: namespace, name, and the selector of the series that count."""

    namespace: str
    name: str
    series: LabelSelector


class Metrics(Protocol):
    """A source of metrics.

    Each method but `elsewhere` returns values, or the error text that upstream's client gives.
    """

    def elsewhere(self, group: str) -> str:
        """The version in which another server answers a metrics API; "" if there is none, so that
        this source answers.

        group: RESOURCE, CUSTOM or EXTERNAL
        """
        ...

    def resource(
        self, pods: Sequence[Obj], name: str, container: str, wall_us: int
    ) -> Mapping[str, Sample] | str:
        """Usage of a resource by pod name; pods without data are left out.

        container: the one container to measure; "" for the whole pod
        wall_us: the present Unix time
        """
        ...

    def of_pods(self, pods: Sequence[Obj], metric: Metric, wall_us: int) -> Mapping[str, Sample] | str:
        """Values of a custom metric by pod name; pods without data are left out."""
        ...

    def of_object(self, about: Obj, metric: Metric) -> Value | str:
        """The value of a metric of one object.

        about: the object as {apiVersion, kind, name}
        """
        ...

    def external(self, metric: Metric) -> Value | str:
        """The sum of the series of an external metric."""
        ...


def not_fetched(api: str, problem: str) -> str:
    """Error text of a failed request to one of the metrics APIs."""
    return f"unable to fetch metrics from {api} metrics API: {problem}"


def none_returned(api: str) -> str:
    """Error text of an empty answer of one of the metrics APIs."""
    return f"no metrics returned from {api} metrics API"


class NoMetrics:
    """The metrics source of a cluster without a metrics server, which is the default."""

    def __init__(self, names: Names, find: FindService = lambda name: None) -> None:
        self._names, self._domain, self._find = names, names.group_domain, find

    def elsewhere(self, group: str) -> str:
        """The version of the API, if there is an APIService for it."""
        names = ((version, f"{version}.{self._names.group(group)}") for version in VERSIONS[group])
        return next((version for version, name in names if self._find(name) is not None), "")

    def resource(
        self, pods: Sequence[Obj], name: str, container: str, wall_us: int
    ) -> Mapping[str, Sample] | str:
        """Always the error that the resource metrics API is not found."""
        return not_fetched("resource", self._unknown("pods.metrics"))

    def of_pods(self, pods: Sequence[Obj], metric: Metric, wall_us: int) -> Mapping[str, Sample] | str:
        """Always the error that no custom metrics API is registered."""
        return self._no_custom()

    def of_object(self, about: Obj, metric: Metric) -> Value | str:
        """Always the error that no custom metrics API is registered."""
        return self._no_custom()

    def external(self, metric: Metric) -> Value | str:
        """Always the error that the external metric is not found."""
        return not_fetched("external", self._unknown(f"{metric.name}.external.metrics"))

    def _unknown(self, what: str) -> str:
        return f"the server could not find the requested resource (get {what}.{self._domain})"

    def _no_custom(self) -> str:
        return not_fetched("custom", f"no custom metrics API (custom.metrics.{self._domain}) registered")
