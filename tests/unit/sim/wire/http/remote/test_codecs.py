"""Channels over WebSocket, and streams of commands and ports over SPDY."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, TextMessage

from sim.api.streams import ERROR, STDIN, STDOUT
from sim.wire.http.remote.codec import ProtocolError
from sim.wire.http.remote.spdy_streams import CommandStreams, PortStreams
from sim.wire.http.remote.tunnel import Tunnel
from sim.wire.http.remote.websocket_channels import WebSocketChannels
from sim.wire.spdy.frames import Kind, Reader, Writer


def client_bytes(*sent: bytes | str) -> bytes:
    connection = Connection(ConnectionType.CLIENT)
    return b"".join(
        connection.send(BytesMessage(data=one) if isinstance(one, bytes) else TextMessage(data=one))
        for one in sent
    )


@given(st.binary(max_size=300), st.integers(1, 64), st.booleans())
def test_a_message_in_pieces_of_any_size_gives_its_bytes(data, size, encoded) -> None:
    from base64 import b64encode

    codec = WebSocketChannels(encoded=encoded, closes=False)
    raw = client_bytes("0" + b64encode(data).decode() if encoded else b"\x00" + data)
    puts = [put for at in range(0, len(raw), size) for put in codec.feed(raw[at : at + size])]
    assert b"".join(piece for channel, piece in puts) == data
    assert {channel for channel, _ in puts} <= {STDIN}


def test_channels_that_a_client_does_not_write_are_dropped_and_v5_ends_one() -> None:
    codec = WebSocketChannels(encoded=False, closes=True)
    raw = client_bytes(b"\x01x", b"", b"\x00", b"\x00y", b"\xff\x00", b"\xff\x02", b"\xff")
    assert codec.feed(raw) == [(0, b"y"), (0, b"")]
    old = WebSocketChannels(encoded=False, closes=False)
    assert old.feed(client_bytes(b"\xff\x00")) == []


def test_bytes_that_are_no_websocket_or_no_base64_are_a_protocol_error() -> None:
    for encoded, raw in ((False, b"\x8f\x80" + bytes(4)), (True, client_bytes("0!!!!"))):
        codec = WebSocketChannels(encoded=encoded, closes=False)
        with pytest.raises(ProtocolError):
            codec.feed(raw)
        assert bytes(codec.out).endswith(b"\x03\xea")  # a close frame with 1002


def test_bytes_for_streams_that_are_not_begun_wait_for_them() -> None:
    codec, writer, reader = CommandStreams([STDOUT, ERROR]), Writer(), Reader()
    codec.send(STDOUT, b"early")
    codec.feed(writer.begin(1, {"streamType": "stdout"}))
    assert not codec.complete
    codec.feed(writer.begin(3, {"streamType": "error"}) + writer.begin(5, {"streamType": "odd"}))
    assert codec.complete
    frames = list(reader.feed(bytes(codec.out)))
    assert [frame.kind for frame in frames if frame.stream == 5] == [Kind.SYN_REPLY, Kind.RST_STREAM]
    assert [frame.data for frame in frames if frame.kind is Kind.DATA] == [b"early"]


def test_a_port_is_opened_by_two_streams_of_one_request() -> None:
    codec, writer = PortStreams(), Writer()
    pairs = [
        ("error", "80", "0"),
        ("data", "80", "0"),
        ("error", "x", "1"),
        ("error", "81", "2"),
        ("data", "81", "2"),
    ]
    puts = []
    for index, (kind, port, request) in enumerate(pairs):
        headers = {"streamType": kind, "port": port, "requestID": request}
        puts += codec.feed(writer.begin(2 * index + 1, headers))
    puts += codec.feed(writer.data(3, b"get") + writer.data(3, b"", fin=True) + writer.data(1, b"", fin=True))
    assert puts == [(1, b"80"), (3, b"81"), (0, b"get"), (0, b"")]


def test_a_tunnel_carries_spdy_in_messages() -> None:
    codec, writer = Tunnel(PortStreams()), Writer()
    headers = {"streamType": "error", "port": "80", "requestID": "0"}
    first = writer.begin(1, headers)
    second = writer.begin(3, {**headers, "streamType": "data"})
    puts = codec.feed(client_bytes(first[:5], first[5:] + second))
    assert puts == [(1, b"80")]
    receiver = Connection(ConnectionType.CLIENT)
    receiver.receive_data(bytes(codec.out))
    inner = b"".join(bytes(event.data) for event in receiver.events() if isinstance(event, BytesMessage))
    assert [frame.kind for frame in Reader().feed(inner)] == [Kind.SYN_REPLY, Kind.SYN_REPLY]
