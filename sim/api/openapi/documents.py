"""OpenAPI documents: the schema of the served kinds, for clients that validate, explain and apply.

A scheme becomes the v3 index, one v3 document per group version, and the v2 document.

Mirrors  kubernetes v1.25 api/openapi-spec, apiserver pkg/server/routes/openapi.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import sha512
from typing import Any

import msgspec

from sim.api.crd.served import CustomResource, Served
from sim.api.go.escapes import escaped
from sim.api.openapi.custom_paths import custom_paths
from sim.api.openapi.custom_schemas import schemas
from sim.api.openapi.gnostic import protobuf_v3
from sim.api.openapi.operations import SECURITY, SECURITY_V3, newer
from sim.api.openapi.order import sorted_maps
from sim.api.openapi.paths import documents, paths_of
from sim.api.openapi.schemas import V2, V3, definition_v2, definition_v3, without_enums
from sim.api.schema.field_schemas import META, definitions, raw_definition
from sim.api.schema.groups import FIRST_GROUP
from sim.api.schema.resource import Resource
from sim.api.scheme.discovery import fixed_versions
from sim.api.scheme.scheme import Scheme
from sim.ident import Names

Body = dict[str, Any]


def reached(content: Any) -> list[str]:
    """Definitions that parts of a document refer to, directly or indirectly, by name."""
    seen: dict[str, None] = {}
    todo = _references(content)
    while todo:
        name = todo.pop()
        if name not in seen and name in definitions():
            seen[name] = None
            todo.extend(_references(raw_definition(name)))
    return sorted(seen)


def _references(content: Any) -> list[str]:
    if isinstance(content, list):
        return [name for below in content for name in _references(below)]
    if not isinstance(content, dict):
        return []
    own = [content["$ref"].rpartition("/")[2]] if isinstance(content.get("$ref"), str) else []
    return own + [name for below in content.values() for name in _references(below)]


def _paths(resources: Iterable[Resource], names: Names) -> Body:
    return {path: item for r in resources for path, item in paths_of(r, names).items()}


def _custom(resources: Iterable[CustomResource], names: Names) -> Body:
    return {path: item for r in resources for path, item in custom_paths(r, names).items()}


def _info() -> Body:
    return {"title": "Kubernetes", "version": "v1.25.0"}


def _v3_document(paths: Body, schemas: Body, info: Body | None = None) -> bytes:
    components: Body = {"schemas": schemas} if schemas else {}
    if info is None:
        components["securitySchemes"] = SECURITY_V3
    shown = {path: newer(item) for path, item in sorted(paths.items())}
    document = {"openapi": "3.0.0", "info": info or _info(), "paths": shown, "components": components}
    return escaped(msgspec.json.encode(document))


def _schemas(content: Any, scheme: Scheme, *, apart: Collection[str] = ()) -> Body:
    """The definitions that parts of a document refer to.

    apart: names of those that are known already
    """
    found = {name: definition_v3(name, scheme.names) for name in reached(content) if name not in apart}
    return _without_enums(found, scheme)


def _without_enums(known: Body, scheme: Scheme) -> Body:
    """Definitions as the gate OpenAPIEnums has them (apiserver pkg/util/openapi/enablement.go)."""
    return known if scheme.enums else {name: without_enums(each) for name, each in known.items()}


def openapi_v3(scheme: Scheme, group: str, version: str) -> bytes | None:
    """The JSON document of one group version; None if it is not served."""
    if version in scheme.more.served.versions.get(group, ()):
        return _custom_v3(scheme.fixed, scheme.more.served, group, version)
    return _fixed_v3(scheme.fixed, group, version)


@lru_cache(maxsize=64)
def _custom_v3(scheme: Scheme, served: Served, group: str, version: str) -> bytes:
    resources = [r for r in served.resources if (r.group, r.version) == (group, version) and r.established]
    paths = _custom(resources, scheme.names)
    own = schemas(resources, V3)
    metadata = {"$ref": f"{V3}{META}ObjectMeta"}  # a dependency of every kind, free ones too
    known = {
        name: {key: value for key, value in schema.items() if key != "x-kubernetes-group-version-kind"}
        for name, schema in _schemas([paths, metadata], scheme, apart=own).items()
    }
    return _v3_document(
        paths,
        dict(sorted({**known, **own}.items())),
        {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
    )


@lru_cache(maxsize=64)
def _fixed_v3(scheme: Scheme, group: str, version: str) -> bytes | None:
    resources = [r for r in scheme.resources if (r.group, r.version) == (group, version)]
    if not resources:
        return None
    root = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
    paths = {root: documents(scheme)[root], **_paths(resources, scheme.names)}
    return _v3_document(paths, _schemas(paths, scheme))


def openapi_v3_of_discovery(scheme: Scheme, path: str) -> bytes | None:
    """The JSON document of "api", "apis", "apis/<group>" or "version"; None if there is none."""
    return _discovery_v3(scheme.fixed, path)


@lru_cache(maxsize=64)
def _discovery_v3(scheme: Scheme, path: str) -> bytes | None:
    found = {
        at: item
        for at, item in documents(scheme).items()
        if at == f"/{path}/" or (path == "logs" and at.startswith("/logs/"))
    }
    if not found or path == "api/v1" or (path.startswith("apis/") and path.count("/") > 1):
        return None
    return _v3_document(found, _schemas(found, scheme))


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
    """The protobuf form of a document of version 3, of media type `MEDIA_V3`."""
    return protobuf_v3(msgspec.json.decode(text))


@lru_cache(maxsize=8)
def _fixed_index(scheme: Scheme) -> Body:
    groups = [f"apis/{group}" for group in fixed_versions(scheme)]
    served = [f"apis/{r.group}/{r.version}" if r.group else f"api/{r.version}" for r in scheme.resources]
    found = {path: openapi_v3_of(scheme, path) for path in (*_ALONE, *groups, *served)}
    return {path: _reference(path, text) for path, text in sorted(found.items()) if text is not None}


def _v2_document(scheme: Scheme, served: Served) -> Body:
    custom = [r for r in served.resources if r.established]
    fixed = {**documents(scheme), **_paths(scheme.resources, scheme.names)}
    first = f"/apis/{scheme.names.group(FIRST_GROUP)}/"
    known = _without_enums({name: definition_v2(name, scheme.names) for name in reached(fixed)}, scheme)
    return {
        "swagger": "2.0",
        "info": _info(),
        "paths": _as_read(dict(sorted({**_custom(custom, scheme.names), **fixed}.items())), first),
        "definitions": dict(sorted({**schemas(custom, V2), **known}.items())),
        "securityDefinitions": SECURITY,
        "security": [{"BearerToken": []}],
    }


def _as_read(paths: Body, first: str) -> Body:
    """The paths with the members of extensions in the order of their names.

    Quirk: the aggregator reads all documents but its own as JSON, which forgets the order of Go.

    first: begin of the paths of its own document
    """
    return {
        path: item
        if path.startswith(first)
        else {
            key: {
                name: sorted_maps(value) if name.startswith("x-") else value for name, value in made.items()
            }
            if isinstance(made, dict)
            else made
            for key, made in item.items()
        }
        for path, item in paths.items()
    }


def openapi_v2(scheme: Scheme) -> bytes:
    """The JSON form of /openapi/v2."""
    return _v2_json(scheme.fixed, scheme.more.served)


@lru_cache(maxsize=8)
def _v2_json(scheme: Scheme, served: Served) -> bytes:
    return escaped(msgspec.json.encode(_v2_document(scheme, served)))
