"""The metric families with numbers that grow: their labels, buckets, texts and stability.

Turns `Meters` into metric families for Prometheus.

Holds: the series of a family are sorted by their labels; a family without series is not shown, as
with upstream's client; the text of a family begins with its stability.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/metrics/metrics.go, pkg/storage/etcd3/metrics,
         pkg/endpoints/filters/metrics.go, client-go util/workqueue and component-base
         metrics/prometheus: names, labels, buckets and stability.
Differs  texts are our own; values are floating point numbers (`3.0`), as the Python client of
         Prometheus writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily

from sim.kernel.meters import Histogram, Meters

STABLE, ALPHA = "STABLE", "ALPHA"
PLACE = ("group", "resource", "scope", "subresource", "verb", "version")
REQUEST = ("code", "component", "dry_run", *PLACE)
LATENCY = ("component", "dry_run", *PLACE)
_REQUEST_S = (*(0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),)
_SIZES = tuple(1000.0 * 10**i for i in range(7))
_WATCH_SIZES = tuple(1024.0 * 2**i for i in range(8))
_QUEUE_S = tuple(1e-8 * 10**i for i in range(10))
_STORE_S = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45),
    60,
)
_AUTHENTICATION_S = tuple(0.001 * 2**i for i in range(15))


class Family(NamedTuple):
    """One family.  buckets: of a histogram; () for a counter"""

    labels: tuple[str, ...]
    text: str
    buckets: tuple[float, ...] = ()
    stability: str = ALPHA


_ADMISSION_S = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_HOOK = ("name", "type", "operation")


FAMILIES: Mapping[str, Family] = {
    "aggregator_unavailable_apiservice_total": Family(
        ("name", "reason"), "Times that an APIService became unavailable."
    ),
    "apiserver_admission_webhook_admission_duration_seconds": Family(
        (*_HOOK, "rejected"), "Time of a call of an admission webhook.", _ADMISSION_S, STABLE
    ),
    "apiserver_admission_webhook_fail_open_count": Family(
        ("name", "type"), "Failures of admission webhooks that were ignored."
    ),
    "apiserver_admission_webhook_rejection_count": Family(
        (*_HOOK, "error_type", "rejection_code"),
        "Requests that an admission webhook, or its failure, refused.",
    ),
    "apiserver_admission_webhook_request_total": Family(
        (*_HOOK, "code", "rejected"), "Calls of admission webhooks."
    ),
    "apiserver_request_duration_seconds": Family(
        LATENCY, "Time from a request to its answer, by verb and resource.", _REQUEST_S, STABLE
    ),
    "apiserver_request_slo_duration_seconds": Family(
        LATENCY, "Time from a request to its answer without time outside of the server.", _REQUEST_S
    ),
    "apiserver_request_terminations_total": Family(
        ("code", "component", *PLACE), "Requests that the server ended to protect itself."
    ),
    "apiserver_request_total": Family(
        REQUEST, "Requests by verb, resource, scope, component and code of the answer.", (), STABLE
    ),
    "apiserver_response_sizes": Family(
        ("component", *PLACE), "Bytes of answers, by verb and resource.", _SIZES, STABLE
    ),
    "apiserver_watch_events_sizes": Family(
        ("group", "kind", "version"), "Bytes of events that watches sent.", _WATCH_SIZES
    ),
    "apiserver_watch_events_total": Family(("group", "kind", "version"), "Events that watches sent."),
    "authenticated_user_requests": Family(("username",), "Authenticated requests by user."),
    "authentication_attempts": Family(("result",), "Attempts to authenticate a request."),
    "authentication_duration_seconds": Family(
        ("result",), "Time to authenticate a request.", _AUTHENTICATION_S
    ),
    "etcd_request_duration_seconds": Family(
        ("operation", "type"), "Time of operations on the storage.", _STORE_S
    ),
    "rest_client_requests_total": Family(
        ("code", "host", "method"), "Requests that clients of the cluster's components sent."
    ),
    "workqueue_adds_total": Family(("name",), "Keys that were added to a work queue."),
    "workqueue_queue_duration_seconds": Family(("name",), "Time that keys waited in a work queue.", _QUEUE_S),
    "workqueue_retries_total": Family(("name",), "Keys that were added again after a failure."),
    "workqueue_work_duration_seconds": Family(("name",), "Time that the processing of keys took.", _QUEUE_S),
}
BOUNDS: Mapping[str, tuple[float, ...]] = {
    name: family.buckets for name, family in FAMILIES.items() if family.buckets
}


def families(meters: Meters) -> Iterator[Metric]:
    """The families that have a series."""
    for name, family in FAMILIES.items():
        text = f"[{family.stability}] {family.text}"
        if family.buckets:
            measured = meters.histograms.get(name)
            if measured:
                yield _histogram(name, family, text, measured)
        elif counted := meters.counters.get(name):
            # A counter of the library ends with "_total"; others of upstream are untyped.
            total = name.endswith("_total")
            found = Metric(name.removesuffix("_total"), text, "counter" if total else "unknown")
            for labels, count in sorted(counted.items()):
                found.add_sample(name, dict(zip(family.labels, labels, strict=True)), count)
            yield found


def _histogram(
    name: str, family: Family, text: str, measured: Mapping[tuple[str, ...], Histogram]
) -> HistogramMetricFamily:
    found = HistogramMetricFamily(name, text, labels=family.labels)
    bounds = [*(f"{bound:g}" for bound in family.buckets), "+Inf"]
    for labels, histogram in sorted(measured.items(), key=lambda pair: pair[0]):
        reached, buckets = 0, []
        for bound, count in zip(bounds, histogram.counts, strict=True):
            reached += count
            buckets.append((bound, reached))
        found.add_metric(labels, buckets, histogram.total)
    return found
