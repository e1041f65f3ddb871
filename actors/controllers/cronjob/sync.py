"""One sync of a CronJob as steps: the order of its writes, and what follows an answer.  Pure.

Turns a CronJob, its Jobs and the answers to its requests into the next action.

Holds: a sync starts at most one Job, and none while the list of active ones is in doubt; old Jobs
       are deleted after a sync without an error; the status is written once, at the end.

Mirrors  kubernetes v1.25 pkg/controller/cronjob/cronjob_controllerv2.go (sync, syncCronJob,
         cleanupFinishedJobs).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from actors.controllers.cronjob import decide
from actors.controllers.job.decide import ended
from actors.controllers.shared.pod_owners import is_terminating_refusal
from actors.controllers.shared.steps import Event, Get, T, Update
from sim.api.cron import Schedule, ScheduleError, parse_schedule, zone_of
from sim.api.objects import is_deleting, key_of, spec_of, status_of, uid_of
from sim.api.types import Obj, Reply
from sim.client.events.recorder import EventKind
from sim.dataclass import dataclass
from sim.units import SECOND, Wall, format_time, parse_time

CRON_JOBS, JOBS = "cronjobs", "jobs"
# Upstream's client error for an active Job in the status that has no name.
NAMELESS = "resource name may not be empty"


@dataclass(frozen=True, slots=True)
class Start:
    """Create the Job of a scheduled time.  at_s: Unix time in seconds"""

    job: Obj
    namespace: str
    at_s: int


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a Job, its pods after it."""

    job: Obj


Action = Get | Start | Remove | Update | Event
Steps = Generator[Action, Reply, T]


class Seen(NamedTuple):
    """What a sync sees besides the CronJob and its Jobs.

    reference: the controller reference of a new Job
    domain: that of the pages of the documentation
    has_zones: the feature gate CronJobTimeZone
    wall_us: the time by the clock of the process
    """

    reference: Obj
    domain: str
    has_zones: bool
    wall_us: Wall


class Outcome(NamedTuple):
    """The end of a sync.  wait_us: delay until the next one, None to wait for an event"""

    error: str | None
    wait_us: int | None


def sync_cron_job(cron_job: Obj, jobs: Sequence[Obj], seen: Seen) -> Steps[Outcome]:
    """The sync of a CronJob with its Jobs."""
    return _Sync(cron_job, jobs, seen).run()


class _Sync:
    """One sync; `cron_job` is the CronJob as it will be written."""

    def __init__(self, cron_job: Obj, jobs: Sequence[Obj], seen: Seen) -> None:
        self.cron_job, self.jobs, self.seen = cron_job, jobs, seen
        self.is_dirty = False  # the status is to be written
        self.wait_us: int | None = None

    @property
    def active(self) -> list[Obj]:
        return list(status_of(self.cron_job).get("active") or ())

    def _set(self, **status: object) -> None:
        self.cron_job = {**self.cron_job, "status": {**status_of(self.cron_job), **status}}
        self.is_dirty = True

    def _forget(self, uid: str) -> None:
        """Remove a Job from the active ones."""
        if any(ref.get("uid") == uid for ref in self.active):
            self._set(active=[ref for ref in self.active if ref.get("uid") != uid])

    def _event(self, kind: EventKind, reason: str, message: str) -> Steps[None]:
        yield Event(self.cron_job, kind, reason, message)

    def run(self) -> Steps[Outcome]:
        error = (yield from self._update_active()) or (yield from self._start_due())
        for job in decide.beyond_history(self.cron_job, self.jobs) if error is None else ():
            yield from self._remove(job)
        if self.is_dirty:
            status = {k: v for k, v in status_of(self.cron_job).items() if k != "active" or v}
            reply = yield Update(CRON_JOBS, {**self.cron_job, "status": status}, "status")
            error = error or (None if reply.ok else reply.message)
        return Outcome(error, self.wait_us)

    # --- active Jobs ------------------------------------------------------------------------------

    def _update_active(self) -> Steps[str | None]:
        """Update the list of active Jobs; returns an error text or None."""
        for job in self.jobs:
            listed = any(ref.get("uid") == uid_of(job) for ref in self.active)
            end = ended(job)
            if not listed and end is None:
                error = yield from self._unexpected(job)
                if error is not None:
                    return error
            elif listed and end is not None:
                self._forget(uid_of(job))
                text = f"Saw completed job: {job['metadata']['name']}, status: {end['type']}"
                yield from self._event("Normal", "SawCompletedJob", text)
            elif end is not None:
                self._record_success(job)
        known = {uid_of(job) for job in self.jobs}
        for ref in self.active:
            if ref.get("uid") in known:
                continue
            if not ref.get("name"):
                return NAMELESS
            live = yield Get(JOBS, ref.get("namespace", ""), ref["name"])
            if live.reason == "NotFound":
                yield from self._event("Normal", "MissingJob", f"Active job went missing: {ref['name']}")
                self._forget(ref.get("uid", ""))
            elif not live.ok:
                return live.message
        return None

    def _unexpected(self, job: Obj) -> Steps[str | None]:
        """A Job that runs and is not listed: by the live CronJob it may be."""
        meta = self.cron_job["metadata"]
        live = yield Get(CRON_JOBS, meta["namespace"], meta["name"])
        if not live.ok:
            return live.message
        if any(ref.get("uid") == uid_of(job) for ref in status_of(live.obj).get("active") or ()):
            self.cron_job = live.obj
            return None
        text = f"Saw a job that the controller did not create or forgot: {job['metadata']['name']}"
        yield from self._event("Warning", "UnexpectedJob", text)
        return None

    def _record_success(self, job: Obj) -> None:
        done = status_of(job).get("completionTime")
        known = status_of(self.cron_job).get("lastSuccessfulTime")
        if not known:
            self.is_dirty = True  # Quirk: also for a failed Job, which changes nothing
        if done and (not known or parse_time(done) > parse_time(known)):
            self._set(lastSuccessfulTime=done)

    # --- the run that is due ----------------------------------------------------------------------

    def _start_due(self) -> Steps[str | None]:
        """Start the run that is due, if there is one and the policy allows it."""
        if is_deleting(self.cron_job):
            return None
        found = yield from self._due()
        if found is None:
            return None
        schedule, at_s = found
        self.wait_us = decide.wait_us(self.cron_job, self.seen.wall_us, schedule)
        if at_s is None:
            return None
        if decide.is_too_late(self.cron_job, at_s, self.seen.wall_us):
            text = f"Missed scheduled time to start a job: {decide.long_date(at_s)}"
            yield from self._event("Warning", "MissSchedule", text)
            return None
        if self._is_started(at_s):
            return None
        policy = spec_of(self.cron_job).get("concurrencyPolicy")
        if policy == "Forbid" and self.active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            yield from self._event("Normal", "JobAlreadyActive", text)
            return None
        error = (yield from self._replace()) if policy == "Replace" else None
        if error is None:
            error = yield from self._create(at_s)
        if error is not None:
            self.wait_us = None
            return error
        self.wait_us = decide.wait_us(self.cron_job, self.seen.wall_us, schedule)
        return None

    def _is_started(self, at_s: int) -> bool:
        """True if the Job of a scheduled time is listed, or was the last one."""
        name = decide.job_name(self.cron_job, at_s)
        last = status_of(self.cron_job).get("lastScheduleTime")
        listed = any(ref.get("name") == name for ref in self.active)
        return listed or bool(last and parse_time(last) == at_s * SECOND)

    def _due(self) -> Steps[tuple[Schedule, int | None] | None]:
        """(schedule, run to start or None); None for an invalid schedule or a suspended CronJob."""
        spec = spec_of(self.cron_job)
        given, zone = spec.get("schedule", ""), spec.get("timeZone")
        reason, text = "UnknownTimeZone", ""
        try:
            if zone is not None and self.seen.has_zones:
                text = f'invalid timeZone: "{zone}": '
                zone_of(zone)
            if spec.get("suspend"):
                return None
            if "TZ" in str(given):
                yield from self._event("Warning", "UnsupportedSchedule", self._unsupported(str(given)))
            reason, text = "UnparseableSchedule", f'unparseable schedule: "{given}" : '
            schedule = parse_schedule(decide.schedule_text(self.cron_job, self.seen.has_zones))
            reason, text = "InvalidSchedule", f"invalid schedule: {given} : "
            missed = decide.due(self.cron_job, self.seen.wall_us, schedule)
        except ScheduleError as error:
            yield from self._event("Warning", reason, f"{text}{error}")
            return None
        if missed.count > decide.MISSED_MAX:
            text = f"too many missed start times: {missed.count}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            yield from self._event("Warning", "TooManyMissedTimes", text)
        return schedule, missed.at_s

    def _unsupported(self, schedule: str) -> str:
        page = f"https://{self.seen.domain}/docs/concepts/workloads/controllers/cron-jobs/"
        return f'CRON_TZ or TZ used in schedule "{schedule}" is not officially supported, see {page} for more details'

    def _replace(self) -> Steps[str | None]:
        """Delete the active Jobs; returns an error text or None."""
        for ref in self.active:
            if not ref.get("name"):
                return NAMELESS
            live = yield Get(JOBS, ref.get("namespace", ""), ref["name"])
            if not live.ok:
                yield from self._event("Warning", "FailedGet", f"Get job: {live.message}")
                return live.message
            if not (yield from self._remove(live.obj)):
                return f"could not replace job {key_of(live.obj)}"
        return None

    def _create(self, at_s: int) -> Steps[str | None]:
        """Create the Job of a scheduled time; returns an error text or None.

        Quirk: without a reply body an empty Job is listed as active, and every later sync fails on
        it (NAMELESS).
        """
        job = decide.job_from(self.cron_job, at_s, self.seen.reference)
        reply = yield Start(job, self.cron_job["metadata"]["namespace"], at_s)
        if not reply.ok and not is_terminating_refusal(reply):
            if reply.reason != "AlreadyExists":
                yield from self._event("Warning", "FailedCreate", f"Error creating job: {reply.message}")
            return reply.message
        meta = reply.obj["metadata"] if reply.ok else {}
        yield from self._event("Normal", "SuccessfulCreate", f"Created job {meta.get('name', '')}")
        known = {name: meta[name] for name in ("namespace", "name", "uid", "resourceVersion") if name in meta}
        ref = {"apiVersion": job["apiVersion"], "kind": "Job", **known}
        self._set(active=[*self.active, ref], lastScheduleTime=format_time(at_s * SECOND))
        return None

    def _remove(self, job: Obj) -> Steps[bool]:
        """Delete a Job; returns True if it is deleted."""
        reply = yield Remove(job)
        if not reply.ok:
            yield from self._event("Warning", "FailedDelete", f"Deleted job: {reply.message}")
            return False
        self._forget(uid_of(job))
        self.is_dirty = True
        yield from self._event("Normal", "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")
        return True
