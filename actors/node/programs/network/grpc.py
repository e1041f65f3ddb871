"""The check of health over gRPC, as far as a probe shows it.

A client sends the preface of HTTP/2 and the name of a service; a program that serves the protocol
answers with a word and closes the connection.

Mirrors  grpc.health.v1.Health: Check.
Differs  nothing else of HTTP/2 and gRPC is understood.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from actors.node.programs.ends import BrokenPipe, receive, send
from actors.node.programs.network.sockets import Connection
from actors.node.programs.waits import Wait

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SERVING, NOT_SERVING, UNKNOWN = "SERVING", "NOT_SERVING", "UNKNOWN"
WORD_MAX = 1024


def check(
    connection: Connection, service: str, now_us: Callable[[], int], until_us: int
) -> Generator[Wait, None, str]:
    """The word of a server; "" from one that does not speak the protocol."""
    try:
        yield from send(connection, PREFACE + service.encode() + b"\n")
    except BrokenPipe:
        return ""
    held = b""
    while not held.endswith(b"\n") and len(held) < WORD_MAX and now_us() < until_us:
        data = connection.read(WORD_MAX)
        if data is None:
            yield Wait((connection.readable,), until_us)
        elif not data:
            break
        else:
            held += data
    word = held.decode("latin-1").strip()
    return word if word in (SERVING, NOT_SERVING, UNKNOWN) else ""


def answer(connection: Connection, status: Callable[[str], str]) -> Generator[Wait, None, None]:
    """Answer one check.  status: the word for a service"""
    held = b""
    while not held.endswith(b"\n") or len(held) <= len(PREFACE):
        data = yield from receive(connection)
        held += data
        if not data or len(held) > len(PREFACE) + WORD_MAX or not held.startswith(PREFACE[: len(held)]):
            return
    yield from send(connection, f"{status(held[len(PREFACE) :].decode('latin-1').strip())}\n".encode())
