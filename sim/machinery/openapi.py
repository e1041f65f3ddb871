"""OpenAPI documents: the schema of the served kinds, for clients that validate, explain and apply.

Turns a scheme into the v3 index, one v3 document per group version, and the v2 document.

Holds: the dependency's own changes to the schema are undone (null types, enums of kind and apiVersion, Quantity and
IntOrString as unions).

Mirrors  kubernetes v1.25 api/openapi-spec, apiserver pkg/server/routes/openapi.go.
Differs  what a field may hold (`enum`) and what it is by default are not told.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha512
from typing import Any

import msgspec

from sim.ident import UPSTREAM_GROUP_DOMAIN, Names
from sim.machinery import openapi_protobuf
from sim.machinery.discovery import group_versions
from sim.machinery.openapi_paths import META, SECURITY, V2, V3, Writer, document, newer, title
from sim.machinery.schema import INT_OR_STRING, QUANTITY, definition_name, raw_definitions
from sim.machinery.scheme import Resource, Scheme

Body = dict[str, Any]

_DISCOVERED = ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions")


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


def _roots(resources: list[Resource], names: Names) -> list[str]:
    """The definitions of what is sent and answered."""
    kinds: list[tuple[str, str, str]] = []
    for r in resources:
        kinds += [(r.upstream_group, r.version, kind) for kind in (r.kind, r.list_kind)]
        kinds += [
            (names.upstream_group(sub.group), sub.version, sub.kind) for sub in r.subresources if sub.version
        ]
    found = [definition_name(*kind) for kind in kinds]
    common = [f"{META}{kind}" for kind in ("DeleteOptions", "Patch", "Status", "WatchEvent", *_DISCOVERED)]
    return [name for name in found if name] + common


def _paths(resources: list[Resource], names: Names) -> Body:
    return {path: item for r in resources for path, item in Writer(r, names).items()}


def _documents(scheme: Scheme) -> Body:
    """The paths of discovery and of the version, by what leads there."""
    names = scheme.names

    def at(path: str, name: str, answer: str = "") -> tuple[str, Body]:
        return path, document(path, name, names, answer)

    found = [
        at("/api/", "getCoreAPIVersions", "APIVersions"),
        at("/api/v1/", "getCoreV1APIResources", "APIResourceList"),
        at("/apis/", "getAPIVersions", "APIGroupList"),
        at("/version/", "getCodeVersion"),
    ]
    for group, versions in group_versions(scheme).items():
        short = names.short_group(group)
        found.append(at(f"/apis/{group}/", f"get{title(short, '')}APIGroup", "APIGroup"))
        found += [
            at(f"/apis/{group}/{version}/", f"get{title(short, version)}APIResources", "APIResourceList")
            for version in versions
        ]
    return dict(found)


def _info() -> Body:
    return {"title": "Kubernetes", "version": "v1.25.0"}


def _v3_document(paths: Body, schemas: Body) -> bytes:
    components = {"schemas": schemas, "securitySchemes": SECURITY}
    shown = {path: newer(item) for path, item in sorted(paths.items())}
    document = {"openapi": "3.0.0", "info": _info(), "paths": shown, "components": components}
    return msgspec.json.encode(document)


def _schemas(roots: list[str], names: Names) -> Body:
    schemas = {name: _definition(name, V3, names) for name in _reached(roots)}
    if INT_OR_STRING in schemas:
        schemas[INT_OR_STRING] = {
            "format": "int-or-string",
            "oneOf": [{"type": "integer"}, {"type": "string"}],
        }
    return schemas


@lru_cache(maxsize=64)
def openapi_v3(scheme: Scheme, group: str, version: str) -> bytes | None:
    """The JSON document of one group version; None where it is not served."""
    resources = [r for r in scheme.resources if (r.group, r.version) == (group, version)]
    if not resources:
        return None
    root = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
    paths = {root: _documents(scheme)[root], **_paths(resources, scheme.names)}
    return _v3_document(paths, _schemas(_roots(resources, scheme.names), scheme.names))


@lru_cache(maxsize=64)
def openapi_v3_of_discovery(scheme: Scheme, path: str) -> bytes | None:
    """The JSON document of "api", "apis", "apis/<group>" or "version"; None where there is no such."""
    item = _documents(scheme).get(f"/{path}/")
    if item is None or path.count("/") > 1 or path == "api/v1":
        return None
    roots = [f"{META}{kind}" for kind in _DISCOVERED]
    return _v3_document({f"/{path}/": item}, _schemas(roots, scheme.names))


@lru_cache(maxsize=8)
def openapi_v3_index(scheme: Scheme) -> Body:
    """/openapi/v3: the documents with their hashes."""
    made: dict[str, bytes | None] = {
        path: openapi_v3_of_discovery(scheme, path)
        for path in ("api", "apis", "version", *(f"apis/{group}" for group in group_versions(scheme)))
    }
    for r in scheme.resources:
        path = f"apis/{r.group}/{r.version}" if r.group else f"api/{r.version}"
        made.setdefault(path, openapi_v3(scheme, r.group, r.version))
    paths: Body = {}
    for path, text in sorted(made.items()):
        digest = sha512(text or b"").hexdigest().upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def _v2_document(scheme: Scheme) -> Body:
    resources = list(scheme.resources)
    roots = _roots(resources, scheme.names)
    definitions = {name: _definition(name, V2, scheme.names) for name in _reached(roots)}
    paths = {**_documents(scheme), **_paths(resources, scheme.names)}
    return {
        "swagger": "2.0",
        "info": _info(),
        "paths": dict(sorted(paths.items())),
        "definitions": definitions,
        "securityDefinitions": SECURITY,
        "security": [{"BearerToken": []}],
    }


@lru_cache(maxsize=8)
def openapi_v2(scheme: Scheme) -> bytes:
    """The JSON form of /openapi/v2."""
    return msgspec.json.encode(_v2_document(scheme))


@lru_cache(maxsize=8)
def openapi_v2_protobuf(scheme: Scheme) -> bytes:
    """Its protobuf form, of media type `openapi_protobuf.MEDIA`."""
    return openapi_protobuf.document(_v2_document(scheme))
