"""Runs a scenario document and judges it: `judge(document) -> Judgement`.

A trial is the job of a pool that does this in a worker.  A document is planned where it is run, so
that a search draws documents only and all cores plan.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Mapping, Sequence
from copy import deepcopy
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from sim.app.hunt.features import Features
from sim.app.options import check_options
from sim.app.process.interrupts import interruptible
from sim.app.process.own_programs import with_functions
from sim.app.run import run_plan
from sim.app.study.outcome import (
    COLLECT_EVERY,
    KEY_LENGTH,
    Job,
    Key,
    Outcome,
    outcome_of,
    perform,
    program_digest,
)
from sim.app.travel import Job as Run
from sim.app.travel import Rest, Sharing
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.scenario.compile import compile_plan
from sim.scenario.plan.plan import Plan
from sim.scenario.read.source import Document
from sim.units import Virtual

if TYPE_CHECKING:
    from sim.app.cluster import Cluster

_judged = count(1)
PROGRAMS = "programs"  # beside the parts of a scenario: functions of the user, in no file
TARGET = "target: "  # begins the name of an expectation that only measures


class Judgement(Outcome, frozen=True, omit_defaults=True):
    """The result of a run of a document.

    features: what the run shows (`sim.app.hunt.features`)
    targets: what each target measured; None if it did not occur
    """

    features: tuple[str, ...] = ()
    targets: tuple[float | None, ...] = ()

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the expectations that failed; of a run that ended with an exception, its text."""
        return (self.error,) if self.error else tuple(one.name for one in self.expectations if not one.ok)


@dataclass(frozen=True, slots=True)
class Trial(Job):
    """A document to run.

    plan: the document, its targets and its folder, pickled
    rest_us: the instant from which it differs from other trials; 0 if that is the start
    """

    rest_us: Virtual = Virtual(0)

    answer: ClassVar[type[Outcome]] = Judgement

    def run(self) -> Outcome:
        """Run it to its end, in this process or in one that continues from the instant."""
        document, targets, folder = pickle.loads(self.plan)
        plan = planned(document, targets, folder)
        return TRIALS(Run(plan, self.seed, self.rest_us, (self.key, len(targets))))


def _judgement(run: Run, rest: Rest | None) -> Judgement:
    """Run a plan to its end and judge it."""
    collectors: list[Features] = []

    def prepare(cluster: Cluster) -> None:
        collectors.append(Features(cluster.kernel.trace))

    result = interruptible(
        lambda: run_plan(run.plan, seed=run.seed, picture=False, audited=False, prepare=prepare, rest=rest)
    )
    key, targets = (run if rest is None else rest.job).more
    results = outcome_of(key, result)
    target = len(results.expectations) - targets
    measured = (one.values for one in results.expectations[target:])
    return Judgement(
        **msgspec.structs.asdict(results) | {"expectations": results.expectations[:target]},
        features=collectors[0].values,
        targets=tuple(max(values, default=None) for values in measured),
    )


TRIALS = Sharing(_judgement, alone=False)  # those of this process


def planned(
    document: Mapping[str, Any], targets: Sequence[Mapping[str, Any]] = (), folder: Path = Path()
) -> Plan:
    """The plan of a document.  Raises InputError with every error.

    document: a scenario, or one of a hunt that has programs (`PROGRAMS`) besides
    targets: expectations that only measure, after those of the document
    folder: of the files that the document names
    """
    value = deepcopy(dict(document))
    spec = value["spec"]
    spec["expect"] = [*spec.get("expect", ()), *targets]
    spec.pop("hunt", None)
    programs = value.pop(PROGRAMS, {})
    plan = compile_plan(Document("", value), folder)
    check_options(plan.cluster)
    return with_functions(plan, programs)


def without_programs(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a document that a file can have."""
    return {key: value for key, value in document.items() if key != PROGRAMS}


def trial(
    document: Mapping[str, Any],
    seed: int | None = None,
    targets: Sequence[Mapping[str, Any]] = (),
    folder: Path = Path(),
    rest_us: int = 0,
) -> Trial:
    """The job that runs a document.

    seed: default that of the document
    rest_us: the instant from which it differs from other trials, if that is not the start
    """
    spec = document["spec"]
    seed = int(spec.get("seed", 0)) if seed is None else seed
    digest = sha256(f"{program_digest()} ".encode())
    digest.update(msgspec.json.encode([document, targets], order="deterministic"))
    key = Key(digest.hexdigest()[:KEY_LENGTH])
    programs = tuple(document.get(PROGRAMS, {}).values())
    return Trial(key, seed, pickle.dumps((document, tuple(targets), folder)), programs, Virtual(rest_us))


def judge(
    document: Mapping[str, Any],
    seed: int | None = None,
    *,
    targets: Sequence[Mapping[str, Any]] = (),
    folder: Path = Path(),
) -> Judgement:
    """Run a document in this process.  Raises InputError if it is no sound scenario.

    seed: default that of the document
    An exception of the run is the `error` of the judgement, as in a pool.
    """
    result = perform(trial(document, seed, targets, folder), InputError)
    if next(_judged) % COLLECT_EVERY == 0:
        gc.collect()
    assert isinstance(result, Judgement)
    return result
