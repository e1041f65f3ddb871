"""Metrics of the requests that came from outside, for Prometheus.

Turns answered requests into the metric families `apiserver_request_total` and
`apiserver_requested_deprecated_apis`, and metric families into Prometheus' text format.

Holds: the series of a family are sorted by their labels; a series exists only for a request that
was served, so that requests for unknown resources add none.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/metrics/metrics.go (MonitorRequest,
         RecordDeprecatedRequest, CleanScope).
Differs  requests of the cluster's own components, which come over no socket, are not counted;
         values are written as floating point numbers (`3.0`), as the Python client of Prometheus
         does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from sim.api.auth.attributes import AccessAttributes
from sim.api.kinds.kind import Lifecycle

COMPONENT = "apiserver"
REQUEST_LABELS = (
    "code",
    "component",
    "dry_run",
    "group",
    "resource",
    "scope",
    "subresource",
    "verb",
    "version",
)
DEPRECATED_LABELS = ("group", "removed_release", "resource", "subresource", "version")
METHODS = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
}
Values = tuple[str, ...]


def scope(request: AccessAttributes) -> str:
    """The value of the label `scope`: what a request addresses."""
    if request.name or request.verb == "create":
        return "resource"
    return "namespace" if request.namespace else "cluster" if request.is_resource else ""


def verb(request: AccessAttributes, content_type: str) -> str:
    """The value of the label `verb`: APPLY for a server-side apply, otherwise the HTTP method."""
    if request.verb == "patch" and "apply-patch" in content_type:
        return "APPLY"
    return METHODS.get(request.verb, request.verb.upper())


class Counts:
    """Counters of the requests since the start of the server."""

    def __init__(self) -> None:
        self._requests: dict[Values, int] = {}
        self._deprecated: dict[Values, None] = {}

    def answered(
        self, request: AccessAttributes, code: int, content_type: str, options: Mapping[str, str]
    ) -> None:
        """Count one answered request for a path or resource that exists."""
        values = (
            str(code),
            COMPONENT,
            options.get("dryRun", ""),
            request.group,
            request.resource,
            scope(request),
            request.subresource if request.is_resource else request.path,
            verb(request, content_type),
            request.version,
        )
        self._requests[values] = self._requests.get(values, 0) + 1

    def deprecated(self, request: AccessAttributes, lifecycle: Lifecycle) -> None:
        """Record a request for a version that a later release removes."""
        values = (
            request.group,
            f"1.{lifecycle.removed}" if lifecycle.removed else "",
            request.resource,
            request.subresource,
            request.version,
        )
        self._deprecated[values] = None

    def families(self) -> Iterator[Metric]:
        """The two families, each with its series sorted by labels."""
        requests = CounterMetricFamily(
            "apiserver_request",
            "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, "
            "resource, scope, component, and HTTP response code.",
            labels=REQUEST_LABELS,
        )
        for values, count in sorted(self._requests.items()):
            requests.add_metric(values, count)
        yield requests
        deprecated = GaugeMetricFamily(
            "apiserver_requested_deprecated_apis",
            "[STABLE] Gauge of deprecated APIs that have been requested, broken out by API group, version, "
            "resource, subresource, and removed_release.",
            labels=DEPRECATED_LABELS,
        )
        for values in sorted(self._deprecated):
            deprecated.add_metric(values, 1)
        yield deprecated


def text_format(families: Iterable[Metric]) -> str:
    """Metric families in Prometheus' text format, in the order given."""
    registry = CollectorRegistry()
    registry.register(_Families(families))
    return generate_latest(registry).decode()


class _Families(Collector):
    """The collector for the registry of the library."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        return self._families
