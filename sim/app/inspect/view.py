"""`orrery show TRACE`: a trace as filtered lines of text or JSON, also while it is being written."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from sim.api.store import path_of
from sim.app.inspect.traces import as_json, bad, records, row
from sim.app.process.printed import json_line, visible
from sim.dataclass import dataclass
from sim.kernel import Decoder, Record, TraceError
from sim.report.story import Line, tell, who

POLL_S = 0.2  # the file has no notification of growth
CHUNK = 1 << 20
NAMES_SHOWN = 12  # number of similar names that are suggested


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects the records to show; an unset field accepts all.

    actor, objects: glob patterns ("node-a-*", "pods/default/web-*")
    grep: searched in the line's text
    """

    actor: str = ""
    kinds: tuple[str, ...] = ()
    objects: str = ""
    from_us: int = 0
    to_us: int | None = None
    grep: re.Pattern[str] | None = None

    def early(self, record: Record) -> bool:
        """The part of the filter that needs no text of the line."""
        return (
            record.at_us >= self.from_us
            and (self.to_us is None or record.at_us <= self.to_us)
            and (not self.kinds or record.kind in self.kinds)
            and (not self.actor or fnmatchcase(who(record), self.actor))
            and (not self.objects or is_about(record, self.objects))
        )


def thing(record: Record) -> str:
    """The object of a record, as stories name it ("": none)."""
    values = record.values
    if "key" in values and record.kind in ("write", "change"):
        return path_of(values["key"])
    if record.kind == "schedule":
        return f"pods/{values['pod']}"
    return str(values.get("target", ""))


def is_about(record: Record, objects: str) -> bool:
    """True if a record has an object that matches; a record without an object never does."""
    about = thing(record)
    return bool(about) and fnmatchcase(about, objects)


def lines(found: Iterator[Record], wanted: Filter) -> Iterator[Line]:
    """The lines of the records that pass the filter."""
    for record in found:
        if wanted.early(record):
            text = tell(record)
            if wanted.grep is None or wanted.grep.search(text):
                yield Line(record.ident, record.at_us, None, who(record), text, record.kind, record.values)


def show(trace: Path, wanted: Filter, *, as_text: bool, follow: bool) -> None:
    """Print what passes the filter; report on stderr a part of the filter that nothing passes.
    Raises InputError.
    """
    seen = _Seen(wanted)
    count = _show(lines(seen.noting(_growing(trace) if follow else records(trace)), wanted), as_text, follow)
    unknown = list(seen.unknown())
    for line in unknown or ([] if count else ["no record is like that"]):
        print(visible(line), file=sys.stderr)


class _Seen:
    """Records which parts of a filter match anything in a trace."""

    def __init__(self, wanted: Filter) -> None:
        self._wanted = wanted
        self._kinds: dict[str, None] = {}
        self._actors: dict[str, None] = {}
        self._objects: dict[str, None] = {}

    def noting(self, found: Iterator[Record]) -> Iterator[Record]:
        wanted = self._wanted
        for record in found:
            self._kinds[record.kind] = None
            if wanted.actor:
                self._actors[who(record)] = None
            if wanted.objects:
                self._objects[thing(record)] = None
            yield record

    def unknown(self) -> Iterator[str]:
        """The parts of the filter that no record matches, in words."""
        wanted = self._wanted
        for kind in wanted.kinds:
            if kind not in self._kinds:
                yield f'no record is of the kind "{kind}"; there are: {_some(self._kinds)}'
        if wanted.actor and not any(fnmatchcase(actor, wanted.actor) for actor in self._actors):
            yield f'no record is of an actor like "{wanted.actor}"; there are: {_some(self._actors)}'
        if wanted.objects and not any(fnmatchcase(key, wanted.objects) for key in self._objects):
            name = re.split(r"[*?[]", wanted.objects.rpartition("/")[2])[0]
            alike = [key for key in self._objects if name and key.rpartition("/")[2].startswith(name)]
            # The target of a command has no namespace.
            bare = {f"{parts[0]}/{parts[2]}" for key in alike if len(parts := key.split("/")) == 3}
            whole = [key for key in alike if key not in bare]
            near = get_close_matches(wanted.objects, whole or self._objects, n=3, cutoff=0.0)
            yield f'no record is about an object like "{wanted.objects}"; there are e.g. {_some(near)}'


def _some(names: Iterable[str]) -> str:
    known = sorted(filter(None, names))
    return ", ".join(known[:NAMES_SHOWN]) + (" …" if len(known) > NAMES_SHOWN else "")


def _show(found: Iterator[Line], as_text: bool, follow: bool) -> int:
    """Print the lines; returns their number."""
    count = 0
    for line in found:
        count += 1
        if as_text:
            print(f"{line.ident:>8} {row(line)}", flush=follow)
        else:
            print(json_line(as_json(line)), flush=follow)
    return count


def _growing(trace: Path) -> Iterator[Record]:
    """The records of a file that is being written, up to its end mark."""
    decoder = Decoder(str(trace))
    try:
        with trace.open("rb") as file:
            while not decoder.ended:
                data = file.read(CHUNK)
                if data:
                    yield from decoder.feed(data)
                else:
                    time.sleep(POLL_S)
    except (TraceError, OSError) as error:
        raise bad(error, trace) from None
