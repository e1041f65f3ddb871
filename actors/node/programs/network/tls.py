"""TLS between programs, as far as its handshake shows: that both sides speak it, a certificate.

A client sends the name that it wants, a server its certificate and what follows is plain.  A
client without TLS and a server without TLS notice each other as real ones do.

Holds: a greeting has at most `GREETING_MAX` bytes.

Mirrors  golang crypto/tls, crypto/x509 (verify.go), net/http server.go and transport.go at go1.19:
         the texts of failures.
Differs  nothing is encrypted, and a real client of TLS is not understood; of a certificate the
         authority that signed it, its names and its dates are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from actors.node.programs.ends import BrokenPipe, send
from actors.node.programs.network.sockets import ERRORS, Connection
from actors.node.programs.waits import Wait
from sim.dataclass import dataclass

# The first bytes of records of TLS 1.2: handshake, version.
RECORD = b"\x16\x03\x01"
GREETING_MAX = 64 << 10
PLAIN_ANSWER = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"

Verify = Callable[[bytes, str], str]


class TlsError(Exception):
    """The handshake has failed; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How a client takes a server's certificate.

    name: that the certificate has to have
    verify: what is wrong with a certificate, PEM, for a name; "" if nothing is. None: take any
    """

    name: str = ""
    verify: Verify | None = None


def _greeting(text: bytes) -> bytes:
    return RECORD + len(text).to_bytes(4, "big") + text


def _read(
    connection: Connection, size: int, now_us: Callable[[], int], until_us: int | None
) -> Generator[Wait, None, bytes]:
    """So many bytes, fewer at the end of the connection.  Raises TlsError."""
    held = b""
    while len(held) < size:
        data = connection.read(size - len(held))
        if data is None:
            if until_us is not None and now_us() >= until_us:
                raise TlsError("net/http: TLS handshake timeout")
            yield Wait((connection.readable,), until_us)
            continue
        if not data:
            break
        held += data
    return held


def shake(
    connection: Connection, trust: Trust, now_us: Callable[[], int], until_us: int | None = None
) -> Generator[Wait, None, None]:
    """The client's side.  Raises TlsError."""
    try:
        yield from send(connection, _greeting(trust.name.encode()))
    except BrokenPipe:
        raise TlsError(_broken(connection)) from None
    head = yield from _read(connection, len(RECORD) + 4, now_us, until_us)
    if head.startswith(b"HTTP/"):
        raise TlsError("http: server gave HTTP response to HTTPS client")
    size = int.from_bytes(head[len(RECORD) :], "big")
    if not head:
        raise TlsError(_broken(connection))
    if not head.startswith(RECORD) or size > GREETING_MAX:
        raise TlsError("tls: first record does not look like a TLS handshake")
    certificate = yield from _read(connection, size, now_us, until_us)
    problem = trust.verify(certificate, trust.name) if trust.verify is not None else ""
    if problem:
        raise TlsError(problem)


def _broken(connection: Connection) -> str:
    if not connection.error:
        return "EOF"
    return f"read tcp {connection.local}->{connection.peer}: read: {ERRORS[connection.error].lower()}"


def accept(
    connection: Connection, certificate: bytes, now_us: Callable[[], int]
) -> Generator[Wait, None, bool]:
    """The server's side; False if the client has spoken no TLS; it got an answer that says so."""
    head = yield from _read(connection, len(RECORD) + 4, now_us, None)
    size = int.from_bytes(head[len(RECORD) :], "big")
    if not head.startswith(RECORD) or size > GREETING_MAX:
        while connection.read(GREETING_MAX):
            pass  # bytes that are not read would reset the connection
        if head:
            yield from send(connection, PLAIN_ANSWER)
        return False
    yield from _read(connection, size, now_us, None)
    yield from send(connection, _greeting(certificate))
    return True
