"""The search: draws candidates, takes what their runs show, and groups their failures by cause.

A share of the candidates is drawn at random; the others are made from candidates that showed
something new (`sim.app.hunt.corpus`).  A run that fails in a way that is not known well is made
once more, with its trace, from which its causes are read.

Holds: a candidate is a function of the seed of the hunt, its number, and the outcomes that were
taken before; with one worker a hunt is a function of its seed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from sim.app.hunt.corpus import Corpus, Entry
from sim.app.hunt.drawing import Drawing
from sim.app.hunt.finding import Finding
from sim.app.hunt.ground import Ground
from sim.app.hunt.judging import Judgement, trial
from sim.app.hunt.reducing import Explanation, explained
from sim.app.study.outcome import Job, Outcome
from sim.dataclass import dataclass

# Of the candidates that are drawn without regard to others in a search that is led, and of those
# that keep a step or two of an earlier one; the rest are changes of one, which climb a target.
# With few fresh ones the search is slower than a blind one on most planted bugs
# (tests.bench.hunt), which need one fault that no earlier run leads to.
FRESH_SHARE, CONTINUED_SHARE = 0.55, 0.3
FRESH_SHARE_OF_TARGETS = 0.25
EXPLAINED_MAX = 8  # failures of the same expectations that are explained though they show nothing
REPEATS_MAX = 50  # draws of candidates that were run already, after which there are no others


@dataclass(frozen=True, slots=True)
class _Candidate:
    number: int
    document: Mapping[str, Any]
    judgement: Judgement | None = None


class Tally(msgspec.Struct):
    """What a search has done so far.

    runs: all runs, also those that explain a failure
    failures: runs in which something that must hold did not
    unsound: candidates that are no sound scenario, because varied values do not go together
    numbers: candidates that were drawn
    by_cause: failures of each cause
    """

    runs: int = 0
    failures: int = 0
    unsound: int = 0
    numbers: int = 0
    by_cause: dict[str, int] = {}


class Search:
    """Draws jobs and takes their outcomes.

    blind: True draws every candidate at random
    """

    def __init__(self, ground: Ground, seed: int, *, blind: bool = False) -> None:
        self.ground, self.seed, self.blind = ground, seed, blind
        self.drawing = Drawing(ground, evenly=not blind)
        self.corpus = Corpus()
        self.tally = Tally()
        self.findings: dict[str, Finding] = {}  # the first of each cause
        self._targets = ground.hunt.targets
        self._running: dict[str, _Candidate] = {}  # by the key of their job
        self._keys: set[str] = set()
        self._unexplained: deque[_Candidate] = deque()
        self._explained: Counter[tuple[str, ...]] = Counter()
        self._first: deque[Mapping[str, Any]] = deque()  # what is run before anything is drawn

    def jobs(self, more: Callable[[], bool]) -> Iterator[Job]:
        """Jobs, as long as `more` says so, and until the failures that came are explained."""
        repeats = 0
        while True:
            if self._unexplained:
                candidate = self._unexplained.popleft()
                job: Job = explained(candidate.document, self.ground.folder)
            elif more() and repeats < REPEATS_MAX:
                candidate = _Candidate(self.tally.numbers, self._draw(self.tally.numbers))
                self.tally.numbers += 1
                job = self._trial(candidate.document)
                if job.key in self._keys:
                    repeats += 1
                    continue
                repeats = 0
                self._keys.add(job.key)
            else:
                return
            self._running[job.key] = candidate
            yield job

    def _trial(self, document: Mapping[str, Any]) -> Job:
        """The job of a candidate; those of one seed are alike up to the earliest drawn step."""
        ground = self.ground
        return trial(document, None, self._targets, ground.folder, max(0, ground.hunt.from_us - 1))

    def _draw(self, number: int) -> dict[str, Any]:
        if self._first:
            return dict(self._first.popleft())
        random = Random(f"{self.seed}/{number}")
        if self.blind:
            return self.drawing.fresh(random)
        way, fresh_share = random.random(), FRESH_SHARE_OF_TARGETS if self._targets else FRESH_SHARE
        if not self.corpus.entries or way < fresh_share:
            return self.drawing.fresh(random, most=True)
        if way < fresh_share + CONTINUED_SHARE:
            return self.drawing.continued(self.corpus.choose(random), random)
        return self.drawing.changed(self.corpus.choose(random), self.corpus.choose(random), random)

    def take(self, outcome: Outcome) -> Sequence[Entry | Finding]:
        """Take the outcome of a job; returns what is to be kept: the candidate, or new findings."""
        candidate = self._running.pop(outcome.key)
        self.tally.runs += 1
        if isinstance(outcome, Explanation):
            return self._group(candidate, outcome)
        assert isinstance(outcome, Judgement)
        if outcome.error.startswith("InputError"):
            self.tally.unsound += 1
            return ()
        targets = [0.0 if value is None else value for value in outcome.targets]
        entry = self.corpus.add(candidate.document, outcome.features, targets, failed=bool(outcome.failed))
        if outcome.failed:
            self.tally.failures += 1
            self._explained[outcome.failed] += 1
            if entry is not None or self._explained[outcome.failed] <= EXPLAINED_MAX:
                self._unexplained.append(_Candidate(candidate.number, candidate.document, outcome))
        return () if entry is None else (entry,)

    def _group(self, candidate: _Candidate, outcome: Explanation) -> Sequence[Finding]:
        """Count the causes of a failure; returns the findings of those that are new."""
        judgement, document = candidate.judgement, candidate.document
        assert judgement is not None
        new: list[Finding] = []
        for cause in outcome.keys:
            if cause not in self.findings:
                self.findings[cause] = Finding(
                    document, judgement.seed, judgement.failed, cause, judgement.sha256, candidate.number
                )
                new.append(self.findings[cause])
            self.tally.by_cause[cause] = self.tally.by_cause.get(cause, 0) + 1
        return new

    def restore(self, entries: Sequence[Entry], findings: Sequence[Finding], tally: Tally) -> None:
        """Go on from what an earlier search kept."""
        for entry in entries:
            self.corpus.add(entry.document, entry.novel, entry.targets, failed=entry.failed)
            self._keys.add(self._trial(entry.document).key)
        self.findings.update({one.cause: one for one in findings})
        self.tally = tally

    def run_first(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Run these candidates before others are drawn."""
        self._first.extend(documents)
