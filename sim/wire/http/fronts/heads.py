"""Heads of HTTP/1.1 requests: from their bytes to a method, a target and headers.

The header lines are read by llhttp (of Node.js), which is strict: no bare line feed, no continued
line, no space before a colon, no repeated length, and no length beside a transfer encoding.

Holds: a head that could be read in two ways, so that a request could be hidden in another one, is
refused; the same lines in the next request of a connection, or the same head, are not read again.

Mirrors  golang net/http server.go (readRequest, isUnsupportedTEError), request.go
         (parseRequestLine), transfer.go (parseTransferEncoding), golang.org/x/net/http/httpguts
         (ValidHostHeader), at go1.19.
Differs  what llhttp refuses, Go reads in one of the ways: 400. A head has at most 64 KiB and
         HEADERS_MAX lines, in Go 1 MiB. Between two requests empty lines are skipped.
"""

from __future__ import annotations

from typing import Final

import httptools

from sim.patterns import pattern
from sim.wire.exchange import Headers
from sim.wire.http.fronts.http1 import Refused
from sim.wire.http.fronts.target import origin_form

HEAD_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 1_000
CHUNKED: Final = -1
_END: Final = b"\r\n\r\n"
_TOKEN = pattern(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = pattern(rb"[\x21-\x7e]+")
_VERSION = pattern(rb"HTTP/[0-9]\.[0-9]")
_BARE_FEED = pattern(rb"(?<!\r)\n")
_HOST = pattern(r"[A-Za-z0-9!$%&'()*+,\-./:;=@\[\]_~]*")


class _Lines:
    """The header lines of a request.

    length: of the body, CHUNKED if it comes in chunks
    closes, keeps: what the client says about the connection
    """

    __slots__ = ("closes", "expects", "headers", "host", "keeps", "length", "switches", "te")

    def __init__(self, text: bytes) -> None:
        pairs: list[tuple[bytes, bytes]] = []
        try:
            httptools.HttpRequestParser(_Collected(pairs)).feed_data(b"GET / HTTP/1.1\r\n" + text)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            error.__context__ = None  # which refers to the parser
            raise Refused(400) from None
        if len(pairs) > HEADERS_MAX:
            raise Refused(431)
        self.headers = headers = Headers(pairs)
        values: dict[str, list[str]] = {}
        for name, value in headers.pairs:
            values.setdefault(name, []).append(value)
        self.host = len(values.get("host", ()))
        tokens = [each.strip().lower() for value in values.get("connection", ()) for each in value.split(",")]
        self.closes, self.keeps = "close" in tokens, "keep-alive" in tokens
        self.switches = "upgrade" in tokens and "upgrade" in values
        self.length, self.te, self.expects = 0, "transfer-encoding" in values, False
        if self.host > 1 or not _HOST.fullmatch(headers.get("host")):
            raise Refused(400)
        if expected := headers.get("expect"):
            if expected.lower() != "100-continue":
                raise Refused(417)
            self.expects = True
        if self.te:
            if headers.get("transfer-encoding").lower() != "chunked":
                raise Refused(501)
            self.length = CHUNKED
        elif "content-length" in values:
            self.length = int(headers.get("content-length"))


class _Collected:
    """Takes what the parser finds."""

    __slots__ = ("on_header",)

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self.on_header = lambda name, value: pairs.append((name, value.rstrip(b" \t")))


class Head:
    """The head of one request.

    version: of HTTP, "1.0" or "1.1"
    path, query: as they were sent
    length: of the body, CHUNKED if it comes in chunks
    keeps: the connection may be used again
    expects: the client waits to be asked for its body
    switches: the client asks for another protocol
    """

    __slots__ = ("expects", "headers", "keeps", "length", "method", "path", "query", "switches", "version")

    def __init__(self, line: bytes, lines: _Lines) -> None:
        parts = line.split(b" ")
        if len(parts) != 3 or not _VERSION.fullmatch(parts[2]):
            raise Refused(400)
        method, target, version = parts
        if version not in (b"HTTP/1.1", b"HTTP/1.0"):
            raise Refused(505)
        if not _TOKEN.fullmatch(method) or not _TARGET.fullmatch(target):
            raise Refused(400)
        form = target if target.startswith(b"/") else origin_form(method, target)
        if form is None:
            raise Refused(400)
        path, _, query = form.partition(b"?")
        self.method = method.decode("ascii")
        self.version = version[5:].decode("ascii")
        self.path, self.query = path.decode("ascii"), query.decode("ascii")
        is_old = version == b"HTTP/1.0"
        if (not lines.host and not is_old) or (lines.te and is_old):
            raise Refused(400)
        self.headers, self.length, self.expects = lines.headers, lines.length, lines.expects
        self.keeps = lines.keeps if is_old else not lines.closes
        self.switches = lines.switches


class Heads:
    """Cuts the heads out of the bytes of one connection."""

    def __init__(self) -> None:
        self._seen = 0  # bytes without an end of a head
        # The head before: its bytes, those of its lines, and what they say.
        self._whole = self._text = b""
        self._head: Head | None = None
        self._lines: _Lines | None = None

    def take(self, data: bytes) -> tuple[Head | None, bytes]:
        """The head with which the bytes begin, and the rest; no head if it is not complete.

        Raises Refused.
        """
        if not data:
            return None, data
        while data.startswith(b"\r\n"):
            data = data[2:]
        end = data.find(_END, max(0, self._seen - len(_END)))
        if end < 0:
            if len(data) > HEAD_MAX:
                raise Refused(431)
            if _BARE_FEED.search(data, self._seen) or (data and not _TOKEN.match(data) and data != b"\r"):
                raise Refused(400)
            self._seen = max(0, len(data) - 1)
            return None, data
        self._seen = 0
        if end > HEAD_MAX:
            raise Refused(431)
        whole, rest = data[: end + 4], data[end + 4 :]
        if self._head is not None and whole == self._whole:
            return self._head, rest
        self._head = None
        begin = data.find(b"\r\n") + 2
        text = whole[begin:]
        lines = self._lines
        if lines is None or text != self._text:
            self._lines = lines = None
            lines = _Lines(text)
            self._text, self._lines = text, lines
        self._head, self._whole = Head(whole[: begin - 2], lines), whole
        return self._head, rest
