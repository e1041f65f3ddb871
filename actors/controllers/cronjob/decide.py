"""Decisions of the CronJob controller: which run is due, when to sync next, what to keep.  Pure.

Turns a CronJob and the time into the run to start, if any, and the delay until the next sync;
finished Jobs into those beyond the history limits.

Holds: of several missed runs only the most recent one is started.
Quirk: the most recent run is computed as if all runs had the distance of the first two missed ones.

Mirrors  kubernetes v1.25 pkg/controller/cronjob/{utils.go,cronjob_controllerv2.go}.
Differs  the controller's own time zone is UTC. With uneven schedules the computed run can be too
         early, so that the delay is over already: upstream then syncs in a tight loop with the same
         result; here the next sync is when the computed run changes or a run is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from actors.controllers.job.decide import ended
from sim.api.cron import Schedule, ScheduleError, zone_of
from sim.api.objects import spec_of, status_of
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.units import MS, SECOND, parse_time

LATE_US = 100 * MS  # nextScheduleDelta
MISSED_MAX = 100
TOO_CLOSE = "time difference between two schedules less than 1 second"


def schedule_text(cron_job: Obj, has_zones: bool = True) -> str:
    """The schedule with its time zone; a zone in the schedule's text wins, an invalid one is
    ignored.

    has_zones: False if the field with the zone is ignored (the gate CronJobTimeZone)
    """
    spec = spec_of(cron_job)
    schedule, zone = str(spec.get("schedule", "")), spec.get("timeZone")
    if "TZ" in schedule or zone is None or not has_zones:
        return schedule
    try:
        zone_of(zone)
    except ScheduleError:
        return schedule
    return f"TZ={zone} {schedule}"


@dataclass(frozen=True, slots=True)
class Missed:
    """The most recent missed run (None if there is none) and the approximate number of missed runs."""

    at_s: int | None = None
    count: int = 0


def most_recent(earliest_s: int, wall_us: int, schedule: Schedule) -> Missed:
    """The missed runs after `earliest_s`; ScheduleError if the schedule makes no sense."""
    now_s = wall_us // SECOND
    first = schedule.next_s(earliest_s)
    second = None if first is None else schedule.next_s(first)
    if first is not None and now_s < first:
        return Missed()
    if first is None or second is None or second <= first:
        raise ScheduleError(TOO_CLOSE)
    if now_s < second:
        return Missed(first, 1)
    behind = (now_s - first) // (second - first)
    return Missed(first + behind * (second - first), behind + 1)


def _since_s(cron_job: Obj) -> int:
    """The time of the last run, or of the creation."""
    text = status_of(cron_job).get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
    return int(parse_time(text) // SECOND)


def due(cron_job: Obj, wall_us: int, schedule: Schedule) -> Missed:
    """The run to start now."""
    earliest_s = _since_s(cron_job)
    deadline = spec_of(cron_job).get("startingDeadlineSeconds")
    if deadline is not None:
        earliest_s = max(earliest_s, (wall_us - deadline * SECOND) // SECOND)
    return Missed() if earliest_s * SECOND > wall_us else most_recent(earliest_s, wall_us, schedule)


def is_too_late(cron_job: Obj, at_s: int, wall_us: int) -> bool:
    """True if the run's starting deadline is over."""
    deadline = spec_of(cron_job).get("startingDeadlineSeconds")
    return deadline is not None and (at_s + deadline) * SECOND < wall_us


def wait_us(cron_job: Obj, wall_us: int, schedule: Schedule) -> int | None:
    """Delay until the next sync; None for a schedule without a next time."""
    earliest_s = _since_s(cron_job)
    try:
        found = most_recent(earliest_s, wall_us, schedule).at_s
    except ScheduleError:
        found = wall_us // SECOND
    following = schedule.next_s(earliest_s if found is None else found)
    if following is None:
        return None
    left_us = following * SECOND + LATE_US - wall_us
    return left_us if left_us > 0 else _moved_on_us(earliest_s, wall_us, schedule)


def _moved_on_us(earliest_s: int, wall_us: int, schedule: Schedule) -> int:
    """Delay until the computed run can change, if the run after the computed one is over too."""
    now_s = wall_us // SECOND
    first_s = schedule.next_s(earliest_s)
    second_s = None if first_s is None else schedule.next_s(first_s)
    assert first_s is not None and second_s is not None  # otherwise no run was found
    period_s = second_s - first_s
    found_next_s = first_s + ((now_s - first_s) // period_s + 1) * period_s
    due_s = schedule.next_s(now_s)
    return (found_next_s if due_s is None else min(found_next_s, due_s)) * SECOND - wall_us


def long_date(unix_s: int) -> str:
    """The time as in RFC 1123, with a numeric zone."""
    return format_datetime(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=unix_s))


def job_name(cron_job: Obj, at_s: int) -> str:
    """The name of the Job for a scheduled time."""
    return f"{cron_job['metadata']['name']}-{at_s // 60}"


def job_from(cron_job: Obj, at_s: int, ref: Obj) -> Obj:
    """The Job to create for a scheduled time."""
    template = spec_of(cron_job).get("jobTemplate") or {}
    meta = template.get("metadata") or {}
    kept = {part: meta[part] for part in ("labels", "annotations") if meta.get(part)}
    return {
        "apiVersion": ref["apiVersion"],
        "kind": "Job",
        "metadata": {**kept, "name": job_name(cron_job, at_s), "ownerReferences": [ref]},
        "spec": template.get("spec") or {},
    }


def beyond_history(cron_job: Obj, jobs: Sequence[Obj]) -> list[Obj]:
    """Finished Jobs to delete: the oldest succeeded and the oldest failed ones beyond the limits."""
    gone: list[Obj] = []
    for kind, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        most = spec_of(cron_job).get(limit)
        if most is None:
            continue
        over = [job for job in jobs if (ended(job) or {}).get("type") == kind]
        over.sort(key=_start_order)
        gone += over[: max(0, len(over) - most)]
    return gone


def _start_order(job: Obj) -> tuple[bool, int, str]:
    start = status_of(job).get("startTime")
    return not start, parse_time(start) if start else 0, job["metadata"]["name"]
