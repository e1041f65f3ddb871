"""Which run of a CronJob is due, and when the next sync comes."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.cronjob.decide import (
    Missed,
    beyond_history,
    due,
    is_too_late,
    long_date,
    most_recent,
    schedule_text,
    wait_us,
)
from sim.api.cron import ScheduleError, parse_schedule
from sim.api.types import Obj
from sim.units import SECOND, format_time, parse_time

DAY = 86_400


def at(text: str) -> int:
    return parse_time(text) // SECOND


def cron_job(created: str, last: str = "", **spec: Any) -> Obj:
    status = {"lastScheduleTime": last} if last else {}
    return {"metadata": {"name": "c", "creationTimestamp": created}, "spec": spec, "status": status}


def test_most_recent_missed_run_is_started() -> None:
    hourly = parse_schedule("0 * * * *")
    start = at("2026-03-02T00:30:00Z")
    assert most_recent(start, (start + 60) * SECOND, hourly) == Missed()
    assert most_recent(start, at("2026-03-02T01:00:00Z") * SECOND, hourly) == Missed(
        at("2026-03-02T01:00:00Z"), 1
    )
    second = at("2026-03-02T02:00:00Z")
    assert most_recent(start, second * SECOND, hourly) == Missed(second, 2)
    assert most_recent(start, at("2026-03-02T07:59:59Z") * SECOND, hourly) == Missed(
        at("2026-03-02T07:00:00Z"), 7
    )


def test_uneven_schedule_is_treated_as_even() -> None:
    # Monday to Friday at nine: from the runs of Thursday and Friday one on Sunday is computed.
    weekdays = parse_schedule("0 9 * * 1-5")
    found = most_recent(at("2026-03-05T08:00:00Z"), at("2026-03-08T12:00:00Z") * SECOND, weekdays)
    assert found == Missed(at("2026-03-08T09:00:00Z"), 4)


def test_run_with_no_further_one_within_five_years_is_an_error() -> None:
    leap_day = parse_schedule("0 0 29 2 *")  # 2100 is no leap year
    with pytest.raises(ScheduleError, match="less than 1 second"):
        most_recent(at("2096-01-01T00:00:00Z"), at("2096-03-01T00:00:00Z") * SECOND, leap_day)


def test_schedule_that_never_comes_is_an_error_without_next_sync() -> None:
    never = parse_schedule("0 0 31 2 *")
    with pytest.raises(ScheduleError):
        most_recent(0, 10 * DAY * SECOND, never)
    assert wait_us(cron_job("2026-03-02T00:00:00Z"), at("2026-03-03T00:00:00Z") * SECOND, never) is None


def test_starting_deadline_limits_missed_runs() -> None:
    minutely = parse_schedule("* * * * *")
    now_us = at("2026-03-02T10:00:30Z") * SECOND
    assert due(cron_job("2026-03-02T00:00:30Z"), now_us, minutely).count == 600
    short = cron_job("2026-03-02T00:00:30Z", startingDeadlineSeconds=100)
    assert due(short, now_us, minutely) == Missed(at("2026-03-02T10:00:00Z"), 2)
    assert is_too_late(short, now_us // SECOND - 101, now_us)
    assert not is_too_late(short, now_us // SECOND - 100, now_us)


def test_next_sync_is_a_tenth_of_a_second_after_the_next_run() -> None:
    hourly = parse_schedule("0 * * * *")
    now_us = at("2026-03-02T10:30:00Z") * SECOND
    waiting = cron_job("2026-03-01T00:00:00Z", "2026-03-02T10:00:00Z")
    assert wait_us(waiting, now_us, hourly) == 1800 * SECOND + 100_000


@pytest.mark.parametrize(
    ("now", "looks"),
    [
        (
            "2026-03-03T02:30:00Z",
            "2026-03-03T03:00:00Z",
        ),  # midnight is computed as the last run: sync at the next due run
        (
            "2026-03-05T13:30:00Z",
            "2026-03-05T15:00:00Z",
        ),  # the computed run moves by the 21 hours between the first two runs
    ],
)
def test_next_sync_is_when_the_computed_run_changes_if_it_is_over(now: str, looks: str) -> None:
    schedule, now_us = parse_schedule("0 0,1,2,3 * * *"), at(now) * SECOND
    held_up = cron_job("2026-03-01T00:00:00Z", "2026-03-02T02:00:00Z", concurrencyPolicy="Forbid")
    assert wait_us(held_up, now_us, schedule) == at(looks) * SECOND - now_us


def test_time_zone_in_the_schedule_wins() -> None:
    assert schedule_text(cron_job("", schedule="TZ=UTC * * * * *")) == "TZ=UTC * * * * *"
    assert (
        schedule_text(cron_job("", schedule="* * * * *", timeZone="Asia/Tokyo")) == "TZ=Asia/Tokyo * * * * *"
    )
    assert schedule_text(cron_job("", schedule="* * * * *", timeZone="Nowhere/X")) == "* * * * *"


def test_oldest_finished_jobs_are_deleted_first() -> None:
    def finished(name: str, start_s: int, kind: str) -> Obj:
        status = {
            "conditions": [{"type": kind, "status": "True"}],
            "startTime": format_time(start_s * SECOND),
        }
        return {"metadata": {"name": name}, "status": status}

    jobs = [finished("b", 20, "Complete"), finished("a", 10, "Complete"), finished("f", 5, "Failed")]
    spec = {"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1}
    assert [j["metadata"]["name"] for j in beyond_history(cron_job("", **spec), jobs)] == ["a"]
    assert beyond_history(cron_job(""), jobs) == []


@pytest.mark.parametrize("schedule", ["* * * * *", "0 9 * * 1-5", "@every 90s", "TZ=Asia/Tokyo 0 0 1 1 *"])
@pytest.mark.parametrize("last", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z"])
def test_last_run_at_the_end_of_the_calendar_delays_the_next_sync(schedule: str, last: str) -> None:
    now_us, parsed = at("2026-03-02T10:00:30Z") * SECOND, parse_schedule(schedule)
    job = cron_job("2026-03-02T00:00:30Z", last)
    missed, left_us = due(job, now_us, parsed), wait_us(job, now_us, parsed)
    assert (missed.at_s is None) is last.startswith("9999") and left_us is not None and left_us > 0


def test_time_zone_of_a_cron_job_is_ignored_without_its_gate() -> None:
    cron_job = {"spec": {"schedule": "0 3 * * *", "timeZone": "Europe/Berlin"}}
    assert schedule_text(cron_job) == "TZ=Europe/Berlin 0 3 * * *"
    assert schedule_text(cron_job, has_zones=False) == "0 3 * * *"


def test_long_dates_count_from_the_first_day_of_1970() -> None:
    assert long_date(0) == "Thu, 01 Jan 1970 00:00:00 +0000"
    assert long_date(at("2026-03-04T05:06:07Z")) == "Wed, 04 Mar 2026 05:06:07 +0000"
