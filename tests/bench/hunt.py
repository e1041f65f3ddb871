"""How fast a hunt finds the planted bugs, beside drawing blindly.

    python -m tests.bench.hunt [NAME ...] [--seeds 10] [--runs 2000] [-j 1] [--no-shrink] [--plain]

For each bug of `tests.planted` and each seed of a hunt: the number of candidates that are run until
one fails, by the search and by blind drawing, with the seconds of their runs; then the size of the
story to which the first failure shrinks.  The last line has the geometric mean of the ratio of
both.

--plain draws candidates without the bugs, as many as --runs says, and prints those that fail: such
a failure is a fault of this program, or true to upstream.
"""

from __future__ import annotations

import argparse
import gc
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from math import exp, log
from multiprocessing import get_context
from statistics import median
from typing import Any, NamedTuple

from sim.app.hunt.ground import ground_of
from sim.app.hunt.judging import Judgement
from sim.app.hunt.reducing import EXPLAINED, Explanation, explained, smallest
from sim.app.hunt.search import Search
from sim.app.hunt.story import story
from sim.app.study.outcome import COLLECT_EVERY, Job, Outcome, perform
from sim.faults import FAULTS
from tests.planted.catalogue import PLANTED

FAULTS_MAX, SCREEN = 3, 60  # of a story: faults, and lines of a terminal
BUGS = {bug.name: bug for bug in PLANTED}


class Hunted(NamedTuple):
    """The end of a hunt.

    runs: number of candidates that were run
    document: the one that failed; None if none did
    """

    runs: int
    seconds: float
    document: dict[str, Any] | None


class Told(NamedTuple):
    """The size of a shrunk story: its faults, the lines of its file, and the runs that it took."""

    faults: int
    lines: int
    runs: int
    text: str


def hunted(name: str, seed: int, runs: int, blind: bool) -> Hunted:
    """Hunt for one bug until a candidate fails, or for so many runs."""
    bug = BUGS[name]
    search = Search(ground_of(bug.path), seed, blind=blind)
    seconds, count = 0.0, 0
    with bug.plant():
        for job in search.jobs(lambda: search.tally.numbers < runs):
            outcome = perform(job)
            search.take(outcome)
            seconds += outcome.wall_s
            count += isinstance(outcome, Judgement)
            if outcome.error:
                print(f"{name}, hunt {seed}, run {count}: {outcome.error}", file=sys.stderr)
            if count % COLLECT_EVERY == 0:
                gc.collect()
            if isinstance(outcome, Judgement) and outcome.failed and not outcome.error:
                return Hunted(count, seconds, _document(job))
    return Hunted(count, seconds, None)


def _document(job: Job) -> dict[str, Any]:
    document: dict[str, Any] = pickle.loads(job.plan)[0]
    return document


def told(name: str, document: dict[str, Any]) -> Told | None:
    """Shrink a document that fails, and write its story."""
    bug = BUGS[name]
    with bug.plant(), EXPLAINED:  # what rests has the bug
        outcome = perform(explained(document, bug.path.parent))
        if not isinstance(outcome, Explanation) or not outcome.keys:
            return None
        cause = outcome.keys[0]
        own = [step["name"] for step in bug.document()["spec"].get("timeline", ()) if "name" in step]
        small = smallest(document, cause, _in_process, own=own, folder=bug.path.parent)
        text = story(small.document, cause, before=document, runs=small.runs)
    steps = small.document["spec"].get("timeline", ())
    faults = sum(any(kind.name in step for kind in FAULTS) for step in steps)
    return Told(faults, len(text.splitlines()), small.runs, text)


def _in_process(jobs: Iterable[Job]) -> Iterator[Outcome]:
    return map(perform, jobs)


def plain_failures(name: str, runs: int) -> list[str]:
    """What fails of the scenario of a bug without it, in as many candidates of the search."""
    failures: list[str] = []
    search = Search(ground_of(BUGS[name].path), 0)
    for job in search.jobs(lambda: search.tally.numbers < runs):
        outcome = perform(job)
        search.take(outcome)
        if isinstance(outcome, Judgement) and outcome.failed:
            steps = _document(job)["spec"]["timeline"][search.ground.own_steps :]
            failures.append(f"{name} seed {outcome.seed}: {', '.join(outcome.failed)}: {steps}")
    return failures


def _median(hunts: Sequence[Hunted]) -> str:
    """The median number of runs, with a sign if more than half of the hunts found nothing."""
    middle = median(sorted(one.runs for one in hunts))
    unfinished = sum(one.document is None for one in hunts) * 2 > len(hunts)
    return f"{'>' if unfinished else ''}{middle:.0f}"


def measure(names: Sequence[str], seeds: int, runs: int, shrinks: bool, pool: Executor) -> None:
    """Print the row of each bug, and the mean of the ratios."""
    print("| bug | runs | seconds | blind: runs | seconds | story: faults | lines | runs to shrink |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    ratios: list[float] = []
    for name in names:
        led, blind = (
            list(pool.map(hunted, *zip(*((name, seed, runs, way) for seed in range(seeds)), strict=True)))
            for way in (False, True)
        )
        ratios.append(median(one.runs for one in led) / median(one.runs for one in blind))
        document = next((one.document for one in led if one.document is not None), None)
        size = pool.submit(told, name, document).result() if shrinks and document is not None else None
        seconds = [f"{median(one.seconds for one in hunts):.0f}" for hunts in (led, blind)]
        cells = [name.replace("_", " "), _median(led), seconds[0], _median(blind), seconds[1]]
        cells += ["", "", ""] if size is None else [str(size.faults), str(size.lines), str(size.runs)]
        print(f"| {' | '.join(cells)} |", flush=True)
        if size is not None and (size.faults > FAULTS_MAX or size.lines > SCREEN):
            print(size.text, file=sys.stderr)
    print(f"\ngeometric mean of runs beside blind: {exp(sum(map(log, ratios)) / len(ratios)):.2f}")


def main() -> None:
    """Measure, or look for failures without the bugs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*BUGS], help="bugs (default: all)")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--jobs", "-j", type=int, default=1)
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs, get_context("fork")) as pool:
        if given.plain:
            for failures in pool.map(plain_failures, given.names, [given.runs] * len(given.names)):
                print("\n".join(failures), flush=True)
        else:
            measure(given.names, given.seeds, given.runs, not given.no_shrink, pool)


if __name__ == "__main__":
    main()
