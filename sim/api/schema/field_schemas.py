"""Field schemas of every kind: compact nodes from one JSON file.

Upstream's definitions of v1.25 (`definitions.json`) become `SchemaNode`s, the form that type
validation, strategic merge, field ownership and defaults traverse, and plain definitions for
OpenAPI.  The file holds the definitions of the package kubernetes-validate 1.37.0, one a line, of
108 MB in all that the package has; its own changes to them are undone here.

Holds: a definition is compiled once, on first use, with all definitions that it refers to; nodes
are shared and never change afterwards. Recursive definitions are recursive nodes. Every list has a
list type.

Mirrors  kubernetes v1.25 api/openapi-spec/swagger.json.
Differs  the source of the schema: upstream compiles its Go types. If a list has no apply marker in
         v1.25 (`PodSpec.containers`), its patch strategy decides, as in kube-openapi's conversion:
         merge with a key is a map, merge without one a set, any other strategy atomic.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from sim.api.go.field_types import go_type_of
from sim.api.protobuf.numbers import numbers, short_name

Raw = dict[str, Any]

DOCUMENT = Path(__file__).with_name("definitions.json")
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
OBJECT_META = META + "ObjectMeta"
JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"

# Definitions with a type of their own, independent of their schema.
_SPECIAL = {
    QUANTITY: "quantity",
    INT_OR_STRING: "int-or-string",
    META + "Time": "time",
    META + "MicroTime": "micro-time",
    META + "FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "any",
    JSON_SCHEMA + "OrArray": "schema-or-list",
    JSON_SCHEMA + "OrBool": "schema-or-bool",
    JSON_SCHEMA + "OrStringArray": "schema-or-names",
}
_SCALARS = ("string", "boolean", "integer", "number")
# Optional fields that Go nevertheless writes when they are zero.
_ZERO_WRITTEN = {
    "core.v1.Event": ("reportingComponent", "reportingInstance"),
    "apps.v1.StatefulSetStatus": ("availableReplicas",),
    "rbac.v1.ClusterRole": ("rules",),
    "rbac.v1.Role": ("rules",),
    "storage.v1.CSINodeDriver": ("topologyKeys",),
    "networking.v1alpha1.ClusterCIDRSpec": ("ipv4", "ipv6"),
}
# Pointers and lists that Go writes as null when they are empty.
_NULL_WRITTEN = {
    "batch.v1.PodFailurePolicy": ("rules",),
    "batch.v1.PodFailurePolicyOnExitCodesRequirement": ("containerName", "values"),
    "batch.v1.PodFailurePolicyRule": ("onExitCodes", "onPodConditions"),
    "core.v1.ContainerImage": ("names",),
    "core.v1.PodSpec": ("containers",),
    "core.v1.ProjectedVolumeSource": ("sources",),
    "core.v1.ScaleIOVolumeSource": ("secretRef",),
    "core.v1.TypedLocalObjectReference": ("apiGroup",),
}
# Types with values of any form, for ownership and patches.
OPEN_TYPES = ("any", "schema-or-list", "schema-or-bool", "schema-or-names")
# Defaults of map list keys that a written item may omit (core/v1 types.go: +default="TCP").
_KEY_DEFAULTS = {"protocol": "TCP"}
# A key that the type requires defaults to the zero of its type (kube-openapi's `default`).
_KEY_ZEROS = {"string": "", "integer": 0, "boolean": False}


class SchemaNode:
    """The schema of one value.

    type: object (known `properties`), map (`values` of any key), array, string, integer, number,
        boolean, quantity, int-or-string, time, micro-time, any, schema-or-list, schema-or-bool,
        schema-or-names (a JSON schema, or an alternative to one)
    name: of the definition ("io.k8s.api.core.v1.PodSpec"), "" for inline ones
    list_type: map (keyed by `list_map_keys`), set or atomic, of arrays
    key_defaults: of absent list map keys
    map_type: "atomic" if apply owns the object or map as a whole, otherwise "granular"
    patch_strategies, patch_merge_key: of strategic merge
    go_type: the name of its Go type, if that is neither a basic type nor a struct
    typed: True if Go has a type for it, with zeros and pointers; False for custom resources, in
        which every null is reported
    spared: its scalars that Go leaves out when they are zero or ""
    structs: its required fields that are structs in Go, not pointers, so that they are never absent
    written: its optional fields that Go writes even when they are zero or empty
    nulls: its fields that Go writes as null when they are empty
    """

    __slots__ = (
        "format",
        "go_type",
        "items",
        "key_defaults",
        "list_map_keys",
        "list_type",
        "map_type",
        "name",
        "nulls",
        "patch_merge_key",
        "patch_strategies",
        "properties",
        "required",
        "spared",
        "structs",
        "type",
        "typed",
        "values",
        "written",
    )

    def __init__(self, type: str, name: str = "", format: str = "") -> None:
        self.type = type
        self.name = name
        self.format = format
        self.properties: dict[str, SchemaNode] = {}
        self.items: SchemaNode | None = None
        self.values: SchemaNode | None = None
        self.required: tuple[str, ...] = ()
        self.list_type = ""
        self.list_map_keys: tuple[str, ...] = ()
        self.key_defaults: Mapping[str, Any] = {}
        self.map_type = "granular"
        self.patch_strategies: tuple[str, ...] = ()
        self.patch_merge_key = ""
        self.go_type = ""
        self.typed = True
        self.spared: frozenset[str] = frozenset()
        self.structs: tuple[str, ...] = ()
        self.nulls: tuple[str, ...] = ()
        self.written: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"SchemaNode({self.type}, {self.name or '-'})"

    def copy(self) -> SchemaNode:
        """Another node with the same children, for a field that marks a shared definition
        differently.
        """
        twin = SchemaNode(self.type, self.name, self.format)
        for slot in SchemaNode.__slots__:
            setattr(twin, slot, getattr(self, slot))
        return twin


class _Kinds(msgspec.Struct):
    """The group, version and kind entries of a definition."""

    given: list[dict[str, str]] = msgspec.field(name="x-kubernetes-group-version-kind", default_factory=list)


@lru_cache(maxsize=1)
def definitions() -> dict[str, msgspec.Raw]:
    """The text of each definition of the release."""
    return msgspec.json.decode(DOCUMENT.read_bytes(), type=dict[str, msgspec.Raw])


def raw_definition(name: str) -> Raw:
    """One definition, decoded on each call: a process needs few of them, each once."""
    raw: Raw = msgspec.json.decode(definitions()[name])
    return raw


@lru_cache(maxsize=1)
def _definition_names() -> dict[tuple[str, str, str], str]:
    names: dict[tuple[str, str, str], str] = {}
    for name, text in definitions().items():
        for gvk in msgspec.json.decode(text, type=_Kinds).given:
            names.setdefault((gvk["group"], gvk["version"], gvk["kind"]), name)
    return names


def definition_name(upstream_group: str, version: str, kind: str) -> str:
    """The name of the definition of a kind; "" if there is none."""
    return _definition_names().get((upstream_group, version, kind), "")


_nodes: dict[str, SchemaNode] = {}


def schema_of(name: str) -> SchemaNode:
    """The compiled definition of that name."""
    node = _nodes.get(name)
    if node is None:
        raw = raw_definition(name)
        node = SchemaNode(_SPECIAL.get(name) or _type(raw), name, raw.get("format", ""))
        _nodes[name] = node  # before its fields: a definition may contain itself
        if name not in _SPECIAL:
            _fill(node, raw)
            node.written = _ZERO_WRITTEN.get(short_name(node.name), ())
            plain = _plain_fields(node)
            node.nulls = (*_NULL_WRITTEN.get(short_name(node.name), ()), *_null_times(node, plain))
            node.spared = _spared(node, plain)
            node.structs = tuple(f for f in node.required if f in plain and node.properties[f].properties)
    return node


def _null_times(node: SchemaNode, plain: list[str]) -> list[str]:
    """The times that are not pointers in Go, which it writes as null although they are optional."""
    if node.name == OBJECT_META:
        return []  # its kinds fill it in
    times = ("time", "micro-time")
    return [field for field in plain if field in node.properties and node.properties[field].type in times]


def _plain_fields(node: SchemaNode) -> list[str]:
    """The fields that are not pointers in Go."""
    columns = list(numbers().get(short_name(node.name), {}).values())
    for inner in [column.inline for column in columns if column.inline]:
        columns += numbers().get(inner, {}).values()
    return [column.field for column in columns if not column.pointer]


def is_pointer(node: SchemaNode, field: str) -> bool:
    """True if a field of a definition is a pointer in Go, so that null unsets it."""
    return bool(node.name) and field not in _plain_fields(node)


def _spared(node: SchemaNode, plain: list[str]) -> frozenset[str]:
    """The optional scalars that are not pointers in Go."""
    written = (*node.required, *node.written)
    return frozenset(
        field
        for field in plain
        if field not in written and field in node.properties and node.properties[field].type in _SCALARS
    )


def schema_of_kind(upstream_group: str, version: str, kind: str) -> SchemaNode:
    """The compiled schema of a kind."""
    return schema_of(definition_name(upstream_group, version, kind))


def _type(raw: Raw) -> str:
    given = raw.get("type", "object")
    plain = given if isinstance(given, str) else next(t for t in given if t != "null")
    return "map" if "additionalProperties" in raw else str(plain)


def _fill(node: SchemaNode, raw: Raw) -> None:
    for field, below in raw.get("properties", {}).items():
        made = node.properties[field] = _field(below)
        if name := go_type_of(short_name(node.name), field):
            _name_type(made, name)
    node.required = tuple(raw.get("required", ()))
    if "items" in raw:
        node.items = _field(raw["items"])
    if isinstance(raw.get("additionalProperties"), dict):
        node.values = _field(raw["additionalProperties"])
    _mark(node, raw)


# Quirk: these are names of whole maps and lists.
_NAMED_WHOLE = ("v1.ResourceList", "v1.ValidationRules", "v1.Verbs")


def _name_type(node: SchemaNode, name: str) -> None:
    """Give the node of a field, or that of its items, its Go type."""
    below = node.items if node.type == "array" else node.values if node.type == "map" else None
    target = node if below is None or name in _NAMED_WHOLE else below
    if not target.name:  # which no other field shares
        target.go_type = name


def _field(raw: Raw) -> SchemaNode:
    reference = raw.get("$ref")
    if reference is None:
        node = SchemaNode(_type(raw), "", raw.get("format", ""))
        _fill(node, raw)
        return node
    node = schema_of(reference.rpartition("/")[2])
    if any(key.startswith("x-kubernetes-") for key in raw):
        node = node.copy()
        _mark(node, raw)
    return node


def _mark(node: SchemaNode, raw: Raw) -> None:
    if "x-kubernetes-patch-strategy" in raw:
        node.patch_strategies = tuple(raw["x-kubernetes-patch-strategy"].split(","))
        node.patch_merge_key = raw.get("x-kubernetes-patch-merge-key", "")
    node.map_type = raw.get("x-kubernetes-map-type", node.map_type)
    if node.type != "array":
        return
    node.list_map_keys = tuple(raw.get("x-kubernetes-list-map-keys", ()))
    node.list_type = raw.get("x-kubernetes-list-type", "")
    if not node.list_type:
        if "merge" not in node.patch_strategies:
            node.list_type = "atomic"
        elif node.patch_merge_key:
            node.list_type, node.list_map_keys = "map", (node.patch_merge_key,)
        else:
            node.list_type = "set"
    node.key_defaults = _key_defaults(node)


def _key_defaults(node: SchemaNode) -> dict[str, Any]:
    below = node.items
    if not node.list_map_keys or below is None:
        return {}
    zeros = {
        key: _KEY_ZEROS[below.properties[key].type]
        for key in node.list_map_keys
        if key in below.required and below.properties[key].type in _KEY_ZEROS
    }
    return zeros | {key: _KEY_DEFAULTS[key] for key in node.list_map_keys if key in _KEY_DEFAULTS}


def description(name: str, path: tuple[str, ...]) -> str:
    """Upstream's description of a field of a definition, e.g. of ("io.k8s.api.apps.v1.ReplicaSet",
    ("spec", "replicas")).
    """
    raw = raw_definition(name)
    text = raw.get("description", "")
    for field in path:
        if "$ref" in raw:
            raw = raw_definition(raw["$ref"].rpartition("/")[2])
        raw = raw["properties"][field]
        text = raw.get("description", "")
    return str(text)
