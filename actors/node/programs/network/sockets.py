"""Sockets of programs: connections, listeners and datagrams, as ends of descriptors.

Holds: of each direction of a connection at most `WINDOW` bytes are under way or unread; a closed
socket answers later bytes with a reset; a full queue drops what arrives.

Mirrors  tcp(7), udp(7), listen(2); Linux net/ipv4: a close with unread bytes resets the connection,
         a refusal shows only at a datagram socket that is connected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from actors.node.programs.ends import BrokenPipe, End
from actors.node.programs.waits import Source

WINDOW = 65536  # bytes, Linux' default of a receive buffer is twice as much
BACKLOG = 128  # connections that are not accepted yet, net.core.somaxconn was 128 up to Linux 5.4
DATAGRAMS = 256  # datagrams that are not read yet
# The answer of a server that is not simulated.
STAND_IN = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
DATAGRAM_BYTES_MAX = 65507  # what one UDP datagram over IPv4 holds

# The texts of errors (strerror), by Linux' names.
ERRORS = {
    "EACCES": "Permission denied",
    "EADDRINUSE": "Address already in use",
    "EADDRNOTAVAIL": "Cannot assign requested address",
    "ECONNREFUSED": "Connection refused",
    "ECONNRESET": "Connection reset by peer",
    "EHOSTUNREACH": "No route to host",
    "ETIMEDOUT": "Connection timed out",
}


class SocketError(Exception):
    """An operation on a socket failed.  code: Linux' name of the error"""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code

    @property
    def text(self) -> str:
        """What programs print."""
        return ERRORS[self.code]


class Address(NamedTuple):
    """A host's address and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Message = tuple[str, Any]


class Connection(End):
    """One side of an established connection.

    local, peer: the addresses as this side sees them
    error: why it broke, "" if it did not
    """

    __slots__ = ("_done", "_eof", "_held", "_send", "_shut", "_under_way", "error", "local", "peer")

    def __init__(
        self, local: Address, peer: Address, send: Callable[[Message], None], done: Callable[[], None]
    ) -> None:
        """send: passes a message to the other side; done: called when nothing will follow"""
        super().__init__(Source(), Source(ready=True))
        self.local, self.peer, self.error = local, peer, ""
        self._send, self._done = send, done
        self._held = bytearray()
        self._under_way = 0
        self._eof = self._shut = False

    def read(self, size: int) -> bytes | None:
        """Take what came first; b"" at the end, also after an error."""
        if not self._held:
            return b"" if self._eof or self.error else None
        taken = bytes(self._held[:size])
        del self._held[:size]
        if not self._held and not self._eof and not self.error:
            self.readable.clear()
        self._tell("took", len(taken))
        return taken

    def write(self, data: bytes) -> int:
        """Send what there is room for.  Raises BrokenPipe if the connection is broken."""
        if self.error or self._shut:
            raise BrokenPipe
        taken = data[: WINDOW - self._under_way]
        if taken:
            self._under_way += len(taken)
            self._tell("data", bytes(taken))
        if self._under_way >= WINDOW:
            self.writable.clear()
        return len(taken)

    def shutdown(self) -> None:
        """Send nothing more."""
        if not self._shut:
            self._shut = True
            self._tell("end", None)

    def reset(self) -> None:
        """Break the connection."""
        self._shut = True
        self._tell("reset", None)
        self.fail("ECONNRESET")

    def ended(self) -> None:
        """No descriptor leads here any more."""
        if self._held:
            self.reset()
        else:
            self.shutdown()

    def fail(self, code: str) -> None:
        """The connection has broken."""
        if not self.error:
            self.error = code
            self.readable.set()
            self.writable.set()

    def take(self, message: Message) -> None:
        """A message of the other side has arrived."""
        what, value = message
        if what == "took":
            self._under_way -= value
            if self._under_way < WINDOW:
                self.writable.set()
        elif what == "data" and self.users and not self.error:
            self._held += value
            self.readable.set()
        elif what == "data":
            self.reset()
        elif what == "end":
            self._eof = True
            self.readable.set()
            if self._shut and not self.users:
                self._done()
        else:
            self.fail("ECONNRESET")
            self._done()

    def _tell(self, what: str, value: Any) -> None:
        if not self.error:
            self._send((what, value))


class StandIn(Connection):
    """The side of a server that is not simulated: it reads, and answers HTTP with success.

    Differs  the body is empty; a client of another protocol gets no bytes.
    """

    __slots__ = ()

    def take(self, message: Message) -> None:
        """A message of the client has arrived."""
        super().take(message)
        if message[0] == "end":
            self.shutdown()
        elif message[0] == "data" and b"\r\n\r\n" in self._held:
            is_http = b" HTTP/1." in bytes(self._held).partition(b"\r\n")[0]
            self.read(WINDOW)
            if is_http:
                self.write(STAND_IN)
                self.shutdown()


class Listener(End):
    """A socket that accepts connections."""

    __slots__ = ("_left", "_waiting", "local")

    def __init__(self, local: Address, left: Callable[[Listener], None]) -> None:
        """left: called when it is closed"""
        super().__init__(Source())
        self.local = local
        self._left = left
        self._waiting: deque[Connection] = deque()

    def offer(self, connection: Connection) -> bool:
        """A connection for it; False if too many wait."""
        if len(self._waiting) >= BACKLOG:
            return False
        self._waiting.append(connection)
        self.readable.set()
        return True

    def accept(self) -> Connection | None:
        """The connection that came first; None if there is none."""
        if not self._waiting:
            return None
        taken = self._waiting.popleft()
        if not self._waiting:
            self.readable.clear()
        return taken

    def ended(self) -> None:
        """It is closed."""
        self._left(self)
        while self._waiting:
            self._waiting.popleft().reset()


class Datagrams(End):
    """A socket of datagrams.

    peer: where `write` sends to, if it is connected; then nothing else is received
    error: the refusal that came last, to a connected socket
    """

    __slots__ = ("_came", "_left", "_send", "error", "local", "peer")

    def __init__(
        self,
        local: Address,
        send: Callable[[Datagrams, Address, bytes], None],
        left: Callable[[Datagrams], None],
    ) -> None:
        super().__init__(Source())
        self.local, self.error = local, ""
        self.peer: Address | None = None
        self._send, self._left = send, left
        self._came: deque[tuple[Address, bytes]] = deque()

    def send_to(self, target: Address, data: bytes) -> None:
        """Send one datagram."""
        self._send(self, target, data[:DATAGRAM_BYTES_MAX])

    def receive_from(self) -> tuple[Address, bytes] | None:
        """The datagram that came first and its sender; None if there is none."""
        if not self._came:
            return None
        taken = self._came.popleft()
        if not self._came and not self.error:
            self.readable.clear()
        return taken

    def read(self, size: int) -> bytes | None:
        """The next datagram, what does not fit is lost; b"" after a refusal."""
        found = self.receive_from()
        if found is not None:
            return found[1][:size]
        if not self.error:
            return None
        return b""

    def write(self, data: bytes) -> int:
        """Send one datagram to the peer."""
        assert self.peer is not None, "the socket is not connected"
        self.send_to(self.peer, data)
        return len(data)

    def take(self, sender: Address, data: bytes) -> None:
        """A datagram has arrived."""
        if (self.peer is None or self.peer == sender) and len(self._came) < DATAGRAMS and self.users:
            self._came.append((sender, data))
            self.readable.set()

    def refused(self, target: Address) -> None:
        """There is no receiver of what was sent there."""
        if self.peer == target:
            self.error = "ECONNREFUSED"
            self.readable.set()

    def ended(self) -> None:
        """It is closed."""
        self._left(self)


class Attempt(Source):
    """A connection that is being made: ready when there is one, or an error.

    connection: what was made; code: Linux' name of the error, "" without
    """

    __slots__ = ("abandoned", "code", "connection")

    def __init__(self) -> None:
        super().__init__()
        self.connection: Connection | None = None
        self.code = ""
        self.abandoned = False

    def made(self, connection: Connection) -> None:
        """There is a connection."""
        if self.abandoned:
            connection.reset()
            return
        self.connection = connection
        self.set()

    def abandon(self) -> None:
        """The program does not wait for it any more."""
        self.abandoned = True
        if self.connection is not None:
            self.connection.close()

    def failed(self, code: str) -> None:
        """There will be none."""
        self.code = code
        self.set()
