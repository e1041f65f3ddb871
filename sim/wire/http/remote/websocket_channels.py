"""Numbered channels in the messages of a WebSocket.

A message begins with the number of its channel: a byte, or a digit where the rest is base64. With
v5 a client ends a channel by the number 255 before that of the channel.

Holds: a message of any length is passed on in pieces, and never kept as a whole.

Mirrors  kubernetes v1.25 apiserver pkg/util/wsstream/conn.go;
         pkg/kubelet/cri/streaming/remotecommand/websocket.go (createWebSocketStreams),
         portforward/websocket.go; v5 as apimachinery v1.30 pkg/util/remotecommand/constants.go.
Differs  a protocol error ends the connection with code 1002.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Sequence

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from sim.wire.http.remote.codec import WRITTEN, ProtocolError, Put

CLOSE_CHANNEL = 255
PIECE_BYTES = 32 << 10  # of a channel in one message, as upstream's io.Copy writes them
PROTOCOL_ERROR, NORMAL_CLOSURE = 1002, 1000


class Messages:
    """The messages of a WebSocket that is open: pieces in, frames out.

    closed: True once the client has closed it
    """

    def __init__(self) -> None:
        self.out = bytearray()
        self.closed = False
        self._connection = Connection(ConnectionType.SERVER)

    def pieces(self, data: bytes) -> list[tuple[bytes, bool]]:
        """Parts of messages, each with whether its message is complete.  Raises ProtocolError."""
        found: list[tuple[bytes, bool]] = []
        try:
            self._connection.receive_data(data)
            for event in self._connection.events():
                if isinstance(event, BytesMessage):
                    found.append((bytes(event.data), event.message_finished))
                elif isinstance(event, TextMessage):
                    found.append((event.data.encode(), event.message_finished))
                elif isinstance(event, Ping):
                    self._write(event.response())
                elif isinstance(event, CloseConnection):
                    if self._connection.state is ConnectionState.OPEN:  # found by the library
                        raise RemoteProtocolError(event.reason or "")
                    self.closed = True
                    if self._connection.state is ConnectionState.REMOTE_CLOSING:
                        self._write(event.response())
        except (RemoteProtocolError, LocalProtocolError) as error:
            self.close(PROTOCOL_ERROR)
            raise ProtocolError(str(error)) from None
        return found

    def write(self, data: bytes | str) -> None:
        """Send a message."""
        self._write(BytesMessage(data=data) if isinstance(data, bytes) else TextMessage(data=data))

    def close(self, code: int = NORMAL_CLOSURE) -> None:
        """Send that nothing follows."""
        self._write(CloseConnection(code=code))

    def _write(self, event: Event) -> None:
        try:
            self.out += self._connection.send(event)
        except LocalProtocolError:
            pass  # it is closed


class WebSocketChannels:
    """The channels of one connection.

    encoded: True if messages are base64
    closes: True if the client can end a channel
    shown: channels to which an empty message is sent first
    ports: for port-forward, the ports; each has two channels
    """

    def __init__(
        self, *, encoded: bool, closes: bool, shown: Sequence[int] = (), ports: Sequence[int] = ()
    ) -> None:
        self._messages = Messages()
        self._encoded, self._closes = encoded, closes
        self._shown, self._ports = shown, ports
        self._over: set[int] = set()  # channels of ports that the agent has ended
        self._channel = -1  # of the message that is being read
        self._rest = b""  # of its base64

    @property
    def out(self) -> bytearray:
        """Bytes for the client, which the owner takes away."""
        return self._messages.out

    @property
    def closed(self) -> bool:
        """True once the client has ended the connection in order."""
        return self._messages.closed

    @property
    def finished(self) -> bool:
        """True once each port has ended, with which the connection ends (websocket.go: run)."""
        return bool(self._ports) and len(self._over) == len(self._ports)

    def begin(self) -> list[Put]:
        """What the agent gets at the beginning."""
        for channel in self._shown:
            self._write(channel, b"")
        for index, port in enumerate(self._ports):
            for channel in (2 * index, 2 * index + 1):
                self._write(channel, port.to_bytes(2, "little"))
        return [(2 * index + 1, str(port).encode()) for index, port in enumerate(self._ports)]

    def feed(self, data: bytes) -> list[Put]:
        """Channels with bytes of the client; b"" ends a channel.  Raises ProtocolError."""
        puts: list[Put] = []
        for piece, ends in self._messages.pieces(data):
            puts += self._piece(piece)
            if ends:
                self._channel, self._rest = -1, b""
        return puts

    def _piece(self, piece: bytes) -> list[Put]:
        if self._channel < 0 and piece:
            self._channel = piece[0] - ord("0") if self._encoded else piece[0]
            piece = piece[1:]
        if self._closes and self._channel == CLOSE_CHANNEL:
            return [(piece[0], b"")] if piece and self._is_written(piece[0]) else []
        if self._encoded:
            whole = self._rest + piece
            usable = len(whole) // 4 * 4
            self._rest = whole[usable:]
            try:
                piece = b64decode(whole[:usable], validate=True)
            except Error as error:
                self._messages.close(PROTOCOL_ERROR)
                raise ProtocolError(str(error)) from None
        return [(self._channel, piece)] if piece and self._is_written(self._channel) else []

    def _is_written(self, channel: int) -> bool:
        """True for a channel in which the client may send."""
        if self._ports:
            return channel % 2 == 0 and 0 <= channel < 2 * len(self._ports)
        return channel in WRITTEN

    def send(self, channel: int, data: bytes) -> None:
        """Send bytes to the client; b"" ends a channel."""
        if not data and channel % 2 == 0:
            self._over.add(channel)
        for begin in range(0, len(data), PIECE_BYTES):
            self._write(channel, data[begin : begin + PIECE_BYTES])

    def _write(self, channel: int, data: bytes) -> None:
        if self._encoded:
            self._messages.write(chr(ord("0") + channel) + b64encode(data).decode())
        else:
            self._messages.write(bytes([channel]) + data)

    def end(self) -> None:
        """Nothing more is sent."""
        self._messages.close()
