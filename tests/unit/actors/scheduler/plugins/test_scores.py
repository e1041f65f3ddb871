"""Scores in numbers worked out by hand, with what a pod's parts add to them."""

import pytest

from actors.scheduler.attempt import Placed
from actors.scheduler.search.signature import Member
from sim.ident import NAMES
from tests.unit.actors.scheduler.test_attempt import World

N = NAMES["orch"]


def score(world, node, **spec):
    """NodeResourcesFit and NodeResourcesBalancedAllocation of a node for a pod."""
    pod = world.pod(**spec)
    template = world.cluster.templates.info(pod).template
    return world.attempts.profile.score_room(template, world.cluster.nodes[node])


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
        # Memory overhead counts unchanged, CPU overhead in whole cores taken for millicores: 74.95,
        # 50.
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


def totals(world, **spec):
    """The weighted sums that differ between the nodes, by node; all of them are looked at."""
    state = world.attempts.state(world.cluster.templates.info(world.pod(**spec)))
    members = [Member(signature, at, [(0, len(at))], len(at)) for signature, at in state.passing({})[0]]
    found = zip(members, state.totals(members), strict=True)
    return {state.nodes[at].name: total for member, total in found for at in member.at}


def test_mild_taints_are_scored_by_their_share_of_the_most_rounded_against_the_pod():
    world = World()
    for count, name in enumerate("abcd"):
        mild = [{"key": f"k{at}", "effect": "PreferNoSchedule"} for at in range(count)]
        world.node(name, taints=mild)
    found = totals(world, cpu="0")
    # 100 less a third, rounded up: 100, 67, 34, 0; weight 3
    assert [(found[name] - found["d"]) // 3 for name in "abcd"] == [100, 67, 34, 0]


def test_preferred_nodes_score_by_share_of_the_most_and_empty_preference_by_none():
    world = World()
    for name, disk in (("a", "ssd"), ("b", "hdd"), ("c", "tape")):
        world.node(name, disk=disk)

    def prefer(weight, *expressions):
        return {"weight": weight, "preference": {"matchExpressions": list(expressions)}}

    ssd = {"key": "disk", "operator": "In", "values": ["ssd"]}
    either = {"key": "disk", "operator": "NotIn", "values": ["tape"]}
    wishes = [prefer(2, ssd), prefer(1, either), prefer(50)]
    found = totals(
        world, cpu="0", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}
    )
    assert [(found[name] - found["c"]) // 2 for name in "abc"] == [100, 33, 0]


@pytest.mark.parametrize(
    ("size_mi", "images", "wanted"),
    [
        (23, ["big:1"], 0),
        (65, ["big:1"], 0),  # (32.5 - 23) / (1000 - 23): not yet a hundredth
        (1000, ["big:1"], 48),  # of half of the nodes: (500 - 23) / (1000 - 23)
        (2000, ["big:1"], 100),
        (4000, ["big:1"], 100),
        (2000, ["big:1", "none"], 49),  # (1000 - 23) / (2000 - 23)
        (2000, ["big:1", "big:1"], 100),
    ],
)
def test_an_image_counts_by_its_size_and_by_the_share_of_nodes_that_hold_it(size_mi, images, wanted):
    world = World()
    for name in "ab":
        world.node(name)
    held = world.cluster.nodes["a"].obj
    held = {
        **held,
        "status": {**held["status"], "images": [{"names": ["big:1"], "sizeBytes": size_mi << 20}]},
    }
    world.cluster.set_node(held)
    found = totals(world, containers=[{"name": f"c{at}", "image": image} for at, image in enumerate(images)])
    assert found["a"] - found["b"] == wanted


def test_image_spread_is_recounted_for_a_node_when_it_is_observed():
    world = World()
    cluster, images = world.cluster, world.cluster.images

    def counts():
        return [sorted(count for _, count in cluster.nodes[name].images.values()) for name in "abc"]

    for name in "abc":
        world.node(name)
    assert images.settled and counts() == [[], [], []]
    for name, held in (("a", ("x:1",)), ("b", ("x:1", "y:1"))):
        node = cluster.nodes[name].obj
        listed = [{"names": [image], "sizeBytes": 1 << 30} for image in held]
        cluster.set_node({**node, "status": {**node["status"], "images": listed}})
    assert not images.settled and counts() == [[1], [1, 2], []]
    cluster.observe("c")
    cluster.observe("b")
    assert not images.settled
    facts, logged = cluster.nodes["a"].facts, cluster.changes.end
    cluster.observe("a")
    assert images.settled and counts() == [[2], [1, 2], []]
    # classes look at it again
    assert cluster.nodes["a"].facts is not facts and cluster.changes.end == logged + 1
    cluster.delete_node("b")
    assert not images.settled and cluster.nodes["a"].images["x:1"][1] == 2
    cluster.observe("a")
    assert images.settled and cluster.nodes["a"].images["x:1"][1] == 1


def test_what_asks_for_no_memory_counts_as_two_hundred_mebibytes():
    world = World()
    world.node("a", cpu="4")
    idle = {"containers": containers({"cpu": "0"})}
    for _ in range(8):
        world.put("a", **idle)
    # 9 * 200 of 8192 MiB leave 78.03 %
    assert score(world, "a", **idle) == (78 + 100) // 2 + 100
    world.put("a", containers=containers({"cpu": "0", "memory": "3Mi"}))
    assert score(world, "a", **idle) == (77 + 100) // 2 + 99


def test_what_running_pods_require_of_their_company_draws_like_a_wish_of_weight_one():
    world = World()
    for name in "ab":
        world.node(name, cpu="4")
    term = {"topologyKey": N.label_hostname, "labelSelector": {"matchLabels": {"app": "web"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.put("a", cpu="0", app="web", affinity=near)
    world.put("b", cpu="0", app="web")
    found = totals(world, cpu="0", app="web")
    assert found["a"] - found["b"] == 2 * 100


def test_soft_spread_weighs_counts_by_the_logarithm_of_the_number_of_domains():
    world = World()
    for name, zone in (("a", "x"), ("b", "y"), ("c", "z")):
        world.node(name, cpu="64", zone=zone)
    for name, count in (("a", 3), ("b", 1)):
        for _ in range(count):
            world.put(name, cpu="0", app="web")
        for _ in range(4 - count):
            world.put(name, cpu="0", app="other")
    for _ in range(4):
        world.put("c", cpu="0", app="other")
    constraint = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}
    constraint["labelSelector"] = {"matchLabels": {"app": "web"}}
    found = totals(world, cpu="0", app="web", topologySpreadConstraints=[constraint])
    # ln 5 = 1.609: 3 * 1.609 + 1 = 5.83, 1.609 + 1 = 2.61, 1: 6, 3, 1; scores 100 * (6 + 1 - s) //
    # 6
    assert [(found[name] - found["a"]) // 2 for name in "abc"] == [0, 66 - 16, 100 - 16]


@pytest.mark.parametrize(
    ("address", "protocol", "free"),
    [("", "TCP", False), ("10.0.0.2", "TCP", True), ("10.0.0.1", "TCP", False), ("", "UDP", True)],
)
def test_a_port_of_all_addresses_meets_that_of_any(address, protocol, free):
    world = World()
    world.node("a")

    def with_port(address, protocol):
        port = {"hostPort": 80, "hostIP": address, "protocol": protocol}
        return {"containers": [{"name": "c", "image": "i", "ports": [port]}]}

    world.put("a", **with_port("10.0.0.1", "TCP"))
    assert isinstance(world.place(**with_port(address, protocol)), Placed) is free
