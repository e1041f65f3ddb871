"""AdmissionReviews: the request that a webhook gets, and its answer, checked.

Turns an invocation and the objects into a `Question`, and the answer into a `Verdict` or a
failure.

Mirrors  kubernetes v1.25 apiserver pkg/admission/plugin/webhook/request/admissionreview.go,
         pkg/admission/plugin/webhook/errors/statuserror.go; apimachinery pkg/util/webhook.
Differs  objects in reviews have no managedFields.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple

from sim.api.admission.base import Attributes, Denial
from sim.api.admission.webhooks.hooks import Invocation
from sim.api.schema.json_text import go_quote
from sim.api.store import Question
from sim.api.types import Obj
from sim.ident import Names
from sim.units import SECOND

VERSIONS = ("v1", "v1beta1")
DEFAULT_TIMEOUT_S, DEFAULT_PORT = 10, 443
_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "delete": "DeleteOptions"}


class Verdict(NamedTuple):
    """The valid answer of a webhook."""

    allowed: bool
    patch: bytes
    patch_type: str
    result: Obj | None
    warnings: tuple[str, ...]
    annotations: Mapping[str, str]


class Shown(NamedTuple):
    """The objects of a request in the version that a webhook gets; None where there is none."""

    obj: Obj | None
    old: Obj | None


def version_of(invocation: Invocation) -> str:
    """The first version of AdmissionReview that webhook and server know; "" if there is none."""
    given = invocation.hook.spec.get("admissionReviewVersions") or ()
    return next((version for version in given if version in VERSIONS), "")


def question_of(
    invocation: Invocation,
    attributes: Attributes,
    shown: Shown,
    options: Obj | None,
    uid: str,
    names: Names,
    kind: str,
) -> Question:
    """What a webhook is asked.

    options: of the operation, as `operation_options` gives them
    kind: "admit" or "validating"
    """
    spec = invocation.hook.spec
    client = spec.get("clientConfig") or {}
    service = client.get("service")
    address = None
    if service is not None:
        port = service.get("port", DEFAULT_PORT)
        address = (service["namespace"], service["name"], service.get("path") or "", port)
    body = {
        "apiVersion": names.api_version("admission", version_of(invocation)),
        "kind": "AdmissionReview",
        "request": _request(invocation, attributes, shown, options, uid),
    }
    timeout_us = spec.get("timeoutSeconds", DEFAULT_TIMEOUT_S) * SECOND
    authorities = client.get("caBundle") or ""
    hook = invocation.hook
    return Question(
        hook.name,
        client.get("url", ""),
        address,
        body,
        timeout_us,
        authorities,
        kind=kind,
        fails_open=hook.ignores_failures,
    )


def _request(
    invocation: Invocation,
    attributes: Attributes,
    shown: Shown,
    options: Obj | None,
    uid: str,
) -> Obj:
    asked, given, sub = attributes.resource, invocation.resource, attributes.subresource
    user = attributes.user
    request: Obj = {"uid": uid, "kind": _kind(given, sub), "resource": _resource(given)}
    if sub:
        request["subResource"] = sub
    request |= {"requestKind": _kind(asked, sub), "requestResource": _resource(asked)}
    if sub:
        request["requestSubResource"] = sub
    namespace = attributes.namespace
    if asked.rule == "namespaces":
        namespace = attributes.name
    request |= {key: value for key, value in (("name", attributes.name), ("namespace", namespace)) if value}
    fields = (
        ("username", user.name),
        ("uid", user.uid),
        ("groups", list(user.groups)),
        ("extra", {key: list(values) for key, values in user.extra.items()}),
    )
    return {
        **request,
        "operation": attributes.operation.upper(),
        "userInfo": {key: value for key, value in fields if value},
        "object": shown.obj,
        "oldObject": shown.old,
        "dryRun": attributes.dry_run,
        "options": options,
    }


def operation_options(
    attributes: Attributes, query: Mapping[str, str], of_deletion: Obj | None, names: Names
) -> Obj | None:
    """The options of an operation; a connection has none.

    of_deletion: the fields of DeleteOptions
    """
    if attributes.operation == "connect":
        return None
    made: Obj = {"kind": _OPTIONS[attributes.operation], "apiVersion": names.api_version("meta", "v1")}
    if attributes.operation == "delete":
        return {**made, **(of_deletion or {})}
    made |= {key: query[key] for key in ("fieldManager", "fieldValidation") if query.get(key)}
    if attributes.dry_run:
        made["dryRun"] = ["All"]
    return made


def _kind(resource: Any, subresource: str) -> Obj:
    sub = resource.subresource(subresource) if subresource else None
    if sub is None or not sub.version:
        kind = resource.kind if sub is None else sub.kind
        return {"group": resource.group, "version": resource.version, "kind": kind}
    return {"group": sub.group, "version": sub.version, "kind": sub.kind}


def _resource(resource: Any) -> Obj:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


# --- answers --------------------------------------------------------------------------------------


def verdict_of(answer: Obj, question: Question, mutating: bool) -> Verdict:
    """The answer of a webhook; raises ValueError with upstream's text if it is not valid.

    answer: as `decoded_review` gives it
    """
    response, version = answer.get("response"), question.body["apiVersion"]
    if response is None:
        raise ValueError("webhook response was absent")
    is_v1 = version.endswith("/v1")
    patch, patch_type = b64decode(response.get("patch") or ""), response.get("patchType")
    if is_v1:
        uid = question.body["request"]["uid"]
        if response.get("uid") != uid:
            given = go_quote(str(response.get("uid", "")))
            raise ValueError(f"expected response.uid={go_quote(uid)}, got {given}")
        found = f"{answer.get('apiVersion') or '/'}, Kind={answer.get('kind') or ''}"
        wanted = f"{version}, Kind=AdmissionReview"
        if found != wanted:
            raise ValueError(f"expected webhook response of {wanted}, got {found}")
        _check_patch(patch, patch_type, mutating)
    elif patch:
        patch_type = "JSONPatch"
    return Verdict(
        bool(response.get("allowed")),
        patch if mutating else b"",
        patch_type or "",
        response.get("status"),
        tuple(response.get("warnings") or ()),
        response.get("auditAnnotations") or {},
    )


def _check_patch(patch: bytes, patch_type: str | None, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise ValueError("validating webhook may not return response.patch")
        if patch_type is not None:
            raise ValueError("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise ValueError("webhook returned response.patch but not response.patchType")
    elif patch_type is not None and not patch:
        raise ValueError("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise ValueError('webhook returned invalid response.patchType of ""')


# --- refusals -------------------------------------------------------------------------------------

BAD_REQUEST = 400


def rejection(name: str, result: Obj | None) -> Denial:
    """The refusal of a request that a webhook denied."""
    result = result or {}
    code = result.get("code") or 0
    denied = f"admission webhook {go_quote(name)} denied the request"
    message, reason = result.get("message") or "", result.get("reason") or ""
    if message or reason:
        text = f"{denied}: {message or reason}"
    else:
        text = f"{denied} without explanation"
    return Denial(max(code, BAD_REQUEST), reason, text, result.get("details"))


def dry_run_unsupported(name: str) -> Denial:
    """The refusal of a dry run that a webhook with side effects would see."""
    text = f"admission webhook {go_quote(name)} does not support dry run"
    return Denial(BAD_REQUEST, "BadRequest", text, None)


def call_failure(name: str, text: str) -> str:
    """The text of a call that failed."""
    return f"failed calling webhook {go_quote(name)}: {text}"
