"""The stored form of CustomResourceDefinitions: defaults, zero values, stored versions.

A well-typed definition becomes the one that upstream would store: with names derived from the kind,
a conversion strategy, numbers as Go writes them, and without optional fields that hold their zero
value. Writes get the status that upstream's strategy gives them.

Holds: path copy only; a definition in this form is returned as the same object. A stored version
stays in the status until a client removes it through /status.

Mirrors  apiextensions-apiserver v1.25
         pkg/apis/apiextensions/v1/{defaults,conversion,types,types_jsonschema}.go,
         pkg/registry/customresourcedefinition/strategy.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sim.api.types import Json, Obj
from sim.ident import NAMES, Names

# Optional fields of v1.JSONSchemaProps that are plain values: Go omits their zeros.
_PLAIN = (
    "$schema", "description", "exclusiveMaximum", "exclusiveMinimum", "format", "id", "nullable", "pattern", "title",
    "type", "uniqueItems", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
)  # fmt: skip
_NUMBERS = ("maximum", "minimum", "multipleOf")
_VALUES = ("default", "enum", "example")
# Fields that hold other schemas: one, a list, a map by name, or one or something else.
_ONE, _LISTS, _MAPS = (
    ("not",),
    ("allOf", "anyOf", "oneOf"),
    ("definitions", "patternProperties", "properties"),
)
_EITHER = ("additionalItems", "additionalProperties", "items")
WITH_SCHEMAS = (*_ONE, *_LISTS, *_MAPS, *_EITHER, "dependencies")
RULES = "x-kubernetes-validations"
SERVICE_PORT = 443
INTEGRAL_MAX = 10**21  # encoding/json writes larger floats with an exponent


def names_of(obj: Obj) -> Names:
    """The naming set that a definition is written in."""
    version = obj.get("apiVersion")
    return next(
        (n for n in NAMES.values() if n.api_version("apiextensions", "v1") == version), NAMES["kubernetes"]
    )


# --- defaults -------------------------------------------------------------------------------------


def definition(obj: Obj) -> Obj:
    """A definition with its defaults."""
    spec = _spec(obj.get("spec") or {})
    status = obj.get("status") or {}
    made = {**obj, "spec": spec, "status": _status(status, spec)}
    return obj if made == obj else made


def _spec(spec: Obj) -> Obj:
    given = spec.get("versions")
    return {
        "group": "",
        "scope": "",
        **without_zeros(spec, "preserveUnknownFields"),
        "names": _names(spec.get("names") or {}),
        "versions": None if given is None else [_version(version) for version in given],
        "conversion": _conversion(spec.get("conversion")),
    }


def _names(names: Obj) -> Obj:
    kind = names.get("kind") or ""
    made = {
        "plural": "",
        "kind": "",
        **without_zeros(names, "singular", "shortNames", "listKind", "categories"),
    }
    if kind:
        made.setdefault("singular", kind.lower())
        made.setdefault("listKind", f"{kind}List")
    return made


def without_zeros(obj: Obj, *fields: str) -> Obj:
    """The object without zero values in the named fields."""
    return {key: value for key, value in obj.items() if value or key not in fields}


def _version(version: Obj) -> Obj:
    made = without_zeros(version, "deprecated", "additionalPrinterColumns")
    if version.get("additionalPrinterColumns"):
        made["additionalPrinterColumns"] = [
            without_zeros(column, "format", "description", "priority")
            for column in version["additionalPrinterColumns"]
        ]
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        made["schema"] = {**version["schema"], "openAPIV3Schema": json_schema(schema)}
    return {"name": "", "served": False, "storage": False, **made}


def _conversion(conversion: Obj | None) -> Obj:
    if conversion is None:
        return {"strategy": "None"}
    made = {"strategy": "", **conversion}
    webhook = conversion.get("webhook")
    if webhook is None:
        return made
    client = webhook.get("clientConfig")
    if client is None and webhook.get("conversionReviewVersions") is None:
        del made["webhook"]  # Quirk: upstream's internal form drops an empty webhook
        return made
    webhook = {"conversionReviewVersions": None, **webhook}
    if client is not None:
        client = without_zeros(client, "caBundle")
        if client.get("service") is not None:
            service = client["service"]
            port = SERVICE_PORT if service.get("port") is None else service["port"]
            client["service"] = {"namespace": "", "name": "", **service, "port": port}
        webhook["clientConfig"] = client
    return {**made, "webhook": webhook}


def _status(status: Obj, spec: Obj) -> Obj:
    accepted = status.get("acceptedNames") or {}
    kept = without_zeros(accepted, "singular", "shortNames", "listKind", "categories")
    return {
        **status,
        "conditions": status.get("conditions") or None,
        "acceptedNames": {"plural": "", "kind": "", **kept},
        "storedVersions": status.get("storedVersions") or _stored(spec),
    }


def _stored(spec: Obj) -> list[str] | None:
    storage = storage_version(spec)
    return None if storage is None else [storage]


def storage_version(spec: Obj) -> str | None:
    """The name of the first storage version; None if there is none."""
    named = (version.get("name", "") for version in spec.get("versions") or () if version.get("storage"))
    return next(named, None)


# --- schemas --------------------------------------------------------------------------------------


def json_schema(schema: Obj) -> Obj:
    """A JSON schema as Go writes it."""
    made: Obj = {}
    for key, value in schema.items():
        if key in _PLAIN and not value:
            continue
        if key in _NUMBERS:
            value = _number(value)
        elif key in _VALUES:
            value = plain_value(value)
        elif key == RULES:
            value = [{"rule": "", **without_zeros(rule, "message")} for rule in value]
        elif key == "externalDocs":
            value = without_zeros(value, "description", "url")
        else:
            value = _below(key, value, json_schema)
        made[key] = value
    return made


def _below(key: str, value: Json, fn: Callable[[Obj], Any]) -> Json:
    """A field of a schema with each schema in it replaced."""
    if key in _ONE or (key in _EITHER and isinstance(value, dict)):
        return fn(value)
    if key in _LISTS or (key == "items" and isinstance(value, list)):
        return [fn(one) for one in value]
    if key in _MAPS:
        return {name: fn(one) for name, one in value.items()}
    if key == "dependencies":
        return {name: fn(one) if isinstance(one, dict) else one for name, one in value.items()}
    return value


def schemas_in(schema: Obj) -> Iterator[Obj]:
    """Every schema within one, itself first."""
    left = [schema]
    while left:
        here = left.pop()
        yield here
        for key in () if here.keys().isdisjoint(WITH_SCHEMAS) else WITH_SCHEMAS:
            if here.get(key) is not None:
                _below(key, here[key], left.append)


def without_rules(schema: Obj) -> Obj:
    """A schema without rules in CEL, at every depth (dropXValidationsField)."""
    out: Obj = {}
    for key, value in schema.items():
        if key == RULES:
            continue
        if key in ("properties", "dependencies") and isinstance(value, dict):
            value = {
                name: without_rules(one) if isinstance(one, dict) else one for name, one in value.items()
            }
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            value = without_rules(value)
        elif key == "items" and isinstance(value, list):
            value = [without_rules(one) for one in value]
        out[key] = value
    return out


def plain_value(value: Json) -> Json:
    """A JSON value after a round trip through Go, which writes whole floats without a point."""
    if isinstance(value, dict):
        return {key: plain_value(one) for key, one in value.items()}
    return [plain_value(one) for one in value] if isinstance(value, list) else _number(value)


def _number(value: Json) -> Json:
    whole = isinstance(value, float) and value.is_integer() and abs(value) < INTEGRAL_MAX
    return int(value) if whole else value


# --- writes ---------------------------------------------------------------------------------------


def prepare_create(obj: Obj, _: Names) -> Obj:
    """A new definition: clients cannot set its status, which names the storage version."""
    spec = obj["spec"]
    return {**obj, "status": _status({}, spec)}


def prepare_update(new: Obj, _old: Obj, _names: Names) -> Obj:
    """A definition after an update: a new storage version joins the stored versions."""
    storage, status = storage_version(new["spec"]), new.get("status") or {}
    stored = status.get("storedVersions") or []
    if storage is None or storage in stored:
        return new
    return {**new, "status": {**status, "storedVersions": [*stored, storage]}}
