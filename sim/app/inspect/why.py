"""`orrery why TRACE pod/x`: the chain of causes from a fault or a user's action to an object's end.

A lease that a candidate for leader is refused may never have been written: the refusal is the
answer then, of the lease and of the daemon that it was refused to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from sim.api.scheme.scheme import Scheme
from sim.api.store import path_of
from sim.app.inspect.traces import (
    as_json,
    header,
    key_named,
    print_lines,
    scheme_of,
    to_stderr,
    up_to_a_cut,
)
from sim.app.process.printed import json_line, visible
from sim.errors import InputError
from sim.kernel import Record
from sim.report.story import DELETED, Book, Line, about, choices, chosen, notable, tell, who

FAILED = "phase=Failed"

REFUSED = "refused"  # of a lease: the refusal to a candidate for leader
LINES_MAX = 40  # of a chain, unless `full`


def why(
    trace: Path, target: str, namespace: str, *, what: str = "", event: int = 0, as_text: bool, full: bool
) -> None:
    """Print the story.  Raises InputError."""
    story = find_story(trace, target, namespace, what=what, event=event)
    if as_text:
        print(visible(story.title))
        print_lines(story.lines, 0 if full else LINES_MAX)
    else:
        record = story.record
        head = {"record": record.ident, "at_us": record.at_us, "text": story.subject}
        print(json_line({**head, "chain": [as_json(line) for line in story.lines]}))


class FoundStory(NamedTuple):
    """What led to a record: the record, what it says, and the chain of causes."""

    record: Record
    subject: str
    title: str
    lines: Sequence[Line]


def find_story(
    trace: Path,
    target: str,
    namespace: str = "default",
    *,
    what: str = "",
    event: int = 0,
    remark: Callable[[str], object] = to_stderr,
) -> FoundStory:
    """The story of an object or of a record.  Raises InputError.

    remark: called with what else a user should know: a file without end, several objects that match
    """
    head = header(trace)
    book = Book(up_to_a_cut(trace, remark))
    if event:
        record = book.get(event)
        if record is None:
            raise InputError(f"there is no record {event}, the last is {len(book.records)}", str(trace))
    else:
        record = _of_daemon(book, target, what)
        if record is None:
            record = _find(book, trace, _key(book, scheme_of(head), target, namespace), what, remark)
    title = _title(book, record, head.get("scenario", ""))
    lines = book.story(record)
    if not event and not what and record.values.get("key"):
        key = record.values["key"]
        lines += book.programs(key, [line.ident for line in lines])
        # What is in the way of the object, or delayed the end of its deletion.
        waits = book.waits(key) or book.waited(key, record.at_us)
        known = {line.ident for line in lines}
        lines += [line for line in waits if line.ident > record.ident and line.ident not in known]
        later = [each for each in _refusals(book, path_of(key)) if each.ident > record.ident]
        lines += [book.line(each, record) for each in later[-1:]]
    return FoundStory(record, _subject(book, record), title, lines)


def story_so_far(copy: Path, target: str, namespace: str, what: str) -> FoundStory:
    """The story of an object in a copy of the trace of a run that is not over.

    Raises InputError, which does not name the copy: it is of no interest to a user.
    """
    try:
        return find_story(copy, target, namespace, what=what, remark=lambda _: None)
    except InputError as error:
        message = error.message.replace(" in it", " in the run so far")
        raise InputError(message, "", error.remedy) from None


def _key(book: Book, scheme: Scheme, target: str, namespace: str) -> str:
    """The store's key for an object as a user names it.  Raises InputError, with the objects of
    that name if their resource is missing or wrong.
    """
    try:
        return key_named(scheme, target, namespace)
    except InputError as error:
        name = target.rsplit("/", 1)[-1]
        known = dict.fromkeys(r.values["key"] for r in book.records if r.kind == "write")
        near = set(get_close_matches(name, [key.rsplit("/", 1)[-1] for key in known], n=3, cutoff=0.5))
        alike = [path_of(key) for key in known if key.rsplit("/", 1)[-1] in near][:3]
        if not alike:
            raise
        raise InputError(error.message, error.place, f"there is {', '.join(alike)}") from None


def _find(book: Book, trace: Path, key: str, what: str, remark: Callable[[str], object]) -> Record:
    if any(mark in key for mark in "*?["):
        key = _first_alike(book, trace, key, what, remark)
    found = about(book, key)
    refusals = _refusals(book, path_of(key)) if what in ("", REFUSED) else []
    if refusals and (what or not found):
        return refusals[-1]
    if not found:
        raise InputError(f"{path_of(key)} is not in it", str(trace), _near(book, key))
    if not what:
        return notable(found)
    record = chosen(found, what)
    if record is None:
        remedy = "to choose from: " + ", ".join(choices(found))
        raise InputError(f'nothing like "{what}" happened to {path_of(key)}', str(trace), remedy)
    return record


def _refusals(book: Book, target: str) -> list[Record]:
    """The decisions of candidates for leader that were refused a lease, of a lease ("leases/…") or
    of a process by its name.
    """
    return [
        record
        for record in book.records
        if record.kind == "decision"
        and record.values["what"] == "refused-lease"
        and target in (record.values["target"], record.values["actor"])
    ]


def _of_daemon(book: Book, target: str, what: str) -> Record | None:
    """The last refusal of a lease to the process of this name, or to a replica of the daemon.

    Raises InputError if there is such a process, to which nothing of the kind happened.
    """
    processes = dict.fromkeys(record.values["name"] for record in book.records if record.kind == "actor")
    replicas = [name for name in processes if target in (name, name.rpartition("-")[0])]
    if not replicas or any(name in book.nodes for name in replicas):
        return None
    found = [each for name in replicas for each in _refusals(book, name)]
    if not found or what not in ("", REFUSED):
        raise InputError(
            f"no lease was refused to {target}", "", "name an object, e.g. lease/NAME -n NAMESPACE"
        )
    return max(found, key=lambda record: record.ident)


def _first_alike(book: Book, trace: Path, pattern: str, what: str, remark: Callable[[str], object]) -> str:
    """The object with a key that matches a pattern to which `what` happened first; by default the
    first that was deleted, or the first that failed if there is none.
    """
    of_key: dict[str, list[Record]] = {}
    for record in book.records:
        if record.kind in ("write", "change"):
            of_key.setdefault(record.values["key"], []).append(record)
    alike = [key for key in of_key if fnmatchcase(key, pattern)]
    if not alike:
        parts = pattern.split("/")
        elsewhere = [key for key in of_key if fnmatchcase(key, "/".join([*parts[:3], "*", *parts[4:]]))]
        remedy = f"there is {path_of(elsewhere[0])}" if elsewhere else ""
        raise InputError(f"nothing in it matches {path_of(pattern)}", str(trace), remedy)
    key = alike[0]
    for wanted in (what,) if what else (DELETED, FAILED):
        ends = [(end.ident, key) for key in alike if (end := chosen(of_key[key], wanted)) is not None]
        if ends:
            key = min(ends)[1]
            break
    if len(alike) > 1:
        remark(f"{len(alike)} match {path_of(pattern)}; this is {path_of(key)}")
    return key


def _near(book: Book, key: str) -> str:
    """Objects with a similar name in any namespace, as a remedy."""
    resource = key.split("/")[2]
    known = dict.fromkeys(r.values["key"] for r in book.records if r.kind == "write")
    alike = [other for other in known if other.split("/")[2] == resource]
    same = [other for other in alike if other.rsplit("/", 1)[-1] == key.rsplit("/", 1)[-1]]
    longer = [other for other in alike if other.startswith(key)][:3]
    near = same or longer or get_close_matches(key, alike, n=3, cutoff=0.3)
    return "there is " + ", ".join(path_of(other) for other in near) if near else ""


def _subject(book: Book, record: Record) -> str:
    return tell(record, () if record.kind == "change" else book.changes(record))


def _title(book: Book, record: Record, scenario: str) -> str:
    where = f" ({scenario})" if scenario else ""
    actor = "" if record.kind == "change" else f"{who(record)} "
    return f"why {actor}{_subject(book, record)}{where}"
