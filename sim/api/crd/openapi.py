"""OpenAPI of custom resources: the schemas of definitions as documents publish them.

The served versions of a definition become named schemas in OpenAPI 3 or 2, together with the kinds
of their lists.

Holds: the older form omits what it cannot express, and all fields below a value that may hold
anything: clients that validate bodies against it would refuse valid ones.

Mirrors  apiextensions-apiserver v1.25 pkg/controller/openapi/{builder/builder.go,v2/conversion.go}.
"""

from __future__ import annotations

from typing import Any

from sim.api.crd.served import CustomResource
from sim.api.openapi.schemas import V2, V3
from sim.api.schema.field_schemas import META, description
from sim.api.types import Json

Body = dict[str, Any]

_POD = "io.k8s.api.core.v1.Pod"  # the source of descriptions common to all objects and lists
_LIST_OF_PODS = f"{_POD}List"
_COMBINED = ("allOf", "anyOf", "oneOf", "not")


def name_of(resource: CustomResource, kind: str) -> str:
    """ "com.example.v1.Widget": the group in reverse."""
    return ".".join([*reversed(resource.group.split(".")), resource.version, kind])


def names_of(resources: list[CustomResource]) -> dict[tuple[str, str, str], str]:
    """The names of schemas by group, version and kind."""
    return {(r.group, r.version, kind): name_of(r, kind) for r in resources for kind in (r.kind, r.list_kind)}


def schemas(resources: list[CustomResource], refs: str) -> Body:
    """The schemas of these resources.

    refs: the prefix of references, `V2` or `V3`
    """
    return {name: schema for r in resources for name, schema in _both(r, refs)}


def _both(resource: CustomResource, refs: str) -> list[tuple[str, Body]]:
    own = name_of(resource, resource.kind)
    page = description(_LIST_OF_PODS, ("items",)).rpartition(" ")[2]
    listed = {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
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
        **_kind_of(resource, resource.list_kind),
    }
    return [(own, _object(resource, refs)), (name_of(resource, resource.list_kind), listed)]


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
    made: Body = _shown(resource.structure.raw, refs, True)
    if refs == V2 and made.get("x-kubernetes-preserve-unknown-fields") is True:
        made = {"type": "object"}
    properties = made.get("properties")
    made["properties"] = {
        **(properties if isinstance(properties, dict) else {}),
        **_head(),
        "metadata": _metadata("ObjectMeta", _POD, refs),
    }
    return {**made, **_kind_of(resource, resource.kind)}


def _shown(raw: Json, refs: str, root: bool = False) -> Any:
    if not isinstance(raw, dict):
        return {}
    made = {key: _part(key, value, refs) for key, value in raw.items() if refs == V3 or key not in _COMBINED}
    if raw.get("x-kubernetes-int-or-string") is True and refs == V3:
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if raw.get("x-kubernetes-embedded-resource") is True and not root:
        given = made.get("properties")
        own = {**_head(), "metadata": _metadata("ObjectMeta", _POD, refs)}
        made["properties"] = {**(given if isinstance(given, dict) else {}), **own}
    if refs == V3:
        return made
    made.pop("nullable", None)
    if raw.get("nullable") is True:
        for key in ("type", "items", "properties", "additionalProperties"):
            made.pop(key, None)
    if raw.get("x-kubernetes-preserve-unknown-fields") is True and not root:
        for key in ("items", "properties", "additionalProperties"):
            made.pop(key, None)
    return made


def _part(key: str, value: Json, refs: str) -> Any:
    if key == "properties" and isinstance(value, dict):
        return {name: _shown(below, refs) for name, below in value.items()}
    if key in ("items", "additionalProperties", "not") and isinstance(value, dict):
        return _shown(value, refs)
    if key in _COMBINED and isinstance(value, list):
        return [_shown(below, refs) for below in value]
    return value
