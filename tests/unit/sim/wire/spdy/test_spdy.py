"""SPDY/3.1: frames there and back, streams of a session, and hostile bytes."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.wire.spdy.dictionary import DICTIONARY
from sim.wire.spdy.frames import FRAME_MAX, HEADERS_MAX, Frame, Kind, Reader, SpdyError, Writer
from sim.wire.spdy.session import STREAMS_MAX, Begun, Came, Session

NAMES = st.dictionaries(
    st.text("abcdef-", min_size=1), st.text(st.characters(max_codepoint=255, min_codepoint=1))
)


def test_the_dictionary_is_that_of_the_protocol() -> None:
    # The checksum that every stream of compressed headers states.
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@given(st.lists(NAMES, max_size=4), st.integers(1, 9))
def test_headers_are_read_as_they_were_written_in_pieces_of_any_size(blocks, size) -> None:
    writer, reader = Writer(), Reader()
    data = b"".join(writer.begin(2 * index + 1, block) for index, block in enumerate(blocks))
    found = [frame for at in range(0, len(data), size) for frame in reader.feed(data[at : at + size])]
    assert [frame.headers for frame in found] == blocks


def test_a_session_answers_pings_and_streams_and_ends_each_side_once() -> None:
    client, session, reader = Writer(), Session(), Reader()
    sent = (
        client.begin(1, {"a": "b"}) + client.data(1, b"in") + client.ping(7) + client.data(1, b"", fin=True)
    )
    assert list(session.feed(sent)) == [Begun(1, {"a": "b"}), Came(1, b"in"), Came(1, b"", ended=True)]
    session.send(1, b"out", ended=True)
    session.send(1, b"late")
    frames = list(reader.feed(bytes(session.out)))
    assert [frame.kind for frame in frames] == [Kind.SYN_REPLY, Kind.PING, Kind.DATA]
    assert frames[2] == Frame(Kind.DATA, 1, True, data=b"out") and frames[1].stream == 7
    assert list(session.feed(client.data(1, b"after"))) == []


def test_streams_with_wrong_numbers_and_beyond_the_bound_are_reset() -> None:
    client, session, reader = Writer(), Session(), Reader()
    numbers = [2, *range(1, 2 * STREAMS_MAX + 2, 2), 1]
    begun = list(session.feed(b"".join(client.begin(number, {}) for number in numbers)))
    kinds = [(frame.kind, frame.stream) for frame in reader.feed(bytes(session.out))]
    assert len(begun) == STREAMS_MAX
    resets = [number for kind, number in kinds if kind is Kind.RST_STREAM]
    assert resets == [2, 2 * STREAMS_MAX + 1, 1]


def test_frames_and_headers_that_are_too_large_are_refused() -> None:
    with pytest.raises(SpdyError):
        list(Reader().feed(bytes(5) + (FRAME_MAX + 1).to_bytes(3, "big")))
    bomb = Writer().begin(1, {"a": "x" * (2 * HEADERS_MAX)})
    assert len(bomb) < 2000
    with pytest.raises(SpdyError):
        list(Reader().feed(bomb))


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_are_frames_or_a_protocol_error(data) -> None:
    session, rest = Session(), data
    try:
        for event in session.feed(rest):
            assert isinstance(event, Begun | Came)
    except SpdyError:
        pass
    assert len(session.out) <= 100 * len(data)


@given(st.binary(min_size=1, max_size=60), st.integers(0, 11), st.integers(0, 255))
def test_control_frames_with_any_body_are_read_or_refused(body, kind, flags) -> None:
    head = b"\x80\x03" + kind.to_bytes(2, "big") + bytes([flags]) + len(body).to_bytes(3, "big")
    try:
        list(Session().feed(head + body))
    except SpdyError as error:
        assert str(error)
