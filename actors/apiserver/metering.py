"""What a replica counts for a reader of metrics: requests of the cluster's own components, and
calls of webhooks.

Turns answered requests into counters and histograms of `Kernel.meters`.

Holds: a request is counted once, when its reply is sent; requests from outside are counted by the
HTTP front, which knows their form and size.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/metrics/metrics.go (MonitorRequest), client-go
         tools/metrics, apiserver pkg/endpoints/filterlatency/filterlatency.go.
Differs  times are virtual.  An answer of a webhook that is malformed, but has a response, counts by
         that response.
"""

from __future__ import annotations

from collections import defaultdict

from actors.apiserver.fairness import Seats
from actors.apiserver.flights import Flight
from sim.api.request_labels import (
    COMPONENT,
    FAIRNESS_FILTER,
    FILTER,
    FILTERS,
    METHODS,
    durations,
    method,
    scope,
)
from sim.api.store import Question
from sim.api.types import BAD_REQUEST, Json, Obj, Reply, Request
from sim.kernel import Kernel
from sim.kernel.meters import Meters
from sim.units import SECOND

WEBHOOKS = "apiserver_admission_webhook_"
FORBIDDEN, CODE_MAX = 403, 600
TALLIED_MAX, OTHERS = 256, "others"
_HTTP = {**METHODS, "list": "GET", "watch": "GET", "deletecollection": "DELETE"}


class Tally(defaultdict[tuple[str, int], int]):
    """Numbers of answers by client (the manager of its writes) and code, with or without meters."""

    def __init__(self) -> None:
        super().__init__(int)

    def counted(self, request: Request, reply: Reply) -> Reply:
        """Count a reply, and return it; clients choose their names, and after many are OTHERS."""
        key = request.manager, reply.code
        known = key in self or len(self) < TALLIED_MAX
        self[key if known else (OTHERS, reply.code)] += 1
        return reply


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
    waited_us = max(0, flight.began_us - flight.arrived_us) if flight.seated else 0
    for name in FILTERS:
        meters.observe(FILTER, (name,), waited_us / SECOND if name == FAIRNESS_FILTER else 0.0)
    if flight.outside is None:
        count_answer(meters, flight.request, reply, server, kernel.now_us - flight.arrived_us)


def count_answer(meters: Meters, request: Request, reply: Reply, server: str, took_us: int) -> None:
    """Count an answered request of a component."""
    code = str(reply.code)
    verb = method(request.verb, request.content_type)
    addressed, dry_run = (
        scope(request.verb, request.name, request.namespace),
        request.options.get("dryRun", ""),
    )
    place = request.group, request.resource, addressed, request.subresource, verb, request.version
    meters.count("apiserver_request_total", (code, COMPONENT, dry_run, *place))
    if request.verb != "watch":
        took_s = took_us / SECOND
        for family, labels in durations(COMPONENT, dry_run, place).items():
            meters.observe(family, labels, took_s)
        meters.observe(
            "rest_client_request_duration_seconds",
            (request.manager, server, _HTTP.get(request.verb, verb)),
            took_s,
        )
    meters.count("rest_client_requests_total", (request.manager, code, server, _HTTP.get(request.verb, verb)))
