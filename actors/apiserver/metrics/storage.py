"""What a replica counts of its storage and of its watch caches, for a reader of metrics.

Turns operations, lists and watches into counters and histograms of `Kernel.meters`.

Mirrors  kubernetes v1.25 apiserver pkg/storage/etcd3/metrics/metrics.go,
         pkg/storage/cacher/metrics/metrics.go, pkg/storage/storagebackend/factory/etcd3.go (the
         client of the storage counts its calls);
         grpc-ecosystem/go-grpc-prometheus client_metrics.go.
Differs  times are virtual; the messages on the streams of watches are not counted, nor are the
         objects of the lists that fill watch caches.
Quirk    the client counts the answer of a call as received only if the call failed.
"""

from __future__ import annotations

from typing import Literal, assert_never

from sim.api.refusals import Steps
from sim.api.schema.resource import Resource
from sim.api.store import Answer, Consult, Delete, Get, Op, Page, Pause, Put, Range, Unavailable
from sim.api.types import Reply
from sim.api.verbs.single import STORED_AS
from sim.api.watch.cache_watch import CacheWatch
from sim.kernel import Kernel
from sim.kernel.meters import Meters
from sim.units import SECOND

# The families of calls, and the labels of a call: its method, service and type.
STARTED, HANDLED = "grpc_client_started_total", "grpc_client_handled_total"
SENT, RECEIVED = "grpc_client_msg_sent_total", "grpc_client_msg_received_total"
READ, WRITE = ("Range", "etcdserverpb.KV", "unary"), ("Txn", "etcdserverpb.KV", "unary")
WATCH = ("Watch", "etcdserverpb.Watch", "bidi_stream")
GROUPED = ("customresourcedefinitions", "apiservices")
Called = Literal["get", "list", "create", "update", "delete"]
LISTS, CACHED_LISTS = "apiserver_storage_list_", "apiserver_cache_list_"


def metered(kernel: Kernel, steps: Steps, resource: Resource) -> Steps:
    """The same steps; their operations on the storage are counted while there is a reader."""
    meters = kernel.meters
    return steps if meters is None else _metered(kernel, meters, steps, resource)


def _metered(kernel: Kernel, meters: Meters, steps: Steps, resource: Resource) -> Steps:
    named, kind_of, list_of = resource.group_resource, type_of(resource), type_of(resource, "*[]")
    ranged = False
    try:
        op = next(steps)
        while True:
            begun_us, kind = kernel.now_us, _operation(op)
            if kind:
                _count_start(meters, kind)
            answer = yield op
            if kind:
                _count_end(meters, kind, answer)
                took = (kernel.now_us - begun_us) / SECOND
                of = list_of if kind == "list" else kind_of
                meters.observe("etcd_request_duration_seconds", (kind, of), took)
            if kind == "list" and isinstance(answer, Page):
                ranged = True
                for what in ("fetched", "evaluated"):
                    meters.count(f"{LISTS}{what}_objects_total", (named,), answer.count)
            op = steps.send(answer)
    except StopIteration as stop:
        reply: Reply = stop.value
        if ranged:
            meters.count(f"{LISTS}total", (named,))
            meters.count(f"{LISTS}returned_objects_total", (named,), len(reply.items or ()))
        return reply


def _count_start(meters: Meters, operation: Called) -> None:
    """Count a call of the storage that begins."""
    call = READ if operation in ("get", "list") else WRITE
    meters.count(STARTED, call)
    meters.count(SENT, call)


def _count_end(meters: Meters, operation: Called, answer: Answer) -> None:
    """Count the end of a call of the storage."""
    call = READ if operation in ("get", "list") else WRITE
    failed = isinstance(answer, Unavailable)
    meters.count(HANDLED, ("Unavailable" if failed else "OK", *call))
    if failed:
        meters.count(RECEIVED, call)


def count_fills(counted: Meters | None, shown: Meters, resource: Resource, fills: int) -> None:
    """Show the calls by which the watch cache of a resource was filled, each a list and a watch.

    counted: the calls of requests, which are added; None if nothing counts them yet
    """
    before = {} if counted is None else counted.counters
    read = {SENT: READ, STARTED: READ, HANDLED: ("OK", *READ), f"{LISTS}total": (resource.group_resource,)}
    for family, labels in (*read.items(), (STARTED, WATCH)):
        known = before.get(family, {}).get(labels, 0)
        shown.count(family, labels, fills + (0 if labels in shown.counters.get(family, {}) else known))


def type_of(resource: Resource, begin: str = "*") -> str:
    """The Go type of a kind, as upstream's labels show it."""
    if resource.custom:
        return f"{begin}unstructured.Unstructured"
    group = resource.upstream_group.partition(".")[0] or "core"
    return f"{begin}{group}.{resource.kind}"


def count_cached_list(meters: Meters, resource: Resource, index: str, fetched: int, returned: int) -> None:
    """Count a list that a watch cache answers (cacher/metrics/metrics.go, RecordListCacheMetrics).

    index: the index by which objects were found; "" without one
    """
    prefix = prefix_of(resource)
    meters.count(f"{CACHED_LISTS}total", (prefix, index))
    meters.count(f"{CACHED_LISTS}fetched_objects_total", (prefix, index), fetched)
    meters.count(f"{CACHED_LISTS}returned_objects_total", (prefix,), returned)


def prefix_of(resource: Resource) -> str:
    """Upstream's prefix of the keys of a resource (default_storage_factory_builder.go,
    SpecialDefaultResourcePrefixes); servers of extensions put the group before it.
    """
    if resource.custom or resource.rule in GROUPED:
        return f"/{resource.group}/{resource.plural}"
    return "/" + STORED_AS.get(resource.plural, resource.plural)


def _operation(op: Op) -> Called | None:
    """The value of the label `operation`; None for what is no operation on the storage."""
    match op:
        case Get():
            return "get"
        case Range():
            return "list"
        case Put():
            return "create" if op.expect == 0 else "update"
        case Delete():
            return "delete"
        case Pause() | Consult():
            return None
        case _:
            assert_never(op)


def count_initial(meters: Meters, resource: Resource, watch: CacheWatch) -> None:
    """Count the events with which a watch begins (cache_watcher.go, processInterval)."""
    if watch.initial:
        meters.count("apiserver_init_events_total", (type_of(resource),), watch.initial)
