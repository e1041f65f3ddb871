"""`orrery show TRACE`: a trace as lines of text or JSON, filtered, also while it is written."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sim.app.traces import as_json, bad, print_json, records, row
from sim.kernel import Decoder, Record, TraceError
from sim.report.story import Line, shown, tell, who

POLL_S = 0.2  # a file tells nobody that it has grown
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records are shown; what is not set lets everything pass.

    actor, objects: glob patterns ("node-a-*", "pods/default/web-*"); grep: searched in the line's text
    """

    actor: str = ""
    kinds: tuple[str, ...] = ()
    objects: str = ""
    from_us: int = 0
    to_us: int | None = None
    grep: re.Pattern[str] | None = None

    def early(self, record: Record) -> bool:
        """What can be told before the words are made."""
        return (
            record.at_us >= self.from_us
            and (self.to_us is None or record.at_us <= self.to_us)
            and (not self.kinds or record.kind in self.kinds)
            and (not self.actor or fnmatchcase(who(record), self.actor))
            and (not self.objects or fnmatchcase(thing(record), self.objects))
        )


def thing(record: Record) -> str:
    """The object that a record speaks of, as stories name it ("": none)."""
    values = record.values
    if "key" in values and record.kind in ("write", "change"):
        return shown(values["key"])
    if record.kind == "schedule":
        return f"pods/{values['pod']}"
    return str(values.get("target", ""))


def lines(found: Iterator[Record], wanted: Filter) -> Iterator[Line]:
    for record in found:
        if wanted.early(record):
            text = tell(record)
            if wanted.grep is None or wanted.grep.search(text):
                yield Line(record.ident, record.at_us, None, who(record), text, record.kind, record.values)


def show(trace: Path, wanted: Filter, *, as_text: bool, follow: bool) -> None:
    """Print what passes the filter; on stderr which wanted kinds no record has.  Raises InputError."""
    kinds: dict[str, None] = {}
    shown = _show(
        lines(_noting(_growing(trace) if follow else records(trace), kinds), wanted), as_text, follow
    )
    unknown = [kind for kind in wanted.kinds if kind not in kinds]
    for kind in unknown:
        known = ", ".join(sorted(kinds))
        print(f'no record is of the kind "{kind}"; there are: {known}', file=sys.stderr)
    if not shown and not unknown:
        print("no record is like that", file=sys.stderr)


def _noting(found: Iterator[Record], kinds: dict[str, None]) -> Iterator[Record]:
    for record in found:
        kinds[record.kind] = None
        yield record


def _show(found: Iterator[Line], as_text: bool, follow: bool) -> int:
    """Print the lines; how many there were."""
    count = 0
    for line in found:
        count += 1
        if as_text:
            print(f"{line.ident:>8} {row(line)}", flush=follow)
        else:
            print_json([as_json(line)])
    return count


def _growing(trace: Path) -> Iterator[Record]:
    """The records of a file that is being written, as they come, up to its end mark."""
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
