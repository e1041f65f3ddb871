"""Server-side apply as a verb: a PATCH of apply type creates the object or merges the configuration
into it.

The request becomes the store operations of a create or of an update, with the field ownership that
`sim.api.ownership.apply` computes; a refusal names all conflicts.

Holds: a stored object has passed the same defaults, admission, strategy and validation as with any
other write; a configuration that changes no field and no owner writes nothing.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/patch.go (applyPatcher),
         fieldmanager/structuredmerge.go, fieldmanager/scalehandler.go;
         pkg/registry/generic/registry/store.go (Update).
Differs  a create by apply needs no permission to create, as there are no roles; duplicate fields in
         a YAML body cause no warning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial

import msgspec

from sim.api import status
from sim.api.crd.served import CustomResource
from sim.api.ownership import scale as managed_scale
from sim.api.ownership.apply import Applied, Configuration, apply, conflict_texts, with_last_applied
from sim.api.ownership.differences import bound, own_address
from sim.api.ownership.field_sets import NOTHING, Tree
from sim.api.ownership.managed import misfit
from sim.api.ownership.typed_values import name_errors, type_errors
from sim.api.refusals import Refusal, Steps, bad_request, internal
from sim.api.schema import field_validation as fieldvalidation
from sim.api.schema.resource import Resource
from sim.api.store import Get, Item
from sim.api.types import Json, Obj
from sim.api.verbs import single as verbs
from sim.api.verbs.body import subresource_kind
from sim.api.verbs.call import Call, any_of, check_name, found, parse_revision, read_patch
from sim.api.verbs.single import (
    Record,
    create_object,
    of_group,
    reset_of,
    tidied,
    unsupported_patch,
    update_object,
)
from sim.api.verbs.versions import versions_of
from sim.dataclass import dataclass


def is_apply(call: Call) -> bool:
    """True if the request is a server-side apply, which is refused while the feature is off."""
    if not call.request.content_type.startswith(call.registry.names.media_apply_patch):
        return False
    if not call.registry.tracks:
        raise unsupported_patch(call) if call.resource.custom else Refusal.of(status.unsupported_patch())
    return True


def patch(call: Call) -> Steps:
    """PATCH of any type."""
    return apply_object(call) if is_apply(call) else verbs.patch(call)


def apply_object(call: Call) -> Steps:
    """PATCH of apply type; creates an object that is absent.

    An apply to a subresource creates only where a PUT creates too, because the storage of a
    subresource uses the strategy of its kind.
    """
    resource = call.resource
    creates = not call.subresource or resource.behavior.strategy.create_by_put
    read = partial(configuration, call, resource, reset_of(resource, call.subresource))
    wanted = read() if creates else (yield from read_patch(call, read))
    while True:
        if found((yield Get(call.key))) is not None:
            write = _Merge(call, wanted)
            return (yield from update_object(call, write.change, write.owning))
        if not creates:
            raise call.not_found()
        try:
            return (yield from _create(call, wanted))
        except Refusal as refusal:
            if refusal.body.get("reason") != "AlreadyExists":
                raise


def configuration(call: Call, kind: Resource, reset: Tree) -> Configuration:
    """The body of an apply, checked to be of the given kind."""
    body: Json = call.body()
    if body is not None and not isinstance(body, dict):
        what = "array" if isinstance(body, list) else "string" if isinstance(body, str) else "number"
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: "
            f"cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        )
    body = body or {}
    version = _text(body.get("apiVersion"))
    if version != kind.api_version:
        raise bad_request(
            "Incorrect version specified in apply patch. Specified patch version: "
            f"{version}, expected: {kind.api_version}"
        )
    given = any_of(body.get("metadata")).get("managedFields")
    if isinstance(given, list):
        raise bad_request("metadata.managedFields must be nil")
    wrong = type_errors(kind.schema, body)
    if body.get("kind") != kind.kind:
        wrong = [f"no corresponding type for {_shown_kind(body)}"]
    if wrong:
        raise internal(f"failed to create typed patch object ({_shown(body)}): {_listed(wrong)}")
    names, options = call.registry.names, call.options
    writer = call.writer()
    taking_over = writer.manager == names.manager_kubectl
    return Configuration(
        body,
        writer,
        force="force" in options and options["force"].lower() not in ("0", "false"),
        reset=reset,
        annotation=names.annotation_last_applied if taking_over else "",
        versions=versions_of(call),
    )


def _text(value: Json) -> str:
    """A text field of an object without a Go type; "" if it is no text (NestedString)."""
    return value if isinstance(value, str) else ""


def _shown(body: Obj) -> str:
    """The object's identity in upstream's errors."""
    metadata = any_of(body.get("metadata"))
    return f"{_text(metadata.get('namespace'))}/{_text(metadata.get('name'))}; {_shown_kind(body)}"


def _shown_kind(body: Obj) -> str:
    group, _, version = str(body["apiVersion"]).rpartition("/")
    return f"{group}/{version}, Kind={_text(body.get('kind'))}"


def _merged(call: Call, kind: Resource, live: Obj, managed: Record, wanted: Configuration) -> Applied:
    """The typed outcome of an apply; raises the refusal that names its conflicts.

    Duplicate keys, where they are not allowed, are refused after everything else about the body.
    """
    merged = _of_manager(call, kind, live, managed, wanted)
    if call.request.repeated:
        raise bad_request(f"error strict decoding YAML: {call.request.repeated}")
    return merged


def _of_manager(call: Call, kind: Resource, live: Obj, managed: Record, wanted: Configuration) -> Applied:
    """As `_merged`, also of a body with duplicate keys."""
    _check_live(kind, live, managed)
    if kind.custom and wanted.versions is not None:
        wrong = misfit(managed, (live,), wanted.writer.api_version, wanted.versions)
        if wrong:
            raise internal(_listed(wrong))
    outcome = apply(kind.schema, live, managed, wanted)
    if not isinstance(outcome, Applied):
        raise Refusal.of(status.apply_conflict(*conflict_texts(outcome)))
    if outcome.obj is live:
        return outcome._replace(obj=with_last_applied(live, wanted))
    if kind.custom:  # it has no Go type: a field that became empty is null, which validation judges
        return Applied(with_last_applied(outcome.obj, wanted), outcome.managed)
    made, _, call.sent = fieldvalidation.conform_noting_sent(kind.schema, outcome.obj, kind.kind)
    if isinstance(made, fieldvalidation.DecodeError):
        raise internal(
            f"failed to convert new object ({_shown(wanted.obj)}) to proper version: unable to convert unstructured "
            f"object to {_shown_kind(wanted.obj)}: {_conversion(made.message)}"
        )
    made = {"apiVersion": kind.api_version, "kind": kind.kind, **made}
    return Applied(with_last_applied(made, wanted), outcome.managed)


def _check_live(kind: Resource, live: Obj, managed: Record) -> None:
    """Raises if the live object no longer fits its schema or holds two items with one key."""
    if isinstance(kind, CustomResource) and (lost := kind.lost_version(managed)):
        raise internal(f"request to convert CR to an invalid group/version: {lost}")
    wrong = (type_errors if kind.custom else name_errors)(kind.schema, live) if live else []
    if not wrong:
        return
    shown = _shown(live)
    if managed:
        raise internal(f"failed to create typed live object ({shown}): {_listed(wrong)}")
    raise internal(
        f"failed to create manager for existing fields: failed to convert new object ({shown}) to smd typed: "
        f"{_listed(wrong)}"
    )


def _listed(errors: list[str]) -> str:
    return errors[0] if len(errors) == 1 else "\n  ".join(["errors:", *errors])


def _conversion(message: str) -> str:
    """A type error in the words of upstream's converter of unstructured objects."""
    if message.endswith("of type int32") and "cannot unmarshal object" in message:  # an IntOrString
        return f"{message.partition(' into ')[0]} into Go value of type int32"
    if message.startswith("json: cannot unmarshal") and message.endswith("of type string"):
        # A time: a text in any other field has been refused with its schema.
        return f"{message.partition(' into ')[0]} into Go value of type string"
    if message.startswith("json: cannot unmarshal number"):
        return f"cannot convert float64 to {message.rpartition(' ')[2]}"
    return f"error decoding from json: {message}" if message.startswith("illegal base64") else message


def _create(call: Call, wanted: Configuration) -> Steps:
    """The create of an apply to an absent object."""
    resource = call.resource
    obj, record = _merged(call, resource, {}, (), wanted)
    metadata = any_of(obj.get("metadata"))
    check_name({**obj, "metadata": metadata}, call)
    uid = metadata.get("uid")
    if uid:
        raise call.conflict(
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        )
    parse_revision(metadata.get("resourceVersion") or "")
    # Only the store removes it.
    kept = {key: value for key, value in metadata.items() if key != "resourceVersion" or call.dry_run}
    address = own_address(obj)
    if address:
        record = _bound(record, address)
    return (yield from create_object(call, {**obj, "metadata": kept}, record))


def _bound(record: Record, address: str) -> Record:
    """The record with list paths bound to the object's own address."""
    return tuple([msgspec.structs.replace(e, fields=bound(e.fields, address)) for e in record])


@dataclass(slots=True)
class _Merge:
    """One attempt to merge.

    `change` makes the wanted object; `owning` then returns the owners of its fields.
    """

    call: Call
    wanted: Configuration
    record: Record = field(default=())

    def change(self, item: Item) -> Obj:
        call, resource = self.call, self.call.resource
        obj, record = _merged(call, resource, item.obj, item.managed, self.wanted)
        if resource.rule == "events" and record is not item.managed:
            record = of_group(record, resource)
        if obj is not item.obj:
            check_name(obj, call)
            revision = obj["metadata"].get("resourceVersion") or ""
            parse_revision(revision)
            if revision and revision != "0" and revision != item.obj["metadata"]["resourceVersion"]:
                raise call.modified()
            obj = call.registry.rules.defaults(resource, tidied(obj, call.dry_run), call.subresource)
        address = own_address(obj)
        record = _bound(record, address) if address else record
        self.record = record
        return item.obj if obj == item.obj else obj

    def owning(self, call: Call, item: Item, wanted: Obj) -> Record:
        return self.record


# --- scale ----------------------------------------------------------------------------------------


def scale_kind(call: Call) -> Resource:
    """The Scale kind of the call's resource."""
    return subresource_kind(call.registry.names, call.resource, "scale")


def applied_scale(call: Call, show: Callable[[Obj], Obj]) -> tuple[Callable[[Item], Obj], list[Record]]:
    """A function that makes the Scale to be written by an apply.

    The returned list holds the workload's field ownership after each call of that function.
    """
    kind = scale_kind(call)
    wanted = configuration(call, kind, NOTHING)
    writer = msgspec.structs.replace(wanted.writer, api_version=kind.api_version, subresource="scale")
    wanted = wanted._replace(writer=writer)
    outcome: list[Record] = [()]

    def merged_scale(item: Item) -> Obj:
        mine = managed_scale.of_scale(item.managed, kind.api_version)
        made = _merged(call, kind, show(item.obj), mine, wanted)
        outcome[0] = managed_scale.of_workload(item.managed, made.managed, call.resource.api_version)
        return made.obj

    return merged_scale, outcome
