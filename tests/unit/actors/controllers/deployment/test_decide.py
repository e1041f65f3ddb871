"""Sizes, annotations and conditions of Deployments."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.deployment import decide
from sim.api.types import Obj
from sim.ident import NAMES

NAMES_ORCH = NAMES["orch"]


def deployment(replicas: int, surge: Any = "25%", unavailable: Any = "25%", **spec: Any) -> Obj:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {
        "metadata": {"name": "web", "generation": 1},
        "spec": {"replicas": replicas, "strategy": strategy, "progressDeadlineSeconds": 600, **spec},
    }


def rs(name: str, replicas: int, available: int = 0, max_replicas: int | None = None) -> Obj:
    annotations = {} if max_replicas is None else {NAMES_ORCH.annotation_max_replicas: str(max_replicas)}
    meta = {"name": name, "creationTimestamp": f"2026-01-01T00:00:0{len(name)}Z", "annotations": annotations}
    status = {"replicas": replicas, "availableReplicas": available, "readyReplicas": available}
    return {"metadata": meta, "spec": {"replicas": replicas}, "status": status}


def rounds(d: Obj, size: int) -> tuple[int, int]:
    """(old, new) sizes of a rollout in which no new pod ever becomes ready."""
    old, new = rs("a", size, size), rs("bb", 0)
    for _ in range(20):
        grown = decide.new_size(d, [old], new["spec"]["replicas"])
        new = rs("bb", grown)
        if decide.old_budget(d, [old, new], new) > 0:
            for _, left in decide.available_cuts(d, [old, new], [old]):
                old = rs("a", left, left)
    return old["spec"]["replicas"], new["spec"]["replicas"]


@pytest.mark.parametrize(
    ("size", "surge", "unavailable", "wanted"),
    [
        (1, "25%", "25%", (1, 1)),
        (10, "25%", "25%", (8, 5)),
        (4, 0, 1, (3, 1)),
        (4, 2, 0, (4, 2)),
        (3, "0%", "1%", (2, 1)),
        (4, "100%", 0, (4, 4)),
        (3, 0, "100%", (0, 3)),
        (5, 3, "34%", (4, 4)),
    ],
)
def test_rollout_proceeds_up_to_max_surge_and_max_unavailable(
    size: int, surge: Any, unavailable: Any, wanted: tuple[int, int]
) -> None:
    assert rounds(deployment(size, surge, unavailable), size) == wanted


def test_unhealthy_old_pods_are_removed_before_available_ones() -> None:
    cuts, behind = decide.unhealthy_cuts([rs("a", 4, 4), rs("bb", 3, 1)], 5)
    assert not behind
    assert [(cut["metadata"]["name"], size) for cut, size in cuts] == [("bb", 1)]


def test_scale_down_waits_while_a_set_counts_more_available_pods_than_its_size() -> None:
    cuts, behind = decide.unhealthy_cuts([rs("a", 2, 1), rs("bb", 2, 3), rs("ccc", 2, 1)], 5)
    assert ([(decide.replicas_of(cut), size) for cut, size in cuts], behind) == ([(2, 1)], True)


def test_no_set_is_written_while_no_more_pods_are_available_than_required() -> None:
    old, new = rs("a", 3, 3), rs("bb", 1)
    assert decide.available_cuts(deployment(4, 1, 1), [old, new], [old]) == []


def test_scaling_in_a_rollout_is_proportional_and_the_rest_goes_to_the_largest() -> None:
    d = deployment(15, 3, 2)
    sizes = decide.proportional_sizes(d, [rs("a", 8, 8, 13), rs("bb", 5, 0, 13)], NAMES_ORCH)
    assert {r["metadata"]["name"]: size for r, size in sizes} == {"a": 11, "bb": 7}


def test_growing_prefers_the_newer_of_equal_sets_and_shrinking_the_older() -> None:
    pair = [rs("a", 5, 5, 10), rs("bb", 5, 5, 10)]
    grown = decide.proportional_sizes(deployment(11, 0, 1), pair, NAMES_ORCH)
    assert grown[0][0]["metadata"]["name"] == "bb"
    shrunk = decide.proportional_sizes(deployment(9, 0, 1), pair, NAMES_ORCH)
    assert shrunk[0][0]["metadata"]["name"] == "a"


def test_revision_history_keeps_replaced_numbers_and_drops_the_oldest() -> None:
    names = NAMES_ORCH
    first = decide.wanted_annotations(deployment(1), {names.annotation_revision: "1"}, 3, names)
    assert first[names.annotation_revision_history] == "1"
    second = decide.wanted_annotations(deployment(1), {**first, names.annotation_revision: "3"}, 5, names)
    assert second[names.annotation_revision_history] == "1,3"
    long = {names.annotation_revision: "77", names.annotation_revision_history: ",".join(["1234"] * 400)}
    cut = decide.wanted_annotations(deployment(1), long, 78, names)[names.annotation_revision_history]
    assert len(cut) <= 2000
    assert cut.endswith(",77")


def test_no_annotation_is_copied_if_the_revision_is_not_a_number() -> None:
    names, noted = NAMES_ORCH, deployment(1)
    noted["metadata"]["annotations"] = {"note": "1"}
    for revision, taken in (("7", True), ("x", False)):
        have = {names.annotation_revision: revision}
        assert ("note" in decide.wanted_annotations(noted, have, 7, names)) == taken


def test_condition_with_equal_status_and_reason_is_unchanged() -> None:
    old = [decide.make_condition("Available", "True", "R", "old", 0)]
    assert (
        decide.with_condition(old, decide.make_condition("Available", "True", "R", "new", 9_000_000)) == old
    )
    other = decide.with_condition(old, decide.make_condition("Available", "True", "S", "new", 9_000_000))
    assert other[0]["lastTransitionTime"] == old[0]["lastTransitionTime"]
    assert other[0]["lastUpdateTime"] != old[0]["lastUpdateTime"]


def test_cleanup_keeps_old_sets_with_pods() -> None:
    d = deployment(1, revisionHistoryLimit=0)
    empty, running = rs("a", 0), {**rs("bb", 0), "status": {"replicas": 1}}
    assert decide.cleanup_victims(d, [empty, running], NAMES_ORCH) == [empty]


def test_progress_condition_without_time_is_past_its_deadline() -> None:
    noted = {"type": "Progressing", "status": "True", "lastUpdateTime": None}
    assert decide.is_timed_out(deployment(3), noted, 0)


def progressing(reason: str, status: str = "True", at: str = "2026-01-01T00:00:00Z") -> Obj:
    times = {"lastUpdateTime": at, "lastTransitionTime": at}
    return {"type": "Progressing", "status": status, "reason": reason, "message": "", **times}


def with_status(d: Obj, **status: Any) -> Obj:
    return {**d, "status": status}


def progress_of(d: Obj, sets: list[Obj], new: Obj | None, at_s: int = 0) -> tuple[str, str, str] | None:
    """Status, reason and message of the condition after a sync, some seconds into 2026."""
    wall_us = decide.parse_time("2026-01-01T00:00:00Z") + at_s * 1_000_000
    for condition in decide.rollout_status(d, sets, new, wall_us)["conditions"]:
        if condition["type"] == "Progressing":
            return condition["status"], condition["reason"], condition["message"]
    return None


UPDATED = ("True", "ReplicaSetUpdated", 'ReplicaSet "bb" is progressing.')


def test_rollout_progresses_by_new_pods_and_completes_with_the_last() -> None:
    d = with_status(deployment(2), replicas=2, updatedReplicas=0, availableReplicas=2, readyReplicas=2)
    assert progress_of(d, [rs("a", 2, 2), rs("bb", 1)], rs("bb", 1)) == UPDATED
    done = rs("bb", 2, 2)
    complete = ("True", "NewReplicaSetAvailable", 'ReplicaSet "bb" has successfully progressed.')
    assert progress_of(with_status(deployment(2)), [done], done) == complete


@pytest.mark.parametrize(
    ("was", "progresses"),
    [
        ({"replicas": 3, "updatedReplicas": 1, "readyReplicas": 2, "availableReplicas": 2}, False),
        (
            {"replicas": 3, "updatedReplicas": 0, "readyReplicas": 2, "availableReplicas": 2},
            True,
        ),  # one more is new
        (
            {"replicas": 4, "updatedReplicas": 1, "readyReplicas": 2, "availableReplicas": 2},
            True,
        ),  # one less is old
        ({"replicas": 3, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 2}, True),
        ({"replicas": 3, "updatedReplicas": 1, "readyReplicas": 2, "availableReplicas": 1}, True),
    ],
)
def test_any_of_four_counts_is_progress_of_a_rollout(was: Obj, progresses: bool) -> None:
    conditions = [progressing("FoundNewReplicaSet")]
    d = with_status(deployment(2), **was, conditions=conditions)
    shown = progress_of(d, [rs("a", 2, 2), rs("bb", 1)], rs("bb", 1))
    assert shown == (UPDATED if progresses else ("True", "FoundNewReplicaSet", ""))


@pytest.mark.parametrize(
    ("at_s", "reason", "expected"),
    [
        (600, "ReplicaSetUpdated", "ReplicaSetUpdated"),
        (601, "ReplicaSetUpdated", "ProgressDeadlineExceeded"),
        (0, "ProgressDeadlineExceeded", "ProgressDeadlineExceeded"),
        (601, "NewReplicaSetAvailable", "NewReplicaSetAvailable"),
    ],
)
def test_rollout_without_progress_times_out_after_its_deadline(at_s: int, reason: str, expected: str) -> None:
    counts = {"replicas": 3, "updatedReplicas": 1, "readyReplicas": 2, "availableReplicas": 2}
    d = with_status(deployment(2), **counts, conditions=[progressing(reason)])
    shown = progress_of(d, [rs("a", 2, 2), rs("bb", 1)], rs("bb", 1), at_s)
    assert shown is not None
    assert shown[1] == expected


def test_progress_keeps_the_time_of_its_last_transition() -> None:
    d = with_status(deployment(2), updatedReplicas=0, conditions=[progressing("FoundNewReplicaSet")])
    (shown,) = [
        condition
        for condition in decide.rollout_status(d, [rs("bb", 1)], rs("bb", 1), 1_800_000_000_000_000)[
            "conditions"
        ]
        if condition["type"] == "Progressing"
    ]
    assert shown["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert shown["lastUpdateTime"] != shown["lastTransitionTime"]


def test_finished_rollout_reports_no_progress_again() -> None:
    finished = with_status(deployment(2), conditions=[progressing("NewReplicaSetAvailable")])
    assert progress_of(finished, [rs("bb", 2, 1)], rs("bb", 2, 1)) == ("True", "NewReplicaSetAvailable", "")


@pytest.mark.parametrize(
    ("paused", "reason", "expected"),
    [
        (True, None, "DeploymentPaused"),
        (True, "ReplicaSetUpdated", "DeploymentPaused"),
        (True, "DeploymentPaused", None),
        (False, "DeploymentPaused", "DeploymentResumed"),
        (False, "ReplicaSetUpdated", None),
        (True, "ProgressDeadlineExceeded", None),
    ],
)
def test_pause_and_resume_are_conditions_unless_the_deadline_is_over(
    paused: bool, reason: str | None, expected: str | None
) -> None:
    conditions = [] if reason is None else [progressing(reason)]
    change = decide.pause_change(with_status(deployment(1, paused=paused), conditions=conditions))
    assert (change.reason if change else None) == expected


def test_deployment_without_deadline_has_no_condition_of_a_pause() -> None:
    d = deployment(1, paused=True, progressDeadlineSeconds=2**31 - 1)
    assert decide.pause_change(d) is None
    assert progress_of(with_status(d, conditions=[progressing("ReplicaSetUpdated")]), [], None) is None


@pytest.mark.parametrize(
    ("size", "desired", "available", "saturated"),
    [(3, "3", 3, True), (2, "3", 3, False), (3, "2", 3, False), (3, "3", 2, False), (3, None, 3, False)],
)
def test_saturated_set_has_its_size_its_annotation_and_all_pods_available(
    size: int, desired: str | None, available: int, saturated: bool
) -> None:
    new = rs("bb", size, available)
    if desired is not None:
        new["metadata"]["annotations"] = {NAMES_ORCH.annotation_desired_replicas: desired}
    assert decide.is_saturated(deployment(3), new, NAMES_ORCH) is saturated


def test_missing_set_is_not_saturated() -> None:
    assert decide.is_saturated(deployment(0), None, NAMES_ORCH) is False


@pytest.mark.parametrize(("available", "status"), [(3, "True"), (2, "False")])
def test_available_condition_counts_against_the_pods_that_may_be_missing(available: int, status: str) -> None:
    sets = [rs("bb", 4, available)]
    (shown,) = decide.base_status(deployment(4, 1, 1), sets, sets[0], 0)["conditions"]
    assert (shown["type"], shown["status"]) == ("Available", status)


def test_status_omits_zero_counts_and_keeps_the_collision_count() -> None:
    d = with_status(deployment(1), collisionCount=0)
    status = decide.base_status(d, [rs("a", 2, 1)], None, 0)
    counts = {name: value for name, value in status.items() if name != "conditions"}
    assert counts == {
        "observedGeneration": 1,
        "replicas": 2,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "unavailableReplicas": 1,
        "collisionCount": 0,
    }


def test_failure_of_the_new_set_precedes_that_of_an_old_one() -> None:
    def failing(name: str) -> Obj:
        found = rs(name, 1)
        at = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        found["status"]["conditions"] = [{"type": "ReplicaFailure", "status": "True", "reason": name, **at}]
        return found

    def failure(sets: list[Obj], new: Obj | None) -> str | None:
        shown = decide.rollout_status(with_status(deployment(1)), sets, new, 0)["conditions"]
        return next((each["reason"] for each in shown if each["type"] == "ReplicaFailure"), None)

    assert failure([failing("a"), failing("bb")], failing("bb")) == "bb"
    assert failure([failing("a"), rs("bb", 1)], rs("bb", 1)) == "a"
    assert failure([rs("bb", 1)], rs("bb", 1)) is None


@pytest.mark.parametrize(
    ("olds", "new", "chosen"),
    [
        ([rs("a", 0)], rs("bb", 2), "bb"),
        ([rs("a", 1)], rs("bb", 2), None),
        ([rs("a", 0)], rs("bb", 0), "bb"),
        ([rs("a", 0), rs("ccc", 0)], None, "ccc"),
        ([rs("a", 3), rs("ccc", 0)], None, "a"),
        ([], None, None),
    ],
)
def test_only_active_set_or_the_latest_is_scaled(
    olds: list[Obj], new: Obj | None, chosen: str | None
) -> None:
    found = decide.active_or_latest(new, olds)
    assert (found["metadata"]["name"] if found else None) == chosen


@pytest.mark.parametrize(
    ("limit", "victims"),
    [(None, []), (2**31 - 1, []), (3, []), (2, ["a"]), (0, ["a", "bb", "ccc"])],
)
def test_cleanup_takes_the_lowest_revisions_beyond_the_limit(limit: int | None, victims: list[str]) -> None:
    olds = []
    for number, name in enumerate(("a", "bb", "ccc"), 1):
        made = rs(name, 0)
        made["metadata"]["annotations"] = {NAMES_ORCH.annotation_revision: str(number)}
        olds.append(made)
    found = decide.cleanup_victims(deployment(1, revisionHistoryLimit=limit), olds, NAMES_ORCH)
    assert [each["metadata"]["name"] for each in found] == victims


def test_cleanup_keeps_sets_that_are_deleted_wanted_or_unobserved() -> None:
    deleted, unobserved = rs("a", 0), rs("ccc", 0)
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    unobserved["metadata"]["generation"] = 2
    unobserved["status"]["observedGeneration"] = 1
    d = deployment(1, revisionHistoryLimit=0)
    assert decide.cleanup_victims(d, [deleted, unobserved], NAMES_ORCH) == []
    unobserved["status"]["observedGeneration"] = 2
    assert decide.cleanup_victims(d, [unobserved], NAMES_ORCH) == [unobserved]


def test_recreate_and_missing_bounds_allow_no_surge() -> None:
    recreate = deployment(4)
    recreate["spec"]["strategy"] = {"type": "Recreate"}
    assert decide.fenceposts(recreate) == (0, 0)
    bare = deployment(4)
    bare["spec"]["strategy"] = {"type": "RollingUpdate"}
    assert decide.fenceposts(bare) == (0, 1)
