"""Shared parts of `orrery why`, `diff` and `show`: reading traces with readable errors, naming
objects, printing lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.app.process.printed import visible
from sim.errors import InputError
from sim.files import replaced, similar
from sim.ident import NAMES
from sim.kernel import CutError, Record, TraceError, read, read_header
from sim.report.failure import Failure
from sim.report.story import Book, Line, clock, delta


def records(path: Path) -> Iterator[Record]:
    """The records of a file.  Raises InputError."""
    try:
        yield from read(path)
    except (TraceError, OSError) as error:
        raise bad(error, path) from None


def to_stderr(note: str) -> None:
    """Print a note to standard error."""
    print(visible(note), file=sys.stderr)


def up_to_a_cut(
    path: Path,
    tell: Callable[[str], object] = to_stderr,
    on_outcome: Callable[[Mapping[str, Any]], object] | None = None,
) -> Iterator[Record]:
    """The records of a file, up to the cut of an incomplete one, which is reported to `tell`.
    Raises InputError.

    on_outcome: called with the outcome of the run, if the file holds one
    """
    try:
        if not (yield from read(path, on_outcome)):
            tell(f"{path} has no end mark: its run was killed or goes on")
    except CutError as error:
        tell(f"{error}; what comes before is read")
    except (TraceError, OSError) as error:
        raise bad(error, path) from None


def header(path: Path) -> Mapping[str, Any]:
    """The header of a trace.  Raises InputError."""
    try:
        return read_header(path)
    except (TraceError, OSError) as error:
        raise bad(error, path) from None


def bad(error: TraceError | OSError, path: Path) -> InputError:
    """The InputError for an error of reading a trace."""
    if isinstance(error, OSError):
        remedy = similar(path) if isinstance(error, FileNotFoundError) else ""
        return InputError(error.strerror or str(error), str(path), remedy)
    return InputError(str(error))


def scheme_of(head: Mapping[str, Any]) -> Scheme:
    """The kinds, by the set of identifiers that the run used."""
    return Scheme(NAMES[head.get("naming", "orch")])


def resource_named(scheme: Scheme, name: str) -> Resource:
    """The resource with this plural, singular or short name.  Raises InputError."""
    target = name.lower()
    for resource in scheme.resources:
        if target in (resource.plural, resource.naming.singular, *resource.naming.short):
            return resource
    raise InputError(f'there is no resource "{name}"', "", "e.g. pod/web-1, node/node-3, deploy/web")


def key_named(scheme: Scheme, text: str, namespace: str) -> str:
    """The store's key for "pod/web-1", or for "pods/default/web-1" as stories name it.  Raises
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
    """A line of a story as text."""
    return visible(f"{clock(line.at_us):>12}  {delta(line):>11}  {line.actor:<24} {line.text}")


def as_json(line: Line) -> dict[str, Any]:
    """A line of a story for JSON output."""
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


def with_causes(result: dict[str, Any], failed: Sequence[Failure]) -> dict[str, Any]:
    """The JSON of a result, in which each failed expectation has its causes."""
    chains = {failure.name: [as_json(line) for line in failure.causes] for failure in failed}
    judged = [
        {**one, "causes": chains[one["name"]]} if one["name"] in chains else one
        for one in result["expectations"]
    ]
    return {**result, "expectations": judged}


def print_lines(lines: Sequence[Line], limit: int = 0) -> None:
    """Print a story; lines in the middle are omitted if there are more than the limit (0: none)."""
    cut = len(lines) - limit if limit else 0
    for index, line in enumerate(lines):
        if cut <= 1 or not 0 <= index - limit // 2 < cut:
            print(row(line))
        elif index == limit // 2:
            print(f"{'…':>12}  {cut} more in between (--full shows them)")


def write_perfetto(trace: Path, file: Path) -> None:
    """Convert a trace, up to its cut if it is incomplete, to a file for https://ui.perfetto.dev.
    Raises InputError.
    """
    from sim.report.perfetto import events

    book = Book(up_to_a_cut(trace))
    with replaced(file) as out:
        out.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
        for index, event in enumerate(events(book)):
            text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
            out.write(((",\n" if index else "") + text).encode())
        out.write(b"\n]}\n")
