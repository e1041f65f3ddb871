"""Scores in numbers worked out by hand, with what a pod's parts add to them."""

import pytest

from actors.scheduler.filters import resource_score
from sim.ident import NAMES
from tests.unit.scheduler.test_attempt import World

N = NAMES["orch"]


def score(world, node, **spec):
    """NodeResourcesFit and NodeResourcesBalancedAllocation of a node for a pod."""
    pod = world.pod(**spec)
    return resource_score(world.cluster.templates.info(pod).template, world.cluster.nodes[node])


def containers(*requests):
    return [{"name": f"c{at}", "image": "i", "resources": {"requests": r}} for at, r in enumerate(requests)]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        # 4 CPU, 8Gi: 75 and 75, evenly used
        ({"containers": containers({"cpu": "1", "memory": "2Gi"})}, 75 + 100),
        # without a request 100m and 200Mi for one score, nothing for the other: 97 (97.5, 97.56)
        ({"containers": containers({})}, 97 + 100),
        # an explicit zero is a request: 100 and 97
        ({"containers": containers({"cpu": "0"})}, 98 + 100),
        # the greater of the containers' sum and each init container: 50 and 75
        (
            {
                "containers": containers({"cpu": "1", "memory": "1Gi"}, {"cpu": "500m", "memory": "1Gi"}),
                "initContainers": containers({"cpu": "2", "memory": "1Gi"}),
            },
            62 + 87,
        ),
        # memory overhead counts as it is, CPU overhead in whole cores taken for millicores: 74.95, 50
        (
            {
                "containers": containers({"cpu": "1", "memory": "2Gi"}),
                "overhead": {"cpu": "1500m", "memory": "2Gi"},
            },
            62 + 87,
        ),
    ],
)
def test_room_is_scored_by_what_is_asked_for(spec, wanted):
    world = World()
    world.node("a", cpu="4")
    assert score(world, "a", **spec) == wanted


def test_the_overhead_of_a_pod_that_has_its_node_counts_whole():
    world = World()
    world.node("a", cpu="4")
    busy = {"containers": containers({"cpu": "500m", "memory": "1Gi"}), "overhead": {"cpu": "1500m"}}
    world.put("a", **busy)
    # 2 of 4 CPU and 1 of 8Gi taken; the pod brings 1 and 1Gi: 25 and 75
    assert score(world, "a", containers=containers({"cpu": "1", "memory": "1Gi"})) == 50 + 75


@pytest.mark.parametrize(
    ("version", "kind", "spread"),
    [
        ("apps/v1", "ReplicaSet", True),
        ("apps/v1", "StatefulSet", True),
        ("v1", "ReplicationController", True),
        ("apps.example.com/v1", "StatefulSet", False),
        ("apps/v1beta1", "ReplicaSet", False),
    ],
)
def test_the_selector_of_a_pods_owner_spreads_it_if_the_owner_is_of_the_known_kinds(version, kind, spread):
    world = World()
    for name in "ab":
        world.node(name, cpu="64")
    selector = {"app": "a"} if version == "v1" else {"matchLabels": {"app": "a"}}
    owned = {"metadata": {"namespace": "default", "name": "o"}, "spec": {"selector": selector}}
    world.cluster.set_owner(kind, owned)
    for _ in range(3):
        world.put("a", cpu="0")
    world.put("b", cpu="32", app="other")  # else a would be no better
    pod = world.pod(cpu="0")
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": True}
    ]
    info = world.cluster.templates.info(pod)
    assert world.attempts.place(info, list, lambda count: 0).node == ("b" if spread else "a")
