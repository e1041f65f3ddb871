"""Answers of HTTP/1.1 servers that are not trusted, read piece by piece.  Pure.

Turns bytes into a head and the parts of a body, or into the text of Go's client for what is wrong
with them.

Holds: the work for a piece is linear in its length, however it is cut into lines and chunks; a head
is at most `HEAD_MAX` bytes, and a body that is decoded never grows beyond its bound, also within
one piece.  After an error nothing more is read.

Mirrors  golang net/http transport.go (readLoop, readResponse), response.go (ReadResponse),
         transfer.go (readTransfer, fixLength, parseTransferEncoding), internal/chunked.go;
         net/textproto reader.go (ReadMIMEHeader); compress/gzip gunzip.go at go1.19.
Differs  a head may have 64 KiB, Go's 10 MiB; chunks with more overhead than data are refused, as
         Go does from 1.20.12 on; trailers are not kept.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from functools import lru_cache

from sim.api.schema.json_text import go_quote
from sim.dataclass import dataclass
from sim.patterns import pattern

HEAD_MAX = 64 * 1024
LINE_MAX, TRAILER_MAX = 4096, 4096  # chunked.go: maxLineLength; the buffer of a connection
INFORMATIONAL_MAX = 5  # transport.go: max1xxResponses
EXCESS_MAX, EXCESS_FREE = 16 * 1024, 16  # chunked.go: of go1.20.12
OK, SWITCHING, NO_CONTENT, NOT_MODIFIED = 200, 101, 204, 304
BROKEN = "net/http: HTTP/1.x transport connection broken"
UNEXPECTED_EOF = "unexpected EOF"
_HEAD_END = pattern(rb"\n\r?\n")
_DIGITS = pattern(rb"[0-9]+")
_HEX = pattern(rb"[0-9a-fA-F]*")
_VERSION = pattern(r"HTTP/([0-9])\.([0-9])")
_NAME = pattern(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MAGIC = b"\x1f\x8b"


class BrokenAnswer(Exception):
    """An answer that cannot be read; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an answer.

    headers: names as Go writes them (textproto.CanonicalMIMEHeaderKey), bytes of values as Latin-1
    keeps: True if the server keeps the connection after the body
    """

    code: int
    headers: tuple[tuple[str, str], ...]
    keeps: bool

    def all(self, name: str) -> list[str]:
        """All values of a header, by its name in Go's form."""
        return [value for each, value in self.headers if each == name]


class AnswerReader:
    """Reads one answer.

    head: None until it is whole
    is_done: True once the body is whole
    method: of the request
    body_max: bytes of the body that are read, decoded
    decodes: True to inflate a body that is compressed by gzip, as Go's client does if its user
        asked for no encoding
    switches: True to take 101 as an answer
    """

    def __init__(
        self, method: str, body_max: int | None, *, decodes: bool = True, switches: bool = False
    ) -> None:
        self.head: Head | None = None
        self.is_done = False
        self._method, self._switches = method, switches
        self._left = body_max
        self._body_max = body_max
        self._decodes = decodes
        self._held = bytearray()
        self._seen = 0  # of `_held`, without the end of a head
        self._informational = 0
        self._body: _Body | None = None
        self._gzip: _Gzip | None = None

    @property
    def rest(self) -> bytes:
        """The bytes after the answer."""
        return bytes(self._held)

    def feed(self, data: bytes) -> bytes:
        """Read a piece.  Returns what it adds to the body.  Raises BrokenAnswer."""
        self._held += data
        while self.head is None:
            if not self._read_head():
                return b""
        if self.is_done or self._body is None:
            return b""
        held = bytes(self._held)
        self._held.clear()
        part, rest = self._body.feed(held)
        if self._body.is_done:
            self.is_done = True
            self._held += rest
        return self._taken(part)

    def end(self) -> bytes:
        """The server has closed the connection.  Raises BrokenAnswer if the answer is not whole."""
        if self.head is None:
            raise BrokenAnswer(f"{BROKEN}: {UNEXPECTED_EOF}" if self._held else "EOF")
        if not self.is_done:
            if self._body is not None and not self._body.ends_with_connection:
                raise BrokenAnswer(UNEXPECTED_EOF)
            self.is_done = True
            return self._taken(b"")
        return b""

    def _taken(self, part: bytes) -> bytes:
        """A part of the body, decoded and counted."""
        if self._gzip is not None:
            part = self._gzip.feed(part, self._left, is_last=self.is_done)
        if self._left is not None:
            self._left -= len(part)
            if self._left < 0:
                raise BrokenAnswer(f"the answer is larger than {self._body_max} bytes")
        return part

    # --- the head ---------------------------------------------------------------------------------

    def _read_head(self) -> bool:
        """Read a head that is whole; False if it is not."""
        held = self._held
        if not self._seen and b"\n" in held:
            _status_line(bytes(held[: held.index(b"\n")]))
        found = _HEAD_END.search(held, max(0, self._seen - 2))
        if found is None:
            self._seen = len(held)
            if self._seen > HEAD_MAX:
                raise BrokenAnswer(f"net/http: server response headers exceeded {HEAD_MAX} bytes; aborted")
            return False
        text = bytes(held[: found.end()])
        del held[: found.end()]
        self._seen = 0
        if len(text) > HEAD_MAX:
            raise BrokenAnswer(f"net/http: server response headers exceeded {HEAD_MAX} bytes; aborted")
        lines = [line.removesuffix(b"\r") for line in text.split(b"\n")]
        version, code = _status_line(lines[0])
        if OK > code >= 100 and (code != SWITCHING or not self._switches):
            self._informational += 1
            if self._informational > INFORMATIONAL_MAX:
                raise BrokenAnswer("net/http: too many 1xx informational responses")
            _fields(lines[1:])
            return True  # another head follows
        self._begin(version, code, _fields(lines[1:]))
        return True

    def _begin(self, version: tuple[int, int], code: int, fields: list[tuple[str, str]]) -> None:
        head = Head(code, tuple(fields), keeps=False)
        keeps = _is_kept(head, version)
        body = None if code == SWITCHING else _body_of(head, version, self._method)
        if body is None:
            self.is_done = True
        else:
            keeps = keeps and not body.ends_with_connection
            encodings = head.all("Content-Encoding")
            if self._decodes and encodings[:1] and encodings[0].lower() == "gzip":
                self._gzip = _Gzip()
                dropped = ("Content-Encoding", "Content-Length")
                fields = [pair for pair in fields if pair[0] not in dropped]
        self._body = body
        self.head = Head(code, tuple(fields), keeps)
        if body is not None and body.is_done:
            self.is_done = True


def _status_line(line: bytes) -> tuple[tuple[int, int], int]:
    """The version and the code of the first line of a head.  Raises BrokenAnswer."""
    text = line.removesuffix(b"\r").decode("utf-8", "replace")
    version, space, status = text.partition(" ")
    if not space:
        raise BrokenAnswer(f"{BROKEN}: malformed HTTP response {go_quote(text[:LINE_MAX])}")
    code = status.lstrip(" ").partition(" ")[0]
    if len(code) != 3 or not (code.isascii() and code.isdigit()):
        raise BrokenAnswer(f"{BROKEN}: malformed HTTP status code {go_quote(code[:LINE_MAX])}")
    found = _VERSION.fullmatch(version)
    if found is None:
        raise BrokenAnswer(f"{BROKEN}: malformed HTTP version {go_quote(version[:LINE_MAX])}")
    return (int(found[1]), int(found[2])), int(code)


def _fields(lines: list[bytes]) -> list[tuple[str, str]]:
    """The headers of the lines of a head.  Raises BrokenAnswer."""
    found: list[tuple[str, list[bytes]]] = []
    for line in lines:
        if not line:
            continue
        if line[0] in b" \t":
            if not found:
                text = line.decode("utf-8", "replace")[:LINE_MAX]
                raise BrokenAnswer(f"{BROKEN}: malformed MIME header initial line: {text}")
            found[-1][1].append(line.strip(b" \t"))
            continue
        name, colon, value = line.partition(b":")
        if not colon:
            text = line.decode("utf-8", "replace")[:LINE_MAX]
            raise BrokenAnswer(f"{BROKEN}: malformed MIME header line: {text}")
        # Quirk: a name that is no token is a header of its own, and an empty one is none.
        if name:
            found.append((_canonical(name), [value.strip(b" \t")]))
    return [(name, b" ".join(values).decode("latin-1")) for name, values in found]


@lru_cache(1024)
def _canonical(name: bytes) -> str:
    text = name.decode("latin-1")
    return text if _NAME.fullmatch(name) is None else "-".join(map(str.capitalize, text.split("-")))


def _is_kept(head: Head, version: tuple[int, int]) -> bool:
    """True if the server keeps the connection after its answer (transfer.go: shouldClose)."""
    words = [word.strip().lower() for value in head.all("Connection") for word in value.split(",")]
    return "close" not in words and (version >= (1, 1) or "keep-alive" in words)


# --- bodies ---------------------------------------------------------------------------------------


def _body_of(head: Head, version: tuple[int, int], method: str) -> _Body | None:
    """How the body is delimited; None if there is none.  Raises BrokenAnswer."""
    encodings = head.all("Transfer-Encoding") if version >= (1, 1) else []
    if len(encodings) > 1:
        shown = " ".join(map(go_quote, encodings))
        raise BrokenAnswer(f"{BROKEN}: too many transfer encodings: [{shown}]")
    if encodings and encodings[0].strip().lower() != "chunked":
        raise BrokenAnswer(f"{BROKEN}: unsupported transfer encoding: {go_quote(encodings[0])}")
    lengths = [] if encodings else head.all("Content-Length")
    if any(each.strip() != lengths[0].strip() for each in lengths):
        shown = " ".join(map(go_quote, lengths))
        raise BrokenAnswer(
            f"{BROKEN}: http: message cannot contain multiple Content-Length headers; got [{shown}]"
        )
    if method == "HEAD" or head.code in (NO_CONTENT, NOT_MODIFIED):
        return None
    if encodings:
        return _Chunked()
    if not lengths or not lengths[0].strip():
        return _Open()
    text = lengths[0].strip()
    if _DIGITS.fullmatch(text.encode("latin-1")) is None or len(text) > len(str(1 << 63)):
        raise BrokenAnswer(f"{BROKEN}: bad Content-Length {go_quote(text)}")
    return _Sized(int(text))


class _Body(ABC):
    """The bytes of a body on a connection.

    ends_with_connection: True if the end of the connection ends the body
    """

    is_done: bool = False
    ends_with_connection: bool = False

    @abstractmethod
    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """What a piece adds to the body, and the bytes after the body.  Raises BrokenAnswer."""
        ...


class _Open(_Body):
    ends_with_connection = True

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        return data, b""


class _Sized(_Body):
    def __init__(self, left: int) -> None:
        self._left = left
        self.is_done = not left

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        part = data[: self._left]
        self._left -= len(part)
        self.is_done = not self._left
        return part, data[len(part) :]


class _Chunked(_Body):
    def __init__(self) -> None:
        self._held = b""
        self._left = 0  # of the chunk that has begun
        self._excess = 0
        self._is_after = False  # the end of a line follows the data of a chunk
        self._is_trailer = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        data = self._held + data if self._held else data
        at, parts, size = 0, [], len(data)
        while at < size:
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                self._is_after = not self._left
            elif self._is_after:
                if data[at : at + 2] != b"\r\n":
                    if data[at : at + 2] == b"\r":
                        break
                    raise BrokenAnswer("malformed chunked encoding")
                at += 2
                self._is_after = False
            elif self._is_trailer:
                end = self._trailer_end(data, at)
                if end is None:
                    break
                self._held, self.is_done = b"", True
                return b"".join(parts), data[end:]
            else:
                end = data.find(b"\n", at)
                if end < 0:
                    if size - at > LINE_MAX:
                        raise BrokenAnswer("header line too long")
                    break
                self._begin_chunk(data[at : end + 1])
                at = end + 1
        self._held = data[at:]
        return b"".join(parts), b""

    def _begin_chunk(self, line: bytes) -> None:
        if len(line) > LINE_MAX:
            raise BrokenAnswer("header line too long")
        text = line.strip(b" \t\r\n").partition(b";")[0]
        if _HEX.fullmatch(text) is None:
            raise BrokenAnswer("invalid byte in chunk length")
        if len(text) > 16:
            raise BrokenAnswer("http chunk length too large")
        self._left = int(text or b"0", 16)
        self._is_trailer = not self._left
        self._excess = max(0, self._excess + len(line) + 2 - EXCESS_FREE - 2 * self._left)
        if self._excess > EXCESS_MAX:
            raise BrokenAnswer("chunked encoding contains too much non-data")

    @staticmethod
    def _trailer_end(data: bytes, at: int) -> int | None:
        """Where the trailer ends; None if it has not ended."""
        if data[at : at + 2] == b"\r\n":
            return at + 2
        end = data.find(b"\r\n\r\n", at, at + TRAILER_MAX)
        if end < 0:
            if len(data) - at > TRAILER_MAX:
                raise BrokenAnswer("http: suspiciously long trailer after chunked body")
            return None
        return end + 4


class _Gzip:
    """Inflates a body, never beyond its bound."""

    def __init__(self) -> None:
        self._inflater: zlib._Decompress | None = None
        self._held = b""

    def feed(self, data: bytes, left: int | None, *, is_last: bool) -> bytes:
        """What a piece inflates to, at most one byte more than is left.  Raises BrokenAnswer."""
        data, parts, got = self._held + data, [], 0
        self._held = b""
        try:
            while data and (left is None or got <= left):
                if self._inflater is None:
                    if len(data) < 2 and not is_last:
                        self._held = data
                        break
                    if data[:2] != _MAGIC:
                        raise BrokenAnswer("gzip: invalid header")
                    self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
                parts.append(self._inflater.decompress(data, 0 if left is None else left + 1 - got))
                got += len(parts[-1])
                data = self._inflater.unconsumed_tail
                if self._inflater.eof:  # further members may follow
                    data = self._inflater.unused_data
                    self._inflater = None
        except zlib.error as error:
            raise BrokenAnswer(_inflation_failure(str(error))) from None
        if is_last and self._inflater is not None and (left is None or got <= left):
            raise BrokenAnswer(UNEXPECTED_EOF)
        return b"".join(parts)


def _inflation_failure(text: str) -> str:
    """Go's words for an error of zlib."""
    if "header" in text:
        return "gzip: invalid header"
    return "gzip: invalid checksum" if "check" in text else "flate: corrupt input"
