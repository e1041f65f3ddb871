"""What a replica counts for a reader of metrics: requests of the cluster's own components, and
operations on the storage.

Turns answered requests and operations into counters and histograms of `Kernel.meters`.

Holds: a request is counted once, when its reply is sent; requests from outside are counted by the
HTTP front, which knows their form and size.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/metrics/metrics.go (MonitorRequest), client-go
         tools/metrics, apiserver pkg/storage/etcd3/metrics/metrics.go.
Differs  times are virtual.  An answer of a webhook that is malformed, but has a response, counts by
         that response.
"""

from __future__ import annotations

from actors.apiserver.fairness import Seats
from actors.apiserver.flights import Flight
from sim.api.request_labels import COMPONENT, METHODS, scope
from sim.api.schema.resource import Resource
from sim.api.store import Delete, Get, Op, Page, Put, Question, Range
from sim.api.types import BAD_REQUEST, Json, Obj, Reply, Request
from sim.api.verbs.call import Steps
from sim.kernel import Kernel
from sim.kernel.meters import Meters
from sim.units import SECOND

WEBHOOKS = "apiserver_admission_webhook_"
LISTS = "apiserver_storage_list_"
FORBIDDEN, CODE_MAX = 403, 600
_HTTP = {**METHODS, "list": "GET", "watch": "GET", "deletecollection": "DELETE"}


def count_webhook(meters: Meters, question: Question, answer: Json, failure: str, took_us: int) -> None:
    """Count the call of an admission webhook (pkg/admission/metrics/metrics.go)."""
    if not question.kind:
        return
    name, kind, operation = question.name, question.kind, question.body["request"]["operation"]
    response = answer.get("response") if isinstance(answer, dict) else None
    allowed = isinstance(response, dict) and bool(response.get("allowed"))
    failed = bool(failure) or not isinstance(response, dict)
    if failed:
        code, rejected = 500, not question.fails_open
        if question.fails_open:
            meters.count(f"{WEBHOOKS}fail_open_count", (name, kind))
    else:
        assert isinstance(response, dict)
        code, rejected = (200, False) if allowed else (_denied_code(response), True)
    shown = "true" if rejected else "false"
    if rejected:
        error = "calling_webhook_error" if failed else "no_error"
        meters.count(f"{WEBHOOKS}rejection_count", (name, kind, operation, error, str(code)))
    meters.count(f"{WEBHOOKS}request_total", (name, kind, operation, str(code), shown))
    labels = (name, kind, operation, shown)
    meters.observe(f"{WEBHOOKS}admission_duration_seconds", labels, took_us / SECOND)


def _denied_code(response: Obj) -> int:
    """The code of a refusal; those above 600 are counted as 600."""
    code = (response.get("status") or {}).get("code") or 0
    return min(code, CODE_MAX) if code >= BAD_REQUEST else FORBIDDEN


def count_flight(kernel: Kernel, flight: Flight, reply: Reply, server: str, seats: Seats | None) -> None:
    """Count a request that is answered now; one from outside is counted by the HTTP front too."""
    meters = kernel.meters
    assert meters is not None
    if seats is not None and not flight.seated:
        seats.count_prompt(flight.request)
    if flight.outside is None:
        count_answer(meters, flight.request, reply, server, kernel.now_us - flight.arrived_us)


def count_answer(meters: Meters, request: Request, reply: Reply, server: str, took_us: int) -> None:
    """Count an answered request of a component."""
    code = str(reply.code)
    verb = METHODS.get(request.verb, request.verb.upper())
    if request.verb == "patch" and "apply-patch" in request.content_type:
        verb = "APPLY"
    dry_run, addressed = (
        request.options.get("dryRun", ""),
        scope(request.verb, request.name, request.namespace),
    )
    place = request.group, request.resource, addressed, request.subresource, verb, request.version
    meters.count("apiserver_request_total", (code, COMPONENT, dry_run, *place))
    if request.verb != "watch":
        took_s = took_us / SECOND
        meters.observe("apiserver_request_duration_seconds", (COMPONENT, dry_run, *place), took_s)
        meters.observe("apiserver_request_slo_duration_seconds", (COMPONENT, *place), took_s)
        meters.observe(
            "rest_client_request_duration_seconds",
            (request.manager, server, _HTTP.get(request.verb, verb)),
            took_s,
        )
    meters.count("rest_client_requests_total", (request.manager, code, server, _HTTP.get(request.verb, verb)))


def metered(kernel: Kernel, steps: Steps, resource: Resource) -> Steps:
    """The same steps; their operations on the storage are counted while there is a reader."""
    meters = kernel.meters
    return steps if meters is None else _metered(kernel, meters, steps, resource)


def _metered(kernel: Kernel, meters: Meters, steps: Steps, resource: Resource) -> Steps:
    named, kind_of = resource.group_resource, _type_of(resource)
    ranged = False
    try:
        op = next(steps)
        while True:
            begun_us, kind = kernel.now_us, _operation(op)
            answer = yield op
            if kind:
                took = (kernel.now_us - begun_us) / SECOND
                meters.observe("etcd_request_duration_seconds", (kind, kind_of), took)
            if kind == "list" and isinstance(answer, Page):
                ranged = True
                for what in ("fetched", "evaluated"):
                    meters.count(f"{LISTS}{what}_objects_total", (named,), len(answer.items))
            op = steps.send(answer)
    except StopIteration as stop:
        reply: Reply = stop.value
        if ranged:
            meters.count(f"{LISTS}total", (named,))
            meters.count(f"{LISTS}returned_objects_total", (named,), len(reply.items or ()))
        return reply


def _type_of(resource: Resource) -> str:
    """The Go type of a kind, as upstream's labels show it."""
    if resource.custom:
        return "*unstructured.Unstructured"
    group = resource.upstream_group.partition(".")[0] or "core"
    return f"*{group}.{resource.kind}"


def _operation(op: Op) -> str:
    """The value of the label `operation`; "" for what is no operation on the storage."""
    match op:
        case Get():
            return "get"
        case Range():
            return "list"
        case Put():
            return "create" if op.expect == 0 else "update"
        case Delete():
            return "delete"
        case _:
            return ""
