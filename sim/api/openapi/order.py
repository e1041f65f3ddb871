"""The order of the members of a schema, as upstream writes them.

Holds: the content is unchanged; members of maps with free names are in the order of the names.

Mirrors  kube-openapi pkg/validation/spec/schema.go (SchemaProps, MarshalJSON: the members of a
         struct, then extensions, then the reference).
"""

from __future__ import annotations

from typing import Any, Final

_MEMBERS: Final = (
    "description",
    "type",
    "nullable",
    "format",
    "title",
    "default",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "enum",
    "maxProperties",
    "minProperties",
    "required",
    "items",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "properties",
    "additionalProperties",
)
_RANK: Final = {name: place for place, name in enumerate(_MEMBERS)}
_RULES: Final = "x-kubernetes-validations"  # structs in Go, not maps
_EXTENSIONS: Final = len(_MEMBERS)
_LAST: Final = {"$ref": _EXTENSIONS + 1, "externalDocs": _EXTENSIONS + 2, "example": _EXTENSIONS + 3}
_MANY, _ONE, _NAMED = ("allOf", "oneOf", "anyOf"), ("items", "not", "additionalProperties"), "properties"


def _rank(key: str) -> tuple[int, str]:
    return _RANK.get(key, _LAST.get(key, _EXTENSIONS)), key


def in_order(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its members, and those of the schemas in it, in order."""
    return {key: _value(key, schema[key]) for key in sorted(schema, key=_rank)}


def _value(key: str, value: Any) -> Any:
    if key == _NAMED and isinstance(value, dict):
        return {name: in_order(value[name]) for name in sorted(value)}
    if key in _ONE and isinstance(value, dict):
        return in_order(value)
    if key in _MANY and isinstance(value, list):
        return [in_order(each) for each in value]
    if (key.startswith("x-") and key != _RULES) or key in ("default", "example"):
        return sorted_maps(value)
    return value


def sorted_maps(value: Any) -> Any:
    """A value of any form with the members of its maps in the order of their names."""
    if isinstance(value, dict):
        return {key: sorted_maps(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_maps(each) for each in value]
    return value
