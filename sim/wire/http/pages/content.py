"""Content that was changed at a known time: conditions on it, and parts of it.  Pure.

Turns the headers of a request and a content into the answer: all of it, parts, or none because the
client has it already.

Holds: of the conditions that a request states, the one on tags decides before the one on times.

Mirrors  Go's net/http fs.go (ServeContent, checkPreconditions, parseRange), RFC 9110 section 13.
Differs  the boundary between parts follows from the content, not from chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from hashlib import sha256
from typing import NamedTuple

from sim.wire.http.forms.rendering import TEXT, Answer
from sim.wire.http.pages.document import NO_SNIFF

PARTIAL, NOT_MODIFIED, FAILED, NO_RANGE = 206, 304, 412, 416
_SPACES = " \t"
Header = Callable[[str], str]


class Content(NamedTuple):
    """A content.

    tag: its entity tag with quotes, "" if it has none
    modified_s: when it was changed, seconds since 1970
    headers: of the answer, besides those that follow from the content
    """

    raw: bytes
    media: str
    tag: str
    modified_s: int
    headers: Mapping[str, str] = {}


def serve(content: Content, method: str, header: Header) -> Answer:
    """The answer to a request for a content.

    header: returns the value of a header of the request, "" if it has none
    """
    headers = {**content.headers, "Last-Modified": http_time(content.modified_s)}
    if content.tag:
        headers["ETag"] = content.tag
    reading = method in ("GET", "HEAD")
    verdict = _judged(content, header, reading)
    if verdict == NOT_MODIFIED:
        if content.tag:
            headers.pop("Last-Modified")
        return Answer(NOT_MODIFIED, "", b"", headers=headers)
    if verdict == FAILED:
        return Answer(FAILED, "", b"", headers=headers)
    wanted = header("range") if _whole_unchanged(content, header, reading) else ""
    try:
        ranges = parse_ranges(wanted, len(content.raw))
    except NoOverlap as error:
        if error.fits:
            headers["Content-Range"] = f"bytes */{len(content.raw)}"
        return Answer(NO_RANGE, TEXT, f"{error}\n".encode(), headers={**headers, **NO_SNIFF})
    if sum(length for _, length in ranges) > len(content.raw):
        ranges = []  # more than the whole: an attack, or a client without sense
    headers["Accept-Ranges"] = "bytes"
    if not ranges:
        return Answer(200, content.media, content.raw, headers=headers)
    if len(ranges) == 1:
        first, length = ranges[0]
        headers["Content-Range"] = _span(first, length, len(content.raw))
        return Answer(PARTIAL, content.media, content.raw[first : first + length], headers=headers)
    boundary = sha256(content.raw).hexdigest()[:60]
    made = b"".join(
        f"{'' if not place else chr(13) + chr(10)}--{boundary}\r\n"
        f"Content-Range: {_span(first, length, len(content.raw))}\r\n"
        f"Content-Type: {content.media}\r\n\r\n".encode()
        + content.raw[first : first + length]
        for place, (first, length) in enumerate(ranges)
    )
    media = f"multipart/byteranges; boundary={boundary}"
    return Answer(PARTIAL, media, made + f"\r\n--{boundary}--\r\n".encode(), headers=headers)


def http_time(seconds: int) -> str:
    """A time in headers."""
    return format_datetime(datetime.fromtimestamp(seconds, UTC), usegmt=True)


def year_after(seconds: int) -> int:
    """The same time of the next year."""
    now = datetime.fromtimestamp(seconds, UTC)
    day = now.replace(day=28) if (now.month, now.day) == (2, 29) else now
    later = day.replace(year=now.year + 1) + (now - day)
    return int(later.timestamp())


def _span(first: int, length: int, size: int) -> str:
    return f"bytes {first}-{first + length - 1}/{size}"


# --- conditions -----------------------------------------------------------------------------------


def _judged(content: Content, header: Header, reading: bool) -> int:
    """304 or 412 if a condition of the request says so, 0 otherwise."""
    if header("if-match"):
        if not _names(header("if-match"), content.tag, strong=True):
            return FAILED
    elif (since := _seconds(header("if-unmodified-since"))) is not None and content.modified_s > since:
        return FAILED
    if header("if-none-match"):
        if _names(header("if-none-match"), content.tag, strong=False):
            return NOT_MODIFIED if reading else FAILED
    elif reading and (since := _seconds(header("if-modified-since"))) is not None:
        return NOT_MODIFIED if content.modified_s <= since else 0
    return 0


def _whole_unchanged(content: Content, header: Header, reading: bool) -> bool:
    """False if a range is asked for of a content that has changed since."""
    asked = header("if-range")
    if not reading or not asked:
        return True
    if asked.startswith(('"', "W/")):
        return _names(asked, content.tag, strong=True)
    return _seconds(asked) == content.modified_s


def _names(listed: str, tag: str, *, strong: bool) -> bool:
    """True if a list of entity tags names one.

    strong: True if weak tags name nothing
    """
    rest = listed.lstrip(_SPACES)
    while rest:
        if rest.startswith(","):
            rest = rest[1:].lstrip(_SPACES)
            continue
        if rest.startswith("*"):
            return True
        begin = 2 if rest.startswith("W/") else 0
        end = rest.find('"', begin + 1)
        if rest[begin : begin + 1] != '"' or end < 0:
            return False
        found = rest[: end + 1]
        if tag and (found == tag if strong else found.removeprefix("W/") == tag):
            return True
        rest = rest[end + 1 :].lstrip(_SPACES)
    return False


def _seconds(text: str) -> int | None:
    """A time of a header; None if there is none or it has no form of a time."""
    try:
        return int(parsedate_to_datetime(text).timestamp()) if text else None
    except (ValueError, TypeError, OverflowError):
        return None


# --- ranges ---------------------------------------------------------------------------------------


class NoOverlap(Exception):
    """A range that cannot be answered.

    fits: True if its form is right
    """

    def __init__(self, fits: bool) -> None:
        super().__init__("invalid range: failed to overlap" if fits else "invalid range")
        self.fits = fits


def parse_ranges(text: str, size: int) -> list[tuple[int, int]]:
    """The parts of a content that a header asks for: first byte and length of each.

    size: of the content
    """
    if not text:
        return []
    if not text.startswith("bytes="):
        raise NoOverlap(False)
    found: list[tuple[int, int]] = []
    outside = False
    for each in text.removeprefix("bytes=").split(","):
        span = each.strip()
        if not span:
            continue
        if "-" not in span:
            raise NoOverlap(False)
        begin, _, end = (part.strip() for part in span.partition("-"))
        one = _span_of(begin, end, size)
        outside = outside or one is None
        found += [one] if one is not None else []
    if outside and not found:
        raise NoOverlap(True)
    return found


def _span_of(begin: str, end: str, size: int) -> tuple[int, int] | None:
    """One part; None if it begins behind the content."""
    if not begin:
        if not _is_number(end):
            raise NoOverlap(False)
        length = min(int(end), size)
        return size - length, length
    if not _is_number(begin):
        raise NoOverlap(False)
    first = int(begin)
    if first >= size:
        return None
    if not end:
        return first, size - first
    if not _is_number(end) or first > int(end):
        raise NoOverlap(False)
    return first, min(int(end), size - 1) - first + 1


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20
