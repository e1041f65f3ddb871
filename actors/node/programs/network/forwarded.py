"""Programs that are real: requests over HTTP that reach a server on the user's machine.

Turns the bytes of a connection to a pod into requests for a function, and its answers into bytes.

Holds: requests of a connection are asked one after the other; a connection ends with the first one
that is no HTTP or gets no answer.

Differs  only HTTP/1.1 without a change of the protocol is forwarded; a request and an answer are
         passed on as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

import h11

from actors.node.programs.network.http import BODY_MAX, HEAD_MAX, Headers, Request, Response
from actors.node.programs.network.sockets import WINDOW, Address, Connection, Message

# Passes a request on; the answer, or None for none, arrives later.
Ask = Callable[[Request, Callable[[Response | None], None]], None]
_OF_CONNECTION = ("connection", "keep-alive", "transfer-encoding", "upgrade", "content-length")


def passed(headers: Headers) -> Headers:
    """The headers that do not belong to one connection."""
    return tuple(pair for pair in headers if pair[0].lower() not in _OF_CONNECTION)


class ForwardedEnd(Connection):
    """The pod's side of a connection."""

    __slots__ = ("_ask", "_body", "_head", "_http", "_unsent", "_waits")

    def __init__(
        self,
        local: Address,
        peer: Address,
        send: Callable[[Message], None],
        done: Callable[[], None],
        ask: Ask,
    ) -> None:
        super().__init__(local, peer, send, done)
        self._ask = ask
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._unsent = b""
        self._waits = False

    def take(self, message: Message) -> None:
        """A message of the client has arrived."""
        super().take(message)
        if self.error:
            return
        if message[0] == "took":
            self._push()
        elif message[0] in ("data", "end"):
            while data := self.read(WINDOW):
                self._http.receive_data(data)
            if message[0] == "end":
                self._http.receive_data(b"")
            self._go_on()

    def _go_on(self) -> None:
        """Read on up to the next whole request."""
        while not self._waits and not self.error:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError:
                self.reset()
                return
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Request):
                self._head = event
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > BODY_MAX:
                    self.reset()
                    return
            elif isinstance(event, h11.EndOfMessage) and self._head is not None:
                self._waits = True
                head, body = self._head, bytes(self._body)
                self._head, self._body = None, bytearray()
                headers = tuple(
                    (name.decode("latin-1"), value.decode("latin-1"))
                    for name, value in head.headers.raw_items()
                )
                target = head.target.decode("latin-1")
                self._ask(
                    Request(head.method.decode(), target, headers, body, str(self.peer)), self._answered
                )
            else:
                self.shutdown()
                return

    def _answered(self, found: Response | None) -> None:
        self._waits = False
        if self.error:
            return
        if found is None:
            self.reset()
            return
        headers = [*passed(found.headers), ("Content-Length", str(len(found.body)))]
        raw = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers
        ]
        http = self._http
        self._unsent += http.send(h11.Response(status_code=found.code, headers=raw)) or b""
        if found.body and http.their_state is not h11.ERROR:
            self._unsent += http.send(h11.Data(data=found.body)) or b""
        self._unsent += http.send(h11.EndOfMessage()) or b""
        self._push()
        if h11.MUST_CLOSE in (http.our_state, http.their_state):
            return
        http.start_next_cycle()
        self._go_on()

    def _push(self) -> None:
        """Send what there is room for."""
        while self._unsent and not self.error:
            taken = self.write(self._unsent)
            self._unsent = self._unsent[taken:]
            if not taken:
                return
        if h11.MUST_CLOSE in (self._http.our_state, self._http.their_state) and not self._waits:
            self.shutdown()
