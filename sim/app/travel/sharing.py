"""Jobs of runs that begin alike: the common part of them is run once.

Turns a function that performs one job into one that performs jobs in processes that continue from a
process that rests at an instant (`sim.app.travel.rest`), one for each cluster, seed and early part
of the timeline. Where no process can be forked, or a run cannot rest, it performs the job from its
start: the result is the same.

Holds: at most `KEPT` processes rest for one `Sharing`; they end with it, or with its process.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from threading import current_thread, main_thread
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from sim.app.possible import expectations_of
from sim.app.travel.common import common_key, common_part
from sim.app.travel.loop import FORKS
from sim.app.travel.rest import CrashError, NoRestError, Rest, Resting
from sim.dataclass import dataclass
from sim.scenario.plan.plan import Plan
from sim.units import Virtual

KEPT = 8  # processes that rest: some 10 MiB each for 6 nodes, 60 MiB for 1,000

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Job:
    """A run to perform.

    plan: with the steps of the whole run
    rest_us: where its run rests, the same instant for all jobs that share; 0: it does not
    more: what the function that performs it needs besides, a value that can be pickled
    """

    plan: Plan
    seed: int
    rest_us: Virtual = Virtual(0)
    more: Any = None


class Sharing(Generic[Found]):
    """Performs jobs of one process, one at a time.

    perform: carries out a job by `run_plan(job.plan, seed=job.seed, rest=rest, ...)` and returns a
        value that can be pickled. With a rest it is continued in another process, for the job
        `rest.job`.
    alone: as in `expectations_of`: False if programs make objects too
    """

    def __init__(self, perform: Callable[[Job, Rest | None], Found], *, alone: bool = True) -> None:
        self._perform, self._alone = perform, alone
        self._resting: dict[str, Resting | None] = {}  # the one used last is the last
        self.shared = 0  # jobs that began at a rest

    def __call__(self, job: Job) -> Found:
        """The result of a job.  Raises what `perform` raises, and CrashError."""
        # Beside a thread of a Dask worker are others, which may hold locks that a copy waits for.
        forks = FORKS and current_thread() is main_thread()
        if not (forks and 0 < job.rest_us < job.plan.duration_us) or job.plan.cluster.served:
            return self._perform(job, None)
        key = common_key(job.plan, job.seed, job.rest_us)
        resting = self._resting.pop(key) if key in self._resting else self._rested(job)
        self._resting[key] = resting
        if resting is None:
            return self._perform(job, None)
        alone = self._alone and not job.plan.own_programs
        expectations_of(job.plan, alone)  # raises what a run from the start would raise
        try:
            result: Found = resting.perform(job.plan, job)
        except NoRestError:
            resting.end()
            self._resting[key] = None
            return self._perform(job, None)
        except CrashError:
            del self._resting[key]
            raise
        self.shared += 1
        return result

    def _rested(self, job: Job) -> Resting | None:
        """A process that runs the common part; None if the system refuses it."""
        while len(self._resting) >= KEPT:
            self._end(next(iter(self._resting)))
        part = replace(job, plan=common_part(job.plan, job.rest_us))
        ends = [one.mailbox.end for one in self._resting.values() if one is not None]
        with warnings.catch_warnings():
            # A thread that waits for the end of another process holds no lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                return Resting(self._perform, part, job.rest_us, ends)
            except OSError:
                return None

    def _end(self, key: str) -> None:
        resting = self._resting.pop(key)
        if resting is not None:
            resting.end()

    def close(self) -> None:
        """End the processes that rest."""
        for key in list(self._resting):
            self._end(key)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()
