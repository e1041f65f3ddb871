"""What the present state of a cluster shows to a reader of its metrics.

Turns objects, watches, requests in flight and leases into values by family and labels.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/metrics/metrics.go, pkg/storage/etcd3/metrics,
         kube-aggregator pkg/controllers/status/metrics.go, client-go tools/leaderelection.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from math import inf

from actors.apiserver.metrics.storage import count_fills, type_of
from sim.api.aggregation.availability import is_available
from sim.api.audit.policy import LEVEL_TEXTS
from sim.api.request_labels import COMPONENT
from sim.app.measured.controllers import show_controllers
from sim.app.measured.shown import PROCESSES, show_processes
from sim.app.parts.ports import BuiltCluster
from sim.kernel.meters import Meters
from sim.wire.http.flow_metrics import show_flows
from sim.wire.http.gateway import READS


def show_state(cluster: BuiltCluster, shown: Meters) -> None:
    """Show the present state."""
    show_processes(cluster.kernel, shown)
    for process in PROCESSES:
        shown.set("rest_client_exec_plugin_ttl_seconds", (cluster.names.component(process),), inf)
    _show_objects(cluster, shown)
    _show_requests(cluster, shown)
    _show_watches(cluster, shown)
    _show_caches(cluster, shown)
    _show_services(cluster, shown)
    _show_leaders(cluster, shown)
    _show_addresses(cluster, shown)
    _show_audit(cluster, shown)
    show_controllers(cluster.storage.store.bucket, cluster.scheme, cluster.options.controller_manager, shown)


def _show_objects(cluster: BuiltCluster, shown: Meters) -> None:
    # A store has one series: objects served by several groups or versions are counted once, under
    # the first of them.
    stored = {r.prefix: r for r in reversed(cluster.scheme.resources) if "get" in r.verbs}
    for prefix, resource in stored.items():
        count = len(cluster.storage.store.bucket(prefix).items)
        shown.set("apiserver_storage_objects", (resource.group_resource,), count)


def _show_requests(cluster: BuiltCluster, shown: Meters) -> None:
    """What the API servers do now, all of them together."""
    running, waiting = {"mutating": 0, "readOnly": 0}, {"mutating": 0, "readOnly": 0}
    for server in cluster.api_servers.values():
        running["readOnly"] += server.traffic.reading
        running["mutating"] += server.traffic.writing
        seats = server.seats
        if seats is None:
            continue
        state = seats.state()
        for number in (each for level in state.levels for queue in level.queues for each in queue.waiting):
            waiting["readOnly" if state.held[number].request.verb in READS else "mutating"] += 1
        show_flows(state, shown)
    for kind, count in running.items():
        shown.set("apiserver_current_inflight_requests", (kind,), count)
    for kind, count in waiting.items():
        shown.set("apiserver_current_inqueue_requests", (kind,), count)


def _show_watches(cluster: BuiltCluster, shown: Meters) -> None:
    """The watches of the cluster's components; the HTTP front knows those of other clients."""
    running = shown.counters.setdefault("apiserver_longrunning_requests", {})
    outside = dict(running)
    resources = {resource.prefix: resource for resource in reversed(cluster.scheme.resources)}
    for server in cluster.api_servers.values():
        for prefix, cache in () if server.life is None else server.life.caches.each():
            one = resources.get(prefix)
            if one is None:
                continue
            for watch in cache.watches():
                is_whole = watch.prefix == cache.prefix
                addressed = "resource" if watch.key else "cluster" if is_whole else "namespace"
                labels = (COMPONENT, one.group, one.plural, addressed, "", "WATCH", one.version)
                if outside.get(labels):
                    outside[labels] -= 1
                else:
                    running[labels] = running.get(labels, 0) + 1


def _show_caches(cluster: BuiltCluster, shown: Meters) -> None:
    """The watch caches (cacher/metrics/metrics.go)."""
    stored = {r.prefix: r for r in reversed(cluster.scheme.resources) if "watch" in r.verbs}
    stored |= {r.prefix: r for r in cluster.scheme.more.served.resources}
    for server in cluster.api_servers.values():
        caches = None if server.life is None else server.life.caches
        for resource in stored.values() if caches is not None else ():
            measured = None if caches is None else caches.measure(resource)
            if measured is not None:
                kind = (type_of(resource),)
                events, fills, capacity = measured
                if events:
                    shown.count("apiserver_watch_cache_events_dispatched_total", kind, events)
                shown.count("apiserver_watch_cache_initializations_total", kind, fills)
                count_fills(cluster.kernel.meters, shown, resource, fills)
                shown.set("watch_cache_capacity", kind, capacity)


def _show_services(cluster: BuiltCluster, shown: Meters) -> None:
    """Which APIServices are unavailable."""
    bucket = cluster.storage.store.bucket(cluster.scheme.prefix("apiservices"))
    for key in sorted(bucket.items):
        obj = bucket.items[key].obj
        down = 0 if is_available(obj) else 1
        shown.set("aggregator_unavailable_apiservice", (obj["metadata"]["name"],), down)


def _show_addresses(cluster: BuiltCluster, shown: Meters) -> None:
    """The addresses of Services (ipallocator/metrics.go)."""
    cidr = cluster.options.api_server.service_cidr
    network = IPv4Network(cidr)
    bucket = cluster.storage.store.bucket(cluster.scheme.prefix("services"))
    entry = [
        address for item in bucket.items.values() for address in item.obj["spec"].get("clusterIPs") or ()
    ]
    count = sum(address != "None" for address in entry)
    shown.set("kube_apiserver_clusterip_allocator_allocated_ips", (cidr,), count)
    free = network.num_addresses - 2 - count  # without network and broadcast
    shown.set("kube_apiserver_clusterip_allocator_available_ips", (cidr,), free)


def _show_leaders(cluster: BuiltCluster, shown: Meters) -> None:
    names = cluster.names
    for process in ("controller-manager", "scheduler"):
        name = names.component(process)
        item = cluster.storage.store.get(cluster.scheme.key("leases", names.system_namespace, name))
        if item is not None:
            current = bool((item.obj.get("spec") or {}).get("holderIdentity"))
            shown.set("leader_election_master_status", (name, name), int(current))


def _show_audit(cluster: BuiltCluster, shown: Meters) -> None:
    audit = cluster.audit
    if audit is None:
        return
    shown.set("apiserver_audit_event_total", (), audit.sent)
    shown.set("apiserver_audit_requests_rejected_total", (), audit.refused)
    for level, count in audit.levels.items():
        if count:
            shown.set("apiserver_audit_level_total", (LEVEL_TEXTS[level],), count)
