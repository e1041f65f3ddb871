"""Structural schemas: the `openAPIV3Schema` of a CustomResourceDefinition's version, compiled.

A schema in JSON becomes `Structural` nodes, which pruning, defaulting and validation traverse, and
these become the `SchemaNode`s that field ownership and apply use.

Holds: a node never changes after it was made; a malformed part of a schema, which may not have been
validated, has no effect and is no error here.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/schema/{structural,convert}.go,
         pkg/controller/openapi/builder/builder.go (embedded properties), kube-openapi
         pkg/util/proto (types of apply).
"""

from __future__ import annotations

from typing import Any

from sim.api.crd.definition_form import RULES
from sim.api.schema.field_schemas import OBJECT_META, SchemaNode, schema_of
from sim.api.types import Json, Obj

_TYPES = ("object", "array", "string", "integer", "number", "boolean")
ABSENT: Any = object()


class Structural:
    """The schema of one value.

    type: "" if any type is allowed
    rest: schema of map keys without a property of their own (None: such keys are unknown)
    free: True if unknown fields are kept
    embedded: True for a whole object of some kind
    default: `ABSENT` if there is none
    raw: the schema itself, for validation of values
    """

    __slots__ = (
        "default",
        "embedded",
        "free",
        "int_or_string",
        "items",
        "list_type",
        "map_keys",
        "map_type",
        "nullable",
        "properties",
        "raw",
        "rest",
        "type",
    )

    def __init__(self, raw: Obj) -> None:
        given = raw.get("type")
        self.raw = raw
        self.type = given if given in _TYPES else ""
        self.free = raw.get("x-kubernetes-preserve-unknown-fields") is True
        self.embedded = raw.get("x-kubernetes-embedded-resource") is True
        self.int_or_string = raw.get("x-kubernetes-int-or-string") is True
        self.nullable = raw.get("nullable") is True
        self.default: Any = raw.get("default", ABSENT)
        self.list_type = str(raw.get("x-kubernetes-list-type") or "atomic")
        keys = raw.get("x-kubernetes-list-map-keys")
        self.map_keys = tuple(map(str, keys)) if isinstance(keys, list) else ()
        self.map_type = str(raw.get("x-kubernetes-map-type") or "granular")
        properties = raw.get("properties")
        self.properties = (
            {name: structural(below) for name, below in properties.items()}
            if isinstance(properties, dict)
            else {}
        )
        # Quirk: forbidden keys (`false`) are kept as well, for validation to refuse them.
        rest = raw.get("additionalProperties")
        self.rest = (
            structural(rest) if isinstance(rest, dict) else ANYTHING if isinstance(rest, bool) else None
        )
        items = raw.get("items")
        self.items = structural(items) if isinstance(items, dict) else None

    def below(self, key: str) -> Structural | None:
        """The schema of a field; None if there is none."""
        return self.properties.get(key) or self.rest

    def has_rules(self) -> bool:
        """Return True if the schema or one below it has validation rules."""
        below = [*self.properties.values(), self.rest, self.items]
        return bool(self.raw.get(RULES)) or any(one is not None and one.has_rules() for one in below)

    def place(self, at: str, key: str) -> str:
        """The path of a key's value in an object at `at`: fields by name, map keys in brackets."""
        if key not in self.properties:
            return f"{at}[{key}]"
        return f"{at}.{key}" if at else key


def structural(raw: Json) -> Structural:
    """The compiled form of a schema."""
    return Structural(raw if isinstance(raw, dict) else {})


ANYTHING = Structural({})  # `additionalProperties: true`: values of any type, without fields


# --- for ownership --------------------------------------------------------------------------------


def _deduced() -> SchemaNode:
    """A value with ownership deduced from its form: maps field by field, any other value as a
    whole.
    """
    node = SchemaNode("map")
    node.typed = False
    node.values = node
    return node


DEDUCED = _deduced()


def ownership_node(schema: Structural, root: bool = True) -> SchemaNode:
    """The schema in the form that field ownership and apply use."""
    kind = schema.type or ("int-or-string" if schema.int_or_string else "")
    if not kind:
        return DEDUCED
    node = SchemaNode(kind, "", str(schema.raw.get("format") or ""))
    node.typed = False
    node.map_type = schema.map_type
    required = schema.raw.get("required")
    node.required = tuple(map(str, required)) if isinstance(required, list) else ()
    if kind == "object":
        _fill_object(node, schema, root)
    elif kind == "array":
        node.items = DEDUCED if schema.items is None else ownership_node(schema.items, False)
        node.list_type = schema.list_type
        node.list_map_keys = schema.map_keys if schema.list_type == "map" else ()
        if schema.items is not None:
            fields = schema.items.properties
            defaults = {
                k: fields[k].default
                for k in node.list_map_keys
                if k in fields and fields[k].default is not ABSENT
            }
            node.key_defaults = defaults
    return node


def _fill_object(node: SchemaNode, schema: Structural, root: bool) -> None:
    node.properties = {name: ownership_node(below, False) for name, below in schema.properties.items()}
    if schema.rest is not None:
        node.values = DEDUCED if schema.rest is ANYTHING else ownership_node(schema.rest, False)
    elif schema.free or not schema.properties:
        node.values = DEDUCED
    if root or schema.embedded:
        text = SchemaNode("string")
        node.properties |= {"apiVersion": text, "kind": text, "metadata": schema_of(OBJECT_META)}
    if root and not schema.free:
        node.values = None
