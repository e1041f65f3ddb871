"""Strategic merge patch: (schema, document, patch) become the patched document, by path copy.

Lists of maps merge by the key that the schema names, and primitive lists as sets, unless directives
in the patch ($patch, $retainKeys, $setElementOrder/…, $deleteFromPrimitiveList/…) change this.

Holds: neither argument is changed; the parts that the patch does not touch are shared with the old
document.

Mirrors  apimachinery v1.25 pkg/util/strategicpatch/patch.go: StrategicMergeMapPatch;
         pkg/util/mergepatch/errors.go; apiserver pkg/endpoints/handlers/patch.go:
         interpretStrategicMergePatchError.
Quirk  as upstream: items that are new to a list go before those that only the server has; a mistake
         in a directive answers 500 without a reason; text in a $deleteFromPrimitiveList is ignored.
"""

from __future__ import annotations

from typing import Any

from sim import remembered
from sim.api.go.order import field_places
from sim.api.go.printing import go_float
from sim.api.patch.json_patches import GENERIC_REFUSAL, PatchError, bad_patch
from sim.api.schema.field_schemas import SchemaNode
from sim.api.schema.field_validation import go_kind, is_sound
from sim.api.types import Json, Obj

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"
ORDER_PREFIX = "$setElementOrder/"
DELETE_PREFIX = "$deleteFromPrimitiveList/"
_RETAIN_KEYS_ERROR = "invalid patch format of retainKeys"
_ABSENT: Json = object()


def strategic_merge(node: SchemaNode, original: Obj, patch: Json) -> Obj:
    """The original with the patch applied; raises `PatchError` if the patch is invalid."""
    if patch is None:
        return original
    if not isinstance(patch, dict):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
        raise bad_patch(f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
    return _merge_map(node, original, patch)


def has_list_directive(patch: Json) -> bool:
    """True if an item of a list in a patch holds the directive $patch."""
    if isinstance(patch, dict):
        return any(has_list_directive(value) for value in patch.values() if isinstance(value, dict | list))
    return any(
        isinstance(item, dict) and (PATCH in item or has_list_directive(item))
        for item in (patch if isinstance(patch, list) else ())
    )


def _server_error(message: str) -> PatchError:
    return PatchError(500, "", message)


# --- maps -----------------------------------------------------------------------------------------


def _merge_map(node: SchemaNode | None, original: Obj | None, patch: Obj) -> Obj:
    if PATCH in patch:
        directive = patch[PATCH]
        if directive == "replace":
            return {k: v for k, v in patch.items() if k != PATCH}
        if directive == "delete":
            return {}
        raise _bad_patch_type(directive, patch)
    if patch and min(patch) < "%":  # "$" sorts before letters: one test finds plain patches
        for name in patch:
            if name.startswith("$"):
                return _merge_directed(node, original, patch)
    if not original:
        return {k: without_nulls(v) for k, v in patch.items() if v is not None}
    out = original
    for key, value in patch.items():
        old = original.get(key, _ABSENT)
        if value is None:
            if old is not _ABSENT:
                out = dict(original) if out is original else out
                del out[key]
            continue
        kind = type(value)
        if old is _ABSENT:
            new = without_nulls(value) if kind is dict or kind is list else value
        elif (kind is dict or kind is list) and kind is type(old):
            new = _merge_value(_below(node, key), old, value, False)
        else:
            new = value
            if new == old and type(new) is type(old):
                continue
        if new is not old:
            out = dict(original) if out is original else out
            out[key] = new
    return out


def _merge_directed(node: SchemaNode | None, original: Obj | None, patch: Obj) -> Obj:
    """As `_merge_map`, for a patch with directives about its own fields."""
    out = dict(original or {})
    if RETAIN_KEYS in patch:
        _retain_keys(out, patch)
    done = _merge_ordered_lists(node, out, patch)
    for name, value in patch.items():
        if name in done or (name.startswith("$") and (name == RETAIN_KEYS or name.startswith(ORDER_PREFIX))):
            continue
        deleting = name.startswith(DELETE_PREFIX)
        key = name[len(DELETE_PREFIX) :] if deleting else name
        old = out.get(key, _ABSENT)
        kind = type(value)
        if value is None:
            out.pop(key, None)
        elif old is _ABSENT:
            if not deleting:
                out[key] = without_nulls(value) if kind is dict or kind is list else value
        elif type(old) is kind:
            container = kind is dict or kind is list
            out[key] = _merge_value(_below(node, key), old, value, deleting) if container else value
        elif not deleting:
            out[key] = value
    return out


def _merge_value(node: SchemaNode | None, old: Json, value: Json, deleting: bool) -> Json:
    if isinstance(value, dict):
        replaced = node is not None and "replace" in node.patch_strategies
        return value if replaced else _merge_map(node, old, value)
    if isinstance(value, list):
        # Quirk: a list to delete from replaces one that is not merged (mergeSliceHandler).
        if node is not None and "merge" in node.patch_strategies:
            return _merge_list(node, old, value, deleting)
    return value


def _below(node: SchemaNode | None, key: str) -> SchemaNode | None:
    return None if node is None else node.properties.get(key) or node.values


def _kind(value: Json) -> str:
    """The kind of a decoded value, as Go distinguishes kinds."""
    return _kind_of(type(value))


def _kind_of(given: type[Any]) -> str:
    if issubclass(given, dict):
        return "map"
    return "slice" if issubclass(given, list) else given.__name__


def without_nulls(value: Json) -> Json:
    """A value that is new to the document, without the nulls in its maps, which delete nothing; a
    null in a list stays.

    Returns the value itself if there are none, which is the usual case.
    """
    kind = type(value)
    if kind is dict:
        for item in value.values():
            below = type(item)
            if item is None or ((below is dict or below is list) and without_nulls(item) is not item):
                return {k: without_nulls(v) for k, v in value.items() if v is not None}
    elif kind is list:
        for item in value:
            below = type(item)
            if (below is dict or below is list) and without_nulls(item) is not item:
                return [without_nulls(v) for v in value]
    return value


def _retain_keys(out: Obj, patch: Obj) -> None:
    """Drops the keys that are not listed; the patch itself may only set listed ones."""
    kept = patch[RETAIN_KEYS]
    if not isinstance(kept, list):
        raise bad_patch(_RETAIN_KEYS_ERROR)
    for key, value in patch.items():
        if (
            value is not None
            and key not in kept
            and not key.startswith((DELETE_PREFIX, ORDER_PREFIX, RETAIN_KEYS))
        ):
            raise bad_patch(_RETAIN_KEYS_ERROR)
    for key in [k for k in out if k not in kept]:
        del out[key]


# --- lists ----------------------------------------------------------------------------------------


def _merge_ordered_lists(node: SchemaNode | None, out: Obj, patch: Obj) -> tuple[str, ...]:
    """Merges the lists that have a $setElementOrder; returns their names."""
    done: tuple[str, ...] = ()
    for directive, order in patch.items():
        if not directive.startswith(ORDER_PREFIX):
            continue
        name = directive[len(ORDER_PREFIX) :]
        below = _below(node, name)
        key = below.patch_merge_key if below else ""
        old, items = out.get(name), patch.get(name)
        if key and type(old) is type(items) is type(order) is list and below is not None:
            plain = _merge_plain(below, old, items, order) if "merge" in below.patch_strategies else None
            if plain is not None:
                out[name] = plain
                done = (*done, name)
                continue
        for given in (order, old, items):
            if given is not None and not isinstance(given, list):
                raise _server_error(f"expected a []interface {{}}, but received a {_go_kind(given)}")
        _check_order(items or [], order, key)
        if old is None and items is None:
            continue
        merged = items if old is None else old
        if old is not None and items is not None:
            merged = _merge_value(below, old, items, False)
        if key:
            _check_partition(merged or [], order, key)
        out[name] = _ordered(merged or [], order, old or [], key)
        done = (*done, name)
    return done


def _go_kind(value: Json) -> str:
    return {str: "string", bool: "bool", int: "int64", float: "float64"}.get(
        type(value), "map[string]interface {}"
    )


def _check_order(items: list[Json], order: list[Json], key: str) -> None:
    """Raises unless the items of a patch are in the given order, which names them all."""
    wanted = [v for v in items if not (key and isinstance(v, dict) and v.get(PATCH) == "delete")]
    at = 0
    for given in order:
        if at < len(wanted) and _match(wanted[at], given, key):
            at += 1
    if at < len(wanted):
        raise _server_error(
            f"The order in patch list:\n{go_print(items)}\n doesn't match $setElementOrder list:\n{go_print(order)}\n"
        )


def _check_partition(merged: list[Json], order: list[Json], key: str) -> None:
    """Raises if an item is looked for beyond an entry of the order that is no map
    (patch.go: findMapInSliceBasedOnKeyValue).
    """
    bad = next((at for at, given in enumerate(order) if not isinstance(given, dict)), None)
    if bad is not None:
        before = [given.get(key) for given in order[:bad]]
        if any(_merge_value_of(item, key) not in before for item in merged):
            raise _server_error(f"value for key {bad} is not a map")


def _match(a: Json, b: Json, key: str) -> bool:
    return bool(_merge_value_of(a, key) == _merge_value_of(b, key)) if key else bool(a == b)


def _merge_value_of(item: Json, key: str) -> Json:
    if not isinstance(item, dict):
        raise _server_error(f"expected a map[string]interface {{}}, but received a {_go_kind(item)}")
    if key not in item:
        raise _no_merge_key(item, key)
    return item[key]


def _merge_list(node: SchemaNode | None, old: list[Json], patch: list[Json], deleting: bool) -> list[Json]:
    if not old and not patch:
        return old
    if node is not None and node.patch_merge_key and not deleting:
        plain = _merge_plain(node, old, patch, None)
        if plain is not None:
            return plain
    if not _is_list_of_maps(old, patch):
        if deleting:
            gone = dict.fromkeys(patch)
            return [v for v in old if v not in gone]
        merged = list(dict.fromkeys([*old, *patch]))
        return _ordered(merged, patch, old, "")
    key = node.patch_merge_key if node is not None else ""
    if not key:
        raise _server_error("cannot merge lists without merge key for " + (node.name if node else ""))
    old, patch = _apply_directives(old, patch, key)
    merged = list(old)
    items = node.items if node is not None else None
    places: dict[Json, int] = {}
    for at, item in enumerate(merged):
        if key in item:  # an item without the key is refused below
            places.setdefault(_name(item, key), at)
    for item in patch:
        name = _name(item, key)
        known = places.get(name)
        if known is None:
            places[name] = len(merged)
            merged.append(item)
        else:
            merged[known] = _merge_map(items, merged[known], item)
    return _ordered(merged, patch, old, key)


def _merge_plain(
    node: SchemaNode, old: list[Json], patch: list[Json], order: list[Json] | None
) -> list[Json] | None:
    """The result of `_merge_list`, and of a given order, for two lists of named maps without
    directives.

    None if anything is out of the ordinary: the ordinary path then finds the result or the refusal.
    Results for items of plain values are remembered by content: pods that start in one second share
    their conditions.
    """
    try:
        known = (node, id(old), _content_key(patch), None if order is None else _content_key(order))
        found = _merged.get(known)
    except (AttributeError, TypeError):
        return _find_merged(node, old, patch, order)
    if found is not None:
        return found[1]
    merged = _find_merged(node, old, patch, order)
    if merged is not None:
        if len(_merged) >= _MERGED_MAX:
            _merged.clear()
        _merged[known] = (old, merged)  # a reference to the old list keeps its id unique
    return merged


_MERGED_MAX = 4096
_merged: dict[Any, tuple[list[Json], list[Json]]] = {}
remembered.register(_merged.clear)


def _content_key(items: list[Json]) -> Any:
    """The content of maps of plain values as a hashable key; 1 and True differ."""
    return tuple([(*item, *item.values(), *map(type, item.values())) for item in items])


def _find_merged(
    node: SchemaNode, old: list[Json], patch: list[Json], order: list[Json] | None
) -> list[Json] | None:
    key, items = node.patch_merge_key, node.items
    try:
        places = {item[key]: at for at, item in enumerate(old)}
        merged = {}
        for item in patch:
            if PATCH in item:
                return None
            name = item[key]
            at = places.get(name)
            merged[name] = item if at is None else _merge_map(items, old[at], item)
        wanted = list(merged) if order is None else [given[key] for given in order]
        places_wanted = dict.fromkeys(wanted)
    except (KeyError, TypeError):  # not a map, no name, or a name that is not hashable
        return None
    if len(places) != len(old) or len(merged) != len(patch) or not old or not patch or None in places:
        return None
    if order is not None:
        rest = iter(wanted)
        if not all(name in rest for name in merged):
            return None
    out: list[Json] = []
    left = [(at, name) for name, at in places.items() if name not in places_wanted]
    left.reverse()
    for name in places_wanted:
        at = places.get(name, -1)
        while left and left[-1][0] < at:
            out.append(old[left.pop()[0]])
        if name in merged:
            out.append(merged[name])
        elif at >= 0:
            out.append(old[at])
    out += [old[at] for at, _ in reversed(left)]
    return out


def _is_list_of_maps(old: list[Json], patch: list[Json]) -> bool:
    kinds = list(dict.fromkeys(map(_kind_of, dict.fromkeys(map(type, [*old, *patch])))))
    if kinds[0] == "slice":
        raise PatchError(422, "Invalid", GENERIC_REFUSAL, {})  # "lists of lists are not supported"
    if len(kinds) > 1:
        raise _server_error(f"list element types are not identical: {go_print([old, patch])}")
    return kinds[0] == "map"


def _apply_directives(old: list[Json], patch: list[Json], key: str) -> tuple[list[Json], list[Json]]:
    """Removes the $patch items from a list, and deletes or replaces old items accordingly."""
    plain = []
    gone: dict[Json, None] = {}
    replace = False
    for item in patch:
        directive = item.get(PATCH) if PATCH in item else None
        if PATCH not in item:
            plain.append(item)
        elif directive == "delete":
            name = _name(item, key)
            if not gone:
                _places(old, key)  # raises if an item has no name
            gone[name] = None
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise _server_error("merging lists cannot yet be specified in the patch")
        else:
            raise _bad_patch_type(directive, item)
    if gone:
        old = [v for v in old if _name(v, key) not in gone]
    return (plain, []) if replace else (old, plain)


def _name(item: Json, key: str) -> Json:
    """The identity of an item, hashable: its merge key, or the item itself."""
    value = _merge_value_of(item, key) if key else item
    return ("", go_print(value)) if isinstance(value, dict | list) else value


def _places(items: list[Json], key: str) -> dict[Json, int]:
    """The name of each item with its first position."""
    places: dict[Json, int] = {}
    for at, name in enumerate(_names(items, key)):
        places.setdefault(name, at)
    return places


def _names(items: list[Json], key: str) -> list[Json]:
    if not key and {str}.issuperset(map(type, items)):
        return items
    return [_name(item, key) for item in items]


def _ordered(merged: list[Json], wanted: list[Json], server: list[Json], key: str) -> list[Json]:
    """The items of the patch in its order and those of the server only in theirs, interleaved by
    the server's order.
    """
    named = list(zip(_names(merged, key), merged, strict=True))
    first, before = _places(wanted, key), _places(server, key)
    mine = sorted((pair for pair in named if pair[0] in first), key=lambda pair: first[pair[0]])
    theirs = sorted(
        (pair for pair in named if pair[0] not in first), key=lambda pair: before.get(pair[0], -1)
    )
    out: list[Json] = []
    at = 0
    for name, item in mine:
        right = before.get(name, -1)
        while at < len(theirs) and 0 <= before.get(theirs[at][0], -1) < right:
            out.append(theirs[at][1])
            at += 1
        out.append(item)
    return out + [item for _, item in theirs[at:]]


# --- types of the result --------------------------------------------------------------------------


def restore_error(node: SchemaNode, value: Json) -> str:
    """The error of upstream's converter for the first value of a wrong type in a patched object; ""
    if all fit.

    Mirrors  apimachinery v1.25 pkg/runtime/converter.go: fromUnstructured.
    """
    if value is None:
        return ""
    kind = node.type
    if kind in ("object", "map"):
        if not isinstance(value, dict):
            return f"cannot restore {'struct from:' if kind == 'object' else 'map from'} {_restored(value)}"
        texts = node.values is not None and node.values.type == "string" and not node.properties
        if texts and {str}.issuperset(map(type, value.values())):
            return ""
        places = field_places(node.name) if node.properties else {}
        # A struct is filled in the order of its fields.
        keys = sorted(value, key=lambda key: places.get(key, len(places)))
        below = ((node.properties.get(key) or node.values, value[key]) for key in keys)
        found = ((n, v) for n, v in below if n is not None and not (type(v) is dict and is_sound(n, v)))
        return next((e for n, v in found if (e := restore_error(n, v))), "")
    if kind == "array":
        if not isinstance(value, list):
            return f"cannot restore slice from {_restored(value)}"
        items = node.items
        if items is not None and items.type == "string" and {str}.issuperset(map(type, value)):
            return ""
        return next((e for v in value if items is not None and (e := restore_error(items, v))), "")
    return _scalar_error(node, value)


def _restored(value: Json) -> str:
    kind = _kind(value)
    return {"str": "string", "int": "int64", "float": "float64"}.get(kind, kind)


def _scalar_error(node: SchemaNode, value: Json) -> str:
    wanted = {
        "string": "string",
        "boolean": "bool",
        "integer": node.format or "int64",
        "number": "float64",
    }.get(node.type)
    given = _restored(value)
    if node.type in ("time", "micro-time") and not isinstance(value, str):
        return f"json: cannot unmarshal {go_kind(value)} into Go value of type string"
    if wanted is None or given == wanted or (wanted == "string" and node.format == "byte"):
        return ""  # types with a decoder of their own are checked when the object is decoded
    if given in ("int64", "float64"):
        fits = given == "int64" or float(value).is_integer()
        if wanted in ("int32", "int64", "float64") and fits:
            return ""
        if wanted != "bool" and not (given == "float64" and wanted == "string"):
            return f"cannot convert {given} to {node.go_type or wanted}"
    return f"unrecognized type: {wanted}"


# --- errors ---------------------------------------------------------------------------------------


def _no_merge_key(item: Json, key: str) -> PatchError:
    return _server_error(f"map: {go_print(item)} does not contain declared merge key: {key}")


def _bad_patch_type(directive: Json, patch: Obj) -> PatchError:
    text = directive if isinstance(directive, str) else f"%!s({_go_kind(directive)}={go_print(directive)})"
    return _server_error(f"unknown patch type: {text} in map: {go_print(patch)}")


def go_print(value: Any) -> str:
    """A decoded JSON value as Go's %v prints it."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{go_print(value[k])}" for k in sorted(value)) + "]"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(go_print, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return go_float(value) if isinstance(value, float) else str(value)
