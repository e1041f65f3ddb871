"""HTTP/2 of this server: hypercorn's protocol with bounds, and with the ends of upstream's.

The bytes of one connection, for which HTTP/2 was chosen during the TLS handshake, become requests
for the application, several at a time.

Holds: a malformed request resets its stream; a client beyond a bound (streams at a time, resets,
sizes of heads and frames) loses its connection; an answer waits for the windows of its client; an
answer that closes its connection is followed by a GOAWAY, and the streams that are open end as
usual.

Mirrors  golang.org/x/net/http2 server.go (processHeaders, startGracefulShutdown), at the
         version of go1.19; RFC 9113.
Differs  a WebSocket over HTTP/2 is not offered; upstream's server offers none either. Priorities of
         streams are ignored, as RFC 9113 section 5.3 allows. A stream is reset up to 2 s after its
         unfinished body was refused, by Go at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import h2.events
import h2.exceptions
import h2.settings
from h2.errors import ErrorCodes
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Response, StreamClosed
from hypercorn.protocol.h2 import H2Protocol
from hyperframe.frame import GoAwayFrame
from priority.priority import MissingStreamError

from sim.patterns import pattern
from sim.wire.http.fronts.target import origin_form

PROTOCOL: Final = "h2"
STREAMS_MAX = 250  # x/net/http2 server.go: defaultMaxStreams
RESETS_MAX = 1000  # of streams before their answer: a client that resets more loses its connection
LAST_STREAM = 2**31 - 1
# The header in which the exact method goes to the connection; no client can send this name.
METHOD = b" method"
_METHOD = pattern(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9113 section 8.2.2.
_OF_CONNECTIONS = (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")


class Http2(H2Protocol):
    """The protocol of one connection.

    answering: True, as no text of HTTP/1.1 may be sent
    """

    answering = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        settings = {
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.config.h2_max_concurrent_streams,
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: self.config.h2_max_header_list_size,
        }
        self.connection.local_settings = h2.settings.Settings(client=False, initial_values=settings)
        self._receiving: set[int] = set()  # streams of requests that have not ended
        self._resets = 0
        # An answer closes the connection; the client has been informed.
        self._leaving = self._left = False

    async def handle(self, event: Any) -> None:
        """Handles one event of the transport."""
        if isinstance(event, RawData) and not event.data:
            return  # the end, which the connection notices itself
        await super().handle(event)

    # --- from the client --------------------------------------------------------------------------

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if isinstance(event, h2.events.RequestReceived):
                await self._begin(event)
            elif isinstance(event, h2.events.DataReceived):
                await self._take(event)
            elif isinstance(event, h2.events.StreamEnded):
                self._receiving.discard(event.stream_id)
                if event.stream_id in self.streams:
                    await self.streams[event.stream_id].handle(EndBody(stream_id=event.stream_id))
            elif isinstance(event, h2.events.StreamReset):
                await self._forget(event.stream_id)
            elif isinstance(event, h2.events.WindowUpdated):
                await self._window_updated(event.stream_id)
            elif isinstance(event, h2.events.RemoteSettingsChanged):
                if h2.settings.SettingCodes.INITIAL_WINDOW_SIZE in event.changed_settings:
                    await self._window_updated(None)
            elif isinstance(event, h2.events.ConnectionTerminated):
                await self.send(Closed())
        await self._flush()

    async def _begin(self, event: h2.events.RequestReceived) -> None:
        """Begins a stream, or resets that of a malformed request."""
        fields = dict(event.headers)
        method, path = fields.get(b":method", b""), fields.get(b":path", b"")
        target = origin_form(method, path) if _METHOD.fullmatch(method) and path.isascii() else None
        if target is None or method == b"CONNECT":
            self._reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        heads = [(name, value) for name, value in event.headers if name != b":path"]
        event.headers = [*heads, (b":path", target), (METHOD, method)]
        self._receiving.add(event.stream_id)
        await self._create_stream(event)
        await self.send(Updated(idle=False))

    async def _take(self, event: h2.events.DataReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:  # otherwise its answer came before its end
            await stream.handle(Body(stream_id=event.stream_id, data=event.data))
        try:
            self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        except h2.exceptions.ProtocolError:
            pass  # the stream was closed while the application took the data

    async def _forget(self, stream_id: int) -> None:
        """Ends a stream that its client has reset."""
        self._receiving.discard(stream_id)
        if stream_id in self.streams:
            self._resets += 1
        await self._close_stream(stream_id)
        buffer = self.stream_buffers.pop(stream_id, None)
        if buffer is not None:
            self.priority.remove_stream(stream_id)
            await buffer.close()
        await self._settle()
        if self._resets > RESETS_MAX:
            self.connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            await self._flush()
            await self.send(Closed())

    # --- to the client ----------------------------------------------------------------------------

    async def stream_send(self, event: Any) -> None:
        """Sends an event of the application."""
        if isinstance(event, Response):
            entry = [(name.lower(), value) for name, value in event.headers]
            stored = [pair for pair in entry if pair[0] not in _OF_CONNECTIONS]
            event = replace(event, headers=stored)
            if (b"connection", b"close") in entry:
                self._leaving = True
        if isinstance(event, StreamClosed):
            buffer = self.stream_buffers.get(event.stream_id)
            if buffer is not None and not buffer._complete:  # the application failed in its answer
                self._reset(event.stream_id, ErrorCodes.INTERNAL_ERROR)
                await self._flush()
                await self._window_updated(event.stream_id)
        await super().stream_send(event)
        await self._settle()

    async def _send_data(self, stream_id: int) -> None:
        try:
            await super()._send_data(stream_id)
        except (KeyError, MissingStreamError):
            return  # its client has reset it
        if stream_id not in self.stream_buffers:  # its answer was sent
            if self._leaving:
                await self._leave()
            if stream_id in self._receiving:
                self._receiving.discard(stream_id)
                self._reset(stream_id, ErrorCodes.NO_ERROR)
                await self._flush()
            await self._settle()

    async def leave(self) -> None:
        """Let the client open no further stream, and end with the last one."""
        await self._leave()
        await self._settle()

    async def _leave(self) -> None:
        """Lets the client open no further stream."""
        if not self._left:
            self._left = True
            frame = GoAwayFrame(0, last_stream_id=LAST_STREAM, error_code=int(ErrorCodes.NO_ERROR))
            await self.send(RawData(frame.serialize()))

    async def _settle(self) -> None:
        """Ends the connection once the last stream of a client that has to leave has ended."""
        if self._left and not self.streams and not self.stream_buffers:
            await self.send(Closed())

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        try:
            self.connection.reset_stream(stream_id, code)
        except h2.exceptions.ProtocolError:
            pass  # the stream, or the connection, has ended
