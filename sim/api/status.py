"""Status bodies: every refusal of the API with upstream's exact words.

Turns what went wrong into the JSON body of the answer; its `code` is the HTTP status.

Mirrors  apimachinery v1.25 pkg/api/errors/errors.go, apiserver pkg/storage/errors/storage.go,
         pkg/endpoints/handlers/{responsewriters/errors,negotiation/errors}.go.
Differs  an answer holds the first `CAUSES_MAX` errors, or as many as `CAUSES_LETTERS_MAX` has room for; upstream's holds all,
         which for a body of 1 MB with 60,000 bad labels are 59 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sim.api.schema.json_text import go_quote
from sim.api.schema.resource import Resource

Body = dict[str, Any]
CAUSES_MAX, CAUSES_LETTERS_MAX = 1_000, 1 << 20  # of one 422
# Plain text of a 500 for a defect of the server: apiserver pkg/server/filters/wrap.go.
PANIC = "This request caused apiserver to panic. Look in the logs for details.\n"


class Cause(Protocol):
    """One field error.  `message` is without the field: 'Invalid value: "x": must be y'."""

    @property
    def field(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...


def status(code: int, reason: str, message: str, details: Body | None = None) -> Body:
    """A failure.  Where upstream has no details (None) the member is missing; {} is answered as {}."""
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


# --- about one object -------------------------------------------------------------------------------------


def not_found(resource: Resource, name: str, subresource: str = "") -> Body:
    message = f"{_qualified(resource, subresource)} {go_quote(name)} not found"
    return status(404, "NotFound", message, _details(resource, name, subresource))


def apply_conflict(conflicts: Sequence[tuple[str, str]], message: str) -> Body:
    """Server-side apply against other managers: (field, conflict text) each, and the summary."""
    causes = [
        {"reason": "FieldManagerConflict", "message": text, "field": field} for field, text in conflicts
    ]
    return status(409, "Conflict", message, {"causes": causes})


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> Body:
    """422.  Quirk: the message merges equal errors, the list of causes keeps them."""
    causes = _first(causes)
    qualified = f"{kind}.{group}" if group else kind
    texts = list(dict.fromkeys(_cause_text(cause) for cause in causes))
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
    """The causes that an answer has room for; one at least."""
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


def invalid_object(resource: Resource, name: str, causes: Sequence[Cause]) -> Body:
    # Quirk: an Event is of the core group there, through whichever group it came.
    # Quirk: Ingresses and NetworkPolicies are of the group there that they began in.
    group = "" if resource.short_group == "events" else resource.group
    if resource.rule in ("ingresses", "networkpolicies"):
        group = "extensions"
    return invalid(group, resource.kind, name, causes)


def forbidden(
    resource: Resource, name: str, why: str, causes: Sequence[Body] = (), subresource: str = ""
) -> Body:
    """403; without a name the message names the resource only, and without a resource nothing."""
    qualified = _qualified(resource, subresource)
    named = (
        f"{qualified} {go_quote(name)} is forbidden: {why}" if name else f"{qualified} is forbidden: {why}"
    )
    details = _details(resource, name, subresource)
    if causes:
        details["causes"] = list(causes)
    return status(403, "Forbidden", named, details)


def forbidden_path(message: str) -> Body:
    """403 on a URL that is no resource, or on an unknown one."""
    return status(403, "Forbidden", f"forbidden: {message}", {})


# --- about a request --------------------------------------------------------------------------------------


def bad_request(message: str) -> Body:
    return status(400, "BadRequest", message)


def unauthorized() -> Body:
    return status(401, "Unauthorized", "Unauthorized")


def unknown_resource() -> Body:
    """404 for a version or resource of a known group that does not exist."""
    return status(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> Body:
    return status(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
    )


def not_supported(resource: Resource, verb: str) -> Body:
    """405 of a kind that knows the URL, but not the verb."""
    message = f'{verb} is not supported on resources of kind "{resource.group_resource}"'
    return status(405, "MethodNotAllowed", message, _details(resource, ""))


def not_acceptable(accepted: Sequence[str]) -> Body:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return status(406, "NotAcceptable", message)


def unsupported_media_type(accepted: Sequence[str]) -> Body:
    """A body in a form the server cannot read."""
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return status(415, "UnsupportedMediaType", message)


def unsupported_patch() -> Body:
    """A patch of an unknown content type, refused before the resource sees it."""
    return status(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def too_large(message: str = "Request entity too large: limit is 3145728") -> Body:
    return status(413, "RequestEntityTooLarge", message)


def expired(message: str, more: str = "") -> Body:
    """410.  `more`: the token to go on with, inconsistently, after an expired continue token."""
    body = status(410, "Expired", message)
    if more:
        body["metadata"] = {"continue": more}
    return body


def too_old(wanted: int, floor: int) -> Body:
    """A watch or list at a revision the cache no longer has."""
    return expired(f"too old resource version: {wanted} ({floor})")


def compacted(verb: str) -> Body:
    """A list or watch at a revision the store has compacted away."""
    return expired(f"The resourceVersion for the provided {verb} is too old.")


CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


def continue_expired(more: str) -> Body:
    return expired(CONTINUE_EXPIRED, more)


def timeout(message: str, retry_after_s: int = 0) -> Body:
    details: Body = {"retryAfterSeconds": retry_after_s} if retry_after_s else {}
    return status(504, "Timeout", f"Timeout: {message}", details)


def revision_too_large(wanted: int, current: int, retry_after_s: int = 1) -> Body:
    """504: the replica has not seen that revision yet.  The store itself gives no time to come back after."""
    details: Body = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    }
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return status(
        504, "Timeout", f"Timeout: Too large resource version: {wanted}, current: {current}", details
    )


def too_many_requests(message: str, retry_after_s: int = 0, causes: Sequence[Body] = ()) -> Body:
    details: Body = {"causes": list(causes)} if causes else {}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return status(429, "TooManyRequests", message, details)


def internal_error(message: str) -> Body:
    text = f"Internal error occurred: {message}"
    return status(500, "InternalError", text, {"causes": [{"message": message}]})


def plain_error(message: str) -> Body:
    """500 without reason: an error upstream does not know as an API error (garbage versions, broken bodies)."""
    return status(500, "", message)


def service_unavailable(message: str) -> Body:
    return status(503, "ServiceUnavailable", message)
