"""Requests of simulated clients for group versions that another server answers.  Pure.

Turns a `Request` into the HTTP request that its client would send, the answer into a `Reply`, and
discovery documents into resources.

A request without a resource asks for the discovery document of its group version.

Mirrors  client-go v1.25 discovery/{discovery_client,helper}.go
         (ServerPreferredNamespacedResources).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlencode
from zlib import crc32

import msgspec

from sim.api import status
from sim.api.aggregation.delegation import Delegated, Forwarded, version_rank
from sim.api.aggregation.failures import failure_of
from sim.api.schema.kind import Kind
from sim.api.schema.resource import Naming, Resource
from sim.api.store import Item
from sim.api.types import METHODS, Obj, Reply, Request
from sim.units import Revision

INTERNAL = 500
_NO_KIND = Kind(rows=())  # its rules are those of the other server


def path_of(request: Request) -> str:
    """The path of a request."""
    parts = ["apis", request.group, request.version] if request.group else ["api", request.version]
    if request.resource:
        if request.namespace:
            parts += ["namespaces", request.namespace]
        parts += [part for part in (request.resource, request.name, request.subresource) if part]
    return "/" + "/".join(parts)


def forwarded(request: Request) -> Forwarded:
    """The HTTP request of a simulated client."""
    body = request.body
    raw = (
        b""
        if body is None
        else bytes(body)
        if isinstance(body, bytes | bytearray)
        else msgspec.json.encode(body)
    )
    options = dict(request.options)
    headers = (("Accept", "application/json"), ("Content-Type", request.content_type))
    method = METHODS[request.verb]
    return Forwarded(method, path_of(request), urlencode(options), headers, raw, request.user)


def reply_of(request: Request, code: int, headers: Iterable[tuple[str, str]], body: bytes) -> Reply:
    """The answer of the other server, as a client of the library reads it."""
    obj = _decoded(body)
    if not 200 <= code < 300:
        given = {name.lower(): value for name, value in headers}
        kept = {"Retry-After": given["retry-after"]} if "retry-after" in given else {}
        return Reply(code, body=failure_of(request, code, given, body, obj), headers=kept)
    items = obj.get("items") if isinstance(obj, dict) else None
    if request.verb == "list" and isinstance(items, list):
        metadata = obj.get("metadata") or {}
        if not all(map(_has_metadata, (obj, *items))):
            return Reply(
                INTERNAL, body=status.internal_error("the list of the other server cannot be decoded")
            )
        rev = str(metadata.get("resourceVersion", ""))
        listed = [_item(each) for each in items]
        more = str(metadata.get("continue") or "")
        return Reply(code, items=listed, revision=Revision(int(rev) if rev.isdecimal() else 0), more=more)
    return Reply(code, body=obj)


def _has_metadata(obj: Any) -> bool:
    return isinstance(obj, dict) and isinstance(obj.get("metadata") or {}, dict)


def _item(obj: Obj) -> Item:
    """An object of another server, under the name by which informers know it."""
    metadata = obj.get("metadata") or {}
    namespace, name = metadata.get("namespace") or "", str(metadata.get("name", ""))
    text = str(metadata.get("resourceVersion", ""))
    rev = Revision(int(text) if text.isdecimal() else crc32(text.encode()))
    return Item(f"{namespace}/{name}", obj, rev, rev)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if body else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def in_order(found: Iterable[Delegated]) -> list[Delegated]:
    """Group versions as discovery lists them: the preferred version of a group first."""
    return sorted(
        found,
        key=lambda each: (each.group, version_rank(each)),
    )


def served(each: Delegated, document: Obj) -> Iterator[Resource]:
    """The resources of a group version, by its discovery document."""
    rows = document.get("resources")
    for row in rows if isinstance(rows, list) else ():
        name = row.get("name") if isinstance(row, dict) else None
        if isinstance(name, str) and "/" not in name:
            verbs = row.get("verbs")
            known = verbs if isinstance(verbs, list) else ()
            yield _resource(
                each.group, each.version, row, tuple(verb for verb in known if isinstance(verb, str))
            )


def _resource(group: str, version: str, row: Obj, verbs: tuple[str, ...]) -> Resource:
    """A resource of another server, as far as a client uses it."""
    plural, kind = row["name"], str(row.get("kind") or "")
    return Resource(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        naming=Naming(str(row.get("singularName") or ""), f"{kind}List"),
        namespaced=bool(row.get("namespaced")),
        verbs=verbs,
        subresources=(),
        short_group=group,
        upstream_group=group,
        api_version=f"{group}/{version}" if group else version,
        group_resource=f"{plural}.{group}" if group else plural,
        prefix="",
        storage_version_hash="",
        behavior=_NO_KIND,
        custom=True,
    )
