"""OpenAPI documents: the schema of the served kinds, for clients that validate, explain and apply.

Turns a scheme into the v3 index, one v3 document per group version, and the v2 document.

Holds: the dependency's own changes to the schema are undone (null types, enums of kind and apiVersion, Quantity and
IntOrString as unions).

Mirrors  kubernetes v1.25 api/openapi-spec.
Differs  paths carry what clients read (kind, action, fieldValidation and dryRun of PATCH), not every parameter.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha512
from typing import Any

import msgspec

from sim.ident import UPSTREAM_GROUP_DOMAIN, Names
from sim.machinery import openapi_protobuf
from sim.machinery.schema import INT_OR_STRING, QUANTITY, definition_name, raw_definitions
from sim.machinery.scheme import Resource, Scheme

Body = dict[str, Any]

_V2, _V3 = "#/definitions/", "#/components/schemas/"


def _clean(raw: Body, refs: str, names: Names) -> Body:
    """A schema as upstream publishes it."""
    out: Body = {}
    for key, value in raw.items():
        if key == "$ref":
            out[key] = refs + value.rpartition("/")[2]
        elif key == "type" and isinstance(value, list):
            out[key] = next(t for t in value if t != "null")
        elif key == "properties":
            out[key] = {field: _clean(below, refs, names) for field, below in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            out[key] = _clean(value, refs, names)
        elif key == "x-kubernetes-group-version-kind":
            out[key] = [
                {**gvk, "group": names.group(gvk["group"].removesuffix("." + UPSTREAM_GROUP_DOMAIN))}
                for gvk in value
            ]
        elif key != "enum":
            out[key] = value
    return out


def _definition(name: str, refs: str, names: Names) -> Body:
    if name == QUANTITY:
        return {"type": "string"}
    if name == INT_OR_STRING:
        return {"type": "string", "format": "int-or-string"}
    return _clean(raw_definitions()[name], refs, names)


def _reached(roots: list[str]) -> list[str]:
    """Definitions reached from the roots, by name."""
    seen: dict[str, None] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen[name] = None
            todo.extend(_references(raw_definitions()[name]))
    return sorted(seen)


def _references(raw: Any) -> list[str]:
    if not isinstance(raw, dict):
        return []
    own = [raw["$ref"].rpartition("/")[2]] if isinstance(raw.get("$ref"), str) else []
    return own + [name for below in raw.values() for name in _references(below)]


def _paths(r: Resource, v3: bool) -> Body:
    base = f"/apis/{r.group}/{r.version}" if r.group else f"/api/{r.version}"
    collection = f"{base}/namespaces/{{namespace}}/{r.plural}" if r.namespaced else f"{base}/{r.plural}"
    gvk = {"group": r.group, "kind": r.kind, "version": r.version}

    def query(name: str) -> Body:
        return {"name": name, "in": "query", **({"schema": {"type": "string"}} if v3 else {"type": "string"})}

    def operation(action: str, *parameters: str) -> Body:
        made: Body = {"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk, "responses": {}}
        return {**made, "parameters": [query(p) for p in parameters]} if parameters else made

    write = ("dryRun", "fieldManager", "fieldValidation")
    many: Body = {"post": operation("post", *write)} if "create" in r.verbs else {}
    one: Body = {}
    if "get" in r.verbs:
        many["get"] = operation("list")
        one = {
            "get": operation("get"),
            "put": operation("put", *write),
            "patch": operation("patch", *write, "force"),
            "delete": operation("delete", "dryRun"),
        }
    return {collection: many, **({f"{collection}/{{name}}": one} if one else {})}


def _roots(resources: list[Resource]) -> list[str]:
    found = [definition_name(r.upstream_group, r.version, r.kind) for r in resources]
    lists = [definition_name(r.upstream_group, r.version, r.list_kind) for r in resources]
    return [name for name in found + lists if name]


def _info() -> Body:
    return {"title": "Kubernetes", "version": "v1.25.0"}


@lru_cache(maxsize=64)
def openapi_v3(scheme: Scheme, group: str, version: str) -> bytes | None:
    """The JSON document of one group version; None where it is not served."""
    resources = [r for r in scheme.resources if (r.group, r.version) == (group, version)]
    if not resources:
        return None
    schemas = {name: _definition(name, _V3, scheme.names) for name in _reached(_roots(resources))}
    if INT_OR_STRING in schemas:
        schemas[INT_OR_STRING] = {
            "format": "int-or-string",
            "oneOf": [{"type": "integer"}, {"type": "string"}],
        }
    paths = {path: body for r in resources for path, body in _paths(r, True).items()}
    document = {"openapi": "3.0.0", "info": _info(), "paths": paths, "components": {"schemas": schemas}}
    return msgspec.json.encode(document)


@lru_cache(maxsize=8)
def openapi_v3_index(scheme: Scheme) -> Body:
    """/openapi/v3: the documents with their hashes."""
    served = {(r.group, r.version): None for r in scheme.resources}
    paths: Body = {}
    for group, version in served:
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        digest = sha512(openapi_v3(scheme, group, version) or b"").hexdigest().upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def _v2_document(scheme: Scheme) -> Body:
    resources = list(scheme.resources)
    definitions = {name: _definition(name, _V2, scheme.names) for name in _reached(_roots(resources))}
    paths = {path: body for r in resources for path, body in _paths(r, False).items()}
    return {"swagger": "2.0", "info": _info(), "paths": paths, "definitions": definitions}


@lru_cache(maxsize=8)
def openapi_v2(scheme: Scheme) -> bytes:
    """The JSON form of /openapi/v2."""
    return msgspec.json.encode(_v2_document(scheme))


@lru_cache(maxsize=8)
def openapi_v2_protobuf(scheme: Scheme) -> bytes:
    """Its protobuf form, of media type `openapi_protobuf.MEDIA`."""
    return openapi_protobuf.document(_v2_document(scheme))
