"""Connections to servers outside, and one request on a connection.

Turns an `OutsideRequest` into a connection, over TLS or without, and into the bytes of an HTTP/1.1
request; what prevents either becomes `NotReached`, with the text of Go's client.

Holds: no other error of a server, a name or a certificate leaves this module.  Nothing here waits
without the deadline of its caller.  No cookie is kept, and no proxy of the environment is used.

Mirrors  golang net/http transport.go (dialConn, roundTrip), request.go (write, cleanHost); net
         dial.go, ipsock_posix.go; crypto/x509 verify.go; crypto/tls conn.go, alert.go at go1.19
         (texts).
Differs  addresses of a name are tried one after the other; of a certificate for other names the
         names are not listed; HTTP/2 is not offered.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager

import idna
import trio

from sim.api.crd.urls import BadUrl, Url, parse_url
from sim.api.dialing import DialError, joined, place_of
from sim.api.schema.json_text import go_quote
from sim.kernel import OutsideRequest
from sim.wire.outside.answers import UNEXPECTED_EOF, AnswerReader, BrokenAnswer, Head
from sim.wire.patience import within

RECEIVE_BYTES = 1 << 16
DIAL_S, HANDSHAKE_S = 30.0, 10.0  # net.Dialer and TLSHandshakeTimeout of client-go
LOOKUPS_MAX = 16  # names that are looked up at a time, each on a thread
BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)
UNREADABLE_ROOTS = "unable to load root certificates: unable to parse bytes as PEM block"
_EXPIRED, _NOT_YET, _WRONG_HOST, _WRONG_ADDRESS = 10, 9, 62, 64  # OpenSSL's X509_V_ERR_*
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIAL_ERRORS = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
    errno.ETIMEDOUT: "connection timed out",
    errno.EINVAL: "invalid argument",
    errno.EADDRNOTAVAIL: "cannot assign requested address",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.ECONNRESET: "connection reset by peer",
}
_ALERTS = {
    "unknown ca": "unknown certificate authority",
    "protocol version": "protocol version not supported",
    "decode error": "error decoding message",
    "decrypt error": "error decrypting message",
}


class NotReached(Exception):
    """The server gave no answer.  The text is what Go's client reports."""


class Transport(trio.abc.Stream):
    """The bytes of a connection below TLS.  first: the first of those that came"""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.first = b""
        self.stream = stream

    @property
    def socket(self) -> trio.socket.SocketType:
        """The socket of the connection."""
        return self.stream.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send."""
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until more can be sent."""
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive."""
        data = await self.stream.receive_some(min(max_bytes or RECEIVE_BYTES, RECEIVE_BYTES))
        if len(self.first) < len(b"HTTP/"):
            self.first += bytes(data[:5])
        return data

    async def aclose(self) -> None:
        """Close the socket."""
        await self.stream.aclose()


class Connection:
    """A connection.

    is_used: True once an answer was read from it
    resting: the scope in which it waits for the next request
    """

    def __init__(self, stream: trio.abc.Stream, transport: Transport) -> None:
        self.is_used = False
        self.resting = trio.CancelScope()
        self._stream, self._transport = stream, transport

    async def send(self, data: bytes) -> None:
        """Send bytes.  Raises one of BROKEN."""
        await self._stream.send_all(data)

    async def receive(self) -> bytes:
        """Bytes that have come; b"" after the last.  Raises NotReached."""
        try:
            return bytes(await self._stream.receive_some(RECEIVE_BYTES))
        except (*BROKEN, ssl.SSLError) as error:
            raise NotReached(_read_failure(error)) from None

    @property
    def is_idle(self) -> bool:
        """True if the server has neither closed the connection nor sent what nothing asked for."""
        number = self._transport.socket.fileno()
        if number < 0:
            return False
        if not hasattr(select, "poll"):  # a system without it
            return not select.select([number], [], [], 0)[0]
        waiting = select.poll()
        waiting.register(number, select.POLLIN)
        return not waiting.poll(0)

    async def wait_readable(self) -> None:
        """Wait until the server has closed the connection or sent something, or it is closed here."""
        try:
            await trio.lowlevel.wait_readable(self._transport.socket)
        except (*BROKEN, ValueError):
            pass

    def close(self) -> None:
        """Close the connection at once."""
        self.resting.cancel()
        self._transport.socket.close()


async def connect(request: OutsideRequest, context: ssl.SSLContext | None) -> Connection:
    """A new connection for a request.  Raises NotReached.

    context: of TLS; None for http
    """
    url = url_of(request)
    try:
        host, port = request.connect_to or place_of(url)
        place_of(url)
    except DialError as error:
        raise NotReached(str(error)) from None
    transport = Transport(await _dialled(host, port))
    if context is None:
        return Connection(transport, transport)
    try:
        with within(HANDSHAKE_S):
            stream = trio.SSLStream(
                transport, context, server_hostname=_ascii(url.hostname), https_compatible=True
            )
            await stream.do_handshake()
            return Connection(stream, transport)
        transport.socket.close()
        raise NotReached("net/http: TLS handshake timeout")
    except (*BROKEN, ssl.SSLError, ValueError) as error:
        transport.socket.close()
        raise NotReached(_handshake_failure(error, url.hostname, transport.first)) from None
    except BaseException:
        transport.socket.close()
        raise


def url_of(request: OutsideRequest) -> Url:
    """The parts of the URL of a request.  Raises NotReached."""
    try:
        return parse_url(request.url)
    except BadUrl as error:
        raise NotReached(str(error)) from None


# --- dialling -------------------------------------------------------------------------------------

_lookups = trio.CapacityLimiter(LOOKUPS_MAX)


async def _dialled(host: str, port: int) -> trio.SocketStream:
    """A connection to the first address that accepts one.  Raises NotReached."""
    failure = ""
    with within(DIAL_S):
        for family, place in await _addresses(host, port):
            shown = f"dial tcp {joined(place[0], port)}"
            made = trio.socket.socket(family, socket.SOCK_STREAM)
            try:
                await made.connect(place)
            except (OSError, ValueError, OverflowError) as error:
                made.close()
                code = getattr(error, "errno", None) or 0
                text = _DIAL_ERRORS.get(code) or str(getattr(error, "strerror", "") or error).lower()
                failure = failure or f"{shown}: connect: {text}"
            except BaseException:
                made.close()
                raise
            else:
                return trio.SocketStream(made)
        raise NotReached(failure or f"dial tcp: lookup {host}: no such host")
    raise NotReached(failure or f"dial tcp {joined(host, port)}: i/o timeout")


async def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    """The addresses of a host, by family.  Raises NotReached."""
    name = _ascii(host) or "localhost"  # Go takes the empty host for this machine
    try:
        found = await trio.to_thread.run_sync(
            lambda: socket.getaddrinfo(name.encode("ascii"), port, type=socket.SOCK_STREAM),
            abandon_on_cancel=True,
            limiter=_lookups,
        )
    except (OSError, ValueError, OverflowError):
        raise NotReached(f"dial tcp: lookup {host}: no such host") from None
    return [(family, place) for family, _, _, _, place in found]  # type: ignore[misc]


def _ascii(host: str) -> str:
    """A host in ASCII where that is possible (request.go: idnaASCII), else unchanged."""
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode()
    except (idna.IDNAError, ValueError):
        return host


# --- failures -------------------------------------------------------------------------------------


def _handshake_failure(error: BaseException, host: str, first: bytes) -> str:
    """What Go's client reports in the place of an error of TLS."""
    # The first of these counts wherever it is in the chain: Trio reports a broken stream around it.
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"x509: {_certificate_failure(cause, host)}"
        if isinstance(cause, ssl.SSLZeroReturnError | ssl.SSLEOFError):
            return "EOF"
        if isinstance(cause, ssl.SSLError):
            return _tls_failure(str(cause.reason or ""), first)
        if isinstance(cause, ConnectionResetError):
            return "read: connection reset by peer"
    if isinstance(error, ValueError):  # no name that a certificate may have
        return f"x509: certificate is not valid for any names, but wanted to match {host}"
    return "EOF"


def _tls_failure(reason: str, first: bytes) -> str:
    if "ALERT_" in reason:
        alert = reason.partition("ALERT_")[2].lower().replace("_", " ")
        return f"remote error: tls: {_ALERTS.get(alert, alert)}"
    if first == b"HTTP/":
        return "http: server gave HTTP response to HTTPS client"
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "tls: first record does not look like a TLS handshake"
    if "EOF" in reason:
        return "EOF"
    if "PROTOCOL" in reason:
        return "tls: server selected unsupported protocol version"
    return f"tls: {reason.lower().replace('_', ' ') or 'handshake failure'}"


def _certificate_failure(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in (_EXPIRED, _NOT_YET):
        return "certificate has expired or is not yet valid"
    if error.verify_code in (_WRONG_HOST, _WRONG_ADDRESS):
        return f"certificate is not valid for {host}"
    return "certificate signed by unknown authority"


def _read_failure(error: BaseException) -> str:
    """What Go's client reports in the place of an error of reading."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLEOFError):
            return "unexpected EOF"
        if isinstance(cause, ssl.SSLError):
            return _tls_failure(str(cause.reason or ""), b"")
        if isinstance(cause, ConnectionResetError):
            return "read: connection reset by peer"
    return "EOF"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what led to it, with the members of groups."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _causes(each)
        error = error.__cause__ or error.__context__


# --- one request ----------------------------------------------------------------------------------


def head_of(request: OutsideRequest, url: Url, more: Iterable[tuple[str, str]], *, length: bool) -> bytes:
    """The head of a request.  Raises NotReached if it cannot be written.

    more: headers of the receiver
    length: True to state the length of the body, also of an empty one
    """
    pairs = [("Host", _host_header(url)), *request.headers, *more]
    if length:
        pairs.append(("Content-Length", str(len(request.body))))
    lines = [f"{request.method} ".encode() + url.request_target.encode("utf-8", "replace") + b" HTTP/1.1"]
    for name, value in pairs:
        if not name or not _TOKEN.issuperset(name):
            raise NotReached(f"net/http: invalid header field name {go_quote(name)}")
        if any((char < " " and char != "\t") or char == "\x7f" for char in value):
            raise NotReached(f"net/http: invalid header field value for {go_quote(name)}")
        try:
            raw = value.encode("latin-1")
        except UnicodeEncodeError:
            raw = value.encode("utf-8", "replace")
        lines.append(name.encode() + b": " + raw.strip(b" \t"))
    return b"\r\n".join([*lines, b"", b""])


def _host_header(url: Url) -> str:
    """The host of a URL as the header states it (request.go: cleanHost)."""
    host = url.host.partition("/")[0].partition(" ")[0]
    name, colon, port = host.rpartition(":")
    if host.endswith("]") or not colon:
        return _ascii(host)
    return f"{_ascii(name)}:{port}"


async def asked(
    connection: Connection, reader: AnswerReader, pieces: Sequence[bytes]
) -> tuple[Head | None, bytes, str]:
    """Send a request and read its whole answer: the head, the body, and what is wrong, "" if
    nothing is.

    A server may answer before it has read the whole request.
    """
    parts: list[bytes] = []
    failure = ""
    async with sending(connection, pieces):
        try:
            while not reader.is_done:
                data = await connection.receive()
                parts.append(reader.feed(data) if data else reader.end())
                connection.is_used = connection.is_used or bool(data)
        except (BrokenAnswer, NotReached) as error:
            failure = str(error)
    if reader.head is not None and failure == "EOF":
        failure = UNEXPECTED_EOF
    return reader.head, b"".join(parts), failure


@asynccontextmanager
async def sending(connection: Connection, pieces: Sequence[bytes]) -> AsyncIterator[None]:
    """Send a request while its answer is read: a server may answer before it has read all of it."""

    async def send() -> None:
        try:
            for piece in pieces:
                await connection.send(piece)
        except (*BROKEN, ssl.SSLError):
            pass  # the reader of the answer finds the connection broken

    failure: NotReached | BrokenAnswer | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        try:
            yield
        except (NotReached, BrokenAnswer) as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
