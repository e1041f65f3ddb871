"""Profiles of the server: the form in which pprof reads them, and the pages of /debug/pprof.

Turns stacks with the number of their samples into a profile.

Mirrors  google/pprof proto/profile.proto (field numbers only); golang net/http/pprof pprof.go (the
         answer of /debug/pprof/profile, the default of 30 s), kubernetes v1.25 apiserver
         pkg/server/routes/profiling.go.
Differs  the profile of processor time is the only one: heap, goroutine and the others are those of
         Go's runtime. /debug/flags/v has two levels: below 4, and from 4 on.
"""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sim.api.protobuf.wire import part, varint
from sim.api.schema.json_text import go_quote
from sim.wire.http.forms.rendering import TEXT
from sim.wire.http.pages.document import NO_SNIFF, Document
from sim.wire.http.routing import parse_query

ROOT = "/debug/pprof"
PROFILE = f"{ROOT}/profile"
SECONDS = 30
_INDEX = b"""<html>
<head><title>/debug/pprof/</title></head>
<body>
<p><a href='profile'>profile</a>: processor time; the parameter seconds says for how long</p>
</body>
</html>
"""


FLAGS = "/debug/flags"
VERBOSITY, DETAILS_FROM = f"{FLAGS}/v", 4
_PLAIN = "text/plain"
_FLAGS_INDEX = b"""<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>

<tr>v<br>

</table>
<br>
full flags configurable<br>
</body>
</html>
"""


class Frame(NamedTuple):
    """One level of a stack."""

    function: str
    file: str
    line: int


Stack = tuple[Frame, ...]  # the innermost frame first


def pprof_page(method: str, path: str) -> Document | None:
    """The page of a path below /debug/pprof that needs no measurement; None for other paths."""
    if path == ROOT:
        page = b'<a href="/debug/pprof/">Found</a>.\n\n'
        shown = method in ("GET", "HEAD")  # http.Redirect
        media = "text/html; charset=utf-8" if shown else ""
        return Document(302, raw=page if shown else b"", media=media, headers={"Location": f"{ROOT}/"})
    if path == f"{ROOT}/":
        return Document(raw=_INDEX, media="text/html; charset=utf-8", headers=NO_SNIFF)
    if path.startswith(f"{ROOT}/") and path != PROFILE:
        return Document(404, raw=b"Unknown profile\n", media=TEXT, headers=NO_SNIFF)
    return None


def flags_page(path: str) -> Document | None:
    """The page of a path below /debug/flags; None for other paths.

    Mirrors  apiserver pkg/server/routes/flags.go (Index, StringFlagPutHandler).
    """
    if path == VERBOSITY:
        return Document(406, raw=b"unsupported http method\n", media=_PLAIN, headers=NO_SNIFF)
    if path == FLAGS or path.startswith(f"{FLAGS}/"):
        return Document(raw=_FLAGS_INDEX, media="text/html; charset=utf-8")
    return None


def set_verbosity(text: str, use: Callable[[int], None] | None = None) -> Document:
    """Set the verbosity of this program's log, as a PUT of `VERBOSITY` wants it.

    Mirrors  component-base logs/logs.go (GlogSetter), klog (Level.Set), strconv (ParseInt).
    Differs  a served cluster has two levels: from `DETAILS_FROM` on the log has all details.

    use: takes the level; None for that of a served cluster
    """
    result = _whole_number(text)
    if isinstance(result, str):
        problem = (
            f"failed set klog.logging.verbosity {text}: strconv.ParseInt: parsing {go_quote(text)}: {result}"
        )
        return Document(400, raw=f"{problem}\n".encode(), media=_PLAIN, headers=NO_SNIFF)
    (use or _use)(result)
    done = f"successfully set klog.logging.verbosity to {text}\n"
    return Document(raw=done.encode(), media=_PLAIN, headers=NO_SNIFF)


def _use(level: int) -> None:
    logging.getLogger("sim").setLevel(logging.DEBUG if level >= DETAILS_FROM else logging.NOTSET)


def _whole_number(text: str) -> int | str:
    """A number of 32 bits, or why it is none."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdecimal():
        return "invalid syntax"
    value = int(text) if len(digits) < 100 else 1 << 31
    return value if -(1 << 31) <= value < 1 << 31 else "value out of range"


def seconds_of(query: str) -> int:
    """For how long a client wants to measure."""
    text = parse_query(query).get("seconds", "")
    target = int(text) if text.isdecimal() and len(text) < 6 else 0
    return target or SECONDS


def encode(samples: Mapping[Stack, int], period_us: int, taken_us: int, duration_us: int) -> bytes:
    """A profile, compressed.

    samples: how often each stack was seen
    period_us: time between two samples
    taken_us: Unix time of the begin
    """
    texts: dict[str, int] = {"": 0}
    functions: dict[tuple[str, str], int] = {}
    places: dict[Frame, int] = {}

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    def kind(number: int, name: str, unit: str) -> bytes:
        return part(number, _number(1, text(name)) + _number(2, text(unit)))

    out = kind(1, "samples", "count") + kind(1, "cpu", "nanoseconds")
    for stack, count in samples.items():
        result = b"".join(varint(places.setdefault(frame, len(places) + 1)) for frame in stack)
        values = varint(count) + varint(count * period_us * 1000)
        out += part(2, part(1, result) + part(2, values))
    for frame, number in places.items():
        function = functions.setdefault((frame.function, frame.file), len(functions) + 1)
        out += part(4, _number(1, number) + part(4, _number(1, function) + _number(2, frame.line)))
    for (name, file), number in functions.items():
        out += part(5, _number(1, number) + _number(2, text(name)) + _number(4, text(file)))
    out += kind(11, "cpu", "nanoseconds")
    out += b"".join(part(6, value.encode()) for value in texts)
    out += _number(9, taken_us * 1000) + _number(10, duration_us * 1000) + _number(12, period_us * 1000)
    return gzip.compress(out, mtime=0)


def _number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)
