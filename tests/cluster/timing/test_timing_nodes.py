"""Node failure on whole clusters with real node agents: known timing cases, numbered in the names
of the tests.

`test_node_timing.py` holds the same cases to the control plane alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sim.api.store import Change
from sim.api.types import Obj
from sim.units import SECOND, parse_time
from tests.cluster.fixed import FixedPhases, container, seconds, workload
from tests.cluster.seen import pods_on, pods_with

TEN = {"": 10}


def gaps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


async def test_2_a_dead_node_is_found_tainted_and_emptied_to_the_tenth() -> None:
    async with FixedPhases(TEN) as cluster:
        cluster.apply(*pods_on(["node-3"], 2))
        await cluster.kill("node-3")
        await cluster.run_until("440s")
        seen = cluster.seen
        assert list(seen.unknown) == ["node-3"]
        assert abs(seen.unknown["node-3"] / SECOND - 132.26) <= 0.03
        assert list(seen.no_execute) == ["node-3"]
        assert 137.27 <= seen.no_execute["node-3"] / SECOND <= 137.40
        assert list(seen.deleted) == ["node-3"]
        assert len(seen.deleted["node-3"]) == 2
        assert all(437.27 <= at_us / SECOND <= 437.50 for at_us in seen.deleted["node-3"])


async def test_4_a_silent_node_has_its_conditions_unknown_and_one_event() -> None:
    async with FixedPhases(TEN) as cluster:
        await cluster.kill("node-3")
        before = conditions_of(cluster, "node-3")
        await cluster.run_until("300s")
        after = conditions_of(cluster, "node-3")
        for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
            assert (after[kind]["status"], after[kind]["reason"]) == ("Unknown", "NodeStatusUnknown")
            assert after[kind]["lastHeartbeatTime"] == before[kind]["lastHeartbeatTime"]
        assert after.get("NetworkUnavailable") == before.get("NetworkUnavailable")
        told = [
            event
            for event in cluster.list("events")
            if event["reason"] == "NodeNotReady" and event["involvedObject"]["kind"] == "Node"
        ]
        assert [(event["involvedObject"]["name"], event.get("count", 1)) for event in told] == [("node-3", 1)]


def conditions_of(cluster: FixedPhases, node: str) -> dict[str, Any]:
    found = cluster.get("nodes", node)
    assert found is not None
    return {condition["type"]: condition for condition in found["status"]["conditions"]}


async def test_5_no_schedule_comes_at_once_and_no_execute_one_pass_later() -> None:
    not_ready: list[Obj] = []

    def see(change: Change) -> None:
        if change.item.key.startswith("//nodes/") and change.at_us > 90 * SECOND:
            taints = change.item.obj["spec"].get("taints") or ()
            not_ready.extend(t for t in taints if t["key"] == cluster.names.taint_not_ready)

    async with FixedPhases(TEN) as cluster:
        cluster.observe(see)
        await cluster.kill("node-3")
        await cluster.run_until("200s")
        assert list(cluster.seen.no_schedule) == ["node-3"]
        assert cluster.seen.no_schedule["node-3"] / SECOND <= 132.36
        assert cluster.seen.no_execute["node-3"] / SECOND >= 137.27
        assert not not_ready


async def test_7_a_replica_sets_pod_is_replaced_at_once_and_its_object_stays() -> None:
    async with FixedPhases(TEN) as cluster:
        cluster.apply(workload("ReplicaSet", "web", 10))
        await cluster.run_until("90s")
        (old,) = [pod for pod in cluster.list("pods") if pod["spec"]["nodeName"] == "node-3"]
        await cluster.kill("node-3")
        await cluster.run_until("445s")
        (deleted_us,) = cluster.seen.deleted["node-3"]
        assert 437.3 <= deleted_us / SECOND <= 437.5
        gone = cluster.pod(old["metadata"]["name"])
        assert gone["metadata"]["deletionGracePeriodSeconds"] == 30
        due_us = parse_time(gone["metadata"]["deletionTimestamp"]) - cluster.kernel.epoch_us
        assert due_us == deleted_us // SECOND * SECOND + 30 * SECOND  # times have whole seconds
        (new,) = [pod for pod in cluster.list("pods") if created_s(cluster, pod) > 400]
        assert created_s(cluster, new) * SECOND <= deleted_us + SECOND
        assert new["spec"]["nodeName"] != "node-3"
        assert new["status"]["phase"] == "Running"
        started = new["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        assert parse_time(started) - parse_time(new["metadata"]["creationTimestamp"]) <= 5 * SECOND
        await cluster.run_until("1000s")
        assert cluster.pod(old["metadata"]["name"])["metadata"]["uid"] == old["metadata"]["uid"]


def created_s(cluster: FixedPhases, obj: dict[str, Any]) -> float:
    return (parse_time(obj["metadata"]["creationTimestamp"]) - cluster.kernel.epoch_us) / SECOND


async def test_8_a_stateful_sets_pod_does_not_move() -> None:
    async with FixedPhases({"": 3}) as cluster:
        cluster.apply(workload("StatefulSet", "web", 3))
        await cluster.run_until("90s")
        old = cluster.pod("web-1")
        await cluster.kill(old["spec"]["nodeName"])
        await cluster.run_until("437500ms")
        assert "deletionTimestamp" in cluster.pod("web-1")["metadata"]
        await cluster.run_until("3600s")
        assert cluster.pod("web-1")["metadata"]["uid"] == old["metadata"]["uid"]
        assert "deletionTimestamp" in cluster.pod("web-1")["metadata"]


async def test_10_daemon_set_pods_and_static_pods_stay() -> None:
    static = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "proxy", "namespace": "default"},
        "spec": {"containers": [container()]},
    }
    async with FixedPhases(TEN, static={"node-3": (static,)}) as cluster:
        cluster.apply(workload("DaemonSet", "agent"), *pods_on(["node-3"], 1))
        await cluster.kill("node-3")
        await cluster.run_until("3600s")
        there = [pod for pod in cluster.list("pods") if pod["spec"]["nodeName"] == "node-3"]
        marked = [pod["metadata"]["name"] for pod in there if "deletionTimestamp" in pod["metadata"]]
        assert len(there) == 3
        assert "proxy-node-3" in {pod["metadata"]["name"] for pod in there}
        assert marked == ["pod-node-3-0"]


async def test_11_tolerations_decide_how_long_a_pod_stays() -> None:
    async with FixedPhases(TEN) as cluster:
        tolerates = {
            "key": cluster.names.taint_unreachable,
            "operator": "Exists",
            "effect": "NoExecute",
        }
        lists: tuple[list[Obj], ...] = (
            [{**tolerates, "tolerationSeconds": 0}],
            [{**tolerates, "tolerationSeconds": 60}],
            [tolerates],
            [],
        )
        cluster.apply(*pods_with("node-3", lists))
        await cluster.kill("node-3")
        await cluster.run_until("600s")
        tainted_us = cluster.seen.no_execute["node-3"]
        after = [(at_us - tainted_us) / SECOND for at_us in cluster.seen.deleted["node-3"]]
        assert len(after) == 3
        assert 0 <= after[0] <= 0.2
        assert 60 <= after[1] <= 60.2
        assert 300 <= after[2] <= 300.2
        assert "deletionTimestamp" not in cluster.pod("pod-node-3-2")["metadata"]


async def test_16_five_dead_nodes_of_twenty_are_tainted_one_each_ten_seconds() -> None:
    async with FixedPhases({"": 20}) as cluster:
        dead = cluster.nodes_of()[3:8]
        cluster.apply(*pods_on(cluster.nodes_of(), 1))
        await cluster.kill(*dead)
        await cluster.run_until("480s")
        unknown = seconds(cluster.seen.unknown)
        assert sorted(cluster.seen.unknown) == dead
        assert 132.23 <= unknown[0] <= unknown[-1] <= 132.40  # one pass, one write after the other
        tainted = seconds(cluster.seen.no_execute)
        assert 137.27 <= tainted[0] <= 137.40
        assert len(tainted) == 5
        assert all(10 <= gap <= 10.1 for gap in gaps(tainted))
        assert sorted(cluster.seen.deleted) == dead
        assert abs(max(times[-1] for times in cluster.seen.deleted.values()) / SECOND - 477.5) <= 0.4


async def test_19_a_small_zone_mostly_down_is_left_alone() -> None:
    async with FixedPhases({"": 20}) as cluster:
        dead = cluster.nodes_of()[:12]
        cluster.apply(*pods_on(cluster.nodes_of(), 1))
        await cluster.kill(*dead)
        await cluster.run_until("3600s")
        assert sorted(cluster.seen.unknown) == sorted(dead)
        assert seconds(cluster.seen.unknown)[-1] < 137  # one pass
        assert sorted(cluster.seen.no_schedule) == sorted(dead)
        assert not cluster.seen.no_execute
        assert not cluster.seen.deleted


async def test_23_one_lost_zone_of_three_is_tainted_at_the_full_rate_and_alone() -> None:
    async with FixedPhases({"a": 10, "b": 10, "c": 10}) as cluster:
        dead = cluster.nodes_of("a")
        cluster.apply(*pods_on(cluster.nodes, 1))
        await cluster.kill(*dead)
        await cluster.run_until("560s")
        tainted = seconds(cluster.seen.no_execute)
        assert sorted(cluster.seen.no_execute) == dead
        assert all(10 <= gap <= 10.1 for gap in gaps(tainted))
        assert sorted(cluster.seen.deleted) == dead
        assert max(times[-1] for times in cluster.seen.deleted.values()) / SECOND <= tainted[0] + 391


async def test_24_when_everything_is_lost_nothing_is_evicted() -> None:
    async with FixedPhases(TEN) as cluster:
        cluster.apply(*pods_on(cluster.nodes, 1))
        await cluster.kill(*cluster.nodes_of())
        await cluster.run_until("3700s")
        assert len(cluster.seen.unknown) == 10
        assert not cluster.seen.no_execute
        assert not cluster.seen.deleted
