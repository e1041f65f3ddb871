"""`hunt`: looks for runs of a scenario in which what must hold does not.

    from orrery import hunt

    hunted = hunt("shop.yaml", "10m")
    hunted.ok
    print(hunted.stories[0].text)

Turns a scenario into the stories of its failures: it runs the scenario without anything drawn, then
searches within a budget, and makes the first failure of each cause as small as possible.

Holds: what must hold has to hold without a drawn step, or the hunt ends there; an interrupt of the
search keeps what it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from sim.app.hunt.drawing import SEEDS, Drawing
from sim.app.hunt.finding import Finding
from sim.app.hunt.ground import Ground, ground_of, refuse_nothing_to_judge
from sim.app.hunt.judging import PROGRAMS, Judgement, trial, without_programs
from sim.app.hunt.keeping import kept_in
from sim.app.hunt.reducing import smallest
from sim.app.hunt.search import Search, Tally
from sim.app.hunt.story import story
from sim.app.process.interrupts import SIGNALLED, ends_as_interrupts, exit_status
from sim.app.process.own_programs import Program, references, refuse_missing
from sim.app.reference.shipped import scenario_path
from sim.app.study.pool import Pool, cores, processes
from sim.app.study.pool import dask as dask_pool
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.files import write_text
from sim.units import SECOND, parse_duration_us

BUDGET = "5m"
RUNS_MAX = 100_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """For how long a search draws candidates: so many, or so much real time.

    Each candidate is one run; runs that explain failures or make them smaller come on top.
    """

    runs: int = RUNS_MAX
    seconds: float = float("inf")

    @classmethod
    def of(cls, text: str) -> Budget:
        """The budget in words: "10m", or "500 runs".  Raises InputError."""
        number, _, word = text.strip().partition(" ")
        if number.isascii() and number.isdecimal() and word in ("", "run", "runs"):
            count = int(number)
            if word and 0 < count <= RUNS_MAX:
                return cls(runs=count)
            remedy = f"write {number}m or '{number} runs'" if count else "give some time, or some runs"
            raise InputError(f"{text!r} is no budget", "budget", remedy)
        try:
            us = parse_duration_us(text)
        except ValueError:
            raise InputError(f"{text!r} is no budget", "budget", "write 10m or '500 runs'") from None
        if us <= 0:
            raise InputError(f"a budget of {text} finds nothing", "budget", "give some time, or some runs")
        return cls(seconds=us / SECOND)


@dataclass(frozen=True, slots=True)
class Story:
    """A failure as small as it became.

    finding: as the search met it
    document: the scenario that still fails in the same way
    text: the file that a person reads and runs
    runs: in which the document was made smaller
    """

    finding: Finding
    document: Mapping[str, Any]
    text: str
    runs: int = 0
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class Hunted:
    """The result of a hunt.

    plain: what does not hold without a drawn step, each with the seed; then nothing was searched
    left_out: invariants that the scenario does not ask for and does not keep without a drawn step
    best: the most that each target measured, by its name
    stopped: the number of the signal that ended the search; 0 if none did
    """

    name: str
    seed: int
    plain: tuple[tuple[str, int], ...]
    left_out: tuple[str, ...]
    tally: Tally
    stories: tuple[Story, ...]
    best: Mapping[str, float]
    seconds: float
    stopped: int = 0

    @property
    def ok(self) -> bool:
        """True if nothing failed."""
        return not self.plain and not self.stories

    def to_json(self) -> dict[str, Any]:
        """The result as `orrery hunt --json` prints it."""
        return {
            "ok": self.ok,
            "scenario": self.name,
            "seed": self.seed,
            "complete": not self.stopped,
            "fails_without_faults": [{"expectation": name, "seed": seed} for name, seed in self.plain],
            "left_out": list(self.left_out),
            "runs": self.tally.runs,
            "failures": self.tally.failures,
            "seconds": round(self.seconds, 1),
            "best": dict(self.best),
            "findings": [
                {
                    "cause": one.finding.cause,
                    "failed": list(one.finding.failed),
                    "times": self.tally.by_cause.get(one.finding.cause, 0),
                    "steps": len(one.document["spec"].get("timeline", ())),
                    "trace_sha256": one.finding.trace_sha256,
                    "file": None if one.file is None else str(one.file),
                    "document": one.document,
                }
                for one in self.stories
            ],
        }

    def __repr__(self) -> str:
        result = f"{len(self.stories)} causes of {self.tally.failures} failures"
        return f"<hunt of {self.name}: {result} in {self.tally.runs} runs>"


class Watching:
    """Follows a hunt, for a display; this one shows nothing."""

    def judged(self, search: Search, seconds: float) -> None:
        """A run of the search has ended."""

    def shrinks(self, finding: Finding, number: int, count: int) -> None:
        """A failure is made smaller."""


def hunt(
    scenario: str | Path | Mapping[str, Any],
    budget: str = BUDGET,
    *,
    settings: Mapping[str, Any] | None = None,
    programs: Mapping[str, Program | str] | None = None,
    jobs: int | None = None,
    dask: Any = None,
    seed: int = 0,
    failures: int | None = None,
    resume: str | Path | None = None,
    folder: str | Path | None = None,
    blind: bool = False,
    shrink: bool = True,
) -> Hunted:
    """Look for runs of a scenario in which what must hold does not.

    scenario: a file, the name of one that comes along, or the document as a mapping
    budget: the real time of the search, as "10m", or its runs, as "500 runs"
    settings: values that replace those of the scenario, by key
    programs: controllers of yours that run in each candidate as by `Cluster.add_program`, by name:
        functions at the top of a module, or their names as "module:function"
    jobs: number of worker processes; default: one a core
    dask: the address of a Dask scheduler or a client, instead of processes
    seed: of the search
    failures: end the search when so many causes were met
    resume: a file that keeps the search, and from which a later hunt continues
    folder: where the stories are written, each to a new file
    blind: True draws every candidate at random
    shrink: False keeps failing scenarios as they were drawn
    Raises InputError; Ctrl-C ends the search and keeps what it has.
    """
    if dask is not None and jobs is not None:
        raise InputError("is not for a Dask cluster, which has its workers", "jobs")
    ground = ground_of(
        scenario if isinstance(scenario, Mapping) else scenario_path(Path(scenario)),
        [f"{key}={value}" for key, value in (settings or {}).items()],
        references(programs or {}),
    )
    return hunted(
        ground,
        Budget.of(budget),
        processes(jobs or cores()) if dask is None else dask_pool(dask),
        batch=jobs or cores(),
        seed=seed,
        failures=failures,
        resume=None if resume is None else Path(resume),
        folder=None if folder is None else Path(folder),
        blind=blind,
        shrink=shrink,
    )


def hunted(
    ground: Ground,
    budget: Budget,
    pool: Pool,
    *,
    batch: int,
    seed: int,
    failures: int | None = None,
    resume: Path | None = None,
    folder: Path | None = None,
    blind: bool = False,
    shrink: bool = True,
    watching: Watching | None = None,
) -> Hunted:
    """As `hunt`, of a ground and in a pool.  batch: candidates of a shrinking that run at once"""
    watching = watching or Watching()
    refuse_nothing_to_judge(ground)
    names = ground.document["spec"].get("cluster", {}).get("ownPrograms", ())
    refuse_missing(names, ground.document.get(PROGRAMS, {}))
    started = monotonic()
    plain = _plain_failures(ground, pool)
    left_out = tuple(name for name in ground.unasked if any(name == each for each, _ in plain))
    plain = [(name, each) for name, each in plain if name not in left_out]
    ground = ground.without(left_out)
    search = Search(ground, seed, blind=blind)
    if plain:
        return Hunted(ground.name, seed, tuple(plain), left_out, Tally(), (), {}, monotonic() - started)
    stopped = 0
    search.run_first(search.drawing.ordered())
    with kept_in(resume, ground, search) as stored:
        most = search.tally.numbers + budget.runs

        def more() -> bool:
            enough = failures is not None and len(search.findings) >= failures
            return not enough and search.tally.numbers < most and monotonic() - started < budget.seconds

        try:
            with ends_as_interrupts():
                for outcome in pool(search.jobs(more)):
                    for one in search.take(outcome):
                        stored.put(one)
                    watching.judged(search, monotonic() - started)
        except KeyboardInterrupt as error:
            stopped = exit_status(error) - SIGNALLED
    searched_s = monotonic() - started
    stories = []
    for number, finding in enumerate(search.findings.values(), 1):
        watching.shrinks(finding, number, len(search.findings))
        try:
            with ends_as_interrupts():
                story = _story(finding, ground, pool, batch, shrink and not stopped)
        except KeyboardInterrupt as error:
            stopped = exit_status(error) - SIGNALLED
            story = _story(finding, ground, pool, batch, False)
        stories.append(story if folder is None else _written(story, folder, ground.name))
    best = {
        str(ground.hunt.targets[number]["name"]): entry.targets[number]
        for number, entry in sorted(search.corpus.best.items())
    }
    return Hunted(ground.name, seed, (), left_out, search.tally, tuple(stories), best, searched_s, stopped)


def _plain_failures(ground: Ground, pool: Pool) -> list[tuple[str, int]]:
    """What does not hold without a drawn step, under each of the seeds of candidates."""
    drawing = Drawing(ground)
    trials = [trial(drawing.blank(number), folder=ground.folder) for number in range(SEEDS)]
    result: list[tuple[str, int]] = []
    for outcome in pool(trials):
        assert isinstance(outcome, Judgement)
        result += [(name, outcome.seed) for name in outcome.failed]
    return sorted(result, key=lambda pair: pair[1])


def _story(finding: Finding, ground: Ground, pool: Pool, batch: int, shrink: bool) -> Story:
    if not shrink:
        text = story(finding.document, finding.cause, folder=ground.folder)
        return Story(finding, without_programs(finding.document), text)
    own = [str(step["name"]) for step in ground.document["spec"]["timeline"] if "name" in step]
    small = smallest(finding.document, finding.cause, pool, own=own, folder=ground.folder, batch=batch)
    text = story(
        small.document, finding.cause, before=finding.document, runs=small.runs, folder=ground.folder
    )
    return Story(finding, without_programs(small.document), text, small.runs)


def _written(one: Story, folder: Path, name: str) -> Story:
    """Write a story to the first file of the folder that does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while (file := folder / f"{name}-{number}.yaml").exists():
        number += 1
    write_text(file, one.text)
    return Story(one.finding, one.document, one.text, one.runs, file)
