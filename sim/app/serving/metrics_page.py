"""The page /metrics of a served cluster.

Turns the present state of a cluster, and what was counted of it, into metric families.

Holds: from the first reader on, the requests of the cluster's components are counted too; before
that nothing inside the simulation counts.  What is counted changes no result: the servers leave
their fast paths, which give the same results as the ordinary ones.

Mirrors  kubernetes v1.25: the families of an API server, see `sim.wire.http.measures`;
         component-base metrics (stability, kubernetes_build_info), client-go
         tools/leaderelection (leader_election_master_status), prometheus/client_golang's process
         collector.
Differs  all processes of the cluster are on this one page, as they are one process; those of
         the scheduler and the controllers have ports of their own upstream.  Families of sizes that
         do not exist here (watch_cache_capacity, etcd_db_total_size_in_bytes), and of durations
         inside of a request, which takes no virtual time, are absent.  The Go runtime is Python's
         (python_info, python_gc_*).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from resource import RLIMIT_AS, getrlimit

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from sim.api.aggregation.availability import is_available
from sim.api.audit.policy import LEVEL_TEXTS
from sim.app.audit.outputs import AuditOutputs
from sim.app.cluster import Cluster
from sim.app.component_metrics import as_shown, begin_counting, present_gauges
from sim.wire.http.flow_metrics import flow_families
from sim.wire.http.gateway import READS, Gateway
from sim.wire.http.measures.counts import Counts
from sim.wire.http.measures.text import text_format

_RUNTIME = (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR)


def metrics_text(cluster: Cluster, gateway: Gateway, counts: Counts, about: Mapping[str, str]) -> str:
    """The text of the page.  about: the fields of /version"""
    begin_counting(cluster.kernel, cluster.api_servers, counts.meters)
    if cluster.kernel.meters is not None:
        counts.meters = cluster.kernel.meters
    fairness = gateway.fairness()
    flows = () if fairness is None else flow_families(fairness.state())
    audited = audit_families(cluster.audit)
    counted = counts.families(present_gauges(cluster.kernel))
    own = as_shown((*state_families(cluster), *flows, *audited, *counted), cluster.options)
    runtime = [metric for collector in _RUNTIME for metric in collector.collect()]
    return text_format((*own, build_info(cluster, about), *runtime, memory_limit()))


def state_families(cluster: Cluster) -> Iterator[Metric]:
    """The families that follow from the present state."""
    kernel, store = cluster.kernel, cluster.storage.store
    yield CounterMetricFamily(
        "orrery_virtual_time_seconds", "Virtual time since the start of the run.", kernel.now_us / 1e6
    )
    yield CounterMetricFamily(
        "orrery_work_units", "Units of work that the simulation has done.", kernel.steps
    )
    text = "[STABLE] Number of stored objects at the time of last check split by kind."
    objects = GaugeMetricFamily("apiserver_storage_objects", text, labels=("resource",))
    # A store has one series: objects served by several groups or versions are counted once, under
    # the first of them.
    stored = {r.prefix: r for r in reversed(cluster.scheme.resources) if "get" in r.verbs}
    for prefix, resource in sorted(stored.items(), key=lambda pair: pair[1].group_resource):
        objects.add_metric((resource.group_resource,), len(store.bucket(prefix).items))
    yield objects
    yield from _server_families(cluster)
    yield unavailable_services(cluster)
    yield from _client_families(cluster)


def unavailable_services(cluster: Cluster) -> Metric:
    """Which APIServices are unavailable."""
    text = "[ALPHA] Gauge of APIServices which are marked as unavailable broken down by APIService name."
    found = GaugeMetricFamily("aggregator_unavailable_apiservice", text, labels=("name",))
    bucket = cluster.storage.store.bucket(cluster.scheme.prefix("apiservices"))
    for key in sorted(bucket.items):
        obj = bucket.items[key].obj
        found.add_metric((obj["metadata"]["name"],), 0 if is_available(obj) else 1)
    return found


def _server_families(cluster: Cluster) -> Iterator[Metric]:
    """What the API servers do now, all of them together."""
    reads = writes = 0
    watchers: dict[str, int] = {}
    for server in cluster.api_servers.values():
        reads, writes = reads + server.traffic.reading, writes + server.traffic.writing
        for prefix, count in () if server.caches is None else server.caches.watchers():
            watchers[prefix] = watchers.get(prefix, 0) + count
    text = (
        "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last "
        "second."
    )
    inflight = GaugeMetricFamily("apiserver_current_inflight_requests", text, labels=("request_kind",))
    inflight.add_metric(("mutating",), writes)
    inflight.add_metric(("readOnly",), reads)
    yield inflight
    yield _waiting_requests(cluster)
    text = "[ALPHA] Open watches by kind, those of the cluster's components included."
    registered = GaugeMetricFamily("apiserver_registered_watchers", text, labels=("group", "kind", "version"))
    for resource in cluster.scheme.resources:
        count = watchers.pop(resource.prefix, 0)
        if count:
            registered.add_metric((resource.group, resource.kind, resource.version), count)
    yield registered


def _waiting_requests(cluster: Cluster) -> Metric:
    """The requests that wait for a seat."""
    counts = {"mutating": 0, "readOnly": 0}
    for server in cluster.api_servers.values():
        if server.seats is not None:
            state = server.seats.state()
            for number in (
                each for level in state.levels for queue in level.queues for each in queue.waiting
            ):
                counts["readOnly" if state.held[number].request.verb in READS else "mutating"] += 1
    text = "[ALPHA] Maximal number of queued requests in this apiserver per request kind in last second."
    found = GaugeMetricFamily("apiserver_current_inqueue_requests", text, labels=("request_kind",))
    for kind, count in counts.items():
        found.add_metric((kind,), count)
    return found


def memory_limit() -> Metric:
    """The limit of the address space of this program."""
    text = "Maximum amount of virtual memory available in bytes."
    limit = getrlimit(RLIMIT_AS)[0]
    return GaugeMetricFamily("process_virtual_memory_max_bytes", text, limit % (1 << 64))


def _client_families(cluster: Cluster) -> Iterator[Metric]:
    """Work queues and leader election of the cluster's processes."""
    waiting: dict[str, int] = {}
    for (_, name), queue in cluster.kernel.queues.items():
        waiting[name] = waiting.get(name, 0) + len(queue)
    depth = GaugeMetricFamily("workqueue_depth", "[ALPHA] Current depth of workqueue", labels=("name",))
    for name, count in sorted(waiting.items()):
        depth.add_metric((name,), count)
    yield depth
    names = cluster.names
    text = "[ALPHA] 1 if a process of the cluster holds the lease of this name."
    leading = GaugeMetricFamily("leader_election_master_status", text, labels=("name",))
    for name in (names.component("controller-manager"), names.component("scheduler")):
        item = cluster.storage.store.get(cluster.scheme.key("leases", names.system_namespace, name))
        if item is not None:
            leading.add_metric((name,), int(bool((item.obj.get("spec") or {}).get("holderIdentity"))))
    yield leading


def build_info(cluster: Cluster, about: Mapping[str, str]) -> Metric:
    """The version of this program."""
    labels = {
        "build_date": about.get("buildDate", ""),
        "compiler": about.get("compiler", ""),
        "git_commit": about.get("gitCommit", ""),
        "git_tree_state": about.get("gitTreeState", ""),
        "git_version": about.get("gitVersion", ""),
        "go_version": about.get("goVersion", ""),
        "major": about.get("major", ""),
        "minor": about.get("minor", ""),
        "platform": about.get("platform", ""),
    }
    text = "[ALPHA] A constant 1, with the version of this program as labels."
    found = GaugeMetricFamily(f"{cluster.names.product}_build_info", text, labels=tuple(labels))
    found.add_metric(tuple(labels.values()), 1)
    return found


def audit_families(audit: AuditOutputs | None) -> Iterator[Metric]:
    """The metric families of the audit (apiserver pkg/audit/metrics.go); two of them are shown also
    without an audit.
    """
    text = "[ALPHA] Counter of audit events generated and sent to the audit backend."
    yield CounterMetricFamily("apiserver_audit_event", text, 0 if audit is None else audit.sent)
    refused = "[ALPHA] Counter of apiserver requests rejected due to an error in audit logging backend."
    yield CounterMetricFamily(
        "apiserver_audit_requests_rejected", refused, 0 if audit is None else audit.refused
    )
    if audit is None:
        return
    levels = CounterMetricFamily(
        "apiserver_audit_level",
        "[ALPHA] Counter of policy levels for audit events (1 per request).",
        labels=("level",),
    )
    for level, count in audit.levels.items():
        if count:
            levels.add_metric((LEVEL_TEXTS[level],), count)
    yield levels
