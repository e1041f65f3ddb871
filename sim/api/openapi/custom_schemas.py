"""OpenAPI of custom resources: the schemas of definitions as documents publish them.

The served versions of a definition become named schemas in OpenAPI 3 or 2, together with the kinds
of their lists.

Holds: the older form omits what it cannot express, and all fields below a value that may hold
anything: clients that validate bodies against it would refuse valid ones. It has no defaults.

Mirrors  apiextensions-apiserver v1.25 pkg/controller/openapi/{builder/builder.go,v2/conversion.go},
         pkg/apiserver/schema/{kubeopenapi,unfold}.go; kube-openapi pkg/handler/default_pruning.go,
         pkg/builder3/util (a reference with siblings is in `allOf`).
Quirk    in the older form a map of any values (`{}`) is one of none (`false`): the aggregator reads
         it so (kube-openapi pkg/validation/spec/swagger.go, SchemaOrBool).
"""

from __future__ import annotations

from typing import Any, Final

from sim.api.crd.definition_form import RULES
from sim.api.crd.served import CustomResource
from sim.api.openapi.order import in_order, sorted_maps
from sim.api.openapi.schemas import V2, V3
from sim.api.schema.field_schemas import META, description
from sim.api.types import Json

Body = dict[str, Any]

_POD = "io.k8s.api.core.v1.Pod"  # the source of descriptions common to all objects and lists
_LIST_OF_PODS = f"{_POD}List"
_COMBINED = ("allOf", "anyOf", "oneOf")
_PRESERVE, _EMBEDDED = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
# Members that are published, unless they have the zero value of Go.
_PLAIN: Final = (
    "description",
    "type",
    "nullable",
    "title",
    "default",
    "format",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "pattern",
    "uniqueItems",
    "enum",
    "required",
    _PRESERVE,
    _EMBEDDED,
    _INT_OR_STRING,
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
)
# Pointers in Go: a zero is a value.
_BOUNDS: Final = (
    "maximum",
    "minimum",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "multipleOf",
    "maxProperties",
    "minProperties",
)
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]


def name_of(resource: CustomResource, kind: str) -> str:
    """ "com.example.v1.Widget": the group in reverse."""
    return ".".join([*reversed(resource.group.split(".")), resource.version, kind])


def schemas(resources: list[CustomResource], refs: str) -> Body:
    """The schemas of these resources.

    refs: the prefix of references, `V2` or `V3`
    """
    return {name: in_order(schema) for r in resources for name, schema in _both(r, refs)}


def _both(resource: CustomResource, refs: str) -> list[tuple[str, Body]]:
    own = name_of(resource, resource.kind)
    page = description(_LIST_OF_PODS, ("items",)).rpartition(" ")[2]
    listed = {
        "description": f"{resource.naming.list_kind} is a list of {resource.kind}",
        "required": ["items"],
        "properties": {
            **_head(),
            "items": {
                "description": f"List of {resource.plural}. More info: {page}",
                "type": "array",
                "items": {"$ref": refs + own},
            },
            "metadata": _metadata("ListMeta", _LIST_OF_PODS, refs),
        },
        **_kind_of(resource, resource.naming.list_kind),
    }
    return [(own, _object(resource, refs)), (name_of(resource, resource.naming.list_kind), listed)]


def _head() -> Body:
    return {
        "apiVersion": {"description": description(_POD, ("apiVersion",)), "type": "string"},
        "kind": {"description": description(_POD, ("kind",)), "type": "string"},
    }


def _metadata(kind: str, owner: str, refs: str) -> Body:
    text = description(owner, ("metadata",))
    to = {"$ref": f"{refs}{META}{kind}"}
    return {"description": text, "allOf": [to]} if refs == V3 else {"description": text, **to}


def _kind_of(resource: CustomResource, kind: str) -> Body:
    entry = {"group": resource.group, "version": resource.version, "kind": kind}
    return {"x-kubernetes-group-version-kind": [entry]}


def _object(resource: CustomResource, refs: str) -> Body:
    """The schema of the kind itself.

    Quirk: nothing but its type is published of an object that may hold any field, not even its
    metadata.
    """
    made = _published(resource.structure.raw)
    free = _free(resource, made)
    if not made or (refs == V2 and free):
        return {"type": "object", **_kind_of(resource, resource.kind)}
    if refs == V2:
        made = _older(made)
    own = {**_head(), "metadata": _metadata("ObjectMeta", _POD, refs)}
    made = _with_embedded({**made, "properties": {**made.get("properties", {}), **own}}, refs)
    return {**made, **_kind_of(resource, resource.kind)}


def _free(resource: CustomResource, schema: Body) -> bool:
    spec = resource.definition.get("spec") if isinstance(resource.definition, dict) else None
    return _PRESERVE in schema or bool(isinstance(spec, dict) and spec.get("preserveUnknownFields"))


# --- what is published of a schema ----------------------------------------------------------------


def _published(raw: Json) -> Body:
    """The members of a structural schema that are published, in the form of OpenAPI 3."""
    if not isinstance(raw, dict):
        return {}
    made: Body = {key: raw[key] for key in _PLAIN if raw.get(key) not in (None, False, "", [])}
    if raw.get("default") is not None:
        made["default"] = raw["default"]
    made |= {key: raw[key] for key in _BOUNDS if raw.get(key) is not None}
    rules = raw.get(RULES)
    if isinstance(rules, list) and rules:
        made[RULES] = [
            {key: each[key] for key in ("rule", "message") if each.get(key)}
            for each in rules
            if isinstance(each, dict)
        ]
    made |= {key: list(map(_published, raw[key])) for key in _COMBINED if _is_list(raw.get(key))}
    made |= {key: _published(raw[key]) for key in ("items", "not") if isinstance(raw.get(key), dict)}
    rest, properties = raw.get("additionalProperties"), raw.get("properties")
    if rest is not None:
        made["additionalProperties"] = _published(rest) if isinstance(rest, dict) else rest
    if isinstance(properties, dict) and properties:
        made["properties"] = {name: _published(below) for name, below in properties.items()}
    return _unfolded(made) if _INT_OR_STRING in made else made


def _is_list(value: Json) -> bool:
    return isinstance(value, list) and bool(value)


def _unfolded(schema: Body) -> Body:
    """A schema of whole numbers and strings with both types, unless it states them."""
    first = schema["allOf"][0] if "allOf" in schema else {}
    if schema.get("anyOf") == _EITHER or first.get("anyOf") == _EITHER:
        return schema
    if "anyOf" not in schema:
        return {**schema, "anyOf": _EITHER}
    return {**schema, "allOf": [{"anyOf": _EITHER}, *schema.get("allOf", ())]}


def _with_embedded(schema: Body, refs: str) -> Body:
    """The schema with the common fields of the objects that it embeds."""
    made = dict(schema)
    if "properties" in made:
        made["properties"] = {name: _with_embedded(one, refs) for name, one in made["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _with_embedded(made[key], refs)
    if _EMBEDDED not in made or (refs == V2 and _PRESERVE in made):
        return made
    version, kind = (page.rpartition(" ")[2] for page in map(_pod_text, ("apiVersion", "kind")))
    common: Body = {
        "apiVersion": {
            "description": "apiVersion defines the versioned schema of this representation of an object. "
            f"More info: {version}",
            "type": "string",
        },
        "kind": {
            "description": "kind is a string value representing the type of this object. "
            f"In CamelCase. More info: {kind}",
            "type": "string",
        },
        "metadata": _metadata("ObjectMeta", _POD, refs),
    }
    needed = made.get("required", [])
    made["required"] = [*needed, *(name for name in ("kind", "apiVersion") if name not in needed)]
    return {**made, "properties": {**made.get("properties", {}), **common}}


def _pod_text(field: str) -> str:
    return description(_POD, (field,))


# --- OpenAPI 2 ------------------------------------------------------------------------------------


def _older(schema: Body) -> Body:
    """The schema in the form of OpenAPI 2.

    Quirk: kubectl knows neither untyped values with fields nor lists without a schema of their
    items, so both lose more than the older form requires.
    """
    made = {key: value for key, value in schema.items() if key not in (*_COMBINED, "not", "default")}
    if RULES in made:
        made[RULES] = sorted_maps(made[RULES])
    nullable, free = made.pop("nullable", False), _PRESERVE in made
    if nullable:
        made.pop("type", None)
    if nullable or free:
        made.pop("items", None)
        made.pop("properties", None)
    if (made.get("type") == "array" and "items" not in made) or (free and made.get("type") == "object"):
        made.pop("type")
    properties, rest = made.get("properties", {}), made.get("additionalProperties")
    needed = [name for name in made.get("required", ()) if "nullable" not in properties.get(name, ())]
    if isinstance(rest, dict) and "nullable" in rest:
        needed = []
    made.pop("required", None)
    if needed:
        made["required"] = needed
    if properties:
        made["properties"] = {name: _older(below) for name, below in properties.items()}
    if "items" in made:
        made["items"] = _older(made["items"])
    if isinstance(rest, dict):
        made["additionalProperties"] = _older(rest) or False
    return made
