"""HTTP/1.1 of this server: hypercorn's protocol without HTTP/2, with reason phrases and refusal of
malformed requests.

The bytes of one connection become requests and WebSocket handshakes for the application.

Holds: a request that the application cannot answer raises `Refused`; the owner of the connection
answers it.

Mirrors  golang net/http server.go (conn.readRequest, conn.serve: 400, 431 and 505 in plain text),
         status.go, at go1.19; golang.org/x/net/websocket hybi.go (a malformed handshake is 400).
Differs  an HTTP/2 preface, which only a client without TLS sends here, is 505, and an upgrade to
         h2c is ignored, as RFC 9110 section 7.8 allows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import h11
from hypercorn.events import Event, RawData
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.protocol.ws_stream import Handshake, WSStream

from sim.wire.http.fronts.target import origin_form

# Where Python's phrases are not upstream's in every version of Python.
_PHRASES: Final = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}


class Refused(Exception):
    """A request that does not reach the application. code: of the answer."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def reason_phrase(code: int) -> str:
    """The text after the code in a status line."""
    try:
        return _PHRASES.get(code) or HTTPStatus(code).phrase
    except ValueError:
        return f"status code {code}"


def refusal(code: int) -> bytes:
    """A complete answer, after which the connection is closed."""
    text = f"{code} {reason_phrase(code)}"
    head = f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
    return f"{head}Connection: close\r\n\r\n{text}".encode()


def head_of(code: int, headers: Sequence[tuple[str, str]]) -> bytes:
    """The head of an answer, after which the connection is not HTTP any more."""
    lines = [f"HTTP/1.1 {code} {reason_phrase(code)}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin1", "replace")


class Http1(H11Protocol):
    """The protocol of one connection.

    answering: True once an answer to the present request has begun
    method: of the present request, unchanged; hypercorn gives the application its upper-case form,
        while methods are case-sensitive (RFC 9110 section 9.1)
    """

    answering = False
    method = ""
    _asked = False  # for the body of the present request

    async def ask_for_body(self) -> None:
        """Let a client that waits for it (Expect: 100-continue) send its body."""
        self._asked = True
        if self.connection.they_are_waiting_for_100_continue:
            headers = self.config.response_headers("h11")
            await self._send_h11_event(h11.InformationalResponse(status_code=100, headers=headers))

    async def handle(self, event: Event) -> None:
        """Handles one event of the transport."""
        if isinstance(event, RawData) and event.data and self._is_handshaking():
            # RFC 6455 section 4.1: a client waits for the answer to its handshake.
            raise Refused(400)
        await super().handle(event)

    def _is_handshaking(self) -> bool:
        return isinstance(self.stream, WSStream) and not self.stream.handshake.accepted

    async def _check_protocol(self, event: h11.Request) -> None:
        if not event.http_version.startswith(b"1."):
            raise Refused(505)

    async def _create_stream(self, request: h11.Request) -> None:
        target = origin_form(request.method, request.target)
        if target is None:
            raise Refused(400)
        if target != request.target:
            request = h11.Request(
                method=request.method,
                headers=request.headers,
                target=target,
                http_version=request.http_version,
            )
        if _asks_for_websocket(request) and (
            self.connection.trailing_data[0] or not _is_handshake(list(request.headers))
        ):
            raise Refused(400)
        self.method = request.method.decode("ascii")
        self._asked = False
        await super()._create_stream(request)

    async def _send_h11_event(self, event: Any) -> None:
        if isinstance(event, h11.InformationalResponse) and event.status_code == 100 and not self._asked:
            return  # hypercorn would ask for each body at once
        if isinstance(event, h11.InformationalResponse | h11.Response):
            event = type(event)(
                headers=event.headers,
                status_code=event.status_code,
                reason=reason_phrase(event.status_code).encode(),
            )
            if event.status_code != HTTPStatus.CONTINUE:
                self.answering = True
        await super()._send_h11_event(event)

    async def _send_error_response(self, status_code: int) -> None:
        error = sys.exception()
        if error is not None:
            error.__traceback__ = None  # h11's frames refer to it
        raise Refused(status_code)

    async def _maybe_recycle(self) -> None:
        self.answering = False
        await super()._maybe_recycle()


def _asks_for_websocket(request: h11.Request) -> bool:
    """True if hypercorn turns the connection into a WebSocket."""
    values = {name: value.strip().lower() for name, value in request.headers}
    tokens = [token.strip() for token in values.get(b"connection", b"").split(b",")]
    is_get = request.method.upper() == b"GET"
    return is_get and values.get(b"upgrade") == b"websocket" and b"upgrade" in tokens


def _is_handshake(headers: list[tuple[bytes, bytes]]) -> bool:
    """True if the headers of a WebSocket request are valid, so that accepting it cannot raise."""
    try:
        handshake = Handshake(headers, "1.1")
        if handshake.is_valid():
            handshake.accept(None, ())
            return True
    except Exception:
        return False  # any exception: the client's bytes are unreadable to the libraries
    return False
