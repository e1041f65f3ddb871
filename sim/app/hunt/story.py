"""The story of a failure: an ordinary scenario file that fails, with what happens in comments.

Turns a document, the verdict that fails and the trace of its run into the text of a file: the
expectation with what was measured, the chain of causes as of `orrery why` with its times, and the
scenario itself.

Holds: a run of the file has the trace that the story names; of a chain of any length it has at most
       LINES_MAX links, and STEPS_MAX steps besides.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.app.hunt.causes import Cause, cause_of, cause_of_error
from sim.app.hunt.judging import PROGRAMS, without_programs
from sim.app.hunt.reducing import with_book
from sim.app.hunt.shrinking.numbers import duration_of, text_of
from sim.app.run import Result
from sim.errors import first_of
from sim.kernel import read
from sim.patterns import pattern
from sim.report.failure import chain_of
from sim.report.story import STEPS, Book, Line, clock, delta
from sim.scenario.writing import WIDTH, scenario_text
from sim.verdict import Verdict
from sim.version import __version__

Document = Mapping[str, Any]
LINES_MAX = 12  # of the chain of causes
STEPS_MAX = 6  # beside it
_ORDER = ("seed", "duration", "cluster", "objects", "timeline", "expect")
_WHEN = ("at", "when", "after", "delay", "every", "rate", "times", "until", "name")
_AFTER = ("for", "by")
_TIMES = ("at", "delay", "every", "for")
_PLACE = pattern(r" \([^() ]*:\d+:\d+\)")


def story(
    document: Document,
    cause: str,
    *,
    before: Document | None = None,
    runs: int = 0,
    folder: Path = Path(),
) -> str:
    """Run a document, and write it as a file with the story of its failure.

    cause: the key of the failure; without such a failure the story is that of the first one
    before: the document that was made smaller, in so many runs
    folder: of the files that it names
    """
    seed = int(document["spec"].get("seed", 0))
    programs = document.get(PROGRAMS, {})
    document = in_order(document)
    origin = wrapped([*_origin(document, before, runs), *_with_programs(programs)])
    try:
        result, book = with_book(document, folder, seed)
    except Exception as failure:  # the run itself is the failure
        error = first_of(failure)
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
        lines = [f"The run ends with an error: {text}", f"Cause: {cause_of_error(text).key}"]
        return scenario_text(without_programs(document), [*wrapped(lines), *origin])
    failed = [(cause_of(each, book), each) for each in result.verdicts if not each.ok]
    chosen = next((pair for pair in failed if pair[0].key == cause), failed[0] if failed else None)
    lines = ["Every expectation holds."]
    if chosen is not None:
        lines = _failure(*chosen, result, book)
        described = {**document["metadata"], "description": f"This fails: {chosen[1].name}."}
        document = {**document, "metadata": described}
    return scenario_text(without_programs(document), [*lines, *origin])


def _with_programs(programs: Mapping[str, str]) -> Iterator[str]:
    """How a file is run if its failure needs programs of the user."""
    if programs:
        options = " ".join(f"--program {name}={reference}" for name, reference in programs.items())
        yield f"Run it with: {options}"


def story_of_test(steps: Sequence[Document], said: Iterable[str], trace: Path, origin: str) -> str:
    """The file of steps with which a test fails, with what happens in comments.

    said: sentences on the failure
    trace: of the cluster of the test
    origin: how the steps were made
    """
    happens = [*_rows(_steps(Book(read(trace))))] if steps and trace.exists() else []
    head = ["What happens, by the virtual time of the test:"] if happens else []
    comments = [*wrapped(said), *head, *happens, *wrapped([origin])]
    return scenario_text({"timeline": [_step_in_order(step) for step in steps]}, comments)


def in_order(document: Document) -> Document:
    """The document with the parts of its `spec` in the usual order, without empty ones."""
    spec = document["spec"]
    keys = [*(key for key in _ORDER if key in spec), *(key for key in spec if key not in _ORDER)]
    parts = {key: spec[key] for key in keys if spec[key] not in ([], {})}
    if "timeline" in parts:
        parts["timeline"] = [_step_in_order(step) for step in parts["timeline"]]
    return {**document, "spec": parts}


def _step_in_order(step: Document) -> Document:
    """A step as authors write it: when, its name, what, for how long."""
    first, last = [key for key in _WHEN if key in step], [key for key in _AFTER if key in step]
    ordered = (*first, *(key for key in step if key not in (*first, *last)), *last)
    return {key: _written(step[key]) if key in _TIMES else step[key] for key in ordered}


def _written(time: Any) -> Any:
    """A time as authors write it: 1m for 60s."""
    us = duration_of(time)
    return time if us is None else text_of(us)


def wrapped(sentences: Iterable[str]) -> list[str]:
    """Sentences as lines."""
    width = WIDTH - len("# ")
    return [line for each in sentences for line in textwrap.wrap(each, width, break_long_words=False)]


def _failure(cause: Cause, verdict: Verdict, result: Result, book: Book | None) -> list[str]:
    """What happens, as lines."""
    bound = f", wanted {verdict.wanted}" if verdict.wanted else ""
    chain = [] if book is None else chain_of(verdict, book)
    lines = [*_shortened(chain), *([] if book is None else _steps(book))]
    return [
        *wrapped([f'"{verdict.name}" fails: measured {verdict.measured}{bound}.']),
        *(["What happens, by the virtual time of the run:"] if lines else []),
        *_rows(lines),
        *wrapped([f"Cause: {cause.key}"]),
        f"orrery {__version__}: trace {result.trace_sha256}",
    ]


def _steps(book: Book) -> list[Line]:
    """The steps of the scenario, which shrinking has left because the failure needs them; of a step
    that repeats the first.
    """
    steps = [each for each in book.records if each.kind in STEPS]
    first = [each for each in steps if each.values["name"].partition("/")[2] in ("", "1")]
    return [book.line(each, None) for each in first[:STEPS_MAX]]


def _shortened(chain: Sequence[Line]) -> list[Line]:
    """A chain without its middle if it is long: the first cause, and the last ones."""
    half = LINES_MAX // 2
    return list(chain) if len(chain) <= LINES_MAX else [*chain[:half], *chain[-half:]]


def _rows(lines: Sequence[Line]) -> Iterator[str]:
    """Lines in the order of the run."""
    ordered = sorted({line.ident: line for line in reversed(lines)}.values(), key=lambda line: line.ident)
    actor_width = max((len(line.actor) for line in ordered), default=0)
    for line in ordered:
        head = f"{clock(line.at_us):>12}  {delta(line):>10}  {line.actor:<{actor_width}}  "
        rest = " " * len(head)
        text = _PLACE.sub("", line.text)
        yield from textwrap.wrap(text, WIDTH - 2, initial_indent=head, subsequent_indent=rest)


def _origin(document: Document, before: Document | None, runs: int) -> Iterator[str]:
    """From what the document was made."""
    if before is not None:
        yield f"Made in {runs} runs of {_size(before)}; this is {_size(document)}."


def _size(document: Document) -> str:
    """How large a scenario is, in words."""
    spec = document["spec"]
    nodes = sum(group.get("count", 0) for group in spec.get("cluster", {}).get("nodes", ()))
    counts = (
        (len(spec.get("timeline", ())), "step"),
        (nodes, "node"),
        (len(spec.get("objects", ())), "object"),
    )
    parts = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts]
    return ", ".join([*parts, spec.get("duration", "10m")])
