"""Time travel: many continuations of one run.

A run rests at an instant, between two units of work, and its process is forked: the copy continues
with other later steps, and has the trace of a run from the start. So the common part of many runs
is run once (`Sharing`):

    def perform(job: Job, rest: Rest | None) -> Outcome:
        run = run_plan(job.plan, seed=job.seed, picture=False, audited=False, rest=rest)
        return outcome_of(key, trio.run(lambda: run))

    with Sharing(perform) as sharing:
        for plan in plans:
            outcome = sharing(Job(plan, seed, rest_us=60 * SECOND))

`rest` is None where a run begins at its start: where no process can be forked, and for a plan that
ends before the instant. What `perform` prepares (observers, listeners of the trace) belongs to the
common part, sees it, and is copied with it; after `run_plan` has returned, `rest.job` is the job of
this process. Everything but later steps, the name, the duration and places in files is part of the
key of the common part (`common_key`), expectations too: plans that differ in it do not share. The
instant has to be one for all jobs, before the first drawn step.
"""

from sim.app.travel.common import common_key, common_part, later_steps
from sim.app.travel.loop import FORKS
from sim.app.travel.rest import CrashError, Rest
from sim.app.travel.sharing import Job, Sharing

__all__ = ["FORKS", "CrashError", "Job", "Rest", "Sharing", "common_key", "common_part", "later_steps"]
