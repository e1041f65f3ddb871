"""How many replicas usage asks for, and how fast the size may change."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.horizontalpodautoscaler.decide import (
    Bounds,
    Groups,
    History,
    Moment,
    Periods,
    Proposal,
    _filled,
    by_average,
    by_share,
    by_utilization,
    by_value,
    group_pods,
    normalize,
    requests_of,
    selector_text,
)
from actors.controllers.shared.metrics_api import Sample
from sim.api.types import Obj
from sim.units import MINUTE, SECOND, format_time

NOW = 1_800_000_000 * SECOND
PERIODS = Periods(0.1, 5 * MINUTE, 5 * MINUTE, 30 * SECOND)
WINDOW = 15 * SECOND


def pod(name: str, phase: str = "Running", ready: bool = True, age_s: int = 3600, ready_s: int = 3600) -> Obj:
    """A pod started `age_s` ago; its readiness last changed `ready_s` ago."""
    changed = format_time(NOW - ready_s * SECOND)
    status = {
        "phase": phase,
        "startTime": format_time(NOW - age_s * SECOND),
        "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": changed}],
    }
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}, "status": status}


def proposal(pods: list[Obj], use: dict[str, int], target: int, current: int) -> Proposal | str:
    samples = {name: Sample(milli, NOW, WINDOW) for name, milli in use.items()}
    groups = group_pods(pods, samples, "cpu", PERIODS, NOW)
    requests = requests_of(pods, "cpu")
    if isinstance(requests, str):
        return requests
    return by_utilization(requests, groups, target, current, PERIODS.tolerance)


def replicas(pods: list[Obj], use: dict[str, int], target: int, current: int) -> int:
    found = proposal(pods, use, target, current)
    assert isinstance(found, Proposal)
    return found.replicas


THREE = [pod("a"), pod("b"), pod("c")]


@pytest.mark.parametrize(
    ("milli", "wanted"), [(500, 3), (549, 3), (550, 4), (450, 3), (449, 3), (399, 3), (300, 2), (1500, 9)]
)
def test_replicas_follow_the_ratio_of_usage_to_target(milli: int, wanted: int) -> None:
    # Percentages are cut to integers: 549 of 1000 is 54 %. And 1 - 55/50 exceeds 0.1 as a float.
    assert replicas(THREE, dict.fromkeys("abc", milli), 50, 3) == wanted


def test_pod_without_sample_counts_idle_when_growing_and_full_when_shrinking() -> None:
    assert replicas(THREE, {"a": 900, "b": 900}, 50, 3) == 4  # (900 + 900 + 0) / 3000 is 60 %
    assert replicas(THREE, {"a": 100, "b": 100}, 50, 3) == 3  # (100 + 100 + 1000) / 3000 is 40 %
    assert replicas(THREE, {"a": 0, "b": 0}, 80, 3) == 2


def test_unready_pod_counts_idle_when_growing_and_not_when_shrinking() -> None:
    starting = [pod("a"), pod("b"), pod("c", phase="Pending")]
    assert replicas(starting, {"a": 900, "b": 900}, 50, 3) == 4
    assert replicas(starting, {"a": 200, "b": 200}, 50, 3) == 1


def test_guesses_never_reverse_the_direction() -> None:
    two = [pod("a"), pod("b")]
    assert replicas(two, {"a": 300}, 50, 2) == 2  # with the other pod's 1000 it exceeds the target
    assert replicas(THREE, {"a": 800}, 50, 3) == 3  # with 0 of the others it is below


def test_size_stays_if_the_number_of_pods_would_move_it_against_their_usage() -> None:
    assert replicas(THREE, {"a": 100, "b": 100}, 50, 2) == 2  # 40 % on three pods
    assert replicas(THREE, {"a": 900, "b": 900}, 50, 5) == 5  # 60 %


@pytest.mark.parametrize(
    ("made", "settled"),
    [
        (pod("a", age_s=60, ready_s=40), True),
        (pod("a", age_s=60, ready_s=10), False),  # its window began before it was ready
        (pod("a", age_s=60, ready_s=40, ready=False), False),
        (pod("a", age_s=3600, ready_s=3600 - 20, ready=False), False),  # it has never been ready
        (pod("a", age_s=3600, ready_s=600, ready=False), True),
    ],
)
def test_cpu_sample_counts_after_the_start_of_its_pod(made: Obj, settled: bool) -> None:
    groups = group_pods([made], {"a": Sample(1, NOW, WINDOW)}, "cpu", PERIODS, NOW)
    assert bool(groups.ready) is settled and bool(groups.unready) is not settled
    assert group_pods([made], {"a": Sample(1, NOW, WINDOW)}, "memory", PERIODS, NOW).ready == 1


def test_missing_request_or_samples_are_an_error() -> None:
    bare: Obj = {**pod("a"), "spec": {"containers": [{"name": "c"}]}}
    assert proposal([bare], {"a": 1}, 50, 1) == "missing request for cpu"
    assert (
        proposal([pod("a", phase="Failed")], {"a": 1}, 50, 1) == "did not receive metrics for any ready pods"
    )


def test_average_value_target_needs_no_requests() -> None:
    assert by_average(Groups(2, (), (), {"a": 300, "b": 500}), 200, 2, 0.1) == Proposal(4, 400)
    assert by_average(Groups(1, (), ("b",), {"a": 100}), 200, 2, 0.1) == Proposal(2, 100)


# --- the next size --------------------------------------------------------------------------------


def size(proposed: int, current: int, history: History | None = None, **more: Any) -> tuple[int, str, str]:
    """The next size, and the reasons of AbleToScale and ScalingLimited."""
    bounds = Bounds(more.get("low", 1), more.get("high", 50), more.get("behavior"), current, NOW)
    found = normalize(proposed, bounds, history or History(), PERIODS.downscale_us)
    able, limited = found.conditions
    return found.replicas, able.reason, limited.reason


def recommended(*moments: tuple[int, int]) -> History:
    """(count, seconds ago)"""
    return History(tuple(Moment(count, NOW - ago * SECOND) for count, ago in moments))


def test_growth_is_limited_to_double_or_four() -> None:
    assert size(30, 1) == (4, "ReadyForNewScale", "ScaleUpLimit")
    assert size(30, 10) == (20, "ReadyForNewScale", "ScaleUpLimit")
    assert size(60, 40) == (50, "ReadyForNewScale", "TooManyReplicas")
    assert size(1, 5, low=2) == (2, "ReadyForNewScale", "TooFewReplicas")


def test_highest_recommendation_of_the_window_is_used() -> None:
    assert size(2, 9, recommended((8, 299), (9, 301))) == (8, "ScaleDownStabilized", "DesiredWithinRange")
    assert size(2, 9, recommended((8, 301))) == (2, "ReadyForNewScale", "DesiredWithinRange")


def test_expired_recommendation_is_replaced_by_the_new_one() -> None:
    bounds = Bounds(1, 50, None, 5, NOW)
    after = normalize(3, bounds, recommended((8, 400), (6, 350), (5, 10)), PERIODS.downscale_us).history
    assert [moment.count for moment in after.recommended] == [8, 3, 5]


def rules(kind: str = "Pods", value: int = 4, period: int = 60, **more: Any) -> Obj:
    return {
        "policies": [{"type": kind, "value": value, "periodSeconds": period}],
        "selectPolicy": "Max",
        **more,
    }


def behavior(up: Obj | None = None, down: Obj | None = None) -> Obj:
    window = {"stabilizationWindowSeconds": 0}
    return {"scaleUp": {**window, **(up or rules())}, "scaleDown": {**window, **(down or rules())}}


def test_policy_counts_from_the_size_at_the_start_of_its_period() -> None:
    grown = History(added=(Moment(3, NOW - 59 * SECOND), Moment(9, NOW - 61 * SECOND)))
    assert size(30, 10, grown, behavior=behavior()) == (11, "ReadyForNewScale", "ScaleUpLimit")
    assert size(30, 12, grown, behavior=behavior(up=rules("Percent", 50)))[0] == 14  # ceil(9 * 1.5)
    shrunk = History(removed=(Moment(3, NOW - 10 * SECOND),))
    assert size(1, 5, shrunk, behavior=behavior())[0] == 4
    assert size(1, 9, behavior=behavior(down=rules("Percent", 50)))[0] == 4


def test_select_policy_allows_the_smaller_change_or_none() -> None:
    both = [
        {"type": "Pods", "value": 2, "periodSeconds": 60},
        {"type": "Percent", "value": 100, "periodSeconds": 60},
    ]
    for choice, wanted in (("Min", 12), ("Max", 20), ("Disabled", 10)):
        up = {"policies": both, "selectPolicy": choice}
        assert size(30, 10, behavior=behavior(up=up))[0] == wanted
    for choice, wanted in (("Min", 8), ("Max", 1), ("Disabled", 10)):
        down = {"policies": both, "selectPolicy": choice}
        assert size(1, 10, behavior=behavior(down=down))[0] == wanted


def test_windows_of_both_directions_clamp_the_present_size() -> None:
    windows = behavior(up=rules(stabilizationWindowSeconds=60), down=rules(stabilizationWindowSeconds=100))
    assert size(9, 5, recommended((6, 30)), behavior=windows)[:2] == (6, "ScaleUpStabilized")
    assert size(2, 5, recommended((4, 90)), behavior=windows)[:2] == (4, "ScaleDownStabilized")


def test_change_replaces_one_outside_of_its_policies_periods() -> None:
    known = History(added=(Moment(7, NOW - 90 * SECOND), Moment(1, NOW - 61 * SECOND), Moment(2, NOW)))
    assert [m.count for m in known.scaled(5, 8, behavior(), NOW).added] == [7, 3, 2]
    recent = History(added=(Moment(1, NOW - 60 * SECOND),))
    assert [m.count for m in recent.scaled(5, 8, behavior(), NOW).added] == [1, 3]
    assert known.scaled(5, 8, None, NOW) is known


def test_shrink_policies_with_longer_periods_count_remaining_changes() -> None:
    """Of four steps up and one after a pause, all but one count: 16 of 40 are new, and 4 more may
    go.
    """
    grows = History()
    for ago in (400, 390, 380, 370, 0):
        grows = grows.scaled(4, 8, behavior(), NOW - ago * SECOND)
    down = {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 600}]}
    assert size(1, 40, grows, behavior=behavior(down=down))[0] == 20


def test_pod_without_sample_counts_idle_exactly_at_the_average() -> None:
    samples = {name: Sample(1000, NOW, WINDOW) for name in ("a", "b", "c")}
    pods = [*THREE, pod("d")]
    groups = group_pods(pods, samples, "memory", PERIODS, NOW)
    found = by_average(groups, 1000, 4, PERIODS.tolerance)
    assert isinstance(found, Proposal) and found.replicas == 3
    requests = requests_of(pods, "cpu")
    assert not isinstance(requests, str)
    by_percent = by_utilization(requests, groups, 100, 4, PERIODS.tolerance)
    assert isinstance(by_percent, Proposal) and by_percent.replicas == 4


def test_selector_text_equals_go_output() -> None:
    assert selector_text(None) == "nil"
    demand = {"key": "k", "operator": "In", "values": ["a", "b"]}
    assert selector_text({"matchLabels": {"q": "1"}, "matchExpressions": [demand]}) == (
        "&LabelSelector{MatchLabels:map[string]string{q: 1,},"
        "MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[a b],},},}"
    )


READY_POD = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.mark.parametrize(
    ("milli", "current", "ready", "wanted"),
    [
        (109_000, 4, 4, 4),  # within a tenth
        (111_000, 4, 4, 5),
        (200_000, 4, 3, 6),  # the ratio applies to ready pods
        (250_000, 0, 0, 3),  # with 0 replicas readiness does not matter
        (0, 4, 4, 0),
    ],
)
def test_value_proposal_follows_the_ratio_to_the_target(
    milli: int, current: int, ready: int, wanted: int
) -> None:
    pods = [READY_POD] * ready + [{"status": {"phase": "Pending"}}]
    assert by_value(milli, 100_000, pods, current, 0.1) == Proposal(wanted, milli)


def test_value_proposal_fails_without_pods() -> None:
    assert by_value(5, 1, [], 2, 0.1) == (
        "unable to calculate ready pods: no pods returned by selector while calculating replica count"
    )


@pytest.mark.parametrize(
    ("milli", "seen", "wanted", "mean"),
    [
        (300_000, 10, 10, 30_000),
        (329_000, 10, 10, 32_900),
        (331_000, 10, 12, 33_100),
        (301, 0, 1, -(2**63)),  # Quirk of Go: division by zero
        (0, 0, 0, -(2**63)),
        (0, 5, 0, 0),
    ],
)
def test_value_is_shared_by_the_observed_replicas(milli: int, seen: int, wanted: int, mean: int) -> None:
    assert by_share(milli, 30_000, seen, 0.1) == Proposal(wanted, mean)


def test_pods_that_are_not_ready_are_guessed_only_above_the_target() -> None:
    groups = Groups(1, ("late",), (), {"a": 50})
    assert _filled(groups, 0.5, {}) is None
    assert _filled(groups, 1.0, {}) is None
    assert _filled(groups, 1.5, {}) == {"a": 50, "late": 0}
