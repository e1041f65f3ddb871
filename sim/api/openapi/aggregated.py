"""The OpenAPI documents of aggregated APIs, as this server publishes them.  Pure.

Turns what was downloaded from the servers behind APIServices into the merged documents of this
server.

Mirrors  kube-aggregator v1.25 pkg/controllers/{openapi,openapiv3}/aggregator/aggregator.go;
         kube-openapi pkg/openapiconv/convert.go.
Differs  of two servers with a document of version 3 at one path, this server and then the first
         APIService by name answers it; upstream takes one by chance. Documents are downloaded only
         while a cluster is served, and nest 100 deep at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from sim.api.go.escapes import escaped
from sim.api.openapi.documents import digest, openapi_v2, openapi_v3_of, versioned_url
from sim.api.openapi.gnostic import protobuf_v2
from sim.api.openapi.merging import Described, below, merged, read
from sim.api.openapi.operations import newer
from sim.api.openapi.order import in_order
from sim.api.openapi.schemas import V2, V3
from sim.api.scheme.scheme import Scheme
from sim.dataclass import dataclass

Body = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Aggregated:
    """The documents of aggregated APIs at one time.

    older: of version 2, below /apis/, by the name of the APIService
    roots: entries of the roots of version 3, by the name of the APIService and by path
    converted: documents of version 3, made of those of version 2, by path
    """

    older: Mapping[str, Described] = field(default_factory=dict)
    roots: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    converted: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """The APIService with the server that answers a path below /openapi/v3/, by path."""
        found: dict[str, str] = {}
        for name in sorted(self.roots):
            for path in self.roots[name]:
                found.setdefault(path, name)
        return found

    def owner(self, scheme: Scheme, path: str) -> str | None:
        """The APIService with the server that has a document of version 3; None if there is none,
        or if this server has it.
        """
        name = self.owners.get(path)
        return None if name is None or openapi_v3_of(scheme, path) is not None else name

    def index(self) -> Body:
        """The entries of the root of version 3."""
        own = {
            path: {"serverRelativeURL": versioned_url(path, digest(text))}
            for path, text in self.converted.items()
        }
        others = {path: self.roots[name][path] for path, name in self.owners.items()}
        return {**others, **own}


NOTHING = Aggregated()


def merged_v2(scheme: Scheme, aggregated: Aggregated) -> bytes:
    """The JSON form of /openapi/v2 with the documents of aggregated APIs."""
    own = openapi_v2(scheme)
    return _merged(own, aggregated) if aggregated.older else own


@lru_cache(maxsize=4)
def _merged(own: bytes, aggregated: Aggregated) -> bytes:
    return escaped(msgspec.json.encode(merged(msgspec.json.decode(own), aggregated.older.values())))


@lru_cache(maxsize=8)
def v2_protobuf(text: bytes) -> bytes:
    """The protobuf form of a document of version 2."""
    return protobuf_v2(msgspec.json.decode(text))


def usable(value: Any) -> Body | None:
    """A document of version 2 as another server sent it, or None if values of wrong types or its
    depth keep it from being published; Go's decoder refuses these.
    """
    try:
        document = read(value)
        if document is None:
            return None
        converted(below(document, ("/apis/",)))
        converted(document)
        protobuf_v2({**document, "info": {}})
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError):
        return None
    return document


# --- version 2 as version 3 -----------------------------------------------------------------------


def converted(document: Body) -> bytes:
    """A document of version 2 in the form of version 3."""
    components: Body = {}
    schemas = {name: in_order(_moved(schema)) for name, schema in sorted(document["definitions"].items())}
    if schemas:
        components["schemas"] = schemas
    if document.get("securityDefinitions"):
        components["securitySchemes"] = {
            name: {key: scheme[key] for key in ("type", "description", "name", "in") if key in scheme}
            for name, scheme in sorted(document["securityDefinitions"].items())
        }
    made = {
        "openapi": "3.0.0",
        "info": document.get("info"),
        "paths": {path: _moved(newer(item)) for path, item in sorted(document["paths"].items())},
        "components": components,
    }
    return escaped(msgspec.json.encode(made))


def _moved(content: Any) -> Any:
    """Content with references in the form of version 3; one with siblings is in `allOf`."""
    if isinstance(content, list):
        return [_moved(each) for each in content]
    if not isinstance(content, dict):
        return content
    made = {key: _moved(value) for key, value in content.items()}
    reference = made.get("$ref")
    if not isinstance(reference, str):
        return made
    to = {"$ref": V3 + reference.removeprefix(V2) if reference.startswith(V2) else reference}
    rest = {key: value for key, value in made.items() if key != "$ref"}
    return {**rest, "allOf": [to]} if rest else to
