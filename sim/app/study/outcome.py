"""One seed of a plan as a job, and its result as a value, for worker processes.

Turns a plan into a job's bytes and a key that stays the same while the plan and the program are
equivalent; and a job into an `Outcome`, also if the run ends with an exception.

Holds: a seed has the same outcome here as in a run of its own; in one process runs follow each
other.
"""

from __future__ import annotations

import gc
import pickle
from functools import lru_cache, partial
from hashlib import sha256
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import Lock
from typing import ClassVar, NewType

import msgspec
import outcome

from sim.app.process.interrupts import interruptible
from sim.app.run import Result, run_plan
from sim.dataclass import dataclass
from sim.errors import first_of
from sim.scenario.plan.digest import plan_digest
from sim.scenario.plan.plan import Plan

Key = NewType("Key", str)
KEY_LENGTH = 24
# A cluster uses memos of identities and settings of the garbage collector that belong to the
# process, so threads of a Dask worker run one after the other.
_turn = Lock()
# A finished cluster is cyclic garbage, some 3 MB for a small one; to free it takes a tenth of the
# time of its run.
COLLECT_EVERY = 10
_performed = count(1)


class Measured(msgspec.Struct, frozen=True):
    """The result of an expectation in one run (see sim.check.Verdict)."""

    name: str
    kind: str
    ok: bool
    measured: str
    wanted: str
    values: tuple[float, ...] = ()
    missing: int = 0


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one seed; with an `error` the run did not end, and the other fields are empty.

    refused: commands of the scenario that were rejected, and why
    """

    key: str
    seed: int
    sha256: str = ""
    wall_s: float = 0.0
    virtual_s: float = 0.0
    events: int = 0
    expectations: tuple[Measured, ...] = ()
    error: str = ""
    refused: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if the run ended and all expectations hold."""
        return not self.error and all(one.ok for one in self.expectations)


@dataclass(frozen=True, slots=True)
class Job:
    """One seed to run.

    plan: pickled, so that any machine with this program can run it
    programs: the functions of the user that it runs, as module:function
    """

    key: Key
    seed: int
    plan: bytes
    programs: tuple[str, ...] = ()
    answer: ClassVar[type[Outcome]] = Outcome

    def run(self) -> Outcome:
        """Run it to its end, in this process."""
        run = partial(run_plan, _unpacked(self.plan), seed=self.seed, picture=False, audited=False)
        return outcome_of(self.key, interruptible(run))


def packed(plan: Plan) -> bytes:
    """A plan as bytes."""
    return pickle.dumps(plan)


def key_of(plan: Plan) -> Key:
    """A key that is equal for equal plans run by the same program, and by the same programs of the
    user, regardless of the file's path and comments.
    """
    own = ""
    if plan.own_programs:
        from sim.app.process.own_programs import sources_digest

        own = sources_digest(reference for _, reference in plan.own_programs)
    return Key(sha256(f"{program_digest()} {plan_digest(plan)}{own}".encode()).hexdigest()[:KEY_LENGTH])


@lru_cache(maxsize=1)
def program_digest() -> str:
    """A digest of this program's sources: results of different programs must not be mixed."""
    digest = sha256()
    for path in program_files():
        folder = next(each for each in _folders() if path.is_relative_to(each))
        digest.update(str(path.relative_to(folder)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def program_files() -> list[Path]:
    """The source files of this program."""
    return [path for folder in _folders() for path in sorted(folder.rglob("*.py"))]


def _folders() -> list[Path]:
    return [Path(next(iter(import_module(name).__path__))) for name in ("sim", "actors")]


def perform_among_others(job: Job) -> Outcome:
    """Run one seed to its end in a process that continues; the garbage of finished clusters is
    freed from time to time.
    """
    with _turn:
        found = perform(job)
        if next(_performed) % COLLECT_EVERY == 0:
            gc.collect()
    return found


@lru_cache(maxsize=64)
def digest_for(programs: tuple[str, ...]) -> str:
    """A digest of this program's sources and of those of a user's functions, as they were when this
    process first used them.  Raises InputError if there is no such function.
    """
    if not programs:
        return program_digest()
    from sim.app.process.own_programs import program_at, sources_digest

    for each in programs:
        program_at(each)
    return program_digest() + sources_digest(programs)


def perform_for(program: str, programs: tuple[str, ...], job: bytes) -> bytes:
    """Run a pickled job made by programs of that digest: returns the outcome as JSON, or nothing
    if these are others.
    """
    if program != digest_for(programs):
        return b""
    return msgspec.json.encode(perform_among_others(pickle.loads(job)))


def perform(job: Job, *raises: type[Exception]) -> Outcome:
    """Run one seed to its end.  raises: exceptions that are not an outcome"""
    found = outcome.capture(job.run)
    if isinstance(found, outcome.Error):
        if isinstance(found.error, (KeyboardInterrupt, SystemExit, *raises)):
            raise found.error
        return job.answer(job.key, job.seed, error=_one_line(found.error))
    return found.value


@lru_cache(maxsize=4)
def _unpacked(plan: bytes) -> Plan:
    unpacked = pickle.loads(plan)
    assert isinstance(unpacked, Plan)
    return unpacked


def _one_line(error: BaseException) -> str:
    """An exception as one line; for a group, its first exception."""
    error = first_of(error)
    return f"{type(error).__name__}: {error}".split("\n", 1)[0]


def outcome_of(key: Key, result: Result) -> Outcome:
    """The outcome of a finished run."""
    return Outcome(
        key,
        result.seed,
        result.trace_sha256,
        round(result.wall_s, 3),
        result.virtual_us / 1e6,
        result.steps,
        tuple(
            Measured(one.name, one.kind, one.ok, one.measured, one.wanted, one.measured_s, one.missing)
            for one in result.verdicts
        ),
        refused=result.refused,
    )
