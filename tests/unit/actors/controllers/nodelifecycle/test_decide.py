"""Node health and taints, as decisions over values."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.nodelifecycle.decide import (
    ConditionTaints,
    Health,
    label_fixes,
    listen,
    next_health_try,
    not_ready_pod,
    only_reported,
    silent_status,
    taints_patch,
    with_taints,
    without_taints,
)
from sim.api.objects import condition_of
from sim.ident import NAMES
from sim.units import MS, SECOND

N = NAMES["orch"]


def ready(status: str = "True", beat: str = "t0") -> dict[str, Any]:
    return {"type": "Ready", "status": status, "lastHeartbeatTime": beat, "lastTransitionTime": "t0"}


def lease(second: int) -> int:
    return second * SECOND


def known(at_us: int, condition: dict[str, Any] | None, seen: int | None = None) -> Health:
    health = Health("n", "leases/n")
    listen(health, condition, seen, at_us, created_us=0)
    return health


@pytest.mark.parametrize(
    ("took_ms", "begun_ms"),
    [
        (0, [20, 40, 60, 80, 100]),
        (3, [20, 40, 60, 80, 100]),
        (25, [20, 60, 100]),  # a tick while one is under way is lost
        (90, [20, 110]),
        (300, [20, 320]),
    ],
)
def test_a_write_that_fails_is_tried_again_at_each_free_tick_and_once_more_at_the_end(
    took_ms: int, begun_ms: list[int]
) -> None:
    found, now_ms, last = list[int](), 0, False
    while not last:
        at_us, last = next_health_try(7 * MS, (7 + now_ms) * MS)
        found.append(at_us // MS - 7)
        now_ms = found[-1] + took_ms
    assert found == begun_ms


def test_a_node_first_seen_with_a_status_is_heard_of_now() -> None:
    assert known(500, ready()).probe_us == 500


def test_a_node_first_seen_without_a_status_counts_from_its_creation() -> None:
    assert known(500, None).probe_us == 0


def test_a_changed_heartbeat_or_a_newer_lease_is_a_sign_of_life() -> None:
    health = known(1, ready(beat="t0"), lease(1))
    listen(health, ready(beat="t0"), lease(1), 2, 0)
    assert health.probe_us == 1
    listen(health, ready(beat="t1"), lease(1), 3, 0)
    assert health.probe_us == 3
    listen(health, ready(beat="t1"), lease(2), 4, 0)
    assert health.probe_us == 4
    listen(health, ready(beat="t1"), lease(1), 5, 0)  # a node clock set back
    assert health.probe_us == 4


def test_a_status_heartbeat_makes_the_same_lease_count_again_one_pass_later() -> None:
    health = known(1, ready(beat="t0"), lease(1))
    listen(health, ready(beat="t1"), lease(1), 5, 0)
    assert (health.probe_us, health.renewed) == (5, None)
    listen(health, ready(beat="t1"), lease(1), 10, 0)
    assert health.probe_us == 10
    listen(health, ready(beat="t1"), lease(1), 15, 0)
    assert health.probe_us == 10


def test_a_status_that_appears_is_a_sign_of_life_and_one_that_vanishes_is_none() -> None:
    health = known(1, None)
    listen(health, ready(), None, 7, 0)
    assert health.probe_us == 7
    listen(health, None, None, 9, 0)
    assert health.probe_us == 7
    listen(health, ready(), None, 12, 0)
    assert health.probe_us == 12


def test_silence_sets_four_conditions_and_leaves_the_network_alone() -> None:
    network = {"type": "NetworkUnavailable", "status": "False"}
    node = {"metadata": {"creationTimestamp": "c"}, "status": {"conditions": [ready(), network]}}
    silent = silent_status(node, "now", "Agent")
    found = {c["type"]: c for c in silent["status"]["conditions"]}
    assert found["Ready"]["reason"] == "NodeStatusUnknown"
    assert (found["Ready"]["lastHeartbeatTime"], found["Ready"]["lastTransitionTime"]) == ("t0", "now")
    assert found["MemoryPressure"]["reason"] == "NodeStatusNeverUpdated"
    assert found["MemoryPressure"]["lastHeartbeatTime"] == "c"
    assert found["NetworkUnavailable"] is network
    assert silent_status(silent, "later", "Agent") is silent
    assert condition_of(node, "Ready") == ready()


def test_conditions_and_the_cordon_ask_for_no_schedule_taints() -> None:
    taints = ConditionTaints(N)
    pressure = {"type": "DiskPressure", "status": "True"}
    node: dict[str, Any] = {
        "status": {"conditions": [ready("Unknown"), pressure]},
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": N.taint_not_ready, "effect": "NoSchedule"},
                {"key": N.taint_not_ready, "effect": "NoExecute"},
                {"key": "mine", "effect": "NoSchedule"},
                {"key": N.taint_disk_pressure, "effect": "NoSchedule"},
            ],
        },
    }
    assert taints.diff(node) == ([N.taint_unreachable, N.taint_unschedulable], [N.taint_not_ready])


def test_a_taint_set_again_takes_the_new_time_and_an_equal_one_changes_nothing() -> None:
    old = [{"key": "a", "effect": "NoExecute", "timeAdded": "1"}, {"key": "b", "effect": "NoExecute"}]
    assert with_taints(old, [{"key": "b", "effect": "NoExecute"}]) is None
    new = with_taints(old, [{"key": "a", "effect": "NoExecute", "timeAdded": "2"}])
    assert new is not None
    assert [taint.get("timeAdded") for taint in new] == ["2", None]
    assert without_taints(old, [("c", "NoExecute")]) is None
    assert without_taints(old, [("a", "NoExecute")]) == old[1:]
    node = {"metadata": {"resourceVersion": "7"}}
    assert taints_patch(node, []) == {"metadata": {"resourceVersion": "7"}, "spec": {"taints": None}}


def test_a_pod_is_marked_once() -> None:
    pod = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "reason": "r"}]}}
    marked = not_ready_pod(pod, "now")
    assert marked is not None
    assert marked["status"]["conditions"] == [
        {"type": "Ready", "status": "False", "reason": "r", "lastTransitionTime": "now"}
    ]
    assert not_ready_pod(marked, "later") is None
    assert not_ready_pod({"status": {}}, "now") is None


def test_beta_labels_follow_the_stable_ones() -> None:
    assert label_fixes({N.label_os: "linux"}, N) == {N.label_beta_os: "linux"}
    assert label_fixes({N.label_os: "linux", N.label_beta_os: "linux"}, N) == {}


def test_a_node_that_rests_in_bytes_is_known_again_by_its_revision() -> None:
    def node(revision: str, beat: str) -> dict[str, Any]:
        metadata = {"name": "n", "resourceVersion": revision}
        return {"metadata": metadata, "status": {"conditions": [ready(beat=beat)]}}

    health = known(1, ready())
    health.row, health.quiet, health.node, health.beaten = 0, True, node("1", "t0"), node("2", "t1")
    health.timed = False
    assert only_reported(health, node("1", "t0")) and only_reported(health, node("2", "t1"))
    assert not only_reported(health, node("3", "t2"))  # more may have changed
    health.timed = True
    assert not only_reported(health, node("1", "t0"))
