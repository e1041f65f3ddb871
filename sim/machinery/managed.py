"""Field ownership: an object before and after a write to who owns which of its fields.

Turns (schema, old, new, writer) into the `Managed` entries that a store keeps beside the object, and those into
`metadata.managedFields`.

Holds: an entry per manager, operation, subresource and apiVersion, none of them empty, in upstream's order
(operation, time, manager, version, subresource).  Objects handed in carry no `metadata.managedFields` unless a
client sets it on purpose.  An object whose record is empty stays untracked until somebody applies.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/fieldmanager (structuredmerge, managedfieldsupdater,
         buildmanagerinfo, capmanagers, skipnonapplied, stripmeta), structured-merge-diff v4 typed/merge.go.
Differs  - upstream compares Go values, in which structs held by value and fields without omitempty are always
           there; here `_BY_VALUE` and the schema's required fields say which those are.
         - entries of other versions are compared in the version of the write; no served kind but Event has two.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import msgspec

from sim.machinery.api import Json, Obj
from sim.machinery.identity import IdentityMemo
from sim.machinery.managed_set import (
    LEAF,
    NOTHING,
    SELF,
    Tree,
    difference,
    intern,
    intern_deep,
    is_tree,
    of_paths,
    outside,
    union,
)
from sim.machinery.schema import SchemaNode
from sim.machinery.store import Managed
from sim.units import SECOND, format_time, parse_time

UPDATE_MANAGERS_MAX = 10  # fieldmanager.DefaultMaxUpdateManagers
ANCIENT = "ancient-changes"  # capmanagers.go: oldUpdatesManagerName
UPDATE, APPLY = "Update", "Apply"

# stripmeta.go: stripSet; never owned.
_UNOWNED = frozenset(
    [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "selfLink",
        "generation",
        "managedFields",
        "clusterName",
    ]
)
# Fields that Go holds by value (or, containers, writes as null): always there, so never added as such.
_BY_VALUE = frozenset(
    [
        "metadata",
        "spec",
        "status",
        "template",
        "strategy",
        "updateStrategy",
        "jobTemplate",
        "resources",
        "source",
        "nodeInfo",
        "daemonEndpoints",
        "kubeletEndpoint",
        "loadBalancer",
        "containers",
        "involvedObject",
        "regarding",
        "deprecatedSource",
        "scaleTargetRef",
        "roleRef",
        "names",
    ]
)
# ... except where one kind has a pointer of the name.
_BY_POINTER = (("io.k8s.api.core.v1.ReplicationControllerSpec", "template"),)
# Written even when empty although the schema doesn't require them (core/v1 Event).
_ZERO_WRITTEN = frozenset(("reportingComponent", "reportingInstance", "eventTime"))

_MISSING: Any = object()


class Writer(msgspec.Struct, frozen=True):
    """Who writes: field manager, version and subresource of the request, Unix time in seconds."""

    manager: str
    api_version: str
    time_s: int
    subresource: str = ""


# --- comparing --------------------------------------------------------------------------------------------


def field_set(node: SchemaNode, obj: Obj) -> Tree:
    """Every field of an object, as apply owns them: containers only where empty, items and map keys always."""
    return _without_unowned(intern(_set_below(node, obj)))


def changed_fields(node: SchemaNode, old: Obj, new: Obj) -> tuple[Tree, Tree]:
    """(added or modified, removed) fields between two objects, never of `_UNOWNED`; identical subtrees cost nothing."""
    changed: Tree = {}
    removed: Tree = {}
    for key in (*new, *[k for k in old if k not in new]):
        below = node.properties.get(key)
        if below is None or key in ("apiVersion", "kind"):
            continue
        before, after = old.get(key, _MISSING), new.get(key, _MISSING)
        if before is after:
            continue
        if key == "metadata":
            before, after = _owned(before), _owned(after)
        elif before is _MISSING and type(after) is dict:
            added = _made_of_nothing(below, key, after)
            if added is not None:
                changed[f"f:{key}"] = added
            continue
        _compare_field(node, key, before, after, changed, removed)
    return intern(changed), intern(removed)


def _owned(metadata: Any) -> Obj:
    if metadata is _MISSING or metadata is None:
        return {}
    return {k: v for k, v in metadata.items() if k not in _UNOWNED}


def _without_unowned(tree: Tree) -> Tree:
    return outside(tree, _UNOWNED_SET)


_UNOWNED_SET = of_paths(("apiVersion",), ("kind",), *(("metadata", name) for name in sorted(_UNOWNED)))

_made: IdentityMemo[tuple[Tree | None]] = IdentityMemo()


def _made_of_nothing(node: SchemaNode, key: str, value: Obj) -> Tree | None:
    """What a root field of a new object adds; objects of one template share it by identity."""
    made = None if _shape(node) == _FLAT else _made.get(node, value)
    if made is None:
        made = (_compare(node, {}, value)[0] if key in _BY_VALUE else _all(node, value),)
        if (
            _shape(node) != _FLAT
        ):  # a flat struct (an event's object) is one object's own, and looked up as fast
            _made.put(made, node, value)
    return made[0]


def _compare_field(node: SchemaNode, key: str, before: Any, after: Any, changed: Tree, removed: Tree) -> None:
    """Compare one field or map entry that differs in identity; `_MISSING` where there is none."""
    below = node.properties.get(key) or node.values
    if below is None or before == after:
        return
    if after and after is not _MISSING and _shape(below) == _SCALAR:  # most fields
        changed[f"f:{key}"] = LEAF
        return
    if before is _MISSING or after is _MISSING:
        given = after if before is _MISSING else before
        if _goes_without_saying(node, key, given):
            return
        if key not in _BY_VALUE or (node.name, key) in _BY_POINTER:
            (changed if before is _MISSING else removed)[f"f:{key}"] = _all(below, given)
            return
        empty: Any = None if below.type == "array" else {}
        before, after = (empty, after) if before is _MISSING else (before, empty)
    if _shape(below) == _SCALAR:
        changed[f"f:{key}"] = LEAF
        return
    added, gone = _compare(below, before, after)
    if added is not None:
        changed[f"f:{key}"] = added
    if gone is not None:
        removed[f"f:{key}"] = gone


def _compare(node: SchemaNode, old: Any, new: Any) -> tuple[Tree | None, Tree | None]:
    """(added or modified, removed) of two present values; None where there is nothing."""
    shape = _shape(node)
    if shape == _SCALAR or not (old or new) or type(old or new) is not (list if shape == _LIST else dict):
        # Two empty containers are leaves: null and {} are told apart.
        return (LEAF, None) if old != new else (None, None)
    if shape == _FLAT:
        old, new = old or {}, new or {}
        made = _differing(node, old, new)
        gone = [k for k in old if k not in new and not _goes_without_saying(node, k, old[k])]
        return (
            _leaves(node, tuple(made), False) if made else None,
            _leaves(node, tuple(gone), False) if gone else None,
        )
    changed: Tree = {}
    removed: Tree = {}
    if shape == _LIST:
        _compare_items(node, old or (), new or (), changed, removed)
    else:
        old, new = old or {}, new or {}
        for key, after in new.items():
            before = old.get(key, _MISSING)
            if before is not after:
                _compare_field(node, key, before, after, changed, removed)
        for key, before in old.items():
            if key not in new:
                _compare_field(node, key, before, _MISSING, changed, removed)
    return (intern(changed) if changed else None, intern(removed) if removed else None)


def _compare_items(node: SchemaNode, old: Any, new: Any, changed: Tree, removed: Tree) -> None:
    below = node.items
    assert below is not None
    mine = {_element(node, item): item for item in old}
    for item in new:
        element = _element(node, item)
        before = mine.pop(element, _MISSING)
        if before is item or element in changed:
            continue
        if before is _MISSING:
            changed[element] = _all(below, item)
        else:
            added, gone = _compare(below, before, item)
            if added is not None:
                changed[element] = added
            if gone is not None:
                removed[element] = gone
    for element, item in mine.items():
        removed[element] = _all(below, item)


_SCALAR, _MAP, _LIST, _FLAT = range(4)  # _SCALAR: anything owned as a whole; _FLAT: a struct of such
_shapes: dict[SchemaNode, int] = {}


def _shape(node: SchemaNode) -> int:
    shape = _shapes.get(node)
    if shape is None:
        shape = _shapes[node] = _shape_of(node)
    return shape


def _shape_of(node: SchemaNode) -> int:
    if node.list_type == "atomic" or node.map_type == "atomic":
        return _SCALAR
    if node.type == "array":
        return _LIST
    if node.type not in ("object", "map"):
        return _SCALAR
    below = node.properties.values()
    # Not by `_shape`: a schema may contain itself.
    scalars = all(n.type not in ("object", "map", "array") or n.list_type == "atomic" for n in below)
    return _FLAT if below and scalars else _MAP


@lru_cache(maxsize=4096)
def _leaves(node: SchemaNode, names: tuple[str, ...], whole: bool) -> Tree:
    """The set of these fields of a flat struct, and of the struct itself if it is `whole`."""
    leaves = {f"f:{name}": LEAF for name in names if name in node.properties}
    return intern({SELF: LEAF, **leaves} if whole else leaves)


def _differing(node: SchemaNode, old: Obj, new: Obj) -> list[str]:
    """Fields of a flat struct that are new or other than they were."""
    out = []
    for key, after in new.items():
        before = old.get(key, _MISSING)
        if before is after or before == after:
            continue
        if before is _MISSING and _goes_without_saying(node, key, after):
            continue
        out.append(key)
    return out


def _goes_without_saying(node: SchemaNode, key: str, value: Any) -> bool:
    """Zeros that Go writes anyway: there or not, they are the same."""
    return value is None or (not value and (key in node.required or key in _ZERO_WRITTEN))


def _all(node: SchemaNode, value: Any) -> Tree:
    """Every path of a value that the other side lacks, containers themselves included."""
    shape = _shape(node)
    if shape == _SCALAR or not value:
        return LEAF
    if shape == _FLAT:
        return _leaves(node, tuple(value), True)
    out: Tree = {SELF: LEAF}
    if shape == _LIST and isinstance(value, list):
        assert node.items is not None
        for item in value:
            out[_element(node, item)] = _all(node.items, item)
    elif isinstance(value, dict):
        for key, below in value.items():
            schema = node.properties.get(key) or node.values
            if schema is not None:
                out[f"f:{key}"] = _all(schema, below)
    return intern(out)


def _set_below(node: SchemaNode, value: Any) -> Tree:
    """As `_all`, but a container of a known field is a member only where it is empty."""
    shape = _shape(node)
    if shape == _SCALAR or not value:
        return LEAF
    out: Tree = {}
    if shape == _LIST and isinstance(value, list):
        assert node.items is not None
        for item in value:
            below = _set_below(node.items, item)
            out[_element(node, item)] = intern({SELF: LEAF, **below}) if below else LEAF
    elif isinstance(value, dict):
        for key, item in value.items():
            schema = node.properties.get(key) or node.values
            if schema is None:
                continue
            below = _set_below(schema, item)
            if below and key not in node.properties:
                below = intern({SELF: LEAF, **below})
            out[f"f:{key}"] = below
    return intern(out)


def _element(node: SchemaNode, item: Any) -> str:
    """Path element of a list item: its keys (with their defaults) in a map list, itself in a set."""
    if node.list_map_keys and isinstance(item, dict):
        names = node.list_map_keys
        defaults = node.key_defaults
        return _key_element(names, tuple([item.get(name, defaults.get(name)) for name in names]))
    return _value_element(item) if isinstance(item, str | int) else "v:" + _json(item)


@lru_cache(maxsize=16384)
def _key_element(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    fields = {n: v for n, v in sorted(zip(names, values, strict=True)) if v is not None}
    return "k:" + _json(fields)


@lru_cache(maxsize=16384, typed=True)
def _value_element(value: str | int) -> str:
    return "v:" + _json(value)


def _json(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# --- entries ----------------------------------------------------------------------------------------------


def on_create(node: SchemaNode, obj: Obj, writer: Writer, reset: Tree = NOTHING) -> tuple[Managed, ...]:
    """The record of a new object: all of it belongs to its creator.

    obj: as decoded and defaulted, before admission and strategy: what they fill in has no owner.
    reset: fields that this kind never takes from a create (`reset_fields`).
    """
    given = given_record(obj)
    if given:
        return on_update(node, given, {}, obj, writer, reset)
    owned = outside(changed_fields(node, {}, obj)[0], reset)
    return (_entry(writer, owned),) if owned else ()


def on_update(
    node: SchemaNode, managed: tuple[Managed, ...], old: Obj, new: Obj, writer: Writer, reset: Tree = NOTHING
) -> tuple[Managed, ...]:
    """The record after an update: who changes a field owns it, nobody owns one that is gone.

    managed: `live_or_given`'s answer.  An entry's time moves only when its writer adds or changes a value.
    """
    if not managed or old is new:
        return managed
    changed, removed = changed_fields(node, old, new)
    if reset:
        changed, removed = outside(changed, reset), outside(removed, reset)
    if not changed and not removed:
        return managed
    touched = union(changed, removed)
    mine = NOTHING
    kept = []
    for entry in managed:
        fields = difference(entry.fields, touched)
        if _is_of(entry, writer):
            mine = fields
            if changed:
                continue
        if fields:
            kept.append(entry if fields is entry.fields else msgspec.structs.replace(entry, fields=fields))
    if changed:
        kept.append(_entry(writer, union(mine, changed)))
        _cap(kept)
    kept.sort(key=_order)
    return tuple(kept)


def _is_of(entry: Managed, writer: Writer) -> bool:
    return (
        entry.manager == writer.manager
        and entry.operation == UPDATE
        and entry.subresource == writer.subresource
        and entry.api_version == writer.api_version
    )


def _entry(writer: Writer, fields: Tree) -> Managed:
    return Managed(
        manager=writer.manager,
        operation=UPDATE,
        api_version=writer.api_version,
        time_s=writer.time_s,
        fields=fields,
        subresource=writer.subresource,
    )


def _order(entry: Managed) -> tuple[str, int, str, str, str]:
    return (entry.operation, entry.time_s, entry.manager, entry.api_version, entry.subresource)


def _cap(entries: list[Managed]) -> None:
    """Fold the oldest Update entries of a version into one until no more than the bound are left."""
    updaters = [entry for entry in entries if entry.operation == UPDATE]
    surplus = len(updaters) - UPDATE_MANAGERS_MAX
    if surplus <= 0:
        return
    first: dict[str, Managed] = {}
    for entry in sorted(updaters, key=_order):
        if surplus <= 0:
            return
        version = entry.api_version
        bucket = first.get(version)
        if bucket is None:
            first[version] = entry
            continue
        entries.remove(bucket)
        entries.remove(entry)
        # The time of the younger: the bucket changed last when that one did.
        merged = Managed(ANCIENT, UPDATE, version, entry.time_s, union(bucket.fields, entry.fields))
        first[version] = merged
        entries.append(merged)
        surplus -= 1


# --- records in objects -----------------------------------------------------------------------------------


def given_record(obj: Obj) -> tuple[Managed, ...] | None:
    """The record a client sends inside an object; () if it asks to start anew; None if it sends none (or a bad one)."""
    entries = (obj.get("metadata") or {}).get("managedFields")
    if not isinstance(entries, list):
        return None
    if not entries or entries == [{}]:
        return ()
    out = []
    for entry in entries:
        fields, operation = entry.get("fieldsV1"), entry.get("operation")
        if not is_tree(fields) or operation not in (UPDATE, APPLY):
            return None
        time = entry.get("time")
        out.append(
            Managed(
                manager=entry.get("manager", ""),
                operation=operation,
                api_version=entry.get("apiVersion", ""),
                time_s=parse_time(time) // SECOND if time else 0,
                fields=intern_deep(fields),
                subresource=entry.get("subresource", ""),
            )
        )
    return tuple(sorted((e for e in out if e.fields), key=_order))


def live_or_given(live: tuple[Managed, ...], new: Obj, subresource: str) -> tuple[Managed, ...]:
    """The record an update starts from: the client's own where it sends one through the main resource."""
    given = None if subresource else given_record(new)
    return live if given is None else given


def render(managed: tuple[Managed, ...]) -> list[Obj]:
    """`metadata.managedFields`; entries that only took ownership have no time."""
    return [_render(entry) for entry in managed]


def _render(entry: Managed) -> Obj:
    out: Obj = {"manager": entry.manager} if entry.manager else {}
    out |= {"operation": entry.operation, "apiVersion": entry.api_version}
    if entry.time_s:
        out["time"] = format_time(entry.time_s * SECOND)
    out |= {"fieldsType": "FieldsV1", "fieldsV1": entry.fields}
    if entry.subresource:
        out["subresource"] = entry.subresource
    return out


# --- fields that a write never takes ----------------------------------------------------------------------

_SPEC, _STATUS = of_paths(("spec",)), of_paths(("status",))
_METADATA_SPEC = of_paths(("metadata",), ("spec",))
# Each registry strategy's GetResetFields, where it isn't the rule (facts of kinds, section 1).
_RESET = {
    ("pods", "status"): of_paths(
        ("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")
    ),
    ("deployments", "status"): of_paths(("spec",), ("metadata", "labels")),
    ("flowschemas", "status"): _METADATA_SPEC,
    ("prioritylevelconfigurations", "status"): _METADATA_SPEC,
    ("volumeattachments", "status"): _METADATA_SPEC,
    ("customresourcedefinitions", "status"): _METADATA_SPEC,
    ("certificatesigningrequests", "status"): of_paths(("spec",), ("status", "conditions")),
    ("certificatesigningrequests", "approval"): of_paths(("spec",), ("status", "certificate")),
}


def reset_fields(plural: str, subresource: str, has_status: bool) -> Tree:
    """Fields that a write of this resource leaves as they are, and therefore doesn't own."""
    special = _RESET.get((plural, subresource))
    if special is not None:
        return special
    if subresource == "status":
        return _SPEC
    return _STATUS if has_status and not subresource else NOTHING
