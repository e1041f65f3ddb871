"""`orrery diff A B`: the first event in which two runs differ, the events before it and its causes
in each run; and the verdicts of both runs, and their pictures, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from sim.app.inspect.traces import as_json, header, print_lines, row, to_stderr, up_to_a_cut
from sim.app.process.printed import json_line, print_table, visible
from sim.files import write_text
from sim.kernel import Record
from sim.report.comparison import Compared, Side, compare_verdicts, render_comparison, shown
from sim.report.story import Book, Line
from sim.units import SECOND

CONTEXT = 3  # events shown before the first difference
MOVED = "steps stand at other places in the two scenario files, which is no event"
CAUSES_MAX = 12  # links shown of each run's chain


def diff(first: Path, second: Path, *, as_text: bool, report: Path | None = None) -> bool:
    """Print the first difference of two traces and their verdicts; returns True if there is no
    difference.  Raises InputError.

    report: file of an HTML page with both runs side by side
    """
    heads = header(first), header(second)
    common: list[Record] = []
    parted: tuple[Record | None, Record | None] | None = None
    notes: list[str] = []  # about incomplete files, and about differences without effect
    moved = False
    outcomes: dict[Path, Mapping[str, Any]] = {}
    pairs: Iterator[tuple[Record | None, Record | None]] = zip_longest(
        up_to_a_cut(first, notes.append, partial(outcomes.setdefault, first)),
        up_to_a_cut(second, notes.append, partial(outcomes.setdefault, second)),
    )
    for a, b in pairs:  # to the ends, where incomplete files are detected
        if parted is not None:
            continue
        if a is None or b is None or not (a == b or _elsewhere(a, b)):
            parted = a, b
        else:
            moved = moved or a != b
            common.append(a)
    if moved:
        notes.append(MOVED)
    for note in notes:
        to_stderr(note)
    compared = compare_verdicts(outcomes.get(first), outcomes.get(second))
    if as_text:
        _print((first, second), heads, common, parted)
        if len(outcomes) == 2:
            _print_verdicts(compared)
    else:
        verdicts = [
            {"name": one.name, "same": one.same, "first": one.first, "second": one.second} for one in compared
        ]
        print(json_line({**_json(heads, common, parted), "verdicts": verdicts, "notes": notes}))
    if report is not None:
        sides = [
            Side(str(file), _facts(head), outcomes.get(file), chain)
            for file, head, chain in zip((first, second), heads, _chains(common, parted), strict=True)
        ]
        differences = [] if parted is None else [*_settings(heads), *_differences(*parted)]
        page = render_comparison((sides[0], sides[1]), _parted(common, parted), differences, notes)
        write_text(report, page)
        if as_text:
            print(visible(f"report: {report}"))
    return parted is None


def _facts(head: Mapping[str, Any]) -> str:
    """What is special in a run: its scenario, its seed and its settings."""
    settings = (f"--set {setting}" for setting in head.get("settings", ()))
    return ", ".join([str(head.get("scenario", "a cluster")), f"seed {head.get('seed', 0)}", *settings])


def _parted(common: Sequence[Record], parted: tuple[Record | None, Record | None] | None) -> str:
    """The sentence that says in which event two runs part."""
    if parted is None:
        return f"the same {len(common):,} events"
    return f"they differ from event {len(common) + 1:,} on, after {len(common):,} equal events"


def _chains(common: list[Record], parted: tuple[Record | None, Record | None] | None) -> list[list[Line]]:
    """The causes of the first event that is different, in each run."""
    if parted is None:
        return [[], []]
    return [[] if last is None else Book([*common, last]).story(last) for last in parted]


def _print_verdicts(compared: Sequence[Compared]) -> None:
    """Print the expectations with another verdict or measured value in the second run."""
    rows = [(one.name, shown(one.first), shown(one.second)) for one in compared if not one.same]
    if rows:
        print_table([("expectation", "A", "B"), *rows])


def _elsewhere(first: Record, second: Record) -> bool:
    """True if two records are of one step at different lines of its file, which was edited above
    the step.
    """
    if first.kind != "step" or second.kind != "step":
        return False
    when = (first.at_us, first.cause) == (second.at_us, second.cause)
    return when and {**first.values, "place": ""} == {**second.values, "place": ""}


def _print(
    files: tuple[Path, Path],
    heads: tuple[Mapping[str, Any], Mapping[str, Any]],
    common: list[Record],
    parted: tuple[Record | None, Record | None] | None,
) -> None:
    for line in _settings(heads):
        print(visible(line))
    for name in dict.fromkeys([*heads[0], *heads[1]]):
        if name not in ("settings", "places", "document") and heads[0].get(name) != heads[1].get(name):
            print(visible(f"{name}: {heads[0].get(name)} and {heads[1].get(name)}"))
    print(_parted(common, parted))
    if parted is None:
        return
    book = Book(common)
    for record in common[-CONTEXT:]:
        print("  " + row(book.line(record, None)))
    for line in _differences(*parted):
        print(visible(f"  {line}"))
    for mark, file, last in zip("<>", files, parted, strict=True):
        print(visible(f"{mark} {file}"))
        if last is None:
            print("  has no more events")
        else:
            print_lines(Book([*common, last]).story(last), CAUSES_MAX)


def _settings(heads: tuple[Mapping[str, Any], Mapping[str, Any]]) -> list[str]:
    """The settings (`--set`) of one run that the other lacks or has with another value."""
    first, second = (_set(head.get("settings", ())) for head in heads)
    return [
        f"--set {key}: {first.get(key, 'not set')} and {second.get(key, 'not set')}"
        for key in dict.fromkeys([*first, *second])
        if first.get(key) != second.get(key)
    ]


def _set(settings: Sequence[str]) -> dict[str, str]:
    """The value of each key; of several values the last one counts."""
    parts = (setting.partition("=") for setting in settings)
    return {key.removeprefix("spec."): value for key, _, value in parts}


def _differences(first: Record | None, second: Record | None) -> list[str]:
    """The differing values of two records of one kind, because their lines may read the same."""
    if first is None or second is None or first.kind != second.kind:
        return []
    differences = []
    if first.at_us != second.at_us:
        differences.append(f"time: {first.at_us / SECOND:.6f}s and {second.at_us / SECOND:.6f}s")
    if first.cause != second.cause:
        differences.append(f"cause: event {first.cause} and {second.cause}")
    for name in dict.fromkeys([*first.values, *second.values]):
        ours, theirs = first.values.get(name), second.values.get(name)
        if ours != theirs:
            differences.append(f"{name}: {ours} and {theirs}")
    return differences


def _json(
    heads: tuple[Mapping[str, Any], Mapping[str, Any]],
    common: list[Record],
    parted: tuple[Record | None, Record | None] | None,
) -> dict[str, Any]:
    book = Book(common)
    sides = (
        []
        if parted is None
        else [
            {
                "header": {key: value for key, value in head.items() if key != "document"},
                "chain": []
                if record is None
                else [as_json(line) for line in Book([*common, record]).story(record)],
            }
            for head, record in zip(heads, parted, strict=True)
        ]
    )
    differences = [] if parted is None else _differences(*parted)
    before = [as_json(book.line(record, None)) for record in common[-CONTEXT:]]
    return {
        "same": parted is None,
        "settings": _settings(heads),
        "events_in_common": len(common),
        "before": before,
        "differences": differences,
        "sides": sides,
    }
