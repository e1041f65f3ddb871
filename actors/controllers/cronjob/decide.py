"""When a CronJob's runs are due, what it does about them, and what it keeps.

Turns a CronJob and the time into the run to start, if any, and the wait until the next look;
finished Jobs into those beyond the limits of history.

Holds: of many missed runs one is started, the most recent.
Quirk: which one that is, is worked out as if all runs were as far apart as the first two missed
ones.

Mirrors  kubernetes v1.25 pkg/controller/cronjob/{utils.go,cronjob_controllerv2.go}.
Differs  the controller's own zone is UTC; while the wait would be over already (uneven schedules,
         of whose last run the guess falls short) upstream looks again and again, telling the same
         each time; here the next look is when the guess moves on or a run is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from actors.controllers.job.decide import ended
from sim.api.cron import Schedule, ScheduleError, zone_of
from sim.api.objects import spec_of, status_of
from sim.api.types import Obj
from sim.units import MS, SECOND, parse_time

LATE_US = 100 * MS  # nextScheduleDelta
MISSED_MAX = 100
TOO_CLOSE = "time difference between two schedules less than 1 second"


def schedule_text(cron_job: Obj) -> str:
    """The schedule with its zone; a zone in the schedule's own text wins, one that is none is left
    out.
    """
    spec = spec_of(cron_job)
    schedule, zone = str(spec.get("schedule", "")), spec.get("timeZone")
    if "TZ" in schedule or zone is None:
        return schedule
    try:
        zone_of(zone)
    except ScheduleError:
        return schedule
    return f"TZ={zone} {schedule}"


@dataclass(frozen=True, slots=True)
class Missed:
    """The most recent run that was due (None: none was), and how many were, about."""

    at_s: int | None = None
    count: int = 0


def most_recent(earliest_s: int, wall_us: int, schedule: Schedule) -> Missed:
    """Of the runs due after `earliest_s`; ScheduleError if the schedule has no sense."""
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
    """The last run, or the creation."""
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
    deadline = spec_of(cron_job).get("startingDeadlineSeconds")
    return deadline is not None and (at_s + deadline) * SECOND < wall_us


def wait_us(cron_job: Obj, wall_us: int, schedule: Schedule) -> int | None:
    """Time until the next look; None for a schedule that never comes."""
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
    """Time until a look may find another run, where the one after the run that was found is over as
    well.
    """
    now_s = wall_us // SECOND
    first_s = schedule.next_s(earliest_s)
    second_s = None if first_s is None else schedule.next_s(first_s)
    assert first_s is not None and second_s is not None  # else nothing would have been found
    period_s = second_s - first_s
    found_next_s = first_s + ((now_s - first_s) // period_s + 1) * period_s
    due_s = schedule.next_s(now_s)
    return (found_next_s if due_s is None else min(found_next_s, due_s)) * SECOND - wall_us


def long_date(unix_s: int) -> str:
    """As RFC 1123 writes it, with a numeric zone."""
    return format_datetime(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=unix_s))


def job_name(cron_job: Obj, at_s: int) -> str:
    return f"{cron_job['metadata']['name']}-{at_s // 60}"


def job_from(cron_job: Obj, at_s: int, ref: Obj) -> Obj:
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
    """Finished Jobs that are kept no longer: the oldest of those that succeeded and of those that
    failed.
    """
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
