"""Decisions on node health and taints, on plain values."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.nodelifecycle.decide import (
    NO_EXECUTE,
    NO_SCHEDULE,
    ConditionTaints,
    Health,
    Healthy,
    Phase,
    Settled,
    Turns,
    has_taint,
    keeps_standing,
    label_fixes,
    last_verdict,
    next_health_try,
    not_ready_pod,
    observe,
    only_reported,
    report,
    same,
    silent_status,
    taints_patch,
    with_taints,
    without_taints,
)
from sim.api.objects import condition_of
from sim.api.store import Item
from sim.ident import NAMES
from sim.units import MS, SECOND, format_micro_time

N = NAMES["orch"]
GRACE = 40 * SECOND


def ready(status: str = "True", heartbeat: str = "t0") -> dict[str, Any]:
    return {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat, "lastTransitionTime": "t0"}


def node_of(revision: str, heartbeat: str = "t0") -> dict[str, Any]:
    metadata = {"name": "n", "resourceVersion": revision}
    return {"metadata": metadata, "status": {"conditions": [ready(heartbeat=heartbeat)]}}


def lease(second: int) -> int:
    return second * SECOND


def known(at_us: int, condition: dict[str, Any] | None, seen: int | None = None) -> Health:
    health = Health("n", "leases/n")
    observe(health, condition, seen, at_us, created_us=0)
    return health


@pytest.mark.parametrize(
    ("took_ms", "begun_ms"),
    [
        (0, [20, 40, 60, 80, 100]),
        (3, [20, 40, 60, 80, 100]),
        (25, [20, 60, 100]),  # a tick during an attempt is lost
        (90, [20, 110]),
        (300, [20, 320]),
    ],
)
def test_failed_write_is_retried_at_each_free_tick_and_once_at_the_end(
    took_ms: int, begun_ms: list[int]
) -> None:
    found, now_ms, last = list[int](), 0, False
    while not last:
        at_us, last = next_health_try(7 * MS, (7 + now_ms) * MS)
        found.append(at_us // MS - 7)
        now_ms = found[-1] + took_ms
    assert found == begun_ms


def test_node_first_observed_with_status_has_a_heartbeat_now() -> None:
    assert known(500, ready()).probe_us == 500


def test_node_first_observed_without_status_counts_from_its_creation() -> None:
    assert known(500, None).probe_us == 0


def test_changed_heartbeat_time_or_newer_lease_is_a_heartbeat() -> None:
    health = known(1, ready(heartbeat="t0"), lease(1))
    observe(health, ready(heartbeat="t0"), lease(1), 2, 0)
    assert health.probe_us == 1
    observe(health, ready(heartbeat="t1"), lease(1), 3, 0)
    assert health.probe_us == 3
    observe(health, ready(heartbeat="t1"), lease(2), 4, 0)
    assert health.probe_us == 4
    observe(health, ready(heartbeat="t1"), lease(1), 5, 0)  # the node's clock was set back
    assert health.probe_us == 4
    observe(health, ready(heartbeat="t1"), lease(3), 6, 0)
    assert health.probe_us == 6


def test_status_heartbeat_makes_the_same_lease_count_again_in_the_next_pass() -> None:
    health = known(1, ready(heartbeat="t0"), lease(1))
    observe(health, ready(heartbeat="t1"), lease(1), 5, 0)
    assert (health.probe_us, health.renewed) == (5, None)
    observe(health, ready(heartbeat="t1"), lease(1), 10, 0)
    assert health.probe_us == 10
    observe(health, ready(heartbeat="t1"), lease(1), 15, 0)
    assert health.probe_us == 10


def test_new_status_is_a_heartbeat_and_removed_status_is_not() -> None:
    health = known(1, None)
    observe(health, ready(), None, 7, 0)
    assert health.probe_us == 7
    observe(health, None, None, 9, 0)
    assert health.probe_us == 7
    observe(health, ready(), None, 12, 0)
    assert health.probe_us == 12


def test_silence_sets_four_conditions_and_not_network_unavailable() -> None:
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


def test_conditions_and_cordon_require_no_schedule_taints() -> None:
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


def test_repeated_taint_takes_the_new_time_and_equal_taint_changes_nothing() -> None:
    old = [{"key": "a", "effect": "NoExecute", "timeAdded": "1"}, {"key": "b", "effect": "NoExecute"}]
    assert with_taints(old, [{"key": "b", "effect": "NoExecute"}]) is None
    new = with_taints(old, [{"key": "a", "effect": "NoExecute", "timeAdded": "2"}])
    assert new is not None
    assert [taint.get("timeAdded") for taint in new] == ["2", None]
    assert without_taints(old, [("c", "NoExecute")]) is None
    assert without_taints(old, [("a", "NoExecute")]) == old[1:]
    node = {"metadata": {"resourceVersion": "7"}}
    assert taints_patch(node, []) == {"metadata": {"resourceVersion": "7"}, "spec": {"taints": None}}


def test_pod_is_marked_not_ready_once() -> None:
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


def test_compact_node_is_recognized_by_its_revision() -> None:
    health = known(1, ready())
    health.row, health.standing = 0, Healthy(node_of("1", "t0"), node_of("2", "t1"))
    assert only_reported(health, node_of("1", "t0")) and only_reported(health, node_of("2", "t1"))
    assert not only_reported(health, node_of("3", "t2"))  # more may have changed
    health.timed = True
    assert not only_reported(health, node_of("1", "t0"))


def test_healthy_node_is_observed_by_its_lease_until_it_is_silent_or_changed() -> None:
    obj = node_of("1")

    def lease_of(second: int) -> Item:
        return Item("k", {"spec": {"renewTime": format_micro_time(second * SECOND)}}, 1, 1)

    health = known(0, ready(), 1 * SECOND)
    health.standing = Healthy(obj)
    assert keeps_standing(health, obj, lease_of(2), 40 * SECOND, GRACE)
    assert (health.renewed, health.probe_us) == (2 * SECOND, 40 * SECOND)
    assert keeps_standing(health, obj, None, 80 * SECOND, GRACE)
    assert not keeps_standing(health, obj, lease_of(2), 80 * SECOND + 1, GRACE)
    assert not keeps_standing(health, node_of("2"), lease_of(3), 81 * SECOND, GRACE)


def test_heartbeat_of_a_healthy_node_makes_it_forget_its_lease() -> None:
    reported = node_of("2", "t1")
    health = known(0, ready(), 1 * SECOND)
    health.standing = Healthy(node_of("1"), reported)
    assert keeps_standing(health, reported, None, 40 * SECOND, GRACE)
    assert (health.renewed, health.probe_us, health.standing.node) == (None, 40 * SECOND, reported)


def test_silent_node_is_settled_while_node_and_lease_are_the_same() -> None:
    obj, lease_item = node_of("1"), Item("k", {}, 1, 1)
    health = known(0, ready())
    health.standing = Settled(obj, lease_item)
    assert keeps_standing(health, obj, lease_item, GRACE + 1, GRACE)
    assert not keeps_standing(health, obj, lease_item, GRACE, GRACE)  # its probe time was reset
    assert not keeps_standing(health, obj, None, GRACE + 1, GRACE)
    assert not keeps_standing(health, node_of("1"), lease_item, GRACE + 1, GRACE)


def test_node_of_no_standing_is_always_examined() -> None:
    for phase in Phase:
        health = known(0, ready())
        health.standing = phase
        assert not keeps_standing(health, node_of("1"), None, 1, GRACE)


def test_report_of_a_healthy_node_replaces_its_object_and_condition() -> None:
    health, reported = known(0, ready()), node_of("2", "t1")
    report(health, reported)
    assert health.ready == ready()  # it is not healthy
    health.standing = Healthy(node_of("1"))
    report(health, reported)
    assert health.ready == ready(heartbeat="t1") and health.standing.node is reported


def test_revisions_of_a_node_are_compared_and_not_objects() -> None:
    def revision(number: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": number}}

    one = revision("1")
    assert same(None, None)
    assert same(one, one)
    assert same(one, revision("1"))
    assert not same(one, revision("2"))
    assert not same(one, None)
    assert not same(None, one)


def test_last_verdict_is_the_latest_of_a_zone() -> None:
    nodes = [Health("a", "leases/a"), Health("b", "leases/b"), Health("c", "leases/c")]
    for node, zone, verdict in zip(nodes, ("east", "east", "west"), (3, 7, 9), strict=True):
        node.zone, node.verdict = zone, verdict
    assert [last_verdict(nodes, "east"), last_verdict(nodes), last_verdict(nodes, "north")] == [7, 9, 0]


def test_turns_go_round_from_the_first_node() -> None:
    turns = Turns(first=2, count=4, start_us=100, cost_us=10, done=4)
    assert [turns.of(index) for index in range(4)] == [2, 3, 0, 1]
    assert turns.at_us(0) == 110 and turns.at_us(3) == 140


def test_taint_is_found_by_key_and_effect() -> None:
    tainted = {"spec": {"taints": [{"key": "k", "effect": NO_EXECUTE, "value": "any"}]}}
    assert has_taint(tainted, "k", NO_EXECUTE)
    assert not has_taint(tainted, "k", NO_SCHEDULE) and not has_taint({}, "k", NO_EXECUTE)
