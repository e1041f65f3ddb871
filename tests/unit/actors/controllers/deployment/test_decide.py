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
