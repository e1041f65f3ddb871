"""Requests over WebSocket: a watch sends its events as messages, any other request is answered as
HTTP.

ASGI scope, receive and send of a WebSocket connection become those of the GET that opened it, and
the parts of the answer go back: the stream of a watch opens the socket, any other answer replies to
the handshake.

Holds: data from the client is dropped; when it leaves, the request ends.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/watch.go (HandleWS),
         golang.org/x/net/websocket server.go and hybi.go: a handshake without an Origin is 403; a
         single requested subprotocol is accepted.
Differs  of several subprotocols none is accepted, where upstream drops the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sim.api.aggregation.delegation import TOKEN_PROTOCOL

# Extension of the ASGI scope: a list that receives the stream's media type before a watch begins.
STREAMED = "orrery.streamed"
NORMAL_CLOSURE = 1000
FRAME_HEAD = 4  # the length of a frame in a stream; messages do without
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]


class Upgraded:
    """One WebSocket request.  `scope`, `receive` and `send` are those of HTTP."""

    def __init__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        self._streamed: list[str] = []
        extensions = {**(scope.get("extensions") or {}), STREAMED: self._streamed}
        self.scope = {**scope, "type": "http", "method": "GET", "extensions": extensions}
        self._receive = receive
        self._send = send
        self._open = self._begun = False

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
        elif not self._open:
            await self._send({**message, "type": "websocket.http.response.body"})
        else:
            body = message.get("body", b"")
            if body:
                await self._send({"type": "websocket.send", **self._message(body)})
            if not message.get("more_body", False):
                await self._send({"type": "websocket.close", "code": NORMAL_CLOSURE})

    async def _start(self, message: Any) -> None:
        if not self._streamed:
            await self._send({**message, "type": "websocket.http.response.start"})
        elif not any(name == b"origin" for name, _ in self.scope["headers"]):
            # What is not accepted is 403.
            await self._send({"type": "websocket.close"})
            self._open = False
        else:
            # The token of the client is not a protocol that the server could choose.
            asked = [each for each in self.scope["subprotocols"] if not each.startswith(TOKEN_PROTOCOL)]
            agreed = asked[0] if len(asked) == 1 else None
            await self._send({"type": "websocket.accept", "subprotocol": agreed, "headers": []})
            self._open = True

    def _message(self, body: bytes) -> dict[str, Any]:
        """Sends one event, as text if its form is text."""
        binary = "protobuf" in self._streamed[0]
        return {"bytes": body[FRAME_HEAD:]} if binary else {"text": body.decode()}
