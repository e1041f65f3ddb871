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
from sim.api.patch.json_patches import pointed
from sim.api.schema.field_schemas import SchemaNode
from sim.api.types import Json, Obj


def patched_text(out: Json, patch: Json) -> str:
    """The text of a patched object.

    out: the result for an original `in_go_order`
    patch: operations of a JSON patch, or a merge patch
    """
    touched: dict[int, Any] = {}
    if isinstance(patch, list):
        for operation in patch:
            _touch_pointed(out, operation or {}, touched)
    else:
        _touch_merged(out, patch, touched)
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


def _touch_pointed(out: Json, operation: Obj, touched: dict[int, Any]) -> None:
    """Notes the containers that an operation has passed."""
    for field in ("path", "from"):
        path = operation.get(field)
        for container in pointed(out, path) if isinstance(path, str) else ():
            touched[id(container)] = container


def _touch_merged(out: Json, patch: Json, touched: dict[int, Any]) -> None:
    """Notes the maps in which a merge patch has maps too."""
    if isinstance(out, dict) and isinstance(patch, dict):
        touched[id(out)] = out
        for key, value in patch.items():
            if value is not None:
                _touch_merged(out.get(key), value, touched)


def _sorted(value: Json, touched: dict[int, Any]) -> Json:
    if isinstance(value, dict):
        keys = sorted(value) if id(value) in touched else value
        return {key: _sorted(value[key], touched) for key in keys}
    return [_sorted(item, touched) for item in value] if isinstance(value, list) else value
