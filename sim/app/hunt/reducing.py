"""Shrinking by runs: a document that fails to the smallest one that fails by the same cause.

Turns a document into the causes of its failures, in this process or in a pool, and a failing
document into a smaller one.

Holds: if a document holds without its drawn steps, so does the smaller one: it does not fail
       because something that has to be there is gone.  It fails in a run of the first duration too,
       and not because the shorter run ends before something has happened.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, ClassVar

import msgspec

from sim.app.hunt.causes import cause_of_error, causes_of
from sim.app.hunt.judging import Trial, planned, trial
from sim.app.hunt.shrinking.documents import items, whole, with_value, without
from sim.app.hunt.shrinking.engine import BUDGET, Shrunk, shrink
from sim.app.hunt.shrinking.numbers import duration_of
from sim.app.hunt.shrinking.passes import DURATION, EXPECT, TIMELINE
from sim.app.process.interrupts import interruptible
from sim.app.run import Result, run_plan
from sim.app.study.outcome import KEY_LENGTH, Key, Outcome, outcome_of
from sim.app.study.pool import Pool
from sim.app.travel import Job as Run
from sim.app.travel import Rest, Sharing
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.kernel import read
from sim.report.story import Book
from sim.scenario.plan.plan import Plan
from sim.units import SECOND, Virtual

Document = Mapping[str, Any]
FORK_S = 0.2  # a beginning that takes less is run again: a fork and its copied pages cost as much


class Explanation(Outcome, frozen=True, omit_defaults=True):
    """The result of a run of a document, with the keys of the causes of its failures."""

    causes: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The causes; of a run that ended with an exception, that of its text."""
        return (cause_of_error(self.error).key,) if self.error else self.causes


@dataclass(frozen=True, slots=True)
class Explained(Trial):
    """A document to run, of which failures are explained."""

    answer: ClassVar[type[Outcome]] = Explanation

    def run(self) -> Outcome:
        """Run it to its end, in this process or in one that continues from the instant."""
        document, _, folder = pickle.loads(self.plan)
        return EXPLAINED(Run(planned(document, (), folder), self.seed, self.rest_us, self.key))


def _explanation(run: Run, rest: Rest | None) -> Explanation:
    """Run a plan to its end and explain its failures."""
    result, book = _with_book(run.plan, run.seed, rest)
    causes = tuple(dict.fromkeys(each.key for each in causes_of(result.verdicts, book)))
    key = (run if rest is None else rest.job).more
    return Explanation(**msgspec.structs.asdict(outcome_of(key, result)), causes=causes)


EXPLAINED = Sharing(_explanation)  # those of this process


def with_book(document: Document, folder: Path, seed: int) -> tuple[Result, Book | None]:
    """Run a document; returns the result, and the trace if an expectation failed."""
    return _with_book(planned(document, (), folder), seed, None)


def _with_book(plan: Plan, seed: int, rest: Rest | None) -> tuple[Result, Book | None]:
    """As `with_book`, of a plan.  rest: where the run rests, which may be continued with others"""
    place = Path(mkdtemp(prefix="orrery-"))
    trace = place / "trace"
    run = partial(run_plan, plan, seed=seed, picture=False, audited=False, trace_file=trace, rest=rest)
    leave = partial(rmtree, place, ignore_errors=True)
    if rest is not None:
        rest.leave = leave
    try:
        result = interruptible(run)
        trace = trace if rest is None else rest.trace or trace
        return result, None if result.ok else Book(read(trace))
    finally:
        (leave if rest is None or rest.trace is None else rest.remove)()


def explained(document: Document, folder: Path = Path(), rest_us: int = 0) -> Explained:
    """The job that runs a document and explains its failures.

    rest_us: the instant from which it differs from others, if that is not the start
    """
    job = trial(document, folder=folder)
    key = sha256(f"explained {job.key}".encode()).hexdigest()[:KEY_LENGTH]
    return Explained(Key(key), job.seed, job.plan, job.programs, Virtual(rest_us))


def smallest(
    document: Document,
    cause: str,
    pool: Pool,
    *,
    own: Collection[str] = (),
    folder: Path = Path(),
    budget: int = BUDGET,
    batch: int = 1,
) -> Shrunk:
    """The smallest document that shrinking reaches and that fails by the same cause.

    cause: the key of one of its causes
    own: names of the steps that were not drawn; so are those without a name
    folder: of the files that it names; the result names none
    budget: at most so many documents are run
    batch: so many are run at once
    """

    document = whole(document, folder)
    entry: dict[str, tuple[str, ...]] = {}  # the causes of documents that were compared with
    beginning, pace = _Beginning(document), 0.0  # real seconds of a run for each virtual one

    def keys(documents: Sequence[Document]) -> list[tuple[str, ...]]:
        nonlocal pace
        jobs = [explained(each, folder, beginning.shared_by(each, pace)) for each in documents]
        outcomes = {each.key: each for each in pool({job.key: job for job in jobs}.values())}
        answers = [outcomes.get(job.key) for job in jobs]
        pace = min(_paces(jobs, answers), default=pace)
        return [each.keys if isinstance(each, Explanation) else () for each in answers]

    def compared(documents: Sequence[Document]) -> list[tuple[str, ...]]:
        """As `keys`, of documents that are likely to come again."""
        names = [explained(each, folder).key for each in documents]
        new = {name: each for name, each in zip(names, documents, strict=True) if name not in entry}
        entry.update(zip(new, keys([*new.values()]), strict=True))
        return [entry[name] for name in names]

    def holds_calmly(document: Document) -> bool:
        (causes,) = compared([_calm(document, own)])
        return all(_end(key) != _end(cause) for key in causes)

    def still_fails(documents: Sequence[Document]) -> list[bool]:
        nonlocal beginning
        result = [
            cause in causes
            and (not checked or holds_calmly(each))
            and (at_once or cause in compared([with_value(each, DURATION, duration)])[0])
            for each, causes in zip(documents, keys(documents), strict=True)
        ]
        if True in result:  # the first is what the next candidates are made from
            beginning = _Beginning(documents[result.index(True)])
        return result

    def sound(candidate: Document) -> bool:
        try:
            planned(candidate, (), folder)
        except InputError:
            return False
        return True

    duration = document["spec"].get("duration", "10m")
    at_once = _is_decided_at_once(document, _end(cause))
    checked = holds_calmly(document)
    alone = [each for each in items(document, *EXPECT) if each.get("name") == _end(cause)]
    only = with_value(document, EXPECT, alone)
    if still_fails([only])[0]:  # expectations do not change a run
        document = only
    return shrink(document, still_fails, sound=sound, budget=budget, batch=batch)


def _paces(jobs: Sequence[Explained], outcomes: Sequence[Outcome | None]) -> Iterator[float]:
    """The real seconds for each virtual one of the runs from the start."""
    for job, outcome in zip(jobs, outcomes, strict=True):
        if outcome is not None and outcome.virtual_s and not job.rest_us:
            yield outcome.wall_s / outcome.virtual_s


class _Beginning:
    """What a document has in common with candidates that are made from it: all up to its first
    step.

    at_us: the last instant before that; 0 if there is none
    """

    def __init__(self, document: Document) -> None:
        self.at_us = min(_starts(document), default=0) - 1
        self._rest = _without_steps(document)

    def shared_by(self, candidate: Document, pace: float) -> int:
        """The instant up to which the run of a candidate is the same; 0 if that is not known, or if
        to run it once is not worth while.

        pace: real seconds of a run for each virtual one
        """
        pays = self.at_us / SECOND * pace > FORK_S
        alike = pays and _without_steps(candidate) == self._rest
        return self.at_us if alike and min(_starts(candidate), default=self.at_us) >= self.at_us else 0


def _starts(document: Document) -> Iterator[int]:
    """The earliest instants of the steps that have one."""
    for step in items(document, *TIMELINE):
        us = duration_of(str(step.get("at", "")).partition("..")[0])
        if us is not None:
            yield us


def _without_steps(document: Document) -> Document:
    """The document without what differs between runs with a common beginning."""
    rest: Document = without(document, [TIMELINE, DURATION, ("metadata",)])
    return rest


def _calm(document: Document, own: Collection[str]) -> Document:
    """The document without the steps that were drawn."""
    steps = [each for each in items(document, *TIMELINE) if each.get("name", "") in ("", *own)]
    calm: Document = with_value(document, TIMELINE, steps)
    return calm


def _is_decided_at_once(document: Document, expectation: str) -> bool:
    """True for an expectation that fails at an instant, so that a longer run fails too."""
    kinds = [each for each in items(document, *EXPECT) if each.get("name") == expectation]
    return any(kind in each for each in kinds for kind in ("never", "unavailability"))


def _end(key: str) -> str:
    """The expectation of a key."""
    return key.rpartition(" > ")[2]
