"""JSON schemas inside of CustomResourceDefinitions: which keywords may be used, and how.

Turns the schema of a version (in the form it is stored) into field errors, in upstream's order:
those of the root, of the structure, of defaults, then those of each level from the top down, the
x-kubernetes- extensions of a level last.

Mirrors  apiextensions-apiserver v1.25 pkg/apis/apiextensions/validation/validation.go
         (validateCustomResourceDefinitionValidation,
         ValidateCustomResourceDefinitionOpenAPISchema).
         Rules are compiled by `schema_rules`.
Differs  properties are visited by name, where upstream's order is random.  A schema that is shown
         as a bad value shows only its type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sim.api.crd.definition_form import RULES, WITH_SCHEMAS, schemas_in
from sim.api.go.printing import GoValue
from sim.api.kinds.apiextensions.custom_resource_definition.schema_rules import (
    WHOLE,
    Rules,
    Scope,
    inner_scope,
)
from sim.api.kinds.apiextensions.custom_resource_definition.structure import (
    EMBEDDED,
    ERRORS_MAX,
    PRESERVE,
    named,
    not_structural,
    structural_errors,
)
from sim.api.types import Json, Obj
from sim.api.validation.errors import Errors, FieldError, among, forbidden, invalid, required, unsupported
from sim.dataclass import dataclass
from sim.pauses import spent

SCHEMA_US = 15  # of processor time, for one schema without those below
TYPES = ("array", "boolean", "integer", "number", "object", "string")
LIST_TYPE, LIST_KEYS, MAP_TYPE = (
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
LIST_KEYS_MAX = 64  # checked in one list; each error shows all keys
# Fields that the root of a schema may have if there is a status subresource, by the names of
# upstream's type and in its order.
_AT_ROOT = (
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", PRESERVE),
    ("XValidations", RULES),
)
_BEFORE_TYPE = ("id", "$schema", "$ref")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_OF_EVERY_OBJECT = ("metadata", "kind", "apiVersion")


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a schema in a definition.

    no_defaults: why defaults are not allowed there; "" if they are
    scope: how often its values can occur; None where rules are not looked at
    lost: the path of the first schema above that loses the old values of its parts, "" if none
    """

    root: bool = False
    in_meta: bool = False
    no_defaults: str = ""
    scope: Scope | None = None
    lost: str = ""


def schema_errors(holder: Obj | None, status: bool, at: str) -> Errors:
    """Errors of the schema of a version.

    status: True if the version has the subresource /status
    """
    schema = None if holder is None else holder.get("openAPIV3Schema")
    if schema is None:
        return []
    here = f"{at}.openAPIV3Schema"
    errors = _at_root(schema, here) if status else []
    if schema.get("nullable"):
        errors.append(forbidden(f"{here}.nullable", "nullable cannot be true at the root"))
    none = not_structural(schema)
    wrong = [] if none else structural_errors(schema, here) or _default_errors(schema, here)
    errors += wrong
    found: Errors = []
    # Rules are compiled only where the schema is right otherwise.
    rules = None if none or wrong else Rules()
    _walk(schema, here, _Place(root=True, scope=None if rules is None else WHOLE), found, rules)
    errors += found
    if rules is not None:
        errors += rules.errors + rules.total_errors(here)
    return errors or ([invalid(here, "", none)] if none else [])


def _default_errors(schema: Obj, at: str) -> Errors:
    if all(one.get("default") is None for one in schemas_in(schema)):
        return []
    # A late import, because few runs hold a schema with defaults.
    from sim.api.kinds.apiextensions.custom_resource_definition.schema_defaults import default_errors

    return default_errors(schema, at)


def _at_root(schema: Obj, at: str) -> Errors:
    kind = schema.get("type")
    known = [field for _, field in _AT_ROOT]
    said = [field for field, value in schema.items() if value is not None]
    early = any(field in _BEFORE_TYPE for field in said)
    if kind and kind != "object" and not early:
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid(f"{at}.type", kind, text)]
    if all(field in known for field in said):
        return []
    listed = " ".join(name for name, _ in _AT_ROOT)
    text = (
        f"only [{listed}] fields are allowed at the root of the schema if the status subresource is enabled"
    )
    return [invalid(at, GoValue("apiextensions.JSONSchemaProps", schema), text)]


def _walk(schema: Obj, at: str, place: _Place, found: Errors, rules: Rules | None) -> None:
    if len(found) >= ERRORS_MAX:
        return
    spent(SCHEMA_US)
    before = len(found)
    found += _keywords(schema, at, place)
    for below, step, where in _below(schema, at, place):
        _walk(below, at + step, where, found, rules)
    found += _extensions(schema, at)
    found += _rules(schema, at)
    if rules is not None and place.scope is not None and len(found) == before and schema.get(RULES):
        rules.check(schema, at, place.scope, place.lost, place.root)


def _below(schema: Obj, at: str, place: _Place) -> Iterator[tuple[Obj, str, _Place]]:
    """The schemas directly inside of a schema, each with its path and place."""
    if schema.keys().isdisjoint(WITH_SCHEMAS):
        return
    scope = None if place.scope is None else inner_scope(place.scope, schema)
    within = replace(place, root=False, scope=scope)
    inner = replace(within, scope=None)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        reason = "inside additionalProperties applying to object metadata"
        yield extra, ".additionalProperties", replace(within, no_defaults=reason) if place.in_meta else within
    properties = schema.get("properties") or {}
    for name in sorted(properties):
        where = within
        if schema.get(MAP_TYPE) not in (None, "granular", "atomic"):
            where = replace(where, lost=place.lost or at)
        if name in _OF_EVERY_OBJECT and (place.root or schema.get(EMBEDDED)):
            reason = f"in top-level {name}" if place.root else where.no_defaults
            where = replace(where, in_meta=True, no_defaults=reason)
        yield properties[name], f".properties{named(name)}", where
    if schema.get("not") is not None:
        yield schema["not"], ".not", inner
    for key in ("allOf", "oneOf", "anyOf"):
        for i, one in enumerate(schema.get(key) or ()):
            yield one, f".{key}[{i}]", inner
    for name, one in sorted((schema.get("definitions") or {}).items()):
        yield one, f".definitions{named(name)}", inner
    items = schema.get("items")
    if isinstance(items, dict):
        # Only the items of a list of type map are found again after an update.
        lost = place.lost or ("" if schema.get(LIST_TYPE) == "map" else at)
        yield items, ".items", replace(within, lost=lost)
    for i, one in enumerate(items if isinstance(items, list) else ()):
        yield one, f".items[{i}]", inner
    for name, one in sorted((schema.get("dependencies") or {}).items()):
        if isinstance(one, dict):
            yield one, f".dependencies{named(name)}", inner


def _keywords(schema: Obj, at: str, place: _Place) -> Errors:
    """Errors of keywords that are not allowed at this place, or anywhere."""
    errors: Errors = []
    kind = schema.get("type") or ""
    errors += among(f"{at}.type", kind or None, TYPES)
    if schema.get("default") is not None and place.no_defaults:
        errors.append(forbidden(f"{at}.default", f"must not be set {place.no_defaults}"))
    for field in _UNSUPPORTED:
        if schema.get(field) is not None:
            errors.append(forbidden(f"{at}.{field}", f"{field} is not supported"))
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        errors.append(forbidden(f"{at}.type", text))
    if isinstance(schema.get("items"), list):
        errors.append(forbidden(f"{at}.items", "items must be a schema object and not an array"))
    if place.in_meta and schema.get(EMBEDDED):
        errors.append(forbidden(f"{at}.{EMBEDDED}", "must not be used inside of resource meta"))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{at}.uniqueItems", text))
    extra = schema.get("additionalProperties")
    if schema.get("properties") and extra is not None and extra is not True:
        text = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(f"{at}.additionalProperties", text))
    return errors


# --- the x-kubernetes- extensions -----------------------------------------------------------------


def _extensions(schema: Obj, at: str) -> Errors:
    errors: Errors = []
    if schema.get(PRESERVE) is False:
        errors.append(invalid(f"{at}.{PRESERVE}", False, "must be true or undefined"))
    map_type, list_type = schema.get(MAP_TYPE), schema.get(LIST_TYPE)
    kind = schema.get("type") or ""
    if map_type is not None and kind != "object":
        errors.append(_wrong_type(kind, at, f"must be object if {MAP_TYPE} is specified"))
    if map_type not in (None, "atomic", "granular"):
        errors.append(unsupported(f"{at}.{MAP_TYPE}", map_type, ("atomic", "granular")))
    if list_type is not None and kind != "array":
        errors.append(_wrong_type(kind, at, f"must be array if {LIST_TYPE} is specified"))
    elif list_type == "set":
        errors += _set_items(schema.get("items"), f"{at}.items")
    if list_type not in (None, "atomic", "set", "map"):
        errors.append(unsupported(f"{at}.{LIST_TYPE}", list_type, ("atomic", "set", "map")))
    keys = (schema.get(LIST_KEYS) or [])[:LIST_KEYS_MAX]
    if keys and list_type != "map":
        text = f"must be map if {LIST_KEYS} is non-empty"
        field = f"{at}.{LIST_TYPE}"
        errors.append(required(field, text) if list_type is None else invalid(field, list_type, text))
    if list_type == "map":
        errors += _map_items(schema, keys, at)
    return errors + _list_items(schema, list_type, keys, f"{at}.items")


def _wrong_type(kind: str, at: str, text: str) -> FieldError:
    return invalid(f"{at}.type", kind, text) if kind else required(f"{at}.type", text)


def _set_items(items: Json, at: str) -> Errors:
    """Errors of items that cannot be compared as a whole, as a set needs."""
    if not isinstance(items, dict):
        return []
    kind, own = items.get("type"), items.get(LIST_TYPE)
    text = f"must be atomic as item of a list with {LIST_TYPE}=set"
    if kind == "array" and own not in (None, "atomic"):
        return [invalid(f"{at}.{LIST_TYPE}", own, text)]
    if kind == "object" and items.get(MAP_TYPE) != "atomic":
        return [invalid(f"{at}.{MAP_TYPE}", own, text)]  # Quirk: the type of a list is shown
    return []


def _map_items(schema: Obj, keys: list[str], at: str) -> Errors:
    """Errors of the items of a map, which must be objects that hold its keys."""
    errors: Errors = []
    if not keys:
        errors.append(required(f"{at}.{LIST_KEYS}", f"must not be empty if {LIST_TYPE} is map"))
    items = schema.get("items")
    if "items" not in schema:
        errors.append(required(f"{at}.items", f"must have a schema if {LIST_TYPE} is map"))
    elif not isinstance(items, dict):
        text = f"must only have a single schema if {LIST_TYPE} is map"
        errors.append(invalid(f"{at}.items", GoValue("apiextensions.JSONSchemaPropsOrArray", items), text))
    if not isinstance(items, dict):
        return errors
    kind = items.get("type") or ""
    if kind != "object":
        text = f"must be object if parent array's {LIST_TYPE} is map"
        return [*errors, invalid(f"{at}.items.type", kind, text)]
    properties = items.get("properties") or {}
    for i, key in enumerate(keys):
        if key not in properties:
            text = "entries must all be names of item properties"
            errors.append(invalid(f"{at}.{LIST_KEYS}", GoValue("[]string", keys), text))
        elif properties[key].get("type") in ("array", "object"):
            text = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            # Quirk: the type of the item is shown
            errors.append(invalid(f"{at}.items.properties{named(key)}.type", kind, text))
        if key in keys[:i]:
            errors.append(
                invalid(f"{at}.{LIST_KEYS}", GoValue("[]string", keys), "must not contain duplicate entries")
            )
    return errors


def _list_items(schema: Obj, list_type: Json, keys: list[str], at: str) -> Errors:
    """Errors of items of sets and maps, and of keys of maps, that may be missing or null."""
    items = schema.get("items")
    if not isinstance(items, dict) or list_type not in ("set", "map"):
        return []
    errors: Errors = []
    if items.get("nullable"):
        errors.append(forbidden(f"{at}.nullable", f"cannot be nullable when {LIST_TYPE} is {list_type}"))
    if list_type == "set":
        return errors
    properties, needed = items.get("properties") or {}, items.get("required") or ()
    for key in keys:
        if key not in properties:
            continue
        field, about = f"{at}.properties{named(key)}", f"this property is in {LIST_KEYS}, so it"
        if key not in needed and properties[key].get("default") is None:
            text = f"{about} must have a default or be a required property"
            errors.append(required(f"{field}.default", text))
        if properties[key].get("nullable"):
            errors.append(forbidden(f"{field}.nullable", f"{about} cannot be nullable"))
    return errors


def _rules(schema: Obj, at: str) -> Errors:
    errors: Errors = []
    for i, one in enumerate(schema.get(RULES) or ()):
        field, message = f"{at}.{RULES}[{i}]", one.get("message") or ""
        rule, said = (one.get("rule") or "").strip(), message.strip()
        if not rule:
            errors.append(required(f"{field}.rule", "rule is not specified"))
        elif message and not said:
            errors.append(invalid(f"{field}.message", message, "message must be non-empty if specified"))
        elif "\n" in said or "\r" in said:
            errors.append(invalid(f"{field}.message", message, "message must not contain line breaks"))
        elif ("\n" in rule or "\r" in rule) and not said:
            text = "message must be specified if rule contains line breaks"
            errors.append(required(f"{field}.message", text))
    return errors
