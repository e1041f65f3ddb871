"""Bodies of requests as objects of the expected kind.

The body of a POST or PUT, or the result of a patch, becomes a well-typed object. Problems become
warnings or a refusal. Objects of the simulation's own processes are well-typed and pass unchanged.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/{create,update,patch}.go (decoding).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from sim.api.crd.served import CustomResource
from sim.api.raw_text import with_text
from sim.api.refusals import Refusal, bad_request
from sim.api.schema import decoding
from sim.api.schema import field_validation as fieldvalidation
from sim.api.schema.json_text import TooLargeNumber, go_quote, parse, parse_noting_twice, plain
from sim.api.schema.resource import Resource
from sim.api.status import invalid
from sim.api.types import Json, Obj
from sim.api.verbs import custom_body
from sim.api.verbs.call import Call
from sim.dataclass import dataclass
from sim.ident import Names


@dataclass(frozen=True, slots=True)
class Patched:
    """What the refusal of a patched object needs.

    shown: makes the text of the object
    wrong: the converter's error, "" for none
    problems: duplicate fields of the patch itself
    converted: True if the object was converted from a map and not decoded from a text, so that its
        version and kind do not matter
    """

    shown: Callable[[], str]
    wrong: str
    problems: list[str]
    converted: bool = False


@lru_cache(maxsize=64)
def subresource_kind(names: Names, resource: Resource, subresource: str) -> Resource:
    """The kind of a subresource's bodies as a resource; the resource itself if they are of its
    kind.
    """
    sub = resource.subresource(subresource)
    if sub is None or sub.kind == resource.kind:
        return resource
    if resource.custom:  # the definition does not describe a Scale
        resource = Resource(**{field.name: getattr(resource, field.name) for field in fields(Resource)})
    return replace(
        resource,
        custom=False,
        group=sub.group,
        version=sub.version or resource.version,
        kind=sub.kind,
        short_group=sub.group.partition(".")[0],
        upstream_group=names.upstream_group(sub.group),
        api_version=f"{sub.group}/{sub.version}" if sub.group else resource.version,
    )


def body_kind(call: Call) -> Resource:
    """The expected kind of the body of a call to a subresource."""
    return subresource_kind(call.registry.names, call.resource, call.request.subresource or "binding")


def decode(call: Call, resource: Resource) -> Obj:
    """The body of a POST or PUT as an object of the resource's kind."""
    if isinstance(resource, CustomResource):
        return custom_body.decode(call, resource)
    body: Json = call.request.body
    if resource.kind == "Eviction":
        body = _newer_eviction(resource, body)
    trusted = not call.unchecked and fieldvalidation.has_sections(resource.schema, body)
    if trusted and isinstance(body, dict):
        if body.get("apiVersion") == resource.api_version and body.get("kind") == resource.kind:
            return body
        if not body.get("apiVersion") and not body.get("kind"):
            return {**body, "apiVersion": resource.api_version, "kind": resource.kind}
    try:
        decoded = decoding.decode(resource, body, call.field_validation, call.request.repeated)
    except fieldvalidation.DecodeError as error:
        call.warnings += error.problems
        raise bad_request(error.message) from None
    if error_text := _misread(resource, decoded.obj):
        cannot = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        raise bad_request(cannot + error_text)
    call.warnings += decoded.problems
    call.sent = decoded.sent
    # An equal body keeps its shared parts, which defaults and validation know by identity.
    return body if decoded.obj == body else with_text(resource.kind, decoded.obj, body)


def _newer_eviction(resource: Resource, body: Json) -> Json:
    """An Eviction of policy/v1beta1, which is still accepted, as one of v1."""
    if not isinstance(body, dict):
        try:
            value = parse(bytes(body or b"").decode("utf-8", "replace"))
        except ValueError:
            return body
        if not isinstance(value, dict) or value.get("apiVersion") != f"{resource.group}/v1beta1":
            return body
        body = value
    if body.get("apiVersion") == f"{resource.group}/v1beta1":
        return {**body, "apiVersion": resource.api_version}
    return body


def patch_body(call: Call, kind: str) -> tuple[Json, list[str]]:
    """The decoded patch, and the messages about keys that it holds duplicates.

    A JSON patch keeps the duplicates of its operations for `json_patch_problems`, so none are
    reported here.
    """
    body = call.request.body
    if isinstance(body, bytes | bytearray):
        names = call.registry.names
        unchecked = call.field_validation == fieldvalidation.IGNORE
        plainly = kind == names.media_strategic_patch or unchecked
        text = "" if plainly else "error decoding patch: "
        try:
            body = parse_noting_twice(bytes(body).decode("utf-8", "replace"), finite=True)
        except ValueError as error:
            if unchecked and kind == names.media_merge_patch:
                raise bad_request("Invalid JSON Patch") from None
            raise bad_request(f"{text}{error}") from None
        except TooLargeNumber as error:
            listed = kind == call.registry.names.media_json_patch
            where = "struct field jsonPatchOp.value" if listed else "value"
            why = f"json: cannot unmarshal number {error} into Go {where} of type float64"
            raise bad_request(f"{text}{why}") from None
    if kind == call.registry.names.media_json_patch:
        return body, []
    duplicates = fieldvalidation.duplicate_fields(body) if call.from_outside else []
    return plain(body) if duplicates else body, duplicates


def conform(call: Call, resource: Resource, obj: Obj, patched: Patched) -> Obj:
    """The result of a patch, well-typed and of the resource's kind."""
    directive = call.field_validation
    if isinstance(resource, CustomResource):
        made, problems, wrong = custom_body.conform(resource, obj)
    elif not patched.converted and isinstance(obj, dict) and not obj.get("apiVersion"):
        return _unversioned(call, obj, patched)
    else:
        made, problems, call.sent = fieldvalidation.conform_noting_sent(
            resource.schema, obj, resource.kind, patched.converted, stored=True
        )
        wrong = patched.wrong or ("" if patched.converted else _kind_error(resource, obj))
        if not wrong and isinstance(made, fieldvalidation.DecodeError):
            wrong = made.message if patched.converted else _first_by_text(resource, patched, made.message)
            if patched.converted and wrong.startswith("illegal base64"):
                wrong = f"error decoding from json: {wrong}"  # converter.go: sliceFromUnstructured
        wrong = wrong or _misread(resource, made)
        if call.request.content_type.partition(";")[0].strip() in _sorted_media(call.registry.names):
            # Such a patch gives a text with sorted keys, which is then decoded.
            problems = sorted(problems, key=_path_of)
    problems = [*patched.problems, *problems]
    if not wrong and problems and directive == fieldvalidation.STRICT:
        wrong = f"strict decoding error: {', '.join(problems)}"
    if wrong:
        raise Refusal.of(invalid("", "", "", [_BadPatch(patched.shown(), wrong)]))
    if directive != fieldvalidation.IGNORE:
        call.warnings += [problem for problem in problems if problem not in call.warnings]
    if resource.custom:
        return made  # validation judges its apiVersion and kind
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**typed, **made, **typed}


def _first_by_text(resource: Resource, patched: Patched, found: str) -> str:
    """The error of the first wrong value of a patched object in the order of its text.

    found: the first one in the order of the object
    """
    value = parse_noting_twice(patched.shown(), exact=True)
    made, _ = fieldvalidation.conform(resource.schema, value, resource.kind)
    return made.message if isinstance(made, fieldvalidation.DecodeError) else found


def _kind_error(resource: Resource, obj: Json) -> str:
    return decoding.other_kind(resource, obj) if isinstance(obj, dict) else ""


def _unversioned(call: Call, obj: Obj, patched: Patched) -> Obj:
    """Refuses a patched text without a version.

    Quirk: upstream reads it as the internal type, which knows none of the fields by these names.
    """
    problems = [f'unknown field "{key}"' for key in sorted(obj) if key not in ("apiVersion", "kind")]
    problems = [*patched.problems, *problems]
    if call.field_validation == fieldvalidation.STRICT and problems:
        wrong = f"strict decoding error: {', '.join(problems)}"
        raise Refusal.of(invalid("", "", "", [_BadPatch(patched.shown(), wrong)]))
    if call.field_validation != fieldvalidation.IGNORE:
        call.warnings += problems
    name = call.request.name
    raise bad_request(
        f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
    )


def _sorted_media(names: Names) -> tuple[str, str]:
    """The media types of patches that are applied to JSON texts."""
    return names.media_json_patch, names.media_merge_patch


def _path_of(problem: str) -> list[str]:
    """The path in a report about a field, as a key to sort by."""
    return re.split(r"[.\[\]]+", problem.partition('"')[2])


def _misread(resource: Resource, obj: Any) -> str:
    """Why upstream cannot convert an object to its internal form; "" if it can."""
    rule = resource.behavior.misread
    return "" if rule is None or not isinstance(obj, dict) else rule(obj)


class _BadPatch:
    """The cause in the refusal of a patch: the whole patched object is the invalid value."""

    reason, field = "FieldValueInvalid", "patch"

    def __init__(self, shown: str, why: str) -> None:
        self.message = f"Invalid value: {go_quote(shown)}: {why}"
