"""CronJob controller: starts a Job at each scheduled time.

Turns changes of CronJobs and Jobs, and the times of runs, into keys, and carries out the steps of
each sync.

Holds: nothing is decided here; the steps are those of `sync`. A Job's name contains the minute that
       it was scheduled for, so that no run is started twice.

Mirrors  kubernetes v1.25 pkg/controller/cronjob/cronjob_controllerv2.go with CronJobTimeZone.
Differs  the skew metric is not kept; a run that a terminating namespace rejects counts as started,
         but no Job without a name is listed as active.
"""

from __future__ import annotations

from typing import assert_never

from actors.controllers.cronjob import decide
from actors.controllers.cronjob.sync import (
    CRON_JOBS,
    JOBS,
    Action,
    Outcome,
    Remove,
    Seen,
    Start,
    sync_cron_job,
)
from actors.controllers.shared.pod_owners import index_by_namespace, owner_ref
from actors.controllers.shared.shell import Env
from actors.controllers.shared.steps import DONE, Event, Get, Update, carry_out
from sim.api.cron import ScheduleError, parse_schedule
from sim.api.objects import controller_of, key_of, spec_of, status_of, uid_of
from sim.api.types import Obj, Reply
from sim.kernel.causes import caused_by, without_cause
from sim.kernel.measure import observe
from sim.options.features.gates import TIME_ZONE, enabled
from sim.units import SECOND

SKEW = "cronjob_controller_cronjob_job_creation_skew_duration_seconds"

CLIENT = "cronjob-controller"
WORKERS = 5


async def start(env: Env) -> None:
    """Run the CronJob controller until its process ends."""
    loop = CronJobLoop(env)
    await env.informers.start_and_sync()
    for index in range(WORKERS):
        env.ctx.spawn(loop.work, name=f"cronjob-{index}")


class CronJobLoop:
    """Shell of the controller: handlers, queue, and the sync of one CronJob."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.client = env.client(CLIENT)
        self.recorder = env.recorder(CLIENT, self.client)
        self.queue = env.queue("cronjob")
        self.cron_jobs = env.informers[CRON_JOBS]
        self.jobs = env.informers[JOBS]
        self._has_zones = enabled(env.options.feature_gates, TIME_ZONE)
        self._failed = env.ctx.kernel.kind("sync-error", "queue", "key", "error")
        index_by_namespace(self.jobs)
        self.cron_jobs.on(add=self._added, update=self._updated, delete=self._changed)
        self.jobs.on(add=self._job_changed, update=self._job_updated, delete=self._job_changed)

    # --- events -----------------------------------------------------------------------------------

    def _changed(self, cron_job: Obj) -> None:
        self.queue.add(key_of(cron_job))

    def _added(self, cron_job: Obj) -> None:
        kernel = self.env.ctx.kernel
        if "lastScheduleTime" not in status_of(cron_job):
            self._record_cause(cron_job)
        elif made := kernel.standing.made(_made_as(cron_job)):
            kernel.follow(made)  # the last write of the CronJob was made by a run
        self._changed(cron_job)

    def _record_cause(self, cron_job: Obj) -> None:
        """Record the present cause as the cause of the CronJob's runs, for this and later leaders.

        Runs are caused by the last change of the spec, not by the previous run.
        """
        kernel = self.env.ctx.kernel
        kernel.standing.make(_made_as(cron_job), kernel.cause)

    def _updated(self, old: Obj, new: Obj) -> None:
        before, spec = spec_of(old), spec_of(new)
        if before != spec:
            self._record_cause(new)
        if all(before.get(name) == spec.get(name) for name in ("schedule", "timeZone")):
            self._changed(new)
            return
        try:
            schedule = parse_schedule(decide.schedule_text(new, self._has_zones))
        except ScheduleError:
            text = f"unparseable schedule for cronjob: {spec.get('schedule', '')}"
            self.recorder.event(new, "Warning", "UnParseableCronJobSchedule", text)
            return
        # A schedule without a next time is synced at once, and the sync records the event.
        wait_us = decide.wait_us(new, self.env.ctx.wall_us(), schedule) or 0
        self.queue.add_after_us(key_of(new), wait_us)

    def _job_changed(self, job: Obj) -> None:
        ref = controller_of(job)
        if ref is None or ref["kind"] != "CronJob":
            return
        cron_job = self.cron_jobs.get(f"{job['metadata']['namespace']}/{ref['name']}")
        if cron_job is not None and uid_of(cron_job) == ref["uid"]:
            self._changed(cron_job)

    def _job_updated(self, old: Obj, new: Obj) -> None:
        if old["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]:
            return
        if controller_of(old) != controller_of(new):
            self._job_changed(old)
        self._job_changed(new)

    # --- a sync -----------------------------------------------------------------------------------

    async def work(self) -> None:
        """A worker as in `run_workers`, but a sync that succeeds may return the delay to the next."""
        while True:
            key = await self.queue.get()
            error, wait_us = await self.sync(key)
            if error is not None:
                self.env.ctx.record(self._failed, (self.queue.name, key, error))
                self.queue.add_rate_limited(key)
            elif wait_us is not None:
                self.queue.forget(key)
                self._await(key, wait_us)
            self.queue.done(key)

    def _await(self, key: str, wait_us: int) -> None:
        kernel, cron_job = self.env.ctx.kernel, self.cron_jobs.get(key)
        made = 0 if cron_job is None else kernel.standing.made(_made_as(cron_job))
        with caused_by(kernel, made) if made else without_cause(kernel):
            self.queue.add_after_us(key, wait_us)

    async def sync(self, key: str) -> Outcome:
        """Sync one CronJob."""
        cron_job = self.cron_jobs.get(key)
        if cron_job is None:
            return Outcome(None, None)
        meta = cron_job["metadata"]
        # Quirk: the owner is matched by name alone, so Jobs of a former CronJob count too.
        jobs = [
            job
            for job in self.jobs.by_index("namespace", meta["namespace"])
            if (controller_of(job) or {}).get("name") == meta["name"]
        ]
        reference = owner_ref(self.env, CRON_JOBS, cron_job)
        seen = Seen(reference, self.env.names.domain, self._has_zones, self.env.ctx.wall_us())
        return await carry_out(sync_cron_job(cron_job, jobs, seen), self._do)

    async def _do(self, action: Action) -> Reply:
        client = self.client
        match action:
            case Get(resource, namespace, name):
                return await client.get(resource, namespace, name)
            case Update(resource, obj, subresource):
                return await client.update(resource, obj, subresource)
            case Start(job, namespace, at_s):
                reply = await client.create(JOBS, namespace, job)
                if reply.ok:
                    late_us = self.env.ctx.wall_us() // SECOND * SECOND - at_s * SECOND
                    observe(self.env.ctx.kernel, SKEW, late_us / SECOND)
                return reply
            case Remove(job):
                meta = job["metadata"]
                return await client.delete(JOBS, meta["namespace"], meta["name"], policy="Background")
            case Event(obj, kind, reason, message):
                self.recorder.event(obj, kind, reason, message)
                return DONE
            case _:
                assert_never(action)


def _made_as(cron_job: Obj) -> str:
    """Key under which a CronJob's cause is kept for later leaders, until its spec changes."""
    return f"{uid_of(cron_job)}/{cron_job['metadata'].get('generation', 0)}"
