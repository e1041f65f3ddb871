"""What a hunt keeps in a file, one JSON line each, from which a later start continues.

The first line says of which scenario it is; then come the candidates that showed something new, the
findings, and the counts so far.  The file is also a collection of examples: what it holds is run
first by another version of the program.

Holds: an incomplete last line (the writer was killed) is removed; one process at a time writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec

from sim.app.hunt.corpus import Entry
from sim.app.hunt.finding import Finding
from sim.app.hunt.ground import Ground
from sim.app.hunt.judging import PROGRAMS, without_programs
from sim.app.hunt.search import Search, Tally
from sim.app.process.own_programs import sources_digest
from sim.app.study.outcome import program_digest
from sim.errors import InputError
from sim.files import claim, write_all

_FORMAT = "orrery-hunt/1"


class _Line(msgspec.Struct, omit_defaults=True):
    """One line; exactly one field is given."""

    hunt: dict[str, Any] | None = None
    entry: Entry | None = None
    finding: Finding | None = None
    tally: Tally | None = None


class Kept:
    """The file of a hunt, open for more.  Without a file: nothing is kept."""

    def __init__(self, lines: FileIO | None) -> None:
        self._lines = lines

    def put(self, what: Entry | Finding | Tally) -> None:
        """Write one line."""
        match what:
            case Entry():
                self._write(_Line(entry=what))
            case Finding():
                self._write(_Line(finding=what))
            case Tally():
                self._write(_Line(tally=what))

    def _write(self, line: _Line) -> None:
        if self._lines is not None:
            write_all(self._lines.fileno(), msgspec.json.encode(line) + b"\n")


@contextmanager
def kept_in(file: Path | None, ground: Ground, search: Search) -> Iterator[Kept]:
    """Give a search what a file holds, and keep there what it meets.  Raises InputError if the file
    is not that of a hunt of this scenario.
    """
    if file is None:
        yield Kept(None)
        return
    program = program_digest() + sources_digest(ground.document.get(PROGRAMS, {}).values())
    head = {"format": _FORMAT, "scenario": _key(ground), "program": program}
    with FileIO(file, "ab+") as lines:
        if not claim(lines.fileno()):
            raise InputError("another hunt is writing it", str(file), "wait for it, or give another file")
        lines.seek(0)
        data = lines.readall()
        whole = data.rfind(b"\n") + 1
        result = [_line(line, number, file) for number, line in enumerate(data[:whole].splitlines(), 1)]
        if result and (result[0].hunt or {}).get("scenario") != head["scenario"]:
            remedy = "give another file, or the scenario, settings and section `hunt` of that one"
            raise InputError("is of a hunt of another scenario", str(file), remedy)
        lines.truncate(whole)
        stored = Kept(lines)
        if not result:
            stored._write(_Line(hunt=head))
        elif (result[0].hunt or {})["program"] == head["program"]:
            entries = [line.entry for line in result if line.entry is not None]
            findings = [line.finding for line in result if line.finding is not None]
            documents = [*(one.document for one in entries), *(one.document for one in findings)]
            if any(one.get(PROGRAMS) != ground.document.get(PROGRAMS) for one in documents):
                raise InputError("is of a hunt with other programs", str(file), "give another file")
            tallies = [line.tally for line in result if line.tally is not None]
            search.restore(entries, findings, tallies[-1] if tallies else Tally())
        else:
            kinds = [line.finding or line.entry for line in result]
            own = {key: value for key, value in ground.document.items() if key == PROGRAMS}
            search.run_first([{**without_programs(one.document), **own} for one in kinds if one is not None])
        try:
            yield stored
        finally:
            stored.put(search.tally)


def _line(line: bytes, number: int, file: Path) -> _Line:
    try:
        return msgspec.json.decode(line, type=_Line)
    except msgspec.DecodeError as error:
        remedy = "give the file of an earlier hunt"
        raise InputError(f"not a line of a hunt: {error}", f"{file}:{number}", remedy) from None


def _key(ground: Ground) -> str:
    """A digest that is equal for hunts of the same scenario with the same section."""
    parts = (ground.document, msgspec.to_builtins(ground.hunt))
    return sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()
