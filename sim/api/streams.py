"""Streams between a client and the agent of a node: what is asked for, and the server's end.  Pure.

A request for a log that is followed, for a command in a container, or for a pod's ports becomes a
`StreamRequest`, which the API server sends to the agent.  The answer is a `Stream`: bytes in
numbered channels, in both directions, in virtual time.

Holds: neither side sends more than `WINDOW` bytes that the other has not taken, so that nothing
grows while a client or a program does not read.

Mirrors  kubernetes v1.25 pkg/kubelet/cri/streaming/remotecommand/websocket.go: the channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from sim.api.types import Reply, UserInfo
from sim.dataclass import dataclass

# Channels of a command.
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
WINDOW = 256 * 1024
# Channels of a connection to the server of an agent.
HEAD, BODY = 0, 1


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a client wants of a container's log.

    previous: the instance before the present one; follow: also what is written later
    timestamps: each line begins with its time
    since_s: only what was written in the last so many seconds; None: of any age
    since_us: only what was written at this Unix time or later
    tail: how many of the last lines, counted before those that are too old are left out
    limit: how many bytes at most
    """

    previous: bool = False
    follow: bool = False
    timestamps: bool = False
    since_s: int | None = None
    since_us: int | None = None
    tail: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What an API server asks of an agent.

    kind: "exec", "attach", "portforward" or "log"; "proxy" for a connection to a program,
        "agent" for one to the server of a node's agent
    stdin, stdout, stderr: the channels that the client wants; tty: one terminal for all
    ports: that the query names, for ports
    log: for a log
    backend: the address and port of a program; encrypted: True for TLS
    upgrade: True if the client of an agent's server wants to change the protocol
    """

    kind: str
    namespace: str
    name: str
    container: str = ""
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    ports: tuple[int, ...] = ()
    log: LogOptions | None = None
    backend: tuple[str, int] = ("", 0)
    encrypted: bool = False
    upgrade: bool = False


def packed_request(
    method: str,
    path: str,
    query: Sequence[tuple[str, str]],
    body: bytes,
    *,
    token: str = "",
    certificate: UserInfo | None = None,
    upgrade: bool = False,
) -> bytes:
    """A request to the server of an agent as bytes.  certificate: the user of a client certificate"""
    user = None if certificate is None else [certificate.name, list(certificate.groups)]
    return msgspec.msgpack.encode([method, path, list(query), body, token, user, upgrade])


def unpacked_request(data: bytes) -> dict[str, Any]:
    """The fields of such a request by their names."""
    method, path, query, body, token, user, upgrade = msgspec.msgpack.decode(data)
    return {
        "method": method,
        "path": path,
        "query": tuple((name, value) for name, value in query),
        "body": body,
        "token": token,
        "certificate": None if user is None else UserInfo(user[0], tuple(user[1])),
        "upgrade": upgrade,
    }


def packed_head(code: int, media: str, location: str, stream: StreamRequest | None = None) -> bytes:
    """The head of an answer of an agent as bytes.  stream: what it has opened"""
    opened = None
    if stream is not None:
        flags = (stream.stdin, stream.stdout, stream.stderr, stream.tty)
        opened = [stream.kind, *flags, list(stream.ports)]
    return msgspec.msgpack.encode([code, media, location, opened])


def unpacked_head(data: bytes) -> tuple[int, str, str, StreamRequest | None]:
    """Code, media type and location of such a head, and what the answer has opened."""
    code, media, location, opened = msgspec.msgpack.decode(data)
    if opened is None:
        return code, media, location, None
    kind, stdin, stdout, stderr, tty, ports = opened
    stream = StreamRequest(
        kind, "", "", stdin=stdin, stdout=stdout, stderr=stderr, tty=tty, ports=tuple(ports)
    )
    return code, media, location, stream


class Stream(Protocol):
    """The API server's end of a stream.

    request: what it is for
    ended: True once nothing more comes
    """

    request: StreamRequest
    ended: bool

    def open(self, opened: Callable[[Reply], None]) -> None:
        """Ask the agent; `opened` is called once, with 200 or with a refusal."""
        ...

    def attach(self, notify: Callable[[], None]) -> None:
        """Call `notify` whenever bytes may have come, and at the end."""
        ...

    def take(self) -> list[tuple[int, bytes]]:
        """What has come: channels with bytes; b"" is the end of a channel."""
        ...

    def took(self, size: int) -> None:
        """The client has read so many bytes."""
        ...

    def put(self, channel: int, data: bytes, taken: Callable[[], None]) -> None:
        """Send bytes of the client; b"" ends the channel.  `taken` is called when there is room for
        more.
        """
        ...

    def stop(self) -> None:
        """The client has gone."""
        ...
