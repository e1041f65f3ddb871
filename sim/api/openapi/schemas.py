"""The schemas of definitions in the forms in which upstream publishes them.

A definition of the dependency becomes a schema of OpenAPI 2, or one of OpenAPI 3, which also has
the zero values of Go as defaults.

Holds: the dependency's own changes are undone (null types, enums of kind and apiVersion, Quantity
and IntOrString as unions, and the enums that it removed).

Mirrors  kubernetes v1.25 api/openapi-spec; kube-openapi pkg/generators/openapi.go
         (mustEnforceDefault), pkg/generators/enum.go, pkg/schemamutation/walker.go (defaults in
         version 3 only), pkg/builder3 (a reference with siblings is in `allOf`).
Differs  a description lists the allowed values without upstream's remark on each; whether a field
         of a definition without field numbers is a pointer follows from its name. Descriptions of
         Quantity and IntOrString are shorter, so hashes of documents differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from sim.api.openapi.order import in_order
from sim.api.protobuf.numbers import Column, numbers, short_name
from sim.api.schema.field_schemas import INT_OR_STRING, QUANTITY, raw_definition
from sim.ident import UPSTREAM_GROUP_DOMAIN, Names
from sim.texts import rows

Body = dict[str, Any]

V2, V3 = "#/definitions/", "#/components/schemas/"
# The fields with a type that is marked as an enum in v1.25, and its values.
ENUMS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    (message, field): tuple(values.split())
    for message, fields in rows(Path(__file__).with_name("enums.txt")).items()
    for field, values in fields.items()
}
# Defaults that types.go states (+default=).
_STATED = {
    ("core.v1.ContainerPort", "protocol"): "TCP",
    ("core.v1.GRPCAction", "service"): "",
    ("core.v1.ServicePort", "protocol"): "TCP",
}
_ZEROS: Final[Mapping[str, Any]] = {"string": "", "integer": 0, "number": 0, "boolean": False}
# Optional fields of definitions without field numbers that hold a struct, not a pointer.
_STRUCTS = ("metadata", "status", "acceptedNames", "lastTransitionTime")
# Fields with a false that the protobuf form writes too, though they are no pointers.
_NO_POINTERS = tuple(
    ("apiextensions.v1.CustomResourceDefinitionVersion", field) for field in ("served", "storage")
)
# Optional fields that Go writes although they are zero, so that the zero is their default.
_WRITTEN = {
    ("core.v1.Event", "reportingComponent"),
    ("core.v1.Event", "reportingInstance"),
    ("apps.v1.StatefulSetStatus", "availableReplicas"),
    ("networking.v1alpha1.ClusterCIDRSpec", "ipv4"),
    ("networking.v1alpha1.ClusterCIDRSpec", "ipv6"),
    *(
        (f"flowcontrol.{version}.{message}", field)
        for version in ("v1beta1", "v1beta2")
        for message, field in (
            ("FlowSchemaSpec", "matchingPrecedence"),
            ("LimitedPriorityLevelConfiguration", "assuredConcurrencyShares"),
            ("QueuingConfiguration", "handSize"),
            ("QueuingConfiguration", "queueLengthLimit"),
            ("QueuingConfiguration", "queues"),
        )
    ),
}


# The dependency has none.
_OF_QUANTITY = (
    "A number with a suffix, exact to a billionth: a decimal number, followed by a power of 1024 (Ki, "
    "Mi, Gi, Ti, Pi, Ei), a power of 1000 (n, u, m, k, M, G, T, P, E) or a decimal exponent (e3)."
)
_OF_INT_OR_STRING = "A whole number of 32 bits or a string, such as a number of pods or a percentage."


def definition_v2(name: str, names: Names) -> Body:
    """A definition in the form of OpenAPI 2."""
    return in_order(_older(name, names))


def _older(name: str, names: Names) -> Body:
    if name == QUANTITY:
        return {"description": _OF_QUANTITY, "type": "string"}
    if name == INT_OR_STRING:
        return {"description": _OF_INT_OR_STRING, "type": "string", "format": "int-or-string"}
    return _enumerated(_clean(raw_definition(name), names), name)


def definition_v3(name: str, names: Names) -> Body:
    """A definition in the form of OpenAPI 3."""
    return in_order(_newer(name, names))


def _newer(name: str, names: Names) -> Body:
    if name == QUANTITY:
        return {"description": _OF_QUANTITY, "oneOf": [{"type": "string"}, {"type": "number"}]}
    if name == INT_OR_STRING:
        return {
            "description": _OF_INT_OR_STRING,
            "format": "int-or-string",
            "oneOf": [{"type": "integer"}, {"type": "string"}],
        }
    schema = _enumerated(_clean(raw_definition(name), names), name)
    if "properties" in schema:
        needed, short = schema.get("required", ()), short_name(name)
        schema["properties"] = {
            field: _with_default(below, short, field, field in needed or (short, field) in _WRITTEN)
            for field, below in schema["properties"].items()
        }
    return schema


def _clean(raw: Body, names: Names) -> Body:
    """A schema without the changes of the dependency."""
    out: Body = {}
    for key, value in raw.items():
        if key == "$ref":
            out[key] = V2 + value.rpartition("/")[2]
        elif key == "type" and isinstance(value, list):
            out[key] = next(t for t in value if t != "null")
        elif key == "properties":
            out[key] = {field: _clean(below, names) for field, below in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            out[key] = _clean(value, names)
        elif key == "x-kubernetes-group-version-kind":
            out[key] = [
                {**gvk, "group": names.group(gvk["group"].removesuffix("." + UPSTREAM_GROUP_DOMAIN))}
                for gvk in value
            ]
        elif key != "enum":
            out[key] = value
    return out


_ENUM_HEADER = "Possible enum values:"


def _enumerated(schema: Body, name: str) -> Body:
    """The schema with the enums of its fields; a description ends with the allowed values."""
    short = short_name(name)
    for field, below in schema.get("properties", {}).items():
        values = ENUMS.get((short, field))
        if values is not None:
            listed = "\n".join(f' - `"{value}"`' for value in values)
            text = f"{below['description'].rstrip()}\n\n{_ENUM_HEADER}\n{listed}"
            schema["properties"][field] = {**below, "description": text, "enum": list(values)}
    return schema


def without_enums(schema: Body) -> Body:
    """The schema without allowed values, in fields and in their descriptions.

    Quirk: the empty line before the values stays.
    """
    out: Body = {}
    for key, value in schema.items():
        if key == "enum":
            continue
        if key == "description":
            out[key] = value.partition(_ENUM_HEADER)[0]
        elif key == "properties":
            out[key] = {field: without_enums(below) for field, below in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            out[key] = without_enums(value)
        elif key == "allOf":
            out[key] = [without_enums(each) for each in value]
        else:
            out[key] = value
    return out


# --- defaults -------------------------------------------------------------------------------------


def _with_default(schema: Body, message: str, field: str, written: bool) -> Body:
    """The schema of a field in the form of OpenAPI 3.

    message: short name of the definition
    written: True if Go writes the field even when it is zero
    """
    column = _column(message, field)
    pointer = column.pointer if column is not None else not (written or _is_struct(message, field))
    if (message, field) in _NO_POINTERS:
        pointer = False
    if "$ref" in schema:
        return _referring(schema, struct=not pointer)
    out = _with_elements(schema)
    stated = _STATED.get((message, field))
    if stated is not None:
        out["default"] = stated
    elif written and not pointer and "format" in schema and schema["format"] == "byte":
        pass  # a slice of bytes
    elif written and not pointer and schema.get("type") in _ZEROS:
        out["default"] = _ZEROS[schema["type"]]
    return out


def _is_struct(message: str, field: str) -> bool:
    """True for an optional field of a definition without field numbers that is no pointer."""
    return field in _STRUCTS and not message.endswith("Subresources")


def _referring(schema: Body, *, struct: bool) -> Body:
    """A reference; struct: True if the value is no pointer, so that an empty one is the default."""
    reference = {"$ref": V3 + schema["$ref"].removeprefix(V2)}
    siblings = {key: value for key, value in schema.items() if key != "$ref"}
    if struct:
        siblings["default"] = {}
    return {"allOf": [reference], **siblings} if siblings else reference


def _with_elements(schema: Body) -> Body:
    """The schema with the defaults of the elements of a list or map."""
    out = dict(schema)
    for key in ("items", "additionalProperties"):
        below = out.get(key)
        if not isinstance(below, dict):
            continue
        if "$ref" in below:
            out[key] = _referring(below, struct=True)
        elif below.get("format") != "byte" and below.get("type") in _ZEROS:
            out[key] = {**below, "default": _ZEROS[below["type"]]}
        else:
            out[key] = _with_elements(below)
    return out


@lru_cache(maxsize=1024)
def _columns(message: str) -> Mapping[str, Column]:
    """The columns of a message by field, those of embedded messages included."""
    found: dict[str, Column] = {}
    for column in numbers().get(message, {}).values():
        if column.inline:
            found |= _columns(column.inline)
        else:
            found[column.field] = column
    return found


def _column(message: str, field: str) -> Column | None:
    return _columns(message).get(field)
