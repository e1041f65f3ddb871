"""Deletion of one object and of collections: deletion marks, grace periods, finalizers, removal.

A DELETE becomes the writes of each object. An object with finalizers, or a pod on a node, is marked
and stays; the update that removes the last reason to keep it also removes the object
(`verbs.update_object`). For graceful kinds (pods) even a deletion that takes effect at once is two
writes: one that sets the grace period to 0, then the removal.

Holds: a deletion timestamp only ever moves earlier; finalizers are never added to a marked object,
except by a deletion itself.

Mirrors  kubernetes v1.25 apiserver pkg/registry/rest/delete.go,
         pkg/registry/generic/registry/store.go (Delete, DeleteCollection),
         pkg/registry/core/{pod,namespace}.
Differs  the namespace controller deletes the events of a deleted namespace with the rest of its
         content; nothing cascades here.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from sim.api import status
from sim.api.objects import TERMINAL, with_metadata
from sim.api.refusals import Refusal, Steps, bad_request, internal
from sim.api.schema import field_validation as fieldvalidation
from sim.api.schema.field_schemas import schema_of_kind
from sim.api.schema.json_text import unread_head
from sim.api.store import Delete, Get, Item, Put
from sim.api.types import NOT_FOUND, Json, Obj, Reply, Request
from sim.api.validation.errors import Errors, invalid, unsupported
from sim.api.verbs.call import Call, any_of, approved_by_hooks, found, is_true, written
from sim.dataclass import dataclass
from sim.units import SECOND, format_time, not_whole, parse_time, parse_whole


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of one DELETE; None means that the field was absent.

    grace_s: grace period in seconds
    policy: propagation policy; an empty text is not the same as None
    uid, revision: preconditions
    """

    grace_s: int | None = None
    policy: str | None = None
    uid: str | None = None
    revision: str | None = None
    orphan_dependents: bool | None = None

    def written(self, dry_run: bool) -> Obj:
        """The options as fields of JSON."""
        given: Obj = {"uid": self.uid, "resourceVersion": self.revision}
        preconditions = {name: value for name, value in given.items() if value is not None}
        fields: Obj = {
            "gracePeriodSeconds": self.grace_s,
            "preconditions": preconditions or None,
            "orphanDependents": self.orphan_dependents,
            "propagationPolicy": self.policy,
            "dryRun": ["All"] if dry_run else None,
        }
        return {name: value for name, value in fields.items() if value is not None}


def options_of(request: Request, body: Json) -> DeleteOptions:
    """The options from the body, or from the query if there is no body."""
    if body is not None:
        return given_options(body)
    query = request.options
    orphan = is_true(query, "orphanDependents") if "orphanDependents" in query else None
    grace = query.get("gracePeriodSeconds", "")
    grace_s = parse_whole(grace) if grace else None
    if grace and grace_s is None:
        raise bad_request(not_whole(grace))
    return DeleteOptions(
        grace_s,
        query.get("propagationPolicy"),
        query.get("uid"),
        query.get("resourceVersion"),
        orphan,
    )


def given_options(body: Obj) -> DeleteOptions:
    """The options in a DeleteOptions body."""
    given = any_of(body.get("preconditions"))
    return DeleteOptions(
        body.get("gracePeriodSeconds"),
        body.get("propagationPolicy"),
        given.get("uid"),
        given.get("resourceVersion"),
        body.get("orphanDependents"),
    )


def delete(call: Call) -> Steps:
    """DELETE of one object.

    Quirk: the deletion of a collection asks no kind for a refusal.
    """
    options = checked_options(call)
    refusal = call.resource.behavior.deletion.refusal(call.request.name)
    if refusal:
        raise call.forbidden(call.request.name, refusal)
    return (yield from delete_object(call, options))


def checked_options(call: Call) -> DeleteOptions:
    """The options of a DELETE; raises `Refusal` if they are invalid.

    If there is a body, its dryRun replaces the dryRun of the query.
    """
    try:
        body = call.body()
    except ValueError as error:
        raise internal(unread_head(str(error))) from None
    if body is None and call.from_outside and call.request.body:
        body = {}  # the options of the query do not count, although the body says null
    if body is not None:
        body = _typed(body, isinstance(call.request.body, dict))
        kind = body.get("kind") or "DeleteOptions"
        if kind != "DeleteOptions":
            version = body.get("apiVersion") or f"{call.registry.names.group('meta')}/v1"
            text = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:100"'
            raise internal(text)
        call.dry_run = bool(body.get("dryRun"))
    options = options_of(call.request, body)
    check_delete_options(call, options, body.get("dryRun") or [] if body is not None else [])
    warning = call.resource.behavior.deletion.warning
    if warning and not options.policy and options.orphan_dependents is None:
        call.warnings.append(warning)
    return options


def _typed(body: Json, internal_body: bool) -> Obj:
    """The body with fields of the right types.

    internal_body: True if a process of the simulation sent it, so that it needs no check
    """
    if internal_body:
        return body  # type: ignore[no-any-return]
    if problem := fieldvalidation.head_problem(body):
        raise internal(problem)
    made, _ = fieldvalidation.conform(schema_of_kind("", "v1", "DeleteOptions"), body, "DeleteOptions")
    if isinstance(made, fieldvalidation.DecodeError):
        raise internal(made.message)
    found: Obj = body
    return found


POLICIES = ("Foreground", "Background", "Orphan")


def delete_option_errors(policy: str | None, orphan_dependents: bool | None, dry_run: list[str]) -> Errors:
    """Errors of options that are invalid for every resource.

    Mirrors  apimachinery v1.25 pkg/apis/meta/v1/validation: ValidateDeleteOptions, ValidateDryRun.
    """
    errors: Errors = []
    if policy is not None and orphan_dependents is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", policy, text))
    if policy is not None and policy not in POLICIES:
        errors.append(unsupported("propagationPolicy", policy, (*POLICIES, "nil")))
    if any(value != "All" for value in dry_run):
        errors.append(unsupported("dryRun", dry_run, ("All",)))
    return errors


def check_delete_options(call: Call, options: DeleteOptions, dry_run: list[str]) -> None:
    """Raises `Refusal` if the options are invalid.

    dry_run: the dryRun values of the body
    """
    errors = delete_option_errors(options.policy, options.orphan_dependents, dry_run)
    if errors:
        raise Refusal.of(status.invalid(call.registry.names.group("meta"), "DeleteOptions", "", errors))


def delete_object(call: Call, options: DeleteOptions) -> Steps:
    """The writes of one deletion, repeated until they meet no conflict."""
    deletion = call.resource.behavior.deletion
    announced: Item | None = None  # the object after the first of two writes
    while True:
        item = found((yield Get(call.key)))
        if item is None and announced is not None:  # another writer has removed it since
            return _answer(call, announced, announced.obj, False, options)
        if item is None:
            raise call.not_found()
        _check_preconditions(call, options, item)
        if deletion.keeps(item.obj) and item.obj["metadata"].get("deletionTimestamp"):
            return _answer(call, item, item.obj, True, options)  # before admission, and unchanged
        if call.operation_options is None:
            call.operation_options = _seen_options(call, options, item.obj).written(call.dry_run)
        # The deletion that an eviction makes is no request of its own.
        hooks = None if call.request.subresource else call.registry.rules.hooks(call, None, item.obj, True)
        if hooks is not None:
            yield from hooks
        call.registry.rules.check(call, None, item.obj)
        if not call.request.subresource:
            yield from approved_by_hooks(call, None, item.obj)
        marked = _marked(call, options, item)
        if marked is None:  # a graceful deletion is in progress and is not shortened
            return Reply(200, item=item)
        stays = _stays(call, item.obj, marked)
        if call.dry_run:
            return _answer(call, item, marked, stays, options)
        if stays and marked is item.obj:
            return _answer(call, item, marked, stays, options)
        if stays or _announces_removal(call, item.obj, marked):
            marked = {**marked, "metadata": {**marked["metadata"]}}
            announced = written((yield Put(call.key, marked, item.rev, item.managed, call.request.cause)))
            if announced is None:
                continue
            if stays:
                return _answer(call, announced, announced.obj, stays, options)
            item, marked = announced, announced.obj
        done = written((yield Delete(call.key, item.rev, call.request.cause)))
        if done is not None:
            if deletion.removes:
                other = f"//{deletion.removes}/{call.request.namespace}/{call.request.name}"
                yield Delete(other, None, call.request.cause)
            return _answer(call, item, marked, stays, options)


def _seen_options(call: Call, options: DeleteOptions, obj: Obj) -> DeleteOptions:
    """The options as admission of one object sees them: with the grace period that it gets."""
    grace_s = options.grace_s
    if grace_s is not None and grace_s < 0:
        grace_s = 1
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        effective = _grace_s(call, options, obj)
        grace_s = grace_s if effective is None else effective
    elif call.resource.behavior.strategy.graceful and grace_s is None:
        grace_s = metadata.get("deletionGracePeriodSeconds") or None
    return replace(options, grace_s=grace_s)


def _announces_removal(call: Call, obj: Obj, marked: Obj) -> bool:
    """True if a removal without delay emits MODIFIED before DELETED.

    So it is for a graceful kind if this deletion sets the grace period to 0 or shortens it to 0.
    """
    if not call.resource.behavior.strategy.graceful:
        return False
    before, after = (one["metadata"].get("deletionGracePeriodSeconds") for one in (obj, marked))
    return bool(before != after)


def _check_preconditions(call: Call, options: DeleteOptions, item: Item) -> None:
    """Raises a conflict if the object is not the one that the options name."""
    metadata = item.obj["metadata"]
    uid, revision = metadata.get("uid", ""), metadata["resourceVersion"]
    if call.resource.behavior.deletion.compares_itself:
        if options.uid is not None and options.uid != uid:
            text = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {uid}"
            raise call.conflict(text)
        if options.revision is not None and options.revision != revision:
            text = f"Precondition failed: ResourceVersion in precondition: {options.revision}, ResourceVersion in object meta: {revision}"
            raise call.conflict(text)
        return
    # Quirk: these two messages name the kind, while every other conflict names the resource.
    if options.uid is not None and options.uid != uid:
        text = f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        raise call.conflict_of_kind(text)
    if options.revision is not None and options.revision != revision:
        text = f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        raise call.conflict_of_kind(text)


def _marked(call: Call, options: DeleteOptions, item: Item) -> Obj | None:
    """The object with its deletion mark and finalizers; None if the deletion changes nothing."""
    obj, deletion = item.obj, call.resource.behavior.deletion
    metadata = obj["metadata"]
    now_us = call.registry.wall_us() // SECOND * SECOND
    finalizers = _finalizers(call, options, obj)
    fields: dict[str, Json] = {}
    if finalizers != (metadata.get("finalizers") or []):
        fields["finalizers"] = finalizers or None
        if not finalizers and "finalizers" not in metadata:
            del fields["finalizers"]
    grace_s = _grace_s(call, options, obj)
    deleted = metadata.get("deletionTimestamp")
    if deleted:
        left_s = metadata.get("deletionGracePeriodSeconds", 0)
        if grace_s is not None and grace_s < left_s:
            at_us = parse_time(deleted) - left_s * SECOND + grace_s * SECOND
            fields |= {"deletionTimestamp": format_time(at_us), "deletionGracePeriodSeconds": grace_s}
        elif left_s:  # in this case finalizers do not change either (store.go, Delete)
            return None
        elif finalizers and "deletionGracePeriodSeconds" not in metadata and not deletion.keeps(obj):
            fields["deletionGracePeriodSeconds"] = 0  # a namespace without spec.finalizers left
    else:
        fields["deletionTimestamp"] = format_time(now_us + (grace_s or 0) * SECOND)
        if not deletion.kept_by_spec:
            fields["deletionGracePeriodSeconds"] = grace_s or 0
        if metadata.get("generation", 0) > 0 and not deletion.kept_by_spec:
            fields["generation"] = metadata["generation"] + 1
    marked = with_metadata(obj, **fields) if fields else obj
    return deletion.mark(obj, marked, call.registry.names, call.now_text)


def _grace_s(call: Call, options: DeleteOptions, obj: Obj) -> int | None:
    """The grace period for a graceful kind; None if deletion is not graceful or keeps its grace
    period.
    """
    if not call.resource.behavior.strategy.graceful:
        return None
    spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
    grace_s = options.grace_s
    if obj["metadata"].get("deletionTimestamp"):
        return None if grace_s is None else 1 if grace_s < 0 else int(grace_s)
    if grace_s is None:
        grace_s = spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or phase in TERMINAL:
        return 0
    return 1 if grace_s < 0 else int(grace_s)


def _finalizers(call: Call, options: DeleteOptions, obj: Obj) -> list[str]:
    """The finalizers after the propagation policy is applied.

    Quirk: a namespace waits for dependents that are not orphaned (core/namespace/storage).
    """
    names, waits = call.registry.names, call.resource.behavior.deletion.kept_by_spec
    orphan, foreground = names.finalizer_orphan, names.finalizer_foreground
    present = obj["metadata"].get("finalizers") or []
    if not call.registry.collects:
        return list(present)
    default = call.resource.behavior.strategy.default_propagation
    policy = "Background" if default == "Unsupported" else options.policy
    if not policy and options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Foreground" if waits else "Background"
    if not policy:
        if orphan in present or foreground in present:
            return list(present)
        policy = default
    kept = [name for name in present if name not in (orphan, foreground)]
    if policy == "Orphan":
        return [*kept, orphan]
    return [*kept, foreground] if policy == "Foreground" else kept


def _stays(call: Call, old: Obj, obj: Obj) -> bool:
    """True if the object stays in the store after this write.

    Quirk: a kind that spec.finalizers keep (namespaces) stays after its first DELETE, even without
    finalizers.
    """
    metadata, deletion = obj["metadata"], call.resource.behavior.deletion
    if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds", 0):
        return True
    if deletion.kept_by_spec and not old["metadata"].get("deletionTimestamp"):
        return True
    return deletion.keeps(obj)


def _answer(call: Call, item: Item, obj: Obj, stays: bool, options: DeleteOptions) -> Reply:
    """The reply to a deletion: the object, or a Status."""
    code = 202 if stays and options.orphan_dependents is False else 200
    warnings = tuple(call.warnings)
    if stays or call.resource.behavior.deletion.returns_object:
        if not stays and not call.resource.behavior.strategy.graceful:
            obj = item.obj  # it was removed without a mark
        shown = item if obj is item.obj else Item(item.key, obj, item.rev, item.created, item.managed)
        return Reply(code, item=shown, warnings=warnings)
    details = call.details(call.request.name, uid=item.obj["metadata"].get("uid", ""))
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Reply(code, body=body, warnings=warnings)


def delete_collection(call: Call, listed: Reply, options: DeleteOptions) -> Steps:
    """Deletes each listed item; stops at the first refusal other than NotFound.

    Quirk: of the namespace "" the items are listed, and the first one cannot be deleted.
    """
    assert listed.items is not None
    request = call.request
    if listed.items and call.resource.namespaced and not request.namespace:
        raise bad_request("Namespace parameter required.")
    for item in listed.items:
        metadata = item.obj["metadata"]
        one = Call(
            _renamed(request, metadata.get("namespace", ""), metadata["name"]),
            call.resource,
            call.registry,
            call.dry_run,
            call.options,
            call.warnings,
            operation_options=options.written(call.dry_run),
            collected=True,
        )
        try:
            yield from delete_object(one, options)
        except Refusal as refusal:
            if refusal.code != NOT_FOUND:
                raise
    return msgspec.structs.replace(listed, warnings=tuple(call.warnings))


def _renamed(request: Request, namespace: str, name: str) -> Request:
    """The request for one item of a collection."""
    return Request(
        verb="delete",
        resource=request.resource,
        group=request.group,
        version=request.version,
        namespace=namespace,
        name=name,
        options=request.options,
        body=request.body,
        user=request.user,
        manager=request.manager,
        cause=request.cause,
    )
