"""The plugins that read the pods of other nodes: affinity to pods and spread, at their borders."""

import math

import pytest

from actors.scheduler.plugins.inter_pod_affinity import AFFINITY, ANTI_AFFINITY, EXISTING, InterPodAffinity
from actors.scheduler.plugins.pod_topology_spread import (
    NO_KEY,
    SKEW,
    PodTopologySpread,
    domain_weight,
    least_count,
    rounded,
)
from actors.scheduler.pods import Spread
from sim.ident import NAMES
from tests.unit.actors.scheduler.test_attempt import World

N = NAMES["orch"]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(app, key="zone"):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def near(*terms):
    return {"podAffinity": {REQUIRED: list(terms)}}


def far(*terms):
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def wish(weight, app, kind="podAffinity", key="zone"):
    return {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term(app, key)}]}}


def zones(**of_nodes):
    """Nodes a, b, ... with the label `zone`; None leaves it out."""
    world = World()
    for name, zone in of_nodes.items():
        world.node(name, **({} if zone is None else {"zone": zone}))
    return world


def template_of(world, **spec):
    return world.cluster.templates.info(world.pod(**spec)).template


def filtered(world, plugin, **spec):
    """The status of each node for a pod, by the node's name."""
    template, made = template_of(world, **spec), plugin(world.cluster)
    return {name: made.filter(template, node) for name, node in world.cluster.nodes.items()}


@pytest.mark.parametrize(
    ("affinity", "wanted"),
    [
        ({}, [None, None, None, None]),
        (near(term("web")), [None, None, AFFINITY, AFFINITY]),
        (near(term("web", N.label_hostname)), [None, AFFINITY, AFFINITY, AFFINITY]),
        # each of the terms, by pods that match all of them
        (near(term("web"), term("web", N.label_hostname)), [None, AFFINITY, AFFINITY, AFFINITY]),
        (near(term("web"), term("db")), [AFFINITY] * 4),
        (far(term("web")), [ANTI_AFFINITY, ANTI_AFFINITY, None, None]),
        (far(term("web", N.label_hostname)), [ANTI_AFFINITY, None, None, None]),
        (far(term("none"), term("db")), [None, None, ANTI_AFFINITY, None]),
    ],
)
def test_required_terms_compare_the_topology_values_of_pods_that_match(affinity, wanted):
    world = zones(a="x", b="x", c="y", d=None)
    world.put("a", app="web")
    world.put("c", app="db")
    world.put("d", app="db")
    assert list(filtered(world, InterPodAffinity, affinity=affinity).values()) == wanted


@pytest.mark.parametrize(
    ("app", "others", "wanted"),
    [
        # the first of a group that wants its own members goes anywhere with the label
        ("web", [], [None, None, AFFINITY]),
        ("web", [("a", "db")], [None, None, AFFINITY]),
        ("web", [("b", "web")], [AFFINITY, None, AFFINITY]),
        # of no use that a member runs where no node has the label: it counts for no domain
        ("web", [("c", "web")], [None, None, AFFINITY]),
        ("db", [], [AFFINITY, AFFINITY, AFFINITY]),
    ],
)
def test_the_first_pod_of_a_group_may_go_to_any_node_with_the_label(app, others, wanted):
    world = zones(a="x", b="y", c=None)
    for node, each in others:
        world.put(node, app=each)
    found = filtered(world, InterPodAffinity, app=app, affinity=near(term("web")))
    assert list(found.values()) == wanted


def test_the_first_of_a_group_must_match_all_of_its_own_terms():
    world = zones(a="x")
    both = near(term("web"), term("db"))
    assert filtered(world, InterPodAffinity, app="web", affinity=both) == {"a": AFFINITY}


def test_running_pods_keep_those_away_that_their_terms_match():
    world = zones(a="x", b="x", c="y", d=None)
    world.put("a", app="db", affinity=far(term("web")))
    assert list(filtered(world, InterPodAffinity, app="web").values()) == [EXISTING, EXISTING, None, None]
    assert list(filtered(world, InterPodAffinity, app="db").values()) == [None] * 4


def affinity_scores(world, **spec):
    template, plugin = template_of(world, **spec), InterPodAffinity(world.cluster)
    return [plugin.score(template, node) for node in world.cluster.nodes.values()]


@pytest.mark.parametrize(
    ("affinity", "wanted"),
    [
        (wish(5, "web"), [10, 10, 5, 0]),  # for each pod that matches
        (wish(5, "web", "podAntiAffinity"), [-10, -10, -5, 0]),
        (wish(5, "none"), [0, 0, 0, 0]),
    ],
)
def test_wishes_count_each_pod_in_the_same_domain(affinity, wanted):
    world = zones(a="x", b="x", c="y", d=None)
    for node in "aac":
        world.put(node, app="web")
    assert affinity_scores(world, affinity=affinity) == wanted


def test_wishes_and_needs_of_running_pods_draw_those_that_they_match():
    world = zones(a="x", b="x", c="y")
    world.put("a", app="db", affinity={**wish(7, "web"), **wish(2, "web", "podAntiAffinity")})
    world.put("c", app="db", affinity=near(term("web")))
    world.put("c", app="db", affinity=near(term("db")))
    assert affinity_scores(world, app="web") == [5, 5, 1]
    assert affinity_scores(world, app="other") == [0, 0, 0]


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [([3, 3], [0, 0]), ([-5, 0, 5], [0, 50, 100]), ([2, 4, 5], [0, 66, 100]), ([1], [0])],
)
def test_affinity_scores_stretch_from_the_least_to_the_greatest(scores, wanted):
    assert InterPodAffinity(World().cluster).normalize(scores) == wanted


def spread(skew=1, key="zone", action="DoNotSchedule", app="web", **more):
    chosen = {"labelSelector": {"matchLabels": {"app": app}}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action, **chosen, **more}


@pytest.mark.parametrize(
    ("skew", "app", "wanted"),
    [
        # two in x, one in y, none in z
        (1, "web", [SKEW, SKEW, SKEW, None, NO_KEY]),
        (2, "web", [SKEW, SKEW, None, None, NO_KEY]),
        (3, "web", [None, None, None, None, NO_KEY]),
        # a pod that its own selector does not match adds none
        (1, "other", [SKEW, SKEW, None, None, NO_KEY]),
        (2, "other", [None, None, None, None, NO_KEY]),
    ],
)
def test_a_hard_constraint_limits_what_a_domain_has_more_than_the_least(skew, app, wanted):
    world = zones(a="x", b="x", c="y", d="z", e=None)
    for node in "abce":
        world.put(node, app="web")
    world.put("d", app="other")
    found = filtered(world, PodTopologySpread, app=app, topologySpreadConstraints=[spread(skew)])
    assert list(found.values()) == wanted


def test_domains_are_nodes_with_all_keys_and_pods_of_the_same_namespace_that_stay():
    world = zones(a="x", b="y")
    world.node("c", zone="z", rack="1")
    world.node("d", zone="w", rack="1")
    other = world.pod(nodeName="c", app="web")
    other["metadata"]["namespace"] = "other"
    leaving = world.pod(nodeName="d", app="web")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for pod in (other, leaving):
        world.cluster.set_pod(world.cluster.templates.info(pod))
    world.put("c", app="web")
    both = [spread(), spread(9, "rack")]
    found = filtered(world, PodTopologySpread, app="web", topologySpreadConstraints=both)
    # a and b have no rack: refused, and no domains with a count of 0
    assert found == {"a": NO_KEY, "b": NO_KEY, "c": SKEW, "d": None}


def test_nodes_that_the_pod_does_not_select_are_no_domains():
    world = zones(a="x", b="y")
    world.node("c", zone="z", disk="ssd")
    world.put("c", app="web")
    one = [spread()]
    alone = filtered(
        world, PodTopologySpread, app="web", nodeSelector={"disk": "ssd"}, topologySpreadConstraints=one
    )
    assert alone["c"] is None
    assert filtered(world, PodTopologySpread, app="web", topologySpreadConstraints=one)["c"] == SKEW


@pytest.mark.parametrize(("tolerated", "any_node", "wanted"), [(False, False, SKEW), (True, False, None)])
def test_tainted_nodes_are_domains_unless_taints_are_honoured(tolerated, any_node, wanted):
    world = zones(a="x")
    mine = {"key": "k", "effect": "NoSchedule"}
    world.node("b", zone="y", taints=[mine, {"key": "other", "effect": "NoSchedule"}])
    world.put("a", app="web")
    template = template_of(world, app="web", tolerations=[{"key": "k", "operator": "Exists"}])
    template.hard = (Spread("zone", 1, (("app", "In", ("web",)),), 0, any_node, tolerated),)
    assert PodTopologySpread(world.cluster).filter(template, world.cluster.nodes["a"]) == wanted


def test_nodes_left_out_by_affinity_are_domains_if_that_is_ignored():
    world = zones(a="x", b="y")
    world.put("a", app="web")
    template = template_of(world, app="web", nodeSelector={"zone": "x"})
    need = (("app", "In", ("web",)),)
    found = []
    for any_node in (False, True):
        template.hard = (Spread("zone", 1, need, 0, any_node),)
        found.append(PodTopologySpread(world.cluster).filter(template, world.cluster.nodes["a"]))
    assert found == [None, SKEW]


@pytest.mark.parametrize(
    ("counts", "min_domains", "wanted"),
    [([3, 2], 0, 2), ([3, 2], 2, 2), ([3, 2], 3, 0), ([], 0, (1 << 31) - 1), ([], 1, 0)],
)
def test_the_least_count_is_zero_with_too_few_domains(counts, min_domains, wanted):
    assert least_count(counts, Spread("zone", 1, (), min_domains)) == wanted


def test_spread_weighs_by_the_logarithm_and_rounds_half_up():
    assert domain_weight(1) == math.log(3)
    assert [rounded(score) for score in (0.0, 0.49, 0.5, 1.5, 2.2)] == [0, 0, 1, 2, 2]


def spread_scores(world, **spec):
    template, plugin = template_of(world, **spec), PodTopologySpread(world.cluster)
    return plugin.scores(template, list(world.cluster.nodes.values()))


def test_soft_constraints_score_by_sums_and_ignore_nodes_without_a_key():
    world = zones(a="x", b="y", c=None)
    for node in "aaab":
        world.put(node, app="web")
    soft = [spread(2, action="ScheduleAnyway")]
    # ln 4 = 1.386, and one for the skew: 5.16 and 2.39; 100 * (5 + 2 - s) // 5
    assert spread_scores(world, app="web", topologySpreadConstraints=soft) == [40, 100, 0]


def test_soft_constraints_by_host_count_the_pods_of_the_node_alone():
    world = zones(a="x", b="x", c="x")
    for node in "aab":
        world.put(node, app="web")
    soft = [spread(1, N.label_hostname, "ScheduleAnyway")]
    # ln 5 = 1.609: 3.2, 1.6, 0: 3, 2, 0
    assert spread_scores(world, app="web", topologySpreadConstraints=soft) == [0, 33, 100]


def test_domains_of_soft_constraints_are_counted_among_the_scored_nodes():
    world = zones(a="x", b="x", c=None)
    world.put("a", app="web")
    world.put("b", app="web")
    world.put("b", app="web")
    soft = [spread(1, action="ScheduleAnyway"), spread(1, N.label_hostname, "ScheduleAnyway")]
    # zone: 3 * ln 3; host: ln 4 and 2 * ln 4: 4.68 and 6.07: 5 and 6
    assert spread_scores(world, app="web", topologySpreadConstraints=soft) == [100, 83, 0]


def test_pods_without_constraints_spread_by_service_over_hosts_and_zones():
    world = World()
    for name, zone in (("a", "x"), ("b", "x"), ("c", None)):
        world.node(name, **({N.label_zone: zone} if zone else {}))
    world.put("a", app="web")
    assert spread_scores(world, app="web") == [100, 100, 100]  # no service selects it
    service = {"metadata": {"namespace": "default", "name": "s"}, "spec": {"selector": {"app": "web"}}}
    world.cluster.set_service("default", "s", service)
    # host: ln 5 + 2, 2, 2; zone (with a node that has none: two): ln 4 + 4 for a and b, 0 for c
    assert spread_scores(world, app="web") == [22, 44, 100]
    hard = [spread(9, "zone")]
    assert spread_scores(world, app="web", topologySpreadConstraints=hard) == [100, 100, 100]


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([], []),
        ([0, 0], [100, 100]),
        ([-1, 0], [0, 100]),
        ([-1, -1], [0, 0]),
        ([4, 4], [100, 100]),
        ([1, 4, -1], [100, 25, 0]),
        ([3, 1, 2], [33, 100, 66]),
    ],
)
def test_the_lowest_sum_gets_the_highest_score(scores, wanted):
    assert PodTopologySpread(World().cluster).normalize(scores) == wanted
