"""A test that fails with drawn steps is repeated with fewer and simpler ones, while it fails alike.

Turns a failure of a hunt into the file of its story: the steps that it needs, as a timeline, with
what fails and what happens in comments. It is imported when a test of a hunt has failed.

Holds: a failure is like another if both are of the same class, at the same line of the file of the
test; each failure of a test function that is like an earlier one refers to the story of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from orrery.pytest_plugin import FAILURE, TRIED, Failure, Tried
from sim.app.hunt.judging import planned
from sim.app.hunt.shrinking.engine import Shrunk, shrink
from sim.app.hunt.shrinking.passes import PASSES
from sim.app.hunt.story import story_of_test
from sim.errors import InputError
from sim.files import write_text

PASSES_OF_TESTS = {name: PASSES[name] for name in ("steps", "gaps", "lengths", "times")}
TITLE = "the drawn steps, made smaller"


_STORIES = pytest.StashKey[dict[tuple[str, str, int], str]]()  # by function and failure


def add_story(
    item: pytest.Function,
    report: pytest.TestReport,
    failure: Failure,
    document: Mapping[str, Any],
    *,
    runs: int,
    folder: Path,
) -> None:
    """Repeat a test that has failed, and add to its report the story of its failure.

    document: with the drawn steps and the cluster
    runs: at most so many times it is repeated
    folder: of the file of the story
    """
    stories = item.config.stash.setdefault(_STORIES, {})
    key = item.nodeid.partition("[")[0], failure.kind, failure.line
    if key in stories:
        report.sections.append((TITLE, stories[key]))
        return
    file = folder / f"{item.name.replace('[', '-').rstrip(']')}.yaml"
    stories[key] = f"{item.name} fails like this test, see {_shown(item, file)}"
    report.sections.append((TITLE, _story(item, failure, document, runs, file)))


def _story(
    item: pytest.Function, failure: Failure, document: Mapping[str, Any], runs: int, file: Path
) -> str:
    verdicts: dict[str, bool] = {}  # by the steps

    def still_fails(documents: Sequence[Mapping[str, Any]]) -> list[bool]:
        return [fails(one["spec"]["timeline"]) for one in documents]

    def fails(steps: Sequence[Mapping[str, Any]]) -> bool:
        if str(steps) not in verdicts:
            again = _repeated(item, Tried(steps))
            verdicts[str(steps)] = again is not None and again[:2] == failure[:2]
        return verdicts[str(steps)]

    small = shrink(document, still_fails, sound=_is_sound, budget=runs, passes=PASSES_OF_TESTS)
    with TemporaryDirectory() as place:
        trace = Path(place, "trace")
        last = _repeated(item, Tried(small.document["spec"]["timeline"], trace))
        text = _text(item, last or failure, small, document, trace)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text)
    return f'{text}\nhunt="{_shown(item, file)}" in the marker repeats the test with these steps'


def _shown(item: pytest.Item, file: Path) -> str:
    root = item.config.rootpath
    return str(file.relative_to(root) if file.is_relative_to(root) else file)


def _text(item: pytest.Item, failure: Failure, small: Shrunk, before: Mapping[str, Any], trace: Path) -> str:
    steps, count = small.document["spec"]["timeline"], len(before["spec"]["timeline"])
    where = f" ({item.path.name}:{failure.line})" if failure.line else ""
    said = [f"{item.nodeid} fails: {failure.text}{where}"]
    if not steps:
        said.append("It fails without any of the drawn steps.")
    unit, times = "step" if count == 1 else "steps", "time" if small.runs == 1 else "times"
    return story_of_test(
        steps, said, trace, f"Made of {count} {unit} by repeating the test {small.runs} {times}."
    )


def _is_sound(document: Mapping[str, Any]) -> bool:
    try:
        planned(document)
    except InputError:
        return False
    return True


def _repeated(item: pytest.Function, tried: Tried) -> Failure | None:
    """How a test fails when it is run once more, with its fixtures, without a report."""
    item.stash[TRIED] = tried
    item.stash[FAILURE] = None
    try:
        runtestprotocol(item, log=False, nextitem=None)
    finally:
        del item.stash[TRIED]
        item._report_sections.clear()
    return item.stash[FAILURE]
