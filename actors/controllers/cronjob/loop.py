"""CronJob controller: starts a Job at each scheduled time.

Turns CronJobs, their Jobs and the wall clock into new Jobs, deletes of old ones, and a status with
the active Jobs.

Holds: a sync starts at most one Job; a Job's name contains the minute that it was scheduled for, so
       that no run is started twice.

Mirrors  kubernetes v1.25 pkg/controller/cronjob/cronjob_controllerv2.go with CronJobTimeZone.
Differs  the skew metric is not kept; a run that a terminating namespace rejects counts as started,
         but no Job without a name is listed as active.
"""

from __future__ import annotations

from actors.controllers.cronjob import decide
from actors.controllers.job.decide import ended
from actors.controllers.shared.pod_owners import index_by_namespace, is_terminating_refusal, owner_ref
from actors.controllers.shared.shell import Env
from sim.api.cron import Schedule, ScheduleError, parse_schedule, zone_of
from sim.api.objects import controller_of, is_deleting, key_of, spec_of, status_of, uid_of
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.kernel.causes import caused_by, without_cause
from sim.kernel.measure import observe
from sim.options.features.gates import TIME_ZONE, enabled
from sim.units import SECOND, format_time, parse_time

SKEW = "cronjob_controller_cronjob_job_creation_skew_duration_seconds"

CLIENT = "cronjob-controller"
WORKERS = 5
# Upstream's client error for an active Job in the status that has no name.
NAMELESS = "resource name may not be empty"


async def start(env: Env) -> None:
    """Run the CronJob controller until its process ends."""
    loop = CronJobLoop(env)
    await env.informers.start_and_sync()
    for index in range(WORKERS):
        env.ctx.spawn(loop.work, name=f"cronjob-{index}")


@dataclass(slots=True)
class _SyncState:
    """State of one sync: the CronJob as it will be written.

    dirty: True if the status has to be written
    wait_us: delay until the next sync, None to wait for an event
    """

    cron_job: Obj
    dirty: bool = False
    wait_us: int | None = None

    @property
    def active(self) -> list[Obj]:
        return list(status_of(self.cron_job).get("active") or ())

    def set(self, **status: object) -> None:
        self.cron_job = {**self.cron_job, "status": {**status_of(self.cron_job), **status}}
        self.dirty = True

    def forget(self, uid: str) -> None:
        """Remove a Job from the active ones."""
        if any(ref.get("uid") == uid for ref in self.active):
            self.set(active=[ref for ref in self.active if ref.get("uid") != uid])


class CronJobLoop:
    """Shell of the controller: handlers, queue, and the sync of one CronJob."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.client = env.client(CLIENT)
        self.recorder = env.recorder(CLIENT, self.client)
        self.queue = env.queue("cronjob")
        self.cron_jobs = env.informers["cronjobs"]
        self.jobs = env.informers["jobs"]
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

    async def sync(self, key: str) -> tuple[str | None, int | None]:
        """Sync one CronJob; returns (error text or None, delay to the next sync or None)."""
        cron_job = self.cron_jobs.get(key)
        if cron_job is None:
            return None, None
        meta = cron_job["metadata"]
        # Quirk: the owner is matched by name alone, so Jobs of a former CronJob count too.
        jobs = [
            job
            for job in self.jobs.by_index("namespace", meta["namespace"])
            if (controller_of(job) or {}).get("name") == meta["name"]
        ]
        state = _SyncState(cron_job)
        wall_us = self.env.ctx.wall_us()
        error = await self._update_active(state, jobs) or await self._start_due(state, wall_us)
        for job in decide.beyond_history(state.cron_job, jobs) if error is None else ():
            await self._delete(state, job)
        if state.dirty:
            status = {k: v for k, v in status_of(state.cron_job).items() if k != "active" or v}
            written = {**state.cron_job, "status": status}
            reply = await self.client.update("cronjobs", written, subresource="status")
            error = error or (None if reply.ok else reply.message)
        return error, state.wait_us

    async def _update_active(self, state: _SyncState, jobs: list[Obj]) -> str | None:
        """Update the list of active Jobs; returns an error text or None."""
        for job in jobs:
            listed = any(ref.get("uid") == uid_of(job) for ref in state.active)
            end = ended(job)
            if not listed and end is None:
                error = await self._unexpected(state, job)
                if error is not None:
                    return error
            elif listed and end is not None:
                state.forget(uid_of(job))
                text = f"Saw completed job: {job['metadata']['name']}, status: {end['type']}"
                self.recorder.event(state.cron_job, "Normal", "SawCompletedJob", text)
            elif end is not None:
                self._record_success(state, job)
        known = {uid_of(job) for job in jobs}
        for ref in state.active:
            if ref.get("uid") in known:
                continue
            if not ref.get("name"):
                return NAMELESS
            live = await self.client.get("jobs", ref.get("namespace", ""), ref["name"])
            if live.reason == "NotFound":
                text = f"Active job went missing: {ref['name']}"
                self.recorder.event(state.cron_job, "Normal", "MissingJob", text)
                state.forget(ref.get("uid", ""))
            elif not live.ok:
                return live.message
        return None

    async def _unexpected(self, state: _SyncState, job: Obj) -> str | None:
        meta = state.cron_job["metadata"]
        live = await self.client.get("cronjobs", meta["namespace"], meta["name"])
        if not live.ok:
            return live.message
        if any(ref.get("uid") == uid_of(job) for ref in status_of(live.obj).get("active") or ()):
            state.cron_job = live.obj
            return None
        text = f"Saw a job that the controller did not create or forgot: {job['metadata']['name']}"
        self.recorder.event(state.cron_job, "Warning", "UnexpectedJob", text)
        return None

    def _record_success(self, state: _SyncState, job: Obj) -> None:
        done, known = (
            status_of(job).get("completionTime"),
            status_of(state.cron_job).get("lastSuccessfulTime"),
        )
        if not known:
            state.dirty = True  # Quirk: also for a failed Job, which changes nothing
        if done and (not known or parse_time(done) > parse_time(known)):
            state.set(lastSuccessfulTime=done)

    def _schedule(self, cron_job: Obj) -> Schedule:
        given = str(spec_of(cron_job).get("schedule", ""))
        if "TZ" in given:
            page = f"https://{self.env.names.domain}/docs/concepts/workloads/controllers/cron-jobs/"
            text = f'CRON_TZ or TZ used in schedule "{given}" is not officially supported, see {page} for more details'
            self.recorder.event(cron_job, "Warning", "UnsupportedSchedule", text)
        return parse_schedule(decide.schedule_text(cron_job, self._has_zones))

    async def _start_due(self, state: _SyncState, wall_us: int) -> str | None:
        """Start the run that is due, if there is one and the policy allows it."""
        spec = spec_of(state.cron_job)
        if is_deleting(state.cron_job):
            return None
        found = self._due(state, wall_us)
        if found is None:
            return None
        schedule, at_s = found
        state.wait_us = decide.wait_us(state.cron_job, wall_us, schedule)
        if at_s is None:
            return None
        if decide.is_too_late(state.cron_job, at_s, wall_us):
            text = f"Missed scheduled time to start a job: {decide.long_date(at_s)}"
            self.recorder.event(state.cron_job, "Warning", "MissSchedule", text)
            return None
        name = decide.job_name(state.cron_job, at_s)
        last = status_of(state.cron_job).get("lastScheduleTime")
        if any(ref.get("name") == name for ref in state.active) or (
            last and parse_time(last) == at_s * SECOND
        ):
            return None
        policy = spec.get("concurrencyPolicy")
        if policy == "Forbid" and state.active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.recorder.event(state.cron_job, "Normal", "JobAlreadyActive", text)
            return None
        error = await self._replace(state) if policy == "Replace" else None
        if error is None:
            error = await self._create(state, at_s)
        if error is not None:
            state.wait_us = None
            return error
        state.wait_us = decide.wait_us(state.cron_job, wall_us, schedule)
        return None

    def _due(self, state: _SyncState, wall_us: int) -> tuple[Schedule, int | None] | None:
        """(schedule, run to start or None); None for an invalid schedule or a suspended CronJob."""
        cron_job, spec = state.cron_job, spec_of(state.cron_job)
        given, zone = spec.get("schedule", ""), spec.get("timeZone")
        reason, text = "UnknownTimeZone", ""
        try:
            if zone is not None and self._has_zones:
                text = f'invalid timeZone: "{zone}": '
                zone_of(zone)
            if spec.get("suspend"):
                return None
            reason, text = "UnparseableSchedule", f'unparseable schedule: "{given}" : '
            schedule = self._schedule(cron_job)
            reason, text = "InvalidSchedule", f"invalid schedule: {given} : "
            missed = decide.due(cron_job, wall_us, schedule)
        except ScheduleError as error:
            self.recorder.event(cron_job, "Warning", reason, f"{text}{error}")
            return None
        if missed.count > decide.MISSED_MAX:
            text = f"too many missed start times: {missed.count}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.recorder.event(cron_job, "Warning", "TooManyMissedTimes", text)
        return schedule, missed.at_s

    async def _replace(self, state: _SyncState) -> str | None:
        for ref in state.active:
            if not ref.get("name"):
                return NAMELESS
            live = await self.client.get("jobs", ref.get("namespace", ""), ref["name"])
            if not live.ok:
                self.recorder.event(state.cron_job, "Warning", "FailedGet", f"Get job: {live.message}")
                return live.message
            if not await self._delete(state, live.obj):
                return f"could not replace job {key_of(live.obj)}"
        return None

    async def _create(self, state: _SyncState, at_s: int) -> str | None:
        cron_job = state.cron_job
        job = decide.job_from(cron_job, at_s, owner_ref(self.env, "cronjobs", cron_job))
        reply = await self.client.create("jobs", cron_job["metadata"]["namespace"], job)
        if not reply.ok and not is_terminating_refusal(reply):
            if reply.reason != "AlreadyExists":
                text = f"Error creating job: {reply.message}"
                self.recorder.event(cron_job, "Warning", "FailedCreate", text)
            return reply.message
        # Quirk: without a reply body an empty Job is listed as active, and every later sync fails
        # on it (NAMELESS).
        meta = reply.obj["metadata"] if reply.ok else {}
        if reply.ok:
            late_us = self.env.ctx.wall_us() // SECOND * SECOND - at_s * SECOND
            observe(self.env.ctx.kernel, SKEW, late_us / SECOND)
        self.recorder.event(cron_job, "Normal", "SuccessfulCreate", f"Created job {meta.get('name', '')}")
        known = {name: meta[name] for name in ("namespace", "name", "uid", "resourceVersion") if name in meta}
        ref = {"apiVersion": job["apiVersion"], "kind": "Job", **known}
        state.set(active=[*state.active, ref], lastScheduleTime=format_time(at_s * SECOND))
        return None

    async def _delete(self, state: _SyncState, job: Obj) -> bool:
        meta = job["metadata"]
        reply = await self.client.delete("jobs", meta["namespace"], meta["name"], policy="Background")
        if not reply.ok:
            text = f"Deleted job: {reply.message}"
            self.recorder.event(state.cron_job, "Warning", "FailedDelete", text)
            return False
        state.forget(uid_of(job))
        state.dirty = True
        self.recorder.event(state.cron_job, "Normal", "SuccessfulDelete", f"Deleted job {meta['name']}")
        return True


def _made_as(cron_job: Obj) -> str:
    """Key under which a CronJob's cause is kept for later leaders, until its spec changes."""
    return f"{uid_of(cron_job)}/{cron_job['metadata'].get('generation', 0)}"
