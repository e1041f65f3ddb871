"""The scale of a workload: one number of an object, seen as an autoscaling/v1 Scale.

Mirrors  kubernetes v1.25 pkg/registry/apps/{deployment,replicaset,statefulset}/storage (ScaleREST).
Differs  field ownership of a scale write is recorded as a write of the workload itself under subresource scale.
"""

from __future__ import annotations

from sim.machinery.api import Obj, Reply
from sim.machinery.patch import PatchError, json_patch, merge_patch
from sim.machinery.selectors import format_selector
from sim.machinery.status import invalid, not_found
from sim.machinery.store import Get, Item
from sim.machinery.verbs import registry_key, update_object
from sim.machinery.verbs_call import Call, Refusal, Steps, any_of, bad_request, check_name, found


class _Cause:
    reason, field = "FieldValueInvalid", "spec.replicas"

    def __init__(self, value: int) -> None:
        self.message = f"Invalid value: {value}: must be greater than or equal to 0"


def scale_of(obj: Obj) -> Obj:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = spec.get("replicas", 0)
    selector = format_selector(spec["selector"]) if spec.get("selector") else ""
    shown: Obj = {"replicas": status.get("replicas", 0)}
    if selector:
        shown["selector"] = selector
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": shown,
    }


def get_scale(call: Call) -> Steps:
    item = found((yield Get(call.key)))
    if item is None:
        if call.resource.plural == "statefulsets":  # Quirk: the only scale that does not name itself
            raise call.not_found()
        raise Refusal.of(not_found(call.resource, call.request.name, "scale"))
    return Reply(200, body=scale_of(item.obj))


def write_scale(call: Call) -> Steps:
    """PUT or PATCH: takes spec.replicas, honours uid and resourceVersion."""

    def change(item: Item) -> Obj:
        scale = _asked(call, item)
        metadata = any_of(scale.get("metadata"))
        if metadata.get("namespace", call.request.namespace) != call.request.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        check_name(scale, call)
        uid, stored = metadata.get("uid", ""), item.obj["metadata"]["uid"]
        if uid and uid != stored:
            raise call.conflict(
                f"StorageError: invalid object, Code: 4, Key: {registry_key(call)}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}"
            )
        revision = metadata.get("resourceVersion", "")
        if revision and revision != item.obj["metadata"]["resourceVersion"]:
            raise call.modified()
        replicas = any_of(scale.get("spec")).get("replicas") or 0
        if not isinstance(replicas, int):
            text = (
                f'Scale in version "v1" cannot be handled as a Scale: spec.replicas is no number: {replicas}'
            )
            raise bad_request(text)
        if replicas < 0:
            group = call.registry.names.group("autoscaling")
            raise Refusal.of(invalid(group, "Scale", call.request.name, [_Cause(replicas)]))
        spec = item.obj.get("spec") or {}
        if spec.get("replicas") == replicas:
            return item.obj
        return {**item.obj, "spec": {**spec, "replicas": replicas}}

    call.subresource = ""  # the workload's own strategy runs: the generation counts
    reply = yield from update_object(call, change)
    assert reply.item is not None
    return Reply(200, body=scale_of(reply.item.obj), warnings=reply.warnings)


def _asked(call: Call, item: Item) -> Obj:
    if call.request.verb == "update":
        return call.body_object()
    scale = scale_of(item.obj)
    kind = call.request.content_type.partition(";")[0].strip()
    try:
        if kind == call.registry.names.media_json_patch:
            return any_of(json_patch(scale, call.body()))
        return any_of(merge_patch(scale, call.body()))
    except PatchError as error:
        raise Refusal(error.code, error.reason, error.message, error.details) from None
