"""The bytes of one connection of the HTTP server, plain or through TLS.

A socket and a TLS context become reads and writes that need one system call each, and no pass of
Trio's loop where they need not wait: `trio.SSLStream` takes several of both.

Holds: what is read is all that has come, up to RECEIVE_BYTES of the socket; what could not be
written at once is kept and written before what follows.  One task at a time reads, one writes.

Mirrors  nothing upstream.
"""

from __future__ import annotations

import os
import ssl
from typing import Final

import trio

from sim.wire.http.fronts.turns import turns

RECEIVE_BYTES: Final = 1 << 16
PIECE_BYTES: Final = 1 << 16  # of what is encrypted before the client has taken it
GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)
# net/http server.go: tlsRecordHeaderLooksLikeHTTP.
_HEAD_BYTES, _PLAIN_HEADS = 5, (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")


class NotEncrypted(Exception):
    """The client speaks HTTP without TLS."""


class Stream:
    """The stream of one connection.

    socket: of Trio; this reads and writes by the system's number of it
    """

    def __init__(self, socket: trio.socket.SocketType, context: ssl.SSLContext | None) -> None:
        self.socket = socket
        self._number = socket.fileno()
        self._turns = turns()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        if context is not None:
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent = bytearray()
        self._holds = False  # bytes of the client that came with its handshake
        self._ended = False  # by the client

    @property
    def is_encrypted(self) -> bool:
        """True if there is TLS."""
        return self._tls is not None

    @property
    def certificate(self) -> bytes | None:
        """The certificate of the client, DER, if it has given one."""
        return None if self._tls is None else self._tls.getpeercert(True)

    @property
    def protocol(self) -> str | None:
        """The protocol that was chosen during the handshake, if one was."""
        return None if self._tls is None else self._tls.selected_alpn_protocol()

    async def handshake(self) -> None:
        """Do the handshake, if there is one.

        Raises NotEncrypted where the client speaks no TLS, and one of GONE.
        """
        if self._tls is None:
            return
        began = False
        while True:
            try:
                self._tls.do_handshake()
                self._holds = self._incoming.pending > 0
                return
            except ssl.SSLWantReadError:
                pass
            finally:
                await self._send(self._outgoing.read())
            while (data := self._read_socket()) is None:
                await self._turns.take(self._number)
            if not began and data[:_HEAD_BYTES] in _PLAIN_HEADS:
                raise NotEncrypted
            if not data:
                raise trio.BrokenResourceError
            began = True
            self._incoming.write(data)

    # --- reading ----------------------------------------------------------------------------------

    async def receive_some(self) -> bytes:
        """What the client has sent, b"" if it has ended its side.  Raises one of GONE.

        It waits in any case: a client that sends its next request at once would leave no turn to
        others.
        """
        if self._holds:
            await trio.lowlevel.checkpoint()
        else:
            await self._turns.take(self._number)
        while (data := self.read_now()) is None:
            await self._turns.take(self._number)
        return data

    def read_now(self) -> bytes | None:
        """What the client has sent, b"" if it has ended its side, None if nothing has come.

        Raises one of GONE.
        """
        if self._tls is None:
            return self._read_socket()
        while not self._ended:
            if not self._holds:
                data = self._read_socket()
                if not data:
                    return data
                self._incoming.write(data)
            self._holds = False
            if (plain := self._decrypted(self._tls)) is not None:
                return plain
        return b""

    def _read_socket(self) -> bytes | None:
        try:
            return os.read(self._number, RECEIVE_BYTES)
        except BlockingIOError:
            return None

    def _decrypted(self, tls: ssl.SSLObject) -> bytes | None:
        """What the bytes from the socket hold; None if that is only a part of a record."""
        plain, incoming = b"", self._incoming
        try:
            while True:
                data = tls.read(RECEIVE_BYTES)
                if not data:
                    self._ended = True
                    break
                plain = plain + data if plain else data
                if not incoming.pending and not tls.pending():
                    break
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._ended = True
        if self._outgoing.pending:  # the answer to a change of keys
            self.send_now(b"")
        return plain or None

    # --- writing ----------------------------------------------------------------------------------

    def send_now(self, data: bytes | memoryview) -> bool:
        """Write as much as the socket takes, and keep the rest; True if there is none.

        Raises one of GONE.
        """
        if self._tls is not None:
            left = data
            while left:
                left = memoryview(left)[self._tls.write(left) :]
            data = self._outgoing.read()
        if self._unsent:
            self._unsent += data
            return self._pushed()
        try:
            sent = os.write(self._number, data)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return True
        self._unsent += memoryview(data)[sent:]
        return False

    def _pushed(self) -> bool:
        """Write as much as possible of what is kept; True if nothing is left."""
        try:
            del self._unsent[: os.write(self._number, self._unsent)]
        except BlockingIOError:
            pass
        return not self._unsent

    async def flush(self) -> None:
        """Write what is kept.  Raises one of GONE."""
        while self._unsent and not self._pushed():
            await trio.lowlevel.wait_writable(self._number)

    async def _send(self, data: bytes) -> None:
        """Write bytes that are encrypted."""
        self._unsent += data
        await self.flush()

    async def send_plain(self, data: bytes) -> None:
        """Write past TLS, before any handshake."""
        await self._send(data)

    def end_sending(self) -> None:
        """Let the client read that nothing follows.  Raises one of GONE."""
        self.socket.shutdown(trio.socket.SHUT_WR)

    async def skip(self) -> None:
        """Read until the client ends its side, and throw it away.  Raises one of GONE."""
        while self._read_socket() != b"":
            await self._turns.take(self._number)

    def close(self) -> None:
        """Close it; what waits raises ClosedResourceError."""
        self._number = -1
        self.socket.close()
