"""The JSON text of a patched object that does not fit its type, as upstream quotes it.

Upstream applies JSON and merge patches to texts: maps that the patch has looked into are written
again with sorted keys, and all others keep their text, which for built-in kinds has the order of
Go's fields.

Mirrors  gopkg.in/evanphx/json-patch.v4: lazyNode.MarshalJSON; Go encoding/json (order and escapes).
Differs  values of the patch keep the order but not the spelling of their text.
"""

from __future__ import annotations

import json
from typing import Any

from sim.api.go.escapes import escaped
from sim.api.go.order import field_places
from sim.api.patch.json_patches import json_patch, merge_patch, pointed
from sim.api.patch.strategic_merge import go_print
from sim.api.schema.field_schemas import SchemaNode
from sim.api.types import Json, Obj


def patched_text(original: Json, patch: Json) -> str:
    """The text of an object after a patch.

    original: the object before, `in_go_order`
    patch: operations of a JSON patch, or a merge patch
    """
    touched: dict[int, Any] = {}
    if isinstance(patch, list):
        out = json_patch(original, patch)
        for operation in patch:
            _touch_pointed(out, operation or {}, touched)
    else:
        out = merge_patch(original, patch)
        _touch_merged(original, patch, out, touched)
    text = json.dumps(_sorted(out, touched), separators=(",", ":"), ensure_ascii=False)
    return escaped(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def in_go_order(node: SchemaNode | None, value: Json) -> Json:
    """A value with the keys of its maps as Go's encoder writes them; sorted where it has no type."""
    if isinstance(value, list):
        return [in_go_order(None if node is None else node.items, item) for item in value]
    if not isinstance(value, dict):
        return value
    known = list(node.properties) if node is not None else []
    if node is not None and node.typed and known:
        places = field_places(node.name)
        keys = sorted(value, key=lambda key: (places.get(key, len(places)), key))
    else:
        keys = sorted(value)
    below = {key: None if node is None else node.properties.get(key) or node.values for key in keys}
    return {key: value[key] if key == "fieldsV1" else in_go_order(below[key], value[key]) for key in keys}


def printed_patch(original: Json, patch: Json) -> str:
    """The text of a strategic merge patch in the refusal of what it makes."""
    return go_print(merged_patch(original, patch))


def merged_patch(original: Json, patch: Json) -> Json:
    """A strategic merge patch as the merge leaves it, which refusals print.

    The merge drops the nulls of what it puts where nothing is, or a value of another kind
    (strategicpatch/patch.go: discardNullValuesFromPatch).  Items of lists are left unread.
    """
    if not (isinstance(original, dict) and isinstance(patch, dict)):
        return patch
    left: Obj = {}
    for key, value in patch.items():
        here = original.get(key)
        same = isinstance(value, dict) and isinstance(here, dict)
        left[key] = merged_patch(here, value) if same else without_nulls(value, type(here) is type(value))
    return left


def without_nulls(value: Json, same: bool) -> Json:
    """A value without the keys of its maps that hold null; `same` leaves it unread."""
    if same:
        return value
    if isinstance(value, dict):
        return {key: without_nulls(below, False) for key, below in value.items() if below is not None}
    return [without_nulls(item, False) for item in value] if isinstance(value, list) else value


def _touch_pointed(out: Json, operation: Obj, touched: dict[int, Any]) -> None:
    """Notes the containers that an operation has passed; only `copy` and `move` look at `from`."""
    fields = ("path", "from") if operation.get("op") in ("copy", "move") else ("path",)
    for field in fields:
        path = operation.get(field)
        for container in pointed(out, path) if isinstance(path, str) else ():
            touched[id(container)] = container


def _touch_merged(original: Json, patch: Json, out: Json, touched: dict[int, Any]) -> None:
    """Notes the maps that a merge patch has merged or searched for nulls.

    It searches all that it puts in a place without a map; what takes the place of a map it leaves
    unread.
    """
    if not isinstance(original, dict):
        _touch_all(out, touched)
    elif isinstance(patch, dict):
        touched[id(out)] = out
        for key, value in patch.items():
            if value is not None:
                _touch_merged(original.get(key), value, out.get(key), touched)


def _touch_all(value: Json, touched: dict[int, Any]) -> None:
    if isinstance(value, dict):
        touched[id(value)] = value
        for below in value.values():
            _touch_all(below, touched)
    elif isinstance(value, list):
        for item in value:
            _touch_all(item, touched)


def _sorted(value: Json, touched: dict[int, Any]) -> Json:
    if isinstance(value, dict):
        keys = sorted(value) if id(value) in touched else value
        return {key: _sorted(value[key], touched) for key in keys}
    return [_sorted(item, touched) for item in value] if isinstance(value, list) else value
