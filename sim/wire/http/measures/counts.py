"""Metrics of the requests that came from outside, for Prometheus.

Turns requests, watches and authentications into numbers.

Holds: a series exists only for a request that was served, so that requests for unknown resources
add none.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/metrics/metrics.go (MonitorRequest,
         RecordDeprecatedRequest, CleanScope).
Differs  durations are virtual; the sizes of answers are those before compression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sim.api import request_labels
from sim.api.auth.attributes import AccessAttributes
from sim.api.request_labels import COMPONENT, FILTER, FILTERS, METHODS
from sim.api.schema.kind import Lifecycle
from sim.api.schema.resource import Resource
from sim.kernel.meters import Histogram, Meters
from sim.wire.http.measures.families import BOUNDS

Values = tuple[str, ...]
FIELD_VALIDATIONS = ("", "Ignore", "Warn", "Strict")
# The paths that are no resources and count as requests (healthz.go: InstallPathHandler).
HEALTH = ("/healthz", "/livez", "/readyz")
SIZES = "apiserver_response_sizes"
SERIES_MAX = 4096
# What an answered request counts in: counters with labels, histograms of durations and of sizes.
_Series = tuple[
    Sequence[tuple[dict[Values, float], Values]],
    Sequence[tuple[Histogram, tuple[float, ...]]],
    Histogram | None,
]
_TERMINATIONS = (429, 504)  # metrics.go: RecordRequestTermination
# Upstream's list, without the default service account of the system namespace.
_SHOWN_USERS = ("admin", "client", "kube_proxy", "kubelet")


def scope(request: AccessAttributes) -> str:
    """The value of the label `scope`: what a request addresses."""
    found = request_labels.scope(request.verb, request.name, request.namespace)
    return found if request.is_resource or found != "cluster" else ""


class Counts:
    """What the front counts.

    meters: the numbers, which the cluster's components share once there is a reader
    streams: watches that are open now, by their labels
    """

    def __init__(self) -> None:
        self.meters = Meters(BOUNDS)
        self.streams: dict[Values, int] = {}
        self._deprecated: dict[Values, None] = {}
        self._series: dict[tuple[object, ...], _Series] = {}  # by what decides the labels
        self._attempts: dict[tuple[str, str], _Series] = {}  # to authenticate

    def answered(
        self,
        request: AccessAttributes,
        code: int,
        content_type: str,
        options: Mapping[str, str],
        took_s: float = 0.0,
        size: int = 0,
    ) -> None:
        """Count one answered request for a path or resource that exists.

        took_s: virtual seconds; size: bytes of its body
        """
        if not request.is_resource:
            for name in FILTERS:
                self.meters.observe(FILTER, (name,), 0.0)
            if request.path not in HEALTH:
                return
        dry_run, checked = options.get("dryRun", ""), options.get("fieldValidation", "")
        key = (
            code,
            request.verb,
            request.path,
            request.group,
            request.version,
            request.resource,
            request.subresource,
            not request.namespace,
            not request.name,
            request.verb == "patch" and "apply-patch" in content_type,
            dry_run,
            checked,
        )
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= SERIES_MAX:
                self._series.clear()
            place = _place(request, request_labels.method(request.verb, content_type))
            series = self._series[key] = self._series_of(request, code, dry_run, checked, place)
        _count(series, took_s, size)

    def _series_of(
        self, request: AccessAttributes, code: int, dry_run: str, checked: str, place: Values
    ) -> _Series:
        """Make the series of requests with these labels."""
        meters, component = self.meters, COMPONENT if request.is_resource else ""
        counted = [("apiserver_request_total", (str(code), component, dry_run, *place))]
        if code in _TERMINATIONS:
            counted.append(("apiserver_request_terminations_total", (str(code), component, *place)))
        counters = [meters.counter(family, labels) for family, labels in counted]
        if request.verb == "watch":
            return counters, (), None
        # Quirk: upstream makes the series, and observes nothing.
        if checked in FIELD_VALIDATIONS:
            meters.show("field_validation_request_duration_seconds", ("true", checked))
        durations = request_labels.durations(component, dry_run, place)
        reads = request.verb in ("get", "list")
        return (
            counters,
            [(meters.show(family, labels), BOUNDS[family]) for family, labels in durations.items()],
            meters.show(SIZES, (component, *place)) if reads else None,
        )

    def authenticated(self, result: str, user: str, took_s: float) -> None:
        """Count an attempt to authenticate.  user: "" for none"""
        shown = user if user in _SHOWN_USERS else "email_id" if "@" in user else "other" if user else ""
        series = self._attempts.get((result, shown))
        if series is None:
            series = self._attempts[result, shown] = self._attempts_of(result, shown)
        _count(series, took_s)

    def _attempts_of(self, result: str, shown: str) -> _Series:
        """Make the series of attempts with these labels."""
        meters, family = self.meters, "authentication_duration_seconds"
        counted = [("authentication_attempts", (result,))]
        if shown:
            counted.append(("authenticated_user_requests", (shown,)))
        counters = [meters.counter(family, labels) for family, labels in counted]
        return counters, [(meters.show(family, (result,)), meters.bounds[family])], None

    def streams_by(self, request: AccessAttributes, by: int) -> None:
        """Count watches that begin (1) or end (-1)."""
        labels = (COMPONENT, *_place(request, METHODS["watch"]))
        self.streams[labels] = self.streams.get(labels, 0) + by

    def sent(self, resource: Resource, events: int, size: int) -> None:
        """Count events that a watch has sent.  size: bytes of all of them"""
        labels = (resource.group, resource.kind, resource.version)
        self.meters.count("apiserver_watch_events_total", labels, events)
        self.meters.observe("apiserver_watch_events_sizes", labels, size / events, events)

    def deprecated(self, request: AccessAttributes, lifecycle: Lifecycle) -> None:
        """Record a request for a version that a later release removes."""
        values = (
            request.group,
            request.version,
            request.resource,
            request.subresource,
            f"1.{lifecycle.removed}" if lifecycle.removed else "",
        )
        self._deprecated[values] = None

    def show(self, shown: Meters) -> None:
        """Show what follows from the present state."""
        for values in self._deprecated:
            shown.set("apiserver_requested_deprecated_apis", values, 1)
        for values, count in self.streams.items():
            shown.set("apiserver_longrunning_requests", values, count)


def _count(series: _Series, took_s: float, size: int = 0) -> None:
    counters, durations, sizes = series
    for counter, labels in counters:
        counter[labels] += 1
    for duration, bounds in durations:
        duration.add(bounds, took_s)
    if sizes is not None:
        sizes.add(BOUNDS[SIZES], size)


def _place(request: AccessAttributes, method: str) -> Values:
    """The labels of what a request addresses, in the order of `PLACE`."""
    subresource = request.subresource if request.is_resource else request.path
    return (request.group, request.resource, scope(request), subresource, method, request.version)
