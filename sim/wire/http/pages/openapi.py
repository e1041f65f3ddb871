"""The OpenAPI documents under /openapi: which form a client gets, entity tags and redirects.

Turns a path, a query and an Accept header into a `Document`.

Holds: a URL with a hash always names the same content; a hash of another content leads to the
present one.

Mirrors  kube-openapi pkg/handler/handler.go (RegisterOpenAPIVersionedService), pkg/handler3
         (HandleDiscovery, HandleGroupVersion), net/http fs.go (ServeContent: the type of JSON is
         text/plain, of protobuf application/octet-stream) and http.Redirect, at the versions of
         Kubernetes v1.25; NYTimes/gziphandler (answers of version 2 are compressed).
Differs  Last-Modified is when a server first served the document, not when it made it. Compressed
         answers of version 2 have a length, and no chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from sim.api.go.escapes import escaped
from sim.api.openapi.aggregated import NOTHING, Aggregated, merged_v2, v2_protobuf
from sim.api.openapi.documents import (
    digest,
    openapi_v3_index,
    openapi_v3_of,
    openapi_v3_protobuf,
    versioned_url,
)
from sim.api.openapi.gnostic import MEDIA_V2, MEDIA_V3
from sim.api.scheme.scheme import Scheme
from sim.wire.http.forms.negotiation import parse_accept
from sim.wire.http.forms.rendering import TEXT
from sim.wire.http.pages.document import NO_PAGE, Document
from sim.wire.http.routing import parse_query

BINARY = "application/octet-stream"
HTML = "text/html; charset=utf-8"
COMPRESSED_FROM = 1400  # gziphandler: DefaultMinSize
UNCHANGING = "public, immutable"
_NEGOTIATED, _COMPRESSED = ("Accept",), ("Accept-Encoding", "Accept")
_JSON = "application/json"
NO_DOCUMENT = Document(404)


def openapi_page(
    scheme: Scheme,
    parts: Sequence[str],
    query: str,
    accept: str,
    aggregated: Aggregated = NOTHING,
    *,
    method: str = "GET",
) -> Document:
    """The document of a path, given as its parts: ("openapi", "v3", ...).

    aggregated: the documents of other servers
    """
    if parts[1:] == ["v2"]:
        return _version_2(merged_v2(scheme, aggregated), accept)
    if parts[1:] == ["v3"]:
        paths = {**aggregated.index(), **openapi_v3_index(scheme)["paths"]}
        raw = escaped(msgspec.json.encode({"paths": {path: paths[path] for path in sorted(paths)}}))
        return Document(raw=raw, media=TEXT, parted=True)
    if parts[1:2] == ["v3"]:
        path = "/".join(parts[2:])
        text = openapi_v3_of(scheme, path) or aggregated.converted.get(path)
        return NO_DOCUMENT if text is None else _version_3(text, path, query, accept, method)
    return NO_PAGE


def _version_2(text: bytes, accept: str) -> Document:
    form = _chosen(accept, (_JSON, MEDIA_V2))
    if not form:
        return Document(406, vary=_COMPRESSED)
    raw, media = (text, TEXT) if form == _JSON else (v2_protobuf(text), BINARY)
    tag = digest(text)
    return Document(raw=raw, media=media, vary=_COMPRESSED, etag=tag, compressed=COMPRESSED_FROM, parted=True)


def _version_3(text: bytes, path: str, query: str, accept: str, method: str) -> Document:
    form = _chosen(accept, (_JSON, MEDIA_V3))
    if not parse_accept(accept or "*/*"):
        return Document()  # Quirk: an Accept header without a media type gets an empty answer
    if not form:
        return Document(406, vary=_NEGOTIATED)
    tag, wanted = digest(text), parse_query(query).get("hash", "")
    if wanted and wanted != tag:
        return _moved(versioned_url(quote(path), tag), tag, method)
    headers = {"Cache-Control": UNCHANGING} if wanted else {}
    raw, media = (text, TEXT) if form == _JSON else (openapi_v3_protobuf(text), BINARY)
    return Document(
        raw=raw,
        media=media,
        headers=headers,
        vary=_NEGOTIATED,
        etag=tag,
        parted=True,
        unchanging=bool(wanted),
    )


def _moved(place: str, tag: str, method: str) -> Document:
    """A redirection.  Quirk: it has a page for a GET only."""
    page = f'<a href="{place}">Moved Permanently</a>.\n\n'.encode() if method == "GET" else b""
    headers = {"Location": place, "ETag": f'"{tag}"'}
    media = HTML if method in ("GET", "HEAD") else ""
    return Document(301, raw=page, media=media, headers=headers, vary=_NEGOTIATED)


def _chosen(accept: str, known: Sequence[str]) -> str:
    """The first form that a client accepts, "" if there is none."""
    for clause in parse_accept(accept or "*/*"):
        kind, form = clause.type, clause.subtype
        for media in known:
            if kind in ("*", "application") and form in ("*", media.partition("/")[2]):
                return media
    return ""
