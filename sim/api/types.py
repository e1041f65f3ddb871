"""The API as values: a `Request` goes in, a `Reply` (or a `Watch`) comes out.

An `Endpoint` serves every client: an actor in the same process, a peer on a socket, kubectl over
HTTP. Nothing here waits, sends or reads a clock.

Objects (`Json` mappings) are immutable by rule from the moment they are passed to a request or come
out of a reply: change them by path copy (`{**obj, "spec": {**obj["spec"], "replicas": 3}}`).
Objects delivered to in-process clients carry no `metadata.managedFields` (an `Item` keeps ownership
beside the object, and only reads from outside render it); a client that sends an object back
without that field changes no ownership, as upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from sim.api.store import Item
from sim.units import NO_REVISION, Revision

Json = Any
Obj = dict[str, Any]
EMPTY: Mapping[str, str] = {}

# The verbs of requests; "" is that of OPTIONS, which only a proxy takes.  Rules may name others.
Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", ""]

METHODS: Mapping[Verb, str] = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
    "": "OPTIONS",
}

NO_EXTRA: Mapping[str, tuple[str, ...]] = {}


class UserInfo(msgspec.Struct, frozen=True):
    """The user that sends a request; `groups` holds e.g. system:authenticated already."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=lambda: NO_EXTRA)


class Request(msgspec.Struct, kw_only=True):
    """One API request, already routed.

    group, version, resource: as in the URL ("" is the core group); `resource` is the plural
    options: query parameters by upstream name, text as in the URL (`resourceVersion`, `limit`, ...)
    body: decoded JSON value from in-process and msgpack clients, or the raw bytes of an HTTP body
    content_type: of the body; decides the kind of patch
    repeated: the keys that the YAML of a create, an update or a strict apply has twice, as one
        error; "" if none
    manager: field manager when options name none (user agent up to the first "/")
    cause: trace record that led to this request (0: none); carried into what the request changes
    purpose, draw: what its draw is for, and the 64 random bits of that (`Link.draw`; 0: the
        transport draws them)
    annotations: receives what the server and its plugins note for the audit; None if the request is
        not audited
    authorized: True if the front through which it came has authorized it
    """

    verb: Verb
    resource: str
    group: str = ""
    version: str = "v1"
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    options: Mapping[str, str] = EMPTY
    body: Json = None
    content_type: str = "application/json"
    repeated: str = ""
    user: UserInfo
    manager: str = "unknown"
    cause: int = 0
    purpose: int = 0
    draw: int = 0
    annotations: dict[str, str] | None = None
    authorized: bool = False

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Note annotations of the audit event, if there is one; each keeps its first value."""
        if self.annotations is not None:
            for key, value in annotations.items():
                self.annotations.setdefault(key, value)


# HTTP codes that callers compare replies with. They are plain numbers because each access to
# `http.HTTPStatus` takes some 0.3 us, and node agents need one for each write of a pod's status.
BAD_REQUEST, NOT_FOUND, CONFLICT = 400, 404, 409
TOO_MANY_REQUESTS, INTERNAL_SERVER_ERROR, GATEWAY_TIMEOUT = 429, 500, 504


class Reply(msgspec.Struct):
    """The answer to a request.

    code: HTTP status; 0 means that no answer came and `lost` gives the reason
    item: the stored object (get, create, update, patch; delete if it returns an object)
    items, revision, more, remaining: a list (`items` in key order, `more` the continue token)
    body: any other JSON body: a Status, a Scale, log text (str), ...
    watch: the open watch, for a watch request with code 200
    stream: to the agent of a node, not yet opened (`sim.api.streams.Stream`)
    annotations: of the audit event, for the transport that audits the request
    """

    code: int
    item: Item | None = None
    items: list[Item] | None = None
    revision: Revision = NO_REVISION
    more: str = ""
    remaining: int | None = None
    body: Json = None
    watch: Watch | None = None
    stream: Any = None
    warnings: tuple[str, ...] = ()
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    lost: str = ""  # "", "ConnectionRefused", "ConnectionReset", "Timeout"
    annotations: Mapping[str, str] = EMPTY

    @property
    def ok(self) -> bool:
        """True for a 2xx code."""
        return 200 <= self.code < 300

    @property
    def obj(self) -> Obj:
        """The object in the reply; valid only if `ok` and the verb returns an object."""
        if self.item is not None:
            return self.item.obj
        assert isinstance(self.body, dict)
        return self.body

    @property
    def reason(self) -> str:
        """The Status reason of a refusal ("NotFound", "Conflict", ...), or `lost`."""
        if self.lost:
            return self.lost
        return str(self.body.get("reason", "")) if isinstance(self.body, dict) and not self.ok else ""

    @property
    def message(self) -> str:
        """The Status message of a refusal, or `lost`."""
        if self.lost:
            return self.lost
        return str(self.body.get("message", "")) if isinstance(self.body, dict) and not self.ok else ""


EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of a watch.

    item: the object (for DELETED its last state, with the revision of the deletion)
    revision: of the event; for BOOKMARK the revision reached
    status: the Status object of an ERROR
    cause: trace record of the write behind it, or of the reason of an ERROR
    """

    type: EventType
    item: Item | None
    revision: Revision
    status: Json = None
    cause: int = 0


class Watch(Protocol):
    """Server side of an open watch.

    The owner calls `attach` once; afterwards `notify` is called whenever events may be pending or
    the watch has ended, and the owner reads them with `take`. Events that are not visible to this
    watch yet, because its watch cache lags, are not returned; `notify` is called again when they
    become visible.
    """

    def attach(self, notify: Callable[[], None]) -> None:
        """Starts notifications."""

    def take(self, limit: int = 1000) -> Sequence[WatchEvent]:
        """The visible events, at most `limit`; fewer mean that no more are visible."""

    @property
    def ended(self) -> bool:
        """True once the watch has ended."""

    def stop(self) -> None:
        """Ends the watch, because its owner needs no more events."""


class ServedWatch(Watch, Protocol):
    """An open watch as the server that serves it uses it."""

    def observe_end(self, on_end: Callable[[], object]) -> None:
        """Call `on_end` once when the watch ends, for any reason."""


class Endpoint(Protocol):
    """A component that answers requests: one API server."""

    name: str

    def handle(self, request: Request, respond: Callable[[Reply], None]) -> None:
        """Takes a request; calls `respond` exactly once, now or at a later virtual time."""
        ...


class Transport(Protocol):
    """A client's connection to one API server: in-process channel or socket."""

    def send(self, request: Request, on_reply: Callable[[Reply], None]) -> None:
        """Sends a request; calls `on_reply` exactly once, at a later instant, in kernel order.

        For a watch the reply carries a `Watch`, and its events arrive with the delay of this
        transport. Connection failures are replies with code 0 and `lost` set.
        """
        ...
