"""The verbs that read and write one object: get, create, update, patch, as generators of store
operations.

A `Call` becomes a sequence of store operations and, at the end, a `Reply`; a refused request raises
a `Refusal`. The same generator runs straight through on a store in memory and step by step over a
slow one.

Order of a create: decode, default, field ownership, admission, system fields, strategy, generated
name, validation, validating admission, store. An update does the same on top of the stored object,
inside the loop that starts again when another writer changed the object in between.

Holds: an object given to `Put` has a metadata dict of its own (the store stamps it in place); a
write that changes nothing writes nothing.

Mirrors  kubernetes v1.25 apiserver pkg/registry/generic/registry/store.go,
         pkg/registry/rest/{create,update}.go, pkg/endpoints/handlers/{create,update,patch}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import lru_cache, partial

from msgspec import structs

from sim.api import raw_text, status
from sim.api.auth.attributes import Decision
from sim.api.auth.request_attributes import attributes_of
from sim.api.crd.served import CustomResource
from sim.api.generated_names import generated_name, new_uid
from sim.api.kinds.core.service.addresses import Ranges
from sim.api.kinds.core.service.refusal import ServiceRefusal
from sim.api.kinds.strategies import (
    for_create,
    for_status,
    for_subresource,
    for_update,
    keep_system_fields,
    warnings_of,
)
from sim.api.objects import with_metadata
from sim.api.ownership import managed as ownership
from sim.api.ownership.typed_values import name_errors
from sim.api.patch.json_patches import (
    PatchError,
    check_merge_patch,
    json_patch,
    json_patch_problems,
    merge_patch,
)
from sim.api.patch.patched_text import in_go_order, patched_text, printed_patch
from sim.api.patch.strategic_merge import (
    has_list_directive,
    restore_error,
    strategic_merge,
)
from sim.api.refusals import Refusal, Steps, bad_request, internal, method_not_allowed
from sim.api.schema.field_validation import has_sections
from sim.api.schema.kind import Allocate
from sim.api.schema.resource import Resource
from sim.api.store import Answer, Delete, Get, Item, Managed, Op, Put
from sim.api.types import Json, Obj, Reply
from sim.api.verbs import escalation
from sim.api.verbs.after_admission import check_admitted, counted, must_specify_revision, placed, to_be_stored
from sim.api.verbs.body import Patched, conform, decode, patch_body
from sim.api.verbs.call import (
    Call,
    admitted,
    any_of,
    approved_by_hooks,
    check_name,
    check_namespace,
    check_size,
    found,
    mutated,
    once_owned,
    parse_revision,
    read_patch,
    rest,
    written,
)
from sim.api.verbs.versions import as_stored, registered_in, versions_of
from sim.options.features.gates import STATIC_BAND, is_on
from sim.pauses import spent, weight_us
from sim.units import NO_REVISION

Transform = Callable[[Item], Obj]
Record = tuple[Managed, ...]


def get(call: Call) -> Steps:
    """GET of one object."""
    item = found((yield Get(call.key)))
    if item is None:
        raise call.not_found()
    return Reply(200, item=item)


# --- create ---------------------------------------------------------------------------------------


def create(call: Call) -> Steps:
    """POST to a collection."""
    if call.request.name:
        raise method_not_allowed()
    obj = decode(call, call.resource)
    yield from rest(call)
    return (yield from create_object(call, obj))


def _given_metadata(call: Call, obj: Obj) -> Obj:
    """The metadata of an object to be created, without the fields that only the server may set."""
    resource, request = call.resource, call.request
    metadata = dict(obj.get("metadata") or {})
    for field in _EMPTIED:
        if field in metadata and not metadata[field]:
            del metadata[field]
    if resource.namespaced:
        check_namespace(metadata, request)
        metadata["namespace"] = request.namespace
    else:
        # EnsureObjectNamespaceMatchesRequestNamespace: dropped without an error.
        metadata.pop("namespace", None)
    if "resourceVersion" in metadata and not metadata["resourceVersion"]:
        del metadata["resourceVersion"]
    # Quirk: only a POST removes them (create.go: WipeObjectMetaSystemFields).
    if request.verb == "create":
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(field, None)
    elif not call.dry_run:
        metadata.pop("selfLink", None)
    return metadata


def _check_may_create(call: Call) -> None:
    """Raises if the user of an update or an apply to an absent object may not create it.

    Quirk: the refusal gives the reason only, which is mostly empty (update.go: withAuthorization).
    """
    giver, request = call.registry.authorizer, call.request
    if giver is None:
        return
    asked = structs.replace(attributes_of(request), verb="create")
    opinion = giver.authorize(request.user, asked)
    if opinion.decision is Decision.ALLOW:
        return
    if opinion.error:
        raise internal(opinion.error)
    raise Refusal.of(status.forbidden(call.resource, request.name, opinion.reason))


def create_object(call: Call, obj: Obj, record: Record | None = None) -> Steps:
    """The writes of a create, for a decoded object.

    record: the owners of its fields, if they are not all the writer's
    """
    registry, resource, request = call.registry, call.resource, call.request
    names = registry.names
    obj = once_owned(call, {**obj, "metadata": _given_metadata(call, obj)})
    obj = registry.rules.defaults(resource, obj, call.subresource)
    obj = resource.behavior.strategy.fill_named(obj, names)
    if record is None:
        reset = reset_of(resource, call.subresource)
        shown = as_encoded(call, obj)
        record = ownership.on_create(resource.schema, shown, call.writer(), reset, registered_in(call))
        record = () if _is_unnamed(call, obj) else record
    yield from rest(call)
    obj = placed(call, without_record((yield from admitted(call, obj))))
    if resource.rule in escalation.GUARDED:
        yield from escalation.confirm(call, obj, None)
    metadata = {**obj["metadata"], "uid": new_uid(registry.bits), "creationTimestamp": call.now_text}
    base, given_name = metadata.get("generateName", ""), metadata.get("name", "")
    if not metadata.get("name") and resource.behavior.strategy.named_by_uid:
        metadata["name"] = new_uid(registry.bits)
    elif not metadata.get("name") and base:
        metadata["name"] = generated_name(base, registry.bits)
    obj = {**obj, "metadata": metadata}
    if resource.behavior.allocate is not None:
        obj = yield from _allocated(call, resource.behavior.allocate, obj, None, given_name)
    obj = _stamped(call, for_create(resource, obj, names, registry.gates), None)
    yield from rest(call)
    registry.rules.valid(call, obj, None)
    yield from rest(call)
    call.warnings += warnings_of(resource, obj, None, names, call.from_outside)
    if request.verb != "create":
        _check_may_create(call)
    registry.rules.check(call, obj, None)
    yield from approved_by_hooks(call, obj, None)
    charge = registry.rules.charge(call, obj, None)
    if charge is not None:
        yield from charge
    if resource.behavior.settle is not None:
        obj = resource.behavior.settle(obj, names)
    name = obj["metadata"].get("name", "")
    if resource.namespaced and not request.namespace:  # NamespaceKeyFunc
        raise bad_request("Namespace parameter required.")
    key = registry.scheme.key(resource, request.namespace, name)
    if call.dry_run:
        existing = found((yield Get(key)))
        if existing is None:
            shown = as_stored(call, obj)
            return Reply(
                201, item=Item(key, shown, NO_REVISION, NO_REVISION, record), warnings=tuple(call.warnings)
            )
    else:
        obj = to_be_stored(obj)
        check_size(call, obj)
        answer = yield Put(key, obj, 0, record, request.cause)
        item = written(answer)
        if item is not None:
            return Reply(201, item=item, warnings=tuple(call.warnings))
        existing = found((yield Get(key)))
    raise call.already_exists(name, existing, bool(base))


_EMPTIED = ("labels", "annotations", "finalizers", "ownerReferences")


def tidied(obj: Obj, keeps_link: bool = False) -> Obj:
    """The object without empty maps and lists in its metadata, which upstream's encoding leaves
    out.

    keeps_link: True if selfLink stays, which only the store removes
    """
    metadata = obj.get("metadata")
    if not metadata:
        return obj
    for name in _EMPTIED:
        if name in metadata and not metadata[name]:
            break
    else:
        if keeps_link or "selfLink" not in metadata:
            return obj
    link = () if keeps_link else ("selfLink",)
    kept = {k: v for k, v in metadata.items() if k not in link and (v or k not in _EMPTIED)}
    return {**obj, "metadata": kept}  # RemoveSelfLink: it is never stored


def without_record(obj: Obj) -> Obj:
    """The object without managedFields: the store keeps field ownership beside the object."""
    return with_metadata(obj, managedFields=None) if "managedFields" in obj["metadata"] else obj


@lru_cache(maxsize=1024)
def reset_of(resource: Resource, subresource: str) -> dict[str, object]:
    """The fields that a write of a resource or subresource never owns."""
    return ownership.reset_fields(resource.rule, subresource, resource.behavior.strategy.status)


def _stamped(call: Call, obj: Obj, old: Obj | None) -> Obj:
    """The object with what its kind notes about the user and the time of the write."""
    stamp = call.resource.behavior.strategy.stamp
    return obj if stamp is None else stamp(obj, old, call.request.user, call.now_text)


def _allocated(
    call: Call, allocate: Allocate, obj: Obj, old: Obj | None, name: str
) -> Generator[Op, Answer, Obj]:
    """The object with the addresses and ports that its kind allocates.

    name: as a refusal has it: upstream allocates before it generates a name
    """
    registry = call.registry
    try:
        band = is_on(registry.gates, STATIC_BAND)
        ranges = Ranges(
            registry.service_cidr, registry.bits, call.dry_run, registry.node_ports, band, registry.count
        )
        return (yield from allocate(call.resource.prefix, obj, old, ranges))
    except ServiceRefusal as refusal:
        if refusal.bare:
            raise internal(refusal.failure) from None
        if refusal.failure:
            raise Refusal.of(status.internal_error(refusal.failure)) from None
        raise call.invalid(name, refusal.causes) from None


# --- update ---------------------------------------------------------------------------------------


def update(call: Call) -> Steps:
    """PUT to a name, or to its /status."""
    if not call.request.name:
        raise method_not_allowed()
    obj = decode(call, call.resource)
    check_name(obj, call)
    metadata = obj["metadata"]
    revision, uid = metadata.get("resourceVersion", ""), metadata.get("uid", "")
    parse_revision(revision)
    strategy = call.resource.behavior.strategy
    obj = _defaulted(call, once_owned(call, tidied(obj, call.dry_run)))

    def replace(item: Item) -> Obj:
        _check_uid(call, uid, item)
        if revision and revision != "0":
            if revision != item.obj["metadata"]["resourceVersion"]:
                raise call.modified()
        elif not strategy.unconditional:
            raise must_specify_revision(call)
        return obj

    # Quirk: the uid is compared with that of an empty object first (GuaranteedUpdate).
    absent = call.conflict(precondition_failed(call, uid, "")) if uid else None
    if not uid and strategy.create_by_put and found((yield Get(call.key))) is None:
        # Quirk: the revision is ignored, and shown in a dry run.
        return (yield from create_object(call, obj if call.dry_run else _unrevised(obj)))
    return (yield from update_object(call, replace, absent=absent))


def _unrevised(obj: Obj) -> Obj:
    """The object without a resourceVersion."""
    return with_metadata(obj, resourceVersion=None) if "resourceVersion" in obj["metadata"] else obj


def _defaulted(call: Call, obj: Obj) -> Obj:
    """The wanted object of an update or patch with its defaults, which its writer then owns."""
    registry, resource = call.registry, call.resource
    obj = registry.rules.defaults(resource, obj, call.subresource)
    return resource.behavior.strategy.fill_named(obj, registry.names)


def _check_uid(call: Call, uid: str, item: Item) -> None:
    """Raises a conflict if a write names another UID than the stored object's."""
    stored = item.obj["metadata"].get("uid", "")
    if uid and uid != stored:
        raise call.conflict(precondition_failed(call, uid, stored))


def precondition_failed(call: Call, wanted: str, stored: str, what: str = "UID") -> str:
    """The conflict of a write that names another UID or revision than that of the stored object.

    stored: "" if there is no object; what: as the text names it
    """
    return (
        f"StorageError: invalid object, Code: 4, Key: {registry_key(call)}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, "
        f"{what} in object meta: {stored}"
    )


def registry_key(call: Call) -> str:
    """The storage key as upstream's error messages show it.

    Quirk: a dry run shows it without the storage prefix.
    """
    request = call.request
    middle = f"{request.namespace}/" if request.namespace else ""
    extended = call.resource.custom or call.resource.plural in _OF_EXTENSIONS
    group = f"{call.resource.group}/" if extended else ""
    stored = call.resource.plural if call.resource.custom else STORED_AS.get(call.resource.plural)
    plural = stored or call.resource.plural
    return f"{'' if call.dry_run else '/registry'}/{group}{plural}/{middle}{request.name}"


# Kinds of the servers of extensions and aggregation, which store them below their group
# (generic/options.go: SimpleRestOptionsFactory).
_OF_EXTENSIONS = ("customresourcedefinitions", "apiservices")
# kubeapiserver/default_storage_factory_builder.go: SpecialDefaultResourcePrefixes
STORED_AS = {
    "replicationcontrollers": "controllers",
    "endpoints": "services/endpoints",
    "nodes": "minions",
    "services": "services/specs",
    "ingresses": "ingress",
}


def taken_over(call: Call, item: Item, wanted: Obj) -> Record:
    """Field ownership after an update: the writer owns each field that it changes."""
    resource = call.resource
    live = ownership.live_or_given(item.managed, wanted, call.subresource)
    if isinstance(resource, CustomResource) and resource.lost_version(live):
        return ()  # it cannot be converted: dropped (fieldmanager.go, UpdateNoErrors)
    if live is not item.managed:
        live = ownership.of_registered(live, registered_in(call))
    if _is_unnamed(call, wanted) or _is_unnamed(call, item.obj):
        return ()
    reset = reset_of(resource, call.subresource)
    shown = wanted if wanted is item.obj else as_encoded(call, wanted)
    record = ownership.on_update(
        resource.schema, live, item.obj, shown, call.writer(), reset, versions_of(call)
    )
    return of_group(record, resource) if resource.rule == "events" and record is not item.managed else record


def of_group(record: Record, resource: Resource) -> Record:
    """The owners of an event's fields after a write.

    Quirk: fields owned in the form of the other group cannot be converted, so they are lost.
    """
    return tuple(entry for entry in record if entry.api_version == resource.api_version)


def as_encoded(call: Call, obj: Obj) -> Obj:
    """The object as a conversion to upstream's internal form and back shows it: ownership of fields
    is read from that (fieldmanager.go).
    """
    settle = call.resource.behavior.settle
    return obj if settle is None else settle(obj, call.registry.names)


def _is_unnamed(call: Call, obj: Obj) -> bool:
    """True if lists of an object of a Go type have items without a name, or two with one name, so
    that its fields can have no owners.

    Controllers write no such objects.
    """
    return call.from_outside and not call.resource.custom and bool(name_errors(call.resource.schema, obj))


def as_before(call: Call, item: Item, wanted: Obj) -> Record:
    """Field ownership after a write that owns nothing."""
    return item.managed


def update_object(
    call: Call,
    transform: Transform,
    owning: Callable[[Call, Item, Obj], Record] = taken_over,
    absent: Refusal | None = None,
) -> Steps:
    """Reads, changes, checks and writes an object until the write meets no conflict or the request
    ends.

    transform: makes the wanted object from the stored one
    owning: the field ownership afterwards; called after `transform`
    absent: the refusal if there is no object; None for the usual one

    Mirrors  etcd3/store.go, GuaranteedUpdate.
    """
    key = call.key
    while True:
        item = found((yield Get(key)))
        if item is None:
            raise absent or call.not_found()
        wanted = transform(item)
        yield from rest(call)
        record = owning(call, item, wanted)
        yield from rest(call)
        obj, record, admitted_obj = yield from _prepared(call, wanted, item, record)
        yield from rest(call)
        removed = "deletionTimestamp" in obj["metadata"] and _is_removed(call, obj)
        if not removed and obj == item.obj:
            if _says_nothing(admitted_obj, item.obj):
                record = ownership.kept_times(item.managed, record)
            if record == item.managed and not call.dry_run and not _is_completed(call, item):
                return Reply(200, item=item, warnings=tuple(call.warnings))
        if call.dry_run:
            read_into = call.resource.behavior.strategy.read_into
            obj = obj if read_into is None else read_into(obj, item.obj)
            item = Item(item.key, as_stored(call, obj), item.rev, item.created, record)
            return Reply(200, item=item, warnings=tuple(call.warnings))
        if removed:
            answer = yield Delete(key, item.rev, call.request.cause)
        else:
            check_size(call, obj)
            obj = {**obj, "metadata": {**obj["metadata"]}}
            answer = yield Put(key, obj, item.rev, record, call.request.cause)
        done = written(answer)
        if done is not None:
            shown = Item(done.key, obj, item.rev, item.created, record) if removed else done
            return Reply(200, item=shown, warnings=tuple(call.warnings))


def _says_nothing(admitted_obj: Obj, stored: Obj) -> bool:
    """True if an admitted object is the stored one, so that its writer's times are not renewed.

    What the strategy takes back afterwards was written, and counts (equality.go).
    """
    revision = stored["metadata"]["resourceVersion"]
    given = admitted_obj["metadata"]
    if given.get("resourceVersion") != revision:
        admitted_obj = {**admitted_obj, "metadata": {**given, "resourceVersion": revision}}
    return admitted_obj == stored


def _is_completed(call: Call, item: Item) -> bool:
    """True if upstream fills in a default as it reads an object, which no write has stored yet."""
    completed = call.resource.behavior.strategy.completed_by_read
    return completed is not None and item.rev == item.created and completed(item.obj)


def _prepared(
    call: Call, wanted: Obj, item: Item, record: Record
) -> Generator[Op, Answer, tuple[Obj, Record, Obj]]:
    """The object that an update stores, the owners of its fields afterwards, and the object as
    admission left it.
    """
    registry, resource = call.registry, call.resource
    names, old = registry.names, item.obj
    new = without_record((yield from mutated(call, registry.rules.admit(call, wanted, old), old)))
    admitted_obj = new
    if new["metadata"] is not wanted["metadata"]:
        check_admitted(call, wanted, new, old)
    if wanted is not old:
        new = once_owned(call, new, again=True)
    if resource.rule in escalation.GUARDED:
        # Quirk: a change of managedFields counts, even if it follows from one of collector fields.
        if record != item.managed or not escalation.is_collector_change(new, old):
            yield from escalation.confirm(call, new, old)
    if resource.namespaced and not new["metadata"].get("namespace"):
        new = with_metadata(new, namespace=call.request.namespace)
    elif not resource.namespaced and "namespace" in new["metadata"]:
        new = with_metadata(new, namespace=None)  # dropped without an error, as in a create
    new = keep_system_fields(new, old)
    if call.subresource == "status":
        new = for_status(resource, new, old, names, call.registry.gates)
    elif call.subresource:
        new = for_subresource(resource, call.subresource, new, old, names)
        if call.subresource == "ephemeralcontainers":
            # Quirk: the record stays the old pod's; only the one list changes
            # (dropNonEphemeralContainerUpdates).
            record = item.managed
    else:
        if resource.behavior.allocate is not None:
            new = yield from _allocated(call, resource.behavior.allocate, new, old, call.request.name)
        new = counted(call, for_update(resource, new, old, names, call.registry.gates), old)
    new = _stamped(call, new, old)
    if new["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
        new = with_metadata(new, resourceVersion=old["metadata"]["resourceVersion"])
    if new.get("status") is not wanted.get("status"):
        record = ownership.rebound(record, wanted, new)
    if new is not old:
        yield from rest(call)
        registry.rules.valid(call, new, old)
        yield from rest(call)
        if not call.subresource:
            warnings = warnings_of(resource, new, old, names, call.from_outside)
            call.warnings += [text for text in warnings if text not in call.warnings]
        registry.rules.check(call, new, old)
    yield from approved_by_hooks(call, new, old)
    if new is not old:
        charge = registry.rules.charge(call, new, old)
        if charge is not None:
            yield from charge
        if resource.behavior.settle is not None:
            new = resource.behavior.settle(new, names)
    return new, record, admitted_obj


def _is_removed(call: Call, obj: Obj) -> bool:
    """True if this update removes the last thing that kept a deleted object in the store."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds", 0) != 0:
        return False
    return not call.resource.behavior.deletion.keeps(obj)


# --- patch ----------------------------------------------------------------------------------------


def patch(call: Call) -> Steps:
    """PATCH of JSON, merge or strategic merge kind."""
    names, resource = call.registry.names, call.resource
    kind = call.request.content_type.partition(";")[0].strip()
    known = (names.media_json_patch, names.media_merge_patch, names.media_strategic_patch)
    if kind not in known or (resource.custom and kind == known[-1]):
        raise unsupported_patch(call)
    body, duplicates = yield from read_patch(call, lambda: patch_body(call, kind))
    strategic = kind == names.media_strategic_patch

    def change(item: Item) -> Obj:
        problems = duplicates
        try:
            if strategic:
                if key := raw_text.unknown_part(resource.kind, body, item.obj):
                    raise internal(
                        f'unable to find api field in struct RawExtension for the json field "{key}"'
                    )
                out: Obj = strategic_merge(resource.schema, raw_text.plain(resource.kind, item.obj), body)
            elif kind == names.media_merge_patch:
                check_merge_patch(body)
                out = merge_patch(item.obj, body)
            else:
                problems = json_patch_problems(body)
                out = json_patch(_with_record(item, body), body)
            spent(us := weight_us(out))
        except PatchError as error:
            raise Refusal(error.code, error.reason, error.message, error.details) from None
        if out is item.obj and not problems and resource.kind not in raw_text.FIELDS:
            return item.obj
        sound = resource.custom or has_sections(resource.schema, out)
        # A directive for a list that is absent stays in it, until the result is read as its type.
        if call.unchecked or not sound or (strategic and has_list_directive(body)):
            text = partial(printed_patch, item.obj) if strategic else partial(_document, call, item)
            shown = partial(text, body)
            wrong = restore_error(resource.schema, out) if strategic else ""
            spent(us)
            out = conform(call, resource, out, Patched(shown, wrong, problems, strategic))
            spent(us)
        if not resource.custom:
            merged_text = None if strategic else partial(patched_text, item.obj, body)
            out = raw_text.patched(resource.kind, out, item.obj, merged_text)
        check_name(out, call)
        revision = out["metadata"].get("resourceVersion", "")
        parse_revision(revision)
        if revision and revision != "0":
            if revision != item.obj["metadata"]["resourceVersion"]:
                raise call.modified()
        elif not resource.behavior.strategy.unconditional:
            raise must_specify_revision(call)
        out = tidied(out, call.dry_run)
        spent(us)
        return _defaulted(call, out)

    return (yield from update_object(call, change))


def _with_record(item: Item, patch: Json) -> Obj:
    """The object as a JSON patch sees it: with managedFields if an operation addresses them."""
    paths = [str(any_of(operation).get("path")) for operation in patch] if isinstance(patch, list) else []
    if not any(path.startswith("/metadata/managedFields") for path in paths):
        return item.obj
    return with_metadata(item.obj, managedFields=ownership.render(item.managed, item.obj) or None)


def _document(call: Call, item: Item, patch: Json) -> str:
    """The text of a patched object that does not fit its type, with its managedFields."""
    obj = item.obj
    if item.managed:
        obj = with_metadata(obj, managedFields=ownership.render(item.managed, obj))
    original = in_go_order(None if call.resource.custom else call.resource.schema, obj)
    return patched_text(original, patch)


def unsupported_patch(call: Call) -> Refusal:
    """The refusal of a PATCH with a content type that the resource does not support."""
    names = call.registry.names
    kinds = (
        names.media_json_patch,
        names.media_merge_patch,
        *(() if call.resource.custom else (names.media_strategic_patch,)),
        *((names.media_apply_patch,) if call.writer().tracks else ()),
    )
    text = (
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(kinds)}"
    )
    return Refusal(415, "UnsupportedMediaType", text)
