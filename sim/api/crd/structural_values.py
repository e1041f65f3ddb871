"""Applies a structural schema to an object: prunes unknown fields, sets defaults, and shapes
embedded metadata.

Schema and object become the object that is stored or shown, by path copy, with the paths of removed
fields.

Holds: an object that needs no change is returned as itself; neither argument is changed; paths are
sorted, as upstream reports them. Unknown fields are kept only where the schema says so
(`x-kubernetes-preserve-unknown-fields`).

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/schema/{pruning,defaulting,objectmeta}.
"""

from __future__ import annotations

from typing import Any

from sim.api.crd.structural import ABSENT, ANYTHING, Structural
from sim.api.go.printing import ANY, go_syntax
from sim.api.schema.field_schemas import OBJECT_META, schema_of
from sim.api.schema.field_validation import DecodeError, conform_part
from sim.api.types import Json, Obj

_META = ("apiVersion", "kind", "metadata")


class BadPart(Exception):
    """A part of an object does not fit the Go type that it has."""


# --- pruning --------------------------------------------------------------------------------------


def pruned(schema: Structural, obj: Obj) -> tuple[Obj, list[str]]:
    """An object without unknown fields, and their paths."""
    unknown: list[str] = []
    out: Obj = _prune_fields(schema, obj, "", unknown, True, schema.free)
    return out, sorted(unknown)


def _prune(schema: Structural, value: Json, at: str, unknown: list[str], free: bool) -> Any:
    """A value without unknown fields.

    free: True if unknown fields are kept, although the schema knows others
    """
    if isinstance(value, dict):
        return _prune_fields(schema, value, at, unknown, schema.embedded, free)
    if not isinstance(value, list):
        return value
    below = schema.items
    if below is None:
        if free:
            return value
        below = ANYTHING
    free = free or below.free
    out = [
        _prune(below, item, f"{at}[{i}]", unknown, free) if isinstance(item, dict | list) else item
        for i, item in enumerate(value)
    ]
    return _unless_all_same(value, out)


def _prune_fields(
    schema: Structural, value: Obj, at: str, unknown: list[str], whole: bool, free: bool
) -> Obj:
    """An object or map without unknown fields.

    whole: True for a complete object, which may have a type and metadata that the schema does not
        list
    """
    out: Obj = {}
    same = True
    for key, given in value.items():
        if whole and key in _META:
            out[key] = given
            continue
        below = schema.below(key)
        if below is None:
            if free:
                out[key] = given
            else:
                unknown.append(f"{at}.{key}" if at else key)
                same = False
            continue
        if not isinstance(given, dict | list):
            out[key] = given
            continue
        made = _prune(below, given, f"{at}.{key}" if at else key, unknown, below.free)
        same = same and made is given
        out[key] = made
    return value if same else out


def without_nulls(schema: Structural, value: Json) -> Any:
    """A value without the nulls that are not allowed, unless a default replaces them."""
    if isinstance(value, dict):
        out: Obj = {}
        for key, given in value.items():
            below = schema.below(key)
            if below is None:
                out[key] = given
            elif isinstance(given, dict | list):
                out[key] = without_nulls(below, given)
            elif given is not None or below.nullable or below is ANYTHING or _has_default(below):
                out[key] = given
        return _unless_same(value, out)
    if isinstance(value, list) and schema.items is not None:
        below = schema.items
        items = [without_nulls(below, item) if isinstance(item, dict | list) else item for item in value]
        return _unless_all_same(value, items)
    return value


def _unless_same(old: Obj, new: Obj) -> Obj:
    if len(old) == len(new) and all(new[key] is old[key] for key in old):
        return old
    return new


def _unless_all_same(old: list[Json], new: list[Json]) -> list[Json]:
    return old if all(a is b for a, b in zip(new, old, strict=True)) else new


# --- defaults -------------------------------------------------------------------------------------


def defaulted(schema: Structural, value: Json) -> Any:
    """A value with defaults for absent fields; a null that is not allowed counts as absent."""
    if isinstance(value, dict):
        out = dict(value)
        for key, below in schema.properties.items():
            given = out.get(key, ABSENT)
            if not _has_default(below) or not (given is ABSENT or _is_bad_null(below, given)):
                continue
            out[key] = below.default
        for key, given in out.items():
            known = schema.below(key)
            if known is not None and known is not ANYTHING:
                if key not in schema.properties and _is_bad_null(known, given):
                    given = None if known.default is ABSENT else known.default
                out[key] = defaulted(known, given) if isinstance(given, dict | list) else given
        return _unless_same(value, out)
    if isinstance(value, list) and schema.items is not None:
        below = schema.items
        items = []
        for item in value:
            if _is_bad_null(below, item) and below.default is not ABSENT:
                item = below.default
            items.append(defaulted(below, item) if isinstance(item, dict | list) else item)
        return _unless_all_same(value, items)
    return value


def _has_default(schema: Structural) -> bool:
    return schema.default is not ABSENT and schema.default is not None


def _is_bad_null(schema: Structural, value: Json) -> bool:
    return value is None and not schema.nullable


# --- parts that have a type of their own ----------------------------------------------------------


def typed_metadata(obj: Obj) -> tuple[Obj, list[str]]:
    """An object with well-typed metadata, and the unknown fields in it. Raises BadPart."""
    if "metadata" not in obj:
        return obj, []
    given = obj["metadata"]
    if given is None:
        return {k: v for k, v in obj.items() if k != "metadata"}, []
    made, problems = conform_part(schema_of(OBJECT_META), given, "metadata")
    if isinstance(made, DecodeError):
        raise BadPart(made.message)
    return (obj if made == given else {**obj, "metadata": made}), _unknown(problems)


def with_fitting_metadata(obj: Obj) -> Obj:
    """An object without the members of its metadata that have a wrong type, which upstream drops
    when it reads a stored object (schema/objectmeta/coerce.go).  Raises BadPart if the metadata are
    not a map.
    """
    try:
        return typed_metadata(obj)[0]
    except BadPart:
        given = obj["metadata"]
        if not isinstance(given, dict):
            raise
    kept: Obj = {}
    for name, value in given.items():
        try:
            kept |= typed_metadata({"metadata": {name: value}})[0]["metadata"]
        except BadPart:
            continue
    return {**obj, "metadata": kept}


def _unknown(problems: list[str]) -> list[str]:
    """The paths of unknown fields; duplicates are reported where the text is available."""
    head = 'unknown field "'
    return [text[len(head) : -1] for text in problems if text.startswith(head)]


def with_typed_parts(schema: Structural, obj: Obj) -> tuple[Obj, list[str]]:
    """As `typed_metadata`, for all objects embedded in one."""
    unknown: list[str] = []
    out: Obj = _typed(schema, obj, "", unknown, False)
    return out, unknown


def _typed(schema: Structural, value: Json, at: str, unknown: list[str], embedded: bool) -> Any:
    if isinstance(value, list):
        below = schema.items
        if below is None:
            return value
        items = [
            _typed(below, item, f"{at}[{i}]", unknown, below.embedded)
            if isinstance(item, dict | list)
            else item
            for i, item in enumerate(value)
        ]
        return _unless_all_same(value, items)
    if not isinstance(value, dict):
        return value
    out: Obj = {}
    for key, given in value.items():
        if embedded and key in _META:
            given = _typed_part(key, given, f"{at}.{key}" if at else key, unknown)
        known = schema.below(key) if isinstance(given, dict | list) else None
        if known is not None and known is not ANYTHING and not (not at and key in _META):
            given = _typed(known, given, schema.place(at, key), unknown, known.embedded)
        out[key] = given
    return _unless_same(value, out)


def _typed_part(key: str, given: Json, path: str, unknown: list[str]) -> Any:
    if key != "metadata":
        if not isinstance(given, str):
            shown = '"null"' if given is None else go_syntax(ANY, given)
            raise BadPart(f"{path}: Invalid value: {shown}: must be a string")
        return given
    if given is None:
        return {}
    made, problems = conform_part(schema_of(OBJECT_META), given, path)
    if isinstance(made, DecodeError):
        raise BadPart(f"{path}: Invalid value: {go_syntax(ANY, given)}: {made.message}")
    unknown += _unknown(problems)
    return given if made == given else made
