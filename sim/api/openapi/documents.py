"""OpenAPI documents: the schema of the served kinds, for clients that validate, explain and apply.

A scheme becomes the v3 index, one v3 document per group version, and the v2 document.

Mirrors  kubernetes v1.25 api/openapi-spec, apiserver pkg/server/routes/openapi.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha512
from typing import Any

import msgspec

from sim.api.crd.openapi import names_of, schemas
from sim.api.crd.served import Served
from sim.api.kinds.groups import FIRST_GROUP
from sim.api.openapi import protobuf_form as openapi_protobuf
from sim.api.openapi import protobuf_v3
from sim.api.openapi.paths import EMPTY, SECURITY, Writer, document, logs, newer, title
from sim.api.openapi.schemas import V2, V3, definition_v2, definition_v3
from sim.api.schema.discovery import fixed_versions
from sim.api.schema.field_schemas import META, definition_name, raw_definition
from sim.api.schema.resource import Resource
from sim.api.schema.scheme import Scheme
from sim.ident import Names

Body = dict[str, Any]
Named = Mapping[tuple[str, str, str], str]

_DISCOVERED = ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions")


def _reached(roots: list[str]) -> list[str]:
    """Definitions that the roots refer to, directly or indirectly, by name."""
    seen: dict[str, None] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen[name] = None
            todo.extend(_references(raw_definition(name)))
    return sorted(seen)


def _references(raw: Any) -> list[str]:
    if not isinstance(raw, dict):
        return []
    own = [raw["$ref"].rpartition("/")[2]] if isinstance(raw.get("$ref"), str) else []
    return own + [name for below in raw.values() for name in _references(below)]


def _roots(resources: list[Resource], names: Names) -> list[str]:
    """The definitions of request and reply bodies."""
    kinds: list[tuple[str, str, str]] = []
    for r in resources:
        kinds += [(r.upstream_group, r.version, kind) for kind in (r.kind, r.list_kind)]
        kinds += [
            (names.upstream_group(sub.group), sub.version, sub.kind) for sub in r.subresources if sub.version
        ]
    found = [definition_name(*kind) for kind in kinds]
    common = [f"{META}{kind}" for kind in ("DeleteOptions", "Patch", "Status", "WatchEvent", *_DISCOVERED)]
    return [name for name in found if name] + common


def _paths(resources: Sequence[Resource], names: Names, own: Named = EMPTY) -> Body:
    return {path: item for r in resources for path, item in Writer(r, names, own).items()}


def _documents(scheme: Scheme) -> Body:
    """The paths of discovery and of the version, by the path of their document."""
    names = scheme.names

    def at(path: str, name: str, answer: str = "") -> tuple[str, Body]:
        return path, document(path, name, names, answer)

    found = [
        at("/api/", "getCoreAPIVersions", "APIVersions"),
        at("/api/v1/", "getCoreV1APIResources", "APIResourceList"),
        at("/apis/", "getAPIVersions", "APIGroupList"),
        at("/version/", "getCodeVersion"),
        at("/.well-known/openid-configuration/", "getServiceAccountIssuerOpenIDConfiguration"),
        at("/openid/v1/jwks/", "getServiceAccountIssuerOpenIDKeyset"),
        ("/logs/", logs("logFileListHandler")),
        ("/logs/{logpath}", logs("logFileHandler", "logpath")),
    ]
    for group, versions in fixed_versions(scheme).items():
        short = names.short_group(group)
        found.append(at(f"/apis/{group}/", f"get{title(short, '')}APIGroup", "APIGroup"))
        found += [
            at(f"/apis/{group}/{version}/", f"get{title(short, version)}APIResources", "APIResourceList")
            for version in versions
        ]
    return dict(found)


def _info() -> Body:
    return {"title": "Kubernetes", "version": "v1.25.0"}


def _v3_document(paths: Body, schemas: Body, info: Body | None = None) -> bytes:
    components: Body = {"schemas": schemas}
    if info is None:
        components["securitySchemes"] = SECURITY
    shown = {path: newer(item) for path, item in sorted(paths.items())}
    document = {"openapi": "3.0.0", "info": info or _info(), "paths": shown, "components": components}
    return msgspec.json.encode(document)


def _schemas(roots: list[str], names: Names) -> Body:
    return {name: definition_v3(name, names) for name in _reached(roots)}


def openapi_v3(scheme: Scheme, group: str, version: str) -> bytes | None:
    """The JSON document of one group version; None if it is not served."""
    if version in scheme.more.served.versions.get(group, ()):
        return _custom_v3(scheme.fixed, scheme.more.served, group, version)
    return _fixed_v3(scheme.fixed, group, version)


@lru_cache(maxsize=64)
def _custom_v3(scheme: Scheme, served: Served, group: str, version: str) -> bytes:
    resources = [r for r in served.resources if (r.group, r.version) == (group, version) and r.established]
    paths = _paths(resources, scheme.names, names_of(resources))
    common = ("APIResourceList", "DeleteOptions", "ListMeta", "ObjectMeta", "Patch", "Status")
    known = _schemas([f"{META}{kind}" for kind in common], scheme.names)
    scale = definition_name("autoscaling", "v1", "Scale")
    if any(r.scale is not None for r in resources):
        known |= _schemas([scale], scheme.names)
    return _v3_document(
        paths, {**known, **schemas(resources, V3)}, {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
    )


@lru_cache(maxsize=64)
def _fixed_v3(scheme: Scheme, group: str, version: str) -> bytes | None:
    resources = [r for r in scheme.resources if (r.group, r.version) == (group, version)]
    if not resources:
        return None
    root = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
    paths = {root: _documents(scheme)[root], **_paths(resources, scheme.names)}
    return _v3_document(paths, _schemas(_roots(resources, scheme.names), scheme.names))


def openapi_v3_of_discovery(scheme: Scheme, path: str) -> bytes | None:
    """The JSON document of "api", "apis", "apis/<group>" or "version"; None if there is none."""
    return _discovery_v3(scheme.fixed, path)


@lru_cache(maxsize=64)
def _discovery_v3(scheme: Scheme, path: str) -> bytes | None:
    found = {
        at: item
        for at, item in _documents(scheme).items()
        if at == f"/{path}/" or (path == "logs" and at.startswith("/logs/"))
    }
    if not found or path == "api/v1" or (path.startswith("apis/") and path.count("/") > 1):
        return None
    roots = [f"{META}{kind}" for kind in _DISCOVERED]
    return _v3_document(found, _schemas(roots, scheme.names))


# The documents that do not describe a group version.
_ALONE = (".well-known/openid-configuration", "api", "apis", "logs", "openid/v1/jwks", "version")


def openapi_v3_of(scheme: Scheme, path: str) -> bytes | None:
    """The JSON document at a path below /openapi/v3; None if there is none.

    Quirk: the group of the aggregator has none.
    """
    parts = path.split("/")
    if parts[:2] == ["apis", scheme.names.group(FIRST_GROUP)]:
        return None
    if parts[0] == "api" and len(parts) == 2:
        return openapi_v3(scheme, "", parts[1])
    if parts[0] == "apis" and len(parts) == 3:
        return openapi_v3(scheme, parts[1], parts[2])
    return openapi_v3_of_discovery(scheme, path)


def openapi_v3_index(scheme: Scheme) -> Body:
    """/openapi/v3: the documents with their hashes."""
    paths = dict(_fixed_index(scheme.fixed))
    for group, versions in scheme.more.served.versions.items():
        for version in versions:
            path = f"apis/{group}/{version}"
            text = openapi_v3(scheme, group, version)
            if path not in paths and text is not None:
                paths[path] = _reference(path, text)
    return {"paths": {path: paths[path] for path in sorted(paths)}}


def _reference(path: str, text: bytes) -> Body:
    return {"serverRelativeURL": versioned_url(path, digest(text))}


def versioned_url(path: str, version: str) -> str:
    """The URL of a document of version 3 with its hash, under which it never changes."""
    return f"/openapi/v3/{path}?hash={version}"


@lru_cache(maxsize=128)
def digest(text: bytes) -> str:
    """The hash of a document, which is its entity tag too."""
    return sha512(text).hexdigest().upper()


@lru_cache(maxsize=64)
def openapi_v3_protobuf(text: bytes) -> bytes:
    """The protobuf form of a document of version 3, of media type `protobuf_v3.MEDIA`."""
    return protobuf_v3.document(msgspec.json.decode(text))


@lru_cache(maxsize=8)
def _fixed_index(scheme: Scheme) -> Body:
    groups = [f"apis/{group}" for group in fixed_versions(scheme)]
    served = [f"apis/{r.group}/{r.version}" if r.group else f"api/{r.version}" for r in scheme.resources]
    found = {path: openapi_v3_of(scheme, path) for path in (*_ALONE, *groups, *served)}
    return {path: _reference(path, text) for path, text in sorted(found.items()) if text is not None}


def _v2_document(scheme: Scheme, served: Served) -> Body:
    resources = list(scheme.resources)
    custom = [r for r in served.resources if r.established]
    roots = _roots(resources, scheme.names)
    definitions = {name: definition_v2(name, scheme.names) for name in _reached(roots)}
    paths = {**_documents(scheme), **_paths(resources, scheme.names)}
    return {
        "swagger": "2.0",
        "info": _info(),
        "paths": dict(sorted({**_paths(custom, scheme.names, names_of(custom)), **paths}.items())),
        "definitions": {**schemas(custom, V2), **definitions},
        "securityDefinitions": SECURITY,
        "security": [{"BearerToken": []}],
    }


def openapi_v2(scheme: Scheme) -> bytes:
    """The JSON form of /openapi/v2."""
    return _v2_json(scheme.fixed, scheme.more.served)


@lru_cache(maxsize=8)
def _v2_json(scheme: Scheme, served: Served) -> bytes:
    return msgspec.json.encode(_v2_document(scheme, served))


def openapi_v2_protobuf(scheme: Scheme) -> bytes:
    """The protobuf form of /openapi/v2, of media type `openapi_protobuf.MEDIA`."""
    return _v2_protobuf(scheme.fixed, scheme.more.served)


@lru_cache(maxsize=8)
def _v2_protobuf(scheme: Scheme, served: Served) -> bytes:
    return openapi_protobuf.document(_v2_document(scheme, served))
