"""Answers of servers that are not trusted."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from sim.wire.outside.answers import HEAD_MAX, AnswerReader, BrokenAnswer

BODY_MAX = 1000
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
GZIP = OK + b"Content-Encoding: GZip\r\n\r\n"
LOST = "net/http: HTTP/1.x transport connection broken: "


def read(data: bytes, size: int, method: str = "GET") -> tuple[int, bytes, bytes, bool] | str:
    """Code, body, rest, and True if the connection is kept; or the error.  size: of the pieces"""
    reader, body = AnswerReader(method, BODY_MAX), b""
    try:
        for at in range(0, len(data), size):
            body += reader.feed(data[at : at + size])
        if not reader.is_done:
            body += reader.end()
    except BrokenAnswer as error:
        return str(error)
    assert reader.head is not None
    return reader.head.code, body, reader.rest, reader.head.keeps


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (OK + b"Content-Length: 2\r\n\r\nabc", (200, b"ab", b"c", True)),
        (OK + b"Content-Length: 2\r\nconnection: x, Close\r\n\r\nab", (200, b"ab", b"", False)),
        (b"HTTP/1.0 200 OK\nContent-Length: 1\n\na", (200, b"a", b"", False)),
        (OK + b"\r\nabc", (200, b"abc", b"", False)),
        (CHUNKED + b"1;x=y\r\na\r\n02 \r\nbc\r\n0\r\n\r\n", (200, b"abc", b"", True)),
        (CHUNKED + b"0\r\nX: y\r\n\r\nz", (200, b"", b"z", True)),
        (b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n", (200, b"", b"", True)),
        (b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", (204, b"", b"", True)),
        (GZIP + gzip.compress(b"ab", mtime=0) + gzip.compress(b"c", mtime=0), (200, b"abc", b"", False)),
        (OK + b"Content-Encoding: gzip, gzip\r\n\r\nx", (200, b"x", b"", False)),
        (b"", "EOF"),
        (b"HTTP/1.1 200", f"{LOST}unexpected EOF"),
        (b"SSH-2.0\r\n\r\n", f'{LOST}malformed HTTP response "SSH-2.0"'),
        (b"HTTP/1.1 2000 OK\r\n\r\n", f'{LOST}malformed HTTP status code "2000"'),
        (b"HTTP/9 200 OK\r\n\r\n", f'{LOST}malformed HTTP version "HTTP/9"'),
        (OK + b" x: y\r\n\r\n", f"{LOST}malformed MIME header initial line:  x: y"),
        (OK + b"x y\r\n\r\n", f"{LOST}malformed MIME header line: x y"),
        (OK + b"Content-Length: -1\r\n\r\n", f'{LOST}bad Content-Length "-1"'),
        (OK + b"Content-Length: 5\r\n\r\nab", "unexpected EOF"),
        (OK + b"Transfer-Encoding: gzip\r\n\r\n", f'{LOST}unsupported transfer encoding: "gzip"'),
        (CHUNKED + b"x\r\n", "invalid byte in chunk length"),
        (CHUNKED + b"11111111111111111\r\n", "http chunk length too large"),
        (CHUNKED + b"1\r\nabc", "malformed chunked encoding"),
        (CHUNKED + b"3\r\nabc", "unexpected EOF"),
        (CHUNKED + b"1" * 5000, "header line too long"),
        (CHUNKED + b"0\r\n" + b"x" * 5000, "http: suspiciously long trailer after chunked body"),
        (CHUNKED + (b"1;" + b"x" * 4000 + b"\r\na\r\n") * 5, "chunked encoding contains too much non-data"),
        (GZIP + b"abc", "gzip: invalid header"),
        (GZIP + gzip.compress(b"abc", mtime=0)[:-1], "unexpected EOF"),
        (OK + b"\r\n" + b"x" * 1001, "the answer is larger than 1000 bytes"),
        (b"HTTP/1.1 100 Go\r\n\r\n" * 6, "net/http: too many 1xx informational responses"),
        (OK + b"x: y\r\n" * 50_000, f"net/http: server response headers exceeded {HEAD_MAX} bytes; aborted"),
    ],
)  # fmt: skip
def test_answer_is_read_alike_in_pieces_of_any_size(
    data: bytes, found: tuple[int, bytes, bytes, bool] | str, size: int
) -> None:
    assert read(data, max(size, len(data) // 1000)) == found


def test_compressed_body_is_not_inflated_beyond_its_bound() -> None:
    bomb = gzip.compress(bytes(8 << 20), 1)
    reader = AnswerReader("GET", BODY_MAX)
    tracemalloc.start()
    with pytest.raises(BrokenAnswer, match="larger than 1000 bytes"):
        reader.feed(GZIP + bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
