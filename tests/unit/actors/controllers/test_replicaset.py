"""Decisions of the ReplicaSet controller."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.replicaset import Totals, choose_victims, needs_write, status_of, surplus_of
from actors.controllers.shared.pod_owners import int_or_percent, is_available, pod_changed, pod_from_template
from sim.api.types import Obj
from sim.units import SECOND, format_time, parse_time

NOW_US = parse_time("2026-01-01T00:00:00Z")
COST = "cost"
NO_PODS = Totals(0, 0, 0, 0)


def pod(name: str, phase: str = "Running", ready_s: int | None = 100, node: str = "n", **more: Any) -> Obj:
    conditions = []
    if ready_s is not None:
        since = format_time(NOW_US - ready_s * SECOND)
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": since})
    restarts = more.pop("restarts", 0)
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2025-12-31T00:00:00Z", **more}
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [{"restartCount": restarts}]}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": status}


def owner(replicas: int, **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {}}
    meta = {"name": "web", "namespace": "d", "uid": "u", "generation": 1}
    return {"metadata": meta, "spec": {"replicas": replicas, "template": template, **spec}}


@pytest.mark.parametrize(
    ("loser", "other"),
    [
        (pod("z", node=""), pod("a", "Pending", None)),
        (pod("z", "Pending", None), pod("a", "Unknown", None)),
        (pod("z", "Unknown", None), pod("a")),
        (pod("z", ready_s=None), pod("a", annotations={COST: "-5"})),
        (pod("z", annotations={COST: "1"}), pod("a", annotations={COST: "2"})),
        (pod("z", node="full"), pod("a")),
        (pod("z", ready_s=10), pod("a", ready_s=1000)),
        (pod("z", restarts=2), pod("a", restarts=1)),
        (pod("z", creationTimestamp="2025-12-31T23:59:00Z"), pod("a")),
        (pod("a", ready_s=600), pod("z", ready_s=610)),  # within one power of two: the smaller uid
    ],
)
def test_victims_are_chosen_in_the_order_of_deletion(loser: Obj, other: Obj) -> None:
    for pods in ([loser, other], [other, loser]):
        assert choose_victims(pods, 1, {"full": 2, "n": 1}, COST, NOW_US) == [loser]


def test_deletion_cost_and_age_buckets_follow_their_gates() -> None:
    cheap, dear = (pod(name, annotations={COST: cost}) for name, cost in (("b", "1"), ("a", "2")))
    assert choose_victims([cheap, dear], 1, {}, "", NOW_US) == [dear]  # by uid
    younger, older = pod("z", ready_s=600), pod("a", ready_s=610)
    # one power of two: by uid
    assert choose_victims([younger, older], 1, {}, COST, NOW_US) == [older]
    assert choose_victims([younger, older], 1, {}, COST, None) == [younger]
    born = [pod(name, creationTimestamp=f"2025-12-31T00:00:0{n}Z") for n, name in enumerate("ab")]
    assert choose_victims(born, 1, {}, COST, None) == [born[1]]


@pytest.mark.parametrize("text", ["+9", "09", "9.0", "9999999999", "nine"])
def test_deletion_cost_with_other_spelling_counts_as_zero(text: str) -> None:
    odd, dear = (pod(name, annotations={COST: cost}) for name, cost in (("b", text), ("a", "1")))
    assert choose_victims([dear, odd], 1, {}, COST, NOW_US) == [odd]


def test_sync_creates_or_deletes_at_most_five_hundred_pods() -> None:
    assert surplus_of(owner(1000), 0) == -500
    assert surplus_of(owner(0), 1000) == 500
    assert surplus_of(owner(3), 3) == 0


def test_pod_is_available_strictly_after_min_ready_seconds() -> None:
    assert not is_available(pod("p", ready_s=10), 10, NOW_US)
    assert is_available(pod("p", ready_s=10), 10, NOW_US + 1)
    assert is_available(pod("p", ready_s=0), 0, NOW_US)


def test_failure_condition_is_set_once_and_removed_on_success() -> None:
    failed = status_of(owner(2), NO_PODS, ("FailedCreate", "first"), NOW_US)
    assert failed["conditions"][0]["message"] == "first"
    told = {**owner(2), "status": failed}
    again = status_of(told, NO_PODS, ("FailedCreate", "second"), NOW_US + SECOND)
    assert again == failed
    assert not needs_write(told, again)
    assert "conditions" not in status_of(told, NO_PODS, None, NOW_US)


def test_zero_counts_are_left_out_except_replicas() -> None:
    assert status_of(owner(0), NO_PODS, None, NOW_US) == {"replicas": 0, "observedGeneration": 1}


def test_pod_shares_the_spec_of_its_template() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}
    made = pod_from_template(template, owner(1), None)
    assert made["spec"] is template["spec"]
    assert made["metadata"] == {"generateName": "web-", "labels": {"a": "b"}}


def test_percentages_round_as_requested() -> None:
    assert (int_or_percent("25%", 10, True), int_or_percent("25%", 10, False)) == (3, 2)
    assert int_or_percent(4, 10, True) == 4


def test_update_of_addresses_alone_concerns_no_owner() -> None:
    before = pod("p")
    after = {**before, "status": {**before["status"], "podIP": "10.0.0.1"}}
    assert not pod_changed(before, after)
    assert pod_changed(before, pod("p", ready_s=None))
    assert pod_changed(before, pod("p", deletionTimestamp="2026-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    ("cheap", "dear"), [("0", "2147483647"), ("-2147483648", "0"), ("2147483648", "1"), ("-2147483647", "-1")]
)
def test_deletion_cost_reaches_to_the_borders_of_int32(cheap: str, dear: str) -> None:
    lower, higher = (pod(name, annotations={COST: cost}) for name, cost in (("b", cheap), ("a", dear)))
    assert choose_victims([higher, lower], 1, {}, COST, NOW_US) == [lower]


def test_deletion_cost_beyond_int32_counts_as_zero() -> None:
    beyond, negative = (pod(name, annotations={COST: c}) for name, c in (("b", "-2147483649"), ("a", "-1")))
    assert choose_victims([beyond, negative], 1, {}, COST, NOW_US) == [negative]
    too_much, one = (pod(name, annotations={COST: c}) for name, c in (("b", "2147483648"), ("a", "1")))
    assert choose_victims([one, too_much], 1, {}, COST, NOW_US) == [too_much]
