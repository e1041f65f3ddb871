"""The metric families with numbers that grow: their labels, buckets, texts and stability.

Turns `Meters` into metric families for Prometheus.

Holds: the series of a family are sorted by their labels; a family without series is not shown, as
with upstream's client; the text of a family begins with its stability.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/metrics/metrics.go, pkg/storage/etcd3/metrics,
         pkg/endpoints/filters/metrics.go, client-go util/workqueue and component-base
         metrics/prometheus: names, labels, buckets and stability.
Differs  times are virtual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
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
    """One family.

    buckets: of a histogram; () for a counter, or for a gauge
    deprecated: the version since which it is deprecated, so that v1.25 hides it; "" for none
    """

    labels: tuple[str, ...]
    text: str
    buckets: tuple[float, ...] = ()
    stability: str = ALPHA
    is_gauge: bool = False
    deprecated: str = ""

    def described(self) -> str:
        """The text with which the family is shown (component-base metrics/opts.go)."""
        since = f"(Deprecated since {self.deprecated}) " if self.deprecated else ""
        return f"[{self.stability}] {since}{self.text}"


_SCHEDULER_S = tuple(0.001 * 2**i for i in range(15))
_REST_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_ADMISSION_S = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_HOOK = ("name", "type", "operation")
_ATTEMPT = ("profile", "result")
_SYNCS = "Number of namespace syncs happened in root ca cert publisher."
CONTROLLER_FAMILIES: Mapping[str, Family] = {
    "node_collector_evictions_number": Family(
        ("zone",),
        "Number of Node evictions that happened since current instance of NodeController started, This metric is "
        "replaced by node_collector_evictions_total.",
        deprecated="1.24.0",
    ),
    "node_collector_evictions_total": Family(
        ("zone",),
        "Number of Node evictions that happened since current instance of NodeController started.",
        (),
        STABLE,
    ),
    "node_collector_unhealthy_nodes_in_zone": Family(
        ("zone",), "Gauge measuring number of not Ready Nodes per zones.", is_gauge=True
    ),
    "node_collector_zone_health": Family(
        ("zone",), "Gauge measuring percentage of healthy nodes per zone.", is_gauge=True
    ),
    "node_collector_zone_size": Family(
        ("zone",), "Gauge measuring number of registered Nodes per zones.", is_gauge=True
    ),
    "root_ca_cert_publisher_sync_duration_seconds": Family(("code",), _SYNCS, _SCHEDULER_S),
    "root_ca_cert_publisher_sync_total": Family(("code",), _SYNCS),
}
SCHEDULER_FAMILIES: Mapping[str, Family] = {
    "scheduler_e2e_scheduling_duration_seconds": Family(
        _ATTEMPT,
        "E2e scheduling latency in seconds (scheduling algorithm + binding). This metric is replaced by "
        "scheduling_attempt_duration_seconds.",
        _SCHEDULER_S,
        deprecated="1.23.0",
    ),
    "scheduler_pending_pods": Family(
        ("queue",),
        "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number "
        "of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods.",
        (),
        STABLE,
        is_gauge=True,
    ),
    "scheduler_pod_scheduling_attempts": Family(
        (), "Number of attempts to successfully schedule a pod.", (1, 2, 4, 8, 16), STABLE
    ),
    "scheduler_pod_scheduling_duration_seconds": Family(
        ("attempts",),
        "E2e latency for a pod being scheduled which may include multiple scheduling attempts.",
        tuple(0.01 * 2**i for i in range(20)),
        STABLE,
    ),
    "scheduler_preemption_attempts_total": Family(
        (), "Total preemption attempts in the cluster till now", (), STABLE
    ),
    "scheduler_preemption_victims": Family(
        (), "Number of selected preemption victims", tuple(5.0 * i for i in range(1, 11)), STABLE
    ),
    "scheduler_queue_incoming_pods_total": Family(
        ("event", "queue"), "Number of pods added to scheduling queues by event and queue type.", (), STABLE
    ),
    "scheduler_schedule_attempts_total": Family(
        _ATTEMPT,
        "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while "
        "'error' means an internal scheduler problem.",
        (),
        STABLE,
    ),
    "scheduler_scheduler_cache_size": Family(
        ("type",),
        "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
        is_gauge=True,
    ),
    "scheduler_scheduling_algorithm_duration_seconds": Family(
        (), "Scheduling algorithm latency in seconds", _SCHEDULER_S
    ),
    "scheduler_scheduling_attempt_duration_seconds": Family(
        _ATTEMPT,
        "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
        _SCHEDULER_S,
        STABLE,
    ),
    "scheduler_unschedulable_pods": Family(
        ("plugin", "profile"),
        "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins "
        "that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
        is_gauge=True,
    ),
}


FAMILIES: Mapping[str, Family] = {
    "aggregator_unavailable_apiservice_total": Family(
        ("name", "reason"),
        "Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
    ),
    "apiserver_admission_webhook_admission_duration_seconds": Family(
        (*_HOOK, "rejected"),
        "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API "
        "resource and type (validate or admit).",
        _ADMISSION_S,
        STABLE,
    ),
    "apiserver_admission_webhook_fail_open_count": Family(
        ("name", "type"),
        "Admission webhook fail open count, identified by name and broken out for each admission type (validating or "
        "mutating).",
    ),
    "apiserver_admission_webhook_rejection_count": Family(
        (*_HOOK, "error_type", "rejection_code"),
        "Admission webhook rejection count, identified by name and broken out for each admission type (validating or "
        "admit) and operation. Additional labels specify an error type (calling_webhook_error or "
        "apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code "
        "if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is "
        "greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality "
        "bounded.",
    ),
    "apiserver_admission_webhook_request_total": Family(
        (*_HOOK, "code", "rejected"),
        "Admission webhook request total, identified by name and broken out for each admission type (validating or "
        "mutating) and operation. Additional labels specify whether the request was rejected or not and an HTTP "
        "status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
    ),
    "apiserver_request_duration_seconds": Family(
        LATENCY,
        "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
        _REQUEST_S,
        STABLE,
    ),
    "apiserver_request_slo_duration_seconds": Family(
        ("component", *PLACE),
        "Response latency distribution (not counting webhook duration) in seconds for each verb, group, version, resource, subresource, scope and component.",
        _REQUEST_S,
    ),
    "apiserver_request_terminations_total": Family(
        ("code", "component", *PLACE), "Number of requests which apiserver terminated in self-defense."
    ),
    "apiserver_request_total": Family(
        REQUEST,
        "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
        (),
        STABLE,
    ),
    "apiserver_response_sizes": Family(
        ("component", *PLACE),
        "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
        _SIZES,
        STABLE,
    ),
    "apiserver_watch_events_sizes": Family(
        ("group", "kind", "version"), "Watch event size distribution in bytes", _WATCH_SIZES
    ),
    "apiserver_watch_events_total": Family(
        ("group", "kind", "version"), "Number of events sent in watch clients"
    ),
    "authenticated_user_requests": Family(
        ("username",), "Counter of authenticated requests broken out by username."
    ),
    "authentication_attempts": Family(("result",), "Counter of authenticated attempts."),
    "authentication_duration_seconds": Family(
        ("result",), "Authentication duration in seconds broken out by result.", _AUTHENTICATION_S
    ),
    "etcd_request_duration_seconds": Family(
        ("operation", "type"), "Etcd request latency in seconds for each operation and object type.", _STORE_S
    ),
    "field_validation_request_duration_seconds": Family(
        ("enabled", "field_validation"),
        "Response latency distribution in seconds for each field validation value and whether field validation is "
        "enabled or not",
        _REQUEST_S,
    ),
    "apiserver_terminated_watchers_total": Family(
        ("resource",), "Counter of watchers closed due to unresponsiveness broken by resource type."
    ),
    "apiserver_storage_list_evaluated_objects_total": Family(
        ("resource",), "Number of objects tested in the course of serving a LIST request from storage"
    ),
    "apiserver_storage_list_fetched_objects_total": Family(
        ("resource",), "Number of objects read from storage in the course of serving a LIST request"
    ),
    "apiserver_storage_list_returned_objects_total": Family(
        ("resource",), "Number of objects returned for a LIST request from storage"
    ),
    "apiserver_storage_list_total": Family(("resource",), "Number of LIST requests served from storage"),
    "rest_client_requests_total": Family(
        ("code", "host", "method"), "Number of HTTP requests, partitioned by status code, method, and host."
    ),
    "rest_client_request_duration_seconds": Family(
        ("host", "verb"), "Request latency in seconds. Broken down by verb, and host.", _REST_S
    ),
    **SCHEDULER_FAMILIES,
    **CONTROLLER_FAMILIES,
    "workqueue_adds_total": Family(("name",), "Total number of adds handled by workqueue"),
    "workqueue_longest_running_processor_seconds": Family(
        ("name",),
        "How many seconds has the longest running processor for workqueue been running.",
        is_gauge=True,
    ),
    "workqueue_queue_duration_seconds": Family(
        ("name",), "How long in seconds an item stays in workqueue before being requested.", _QUEUE_S
    ),
    "workqueue_retries_total": Family(("name",), "Total number of retries handled by workqueue"),
    "workqueue_unfinished_work_seconds": Family(
        ("name",),
        "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values "
        "indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this "
        "increases.",
        is_gauge=True,
    ),
    "workqueue_work_duration_seconds": Family(
        ("name",), "How long in seconds processing an item from workqueue takes.", _QUEUE_S
    ),
}
BOUNDS: Mapping[str, tuple[float, ...]] = {
    name: family.buckets for name, family in FAMILIES.items() if family.buckets
}
# What v1.25 shows with --show-hidden-metrics-for-version only (component-base metrics/registry.go:
# shouldHide).
HIDDEN = frozenset(name for name, family in FAMILIES.items() if family.deprecated)


Gauges = Mapping[str, Mapping[tuple[str, ...], float]]


def families(meters: Meters, gauges: Gauges = MappingProxyType({})) -> Iterator[Metric]:
    """The families that have a series.  gauges: values of the present state"""
    for name, family in FAMILIES.items():
        text = family.described()
        if family.buckets:
            measured = meters.histograms.get(name)
            if measured or not family.labels:
                yield _histogram(name, family, text, measured or {(): Histogram(len(family.buckets))})
            continue
        values: Mapping[tuple[str, ...], float] | None = meters.counters.get(name)
        if family.is_gauge:
            values = gauges.get(name)
        if values is None and not family.labels and not family.is_gauge:
            values = {(): 0}
        if values:
            found = Metric(name, text, "gauge" if family.is_gauge else "counter")
            for labels, value in sorted(values.items()):
                found.add_sample(name, dict(zip(family.labels, labels, strict=True)), value)
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
