"""Status bodies: every refusal of the API in upstream's exact words.

Each function makes the JSON body of one kind of failure; its `code` is the HTTP status.

Mirrors  apimachinery v1.25 pkg/api/errors/errors.go, apiserver pkg/storage/errors/storage.go,
         pkg/endpoints/handlers/{responsewriters/errors,negotiation/errors}.go.
Differs  a body holds the first `CAUSES_MAX` errors, or as many as fit in `CAUSES_LETTERS_MAX`;
         upstream's holds all, which for a request of 1 MB with 60,000 invalid labels are 59 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sim.api.refusals import GENERIC as GENERIC
from sim.api.refusals import generic as generic
from sim.api.schema.json_text import go_quote
from sim.api.schema.resource import Resource

Body = dict[str, Any]
CAUSES_MAX, CAUSES_LETTERS_MAX = 1_000, 1 << 20  # of one 422
# Plain text of a 500 for a defect of the server: apiserver pkg/server/filters/wrap.go.
PANIC = "This request caused apiserver to panic. Look in the logs for details.\n"


class Cause(Protocol):
    """One field error. `message` omits the field: 'Invalid value: "x": must be y'."""

    @property
    def field(self) -> str:
        """The path of the field."""

    @property
    def reason(self) -> str:
        """The machine-readable reason."""

    @property
    def message(self) -> str:
        """The text after the field."""


def status(code: int, reason: str, message: str, details: Body | None = None) -> Body:
    """A failure. `details` None: the member is absent, as in some of upstream's bodies; {} is kept."""
    body: Body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    body["code"] = code
    return body


_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def generic_response(
    code: int,
    said: str,
    *,
    method: str = "",
    group: str = "",
    resource: str = "",
    name: str = "",
    retry_after_s: int = 0,
    causes: Sequence[str] = (),
) -> Body:
    """The failure that stands for an answer without a Status (NewGenericServerResponse).

    said: the text of the answer, "unknown" if that cannot be shown
    method, group, resource, name: what was asked for; resource: "" for a path that is no resource
    causes: the reasons of causes; the message of each is the text
    """
    reason, message = _REASONS.get(code, "InternalError" if code >= 500 else ""), generic(code, said)
    if code == 409 and method == "POST":
        reason = "AlreadyExists"
    if resource:
        qualified = f"{resource}.{group}" if group else resource
        message += f" ({method.lower()} {qualified}{' ' if name else ''}{name})"
    details: Body = {"name": name, "group": group, "kind": resource, "retryAfterSeconds": retry_after_s}
    shown = {key: value for key, value in details.items() if value}
    if causes:
        shown["causes"] = [{"reason": each, "message": said} if said else {"reason": each} for each in causes]
    return status(code, reason, message, shown)


def _details(resource: Resource, name: str, subresource: str = "") -> Body:
    details: Body = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return details


def _qualified(resource: Resource, subresource: str = "") -> str:
    """ "deployments.apps", "deployments/scale.apps": GroupResource.String."""
    if not subresource:
        return resource.group_resource
    plural = f"{resource.plural}/{subresource}"
    return f"{plural}.{resource.group}" if resource.group else plural


# --- about one object -----------------------------------------------------------------------------


def not_found(resource: Resource, name: str, subresource: str = "") -> Body:
    """404 for an object or subresource."""
    message = f"{_qualified(resource, subresource)} {go_quote(name)} not found"
    return status(404, "NotFound", message, _details(resource, name, subresource))


def apply_conflict(conflicts: Sequence[tuple[str, str]], message: str) -> Body:
    """409 of a server-side apply: (field, text) of each conflict, and the summary."""
    causes = [
        {"reason": "FieldManagerConflict", "message": text, "field": field} for field, text in conflicts
    ]
    return status(409, "Conflict", message, {"causes": causes})


_PATH = "(*field.Path)("


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> Body:
    """422. Quirk: the message merges equal errors, the list of causes keeps them; errors that show
    a path are never equal, as each has a path of its own at another address.
    """
    causes = _first(causes)
    qualified = f"{kind}.{group}" if group else kind
    texts: list[str] = []
    known: set[str] = set()
    for text in map(_cause_text, causes):
        if text not in known or _PATH in text:
            texts.append(text)
            known.add(text)
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f"{qualified} {go_quote(name)} is invalid"
    if texts:
        message += f": {summary}"
    details: Body = {"name": name} if name else {}
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    if causes:
        details["causes"] = [_cause_body(cause) for cause in causes]
    return status(422, "Invalid", message, details)


def _first(causes: Sequence[Cause]) -> list[Cause]:
    """The causes that fit in one body; at least one."""
    found: list[Cause] = []
    letters = 0
    for cause in causes[:CAUSES_MAX]:
        found.append(cause)
        letters += len(cause.field) + len(cause.message)
        if letters > CAUSES_LETTERS_MAX:
            break
    return found


def _cause_text(cause: Cause) -> str:
    return f"{cause.field or '<nil>'}: {cause.message}"


def _cause_body(cause: Cause) -> Body:
    return {"reason": cause.reason, "message": cause.message, "field": cause.field or "<nil>"}


def error_group(resource: Resource) -> str:
    """The group of the kind in messages about its objects.

    Quirk: an Event belongs to the core group here, also if it was sent to the other one; Ingresses
    and NetworkPolicies belong to the group in which they were introduced (`Kind.errors_in`).
    """
    named = resource.behavior.errors_in
    return resource.group if named is None else named


def invalid_object(resource: Resource, name: str, causes: Sequence[Cause]) -> Body:
    """422 for an object of a resource."""
    return invalid(error_group(resource), resource.kind, name, causes)


def forbidden(
    resource: Resource, name: str, why: str, causes: Sequence[Body] = (), subresource: str = ""
) -> Body:
    """403; without a name the message names the resource only."""
    qualified = _qualified(resource, subresource)
    named = (
        f"{qualified} {go_quote(name)} is forbidden: {why}" if name else f"{qualified} is forbidden: {why}"
    )
    details = _details(resource, name, subresource)
    if causes:
        details["causes"] = list(causes)
    return status(403, "Forbidden", named, details)


def forbidden_resource(group: str, plural: str, name: str, why: str) -> Body:
    """As `forbidden`, for a resource that may not exist."""
    qualified = f"{plural}.{group}" if group else plural
    named = f"{qualified} {go_quote(name)}" if name else qualified
    details: Body = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = plural
    return status(403, "Forbidden", f"{named} is forbidden: {why}", details)


def forbidden_path(message: str) -> Body:
    """403 for a URL that is not a resource, or for an unknown one."""
    return status(403, "Forbidden", f"forbidden: {message}", {})


# --- about a request ------------------------------------------------------------------------------


def bad_request(message: str) -> Body:
    """400."""
    return status(400, "BadRequest", message)


def unauthorized() -> Body:
    """401."""
    return status(401, "Unauthorized", "Unauthorized")


def unknown_resource() -> Body:
    """404 for a version or resource of a known group that does not exist."""
    return status(404, "NotFound", GENERIC[404], {})


def method_not_allowed() -> Body:
    """405 for a URL that does not support the method."""
    return status(405, "MethodNotAllowed", GENERIC[405], {})


def not_supported(resource: Resource, verb: str) -> Body:
    """405 for a kind that does not support the verb."""
    message = f'{verb} is not supported on resources of kind "{resource.group_resource}"'
    return status(405, "MethodNotAllowed", message, _details(resource, ""))


def not_acceptable(accepted: Sequence[str]) -> Body:
    """406 with the media types that the server can send."""
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return status(406, "NotAcceptable", message)


def unsupported_media_type(accepted: Sequence[str]) -> Body:
    """415 for a body that the server cannot read."""
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return status(415, "UnsupportedMediaType", message)


def unsupported_patch() -> Body:
    """415 for a patch of unknown content type, refused before the resource handles it."""
    return status(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


_OF_ROUTE = ("406: ", "415: ")


def is_of_route(body: Body) -> bool:
    """True for a refusal by the route (go-restful), which nothing that handles the request sees."""
    return str(body.get("message", "")).startswith(_OF_ROUTE)


def no_representation() -> Body:
    """406 for a patch of unknown content type without a body.

    Quirk: go-restful (jsr311.go: detectRoute) compares the Accept header with the routes that are
    left, and none is.
    """
    return status(406, "NotAcceptable", "406: Not Acceptable\n\nAvailable representations: ", {})


def too_large(message: str = "Request entity too large: limit is 3145728") -> Body:
    """413."""
    return status(413, "RequestEntityTooLarge", message)


def expired(message: str, more: str = "") -> Body:
    """410. `more`: the token of an inconsistent continuation, after an expired continue token."""
    body = status(410, "Expired", message)
    if more:
        body["metadata"] = {"continue": more}
    return body


def too_old(wanted: int, floor: int) -> Body:
    """410 for a watch or list at a revision that the cache no longer has."""
    return expired(f"too old resource version: {wanted} ({floor})")


def compacted(verb: str) -> Body:
    """410 for a list or watch at a revision that the store has compacted."""
    return expired(f"The resourceVersion for the provided {verb} is too old.")


CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


def continue_expired(more: str) -> Body:
    """410 for an expired continue token."""
    return expired(CONTINUE_EXPIRED, more)


def timeout(message: str, retry_after_s: int = 0) -> Body:
    """504."""
    details: Body = {"retryAfterSeconds": retry_after_s} if retry_after_s else {}
    return status(504, "Timeout", f"Timeout: {message}", details)


def revision_too_large(wanted: int, current: int, retry_after_s: int = 1) -> Body:
    """504 for a revision that the server has not seen yet.

    retry_after_s: 0 in answers of the store itself, which give no time
    """
    details: Body = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    }
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return status(
        504, "Timeout", f"Timeout: Too large resource version: {wanted}, current: {current}", details
    )


def too_many_requests(message: str, retry_after_s: int = 0, causes: Sequence[Body] = ()) -> Body:
    """429."""
    details: Body = {"causes": list(causes)} if causes else {}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return status(429, "TooManyRequests", message, details)


def internal_error(message: str) -> Body:
    """500 with the reason InternalError."""
    text = f"Internal error occurred: {message}"
    return status(500, "InternalError", text, {"causes": [{"message": message}]})


def plain_error(message: str) -> Body:
    """500 without a reason: an error that upstream does not treat as an API error."""
    return status(500, "", message)


def service_unavailable(message: str) -> Body:
    """503."""
    return status(503, "ServiceUnavailable", message)
