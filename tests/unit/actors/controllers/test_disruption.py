"""When the status of a budget needs a write."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.disruption import (
    DELETION_TIMEOUT_US,
    PodFacts,
    count_healthy,
    desired_healthy,
    disrupted_pods,
    facts_of,
    failed_status,
    is_up_to_date,
    needs_scale,
    next_status,
    selected,
)
from sim.api.types import Obj
from sim.units import format_time, parse_time

NOW_US = parse_time("2026-01-01T00:00:00Z")


def test_resolved_failure_is_removed_even_if_no_number_changes() -> None:
    budget: Obj = {"metadata": {"generation": 1}, "spec": {"minAvailable": 1}}
    status = next_status(budget, healthy=1, expected=1, disrupted={}, wall_us=NOW_US)
    stored = {**budget, "status": status}
    assert is_up_to_date(stored, status)
    failed = {**budget, "status": failed_status(stored, "no such kind", NOW_US)}
    assert failed["status"]["conditions"][0]["reason"] == "SyncFailed"
    assert not is_up_to_date(failed, status)


@pytest.mark.parametrize(
    ("spec", "expected", "wanted", "scaled"),
    [
        ({"minAvailable": 2}, 5, 2, False),
        ({"minAvailable": "50%"}, 5, 3, True),
        ({"maxUnavailable": 2}, 5, 3, True),
        ({"maxUnavailable": 0}, 5, 5, True),
        ({"maxUnavailable": 9}, 5, 0, True),
        ({"maxUnavailable": "50%"}, 5, 2, True),
        ({}, 5, 0, False),
    ],
)
def test_pods_that_must_stay_follow_from_the_numbers_of_a_budget(
    spec: Obj, expected: int, wanted: int, scaled: bool
) -> None:
    assert desired_healthy({"spec": spec}, expected) == wanted
    assert needs_scale({"spec": spec}) is scaled


def facts(name: str, deleting: bool = False, ready: bool = True) -> PodFacts:
    return PodFacts(f"d/{name}", name, {}, deleting, ready, None)


def test_healthy_pods_are_ready_and_stay() -> None:
    pods = [facts("a"), facts("b", deleting=True), facts("c", ready=False), facts("e")]
    assert count_healthy(pods, {}) == 2
    assert count_healthy(pods, {"a": "t", "c": "t"}) == 1


def test_an_eviction_is_awaited_until_its_time_is_over() -> None:
    def granted(**times_us: int) -> Obj:
        return {"status": {"disruptedPods": {name: format_time(us) for name, us in times_us.items()}}}

    pods = [facts("a"), facts("b"), facts("c", deleting=True), facts("e")]
    first, second = NOW_US, NOW_US + 1_000_000
    budget = granted(a=second, b=first, c=first, gone=first)
    end_us = first + DELETION_TIMEOUT_US
    kept, late, recheck_us = disrupted_pods(budget, pods, end_us)
    assert (list(kept), late, recheck_us) == (["a", "b"], [], end_us)
    kept, late, recheck_us = disrupted_pods(budget, pods, end_us + 1)
    assert (list(kept), [pod.name for pod in late], recheck_us) == (["a"], ["b"], end_us + 1_000_000)
    assert disrupted_pods({}, pods, NOW_US) == ({}, [], None)
    assert disrupted_pods({"status": {"disruptedPods": None}}, pods, NOW_US) == ({}, [], None)


@pytest.mark.parametrize(
    ("healthy", "expected", "allowed"), [(3, 3, 1), (2, 3, 0), (1, 3, 0), (4, 3, 2), (3, 0, 0), (3, 1, 1)]
)
def test_more_than_must_stay_may_be_disrupted(healthy: int, expected: int, allowed: int) -> None:
    budget: Obj = {"metadata": {"generation": 4}, "spec": {"minAvailable": 2}}
    status = next_status(budget, healthy, expected, {}, NOW_US)
    condition = status["conditions"][0]
    assert status["disruptionsAllowed"] == allowed
    assert (condition["status"], condition["reason"]) == (
        ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    )
    assert (status["observedGeneration"], condition["observedGeneration"]) == (4, 4)
    assert "disruptedPods" not in status
    assert next_status(budget, 1, 1, {"a": "t"}, NOW_US)["disruptedPods"] == {"a": "t"}
    assert next_status({"metadata": {}, "spec": {}}, 1, 1, {}, NOW_US)["observedGeneration"] == 0


def test_a_status_is_up_to_date_by_numbers_status_and_reason() -> None:
    budget: Obj = {"metadata": {"generation": 1}, "spec": {"minAvailable": 1}}
    status = next_status(budget, 2, 2, {}, NOW_US)
    condition = status["conditions"][0]
    later = {**budget, "status": next_status(budget, 2, 2, {}, NOW_US + 9)}
    assert is_up_to_date(later, status)
    assert not is_up_to_date(budget, status)
    assert not is_up_to_date({**budget, "status": {**status, "currentHealthy": 3}}, status)
    for change in ({"status": "False"}, {"reason": "Other"}):
        assert not is_up_to_date(
            {**budget, "status": {**status, "conditions": [{**condition, **change}]}}, status
        )


@pytest.mark.parametrize(("before", "keeps"), [("True", False), ("False", True), (None, False)])
def test_a_failure_keeps_the_time_of_a_condition_that_is_false(before: str | None, keeps: bool) -> None:
    other = {"type": "Other", "status": "True"}
    old: Any = {"type": "DisruptionAllowed", "status": before, "lastTransitionTime": "then"}
    stored = {"conditions": [old, other] if before else [other], "disruptionsAllowed": 3}
    made = failed_status({"status": stored}, "why", NOW_US)
    assert [each["type"] for each in made["conditions"]] == ["Other", "DisruptionAllowed"]
    assert made["conditions"][1]["lastTransitionTime"] == ("then" if keeps else format_time(NOW_US))
    assert "observedGeneration" not in made["conditions"][1]
    assert made["disruptionsAllowed"] == 0
    seen = failed_status({"status": {"observedGeneration": 7}}, "why", NOW_US)
    assert seen["conditions"][0]["observedGeneration"] == 7
    assert failed_status({}, "why", NOW_US)["conditions"][0]["message"] == "why"


def test_labels_that_pods_share_are_matched_once() -> None:
    asked = []

    def matches(labels: Any) -> bool:
        asked.append(labels)
        return bool(labels)

    web: dict[str, str] = {"app": "web"}
    pods = [
        PodFacts(key, key, labels, False, True, None) for key, labels in (("a", web), ("b", {}), ("c", web))
    ]
    assert [pod.key for pod in selected(pods, matches)] == ["a", "c"]
    assert len(asked) == 2
    bare = facts_of({"metadata": {"name": "p", "namespace": "d"}, "status": {}})
    assert bare == PodFacts("d/p", "p", {}, False, False, None)
