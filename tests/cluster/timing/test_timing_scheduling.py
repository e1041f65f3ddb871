"""How many nodes the scheduler looks at and when it tries again, on whole clusters: known case 60
in breadth.

Nodes here are objects alone, without agents: what is asked is the scheduler's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.scenario.schema.sections import Runtime
from sim.units import SECOND
from tests.cluster.fixed import container
from tests.cluster.timing.api.test_timing_api import Attempts

ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def alone(**flags: str) -> ClusterPlan:
    """A scheduler without controllers; its flags with "_" for "-"."""
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return ClusterPlan(
        api_server=ComponentPlan(flags={"disable-admission-plugins": "TaintNodesByCondition,ServiceAccount"}),
        controller_manager=ComponentPlan(0),
        scheduler=ComponentPlan(flags=named),
    )


def node(cluster: Cluster, number: int, room: Mapping[str, str] = ROOM, zone: str = "") -> Obj:
    labels = {cluster.names.label_hostname: f"node-{number}"}
    if zone:
        labels[cluster.names.label_zone] = zone
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "labels": labels},
        "status": {"capacity": dict(room), "allocatable": dict(room)},
    }


def pod(name: str, cpu: str = "1") -> Obj:
    asks = {**container(), "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [asks]},
    }


def bound(unbound: Obj, node: str = "node-0") -> Obj:
    return {**unbound, "spec": {**unbound["spec"], "nodeName": node}}


def create(cluster: Cluster, resource: str, objects: Iterable[Obj], namespace: str = "") -> None:
    for obj in objects:
        reply = cluster.request("create", resource, namespace, body=obj)
        assert reply.ok, reply.message


async def places(cluster: Cluster, pods: int) -> list[int]:
    """The numbers of the nodes on which pods are placed, one pod after the other."""
    found = []
    for number in range(pods):
        create(cluster, "pods", [pod(f"pod-{number}")], "default")
        await cluster.run_for("1s")
        placed = cluster.get("pods", f"pod-{number}")
        assert placed is not None
        found.append(int(placed["spec"]["nodeName"].removeprefix("node-")))
    return found


@pytest.mark.parametrize(
    ("nodes", "flags", "looked"),
    [
        (99, {}, 99),
        (100, {}, 100),
        (240, {}, 117),
        (1000, {}, 420),
        (5000, {}, 500),
        (1000, {"percentage_of_nodes_to_score": "10"}, 100),
        (1000, {"percentage_of_nodes_to_score": "30"}, 300),
        (1000, {"percentage_of_nodes_to_score": "100"}, 1000),
        (300, {"percentage_of_nodes_to_score": "5"}, 100),
    ],
)
async def test_60_search_ends_with_enough_feasible_nodes_and_continues_from_there(
    nodes: int, flags: Mapping[str, str], looked: int
) -> None:
    """All nodes are feasible, so a pod goes to one of as many as are wanted, in the order of the
    list.
    """
    async with Cluster(alone(**flags), seed=1) as cluster:
        await cluster.run_for("1s")  # a list that finds them is in the order of their names
        create(cluster, "nodes", (node(cluster, number) for number in range(nodes)))
        await cluster.run_for("1s")
        start, offsets = 0, []
        for at in await places(cluster, 24):
            offsets.append((at - start) % nodes)
            start = (start + looked) % nodes
        assert max(offsets) < looked
        assert max(offsets) > looked * 0.6  # not of fewer either


async def test_60_nodes_that_do_not_fit_are_looked_at_but_do_not_count() -> None:
    """Of 5000 nodes each second one is full: the 500 feasible ones are among the first 999, and the
    search continues after them.
    """
    full = {**ROOM, "cpu": "500m"}
    async with Cluster(alone(), seed=1) as cluster:
        await cluster.run_for("1s")
        create(cluster, "nodes", (node(cluster, at, full if at % 2 else ROOM) for at in range(5000)))
        await cluster.run_for("1s")
        start, offsets = 0, []
        for at in await places(cluster, 12):
            assert at % 2 == 0
            offsets.append((at - start) % 5000)
            # from a feasible one to the 500th: 999; from a full one: 1000
            start = (start + (1000 if start % 2 else 999)) % 5000
        assert 600 < max(offsets) < 1000


async def test_60_the_order_of_the_list_takes_one_node_of_each_zone_in_turn() -> None:
    """600 nodes of zone a come before 600 of zone b: a search for 480 of 1200 sees 240 of each."""
    async with Cluster(alone(), seed=1) as cluster:
        await cluster.run_for("1s")
        create(cluster, "nodes", (node(cluster, at, zone="ab"[at >= 600]) for at in range(1200)))
        await cluster.run_for("1s")
        first = await places(cluster, 2)
        assert all(at % 600 < 240 + 240 * number for number, at in enumerate(first))
        assert all(at % 600 >= 240 * number for number, at in enumerate(first))


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ({}, [1, 2, 4, 8, 10, 10]),
        ({"pod_initial_backoff": "2s", "pod_max_backoff": "30s"}, [2, 4, 8, 16, 30, 30]),
        ({"pod_initial_backoff": "5s", "pod_max_backoff": "5s"}, [5, 5, 5, 5]),
    ],
)
async def test_60_the_back_off_of_a_pod_is_doubled_from_its_first_to_its_longest(
    flags: Mapping[str, str], wanted: list[int]
) -> None:
    """The queue is looked at each second, and an event that may help comes every half second."""
    small = [pod(f"small-{number}", "1m") for number in range(100)]
    async with Cluster(alone(**flags), seed=1) as cluster:
        attempts = Attempts(cluster)
        create(cluster, "nodes", [node(cluster, 0)])
        create(cluster, "pods", (bound(each) for each in small), "default")
        await cluster.run_for("1s")
        create(cluster, "pods", [pod("big", "65")], "default")
        await cluster.run_for("500ms")
        while len(attempts.failed) <= len(wanted):
            for each in small[:20]:
                name = each["metadata"]["name"]
                options = {"gracePeriodSeconds": "0"}
                assert cluster.request("delete", "pods", "default", name, options=options).ok
                await cluster.run_for("500ms")
            small = [*small[20:], *small[:20]]
            create(cluster, "pods", (bound(each) for each in small[-20:]), "default")
        gaps = [later - earlier for earlier, later in pairwise(attempts.failed)]
        for gap, least in zip(gaps, wanted, strict=False):
            assert least <= gap <= least + 1.6


@pytest.mark.parametrize(
    ("flags", "wait_s"), [({}, 300), ({"pod_max_in_unschedulable_pods_duration": "45s"}, 45)]
)
async def test_60_without_events_each_pod_is_tried_again_after_five_minutes_of_its_own(
    flags: dict[str, str], wait_s: int
) -> None:
    async with Cluster(alone(**flags), seed=1) as cluster:
        tried: dict[str, list[float]] = {}
        trace = cluster.kernel.trace
        kind = trace.kind("schedule", "pod", "node", "message")
        trace.listen(
            kind, lambda _, at_us, __, values: tried.setdefault(values[0], []).append(at_us / SECOND)
        )
        create(cluster, "nodes", [node(cluster, 0)])
        for number in range(12):
            create(cluster, "pods", [pod(f"big-{number}", "65")], "default")
            await cluster.run_for("2600ms")
        await cluster.run_for("900s")
        assert len(tried) == 12
        for times in tried.values():
            assert len(times) >= 3
            assert all(wait_s < later - earlier <= wait_s + 31 for earlier, later in pairwise(times))


@pytest.mark.parametrize("added", [5, 20, 100])
async def test_60_node_with_room_places_all_waiting_pods_within_a_second_and_a_half(
    added: int,
) -> None:
    async with Cluster(alone(), seed=1) as cluster:
        attempts = Attempts(cluster)
        create(cluster, "nodes", [node(cluster, 0)])
        create(cluster, "pods", (pod(f"big-{number}", "65") for number in range(5)), "default")
        await cluster.run_for(added * SECOND)
        assert len(attempts.failed) == 5
        at = cluster.kernel.now_us / SECOND
        create(cluster, "nodes", [node(cluster, 1)])  # of no help
        await cluster.run_for("100ms")
        create(cluster, "nodes", [node(cluster, 2, {**ROOM, "cpu": "400"})])
        await cluster.run_for("10s")
        assert len(attempts.placed) == 5
        assert max(attempts.placed) - at <= 1.6
        assert len(attempts.failed) == 5


@pytest.mark.parametrize(("at", "wanted"), [("125s", ["node-1", "node-1"]), ("8m", ["node-0", "node-1"])])
async def test_image_spread_is_counted_for_a_node_when_it_is_observed(at: str, wanted: list[str]) -> None:
    """An image of 95 MiB scores 7 points if the scheduler knows that both nodes hold it, 2 if one
    does.

    node-0 pulled it first, and counts as its only holder until its heartbeat, five minutes later
    at the latest; a pod on a node costs it a point or two for its processor and memory.
    """
    runtime = Runtime(image_pull="1s")
    plan = ClusterPlan(nodes=tuple(replace(each, runtime=runtime) for each in plain_nodes(2)))

    async with Cluster(plan, seed=1) as cluster:
        await cluster.run_until("30s")
        for name in ("node-0", "node-1"):
            create(cluster, "pods", [bound(pod(f"on-{name}", cpu="200m"), name)], "default")
            await cluster.run_for("45s")  # it is listed after 40 s
        await cluster.run_until(at)
        found = []
        for name in ("a", "b"):
            create(cluster, "pods", [pod(name, cpu="200m")], "default")
            await cluster.run_for("1s")
            placed = cluster.get("pods", name)
            assert placed is not None
            found.append(placed["spec"]["nodeName"])
        assert sorted(found) == wanted


async def test_a_pod_that_is_adopted_while_it_waits_is_spread_with_those_of_its_owner() -> None:
    """One node has more room, but all other pods of the set are there."""
    plan = replace(alone(), controller_manager=ComponentPlan(flags={"controllers": "replicaset"}))
    async with Cluster(plan) as cluster:
        cluster.apply(*(node(cluster, number, zone="a") for number in range(2)))
        await cluster.run_for("20s")
        near = {"topologyKey": cluster.names.label_zone, "labelSelector": {"matchLabels": {"app": "anchor"}}}
        company = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
        web = {"app": "web"}
        waits = pod("waits")
        waits["spec"]["affinity"] = company
        others = [bound(pod(f"web-{number}", cpu="0")) for number in range(3)]
        for each in (waits, *others):
            each["metadata"]["labels"] = web
        template = {"metadata": {"labels": web}, "spec": {"containers": [container()]}}
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}}
        owner["spec"] = {"replicas": 4, "selector": {"matchLabels": web}, "template": template}
        cluster.apply(waits, *others, bound(pod("filler", cpu="32"), "node-1"))
        await cluster.run_for("5s")
        cluster.apply(owner)
        await cluster.run_for("20s")
        adopted = cluster.get("pods", "waits")
        assert adopted is not None and adopted["metadata"]["ownerReferences"][0]["name"] == "web"
        assert "nodeName" not in adopted["spec"]
        anchor = bound(pod("anchor", cpu="0"))
        anchor["metadata"]["labels"] = {"app": "anchor"}
        cluster.apply(anchor)
        await cluster.run_for("20s")
        placed = cluster.get("pods", "waits")
        assert placed is not None and placed["spec"]["nodeName"] == "node-1"
