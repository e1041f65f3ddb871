"""The plugins that read one node: ports, room, taints and images, one by one at their borders."""

import pytest

from actors.scheduler.match import named_nodes
from actors.scheduler.plugins.image_locality import ImageLocality
from actors.scheduler.plugins.node_affinity import ENFORCED, NODE_AFFINITY, NodeAffinity
from actors.scheduler.plugins.node_ports import NodePorts
from actors.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from actors.scheduler.plugins.node_resources_fit import NodeResourcesFit
from actors.scheduler.plugins.node_unschedulable import NodeUnschedulable
from actors.scheduler.plugins.taint_toleration import TaintToleration
from sim.api.scheduling import NodeTerm
from sim.ident import NAMES
from sim.options.scheduling.profiles import LEAST, MOST, RATIO, Fit, ProfileSpec
from tests.unit.actors.scheduler.test_attempt import World

N = NAMES["orch"]


def a_node(world, name="a", taints=(), unschedulable=False, images=(), **allocatable):
    have = {"cpu": "4", "memory": "1000", "ephemeral-storage": "1000", "pods": "10"} | allocatable
    obj = {
        "metadata": {"name": name, "labels": {}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {
            "allocatable": have,
            "images": [{"names": [image], "sizeBytes": size} for image, size in images],
        },
    }
    world.cluster.set_node(obj)
    return world.cluster.nodes[name]


def with_taken(world, taken, **allocatable):
    """A node on which a pod has asked for these amounts."""
    node = a_node(world, **allocatable)
    pod = world.pod(nodeName="a")
    pod["spec"]["containers"][0]["resources"]["requests"] = taken
    world.cluster.set_pod(world.cluster.templates.info(pod))
    return node


def template_of(world, requests=None, images=("i",), **spec):
    pod = world.pod(**spec)
    if requests is not None:
        pod["spec"]["containers"] = [
            {"name": image, "image": image, "resources": {"requests": requests}} for image in images
        ]
    return world.cluster.templates.info(pod).template


def with_ports(*ports):
    listed = [
        {"hostIP": address, "protocol": protocol, "hostPort": port} for address, protocol, port in ports
    ]
    return {"containers": [{"name": "c", "image": "i", "ports": listed}]}


@pytest.mark.parametrize(
    ("taken", "wanted", "is_free"),
    [
        ([], [("", "TCP", 80)], True),
        ([("", "TCP", 80)], [], True),
        ([("", "TCP", 80)], [("", "TCP", 80)], False),
        ([("", "TCP", 80)], [("", "TCP", 81)], True),
        ([("", "TCP", 80)], [("", "UDP", 80)], True),
        ([("", "TCP", 80)], [("10.0.0.1", "TCP", 80)], False),
        ([("10.0.0.1", "TCP", 80)], [("10.0.0.1", "TCP", 80)], False),
        ([("10.0.0.1", "TCP", 80)], [("10.0.0.2", "TCP", 80)], True),
        ([("10.0.0.1", "TCP", 80)], [("", "TCP", 80)], False),
        ([("10.0.0.1", "TCP", 80)], [("", "TCP", 81)], True),
        ([("10.0.0.1", "TCP", 80)], [("", "UDP", 80)], True),
        # one of several is enough, on either side
        ([("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 90)], [("", "TCP", 90)], False),
        ([("", "TCP", 80)], [("", "TCP", 70), ("", "TCP", 80)], False),
    ],
)
def test_a_host_port_is_taken_by_address_protocol_and_number(taken, wanted, is_free):
    world = World()
    node = a_node(world)
    world.put("a", **with_ports(*taken))
    status = NodePorts(world.cluster).filter(template_of(world, **with_ports(*wanted)), node)
    assert (status is None) is is_free


@pytest.mark.parametrize(
    ("taken", "wanted", "missing"),
    [
        ({}, {"cpu": "4", "memory": "1000", "ephemeral-storage": "1000", "x.io/gpu": "2"}, ()),
        ({}, {"cpu": "4001m"}, ("Insufficient cpu",)),
        ({}, {"memory": "1001"}, ("Insufficient memory",)),
        ({}, {"ephemeral-storage": "1001"}, ("Insufficient ephemeral-storage",)),
        ({}, {"x.io/gpu": "3"}, ("Insufficient x.io/gpu",)),
        ({}, {"x.io/none": "1"}, ("Insufficient x.io/none",)),
        ({"cpu": "1"}, {"cpu": "3"}, ()),
        ({"cpu": "1"}, {"cpu": "3001m"}, ("Insufficient cpu",)),
        ({"memory": "400"}, {"memory": "600"}, ()),
        ({"memory": "400"}, {"memory": "601"}, ("Insufficient memory",)),
        ({"ephemeral-storage": "400"}, {"ephemeral-storage": "600"}, ()),
        ({"ephemeral-storage": "400"}, {"ephemeral-storage": "601"}, ("Insufficient ephemeral-storage",)),
        ({"x.io/gpu": "1"}, {"x.io/gpu": "1"}, ()),
        ({"x.io/gpu": "1"}, {"x.io/gpu": "2"}, ("Insufficient x.io/gpu",)),
        (
            {"cpu": "4"},
            {"cpu": "1", "memory": "2000", "x.io/gpu": "3"},
            ("Insufficient cpu", "Insufficient memory", "Insufficient x.io/gpu"),
        ),
        # a node that is overbooked refuses no pod that asks for nothing
        ({"cpu": "5"}, {}, ()),
        ({"cpu": "5"}, {"memory": "1"}, ("Insufficient cpu",)),
    ],
)
def test_each_amount_must_fit_what_is_left_of_it(taken, wanted, missing):
    world = World()
    node = a_node(world, **{"x.io/gpu": "2"})
    if taken:
        pod = world.pod(nodeName="a")
        pod["spec"]["containers"][0]["resources"]["requests"] = taken
        world.cluster.set_pod(world.cluster.templates.info(pod))
    status = NodeResourcesFit(world.cluster).filter(template_of(world, wanted), node)
    assert (() if status is None else status.reasons) == missing


@pytest.mark.parametrize(
    ("ignored", "missing"),
    [
        ({}, ("Insufficient x.io/a", "Insufficient x.io/b", "Insufficient y.io/a")),
        ({"ignored": frozenset(("x.io/a",))}, ("Insufficient x.io/b", "Insufficient y.io/a")),
        ({"ignored_groups": frozenset(("x.io",))}, ("Insufficient y.io/a",)),
    ],
)
def test_resources_are_ignored_by_their_names_and_by_their_groups(ignored, missing):
    world = World()
    node = a_node(world)
    plugin = NodeResourcesFit(world.cluster, ProfileSpec(fit=Fit(**ignored)))
    status = plugin.filter(template_of(world, {"x.io/a": "1", "x.io/b": "1", "y.io/a": "1"}), node)
    assert status.reasons == missing


@pytest.mark.parametrize(("present", "reasons"), [(0, None), (1, None), (2, ("Too many pods",))])
def test_a_node_takes_as_many_pods_as_it_allows(present, reasons):
    world = World()
    node = a_node(world, pods="2")
    for _ in range(present):
        world.put("a", cpu="0")
    status = NodeResourcesFit(world.cluster).filter(template_of(world, {}), node)
    assert (status and status.reasons) == reasons


@pytest.mark.parametrize(
    ("have", "wanted", "score"),
    [
        ({}, {"cpu": "1", "memory": "500"}, (75 + 50) // 2),
        ({}, {"cpu": "4", "memory": "1000"}, 0),
        ({}, {"cpu": "5", "memory": "500"}, 50 // 2),  # not less than nothing
        ({}, {"cpu": "3990m", "memory": "990"}, (0 + 1) // 2),
        ({}, {"cpu": "3960m", "memory": "990"}, 1),
        ({"cpu": "0"}, {"cpu": "1", "memory": "500"}, 50),  # of what the node has
        ({"memory": "0"}, {"cpu": "1", "memory": "500"}, 75),
        ({"cpu": "0", "memory": "0"}, {"cpu": "1"}, 0),
    ],
)
def test_the_share_that_stays_free_is_the_mean_of_what_the_node_has(have, wanted, score):
    world = World()
    node = a_node(world, **have)
    assert NodeResourcesFit(world.cluster).score(template_of(world, wanted), node) == score


@pytest.mark.parametrize(
    ("have", "taken", "wanted", "score"),
    [
        ({}, {}, {"cpu": "2", "memory": "500"}, 100),
        ({}, {}, {"cpu": "2", "memory": "250"}, 87),  # half of 25 off
        ({}, {}, {"cpu": "1", "memory": "500"}, 87),  # in either direction
        ({}, {"cpu": "1"}, {"cpu": "1", "memory": "500"}, 100),
        ({}, {"memory": "250"}, {"cpu": "1", "memory": "500"}, 75),
        ({}, {}, {"cpu": "9", "memory": "500"}, 75),  # more than all is all
        ({}, {}, {"cpu": "2", "memory": "9000"}, 75),
        ({"cpu": "0"}, {}, {"cpu": "1", "memory": "500"}, 100),
        ({"memory": "0"}, {}, {"cpu": "1", "memory": "500"}, 100),
    ],
)
def test_balance_is_lost_by_half_the_difference_of_the_used_shares(have, taken, wanted, score):
    world = World()
    node = with_taken(world, taken, **have)
    assert NodeResourcesBalancedAllocation(world.cluster).score(template_of(world, wanted), node) == score


@pytest.mark.parametrize(
    ("resources", "wanted", "score"),
    [
        (("cpu",), {"cpu": "2"}, 100),
        (("cpu", "ephemeral-storage"), {"cpu": "2", "ephemeral-storage": "100"}, 80),  # 50 and 10
        (("ephemeral-storage", "cpu"), {"cpu": "2", "ephemeral-storage": "100"}, 80),
        # of 50, 10 and 30: the root of the mean of 400, 400 and 0
        (
            ("cpu", "memory", "ephemeral-storage"),
            {"cpu": "2", "memory": "100", "ephemeral-storage": "300"},
            83,
        ),
        (("cpu", "memory", "x.io/gpu"), {"cpu": "2", "memory": "500"}, 100),  # not asked for
        (("cpu", "x.io/none"), {"cpu": "2", "x.io/none": "1"}, 100),  # the node has none
        (("cpu", "x.io/gpu"), {"cpu": "2", "x.io/gpu": "9"}, 75),  # more than all is all
    ],
)
def test_balance_of_listed_resources_is_lost_by_the_deviation_of_their_shares(resources, wanted, score):
    world = World()
    node = a_node(world, **{"x.io/gpu": "4"})
    plugin = NodeResourcesBalancedAllocation(world.cluster, ProfileSpec(balanced=resources))
    assert plugin.score(template_of(world, wanted), node) == score


LINE = ((20, 2), (60, 10), (63, 0), (80, 4))


@pytest.mark.parametrize(
    ("percent", "score"),
    [
        (0, 20),  # before the first point as at it
        (20, 20),
        (40, 60),
        (59, 98),
        (60, 100),
        (61, 67),  # down by 33.3, rounded towards zero
        (62, 34),
        (80, 40),
        (90, 40),  # after the last point as at it
        (110, 40),  # of what a node does not have as at 100
    ],
)
def test_use_between_two_points_of_the_shape_scores_on_the_line_between_them(percent, score):
    world = World()
    node = a_node(world)
    fit = Fit(strategy=RATIO, resources=(("ephemeral-storage", 1),), shape=LINE)
    plugin = NodeResourcesFit(world.cluster, ProfileSpec(fit=fit))
    wanted = {"ephemeral-storage": str(percent * 10)}
    assert plugin.score(template_of(world, wanted), node) == score


@pytest.mark.parametrize(
    ("resource", "score"),
    [("cpu", 75), ("memory", 60), ("ephemeral-storage", 50), ("x.io/gpu", 70)],
)
@pytest.mark.parametrize("strategy", [LEAST, MOST])
def test_use_of_a_listed_resource_is_what_pods_on_the_node_and_the_new_one_ask_for(strategy, resource, score):
    world = World()
    taken = {"cpu": "1", "memory": "100", "ephemeral-storage": "200", "x.io/gpu": "1"}
    node = with_taken(world, taken, **{"x.io/gpu": "10"})
    wanted = {"cpu": "2", "memory": "500", "ephemeral-storage": "300", "x.io/gpu": "6"}
    plugin = NodeResourcesFit(
        world.cluster, ProfileSpec(fit=Fit(strategy=strategy, resources=((resource, 1),)))
    )
    found = plugin.score(template_of(world, wanted), node)
    assert found == (score if strategy == MOST else 100 - score)


def test_overhead_in_whole_cores_counts_a_thousandth_of_itself_for_both_scores():
    world = World()
    node = a_node(world)
    template = template_of(world, {"cpu": "1", "memory": "500"}, overhead={"cpu": "2"})
    assert NodeResourcesFit(world.cluster).score(template, node) == (74 + 50) // 2
    assert NodeResourcesBalancedAllocation(world.cluster).score(template, node) == 87


HARD = {"key": "hard", "value": "v", "effect": "NoSchedule"}
HARDER = {"key": "harder", "effect": "NoExecute"}
MILD = {"key": "mild", "effect": "PreferNoSchedule"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "refusal", "score"),
    [
        ([], [], None, 0),
        ([MILD], [], None, 1),
        ([MILD, HARD, HARDER], [], "hard: v", 1),
        ([HARDER, HARD], [], "harder: ", 0),
        ([HARD, HARDER], [{"key": "hard", "operator": "Exists"}], "harder: ", 0),
        ([HARD, HARDER, MILD], [{"operator": "Exists"}], None, 0),
        ([MILD], [{"key": "mild", "operator": "Exists", "effect": "PreferNoSchedule"}], None, 0),
        ([MILD], [{"key": "mild", "operator": "Exists", "effect": "NoSchedule"}], None, 1),
        ([MILD, {**MILD, "key": "other"}], [{"key": "mild", "operator": "Exists"}], None, 1),
    ],
)
def test_hard_taints_refuse_and_mild_ones_count_unless_tolerated(taints, tolerations, refusal, score):
    world = World()
    node = a_node(world, taints=taints)
    template, plugin = template_of(world, tolerations=tolerations), TaintToleration(world.cluster)
    status = plugin.filter(template, node)
    if refusal is None:
        assert status is None
    else:
        assert status.reasons == (f"node(s) had untolerated taint {{{refusal}}}",)
        assert status.unresolvable
    assert plugin.score(template, node) == score


def test_fewest_mild_taints_score_highest():
    plugin = TaintToleration(World().cluster)
    assert plugin.normalize([0, 1, 2]) == [100, 50, 0]
    assert plugin.normalize([0, 0]) == [100, 100]


@pytest.mark.parametrize(
    ("unschedulable", "tolerations", "is_refused"),
    [
        (False, [], False),
        (True, [], True),
        (True, [{"key": N.taint_unschedulable, "operator": "Exists", "effect": "NoSchedule"}], False),
        (True, [{"key": N.taint_unschedulable, "operator": "Exists", "effect": "NoExecute"}], True),
    ],
)
def test_an_unschedulable_node_takes_pods_that_tolerate_its_taint(unschedulable, tolerations, is_refused):
    world = World()
    node = a_node(world, unschedulable=unschedulable)
    status = NodeUnschedulable(world.cluster).filter(template_of(world, tolerations=tolerations), node)
    assert (status is not None) is is_refused


def wants(disk):
    return {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}


@pytest.mark.parametrize(
    ("added", "own", "status"),
    [
        (None, None, None),
        (None, "ssd", None),
        (None, "hdd", NODE_AFFINITY),
        ("ssd", None, None),
        ("hdd", None, ENFORCED),
        ("ssd", "hdd", NODE_AFFINITY),
        ("hdd", "hdd", ENFORCED),  # that of the profile is looked at first
    ],
)
def test_a_node_must_match_the_affinity_of_the_profile_and_then_that_of_the_pod(added, own, status):
    def required(disk):
        terms = {"nodeSelectorTerms": [wants(disk)]}
        return {"requiredDuringSchedulingIgnoredDuringExecution": terms} if disk else {}

    world = World()
    world.node("a", disk="ssd")
    plugin = NodeAffinity(world.cluster, ProfileSpec(affinity=required(added)))
    template = template_of(world, affinity={"nodeAffinity": required(own)})
    assert plugin.filter(template, world.cluster.nodes["a"]) == status


def test_preferences_of_the_profile_and_of_the_pod_add_up():
    def preferred(*wishes):
        terms = [{"weight": weight, "preference": wants(disk)} for weight, disk in wishes]
        return {"preferredDuringSchedulingIgnoredDuringExecution": terms}

    world = World()
    world.node("a", disk="ssd")
    plugin = NodeAffinity(world.cluster, ProfileSpec(affinity=preferred((3, "ssd"), (40, "hdd"))))
    template = template_of(world, affinity={"nodeAffinity": preferred((5, "ssd"), (60, "hdd"))})
    assert plugin.score(template, world.cluster.nodes["a"]) == 8


MI = 1 << 20


@pytest.mark.parametrize(
    ("held", "asked", "score"),
    [
        ([], ["x"], 0),
        ([("x:latest", 500 * MI)], ["other"], 0),
        ([("x:latest", 46 * MI)], ["x"], 0),  # half of it, for one of two nodes holds it
        ([("x:latest", 66 * MI)], ["x"], 1),  # (33 - 23) / 977
        ([("x:latest", 64 * MI)], ["x"], 0),
        ([("x:latest", 2000 * MI - 2)], ["x"], 99),  # a byte short of the maximum
        ([("x:latest", 2000 * MI)], ["x"], 100),
        ([("x:latest", 9000 * MI)], ["x"], 100),
        ([("x:latest", 1000 * MI), ("y:latest", 1000 * MI)], ["x", "y"], 49),  # (1000 - 23) / 1977
        ([("y:latest", 1000 * MI)], ["x", "y"], 24),  # (500 - 23) / 1977
    ],
)
def test_images_score_by_their_size_over_a_minimum_below_a_maximum(held, asked, score):
    world = World()
    a_node(world, "b")
    node = a_node(world, images=held)
    world.cluster.list_nodes()
    assert ImageLocality(world.cluster).score(template_of(world, {}, asked), node) == score


NAMED = "metadata.name"


@pytest.mark.parametrize(
    ("terms", "nodes"),
    [
        (None, None),
        ((), None),
        ([[(NAMED, "In", ("b",))], [(NAMED, "In", ("a",))]], ("a", "b")),
        ([[(NAMED, "In", ("a", "b")), (NAMED, "In", ("b", "c"))]], ("b",)),
        ([[(NAMED, "In", ("a",)), (NAMED, "In", ("b",))]], ()),
        ([[(NAMED, "In", ("a",))], [(NAMED, "In", ("a",)), (NAMED, "In", ("b",))]], ()),
        ([[(NAMED, "NotIn", ("a",))]], None),
        ([[("other", "In", ("a",))]], None),
        ([[(NAMED, "In", ("a",))], []], None),
        ([[], [(NAMED, "In", ("a",)), (NAMED, "In", ("b",))]], None),
    ],
)
def test_terms_name_the_nodes_that_each_of_their_fields_names(terms, nodes):
    made = terms and tuple(NodeTerm((), tuple(fields)) for fields in terms)
    assert named_nodes(made) == nodes
