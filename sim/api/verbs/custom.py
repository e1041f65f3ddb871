"""Verbs of custom resources that differ from those of built-in kinds: refusals of a terminating
definition, and the scale.

A call to /scale becomes reads and writes of the fields that the definition names.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/customresource_handler.go (ServeHTTP,
         serveResource), pkg/registry/customresource/etcd.go (ScaleREST).
Differs  the first create after a definition is established does not wait two seconds; apply on a
         scale is refused with 500, as upstream does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from sim.api.crd.objects import at_path
from sim.api.crd.served import CustomResource, Scale
from sim.api.ownership.field_sets import difference, of_paths
from sim.api.refusals import Refusal, Steps, bad_request, internal
from sim.api.schema import decoding
from sim.api.schema import field_validation as fieldvalidation
from sim.api.status import not_supported
from sim.api.store import Get, Item
from sim.api.types import Json, Obj, Reply
from sim.api.verbs.body import subresource_kind
from sim.api.verbs.call import Call, any_of, check_name, found, read_patch
from sim.api.verbs.scale import patched_scale, scale_body
from sim.api.verbs.single import Record, precondition_failed, unsupported_patch, update_object

_SCALE_TYPE = 'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:100"'


def admit(call: Call) -> None:
    """Raises if the definition is terminating and takes no new objects."""
    resource = call.resource
    assert isinstance(resource, CustomResource)
    if resource.terminating and call.request.verb == "create":
        body = not_supported(resource, "create")
        body["message"] = "create not allowed while custom resource definition is terminating"
        raise Refusal.of(body)


# --- scale ----------------------------------------------------------------------------------------


def _paths(call: Call) -> Scale:
    assert isinstance(call.resource, CustomResource) and call.resource.scale is not None
    return call.resource.scale


def _scale_of(call: Call, obj: Obj, needed: bool) -> Obj:
    """The Scale of an object.

    needed: True if an absent number of replicas is an error
    """
    paths = _paths(call)
    wanted = at_path(obj, paths.replicas)
    if needed and wanted is None:
        text = f'the spec replicas field "{paths.replicas}" does not exist'
        raise Refusal(
            500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]}
        )
    selector = at_path(obj, paths.selector) if paths.selector else None
    return scale_body(
        obj["metadata"],
        _count(wanted),
        _count(at_path(obj, paths.status_replicas)),
        selector if isinstance(selector, str) else "",
    )


def _count(value: Any) -> int:
    """The value if it is an integer, otherwise 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def get_scale(call: Call) -> Steps:
    """GET of a scale."""
    item = found((yield Get(call.key)))
    if item is None:
        raise call.not_found()
    return Reply(200, body=_scale_of(call, item.obj, True))


def seen_scale(call: Call, obj: Obj) -> Obj:
    """The Scale of an object, as admission sees it."""
    return _scale_of(call, obj, False)


def with_replicas(call: Call, obj: Obj, replicas: int) -> Obj:
    """An object with another number of replicas."""
    return _with(obj, _names(call), replicas)


def write_scale(call: Call) -> Steps:
    """PUT or PATCH of a scale; the number of replicas has no owner afterwards."""
    wanted_scale = yield from read_patch(call, lambda: _scale_source(call))

    def change(item: Item) -> Obj:
        scale = wanted_scale(item)
        check_name(scale, call)
        revision = any_of(scale.get("metadata")).get("resourceVersion", "")
        if revision and revision != item.obj["metadata"]["resourceVersion"]:
            raise call.modified()
        replicas = _count(any_of(scale.get("spec")).get("replicas"))
        given, stored = any_of(scale.get("metadata")).get("uid"), item.obj["metadata"]["uid"]
        if given and given != stored and call.request.verb == "update":
            raise call.conflict(precondition_failed(call, given, stored))
        return _with(item.obj, _names(call), replicas)

    call.subresource = ""  # the object's own strategy runs, so the generation increases
    reply = yield from update_object(call, change, _disowned)
    assert reply.item is not None
    return Reply(200, body=_scale_of(call, reply.item.obj, False), warnings=reply.warnings)


def _disowned(call: Call, item: Item, wanted: Obj) -> Record:
    """Field ownership after a write of a scale.

    Quirk: the number of replicas has no owner afterwards, even if it had one and did not change.
    """
    assert isinstance(call.resource, CustomResource)
    number = of_paths(tuple(_names(call)))
    known = [entry for entry in item.managed if entry.api_version.rpartition("/")[2] in call.resource.schemas]
    kept = [replace(entry, fields=difference(entry.fields, number)) for entry in known]
    return tuple([entry for entry in kept if entry.fields])


def _names(call: Call) -> list[str]:
    """The fields on the path to the number of replicas."""
    return _paths(call).replicas.removeprefix(".").split(".")


def _with(obj: Obj, names: list[str], value: int) -> Obj:
    """The object with the value at the given path."""
    name, rest = names[0], names[1:]
    if not rest:
        return obj if obj.get(name) == value and name in obj else {**obj, name: value}
    below = any_of(obj.get(name))
    made = _with(below, rest, value)
    return obj if made is below and name in obj else {**obj, name: made}


def _scale_source(call: Call) -> Callable[[Item], Obj]:
    """A function that returns the Scale of a PUT, or patches the present one."""
    names = call.registry.names
    kind = subresource_kind(names, call.resource, "scale")
    if call.request.verb == "update":
        given = _given(call, kind)
        return lambda item: given
    media = call.request.content_type.partition(";")[0].strip()
    if media == names.media_apply_patch and call.writer().tracks:
        raise internal(
            "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) "
            "to proper version: request to convert CR to an invalid group/version: autoscaling/v1"
        )
    if media not in (names.media_json_patch, names.media_merge_patch):
        raise unsupported_patch(call)
    return patched_scale(call, kind, lambda obj: _scale_of(call, obj, False))


def _given(call: Call, kind: Any) -> Obj:
    """The Scale in the body of a PUT.

    Quirk: every error in it is refused with the same text, because upstream fails to convert the
    error.
    """
    try:
        body: Json = call.body()
        decoded = decoding.decode(kind, body if body is not None else {}, call.field_validation)
    except (ValueError, fieldvalidation.DecodeError):
        raise bad_request(_SCALE_TYPE) from None
    call.warnings += decoded.problems
    return decoded.obj


CUSTOM_SCALE: dict[str, Callable[[Call], Steps]] = {
    "get": get_scale,
    "update": write_scale,
    "patch": write_scale,
}
