"""The CronJob and TTL-after-finished controllers against the real API server, to the second."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.types import Obj
from sim.units import MINUTE, SECOND, parse_time
from tests.actor.controllers.test_job import end_all, job
from tests.actor.controllers.workload import World, world

LOOPS = ("job", "cronjob", "ttl-after-finished")


def cron_job(schedule: str = "*/5 * * * *", **spec: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": job()["spec"]}, **spec},
    }


def wall_s(w: World, at_us: int | None = None) -> float:
    """Unix time in seconds, of an instant of the kernel or of now."""
    return (w.kernel.epoch_us + (w.kernel.now_us if at_us is None else at_us)) / SECOND


async def until_minute(w: World, minutes: int, after_s: float = 30.0) -> None:
    """Run until `after_s` seconds after the next minute that is a multiple of `minutes`."""
    period = minutes * 60
    await w.settle(int((period - wall_s(w) % period + after_s) * SECOND))


async def test_cron_job_starts_a_tenth_of_a_second_after_its_minute() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 5)
        made = w.watch_commits("jobs")
        await w.create("cronjobs", cron_job())
        await w.settle(15 * MINUTE)
        starts = [wall_s(w, at) for at, _ in made]
        assert len(starts) == 3
        assert [round(at % 300, 1) for at in starts] == [0.1] * 3
        assert [obj["metadata"]["name"] for _, obj in made] == [f"tick-{int(at) // 60}" for at in starts]
        status = (await w.get("cronjobs", "tick"))["status"]
        assert len(status["active"]) == 3
        assert parse_time(status["lastScheduleTime"]) == int(starts[-1]) * SECOND


@pytest.mark.parametrize(
    ("policy", "jobs", "event"),
    [("Allow", 2, "SuccessfulCreate"), ("Forbid", 1, "JobAlreadyActive"), ("Replace", 1, "SuccessfulDelete")],
)
async def test_overlapping_run_follows_the_concurrency_policy(policy: str, jobs: int, event: str) -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 5)
        await w.create("cronjobs", cron_job(concurrencyPolicy=policy))
        await w.settle(6 * MINUTE)
        first = await w.names("jobs")
        await w.settle(5 * MINUTE)
        names = await w.names("jobs")
        assert len(names) == jobs and (names[0] == first[0]) is (policy != "Replace")
        assert event in [reason for reason, _ in await w.events("tick")]


@pytest.mark.parametrize(
    ("offset_s", "starts"),
    [(150, [300.1, 450.1, 750.1]), (-150, [450.1, 750.1]), (400, [300.1, 500.1, 800.1])],
)
async def test_set_wall_clock_does_not_move_the_planned_sync(offset_s: int, starts: list[float]) -> None:
    """A clock set ahead starts the latest due run at the planned sync; a clock set back starts
    none.
    """
    async with world(LOOPS) as w:
        await until_minute(w, 5, 1)
        made = w.watch_commits("jobs")
        begun_s = int(wall_s(w)) // 300 * 300
        await w.create("cronjobs", cron_job())
        await w.settle(30 * SECOND)
        w.plane.supervisor["controller-manager-0"].clock.set(w.kernel.now_us, offset_us=offset_s * SECOND)
        await w.settle(900 * SECOND)
        assert [round(wall_s(w, at) - begun_s, 1) for at, _ in made] == starts
        names = [f"tick-{(begun_s + int(at) + offset_s) // 300 * 5}" for at in starts]
        assert [job["metadata"]["name"] for _, job in made] == names


async def test_forbidden_run_starts_when_the_active_one_has_finished() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 5)
        made = w.watch_commits("jobs")
        await w.create("cronjobs", cron_job(concurrencyPolicy="Forbid"))
        await w.settle(12 * MINUTE)
        ended_us = w.kernel.now_us
        await end_all(w, "Succeeded")
        await w.settle(10 * SECOND)
        assert len(made) == 2 and ended_us + SECOND <= made[1][0] < ended_us + 2 * SECOND
        # The name contains the minute for which it was scheduled.
        assert int(made[1][1]["metadata"]["name"].removeprefix("tick-")) % 5 == 0


async def test_delayed_run_past_a_schedule_gap_causes_no_tight_loop() -> None:
    """At half past two the run after the computed last run is over, so a naive delay would be 0."""
    async with world(LOOPS) as w:
        await until_minute(w, 24 * 60, 90 * 60)
        made = w.watch_commits("jobs")
        await w.create("cronjobs", cron_job("0 0,1,2,3 * * *", concurrencyPolicy="Forbid"))
        await w.settle(25 * 60 * MINUTE)
        assert [obj["metadata"]["name"] for _, obj in made] == [f"tick-{int(wall_s(w, made[0][0])) // 60}"]
        ended_us = w.kernel.now_us
        await end_all(w, "Succeeded")
        await w.settle(10 * SECOND)
        # The computed run is started: the one of midnight.
        assert ended_us < made[1][0] < ended_us + 3 * SECOND
        assert int(made[1][1]["metadata"]["name"].removeprefix("tick-")) % (24 * 60) == 0


async def test_only_the_latest_finished_jobs_are_kept() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 1)
        await w.create("cronjobs", cron_job("* * * * *", successfulJobsHistoryLimit=2))
        for _ in range(5):
            await w.settle(MINUTE)
            await end_all(w, "Succeeded")
        await w.settle(5 * SECOND)
        assert len(await w.names("jobs")) == 2
        status = (await w.get("cronjobs", "tick"))["status"]
        assert "active" not in status and status["lastSuccessfulTime"]


async def test_one_missed_run_is_started_after_a_long_suspension() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 1)
        await w.create("cronjobs", cron_job("* * * * *", suspend=True))
        await w.settle(120 * MINUTE)
        assert await w.names("jobs") == []
        await w.patch("cronjobs", "tick", {"spec": {"suspend": False}})
        await w.settle(10 * SECOND)
        (name,) = await w.names("jobs")
        assert name == f"tick-{int(wall_s(w)) // 60}"
        assert "TooManyMissedTimes" in [reason for reason, _ in await w.events("tick")]


async def test_run_beyond_its_starting_deadline_is_not_started() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 5)
        await w.create("cronjobs", cron_job(suspend=True, startingDeadlineSeconds=20))
        await w.settle(7 * MINUTE)
        await w.patch("cronjobs", "tick", {"spec": {"suspend": False}})
        await w.settle(10 * SECOND)
        assert await w.names("jobs") == []


async def test_time_zone_shifts_the_schedule() -> None:
    async with world(LOOPS) as w:
        made = w.watch_commits("jobs")
        await w.create("cronjobs", cron_job("30 5 * * *", timeZone="Asia/Kolkata"))
        await w.settle(24 * 60 * MINUTE)
        assert [round(wall_s(w, at) % 86400, 1) for at, _ in made] == [0.1]


async def test_finished_job_is_deleted_after_its_ttl() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job(ttlSecondsAfterFinished=100))
        await w.create("jobs", job("stays"))
        await w.settle()
        await end_all(w, "Succeeded")
        await w.settle(5 * SECOND)
        finished = (await w.get("jobs", "work"))["status"]["completionTime"]
        await w.settle(int((parse_time(finished) / SECOND + 99.9 - wall_s(w)) * SECOND))
        assert "work" in await w.names("jobs")
        await w.settle(SECOND)
        reply = await w.plane.ask("get", "jobs", "default", "work")
        # Without a garbage collector it is only marked, as the delete is in the foreground.
        assert reply.obj["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert "deletionTimestamp" not in (await w.get("jobs", "stays"))["metadata"]


async def test_invalid_changed_schedule_is_reported_at_the_next_run() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 5)
        await w.create("cronjobs", cron_job())
        await w.patch("cronjobs", "tick", {"spec": {"schedule": "TZ=UTC */5 * * * *"}})
        await w.settle(10 * SECOND)
        assert await w.events("tick") == []
        await w.settle(5 * MINUTE)
        reported = {reason for reason, _ in await w.events("tick")}
        assert reported == {"UnsupportedSchedule", "SuccessfulCreate"}


async def test_failed_job_causes_a_write_without_event_before_the_first_success() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 5, after_s=250.0)
        await w.create("cronjobs", cron_job(concurrencyPolicy="Forbid"))
        await w.settle(60 * SECOND)
        await w.patch("jobs", (await w.names("jobs"))[0], {"spec": {"backoffLimit": 0}})
        await end_all(w, "Failed")
        await w.settle(60 * SECOND)
        writes = w.quota.watch("update", "cronjobs/status")
        await w.patch("cronjobs", "tick", {"metadata": {"labels": {"touched": "1"}}})
        await w.settle(10 * SECOND)
        assert len(writes) == 1
        assert "lastSuccessfulTime" not in (await w.get("cronjobs", "tick"))["status"]


async def test_nameless_active_job_blocks_its_cron_job_until_it_is_removed() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 1)
        made = w.watch_commits("jobs")
        await w.create("cronjobs", cron_job("* * * * *"))
        await w.patch("cronjobs", "tick", {"status": {"active": [{"kind": "Job"}]}}, "status")
        await w.settle(MINUTE)
        assert made == []
        await w.patch("cronjobs", "tick", {"status": {"active": None}}, "status")
        await w.settle(MINUTE)
        assert len(made) in (1, 2)


async def test_cron_job_records_events_for_finished_unexpected_and_missing_jobs() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 5)
        made = await w.create("cronjobs", cron_job())
        await w.settle(10 * MINUTE)
        first, second = sorted(await w.names("jobs"))
        for pod in await w.stored("pods"):
            if pod["metadata"]["labels"]["job-name"] == first:
                await w.patch("pods", pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, "status")
        await w.settle()
        done = (await w.get("jobs", first))["status"]["completionTime"]
        await w.plane.ask("delete", "jobs", "default", second, body={"propagationPolicy": "Background"})
        await w.settle()
        ref = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": made["metadata"]["uid"]}
        strange = job("strange")
        strange["metadata"]["ownerReferences"] = [{**ref, "controller": True}]
        await w.create("jobs", strange)
        await w.settle()
        reported = await w.events("tick")
        assert reported[:2] == [("SuccessfulCreate", f"Created job {name}") for name in (first, second)]
        assert list(dict.fromkeys(reported[2:])) == [
            ("SawCompletedJob", f"Saw completed job: {first}, status: Complete"),
            ("MissingJob", f"Active job went missing: {second}"),
            ("UnexpectedJob", "Saw a job that the controller did not create or forgot: strange"),
        ]
        status = (await w.get("cronjobs", "tick"))["status"]
        assert status["lastSuccessfulTime"] == done and "active" not in status


async def test_failed_create_of_a_job_is_reported_and_retried() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 5)
        await w.create("cronjobs", cron_job())
        request_times = w.quota.watch("create", "jobs")
        w.quota.refuse_once("create", "jobs", 409, "AlreadyExists", "there is one")
        await until_minute(w, 5, 1)
        w.quota.refuse(2, "create", "jobs", 500, "InternalError", "no")
        await until_minute(w, 5, 1)
        assert [round(wall_s(w, at) % 300, 1) for at in request_times] == [0.1] * 5
        made = [("SuccessfulCreate", f"Created job {name}") for name in sorted(await w.names("jobs"))]
        refused = ("FailedCreate", "Error creating job: no")
        assert await w.events("tick") == [made[0], refused, made[1]]


async def test_run_in_a_terminating_namespace_is_listed_without_name() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 5)
        await w.create("namespaces", {"metadata": {"name": "n"}}, "")
        await w.create("cronjobs", cron_job(), "n")
        request_times = w.quota.watch("create", "jobs")
        assert (await w.plane.ask("delete", "namespaces", "", "n")).ok
        await until_minute(w, 5, 1)
        due_s = int(wall_s(w)) // 300 * 300
        await until_minute(w, 5, 1)
        assert len(request_times) == 1
        assert await w.stored("jobs", "n") == []
        status = (await w.plane.ask("get", "cronjobs", "n", "tick")).obj["status"]
        assert status["active"] == [{"apiVersion": "batch/v1", "kind": "Job"}]
        assert parse_time(status["lastScheduleTime"]) == due_s * SECOND


async def test_job_that_cannot_be_read_is_not_replaced() -> None:
    async with world(LOOPS) as w:
        await until_minute(w, 5)
        await w.create("cronjobs", cron_job(concurrencyPolicy="Replace"))
        await until_minute(w, 5, 1)
        (old,) = await w.names("jobs")
        w.quota.refuse_once("get", "jobs", 500, "InternalError", "no")
        await until_minute(w, 5, 1)
        (new,) = await w.names("jobs")
        assert (await w.events("tick"))[1:] == [
            ("FailedGet", "Get job: no"),
            ("SuccessfulDelete", f"Deleted job {old}"),
            ("SuccessfulCreate", f"Created job {new}"),
        ]


async def test_schedule_that_never_comes_is_reported_and_starts_nothing() -> None:
    async with world(LOOPS) as w:
        await w.create("cronjobs", cron_job("59 23 31 2 *"))
        await w.settle(MINUTE)
        why = "time difference between two schedules less than 1 second"
        assert {*await w.events("tick")} == {("InvalidSchedule", f"invalid schedule: 59 23 31 2 * : {why}")}
