"""The scale of a workload: one number of an object, seen as an autoscaling/v1 Scale.

Mirrors  kubernetes v1.25 pkg/registry/apps/{deployment,replicaset,statefulset}/storage (ScaleREST).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from sim.api.ownership import scale as managed_scale
from sim.api.ownership.managed import on_update, render
from sim.api.patch.json_patches import (
    PatchError,
    check_merge_patch,
    json_patch,
    json_patch_problems,
    merge_patch,
)
from sim.api.patch.patched_text import in_go_order, patched_text
from sim.api.patch.strategic_merge import go_print, restore_error, strategic_merge
from sim.api.refusals import Refusal, Steps, bad_request
from sim.api.schema.kind import Scaling
from sim.api.schema.resource import Resource
from sim.api.selectors import format_selector
from sim.api.status import invalid, not_found
from sim.api.store import Get, Item
from sim.api.types import Json, Obj, Reply
from sim.api.validation.errors import Errors, at_least_zero
from sim.api.validation.metadata import object_meta
from sim.api.validation.text import subdomain
from sim.api.verbs.apply import applied_scale, is_apply
from sim.api.verbs.body import Patched, body_kind, conform, decode, patch_body
from sim.api.verbs.call import Call, any_of, check_name, found, parse_revision, read_patch
from sim.api.verbs.single import Record, precondition_failed, update_object

Shown = Callable[[Obj], Obj]  # makes the Scale of an object


def _scale_errors(scale: Obj) -> Errors:
    """Errors of a Scale (autoscaling validation.go: ValidateScale)."""
    errors = object_meta(any_of(scale.get("metadata")), True, subdomain)
    return errors + at_least_zero("spec.replicas", any_of(scale.get("spec")).get("replicas"))


def scale_of(scaling: Scaling, obj: Obj) -> Obj:
    """The Scale of a built-in workload."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    chosen = spec.get("selector")
    if chosen and scaling.plain_selector:
        chosen = {"matchLabels": chosen}
    selector = format_selector(chosen) if chosen else ""
    return scale_body(obj["metadata"], spec.get("replicas", 0), status.get("replicas", 0), selector)


def scale_body(metadata: Obj, wanted: int, found: int, selector: str) -> Obj:
    """The Scale of an object with the given metadata.

    wanted, found: replicas in spec and status
    selector: the selector of its pods, "" for none
    """
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": {"replicas": found, **({"selector": selector} if selector else {})},
    }


def get_scale(call: Call) -> Steps:
    """GET of a scale."""
    scaling = call.resource.behavior.scaling
    item = found((yield Get(call.key)))
    if item is None:
        if scaling.hides_scale:
            raise call.not_found()
        # Quirk: for a resource of the core group, the message names the group of the Scale.
        named = call.resource if call.resource.group else body_kind(call)
        raise Refusal.of(not_found(named, call.request.name, "scale"))
    return Reply(200, body=scale_of(scaling, item.obj))


def write_scale(call: Call) -> Steps:
    """PUT or PATCH of a scale: sets spec.replicas, honours uid and resourceVersion."""
    shown = partial(scale_of, call.resource.behavior.scaling)
    applies = is_apply(call) and call.request.verb == "patch"
    read = partial(applied_scale if applies else _updated_scale, call, shown)
    wanted_scale, record = yield from read_patch(call, read)

    def change(item: Item) -> Obj:
        scale = wanted_scale(item)
        metadata = any_of(scale.get("metadata"))
        if metadata.get("namespace", call.request.namespace) != call.request.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        check_name(scale, call)
        errors = _scale_errors({**scale, "metadata": {**metadata, "namespace": call.request.namespace}})
        if errors:
            group = call.registry.names.group("autoscaling")
            raise Refusal.of(invalid(group, "Scale", call.request.name, errors))
        uid, stored = metadata.get("uid", ""), item.obj["metadata"]["uid"]
        if uid and uid != stored:
            if call.request.verb == "update":
                raise call.conflict(precondition_failed(call, uid, stored))
            resource = call.resource
            shown_as = f"{resource.plural}/scale" + (f".{resource.group}" if resource.group else "")
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}"
            message = f'Operation cannot be fulfilled on {shown_as} "{call.request.name}": {text}'
            details = {**call.details(call.request.name), "kind": f"{resource.plural}/scale"}
            raise Refusal(409, "Conflict", message, details)
        revision = metadata.get("resourceVersion", "")
        parse_revision(revision)
        if revision and revision != item.obj["metadata"]["resourceVersion"]:
            raise call.modified()
        replicas = any_of(scale.get("spec")).get("replicas") or 0
        spec = item.obj.get("spec") or {}
        if spec.get("replicas") == replicas:
            return item.obj
        return {**item.obj, "spec": {**spec, "replicas": replicas}}

    call.subresource = ""  # the workload's own strategy runs, so the generation increases
    reply = yield from update_object(call, change, lambda *_: record[0])
    assert reply.item is not None
    return Reply(200, body=shown(reply.item.obj), warnings=reply.warnings)


def _updated_scale(call: Call, shown: Shown) -> tuple[Callable[[Item], Obj], list[Record]]:
    """A function that makes the Scale to be written by a PUT or a patch.

    The returned list holds the workload's field ownership after each call of that function.
    """
    kind = body_kind(call)
    given = _scale_source(call, kind, shown)
    writer = replace(call.writer(), api_version=kind.api_version, subresource="scale")
    outcome: list[Record] = [()]

    def wanted_scale(item: Item) -> Obj:
        scale = given(item)
        mine = managed_scale.of_scale(item.managed, kind.api_version)
        after = on_update(kind.schema, mine, shown(item.obj), scale, writer)
        outcome[0] = managed_scale.of_workload(item.managed, after, call.resource.api_version)
        return scale

    return wanted_scale, outcome


def _scale_source(call: Call, kind: Resource, shown: Shown) -> Callable[[Item], Obj]:
    """A function that returns the Scale of a PUT, or patches the present one."""
    if call.request.verb == "update":
        given = decode(call, kind)
        return lambda item: given
    return patched_scale(call, kind, shown)


def patched_scale(call: Call, kind: Resource, shown: Shown) -> Callable[[Item], Obj]:
    """A function that applies the request's patch to the Scale of an object.

    shown: makes the Scale of an object
    """
    names = call.registry.names
    media = call.request.content_type.partition(";")[0].strip()
    patch, duplicates = patch_body(call, media)

    def patched(item: Item) -> Obj:
        scale, problems = shown(item.obj), duplicates
        try:
            if media == names.media_json_patch:
                problems = json_patch_problems(patch)
                out = json_patch(scale, patch)
            elif media == names.media_strategic_patch:
                out = strategic_merge(kind.schema, scale, patch)
            else:
                check_merge_patch(patch)
                out = merge_patch(scale, patch)
        except PatchError as error:
            raise Refusal(error.code, error.reason, error.message, error.details) from None
        if media == names.media_strategic_patch:
            wrong = restore_error(kind.schema, out)
            return conform(call, kind, out, Patched(partial(go_print, patch), wrong, problems, True))
        return conform(call, kind, out, Patched(partial(_document, kind, item, shown, patch), "", problems))

    return patched


def _document(kind: Resource, item: Item, shown: Shown, patch: Json) -> str:
    """The text of a patched Scale that does not fit its type, with its managedFields."""
    scale = shown(item.obj)
    owners = managed_scale.of_scale(item.managed, kind.api_version)
    if owners:
        scale = {**scale, "metadata": {**scale["metadata"], "managedFields": render(owners, scale)}}
    original = in_go_order(kind.schema, scale)
    return patched_text(original, patch)
