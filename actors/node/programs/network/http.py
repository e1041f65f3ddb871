"""HTTP/1.1 between programs: a request and its response, and a server of a connection.

Holds: a body has at most `BODY_MAX` bytes, a head `HEAD_MAX`; what is larger ends the connection.

Mirrors  RFC 9112 by h11; golang net/http/server.go: the answers 400 and 404 and their heads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

import h11

from actors.node.programs.ends import BrokenPipe, send
from actors.node.programs.network.sockets import Connection, SocketError
from actors.node.programs.waits import PAUSE, Wait
from sim.dataclass import dataclass

BODY_MAX = 16 << 20
HEAD_MAX = 64 << 10
CHUNK = 65536
Headers = tuple[tuple[str, str], ...]


class HttpError(Exception):
    """The other side did not speak HTTP, or ended too early.  text: what happened"""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True, slots=True)
class Request:
    """A request.  target: the path and what follows it; peer: the client's address and port"""

    method: str
    target: str
    headers: Headers = ()
    body: bytes = b""
    peer: str = ""

    @property
    def path(self) -> str:
        """The target without its query."""
        target = self.target.partition("#")[0].partition("?")[0]
        return target if target.startswith("/") else urlsplit(target).path or "/"

    def form(self, name: str) -> str:
        """A value of the query, or of a body that is a form; "" without one."""
        query = self.target.partition("#")[0].partition("?")[2]
        values = parse_qsl(query, keep_blank_values=True)
        if header(self.headers, "content-type").startswith("application/x-www-form-urlencoded"):
            values = parse_qsl(self.body.decode(errors="replace"), keep_blank_values=True) + values
        return next((value for key, value in values if key == name), "")


@dataclass(frozen=True, slots=True)
class Response:
    """A response.  reason: as it was sent, "" for that of the code"""

    code: int = 200
    body: bytes = b""
    headers: Headers = ()
    reason: str = ""
    version: str = "1.1"

    @property
    def phrase(self) -> str:
        """The words after the code."""
        return self.reason or phrase(self.code)


Handler = Callable[[Request], Generator[Wait, None, Response]]


def phrase(code: int) -> str:
    """The words that belong to a code."""
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return ""


def header(headers: Iterable[tuple[str, str]], name: str) -> str:
    """The value of a header; "" without it."""
    return next((value for key, value in headers if key.lower() == name), "")


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers
    ]


def _next_event(
    machine: h11.Connection, connection: Connection, until_us: int | None, now_us: Callable[[], int]
) -> Generator[Wait, None, object]:
    """The next event of the other side.  Raises HttpError, SocketError."""
    while True:
        try:
            event = machine.next_event()
        except h11.RemoteProtocolError as error:
            raise HttpError(str(error)) from None
        if event is not h11.NEED_DATA:
            return event
        if machine.they_are_waiting_for_100_continue:
            more = machine.send(h11.InformationalResponse(status_code=100, headers=[]))
            yield from send(connection, more or b"")
        while (data := connection.read(CHUNK)) is None:
            if until_us is not None and now_us() >= until_us:
                raise SocketError("ETIMEDOUT")
            yield Wait((connection.readable,), until_us)
        if not data and connection.error:
            raise SocketError(connection.error)
        yield PAUSE
        machine.receive_data(data)


def exchange(
    connection: Connection,
    request: Request,
    now_us: Callable[[], int],
    until_us: int | None = None,
) -> Generator[Wait, None, Response]:
    """Send a request and read its response.  Raises HttpError, SocketError.

    until_us: when to give up
    """
    machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)
    headers = list(request.headers)
    if request.body and not header(headers, "content-length"):
        headers.append(("Content-Length", str(len(request.body))))
    try:
        head = h11.Request(method=request.method, target=request.target, headers=_encoded(headers))
        data = machine.send(head) or b""
        data += machine.send(h11.Data(data=request.body)) or b"" if request.body else b""
        data += machine.send(h11.EndOfMessage()) or b""
    except h11.LocalProtocolError as error:
        raise HttpError(str(error)) from None
    try:
        yield from send(connection, data)
    except BrokenPipe:
        raise SocketError(connection.error or "ECONNRESET") from None
    response, body = Response(), bytearray()
    while True:
        event = yield from _next_event(machine, connection, until_us, now_us)
        if isinstance(event, h11.Response):
            rows = tuple((_text(name), _text(value)) for name, value in event.headers.raw_items())
            response = Response(event.status_code, b"", rows, _text(event.reason), _text(event.http_version))
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_MAX:
                raise HttpError("the body is too large")
        elif isinstance(event, h11.EndOfMessage):
            return Response(response.code, bytes(body), response.headers, response.reason, response.version)
        elif isinstance(event, h11.ConnectionClosed):
            raise HttpError("Empty reply from server")


def serve(
    connection: Connection,
    handle: Handler,
    now_us: Callable[[], int],
    headers: Callable[[], Headers] = tuple,
) -> Generator[Wait, None, None]:
    """Answer the requests of one connection.  headers: those of every response"""
    while True:
        machine = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX)
        # h11's next cycle would keep the rest of a pipelined request; so does this connection.
        while True:
            try:
                request = yield from _request(machine, connection, now_us)
            except (HttpError, SocketError, BrokenPipe):
                yield from _refuse(connection)
                return
            if request is None:
                return
            response = yield from handle(request)
            yield from _respond(machine, connection, request, response, headers())
            if h11.MUST_CLOSE in (machine.our_state, machine.their_state):
                return
            yield PAUSE
            try:
                machine.start_next_cycle()
            except h11.LocalProtocolError:
                return


def _refuse(connection: Connection) -> Generator[Wait, None, None]:
    """Golang's answer to what is no request."""
    if connection.error:
        return
    text = b"400 Bad Request"
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    yield from send(connection, head + text)


def _request(
    machine: h11.Connection, connection: Connection, now_us: Callable[[], int]
) -> Generator[Wait, None, Request | None]:
    """The next request; None if the client has left."""
    head, body = None, bytearray()
    while True:
        event = yield from _next_event(machine, connection, None, now_us)
        if isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_MAX:
                raise HttpError("the body is too large")
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            rows = tuple((_text(name), _text(value)) for name, value in head.headers.raw_items())
            return Request(_text(head.method), _text(head.target), rows, bytes(body), str(connection.peer))
        else:
            return None


def _respond(
    machine: h11.Connection, connection: Connection, request: Request, response: Response, common: Headers
) -> Generator[Wait, None, None]:
    rows = [*response.headers]
    bodiless = request.method == "HEAD" or response.code in (204, 304) or response.code < 200
    if response.code >= 200 and response.code not in (204, 304) and not header(rows, "content-length"):
        rows.append(("Content-Length", str(len(response.body))))
    rows += [row for row in common if not header(rows, row[0].lower())]
    data = machine.send(
        h11.Response(
            status_code=response.code, headers=_encoded(rows), reason=response.phrase.encode("latin-1")
        )
    )
    if response.body and not bodiless:
        data = (data or b"") + (machine.send(h11.Data(data=response.body)) or b"")
    data = (data or b"") + (machine.send(h11.EndOfMessage()) or b"")
    yield from send(connection, data)
