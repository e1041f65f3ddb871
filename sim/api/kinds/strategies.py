"""What happens to an object on its way into the store, beside defaults and validation.

Turns (new object, old object) into the object to store: fields that a write may not set get their
old values, status is kept apart from the rest, `metadata.generation` counts changes of what is
wanted.  Each kind brings its deviations (`Kind.strategy`).

Holds: no object handed in is changed; a main write never changes status, a status write never spec;
an object equal to the stored one before is equal to it afterwards.

Mirrors  kubernetes v1.25 pkg/registry/*/*/strategy.go, apiserver
         pkg/registry/rest/{create,update}.go.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.api.kinds.common.pods.gates import without_disabled_fields, without_profiles
from sim.api.objects import get_in, remove_in, replace_in, with_field, with_metadata
from sim.api.schema.kind import NOTHING, Kind
from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.ident import Names
from sim.options.features.gates import APP_ARMOR, is_on


def for_create(resource: Resource, obj: Obj, names: Names, gates: Collection[str] = ()) -> Obj:
    """Prepare a new object: its status cannot be given by a client, its generation starts at one.

    gates: with another value than their default
    """
    strategy = resource.behavior.strategy
    if strategy.status and not strategy.keeps_created_status:
        obj = {**obj, "status": strategy.zero_status}
    obj = strategy.prepare_create(without_disabled(resource.behavior, obj, NOTHING, names, gates), names)
    return with_metadata(obj, generation=1) if strategy.generation else obj


def for_update(resource: Resource, new: Obj, old: Obj, names: Names, gates: Collection[str] = ()) -> Obj:
    """Prepare a write to the main resource; `gates` as for a new object."""
    strategy = resource.behavior.strategy
    if strategy.status:
        new = with_field(new, "status", old.get("status"))
    new = strategy.prepare_update(without_disabled(resource.behavior, new, old, names, gates), old, names)
    return _with_generation(strategy.generation, new, old)


def for_status(resource: Resource, new: Obj, old: Obj, names: Names, gates: Collection[str] = ()) -> Obj:
    """Prepare a write to /status: everything but status and part of the metadata stays."""
    strategy = resource.behavior.strategy
    if "status" not in new:
        new = {**new, "status": strategy.zero_status}
    status = new["status"]
    kept = {**old, "metadata": new["metadata"], "status": status}
    if resource.behavior.drop_disabled_status is not None:
        kept = resource.behavior.drop_disabled_status(kept, old, names, gates)
    return strategy.prepare_status(kept, old, names)


def for_subresource(resource: Resource, subresource: str, new: Obj, old: Obj, names: Names) -> Obj:
    """Prepare a write to a subresource other than /status; the same object where the kind has no
    rule for it.
    """
    prepare = resource.behavior.strategy.prepare_subresource.get(subresource)
    return new if prepare is None else prepare(new, old, names)


def without_disabled(kind: Kind, new: Obj, old: Obj, names: Names, gates: Collection[str]) -> Obj:
    """The new object without the fields of features that are off, unless the stored object has them
    already.

    old: the stored object; {} if the new one is created
    """
    if kind.drop_disabled is not None:
        new = kind.drop_disabled(new, old, names, gates)
    if kind.pod_spec:
        new = _without_disabled_in_pods(kind, new, old, gates)
    for gate, path in kind.gated_fields:
        if not is_on(gates, gate) and get_in(new, path) is not None and get_in(old, path) is None:
            new = remove_in(new, path)
    return new


def _without_disabled_in_pods(kind: Kind, new: Obj, old: Obj, gates: Collection[str]) -> Obj:
    spec, before = get_in(new, kind.pod_spec), get_in(old, kind.pod_spec)
    if isinstance(spec, dict) and spec is not before:
        kept = without_disabled_fields(spec, before or NOTHING, gates)
        if kept is not spec:
            new = replace_in(new, kind.pod_spec, kept)
    if APP_ARMOR in gates:
        return _without_profiles(new, old, (*kind.pod_spec[:-1], "metadata", "annotations"), gates)
    return new


def _without_profiles(new: Obj, old: Obj, path: tuple[str, ...], gates: Collection[str]) -> Obj:
    given = get_in(new, path) or NOTHING
    kept = without_profiles(given, get_in(old, path) or NOTHING, gates)
    return new if len(kept) == len(given) else replace_in(new, path, kept)


def _with_generation(rule: str, new: Obj, old: Obj) -> Obj:
    """The new object with the next generation if the rule counts the change."""
    changed = False
    if rule == "template":
        changed = new.get(rule) != old.get(rule)
    elif rule in ("spec", "spec+annotations"):
        changed = new.get("spec") is not old.get("spec") and new.get("spec") != old.get("spec")
        if not changed and rule == "spec+annotations":
            changed = new["metadata"].get("annotations") != old["metadata"].get("annotations")
    elif rule == "content":
        changed = _content(new) != _content(old)
    elif rule == "all":
        changed = _content(new) != _content(old) or new["metadata"].get("labels") != old["metadata"].get(
            "labels"
        )
    if not changed:
        return new
    return with_metadata(new, generation=old["metadata"].get("generation", 0) + 1)


def _content(obj: Obj) -> Obj:
    return {k: v for k, v in obj.items() if k != "metadata"}


def keep_system_fields(new: Obj, old: Obj) -> Obj:
    """The new object in which fields that an update leaves out or may not change have their old
    values.

    Validation then compares only what the update really changes.

    Mirrors rest.BeforeUpdate and ValidateObjectMetaAccessorUpdate, which fill before they compare.
    """
    before, now = old["metadata"], new["metadata"]
    if now is before:
        return new
    wrong = {}
    for name in ("uid", "deletionGracePeriodSeconds"):
        if name in before and now.get(name) is None:
            wrong[name] = before[name]
    for name in ("generation", "creationTimestamp"):
        if now.get(name) != before.get(name):
            wrong[name] = before.get(name)
    deleted = before.get("deletionTimestamp")
    if deleted and now.get("deletionTimestamp") != deleted:
        wrong["deletionTimestamp"] = deleted
    return with_metadata(new, **wrong) if wrong else new


def warnings_of(resource: Resource, obj: Obj, old: Obj | None, names: Names, from_outside: bool) -> list[str]:
    """Warnings of a valid write (WarningsOnCreate, WarningsOnUpdate).

    old: the stored object of an update
    from_outside: True if the request comes from outside the process, and so gets the costly
    warnings too
    """
    kind = resource.behavior
    found = list(kind.warnings(obj, names)) if kind.warnings is not None else []
    if from_outside and kind.client_warnings is not None:
        found += kind.client_warnings(obj, old, names)
    return found
