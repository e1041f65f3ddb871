"""Structural schemas: the form of schema that allows pruning, defaulting and publishing.

Turns a JSON schema in the form it is stored (`definition_form.json_schema`) into the errors of its
structure.

Holds: a schema without errors says the type of each field it names, outside of `allOf`, `anyOf`,
`oneOf` and `not`, which only restrict values.  The recursion takes one stack frame for each level.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/schema/{validation,complete,convert}.go.
Differs  patterns are those that `regexes` accepts, with its messages; at most a thousand errors are
         reported, and paths show only the beginning of a long name.
"""

from __future__ import annotations

from enum import Enum

from sim.api.crd.definition_form import RULES, schemas_in
from sim.api.crd.regexes import BadPattern, check_pattern
from sim.api.types import Json, Obj
from sim.api.validation.errors import Errors, FieldError, forbidden, invalid, required
from sim.pauses import spent
from sim.remembered import cached

SCHEMA_US, PATTERN_US = 10, 70  # of processor time, for one schema, and for its pattern

EMBEDDED, PRESERVE, INT_OR_STRING = (
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
)
INT_OR_STRING_TYPES = [{"type": "integer"}, {"type": "string"}]
# A structural schema has neither field, so comparisons of schemas ignore them.
_UNKEPT = ("externalDocs", "example")
# Fields that a structural schema cannot have, in upstream's order.
_UNSUPPORTED = (
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
)
# The reported errors of one definition: each has a path, and a body of megabytes can cause many.
ERRORS_MAX = 1000
STEP_CHARS_MAX = 256  # shown of a name in a path
# Keywords that are not allowed inside of allOf, anyOf, oneOf and not.
_NOT_NESTED = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    (RULES, "must be empty to be structural"),
)


class Level(Enum):
    """The place of a schema in a structural schema, which decides the keywords that it may have."""

    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


def not_structural(schema: Obj) -> str:
    """Why the schema has no structural form; "" if it has one."""
    for one in schemas_in(schema):
        for field, shown in _UNSUPPORTED:
            if one.get(field) is not None:
                return f"OpenAPIV3Schema '{shown}' is not supported"
        if one.get(PRESERVE) is False:
            return f"internal error: '{PRESERVE}' must be true or undefined"
        if isinstance(one.get("items"), list):
            return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    return ""


def structural_errors(schema: Obj, at: str) -> Errors:
    """Errors of the structure, in the order of their texts."""
    found: Errors = []
    _invariants(schema, Level.ROOT, at, found)
    _incomplete(schema, schema, at, at, found)
    return sorted(found, key=_text)


def _text(error: FieldError) -> str:
    return f"{error.field}: {error.message}"


def named(name: str) -> str:
    """A name as a step of a path."""
    return f"[{name}]" if len(name) <= STEP_CHARS_MAX else f"[{name[:STEP_CHARS_MAX]}...]"


# --- the schema itself ----------------------------------------------------------------------------


def _invariants(schema: Obj, level: Level, at: str, found: Errors) -> None:
    if len(found) >= ERRORS_MAX:
        return
    spent(SCHEMA_US)
    properties = schema.get("properties") or {}
    found += _own(schema, properties, level, at)
    _values(schema, at, found)
    items, extra = schema.get("items"), schema.get("additionalProperties")
    if items is not None:
        _invariants(items, Level.ITEM, f"{at}.items", found)
    for name in sorted(properties):
        _invariants(properties[name], Level.FIELD, f"{at}.properties{named(name)}", found)
    if isinstance(extra, dict):
        _invariants(extra, Level.FIELD, f"{at}.additionalProperties", found)


def _own(schema: Obj, properties: Obj, level: Level, at: str) -> Errors:
    kind = schema.get("type") or ""
    embedded, extra = schema.get(EMBEDDED), schema.get("additionalProperties")
    errors: Errors = []
    if kind == "array" and schema.get("items") is None:
        errors.append(required(f"{at}.items", "must be specified"))
    if extra is not None and level is Level.ROOT:
        errors.append(forbidden(f"{at}.additionalProperties", "must not be used at the root"))
    if schema.get(INT_OR_STRING):
        text = f"must be false if {INT_OR_STRING} is true"
        errors += [
            invalid(f"{at}.{field}", True, text) for field in (PRESERVE, EMBEDDED) if schema.get(field)
        ]
    if embedded and kind != "object":
        text = f"must be object if {EMBEDDED} is true"
        errors.append(invalid(f"{at}.type", kind, text) if kind else required(f"{at}.type", text))
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        errors.append(required(f"{at}.type", level.value))
    if embedded and extra is not None:
        text = f"must not be used if {EMBEDDED} is set"
        errors.append(forbidden(f"{at}.additionalProperties", text))
    if level is Level.ROOT and kind not in ("", "object"):
        errors.append(invalid(f"{at}.type", kind, "must be object at the root"))
    if embedded and not schema.get(PRESERVE) and not properties:
        text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        errors.append(required(f"{at}.properties", text))
    return errors + _meta(properties, level, bool(level is Level.ROOT or embedded), f"{at}.properties")


def _meta(properties: Obj, level: Level, checked: bool, at: str) -> Errors:
    """Errors of the fields that every object has (apiVersion, kind, metadata)."""
    errors: Errors = []
    for field in ("kind", "apiVersion"):
        if checked and field in properties:
            kind = properties[field].get("type") or ""
            if kind != "string":
                errors.append(invalid(f"{at}[{field}].type", kind, "must be string"))
    metadata = properties.get("metadata")
    if metadata is None:
        return errors
    if checked and metadata.get("type") != "object":
        errors.append(invalid(f"{at}[metadata].type", metadata.get("type") or "", "must be object"))
    if level is Level.ROOT and not _names_only(metadata):
        text = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        errors.append(forbidden(f"{at}[metadata]", text))
    return errors


def _names_only(metadata: Obj) -> bool:
    known = ("type", "default", *_UNKEPT)
    said = {key: value for key, value in metadata.items() if key not in known and value is not None}
    fields = said.pop("properties", None) or {}
    return not said and all(field in ("name", "generateName") for field in fields)


# --- values ---------------------------------------------------------------------------------------


def _values(schema: Obj, at: str, found: Errors) -> None:
    """Collect the errors of the keywords that restrict values."""
    any_of = schema.get("anyOf") or ()
    if not _is_int_or_string(any_of):
        for i, one in enumerate(any_of):
            _nested(one, f"{at}.anyOf[{i}]", found)
    for i, one in enumerate(schema.get("allOf") or ()):
        first = i == 0 and _is_int_or_string(one.get("anyOf") or ())
        _nested(one, f"{at}.allOf[{i}]", found, first)
    for i, one in enumerate(schema.get("oneOf") or ()):
        _nested(one, f"{at}.oneOf[{i}]", found)
    if schema.get("not") is not None:
        _nested(schema["not"], f"{at}.not", found)
    _pattern(schema, at, found)


def _pattern(schema: Obj, at: str, found: Errors) -> None:
    pattern = schema.get("pattern")
    spent(PATTERN_US if pattern else 0)
    if pattern and (problem := pattern_problem(pattern)):
        text = f"must be a valid regular expression, but isn't: {problem}"
        found.append(invalid(f"{at}.pattern", pattern, text))


def _is_int_or_string(any_of: Json) -> bool:
    """True if this is the form of an int-or-string, the only one that allows types inside of
    anyOf.
    """
    if len(any_of) != len(INT_OR_STRING_TYPES):
        return False
    return [{k: v for k, v in one.items() if k not in _UNKEPT} for one in any_of] == INT_OR_STRING_TYPES


def _nested(schema: Obj, at: str, found: Errors, is_int_or_string: bool = False) -> None:
    """Collect the errors of a schema inside of allOf, anyOf, oneOf or not."""
    if len(found) >= ERRORS_MAX:
        return
    spent(SCHEMA_US)
    for key in ("anyOf", "allOf", "oneOf"):
        # The forms of an int-or-string are an exception at the outer level only; here each clause
        # is checked.
        if key != "anyOf" or not is_int_or_string:
            for i, one in enumerate(schema.get(key) or ()):
                _nested(one, f"{at}.{key}[{i}]", found)
    for key in ("not", "items"):
        if schema.get(key) is not None:
            _nested(schema[key], f"{at}.{key}", found)
    _pattern(schema, at, found)
    properties = schema.get("properties") or {}
    for name in sorted(properties):
        _nested(properties[name], f"{at}.properties{named(name)}", found)
    for field, text in _NOT_NESTED:
        said = schema.get(field)
        if said or (said is not None and field in ("additionalProperties", "default")):
            found.append(forbidden(f"{at}.{field}", text))
    if "metadata" in properties:
        found.append(forbidden(f"{at}.properties[metadata]", "must not be specified in a nested context"))


def _incomplete(nested: Obj, schema: Obj, at: str, below: str, found: Errors) -> None:
    """Collect errors of fields that only a nested schema names.

    Quirk: only the nested schemas of the root are checked.
    """
    if nested.get("not") is not None:
        _incomplete_clause(nested["not"], schema, at, f"{below}.not", found)
    for key in ("allOf", "anyOf", "oneOf"):
        for i, one in enumerate(nested.get(key) or ()):
            _incomplete_clause(one, schema, at, f"{below}.{key}[{i}]", found)


def _incomplete_clause(nested: Obj, schema: Obj, at: str, below: str, found: Errors) -> None:
    if len(found) >= ERRORS_MAX:
        return
    spent(SCHEMA_US)
    _incomplete(nested, schema, at, below, found)
    inner: list[tuple[str, Obj, Obj | None]] = []
    if nested.get("items") is not None:
        inner.append((".items", nested["items"], schema.get("items")))
    here = schema.get("properties") or {}
    for name, one in sorted((nested.get("properties") or {}).items()):
        inner.append((f".properties{named(name)}", one, here.get(name)))
    for step, one, known in inner:
        if known is None:
            found.append(required(f"{at}{step}", f"because it is defined in {below}{step}"))
        else:
            _incomplete_clause(one, known, f"{at}{step}", f"{below}{step}", found)


# --- patterns -------------------------------------------------------------------------------------


@cached(1024)
def pattern_problem(pattern: str) -> str:
    """Why a text is no regular expression; "" if it is one."""
    try:
        check_pattern(pattern)
    except BadPattern as error:
        return f"error parsing regexp: {error}"
    return ""
