"""The steps of a sync of a CronJob: which requests follow each other, and what follows an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from actors.controllers.cronjob.sync import (
    NAMELESS,
    Action,
    Outcome,
    Remove,
    Seen,
    Start,
    sync_cron_job,
)
from actors.controllers.shared.steps import Event, Get, Update
from sim.api.status import status as refusal
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.units import SECOND, Wall, parse_time

NOW = parse_time("2026-01-01T00:10:00Z")
AT_S = NOW // SECOND
TEN = {"name": f"tick-{AT_S // 60}", "namespace": "default", "uid": "ten"}
FIVE = {"name": f"tick-{AT_S // 60 - 5}", "namespace": "default", "uid": "five"}
AWAY = Reply(503, body=refusal(503, "ServiceUnavailable", "away"))
GONE = Reply(404, body=refusal(404, "NotFound", "gone"))
EXISTS = Reply(409, body=refusal(409, "AlreadyExists", "exists"))
Replies = Callable[[Action], Reply | None]


def cron_job(active: Sequence[Obj] = (), last: str = "2026-01-01T00:05:00Z", **spec: Any) -> Obj:
    meta = {"name": "tick", "namespace": "default", "uid": "c", "creationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"active": list(active), "lastScheduleTime": last}
    return {"metadata": meta, "spec": {"schedule": "*/5 * * * *", **spec}, "status": status}


def job(ref: Obj, end: str = "") -> Obj:
    conditions = [{"type": end, "status": "True"}] if end else []
    return {"metadata": {**ref}, "status": {"conditions": conditions}}


def stored(obj: Obj) -> Reply:
    return Reply(200, item=Item("k", obj, 1, 1))


def drive(
    obj: Obj, jobs: Sequence[Obj] = (), answer: Replies = lambda _: None, has_zones: bool = True
) -> tuple[list[Action], Outcome]:
    """All actions of a sync at ten past, and its end.

    answer: the reply to an action, None for the usual one: a Job is read and created
    """
    steps = sync_cron_job(obj, jobs, Seen({"apiVersion": "batch/v1"}, "orch.io", has_zones, Wall(NOW)))
    actions: list[Action] = []
    reply: Reply | None = None
    while True:
        try:
            action = next(steps) if reply is None else steps.send(reply)
        except StopIteration as end:
            return actions, end.value
        actions.append(action)
        reply = answer(action)
        if reply is None:
            match action:
                case Start(made):
                    reply = stored({**made, "metadata": {**made["metadata"], **TEN}})
                case Get(_, namespace, name):
                    reply = stored(job({"name": name, "namespace": namespace, "uid": name}))
                case _:
                    reply = Reply(200)


def reasons(actions: Sequence[Action]) -> list[str]:
    return [one.reason for one in actions if isinstance(one, Event)]


def written(actions: Sequence[Action]) -> Obj | None:
    """The status that is written; at most one is."""
    (status,) = [one.obj["status"] for one in actions if isinstance(one, Update)] or [None]
    return status


def test_due_run_is_created_listed_and_written_once_at_the_end() -> None:
    actions, outcome = drive(cron_job())
    assert [type(one) for one in actions] == [Start, Event, Update]
    assert written(actions) == {
        "active": [{"apiVersion": "batch/v1", "kind": "Job", **TEN}],
        "lastScheduleTime": "2026-01-01T00:10:00Z",
    }
    assert outcome == (None, 5 * 60 * SECOND + 100_000)


def test_created_job_has_the_labels_and_annotations_of_its_template() -> None:
    meta = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "name": "x"}
    (start, *_), _ = drive(cron_job(jobTemplate={"metadata": meta, "spec": {"parallelism": 2}}))
    assert isinstance(start, Start)
    assert start.job["spec"] == {"parallelism": 2}
    assert start.job["metadata"] == {
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "name": TEN["name"],
        "ownerReferences": [{"apiVersion": "batch/v1"}],
    }


def test_run_that_was_the_last_one_is_not_started_again() -> None:
    assert drive(cron_job(last="2026-01-01T00:10:00Z"))[0] == []


def test_run_with_a_listed_job_is_not_started_again() -> None:
    assert drive(cron_job([TEN]), [job(TEN)])[0] == []


@pytest.mark.parametrize(
    ("policy", "kinds"),
    [
        ("Allow", [Start, Event, Update]),
        ("Forbid", [Event]),
        ("Replace", [Get, Remove, Event, Start, Event, Update]),
    ],
)
def test_run_beside_an_active_job_follows_the_policy(policy: str, kinds: list[type]) -> None:
    actions, outcome = drive(cron_job([FIVE], concurrencyPolicy=policy), [job(FIVE)])
    assert [type(one) for one in actions] == kinds
    assert outcome.error is None


def test_job_that_is_not_deleted_is_not_replaced() -> None:
    actions, outcome = drive(
        cron_job([FIVE], concurrencyPolicy="Replace"),
        [job(FIVE)],
        lambda action: AWAY if isinstance(action, Remove) else None,
    )
    assert reasons(actions) == ["FailedDelete"]
    assert outcome == (f"could not replace job default/{FIVE['name']}", None)


def test_active_job_that_cannot_be_read_is_not_replaced() -> None:
    actions, outcome = drive(
        cron_job([FIVE], concurrencyPolicy="Replace"),
        [job(FIVE)],
        lambda action: AWAY if isinstance(action, Get) else None,
    )
    assert (reasons(actions), outcome) == (["FailedGet"], ("away", None))


def test_job_that_the_live_cron_job_lists_is_expected() -> None:
    live = cron_job([FIVE], last="2026-01-01T00:10:00Z")
    actions, _ = drive(cron_job(), [job(FIVE)], lambda action: stored(live) if type(action) is Get else None)
    assert [type(one) for one in actions] == [Get]


def test_job_that_nothing_lists_is_reported_and_the_run_starts() -> None:
    live = cron_job()
    actions, _ = drive(cron_job(), [job(FIVE)], lambda action: stored(live) if type(action) is Get else None)
    assert reasons(actions) == ["UnexpectedJob", "SuccessfulCreate"]


def test_sync_ends_when_the_live_cron_job_cannot_be_read() -> None:
    actions, outcome = drive(cron_job(), [job(FIVE)], lambda _: AWAY)
    assert [type(one) for one in actions] == [Get]
    assert outcome == ("away", None)


def test_active_job_that_is_gone_is_forgotten() -> None:
    owner = cron_job([FIVE], last="2026-01-01T00:10:00Z")
    actions, _ = drive(owner, answer=lambda action: GONE if isinstance(action, Get) else None)
    assert reasons(actions) == ["MissingJob"]
    assert written(actions) == {"lastScheduleTime": "2026-01-01T00:10:00Z"}


def test_active_job_that_cannot_be_read_ends_the_sync() -> None:
    actions, outcome = drive(cron_job([FIVE]), answer=lambda _: AWAY)
    assert [type(one) for one in actions] == [Get]
    assert outcome.error == "away"


def test_active_job_without_a_name_ends_the_sync() -> None:
    assert drive(cron_job([{"uid": "x"}])) == ([], (NAMELESS, None))
    nameless = cron_job([{"uid": "x"}], concurrencyPolicy="Replace")
    assert drive(nameless, [job({"name": "j", "uid": "x"})])[1] == (NAMELESS, None)


def test_finished_job_leaves_the_active_ones_and_its_end_is_the_last_success() -> None:
    owner = cron_job([FIVE], last="2026-01-01T00:10:00Z")
    done = {**job(FIVE, "Complete")}
    actions, _ = drive(owner, [done])
    assert reasons(actions) == ["SawCompletedJob"]
    done["status"] = {**done["status"], "completionTime": "2026-01-01T00:06:00Z"}
    actions, _ = drive(cron_job(last="2026-01-01T00:10:00Z"), [done])
    status = written(actions)
    assert status is not None and status["lastSuccessfulTime"] == "2026-01-01T00:06:00Z"


def test_earlier_success_changes_nothing() -> None:
    owner = cron_job(last="2026-01-01T00:10:00Z")
    owner["status"]["lastSuccessfulTime"] = "2026-01-01T00:08:00Z"
    done = job(FIVE, "Complete")
    done["status"]["completionTime"] = "2026-01-01T00:06:00Z"
    assert drive(owner, [done])[0] == []


@pytest.mark.parametrize(("reply", "told"), [(AWAY, ["FailedCreate"]), (EXISTS, [])])
def test_job_that_is_not_created_leaves_the_status(reply: Reply, told: list[str]) -> None:
    actions, outcome = drive(cron_job(), answer=lambda action: reply if type(action) is Start else None)
    assert (reasons(actions), outcome) == (told, (reply.message, None))
    assert written(actions) is None


def test_old_jobs_are_deleted_and_only_after_a_sync_without_an_error() -> None:
    old = [
        job({"name": f"j{number}", "uid": f"j{number}", "namespace": "default"}, "Complete")
        for number in (1, 2)
    ]
    owner = cron_job(last="2026-01-01T00:10:00Z", successfulJobsHistoryLimit=1)
    actions, _ = drive(owner, old)
    assert [one.job["metadata"]["name"] for one in actions if isinstance(one, Remove)] == ["j1"]
    assert written(actions) == {"lastScheduleTime": "2026-01-01T00:10:00Z"}
    failing = cron_job([FIVE], successfulJobsHistoryLimit=1)
    actions, _ = drive(failing, old, lambda action: AWAY if isinstance(action, Get) else None)
    assert not any(isinstance(one, Remove) for one in actions)


def test_cron_job_that_is_being_deleted_starts_nothing() -> None:
    owner = cron_job()
    owner["metadata"]["deletionTimestamp"] = "2026-01-01T00:09:00Z"
    assert drive(owner) == ([], (None, None))


def test_suspended_cron_job_awaits_an_event() -> None:
    assert drive(cron_job(suspend=True)) == ([], (None, None))


@pytest.mark.parametrize(
    ("spec", "reason", "text"),
    [
        ({"timeZone": "Moon/Sea"}, "UnknownTimeZone", 'invalid timeZone: "Moon/Sea": '),
        ({"schedule": "soon"}, "UnparseableSchedule", 'unparseable schedule: "soon" : '),
        ({"schedule": "0 0 31 2 *"}, "InvalidSchedule", "invalid schedule: 0 0 31 2 * : "),
    ],
)
def test_schedule_that_makes_no_sense_is_reported(spec: Obj, reason: str, text: str) -> None:
    (event,), outcome = drive(cron_job(**spec))
    assert isinstance(event, Event) and outcome == (None, None)
    assert (event.reason, event.message.startswith(text)) == (reason, True)


def test_zone_in_the_schedule_is_reported_and_used() -> None:
    actions, _ = drive(cron_job(schedule="TZ=UTC */5 * * * *"))
    assert reasons(actions) == ["UnsupportedSchedule", "SuccessfulCreate"]
    event = actions[0]
    assert isinstance(event, Event)
    assert "see https://orch.io/docs/concepts/workloads/controllers/cron-jobs/ for" in event.message


@pytest.mark.parametrize(
    ("last", "told"),
    [("22:30:00", ["SuccessfulCreate"]), ("22:29:00", ["TooManyMissedTimes", "SuccessfulCreate"])],
)
def test_more_than_100_missed_runs_are_reported(last: str, told: list[str]) -> None:
    owner = cron_job(last=f"2025-12-31T{last}Z", schedule="* * * * *")
    assert reasons(drive(owner)[0]) == told


def test_zone_of_a_cron_job_is_not_read_without_its_gate() -> None:
    assert reasons(drive(cron_job(timeZone="Moon/Sea"), has_zones=False)[0]) == ["SuccessfulCreate"]
