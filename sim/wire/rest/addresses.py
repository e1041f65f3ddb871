"""Requests as HTTP: method, path, query, type and bytes of the body.

Turns a `Request` into a `Target`, the inverse of `sim.wire.http.routing`.

Holds: names are escaped, so that none leads to another path.

Mirrors  client-go v1.25 rest/request.go (URL, Verb), dynamic/simple.go.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from sim.api.messages.protobuf_encode import encode
from sim.api.types import METHODS, Json, Request
from sim.ident import Names


class Target(NamedTuple):
    """One HTTP request.

    path: with its query
    body: b"" without one, and `content_type` is then ""
    """

    method: str
    path: str
    content_type: str
    body: bytes


def packed(names: Names, target: Target, body: Json) -> Target:
    """The request with its body in protobuf, unless its kind has no such form."""
    if target.content_type != names.media_json or not isinstance(body, dict) or "kind" not in body:
        return target
    try:
        data = encode(body, names)
    except (KeyError, TypeError, AttributeError, ValueError):  # it has none
        return target
    return target._replace(content_type=names.media_protobuf, body=data)


def target_of(request: Request) -> Target:
    """The HTTP request of a request."""
    parts = ["/api" if not request.group else f"/apis/{quote(request.group, safe='')}", request.version]
    if request.namespace and request.resource:
        parts += ["namespaces", request.namespace]
    # The name of an object that is created is in its body.
    named = request.verb != "create" or request.subresource
    parts += [each for each in (request.resource, request.name if named else "", request.subresource) if each]
    path = "/".join([parts[0], *(quote(each, safe="") for each in parts[1:])])
    options = dict(request.options)
    if request.verb == "watch":
        options["watch"] = "true"
    if options:
        path += "?" + urlencode(options)
    if request.body is None:
        return Target(METHODS[request.verb], path, "", b"")
    body = request.body if isinstance(request.body, bytes) else msgspec.json.encode(request.body)
    return Target(METHODS[request.verb], path, request.content_type, body)
