"""What `orrery why`, `diff` and `show` share: traces read with errors a person understands, objects
by name, text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.api.schema.resource import Resource
from sim.api.schema.scheme import Scheme
from sim.app.printed import visible
from sim.errors import InputError
from sim.files import replaced
from sim.ident import NAMES
from sim.kernel import CutError, Record, TraceError, read, read_header
from sim.report.story import Book, Line, clock, delta


def records(path: Path) -> Iterator[Record]:
    """The records of a file.  Raises InputError."""
    try:
        yield from read(path)
    except (TraceError, OSError) as error:
        raise bad(error, path) from None


def to_stderr(note: str) -> None:
    print(visible(note), file=sys.stderr)


def up_to_a_cut(path: Path, tell: Callable[[str], object] = to_stderr) -> Iterator[Record]:
    """The records of a file, or those before the place where it is cut off: then that is told.
    Raises InputError.
    """
    try:
        if not (yield from read(path)):
            tell(f"{path} has no end mark: its run was killed or goes on")
    except CutError as error:
        tell(f"{error}; what comes before is read")
    except (TraceError, OSError) as error:
        raise bad(error, path) from None


def header(path: Path) -> Mapping[str, Any]:
    try:
        return read_header(path)
    except (TraceError, OSError) as error:
        raise bad(error, path) from None


def bad(error: TraceError | OSError, path: Path) -> InputError:
    if isinstance(error, OSError):
        return InputError(error.strerror or str(error), str(path))
    return InputError(str(error))


def scheme_of(head: Mapping[str, Any]) -> Scheme:
    """The kinds by the names that the run used."""
    return Scheme(NAMES[head.get("naming", "orch")])


def resource_named(scheme: Scheme, name: str) -> Resource:
    """By plural, singular or short name, as people type it.  Raises InputError."""
    wanted = name.lower()
    for resource in scheme.resources:
        if wanted in (resource.plural, resource.singular, *resource.short_names):
            return resource
    raise InputError(f'there is no resource "{name}"', "", "e.g. pod/web-1, node/node-3, deploy/web")


def key_named(scheme: Scheme, text: str, namespace: str) -> str:
    """The store's key of "pod/web-1", or of "pods/default/web-1" as stories name it.  Raises
    InputError.
    """
    kind, slash, name = text.partition("/")
    if not slash or not name:
        raise InputError(f'"{text}" names no object', "", "write resource/name, e.g. pod/web-1")
    resource = resource_named(scheme, kind)
    if resource.namespaced and "/" in name:
        namespace, _, name = name.partition("/")
    return scheme.key(resource, namespace, name)


def row(line: Line) -> str:
    return visible(f"{clock(line.at_us):>12}  {delta(line):>11}  {line.actor:<24} {line.text}")


def as_json(line: Line) -> dict[str, Any]:
    return {
        "record": line.ident,
        "at_us": line.at_us,
        "delta_us": line.delta_us,
        "actor": line.actor,
        "kind": line.kind,
        "text": line.text,
        "values": dict(line.values),
        "aside": line.aside,
    }


def print_lines(lines: Sequence[Line], limit: int = 0) -> None:
    """A story, its middle left out where it has more lines than the limit (0: none)."""
    cut = len(lines) - limit if limit else 0
    for index, line in enumerate(lines):
        if cut <= 1 or not 0 <= index - limit // 2 < cut:
            print(row(line))
        elif index == limit // 2:
            print(f"{'…':>12}  {cut} more in between (--full shows them)")


def write_perfetto(trace: Path, file: Path) -> None:
    """Turn a trace, as far as it goes, into a file that https://ui.perfetto.dev opens.  Raises
    InputError.
    """
    from sim.report.perfetto import events

    book = Book(up_to_a_cut(trace))
    with replaced(file) as out:
        out.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
        for index, event in enumerate(events(book)):
            text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
            out.write(((",\n" if index else "") + text).encode())
        out.write(b"\n]}\n")
