"""Which run of a CronJob is due, and when to look again."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.cronjob.decide import (
    Missed,
    beyond_history,
    due,
    is_too_late,
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


def test_of_missed_runs_the_most_recent_counts() -> None:
    hourly = parse_schedule("0 * * * *")
    start = at("2026-03-02T00:30:00Z")
    assert most_recent(start, (start + 60) * SECOND, hourly) == Missed()
    assert most_recent(start, at("2026-03-02T01:00:00Z") * SECOND, hourly) == Missed(
        at("2026-03-02T01:00:00Z"), 1
    )
    assert most_recent(start, at("2026-03-02T07:59:59Z") * SECOND, hourly) == Missed(
        at("2026-03-02T07:00:00Z"), 7
    )


def test_uneven_schedules_are_taken_for_even_ones() -> None:
    # Monday to Friday at nine: from Thursday's and Friday's runs Sunday's is concluded, which is none
    weekdays = parse_schedule("0 9 * * 1-5")
    found = most_recent(at("2026-03-05T08:00:00Z"), at("2026-03-08T12:00:00Z") * SECOND, weekdays)
    assert found == Missed(at("2026-03-08T09:00:00Z"), 4)


def test_a_schedule_that_never_comes_is_an_error_and_wakes_nobody() -> None:
    never = parse_schedule("0 0 31 2 *")
    with pytest.raises(ScheduleError):
        most_recent(0, 10 * DAY * SECOND, never)
    assert wait_us(cron_job("2026-03-02T00:00:00Z"), at("2026-03-03T00:00:00Z") * SECOND, never) is None


def test_a_starting_deadline_cuts_the_past_short() -> None:
    minutely = parse_schedule("* * * * *")
    now_us = at("2026-03-02T10:00:30Z") * SECOND
    assert due(cron_job("2026-03-02T00:00:30Z"), now_us, minutely).count == 600
    short = cron_job("2026-03-02T00:00:30Z", startingDeadlineSeconds=100)
    assert due(short, now_us, minutely) == Missed(at("2026-03-02T10:00:00Z"), 2)
    assert is_too_late(short, now_us // SECOND - 101, now_us)
    assert not is_too_late(short, now_us // SECOND - 100, now_us)


def test_the_next_look_is_a_tenth_of_a_second_after_the_next_run() -> None:
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
        ),  # midnight is taken for the last run: at the next that is due
        (
            "2026-03-05T13:30:00Z",
            "2026-03-05T15:00:00Z",
        ),  # the guess moves on by the 21 hours between the first two
    ],
)
def test_where_the_next_run_is_taken_to_be_over_the_next_look_is_when_that_changes(
    now: str, looks: str
) -> None:
    schedule, now_us = parse_schedule("0 0,1,2,3 * * *"), at(now) * SECOND
    held_up = cron_job("2026-03-01T00:00:00Z", "2026-03-02T02:00:00Z", concurrencyPolicy="Forbid")
    assert wait_us(held_up, now_us, schedule) == at(looks) * SECOND - now_us


def test_a_zone_of_the_schedules_own_wins() -> None:
    assert schedule_text(cron_job("", schedule="TZ=UTC * * * * *")) == "TZ=UTC * * * * *"
    assert (
        schedule_text(cron_job("", schedule="* * * * *", timeZone="Asia/Tokyo")) == "TZ=Asia/Tokyo * * * * *"
    )
    assert schedule_text(cron_job("", schedule="* * * * *", timeZone="Nowhere/X")) == "* * * * *"


def test_the_oldest_finished_jobs_go_first() -> None:
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
def test_a_last_run_at_an_end_of_the_calendar_makes_the_next_look_wait(schedule: str, last: str) -> None:
    now_us, parsed = at("2026-03-02T10:00:30Z") * SECOND, parse_schedule(schedule)
    job = cron_job("2026-03-02T00:00:30Z", last)
    missed, left_us = due(job, now_us, parsed), wait_us(job, now_us, parsed)
    assert (missed.at_s is None) is last.startswith("9999") and left_us is not None and left_us > 0
