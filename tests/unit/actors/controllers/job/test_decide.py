"""Decisions of the Job controller on plain values."""

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
def test_three_or_more_consecutive_indexes_are_written_as_a_range(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text and parse_indexes(text, 100) == indexes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0-99999999999", [0, 1, 2]),  # cut at the completions
        ("1,7,2", [1]),  # the first part out of range ends the list
        ("a-b,1", [1]),
        ("-3,1,,3-", [1]),
        ("2-1," + "1" * 5000, []),
    ],
)
def test_invalid_parts_of_completed_indexes_are_skipped(text: str, found: list[int]) -> None:
    assert parse_indexes(text, 3) == found


@pytest.mark.parametrize(("text", "index"), [("7", 7), ("1" * 5000, -1), ("²", -1), ("-1", -1), ("", -1)])
def test_pod_without_a_number_has_no_index(text: str, index: int) -> None:
    assert index_of({"metadata": {"annotations": {"index": text}}}, "index") == index


def test_pending_indexes_start_with_the_lowest() -> None:
    active = [pod("a", index=1), pod("b", index=4)]
    assert pending_indexes(active, [0, 2], 2, job(completions=9), INDEX) == [3, 5]
    assert pending_indexes(active, [0, 2], 9, job(completions=6), INDEX) == [3, 5]


def test_pod_is_counted_once_before_and_after_it_is_listed() -> None:
    status = {"succeeded": 3, "failed": 1, "uncountedTerminatedPods": {"succeeded": ["a"]}}
    pods = [pod("a", "Succeeded"), pod("b", "Succeeded"), pod("c", "Failed"), pod("d")]
    freed = pod("e", "Failed", meta={"finalizers": []})
    deleted = pod("f", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert totals(job(status), [*pods, freed, deleted], TRACKING) == (5, 3)
    leaving = Tracking(FINALIZER, INDEX, {"b": None})
    assert totals(job(status), pods, leaving) == (4, 2)


def test_repeated_index_counts_once_and_index_out_of_range_not_at_all() -> None:
    made = job({"completedIndexes": "0"}, completions=3, completionMode="Indexed")
    pods = [
        pod("a", "Succeeded", 0),
        pod("b", "Succeeded", 1),
        pod("c", "Succeeded", 1),
        pod("d", "Succeeded", 7),
    ]
    assert succeeded_indexes(made, pods, TRACKING) == ([0], [0, 1])
    # A pending finalizer removal holds the index until the finalizer is gone.
    leaving = Tracking(FINALIZER, INDEX, {"b": None, "c": None})
    assert succeeded_indexes(made, pods, leaving) == ([0], [0, 1])


def test_at_most_five_hundred_finished_pods_are_listed_at_a_time() -> None:
    pods = [pod(f"p{i:03}", "Failed") for i in range(UNCOUNTED_MAX + 100)]
    count = count_finished(job(), pods, Uncounted(), [], False, TRACKING)
    assert (len(count.uncounted.failed), len(count.free)) == (UNCOUNTED_MAX, UNCOUNTED_MAX) and count.full


def test_second_success_of_an_index_counts_as_nothing() -> None:
    indexed = job(completions=2, completionMode="Indexed")
    pods = [pod("a", "Succeeded", 0), pod("b", "Succeeded", 0)]
    count = count_finished(indexed, pods, Uncounted(), [], False, TRACKING)
    assert (count.uncounted, [one["metadata"]["name"] for one in count.free]) == (Uncounted(), ["a", "b"])


def test_running_pods_of_a_finished_job_count_as_failed() -> None:
    pods = [pod("a"), pod("b", "Succeeded")]
    count = count_finished(job(), pods, Uncounted(), [], True, TRACKING)
    assert count.uncounted == Uncounted(("b",), ("a",)) and len(count.free) == 2


def test_pods_without_finalizer_move_to_the_counters() -> None:
    left, good, bad = settle_uncounted(Uncounted(("a", "b"), ("c",)), {"b": None})
    assert (left, good, bad) == (Uncounted(("b",), ()), 1, 1)


def test_job_fails_beyond_its_backoff_limit_but_not_while_all_pods_run() -> None:
    assert failure_of(job(), [], 0, 3, NOW) == LIMIT
    assert failure_of(job(), [], 0, 2, NOW) is None
    assert failure_of(job(), [], 2, 3, NOW) is None  # an old failure that was not written
    assert failure_of(job({"failed": 3}), [], 0, 3, NOW) is None


def test_deadline_counts_from_the_start_time_and_not_while_suspended() -> None:
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
def test_active_pods_are_limited_by_the_remaining_completions(
    spec: Obj, active: int, succeeded: int, wanted: int
) -> None:
    assert wanted_active(job(**spec), active, succeeded) == wanted


def test_job_without_completions_is_complete_after_one_success_and_no_active_pod() -> None:
    assert is_complete(job(), 0, 1) and not is_complete(job(), 1, 1) and not is_complete(job(), 0, 0)
    assert is_complete(job(completions=2), 0, 2) and not is_complete(job(completions=2), 0, 1)


def test_surplus_pods_are_removed_by_rank_and_duplicates_of_an_index_too() -> None:
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


def test_suspended_job_removes_all_pods_and_running_job_five_hundred() -> None:
    pods = [pod(f"p{i:03}") for i in range(PODS_PER_SYNC_MAX + 20)]
    assert len(to_remove(job(suspend=True), pods, len(pods), INDEX)) == len(pods)
    assert len(to_remove(job(), pods, len(pods), INDEX)) == PODS_PER_SYNC_MAX


def test_pod_with_unknown_ready_time_is_removed_before_one_with_a_known_time() -> None:
    ready: Obj = {"type": "Ready", "status": "True"}
    told = pod("a", conditions=[{**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    assert to_remove(job(), [told, pod("b", conditions=[ready])], 1, INDEX)[0]["metadata"]["name"] == "b"


def test_condition_is_written_only_if_it_changes() -> None:
    denied = condition("Suspended", "False", "JobResumed", "Job resumed", NOW)
    said = condition("Suspended", "True", "JobSuspended", "Job suspended", NOW)
    assert with_condition([], denied) is None
    assert with_condition([], said) == [said]
    assert with_condition([said], {**said, "lastTransitionTime": "later"}) is None
    assert with_condition([said], denied) == [denied]
