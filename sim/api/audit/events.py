"""Audit events: what happened to one request, as the JSON that backends write and send.

Turns the arrival of a request, what became known of it and its reply into one event for each stage
that the policy records.

Holds: `Record.event` gives the event of one stage and no event of an omitted stage; an annotation
keeps its first value; nothing here changes an object of the API.

Mirrors  kubernetes v1.25 apiserver pkg/audit/{request,context}.go, pkg/apis/audit/v1/types.go,
         pkg/endpoints/filters/{audit,authn_audit}.go, pkg/endpoints/metrics/metrics.go
         (RecordDeprecatedRequest).
Differs  - A request object is written as it was sent, a response object before it becomes a Table
           or metadata only; upstream writes the fields of its Go types, with empty ones.
         - Of the latencies of the layers of a slow request, only that of the storage is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sim.api.audit.policy import (
    COMPLETE,
    GROUP,
    LEVEL_TEXTS,
    PANIC,
    RECEIVED,
    STARTED,
    VERSION,
    Level,
    Scope,
    Stage,
)
from sim.api.auth.attributes import AccessAttributes, Decision, Opinion
from sim.api.ownership import managed
from sim.api.schema.resource import Resource
from sim.api.store import Item
from sim.api.types import Obj, Reply, UserInfo, Verb
from sim.ident import Names
from sim.units import MS, format_duration, format_micro_time

AGENT_MAX, AGENT_CUT = 1024, "...TRUNCATED"  # request.go: maxUserAgentLength
# audit.go: writeLatencyToAnnotation; a request that takes longer is recorded with its latency.
SLOW_US = 500 * MS
# cmd/kube-apiserver/app/server.go: BasicLongRunningRequestCheck
LONG_VERBS = ("watch", "proxy")
LONG_SUBRESOURCES = ("attach", "exec", "proxy", "log", "portforward")
CLOSED_EARLY = "Connection closed early"
_STATUS_FIELDS = ("status", "message", "reason", "details")


class Arrival(msgspec.Struct, frozen=True):
    """A request as it arrives.

    user: None if it could not be authenticated
    uri: path and query, as sent
    received_us: Unix time
    """

    attributes: AccessAttributes
    user: UserInfo | None
    uri: str
    received_us: int
    source_ips: tuple[str, ...] = ()
    user_agent: str = ""


class Record:
    """The record of one request, which grows while the request is served.

    annotations: for the server and its plugins, see `annotate`
    """

    def __init__(self, names: Names, ident: str, scope: Scope, arrival: Arrival) -> None:
        self.ident = ident
        self.scope = scope
        self.annotations: dict[str, str] = {}
        self._names = names
        self._arrival = arrival
        self._impersonated: UserInfo | None = None
        self._reference = _reference(arrival.attributes)
        self._status: Obj | None = None
        self._request_object: Any = None
        self._response_object: Any = None

    @property
    def uri(self) -> str:
        """Path and query of the request."""
        return self._arrival.uri

    @property
    def is_long_running(self) -> bool:
        """True if the response may have no end of its own, so that its start is a stage."""
        asked = self._arrival.attributes
        return asked.verb in LONG_VERBS or asked.subresource in LONG_SUBRESOURCES

    @property
    def answered(self) -> bool:
        """True once the status of the response is known."""
        return self._status is not None

    # --- what becomes known -----------------------------------------------------------------------

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Add annotations."""
        for key, value in annotations.items():
            self.annotations.setdefault(key, value)

    def impersonate(self, user: UserInfo) -> None:
        """The user that the request acts as."""
        self._impersonated = user

    def request_body(self, body: Any, verb: Verb) -> None:
        """The body of a write: an object, options of a deletion, or a patch."""
        if body is None or self.scope.level < Level.METADATA:
            return
        try:
            value = msgspec.json.decode(body) if isinstance(body, bytes | str) else body
        except (msgspec.DecodeError, RecursionError):
            return  # the request is refused, and nothing was read of it
        if not isinstance(value, dict) and verb != "patch":
            return
        if verb != "patch":
            self._complete_reference(value)
            if self.scope.omits_managed_fields:
                value = _without_managed(value)
        if self.scope.level >= Level.REQUEST:
            self._request_object = value

    def _complete_reference(self, obj: Obj) -> None:
        metadata = obj.get("metadata")
        if self._reference is None or not isinstance(metadata, dict):
            return
        for field in ("namespace", "name", "uid", "resourceVersion"):
            value = metadata.get(field)
            if value and isinstance(value, str):
                self._reference.setdefault(field, value)

    def respond(self, reply: Reply, resource: Resource | None) -> None:
        """The reply of a request.  resource: that of the objects in the reply"""
        self._status = {"metadata": {}}
        body = reply.body
        if isinstance(body, dict) and body.get("kind") == "Status":
            self._status |= {field: body[field] for field in _STATUS_FIELDS if body.get(field)}
        self._status["code"] = reply.code
        if self.scope.level >= Level.REQUEST_RESPONSE and self._reference is not None:
            self._response_object = _object_of(reply, resource, self.scope.omits_managed_fields)

    def respond_code(self, code: int, message: str = "") -> None:
        """The status of a response without an object."""
        self._status = {"metadata": {}, **({"message": message} if message else {}), "code": code}

    def close_early(self) -> None:
        """The client has left before there was a response."""
        if self._status is None:
            self._status = {"metadata": {}, "status": "Success", "message": CLOSED_EARLY, "code": 200}

    def panic(self, text: str) -> None:
        """The server has failed."""
        self._status = {
            "metadata": {},
            "status": "Failure",
            "message": f"APIServer panic'd: {text}",
            "reason": "InternalError",
            "code": 500,
        }

    # --- stages -----------------------------------------------------------------------------------

    def event(self, stage: Stage, at_us: int, storage_us: int = 0) -> Obj | None:
        """The event of a stage; None if the policy omits it.

        storage_us: how long the request waited for the storage
        """
        if stage in self.scope.omitted_stages:
            return None
        arrival = self._arrival
        if stage == COMPLETE and arrival.attributes.verb != "watch":
            self._note_latency(at_us - arrival.received_us, storage_us)
        found = {
            "kind": "Event",
            "apiVersion": self._names.api_version(GROUP, VERSION),
            "level": LEVEL_TEXTS[self.scope.level],
            "auditID": self.ident,
            "stage": stage,
            "requestURI": arrival.uri,
            "verb": arrival.attributes.verb,
            "user": _user(arrival.user),
            "impersonatedUser": _user(self._impersonated) if self._impersonated is not None else None,
            "sourceIPs": list(arrival.source_ips) or None,
            "userAgent": _agent(arrival.user_agent) or None,
            "objectRef": None if self._reference is None else _ordered(self._reference),
            "responseStatus": self._status,
            "requestObject": self._request_object,
            "responseObject": self._response_object,
            "requestReceivedTimestamp": format_micro_time(arrival.received_us),
            "stageTimestamp": format_micro_time(arrival.received_us if stage == RECEIVED else at_us),
            "annotations": dict(sorted(self.annotations.items())) or None,
        }
        return {key: value for key, value in found.items() if value is not None}

    def _note_latency(self, taken_us: int, storage_us: int) -> None:
        if taken_us > SLOW_US and storage_us:
            prefix = f"apiserver.latency.{self._names.group_domain}"
            self.annotate(
                {
                    f"{prefix}/{self._names.check_storage}": format_duration(storage_us),
                    f"{prefix}/total": format_duration(taken_us),
                }
            )


# --- annotations ----------------------------------------------------------------------------------


def decision_annotations(names: Names, opinion: Opinion) -> dict[str, str]:
    """The annotations of an authorizer's opinion (filters/authorization.go)."""
    group = names.group("authorization")
    allowed = opinion.decision is Decision.ALLOW
    return {f"{group}/decision": "allow" if allowed else "forbid", f"{group}/reason": opinion.reason}


def deprecation_annotations(names: Names, resource: Resource | None) -> dict[str, str]:
    """The annotations of a request for a version that is deprecated."""
    if resource is None or resource.lifecycle is None:
        return {}
    domain = names.group_domain
    found = {f"{domain}/deprecated": "true"}
    if resource.lifecycle.removed:
        found[f"{domain}/removed-release"] = f"1.{resource.lifecycle.removed}"
    return found


def unstored(uri: str) -> str:
    """The text of the answer (500) to a request if its first event could not be stored."""
    return f'Internal Server Error: "{uri}": failed to store audit event'


def attempted(headers: Iterable[tuple[str, str]], query: Mapping[str, str], certificate: bool) -> str:
    """What a request without a valid credential offered (authn_audit.go, getAuthMethods)."""
    authorization = next((value for name, value in headers if name == "authorization"), "").strip()
    scheme, _, rest = authorization.partition(" ")
    offered = {
        "basic": scheme.lower() == "basic" and bool(rest),
        "bearer": scheme.lower() == "bearer" and bool(rest),
        "access_token": bool(query.get("access_token", "").strip()),
        "x509": certificate,
    }
    methods = [name for name, found in offered.items() if found]
    if not methods:
        return "Authentication failed, no credentials provided"
    return f"Authentication failed, attempted: {', '.join(methods)}"


# --- parts of an event ----------------------------------------------------------------------------

_REFERENCE = (
    "resource",
    "namespace",
    "name",
    "uid",
    "apiGroup",
    "apiVersion",
    "resourceVersion",
    "subresource",
)


def _reference(asked: AccessAttributes) -> Obj | None:
    if not asked.is_resource:
        return None
    fields = {
        "resource": asked.resource,
        "namespace": asked.namespace,
        "name": asked.name,
        "apiGroup": asked.group,
        "apiVersion": asked.version,
        "subresource": asked.subresource,
    }
    return {key: value for key, value in fields.items() if value}


def _ordered(reference: Obj) -> Obj:
    return {field: reference[field] for field in _REFERENCE if field in reference}


def _user(user: UserInfo | None) -> Obj:
    if user is None:
        return {}
    found: Obj = {"username": user.name} if user.name else {}
    if user.uid:
        found["uid"] = user.uid
    if user.groups:
        found["groups"] = list(user.groups)
    if user.extra:
        found["extra"] = {key: list(user.extra[key]) for key in sorted(user.extra)}
    return found


def _agent(text: str) -> str:
    return text if len(text) <= AGENT_MAX else text[:AGENT_MAX] + AGENT_CUT


def _object_of(reply: Reply, resource: Resource | None, omits_managed: bool) -> Any:
    if reply.item is not None:
        return _shown(reply.item, resource, omits_managed)
    if reply.items is not None:
        metadata: Obj = {"resourceVersion": str(reply.revision)}
        if reply.more:
            metadata["continue"] = reply.more
        if reply.remaining is not None:
            metadata["remainingItemCount"] = reply.remaining
        head = (
            {}
            if resource is None
            else {"kind": resource.naming.list_kind, "apiVersion": resource.api_version}
        )
        items = [_shown(item, None, omits_managed) for item in reply.items]
        return {**head, "metadata": metadata, "items": items}
    body = reply.body
    if isinstance(body, dict):
        return _without_managed(body) if omits_managed else body
    return None


def _shown(item: Item, resource: Resource | None, omits_managed: bool) -> Obj:
    obj = item.obj
    if item.managed and not omits_managed:
        metadata = {**obj["metadata"], "managedFields": managed.render(item.managed, obj)}
        obj = {**obj, "metadata": metadata}
    head = {} if resource is None else {"kind": resource.kind, "apiVersion": resource.api_version}
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    return {**head, **rest}


def _without_managed(obj: Obj) -> Obj:
    """An object, or a list of objects, without managedFields."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        obj = {**obj, "metadata": {key: metadata[key] for key in metadata if key != "managedFields"}}
    items = obj.get("items")
    if isinstance(items, list):
        obj = {**obj, "items": [_without_managed(each) if isinstance(each, dict) else each for each in items]}
    return obj


__all__ = ["COMPLETE", "PANIC", "RECEIVED", "STARTED", "Arrival", "Record"]
