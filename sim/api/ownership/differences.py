"""The differences of two objects as sets of field paths: the part of field ownership that reads
objects.

Schema, old and new object give the sets of fields added or modified and of fields removed.

Holds: identical subtrees cost nothing; a result that depends only on the shape of an object (a new
Event) is computed once per shape. Trees are interned (`field_sets`), so equal differences are one
object.

An object's own element: the items of all keyed lists but one have the same names in all objects of
a template. A pod's `podIPs` do not: its address would make every set that holds it specific to the
pod. So if a pod has exactly one address, its sets name that item by `OWN` instead, and `spelled`
and `bound` convert between the forms. The form of a record follows from the object beside it: no
set beside a pod with one address spells that address.

Mirrors  structured-merge-diff v4 typed/merge.go; apiserver v1.25 fieldmanager/stripmeta.go.
Differs  upstream compares Go values, in which structs held by value and fields without omitempty
         always exist; here `_BY_VALUE` and the schema's required fields list those.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Any

from sim import remembered
from sim.api.memo import IdentityMemo
from sim.api.ownership.field_sets import (
    LEAF,
    NOTHING,
    SELF,
    Tree,
    difference,
    intern,
    of_paths,
    outside,
)
from sim.api.schema.field_schemas import SchemaNode, is_pointer
from sim.api.types import Json, Obj
from sim.pauses import paced
from sim.remembered import cached

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
# Fields that Go holds by value (or, containers, writes as null): they always exist, so they are
# never added.
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
        "drivers",
        "involvedObject",
        "regarding",
        "deprecatedSource",
        "scaleTargetRef",
        "roleRef",
        "priorityLevelConfiguration",
        "names",
        "user",
    ]
)
# ... except where one kind has a pointer of the name.
_BY_POINTER = (("io.k8s.api.core.v1.ReplicationControllerSpec", "template"),)
# Written even when empty although the schema doesn't require them (core/v1 Event).
_ZERO_WRITTEN = frozenset(("reportingComponent", "reportingInstance", "eventTime"))

_MISSING: Any = object()


class Duplicates(Exception):
    """A list of separately owned items holds two with one name, so that ownership is undefined."""


def whole_set(node: SchemaNode, obj: Obj) -> Tree:
    """Every field of an object: containers only if null or empty, items and map keys always."""
    return _set_below(node, obj) or NOTHING


def field_set(node: SchemaNode, obj: Obj) -> Tree:
    """Every field of an object that apply owns."""
    return _without_unowned(whole_set(node, obj))


def changed_fields(node: SchemaNode, old: Obj, new: Obj) -> tuple[Tree, Tree]:
    """(added or modified, removed) fields between two objects, never of `_UNOWNED`.

    Raises Duplicates; identical subtrees are skipped.
    """
    if old:
        return _changed(node, old, new)
    shape = _shape_of_plain(node, new)
    if shape is None:
        return _changed(node, old, new)
    made = _plain_made.get(shape)
    if made is None:
        if len(_plain_made) >= _SHAPES_MAX:
            _plain_made.clear()
        made = _plain_made[shape] = _changed(node, old, new)
    return made


def _changed(node: SchemaNode, old: Obj, new: Obj) -> tuple[Tree, Tree]:
    changed: Tree = {}
    removed: Tree = {}
    for key in (*new, *[k for k in old if k not in new]):
        below = node.properties.get(key) or node.values
        if below is None or key in ("apiVersion", "kind"):
            continue
        before, after = old.get(key, _MISSING), new.get(key, _MISSING)
        if before is after:
            continue
        if key == "metadata":
            if before is _MISSING and type(after) is dict:
                added = _made_metadata(below, after)
                if added is not None:
                    changed["f:metadata"] = added
                continue
            before, after = _owned(before), _owned(after)
        elif before is _MISSING and type(after) is dict:
            added = _made_of_nothing(below, key, after)
            if added is not None:
                changed[f"f:{key}"] = added
            continue
        _compare_field(node, key, before, after, changed, removed)
    return intern(changed), intern(removed)


def reconciled(node: SchemaNode, fields: Tree) -> Tree:
    """A set of a custom resource by the present schema: an owner of a part of what has become
    atomic owns the whole.
    """
    # A leaf; a Go type; a value of any type: these do not change.
    if not fields or node.typed or node.values is node:
        return fields
    if node.list_type == "atomic" or node.map_type == "atomic":
        return LEAF
    out: Tree = {}
    for name, below in paced(fields.items(), 2):
        inner = node.properties.get(name[2:]) or node.values if name.startswith("f:") else node.items
        out[name] = below if inner is None else reconciled(inner, below)
    return intern(out)


# Shapes of new objects of plain kinds: values, and structs of values (events, leases).
_SHAPES_MAX = 4096
_plain_made: dict[Any, tuple[Tree, Tree]] = {}
_plain_parts: dict[SchemaNode, tuple[str, ...] | None] = {}
remembered.register(_plain_made.clear)


def _shape_of_plain(node: SchemaNode, obj: Obj) -> Any:
    """What the fields of a new object of a plain kind depend on: the present fields, their types,
    and which are zero.

    None for other kinds, or if its metadata has owned fields.
    """
    parts = _plain_parts.get(node, ())
    if parts == ():
        if len(_plain_parts) >= _NODES_MAX:
            _plain_parts.clear()
        parts = _plain_parts[node] = _find_parts(node)
    if parts is None or not _UNOWNED.issuperset(obj.get("metadata") or ()):
        return None
    values = obj.values()
    shape: list[Any] = [node, *obj, *map(type, values), *map(bool, values)]
    for name in parts:
        below = obj.get(name)
        if type(below) is dict:
            values = below.values()
            shape += (name, *below, *map(type, values), *map(bool, values))
    return tuple(shape)


def _find_parts(node: SchemaNode) -> tuple[str, ...] | None:
    """Names of a plain kind's structs; None if a field is more than a struct of values."""
    shapes = {name: _shape(below) for name, below in node.properties.items() if name != "metadata"}
    if any(shape not in (_SCALAR, _FLAT) for shape in shapes.values()):
        return None
    return tuple(name for name, shape in shapes.items() if shape == _FLAT) or None


_METADATA_PARTS = ("labels", "annotations", "ownerReferences", "finalizers")
_METADATA_KNOWN = frozenset((*_METADATA_PARTS, "generateName"))
_made_meta: IdentityMemo[tuple[Tree | None]] = IdentityMemo()


def _made_metadata(node: SchemaNode, metadata: Obj) -> Tree | None:
    """The fields that the metadata of a new object adds; objects of one owner share its parts."""
    names = [name for name in metadata if name not in _UNOWNED]
    if not names:
        return None
    if not _METADATA_KNOWN.issuperset(names):
        return _compare(node, {}, _owned(metadata))[0]
    # None for an absent part: it adds as little as a null one.
    parts = [metadata.get(name) for name in _METADATA_PARTS]
    named = bool(metadata.get("generateName"))
    made = _made_meta.get(node, named, *parts)
    if made is None:
        made = _made_meta.put((_compare(node, {}, _owned(metadata))[0],), node, named, *parts)
    return made[0]


def _owned(metadata: Any) -> Obj:
    if metadata is _MISSING or metadata is None:
        return {}
    return {k: v for k, v in metadata.items() if k not in _UNOWNED}


def unowned_alike(old: Obj, new: Obj) -> bool:
    """True if two objects agree in the fields without owners: name, uid, times and the rest of
    `_UNOWNED`.
    """
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    return all(before.get(key, _MISSING) == after.get(key, _MISSING) for key in _UNOWNED_NAMES)


def _without_unowned(tree: Tree) -> Tree:
    # Metadata itself has no owner, only its fields have.
    return difference(outside(tree, _UNOWNED_SET), _METADATA)


_UNOWNED_NAMES = sorted(_UNOWNED)
_METADATA = of_paths(("metadata",))
_UNOWNED_SET = of_paths(("apiVersion",), ("kind",), *(("metadata", name) for name in _UNOWNED_NAMES))

_made: IdentityMemo[tuple[Tree | None]] = IdentityMemo()


def _made_of_nothing(node: SchemaNode, key: str, value: Obj) -> Tree | None:
    """The fields that a root field of a new object adds; objects of one template share its value."""
    if not value or _shape(node) == _FLAT:  # differs per object, and is compared quickly
        return _compare(node, {}, value)[0] if key in _BY_VALUE and node.typed else _all(node, value)
    made = _made.get(node, value)
    if made is None:
        made = (_compare(node, {}, value)[0] if key in _BY_VALUE and node.typed else _all(node, value),)
        _made.put(made, node, value)
    return made[0]


def _compare_field(node: SchemaNode, key: str, before: Any, after: Any, changed: Tree, removed: Tree) -> None:
    """Compares one field or map entry; `_MISSING` if it is absent on one side."""
    below = node.properties.get(key) or node.values
    if below is None:
        return
    # Values of any type may nest by the thousand: each level is compared once.
    nested = below is node and type(before) is dict and type(after) is dict
    if not nested and before == after:
        return
    if after and after is not _MISSING and _shape(below) == _SCALAR:  # most map entries
        changed[f"f:{key}"] = LEAF
        return
    if before is _MISSING or after is _MISSING:
        given = after if before is _MISSING else before
        if _is_implicit_zero(node, key, given):
            return
        # A label or an entry of data may have the name of such a field.
        by_value = key in _BY_VALUE and key in node.properties and (node.name, key) not in _BY_POINTER
        if not by_value or not node.typed:
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


# Lists that many objects share: the conditions of pods that start in one second.
_compared: IdentityMemo[tuple[Tree | None, Tree | None]] = IdentityMemo()


def _compare(node: SchemaNode, old: Any, new: Any) -> tuple[Tree | None, Tree | None]:
    """(added or modified, removed) of two present values; None for an empty set."""
    shape = _shape(node)
    if (
        not node.typed
        and shape != _SCALAR
        and old is not None
        and new is not None
        and type(old) is not type(new)
    ):
        return _all(node, new), _all(node, old)  # an untyped value that changes its type
    if shape == _SCALAR or not (old or new) or type(old or new) is not (list if shape == _LIST else dict):
        # Two empty containers are leaves: null and {} differ.
        return (LEAF, None) if old != new else (None, None)
    if shape == _FLAT:
        old, new = old or {}, new or {}
        made = _differing(node, old, new)
        gone = [k for k in old if k not in new and not _is_implicit_zero(node, k, old[k])]
        return (
            _leaves(node, tuple(made), False) if made else None,
            _leaves(node, tuple(gone), False) if gone else None,
        )
    changed: Tree = {}
    removed: Tree = {}
    if shape == _LIST:
        known = _compared.get(node, old, new)
        if known is not None:
            return known
        _compare_items(node, old or (), new or (), changed, removed)
        both = (intern(changed) if changed else None, intern(removed) if removed else None)
        return _compared.put(both, node, old, new)
    else:
        old, new = old or {}, new or {}
        scalars = _scalars.get(node) or _find_scalars(node)
        for key, after in paced(new.items(), 2):
            before = old.get(key, _MISSING)
            if before is after:
                continue
            if after and key in scalars:  # most fields
                if before != after:
                    changed[scalars[key]] = LEAF
            else:
                _compare_field(node, key, before, after, changed, removed)
        for key, before in paced(old.items(), 1):
            if key not in new:
                _compare_field(node, key, before, _MISSING, changed, removed)
    return (intern(changed) if changed else None, intern(removed) if removed else None)


def _compare_items(node: SchemaNode, old: Any, new: Any, changed: Tree, removed: Tree) -> None:
    below = node.items
    assert below is not None
    keys = node.list_map_keys
    if len(keys) == 1 and _compare_named(node, keys[0], old, new, changed, removed):
        return
    mine = {path_element(node, item): item for item in paced(old, 3)}
    theirs = {path_element(node, item): item for item in paced(new, 3)}
    if len(mine) != len(old) or len(theirs) != len(new):
        raise Duplicates
    if _shape(below) == _SCALAR:  # the element says all
        changed.update(dict.fromkeys([element for element in theirs if element not in mine], LEAF))
        removed.update(dict.fromkeys([element for element in mine if element not in theirs], LEAF))
        return
    for element, item in paced(theirs.items(), 4):
        before = mine.pop(element, _MISSING)
        if before is item:
            continue
        if before is _MISSING:
            changed[element] = _all(below, item)
        else:
            added, gone = _compare(below, before, item)
            if added is not None:
                changed[element] = added
            if gone is not None:
                removed[element] = gone
    for element, item in paced(mine.items(), 3):
        removed[element] = _all(below, item)


def _compare_named(node: SchemaNode, key: str, old: Any, new: Any, changed: Tree, removed: Tree) -> bool:
    """The common case of `_compare_items`: items with one text as key. Returns False if it does not
    apply.
    """
    below = node.items
    assert below is not None
    try:
        before = {item[key]: item for item in old}
        after = {item[key]: item for item in new}
    except (KeyError, TypeError):
        return False
    if len(before) != len(old) or len(after) != len(new):
        return False
    if not all(type(name) is str for name in (*before, *after)):
        return False
    for name, item in paced(after.items(), 5):
        was = before.pop(name, _MISSING)
        if was is item:
            continue
        if was is _MISSING:
            changed[_key_element((key,), (name,))] = _all(below, item)
            continue
        added, gone = _compare(below, was, item)
        if added is not None:
            changed[_key_element((key,), (name,))] = added
        if gone is not None:
            removed[_key_element((key,), (name,))] = gone
    for name, item in paced(before.items(), 5):
        removed[_key_element((key,), (name,))] = _all(below, item)
    return True


_scalars: dict[SchemaNode, dict[str, str]] = {}


def _find_scalars(node: SchemaNode) -> dict[str, str]:
    """Fields owned as a whole, with their path elements."""
    found = {key: f"f:{key}" for key, below in node.properties.items() if _shape(below) == _SCALAR}
    if len(_scalars) >= _NODES_MAX:
        _scalars.clear()
    _scalars[node] = found
    return found


_NODES_MAX = 65536
_SCALAR, _MAP, _LIST, _FLAT = range(4)  # _SCALAR: owned as a whole; _FLAT: a struct of scalars
_shapes: dict[SchemaNode, int] = {}


def _shape(node: SchemaNode) -> int:
    shape = _shapes.get(node)
    if shape is None:
        if len(_shapes) >= _NODES_MAX:  # definitions come and go at run time
            _shapes.clear()
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
    return _FLAT if below and scalars and node.values is None else _MAP


@cached(4096)
def _leaves(node: SchemaNode, names: tuple[str, ...], whole: bool) -> Tree:
    """The set of these fields of a flat struct, and of the struct itself if `whole` is True."""
    leaves = {f"f:{name}": LEAF for name in names if name in node.properties}
    return intern({SELF: LEAF, **leaves} if whole else leaves)


def _differing(node: SchemaNode, old: Obj, new: Obj) -> list[str]:
    """The fields of a flat struct that are new or changed."""
    out = []
    for key, after in new.items():
        before = old.get(key, _MISSING)
        if before is after or before == after:
            continue
        if before is _MISSING and _is_implicit_zero(node, key, after):
            continue
        out.append(key)
    return out


def _is_implicit_zero(node: SchemaNode, key: str, value: Any) -> bool:
    """Zeros that Go writes anyway: there or not, they are the same.

    Quirk: Go writes null for a list that is missing, so an empty list is a change (typed/merge.go,
    emptyPromoteToLeaf).  The null of a pointer to no time is a value.
    """
    if value is None and node.typed:
        below = node.properties.get(key)
        return below is None or below.type not in ("time", "micro-time") or not is_pointer(node, key)
    zero = key in node.required or (key in _ZERO_WRITTEN and key in node.properties)
    return bool(node.typed and not value and zero and type(value) is not list)


def _all(node: SchemaNode, value: Any) -> Tree:
    """Every path of a value that the other side lacks, containers included."""
    shape = _shape(node)
    if shape == _SCALAR or not value:
        return LEAF
    if shape == _FLAT:
        return _leaves(node, tuple(value), True)
    out: Tree = {SELF: LEAF}
    if shape == _LIST and isinstance(value, list):
        assert node.items is not None
        if _shape(node.items) == _SCALAR:
            out.update(dict.fromkeys([path_element(node, item) for item in paced(value, 1)], LEAF))
        else:
            for item in paced(value, 5):
                out[path_element(node, item)] = _all(node.items, item)
        if len(out) <= len(value):
            raise Duplicates
    elif isinstance(value, dict) and _maps_to_scalars(node):
        out.update(dict.fromkeys([f"f:{key}" for key in value], LEAF))
    elif isinstance(value, dict):
        for key, below in paced(value.items(), 2):
            schema = node.properties.get(key) or node.values
            if schema is not None:
                out[f"f:{key}"] = _all(schema, below)
    else:
        return LEAF  # of unknown type
    return intern(out)


def _maps_to_scalars(node: SchemaNode) -> bool:
    """True for a map of scalars of one kind, which can be as long as a body."""
    return node.values is not None and not node.properties and _shape(node.values) == _SCALAR


def _set_below(node: SchemaNode, value: Any) -> Tree | None:
    """As `_all`, but a container of a known field is a member only if it is empty; None if there is
    no member.
    """
    shape = _shape(node)
    if shape == _SCALAR or not value:
        return LEAF
    out: Tree = {}
    if shape == _LIST and isinstance(value, list):
        assert node.items is not None
        if _shape(node.items) == _SCALAR:
            return intern(dict.fromkeys([path_element(node, item) for item in paced(value, 1)], LEAF))
        for item in paced(value, 6):
            below = _set_below(node.items, item)
            out[path_element(node, item)] = intern({SELF: LEAF, **below}) if below else LEAF
    elif isinstance(value, dict) and _maps_to_scalars(node):
        out = dict.fromkeys([f"f:{key}" for key in value], LEAF)
    elif isinstance(value, dict):
        for key, item in paced(value.items(), 3):
            schema = node.properties.get(key) or node.values
            if schema is None:
                continue
            known = key in node.properties
            # Quirk: an empty list of owned items has no owner, nor has a container of nothing else.
            below = None if known and item == [] and _shape(schema) == _LIST else _set_below(schema, item)
            if not known:
                below = intern({SELF: LEAF, **below}) if below else LEAF
            if below is not None:
                out[f"f:{key}"] = below
    return intern(out) if out else None


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def path_element(node: SchemaNode, item: Any) -> str:
    """Path element of a list item: its keys (with their defaults) in a map list, itself in a set."""
    if type(item) is str:
        return "v:" + encode_basestring(item)
    if node.list_map_keys and isinstance(item, dict):
        names = node.list_map_keys
        defaults = node.key_defaults
        values = tuple([item.get(name, defaults.get(name)) for name in names])
        if all(type(value) is str for value in values):
            return _element_of_texts(_heads(names), values)
        if None in values and any(item.get(name, "") is None for name in names):
            # Quirk: a key that is null is part of the element (typed/helpers.go).
            return "k:" + _json({n: v for n, v in sorted(zip(names, values, strict=True)) if v or n in item})
        if any(isinstance(value, dict | list) for value in values):
            # Not a valid key: the body will be refused.
            return _key_element.__wrapped__(names, values)
        return _key_element(names, values)
    return "v:" + _json(item)


@cached(4096)
def _heads(names: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """The keys of an element in its order: the place of each value, and the text before it."""
    ordered = sorted(range(len(names)), key=names.__getitem__)
    return tuple([(i, f"{',' if n else 'k:{'}{encode_basestring(names[i])}:") for n, i in enumerate(ordered)])


def _element_of_texts(heads: tuple[tuple[int, str], ...], values: tuple[Any, ...]) -> str:
    """As `_key_element`, for texts, of which there may be a great many."""
    return "".join([head + encode_basestring(values[i]) for i, head in heads]) + "}"


@cached(16384)
def _key_element(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    fields = {n: v for n, v in sorted(zip(names, values, strict=True)) if v is not None}
    return "k:" + _json(fields)


def _json(value: Json) -> str:
    return _encode(value)


# --- an object's own element ----------------------------------------------------------------------

_OWN_ADDRESS = "*"  # not a valid address
_OWN_ITEMS = [{"ip": _OWN_ADDRESS}]
OWN = 'k:{"ip":"*"}'


def own_address(obj: Obj) -> str:
    """The one address of a pod; "" if it has none or several, and for other kinds."""
    if obj.get("kind") != "Pod" or obj.get("apiVersion") != "v1":
        return ""
    listed = (obj.get("status") or LEAF).get("podIPs")
    if type(listed) is not list or len(listed) != 1:
        return ""
    address = listed[0].get("ip") if type(listed[0]) is dict and len(listed[0]) == 1 else None
    return address if type(address) is str else ""


def has_addresses(obj: Obj) -> bool:
    """True if the object is a pod with addresses."""
    return bool((obj.get("status") or LEAF).get("podIPs"))


def with_own(obj: Obj) -> Obj:
    """A pod with one address, with a placeholder for it: changes between such pods depend on no
    address.
    """
    return {**obj, "status": {**obj["status"], "podIPs": _OWN_ITEMS}}


def is_neutral(fields: Tree) -> bool:
    """True if a set spells no address."""
    listed = fields.get("f:status", LEAF).get("f:podIPs", LEAF)
    return not listed or all(name in (SELF, OWN) for name in listed)


def bound(fields: Tree, address: str) -> Tree:
    """The stored form of a set beside a pod with that one address."""
    if is_neutral(fields):
        return fields
    return _renamed(fields, _address_element(address), OWN)


def spelled(fields: Tree, address: str) -> Tree:
    """The full form of a set beside a pod with that one address."""
    if OWN not in fields.get("f:status", LEAF).get("f:podIPs", LEAF):
        return fields
    return _renamed(fields, OWN, _address_element(address))


def _address_element(address: str) -> str:
    return "k:" + _json({"ip": address})


def _renamed(fields: Tree, old: str, new: str) -> Tree:
    status = fields["f:status"]
    listed = intern({new if name == old else name: below for name, below in status["f:podIPs"].items()})
    return intern({**fields, "f:status": intern({**status, "f:podIPs": listed})})
