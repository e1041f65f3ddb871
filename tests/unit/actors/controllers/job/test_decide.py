"""What a Job needs, on plain values."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.job.decide import (
    DEADLINE,
    LIMIT,
    PODS_PER_SYNC_MAX,
    UNCOUNTED_MAX,
    Tracking,
    Uncounted,
    condition,
    count_finished,
    failure_of,
    format_indexes,
    index_of,
    is_complete,
    parse_indexes,
    pending_indexes,
    settle_uncounted,
    succeeded_indexes,
    to_remove,
    totals,
    wanted_active,
    with_condition,
)
from sim.api.types import Obj
from sim.units import SECOND, format_time

FINALIZER, INDEX = "job-tracking", "index"
TRACKING = Tracking(FINALIZER, INDEX, {})
NOW = 1_800_000_000 * SECOND


def job(status: Obj | None = None, **spec: Any) -> Obj:
    given = {"parallelism": 2, "backoffLimit": 2, "template": {"spec": {"restartPolicy": "Never"}}, **spec}
    return {"metadata": {"name": "j", "uid": "j"}, "spec": given, "status": status or {}}


def pod(name: str, phase: str = "Running", index: int | None = None, **more: Any) -> Obj:
    meta: Obj = {"name": name, "uid": name, "finalizers": [FINALIZER], **more.pop("meta", {})}
    if index is not None:
        meta["annotations"] = {INDEX: str(index)}
    return {"metadata": meta, "spec": more.pop("spec", {}), "status": {"phase": phase, **more}}


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0,1"), ([1, 3, 4, 5, 7, 8], "1,3-5,7,8"), ([0, 1, 2, 3], "0-3")],
)
def test_indexes_are_written_in_runs_of_three_or_more(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text and parse_indexes(text, 100) == indexes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0-99999999999", [0, 1, 2]),  # cut at the completions, however far it goes
        ("1,7,2", [1]),  # from the first beyond them on nothing counts
        ("a-b,1", [1]),
        ("-3,1,,3-", [1]),
        ("2-1," + "1" * 5000, []),
    ],
)
def test_what_somebody_else_wrote_for_indexes_is_read_as_far_as_it_goes(text: str, found: list[int]) -> None:
    assert parse_indexes(text, 3) == found


@pytest.mark.parametrize(("text", "index"), [("7", 7), ("1" * 5000, -1), ("²", -1), ("-1", -1), ("", -1)])
def test_a_pod_without_a_number_has_no_index(text: str, index: int) -> None:
    assert index_of({"metadata": {"annotations": {"index": text}}}, "index") == index


def test_the_lowest_missing_indexes_come_first() -> None:
    active = [pod("a", index=1), pod("b", index=4)]
    assert pending_indexes(active, [0, 2], 2, job(completions=9), INDEX) == [3, 5]
    assert pending_indexes(active, [0, 2], 9, job(completions=6), INDEX) == [3, 5]


def test_a_pod_is_counted_once_whether_it_is_written_down_or_not() -> None:
    status = {"succeeded": 3, "failed": 1, "uncountedTerminatedPods": {"succeeded": ["a"]}}
    pods = [pod("a", "Succeeded"), pod("b", "Succeeded"), pod("c", "Failed"), pod("d")]
    freed = pod("e", "Failed", meta={"finalizers": []})
    deleted = pod("f", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert totals(job(status), [*pods, freed, deleted], TRACKING) == (5, 3)
    leaving = Tracking(FINALIZER, INDEX, {"b": None})
    assert totals(job(status), pods, leaving) == (4, 2)


def test_indexes_that_succeed_twice_or_beyond_the_last_count_once_or_not_at_all() -> None:
    made = job({"completedIndexes": "0"}, completions=3, completionMode="Indexed")
    pods = [
        pod("a", "Succeeded", 0),
        pod("b", "Succeeded", 1),
        pod("c", "Succeeded", 1),
        pod("d", "Succeeded", 7),
    ]
    assert succeeded_indexes(made, pods, TRACKING) == ([0], [0, 1])
    # a finalizer that is on its way out holds the index until it is gone
    leaving = Tracking(FINALIZER, INDEX, {"b": None, "c": None})
    assert succeeded_indexes(made, pods, leaving) == ([0], [0, 1])


def test_at_most_five_hundred_finished_pods_are_taken_down_at_a_time() -> None:
    pods = [pod(f"p{i:03}", "Failed") for i in range(UNCOUNTED_MAX + 100)]
    count = count_finished(job(), pods, Uncounted(), [], False, TRACKING)
    assert (len(count.uncounted.failed), len(count.free)) == (UNCOUNTED_MAX, UNCOUNTED_MAX) and count.full


def test_what_runs_of_a_job_that_is_over_counts_as_failed() -> None:
    pods = [pod("a"), pod("b", "Succeeded")]
    count = count_finished(job(), pods, Uncounted(), [], True, TRACKING)
    assert count.uncounted == Uncounted(("b",), ("a",)) and len(count.free) == 2


def test_those_whose_finalizer_is_gone_go_to_the_counters() -> None:
    left, good, bad = settle_uncounted(Uncounted(("a", "b"), ("c",)), {"b": None})
    assert (left, good, bad) == (Uncounted(("b",), ()), 1, 1)


def test_a_job_fails_beyond_its_limit_but_not_while_all_its_pods_run() -> None:
    assert failure_of(job(), [], 0, 3, NOW) == LIMIT
    assert failure_of(job(), [], 0, 2, NOW) is None
    assert failure_of(job(), [], 2, 3, NOW) is None  # an old failure whose status could not be written
    assert failure_of(job({"failed": 3}), [], 0, 3, NOW) is None


def test_a_deadline_counts_from_the_start_and_not_while_suspended() -> None:
    status = {"startTime": format_time(NOW - 60 * SECOND)}
    assert failure_of(job(status, activeDeadlineSeconds=60), [], 1, 0, NOW) == DEADLINE
    assert failure_of(job(status, activeDeadlineSeconds=61), [], 1, 0, NOW) is None
    assert failure_of(job(status, activeDeadlineSeconds=60, suspend=True), [], 1, 0, NOW) is None


@pytest.mark.parametrize(
    ("spec", "active", "succeeded", "wanted"),
    [
        ({"completions": 5}, 0, 0, 2),
        ({"completions": 5}, 0, 4, 1),
        ({"completions": 5}, 0, 7, 0),
        ({}, 1, 0, 2),
        ({}, 1, 1, 1),
        ({"completions": 5, "suspend": True}, 2, 0, 0),
    ],
)
def test_as_many_pods_run_as_are_left_to_do(spec: Obj, active: int, succeeded: int, wanted: int) -> None:
    assert wanted_active(job(**spec), active, succeeded) == wanted


def test_without_completions_one_success_and_nothing_running_is_complete() -> None:
    assert is_complete(job(), 0, 1) and not is_complete(job(), 1, 1) and not is_complete(job(), 0, 0)
    assert is_complete(job(completions=2), 0, 2) and not is_complete(job(completions=2), 0, 1)


def test_the_least_useful_pods_go_and_of_an_index_all_but_the_best() -> None:
    bound = {"spec": {"nodeName": "n"}}
    pods = [pod("a", **bound), pod("b", "Pending"), pod("c", "Pending", **bound)]
    assert [p["metadata"]["name"] for p in to_remove(job(), pods, 2, INDEX)] == ["b", "c"]
    indexed = job(completions=3, completionMode="Indexed")
    twice = [
        pod("a", index=0, **bound),
        pod("b", "Pending", 0),
        pod("c", index=9),
        pod("d", index=1),
        pod("e"),
    ]
    assert sorted(p["metadata"]["name"] for p in to_remove(indexed, twice, 0, INDEX)) == ["b", "c", "e"]


def test_all_pods_of_a_suspended_job_go_at_once_and_else_five_hundred() -> None:
    pods = [pod(f"p{i:03}") for i in range(PODS_PER_SYNC_MAX + 20)]
    assert len(to_remove(job(suspend=True), pods, len(pods), INDEX)) == len(pods)
    assert len(to_remove(job(), pods, len(pods), INDEX)) == PODS_PER_SYNC_MAX


def test_a_pod_that_does_not_tell_since_when_it_is_ready_goes_before_one_that_does() -> None:
    ready: Obj = {"type": "Ready", "status": "True"}
    told = pod("a", conditions=[{**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    assert to_remove(job(), [told, pod("b", conditions=[ready])], 1, INDEX)[0]["metadata"]["name"] == "b"


def test_a_condition_is_written_when_it_says_something_new() -> None:
    denied = condition("Suspended", "False", "JobResumed", "Job resumed", NOW)
    said = condition("Suspended", "True", "JobSuspended", "Job suspended", NOW)
    assert with_condition([], denied) is None
    assert with_condition([], said) == [said]
    assert with_condition([said], {**said, "lastTransitionTime": "later"}) is None
    assert with_condition([said], denied) == [denied]
