"""Bodies of requests for custom resources, as objects in the shape of their definition's schema.

The body of a POST or PUT, or the result of a patch, becomes a pruned and defaulted object.

Holds: warnings are sent even if the request is refused.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/customresource_handler.go
         (unstructuredNegotiatedSerializer, unstructuredSchemaCoercer).
"""

from __future__ import annotations

import msgspec

from sim.api.crd.objects import shaped
from sim.api.crd.served import CustomResource
from sim.api.crd.structural_values import BadPart
from sim.api.refusals import Refusal, bad_request
from sim.api.schema import field_validation as fieldvalidation
from sim.api.schema.decoding import lines_of
from sim.api.schema.field_validation import IGNORE, STRICT
from sim.api.schema.json_text import parse_noting_twice, summarize, unread_head
from sim.api.types import Json, Obj
from sim.api.verbs.call import Call


def decode(call: Call, resource: CustomResource) -> Obj:
    """The body of a POST or PUT as an object; validation judges its kind later."""
    body: Json = call.request.body
    raw = bytes(body or b"") if body is None or isinstance(body, bytes | bytearray) else None
    value = body
    if raw is not None:
        try:
            value = parse_noting_twice(raw.decode("utf-8", "replace"))
        except ValueError as error:
            raise _unrecognized(resource, unread_head(str(error)), raw) from None
    shown = msgspec.json.encode(value) if raw is None else raw
    value = _headed(resource, value, shown)
    try:
        obj, problems = shaped(resource, value)
    except BadPart as error:
        raise bad_request(f"{_cannot(resource)}{error}") from None
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    directive, repeated = call.field_validation, call.request.repeated
    if (repeated or problems) and directive == STRICT:
        listed = [repeated, *problems] if repeated else problems
        raise bad_request(f"{_cannot(resource)}strict decoding error: {', '.join(listed)}")
    if directive != IGNORE:
        call.warnings += [*lines_of(repeated), *problems]
    if (group, version) != (resource.group, resource.version):
        raise bad_request(
            f"the API version in the data ({obj.get('apiVersion') or ''}) does not match the expected API version "
            f"({resource.api_version})"
        )
    return obj


def _cannot(resource: CustomResource) -> str:
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '


def _unrecognized(resource: CustomResource, why: str, raw: bytes) -> Refusal:
    return bad_request(
        f"the object provided is unrecognized (must be of type {resource.kind}): {why} ({summarize(raw)})"
    )


def _headed(resource: CustomResource, value: Json, raw: bytes) -> Obj:
    """The body, checked to have a kind."""
    if value is not None and (problem := fieldvalidation.head_problem(value)):
        raise _unrecognized(resource, problem, raw)
    if not value or not value.get("kind"):
        whole = raw.decode("utf-8", "replace")
        raise _unrecognized(resource, f"Object 'Kind' is missing in '{whole}'", raw)
    found: Obj = value
    return found


def conform(resource: CustomResource, obj: Json) -> tuple[Obj, list[str], str]:
    """The result of a patch in stored form, its unknown fields, and why it is not an object ("" if
    it is).
    """
    if not isinstance(obj, dict):
        return (
            {},
            [],
            f"json: cannot unmarshal {fieldvalidation.go_kind(obj)} into Go value of type map[string]interface {{}}",
        )
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or not kind:
        return {}, [], "Object 'Kind' is missing"
    if version is not None and not isinstance(version, str):
        return {}, [], "apiVersion must be a string"
    try:
        made, problems = shaped(resource, obj)
    except BadPart as error:
        return {}, [], str(error)
    if not version:
        text_of = "Object 'apiVersion' is missing in 'object has no apiVersion field'"
        raise Refusal(
            500, "InternalError", f"Internal error occurred: {text_of}", {"causes": [{"message": text_of}]}
        )
    return made, problems, ""
