"""Edges of node failure that follow from the facts: what changes while nodes and pods wait for
their turn.

Fixed phases as in the known cases: leases renewed at 0, 10, 20 … s, passes over the nodes at 2.00,
7.01, 12.02 … s, so that nodes that die at 95 are Unknown at 132.26, the first of them has its
NoExecute taint at 137.3, others 10 s apart.
"""

from __future__ import annotations

from typing import Any

from sim.api.types import Obj
from sim.units import SECOND
from tests.cluster.fixed import FixedPhases, seconds
from tests.cluster.seen import pods_with
from tests.cluster.timing.test_timing_node_faults import events
from tests.cluster.timing.test_timing_zones import manager

MERGE = "application/merge-patch+json"


def label(cluster: FixedPhases, node: str, labels: dict[str, str]) -> None:
    body: dict[str, Any] = {"metadata": {"labels": labels}}
    assert cluster.request("patch", "nodes", "", node, body=body, content_type=MERGE).ok


def waiting(cluster: FixedPhases, nodes: list[str]) -> list[str]:
    """The dead nodes that have not been tainted yet."""
    return [name for name in nodes if name not in cluster.seen.no_execute]


async def test_a_node_removed_while_it_waits_takes_its_turn_all_the_same() -> None:
    """No pass delays it any more, so its token is the next one, and has no effect."""
    async with FixedPhases({"": 20}) as cluster:
        dead = ["node-3", "node-4", "node-5"]
        await cluster.kill(*dead)
        await cluster.run_until("138s")
        gone, last = waiting(cluster, dead)
        assert cluster.request("delete", "nodes", "", gone).ok
        await cluster.run_until("170s")
        assert gone not in cluster.seen.no_execute
        assert 157.3 <= cluster.seen.no_execute[last] / SECOND <= 157.6


async def test_node_that_changes_its_zone_is_tainted_there_and_uses_its_old_turn_too() -> None:
    async with FixedPhases({"a": 6, "b": 3}) as cluster:
        dead = ["node-a0", "node-a1", "node-a2"]
        await cluster.kill(*dead)
        await cluster.run_until("138s")
        moved, last = waiting(cluster, dead)
        names = cluster.names
        label(cluster, moved, {names.label_zone: "b", names.label_beta_zone: "b"})
        await cluster.run_until("170s")
        assert 142.2 <= cluster.seen.no_execute[moved] / SECOND <= 142.5
        assert 157.3 <= cluster.seen.no_execute[last] / SECOND <= 157.6


async def test_a_zone_of_exempt_nodes_only_has_no_state_and_its_nodes_are_tainted() -> None:
    async with FixedPhases({"a": 3, "b": 2}) as cluster:
        await cluster.run_until("50s")
        for name in cluster.nodes_of("b"):
            label(cluster, name, {cluster.names.label_node_exclude_disruption: ""})
        await cluster.kill(*cluster.nodes_of("b"))
        await cluster.run_until("200s")
        first, second = seconds(cluster.seen.no_execute)
        assert 137.27 <= first <= 137.4
        assert 10 <= second - first <= 10.2


async def test_a_rate_of_nothing_lets_the_first_node_of_a_zone_through() -> None:
    """The bucket begins full and is never filled again; it is not changed for one of the same rate
    either.
    """
    async with FixedPhases({"a": 8, "b": 8}, manager(node_eviction_rate="0")) as cluster:
        await cluster.kill("node-a0", "node-a1", "node-b0", "node-b1")
        await cluster.run_until("1500s")
        assert len(cluster.seen.unknown) == 4
        assert sorted(name[:-1] for name in cluster.seen.no_execute) == ["node-a", "node-b"]
        assert all(137.27 <= at <= 137.5 for at in seconds(cluster.seen.no_execute))


async def test_a_toleration_cut_to_nothing_does_not_cut_a_stay_that_was_granted() -> None:
    """As for any shorter toleration: the running timer is kept, and no cancelled deletion is
    reported.
    """
    async with FixedPhases({"": 4}) as cluster:
        key = cluster.names.taint_unreachable
        long: Obj = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100}
        cluster.apply(*pods_with("node-3", [[long]]))
        await cluster.kill("node-3")
        await cluster.run_until("200s")
        pod = cluster.pod("pod-node-3-0")
        tolerations = [
            {**each, "tolerationSeconds": 0} if each["key"] == key else each
            for each in pod["spec"]["tolerations"]
        ]
        cut = {**pod, "spec": {**pod["spec"], "tolerations": tolerations}}
        assert cluster.request("update", "pods", "default", "pod-node-3-0", body=cut).ok
        await cluster.run_until("300s")
        (deleted_us,) = cluster.seen.deleted["node-3"]
        assert 100 <= (deleted_us - cluster.seen.no_execute["node-3"]) / SECOND <= 100.2
        assert events(cluster, "TaintManagerEviction") == {"pod-node-3-0": 1}
        (event,) = [each for each in cluster.list("events") if each["reason"] == "TaintManagerEviction"]
        assert "apiVersion" not in event["involvedObject"] and "uid" not in event["involvedObject"]
