"""A real HTTPS server beside a served cluster, for tests of calls to the outside."""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trio
from cryptography import x509
from cryptography.x509.oid import NameOID

from sim.api.types import UserInfo
from sim.ident import NAMES
from sim.wire.authority import Authority
from sim.wire.exchange import PEER
from sim.wire.http.fronts.server import serve
from sim.wire.tls import server_context

ROOT = {"root": UserInfo("admin", (NAMES["kubernetes"].group_masters,))}
# The answer to a path, headers and a JSON body: a code, and JSON or a text.  The header "peer" is
# the common name of the client's certificate.
Page = Callable[[str, dict[str, str], Any], tuple[int, Any]]


@dataclass
class OutsideServer:
    """A server that runs.  authority: of its certificate"""

    authority: Authority
    context: ssl.SSLContext
    port: int


@asynccontextmanager
async def listening(page: Page, name: str) -> AsyncIterator[OutsideServer]:
    """A server with a certificate for a name and for 127.0.0.1."""
    authority = Authority("outside")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        peer = scope["extensions"].get(PEER)
        if peer:
            subject = x509.load_der_x509_certificate(peer).subject
            headers["peer"] = str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        code, value = page(scope["path"], headers, json.loads(body) if body else None)
        data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        media = b"text/plain" if isinstance(value, str) else b"application/json"
        sent = [(b"content-length", b"%d" % len(data)), (b"content-type", media)]
        await send({"type": "http.response.start", "status": code, "headers": sent})
        await send({"type": "http.response.body", "body": data, "more_body": False})

    context = server_context(authority.server((name, "127.0.0.1")), authority.pem)
    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve, app, "127.0.0.1", 0, context, None)
        yield OutsideServer(authority, context, port)
        nursery.cancel_scope.cancel()


def bundle(authority: Authority) -> str:
    """The certificate of an authority as `caBundle` holds it."""
    return b64encode(authority.pem).decode()


def any_certificate() -> ssl.SSLContext:
    """TLS of a client that accepts any server."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
