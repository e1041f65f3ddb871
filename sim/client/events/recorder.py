"""Event recorder: writes bounded numbers of Events about objects.

Turns `event(obj, type, reason, message)` into a create or a count patch of a core/v1 Event. The
requests go one after the other through the client's token bucket; `correlator` decides.

Holds: at most QUEUE_MAX events wait, later ones are dropped; one request is under way at a time.

Mirrors  client-go v1.25 tools/record/event.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sim.api.types import NOT_FOUND, Obj, Reply, Request
from sim.client.client import PATCH_TYPES, Client
from sim.client.events.correlator import Correlator, event_name
from sim.client.fast.coalesced_calls import Served
from sim.kernel import Context
from sim.kernel.network import Purpose
from sim.units import format_time

EventKind = Literal["Normal", "Warning"]
QUEUE_MAX = 1000  # event.go maxQueuedEvents
TRIES_MAX = 12  # maxTriesPerEvent
RETRY_US = 10_000_000  # defaultSleepDuration
US_PER_SECOND = 1_000_000
NS_PER_SECOND = 1_000_000_000
Shape = tuple[
    str, ...
    # key of events that differ in their texts only: names of the reference's members; (): no other
]
# Reasons of events that say why an object has to wait: they are decisions of the trace too.
OBSTACLES = frozenset((
    "ClaimLost", "ClaimMisbound", "ExternalProvisioning", "FailedAttachVolume", "FailedBinding", "FailedCreatePodSandBox",
    "FailedMapVolume", "FailedMount", "FailedPostStartHook", "FailedPreStopHook", "NetworkNotReady", "ProvisioningFailed", "VolumeMismatch",
))  # fmt: skip
PATHS = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}
DEFAULT_NAMESPACE = "default"  # metav1.NamespaceDefault: events of cluster-scoped objects


def reference(obj: Obj, field_path: str = "") -> Obj:
    """An ObjectReference to an object."""
    meta = obj["metadata"]
    ref = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "name": meta["name"]}
    for name in ("namespace", "uid", "resourceVersion"):
        if meta.get(name):
            ref[name] = meta[name]
    if field_path:
        ref["fieldPath"] = field_path
    return ref


class EventRecorder:
    """Records events of one component, on one host if it is a node's component."""

    __slots__ = (
        "_began_us", "_busy", "_calls", "_client", "_correlator", "_ctx", "_event", "_last_number", "_patch", "_queue", "_random",
        "_shape", "_source", "_tries", "dropped",
    )  # fmt: skip

    def __init__(self, ctx: Context, client: Client, component: str, host: str = "") -> None:
        self._ctx = ctx
        self._client = client
        self._calls = client.coalesced_calls("events", verb="create", purpose=Purpose.EVENT)
        self._source = {"component": component, "host": host} if host else {"component": component}
        self._correlator = Correlator()
        self._queue: list[tuple[Obj, int, Shape, int]] = []  # short; an empty list takes no space
        self._busy = False
        # The event being sent, the patch that updates its count, and the number of tries.
        self._event: Obj = {}
        self._patch: Obj | None = None
        self._shape: Shape = ()
        self._tries = 0
        self._random = ctx.sparing_stream(f"events/{component}")
        self._last_number = 0
        self._began_us = ctx.wall_us() - ctx.now_us()
        self.dropped = 0

    def event(
        self,
        obj: Obj,
        event_type: EventKind,
        reason: str,
        message: str,
        field_path: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record that something happened to `obj` (an object or an ObjectReference)."""
        ref = reference(obj, field_path) if "metadata" in obj else obj
        if reason in OBSTACLES and ref["kind"] in PATHS:
            target = f"{PATHS[ref['kind']]}/{ref['namespace']}/{ref['name']}"
            self._ctx.decided("fails", target, {"reason": reason, "message": message})
        if len(self._queue) >= QUEUE_MAX:
            self.dropped += 1
            return
        wall_us = self._ctx.wall_us()
        # Names contain nanoseconds; ours are drawn, so that events of one instant differ in name.
        number = wall_us * 1000 + int(self._random.random() * 1000)
        if number <= self._last_number:
            number = self._last_number + 1
        self._last_number = number
        now = format_time(wall_us)
        event: Obj = {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {
                "name": event_name(ref["name"], number),
                "namespace": ref.get("namespace") or DEFAULT_NAMESPACE,
            },
            "involvedObject": ref,
            "reason": reason,
            "message": message,
            "source": self._source,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": event_type,
            "eventTime": None,
            "reportingComponent": "",
            "reportingInstance": "",
        }
        if annotations:
            event["metadata"]["annotations"] = dict(annotations)
        if number // NS_PER_SECOND != wall_us // US_PER_SECOND:
            number = 0  # the clock was set back: the name does not contain the time
        shape: Shape = ()
        if annotations is None and reason and message and event_type and all(ref.values()):
            shape = tuple(ref)
        if self._busy and self._calls.claim():
            self._next()
        if self._busy:
            self._queue.append((event, number, shape, self._ctx.kernel.cause))
        else:
            self._offer(event, number, shape, wall_us)

    def tidy(self) -> None:
        """Free memory of the correlator; to be called from time to time by a long-lived component
        that records few events.
        """
        if self._busy and self._calls.claim():
            self._next()
        self._correlator.tidy(self._steady_us())

    def _steady_us(self) -> int:
        """The wall clock without the steps by which it was set since the process began: intervals
        between events are measured by it.
        """
        return self._began_us + self._ctx.now_us()

    def _offer(self, event: Obj, number: int, shape: Shape, wall_us: int) -> None:
        """Send the event unless the correlator drops it."""
        steady_us = self._steady_us()
        result = self._correlator.correlate(event, number, steady_us, wall_us - steady_us)
        if result is not None:
            self._busy, self._shape, self._tries = True, shape, 0
            self._event, self._patch = result
            self._send(None)

    def _next(self) -> None:
        """Continue with the oldest waiting event after the end of a request."""
        self._busy, self._event, self._patch = False, {}, None
        while self._queue and not self._busy:
            event, number, shape, cause = self._queue.pop(0)
            self._ctx.kernel.follow(cause)
            self._offer(event, number, shape, self._ctx.wall_us())

    def _send(self, _: Any) -> None:
        client, event, patch = self._client, self._event, self._patch
        self._tries += 1
        if patch is None:
            serve = self._tell if self._shape else None
            self._calls.call(serve, self._creation, self._answered, quiet=not self._queue)
            return
        namespace, name = event["metadata"]["namespace"], event["metadata"]["name"]
        request = client.request(
            "patch", "events", namespace, name, body=patch, content_type=PATCH_TYPES["strategic"]
        )
        client.call(request, self._answered)

    def _retry_us(self) -> int:
        """Pause before the next try: a random part of the full pause the first time, so that not
        all clients retry at once after a server restart.
        """
        return int(RETRY_US * self._random.random()) if self._tries == 1 else RETRY_US

    def _tell(self, way: Any) -> Served | None:
        served: Served | None = way.tell(self._event, self._shape)
        return served

    def _creation(self) -> Request:
        event = self._event
        return self._client.request(
            "create", "events", event["metadata"]["namespace"], body=event, purpose=Purpose.EVENT
        )

    def _answered(self, reply: Reply) -> None:
        if reply.lost:
            if self._tries < TRIES_MAX:
                self._ctx.call_later_us(self._retry_us(), self._send)
            else:
                self._next()
        elif self._patch is not None and reply.code == NOT_FOUND:
            self._patch = None  # the event has expired: create a new one
            self._tries -= 1
            self._send(None)
        else:
            if reply.ok and self._patch is not None:  # a created event is stored as it was sent
                self._correlator.update(self._event, reply.obj)
            self._next()
