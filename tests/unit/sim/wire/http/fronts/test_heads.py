"""Heads of HTTP/1.1 requests: what is read, and what could be read in two ways and is refused."""

from __future__ import annotations

import pytest

from sim.wire.http.fronts.heads import CHUNKED, HEAD_MAX, HEADERS_MAX, Heads
from sim.wire.http.fronts.http1 import Refused

GET = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n"


def refused(data: bytes) -> int:
    with pytest.raises(Refused) as met:
        Heads().take(data)
    return met.value.code


def test_head_is_cut_from_what_follows() -> None:
    head, rest = Heads().take(GET + b"Accept:  text/a \r\n\r\nnext")
    assert head is not None
    assert (head.method, head.path, head.query, head.version) == ("GET", "/a", "b=c", "1.1")
    assert head.headers.pairs == [("host", "x"), ("accept", "text/a")]
    assert (head.length, head.keeps, head.expects, head.switches) == (0, True, False, False)
    assert rest == b"next"


def test_head_in_two_parts_is_taken_once_it_is_complete() -> None:
    whole = b"\r\n" + GET + b"Accept: text/plain\r\n\r\n"
    for size in range(len(whole)):
        heads = Heads()
        first, rest = heads.take(whole[:size])
        assert first is None
        head, rest = heads.take(rest + whole[size:])
        assert (head is not None and head.path, rest) == ("/a", b"")


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3",
        b"Content-Length: 3\r\nContent-Length: 3",
        b"Content-Length: 3\r\nContent-Length: 4",
        b"Content-Length: 3, 3",
        b"Content-Length: +3",
        b"Content-Length: 0x3",
        b"Content-Length: -1",
        b"Content-Length: 99999999999999999999",
        b"Content-Length : 3",
        b" Content-Length: 3",
        b"A: b\r\n c",
        b"A: b\nContent-Length: 3",
        b"A: b\rContent-Length: 3",
        b"A: \0",
        b": b",
        b"A",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Host: y",
    ],
)
def test_lines_with_two_meanings_are_refused(lines: bytes) -> None:
    assert refused(GET + lines + b"\r\n\r\n") == 400


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET /\xbe HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"\x16\x03\x01", 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (GET + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (GET + b"Expect: tea\r\n\r\n", 417),
        (GET + b"A: b\r\n" * HEADERS_MAX + b"\r\n", 431),
        (GET + b"A: " + b"b" * HEAD_MAX, 431),
        (GET + b"A: " + b"b" * HEAD_MAX + b"\r\n\r\n", 431),
    ],
)
def test_malformed_head_is_refused_with_its_code(data: bytes, code: int) -> None:
    assert refused(data) == code


@pytest.mark.parametrize(
    ("version", "lines", "keeps"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: a, Close\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: keep-alive\r\n", True),
    ],
)
def test_connection_is_kept_as_the_client_says(version: bytes, lines: bytes, keeps: bool) -> None:
    head, _ = Heads().take(b"GET / HTTP/" + version + b"\r\nHost: x\r\n" + lines + b"\r\n")
    assert head is not None
    assert head.keeps is keeps


@pytest.mark.parametrize(
    ("lines", "length"), [(b"Content-Length: 12\r\n", 12), (b"Transfer-Encoding: Chunked\r\n", CHUNKED)]
)
def test_length_of_the_body_follows_from_the_lines(lines: bytes, length: int) -> None:
    head, _ = Heads().take(GET + lines + b"Expect: 100-Continue\r\n\r\n")
    assert head is not None
    assert (head.length, head.expects) == (length, True)


def test_equal_head_of_the_next_request_is_not_read_again() -> None:
    heads = Heads()
    first, rest = heads.take(2 * (GET + b"\r\n") + GET)
    second, rest = heads.take(rest)
    third, rest = heads.take(rest + b"A: b\r\n\r\n")
    assert first is not None
    assert second is first
    assert third is not first
    assert rest == b""


def test_same_lines_in_the_next_request_are_not_read_again() -> None:
    heads = Heads()
    first, _ = heads.take(GET + b"\r\n")
    second, _ = heads.take(GET.replace(b"/a", b"/b") + b"\r\n")
    third, _ = heads.take(GET + b"A: b\r\n\r\n")
    assert first is not None
    assert second is not None
    assert third is not None
    assert second.headers is first.headers
    assert third.headers.get("a") == "b"
