"""Requests over WebSocket: a watch sends its events as messages, a log its pieces, and any other
request is answered as HTTP.

ASGI scope, receive and send of a WebSocket connection become those of the GET that opened it, and
the parts of the answer go back: the stream of a watch and the text of a log open the socket, any
other answer replies to the handshake.

Holds: data from the client is dropped; when it leaves, the request ends.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/watch.go (HandleWS),
         golang.org/x/net/websocket server.go and hybi.go: a handshake without an Origin is 403; a
         single requested subprotocol is accepted; pkg/util/wsstream/stream.go (logs: an empty
         message first, then pieces; the first subprotocol that is known, 403 if all others are).
Differs  of several subprotocols none is accepted, where upstream drops the connection; a
         log without a subprotocol is answered without the header, where upstream sends an empty
         one.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

from sim.api.aggregation.delegation import TOKEN_PROTOCOL
from sim.ident import Names

# Extension of the ASGI scope: a list that receives the stream's media type before a watch begins.
STREAMED = "orrery.streamed"
NORMAL_CLOSURE = 1000
PIECE_BYTES = 2048  # of a log in one message
FRAME_HEAD = 4  # the length of a frame in a stream; messages do without
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]


def log_protocols(names: Names) -> tuple[str, str, str]:
    """What opens the socket of a log: its media type, and the subprotocols of bytes and of base64."""
    return "text/plain", f"binary.{names.group_domain}", f"base64.binary.{names.group_domain}"


class Upgraded:
    """One WebSocket request.  `scope`, `receive` and `send` are those of HTTP."""

    def __init__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        self._streamed: list[str] = []
        extensions = {**(scope.get("extensions") or {}), STREAMED: self._streamed}
        self.scope = {**scope, "type": "http", "method": "GET", "extensions": extensions}
        self._receive = receive
        self._send = send
        self._open = self._begun = self._refused = False
        self._log = self._encoded = False  # of a socket that sends a log

    async def receive(self) -> Any:
        """The next message of the client."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return {"type": "http.disconnect"}
            if message["type"] == "websocket.connect" and not self._begun:
                self._begun = True
                return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Any) -> None:
        """Sends a message of the application."""
        if message["type"] == "http.response.start":
            await self._start(message)
        elif self._refused:
            return  # the handshake is answered
        elif not self._open:
            await self._send({**message, "type": "websocket.http.response.body"})
        else:
            body = message.get("body", b"")
            if self._log:
                for begin in range(0, len(body), PIECE_BYTES):
                    await self._send_piece(body[begin : begin + PIECE_BYTES])
            elif body:
                await self._send({"type": "websocket.send", **self._message(body)})
            if not message.get("more_body", False):
                await self._send({"type": "websocket.close", "code": NORMAL_CLOSURE})

    async def _start(self, message: Any) -> None:
        if not self._streamed:
            await self._send({**message, "type": "websocket.http.response.start"})
        elif len(self._streamed) > 1:
            await self._open_log(*self._streamed[1:])
        elif not any(name == b"origin" for name, _ in self.scope["headers"]):
            # What is not accepted is 403.
            await self._refuse()
        else:
            asked = self._protocols()
            agreed = asked[0] if len(asked) == 1 else None
            await self._send({"type": "websocket.accept", "subprotocol": agreed, "headers": []})
            self._open = True

    async def _refuse(self) -> None:
        """Answers the handshake with 403."""
        self._refused = True
        await self._send({"type": "websocket.close"})

    def _protocols(self) -> list[str]:
        """The requested subprotocols; the token of the client is none that the server could choose."""
        return [each for each in self.scope["subprotocols"] if not each.startswith(TOKEN_PROTOCOL)]

    async def _open_log(self, binary: str, encoded: str) -> None:
        asked = self._protocols()
        agreed = next((each for each in asked if each in (binary, encoded)), None)
        if asked and agreed is None:
            await self._refuse()
            return
        await self._send({"type": "websocket.accept", "subprotocol": agreed, "headers": []})
        self._open = self._log = True
        self._encoded = agreed == encoded
        await self._send_piece(b"")

    async def _send_piece(self, piece: bytes) -> None:
        """Sends a part of a log as one message."""
        content = {"text": b64encode(piece).decode()} if self._encoded else {"bytes": piece}
        await self._send({"type": "websocket.send", **content})

    def _message(self, body: bytes) -> dict[str, Any]:
        """Sends one event, as text if its form is text."""
        binary = "protobuf" in self._streamed[0]
        return {"bytes": body[FRAME_HEAD:]} if binary else {"text": body.decode()}
