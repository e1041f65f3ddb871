"""What differs between two objects, as sets of field paths: the half of field ownership that looks at objects.

Turns (schema, old, new) into the sets of fields added or modified and removed.

Holds: identical subtrees cost nothing; what depends on the shape of an object only (a new Event) is found once per
shape.  Trees are interned (`managed_set`), so equal differences are one object.

An object's own element: the items of all keyed lists but one are named alike in all objects of a template.  A pod's
`podIPs` are not: its address would make every set that holds it the pod's own.  So where a pod has exactly one
address, its sets name that item by `OWN` instead, and `spelled` and `bound` turn one form into the other.  The form of
a record follows from the object beside it: no set beside a pod of one address spells that address.

Mirrors  structured-merge-diff v4 typed/merge.go; apiserver v1.25 fieldmanager/stripmeta.go.
Differs  upstream compares Go values, in which structs held by value and fields without omitempty are always
         there; here `_BY_VALUE` and the schema's required fields say which those are.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from sim.api.memo import IdentityMemo
from sim.api.ownership.field_sets import LEAF, NOTHING, SELF, Tree, intern, of_paths, outside
from sim.api.schema.field_schemas import SchemaNode
from sim.api.types import Json, Obj

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
        "priorityLevelConfiguration",
        "names",
    ]
)
# ... except where one kind has a pointer of the name.
_BY_POINTER = (("io.k8s.api.core.v1.ReplicationControllerSpec", "template"),)
# Written even when empty although the schema doesn't require them (core/v1 Event).
_ZERO_WRITTEN = frozenset(("reportingComponent", "reportingInstance", "eventTime"))

_MISSING: Any = object()


class Duplicates(Exception):
    """A list whose items are owned one by one holds two of one name: nobody can say whose they are."""


def whole_set(node: SchemaNode, obj: Obj) -> Tree:
    """Every field of an object: containers only where null or an empty map, items and map keys always."""
    return _set_below(node, obj) or NOTHING


def field_set(node: SchemaNode, obj: Obj) -> Tree:
    """Every field of an object that apply owns."""
    return _without_unowned(whole_set(node, obj))


def changed_fields(node: SchemaNode, old: Obj, new: Obj) -> tuple[Tree, Tree]:
    """(added or modified, removed) fields between two objects, never of `_UNOWNED`; identical subtrees cost nothing.

    Raises Duplicates; subtrees that did not change are not looked at.
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
    """A set of a custom resource by today's schema: who owned a part of what has become atomic owns the whole."""
    # A leaf; of Go's types, or of any: these do not change.
    if not fields or node.typed or node.values is node:
        return fields
    if node.list_type == "atomic" or node.map_type == "atomic":
        return LEAF
    out: Tree = {}
    for name, below in fields.items():
        inner = node.properties.get(name[2:]) or node.values if name.startswith("f:") else node.items
        out[name] = below if inner is None else reconciled(inner, below)
    return intern(out)


# Shapes of new objects whose kind is plain: values, and structs of values (events, leases).
_SHAPES_MAX = 4096
_plain_made: dict[Any, tuple[Tree, Tree]] = {}
_plain_parts: dict[SchemaNode, tuple[str, ...] | None] = {}


def _shape_of_plain(node: SchemaNode, obj: Obj) -> Any:
    """What the fields of a new object of a plain kind depend on; None for other kinds, or where metadata has owners.

    That is: which fields there are, of which types, and which of them are zero.
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
    """What the metadata of a new object adds; objects of one owner share its parts by identity."""
    names = [name for name in metadata if name not in _UNOWNED]
    if not names:
        return None
    if not _METADATA_KNOWN.issuperset(names):
        return _compare(node, {}, _owned(metadata))[0]
    # None for a part that is missing: it adds as little as one that is null.
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
    """True if two objects agree in what has no owner: name, uid, times and the rest of `_UNOWNED`."""
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    return all(before.get(key, _MISSING) == after.get(key, _MISSING) for key in _UNOWNED_NAMES)


def _without_unowned(tree: Tree) -> Tree:
    return outside(tree, _UNOWNED_SET)


_UNOWNED_NAMES = sorted(_UNOWNED)
_UNOWNED_SET = of_paths(("apiVersion",), ("kind",), *(("metadata", name) for name in _UNOWNED_NAMES))

_made: IdentityMemo[tuple[Tree | None]] = IdentityMemo()


def _made_of_nothing(node: SchemaNode, key: str, value: Obj) -> Tree | None:
    """What a root field of a new object adds; objects of one template share it by identity."""
    if not value or _shape(node) == _FLAT:  # one object's own, and looked up as fast
        return _compare(node, {}, value)[0] if key in _BY_VALUE and node.typed else _all(node, value)
    made = _made.get(node, value)
    if made is None:
        made = (_compare(node, {}, value)[0] if key in _BY_VALUE and node.typed else _all(node, value),)
        _made.put(made, node, value)
    return made[0]


def _compare_field(node: SchemaNode, key: str, before: Any, after: Any, changed: Tree, removed: Tree) -> None:
    """Compare one field or map entry that differs in identity; `_MISSING` where there is none."""
    below = node.properties.get(key) or node.values
    if below is None or before == after:
        return
    if after and after is not _MISSING and _shape(below) == _SCALAR:  # most map entries
        changed[f"f:{key}"] = LEAF
        return
    if before is _MISSING or after is _MISSING:
        given = after if before is _MISSING else before
        if _goes_without_saying(node, key, given):
            return
        # A label or an entry of data may be called as such a field is.
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


# Lists that alike objects share: the conditions of pods that start in one second.
_compared: IdentityMemo[tuple[Tree | None, Tree | None]] = IdentityMemo()


def _compare(node: SchemaNode, old: Any, new: Any) -> tuple[Tree | None, Tree | None]:
    """(added or modified, removed) of two present values; None where there is nothing."""
    shape = _shape(node)
    if (
        not node.typed
        and shape != _SCALAR
        and old is not None
        and new is not None
        and type(old) is not type(new)
    ):
        return _all(node, new), _all(node, old)  # of no known type: it is another one now
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
        known = _compared.get(node, old, new)
        if known is not None:
            return known
        _compare_items(node, old or (), new or (), changed, removed)
        both = (intern(changed) if changed else None, intern(removed) if removed else None)
        return _compared.put(both, node, old, new)
    else:
        old, new = old or {}, new or {}
        scalars = _scalars.get(node) or _find_scalars(node)
        for key, after in new.items():
            before = old.get(key, _MISSING)
            if before is after:
                continue
            if after and key in scalars:  # most fields
                if before != after:
                    changed[scalars[key]] = LEAF
            else:
                _compare_field(node, key, before, after, changed, removed)
        for key, before in old.items():
            if key not in new:
                _compare_field(node, key, before, _MISSING, changed, removed)
    return (intern(changed) if changed else None, intern(removed) if removed else None)


def _compare_items(node: SchemaNode, old: Any, new: Any, changed: Tree, removed: Tree) -> None:
    below = node.items
    assert below is not None
    keys = node.list_map_keys
    if len(keys) == 1 and not node.key_defaults and _compare_named(node, keys[0], old, new, changed, removed):
        return
    mine = {path_element(node, item): item for item in old}
    theirs = {path_element(node, item): item for item in new}
    if len(mine) != len(old) or len(theirs) != len(new):
        raise Duplicates
    for element, item in theirs.items():
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
    for element, item in mine.items():
        removed[element] = _all(below, item)


def _compare_named(node: SchemaNode, key: str, old: Any, new: Any, changed: Tree, removed: Tree) -> bool:
    """As the rest of `_compare_items`, for items told apart by one text each; False where they are not."""
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
    for name, item in after.items():
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
    for name, item in before.items():
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
_SCALAR, _MAP, _LIST, _FLAT = range(4)  # _SCALAR: anything owned as a whole; _FLAT: a struct of such
_shapes: dict[SchemaNode, int] = {}


def _shape(node: SchemaNode) -> int:
    shape = _shapes.get(node)
    if shape is None:
        if len(_shapes) >= _NODES_MAX:  # schemas of custom resources come and go
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
    zero = key in node.required or (key in _ZERO_WRITTEN and key in node.properties)
    return node.typed and (value is None or (not value and zero))


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
            out[path_element(node, item)] = _all(node.items, item)
        if len(out) <= len(value):
            raise Duplicates
    elif isinstance(value, dict):
        for key, below in value.items():
            schema = node.properties.get(key) or node.values
            if schema is not None:
                out[f"f:{key}"] = _all(schema, below)
    else:
        return LEAF  # of no known type
    return intern(out)


def _set_below(node: SchemaNode, value: Any) -> Tree | None:
    """As `_all`, but a container of a known field is a member only where it is empty; None: no member at all."""
    shape = _shape(node)
    if shape == _SCALAR or not value:
        return LEAF
    out: Tree = {}
    if shape == _LIST and isinstance(value, list):
        assert node.items is not None
        for item in value:
            below = _set_below(node.items, item)
            out[path_element(node, item)] = intern({SELF: LEAF, **below}) if below else LEAF
    elif isinstance(value, dict):
        for key, item in value.items():
            schema = node.properties.get(key) or node.values
            if schema is None:
                continue
            known = key in node.properties
            # Quirk: an empty list that has no items to own is not owned itself, nor is what holds nothing else
            below = None if known and item == [] and _shape(schema) == _LIST else _set_below(schema, item)
            if not known:
                below = intern({SELF: LEAF, **below}) if below else LEAF
            if below is not None:
                out[f"f:{key}"] = below
    return intern(out) if out else None


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def path_element(node: SchemaNode, item: Any) -> str:
    """Path element of a list item: its keys (with their defaults) in a map list, itself in a set."""
    if node.list_map_keys and isinstance(item, dict):
        names = node.list_map_keys
        defaults = node.key_defaults
        values = tuple([item.get(name, defaults.get(name)) for name in names])
        if any(isinstance(value, dict | list) for value in values):
            return _key_element.__wrapped__(names, values)  # no key: of a body that is about to be refused
        return _key_element(names, values)
    return _value_element(item) if isinstance(item, str | int) else "v:" + _json(item)


@lru_cache(maxsize=16384)
def _key_element(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    fields = {n: v for n, v in sorted(zip(names, values, strict=True)) if v is not None}
    return "k:" + _json(fields)


@lru_cache(maxsize=16384, typed=True)
def _value_element(value: str | int) -> str:
    return "v:" + _json(value)


def _json(value: Json) -> str:
    return _encode(value)


# --- an object's own element ------------------------------------------------------------------------------

_OWN_ADDRESS = "*"  # no address is written so
_OWN_ITEMS = [{"ip": _OWN_ADDRESS}]
OWN = 'k:{"ip":"*"}'


def own_address(obj: Obj) -> str:
    """The one address of a pod; "" where there is none, or more than one, and for other kinds."""
    if obj.get("kind") != "Pod" or obj.get("apiVersion") != "v1":
        return ""
    listed = (obj.get("status") or LEAF).get("podIPs")
    if type(listed) is not list or len(listed) != 1:
        return ""
    address = listed[0].get("ip") if type(listed[0]) is dict and len(listed[0]) == 1 else None
    return address if type(address) is str else ""


def has_addresses(obj: Obj) -> bool:
    return bool((obj.get("status") or LEAF).get("podIPs"))


def with_own(obj: Obj) -> Obj:
    """A pod of one address as every such pod looks: a change between two of them depends on no address."""
    return {**obj, "status": {**obj["status"], "podIPs": _OWN_ITEMS}}


def is_neutral(fields: Tree) -> bool:
    """True if a set spells no address."""
    listed = fields.get("f:status", LEAF).get("f:podIPs", LEAF)
    return not listed or all(name in (SELF, OWN) for name in listed)


def bound(fields: Tree, address: str) -> Tree:
    """A set beside a pod of that one address: spelled out, as it is kept."""
    if is_neutral(fields):
        return fields
    return _renamed(fields, _address_element(address), OWN)


def spelled(fields: Tree, address: str) -> Tree:
    """A set beside a pod of that one address: as it is kept, spelled out."""
    if OWN not in fields.get("f:status", LEAF).get("f:podIPs", LEAF):
        return fields
    return _renamed(fields, OWN, _address_element(address))


def _address_element(address: str) -> str:
    return "k:" + _json({"ip": address})


def _renamed(fields: Tree, old: str, new: str) -> Tree:
    status = fields["f:status"]
    listed = intern({new if name == old else name: below for name, below in status["f:podIPs"].items()})
    return intern({**fields, "f:status": intern({**status, "f:podIPs": listed})})
