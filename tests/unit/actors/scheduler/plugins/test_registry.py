"""The profile, what it refuses, added plugins, and the parts that all plugins share."""

import pytest

from actors.scheduler.plugins import ClusterEvent, PluginError, SchedulerPlugin, Status
from actors.scheduler.plugins.added import AddedPlugin
from actors.scheduler.plugins.base import NodeView, Plugin, VolumePlugin, shares
from actors.scheduler.plugins.registry import Profile, check_added
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.scheduling.profiles import ProfileSpec
from tests.unit.actors.scheduler.test_attempt import World, names_node

N = NAMES["orch"]


def a_plugin(**attributes):
    return type("Mine", (SchedulerPlugin,), {"name": "Mine", **attributes})()


@pytest.mark.parametrize(
    ("plugins", "problem"),
    [
        (3, "3 is not a list"),
        ([3], "3 is not a scheduler plugin"),
        ([a_plugin(name="")], "Mine has no name"),
        ([a_plugin(name=3)], "Mine has no name"),
        ([a_plugin(name="NodePorts")], "the name 'NodePorts' of Mine is in use"),
        ([a_plugin(name="VolumeZone")], "the name 'VolumeZone' of Mine is in use"),
        ([a_plugin(), a_plugin()], "the name 'Mine' of Mine is in use"),
        ([a_plugin(weight=0)], "the weight of Mine is 0"),
        ([a_plugin(weight=True)], "the weight of Mine is True"),
        ([a_plugin(weight=1.5)], "the weight of Mine is 1.5"),
        ([a_plugin(events="all")], "the events of Mine are 'all'"),
    ],
)
def test_wrong_plugins_are_refused_with_the_reason(plugins, problem):
    with pytest.raises(InputError, match=problem):
        check_added(plugins)


def test_right_plugins_are_taken_in_their_order():
    one, two = a_plugin(weight=1), a_plugin(name="Two", weight=2, events=ClusterEvent(0))
    assert check_added([one, two]) == (one, two)
    assert check_added(each for each in (two,)) == (two,)


def test_a_profile_groups_plugins_by_what_they_read_and_how_they_score():
    profile = Profile(World().cluster, [a_plugin(events=ClusterEvent.NODE)])
    assert [plugin.name for plugin in profile.normalized] == ["TaintToleration", "NodeAffinity"]
    assert [plugin.name for plugin in profile.absolute] == ["ImageLocality"]
    assert profile.events["Mine"] is ClusterEvent.NODE
    assert profile.events["NodeVolumeLimits"] == ClusterEvent.CSI_NODE_ADD | ClusterEvent.POD_DELETE
    assert list(profile.events) == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
        "VolumeRestrictions",
        "EBSLimits",
        "GCEPDLimits",
        "NodeVolumeLimits",
        "AzureDiskLimits",
        "VolumeBinding",
        "VolumeZone",
        "Mine",
    ]


HARD = {"key": "hard", "value": "v", "effect": "NoSchedule"}
EVICTS = {"key": "evicts", "value": "v", "effect": "NoExecute"}
ALL = [{"key": "hard", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("taints", "spec", "node_filter", "room_filter", "helps"),
    [
        ([], {}, None, None, True),
        ([], {"cpu": "3"}, None, "NodeResourcesFit", False),
        ([], {"ports": (80,)}, None, "NodePorts", False),
        ([], {"affinity": names_node("b")}, "NodeAffinity", None, False),
        ([HARD], {}, "TaintToleration", None, False),
        ([HARD], {"tolerations": ALL}, None, None, True),
        # a taint that would evict the pod does not keep it waiting
        ([EVICTS], {}, "TaintToleration", None, True),
        ([EVICTS, HARD], {}, "TaintToleration", None, False),
        ([HARD, EVICTS], {"tolerations": ALL}, "TaintToleration", None, True),
    ],
)
def test_filters_apply_in_order_and_some_say_whether_a_try_may_help(
    taints, spec, node_filter, room_filter, helps
):
    world = World()
    world.node("a", taints=taints)
    world.put("a", cpu="0", ports=(80,))
    profile, node = Profile(world.cluster), world.cluster.nodes["a"]
    template = world.cluster.templates.info(world.pod(**spec)).template
    statuses = [profile.filter_node(template, node), profile.filter_room(template, node)]
    assert [status and status.plugin for status in statuses] == [node_filter, room_filter]
    assert profile.may_help(template, node) is helps


@pytest.mark.parametrize(
    ("applied", "refusals"),
    [("TaintToleration", ["TaintToleration", None]), ("NodeResourcesFit", [None, "NodeResourcesFit"])],
)
def test_only_the_filters_of_the_profile_apply(applied, refusals):
    world = World()
    world.node("a", taints=[HARD])
    node, template = world.cluster.nodes["a"], world.cluster.templates.info(world.pod(cpu="9")).template
    profile = Profile(world.cluster, spec=ProfileSpec(filters=frozenset((applied,))))
    statuses = [profile.filter_node(template, node), profile.filter_room(template, node)]
    assert [status and status.plugin for status in statuses] == refusals


def test_room_scores_are_weighed_and_summed():
    world = World()
    world.node("a", cpu="4")
    profile, node = Profile(world.cluster), world.cluster.nodes["a"]
    pod = world.pod(cpu="1")
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = "2Gi"
    assert profile.score_room(world.cluster.templates.info(pod).template, node) == 175


@pytest.mark.parametrize(
    ("scores", "reverse", "wanted"),
    [
        ([], False, []),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([1, 2, 3], False, [33, 66, 100]),
        ([1, 2, 3], True, [67, 34, 0]),
        ([1], False, [100]),
        ([1], True, [0]),
        ([-4, 0], False, [-4, 0]),
        ([-1, 1], False, [-100, 100]),
    ],
)
def test_shares_are_of_the_greatest(scores, reverse, wanted):
    assert shares(scores, reverse) == wanted


def test_shares_are_upright_by_default():
    assert shares([1, 2]) == [50, 100]


def test_a_plugin_that_says_nothing_refuses_none_and_prefers_none():
    plugin = Plugin()
    assert plugin.filter(None, None) is None
    assert plugin.score(None, None) == 0
    assert plugin.scores(None, [1, 2]) == [0, 0]
    assert VolumePlugin().pre_filter(None) is None
    assert not VolumePlugin().gates
    assert plugin.refuse("why") == Status("", ("why",), False)
    assert plugin.refuse("why", unresolvable=True) == Status("", ("why",), True)


def test_final_scores_are_normal_unless_they_are_absolute():
    assert a_plugin().final_scores([1, 2]) == [50, 100]
    assert a_plugin(absolute_scores=True).final_scores([1, 2]) == [1, 2]


def test_a_plugin_sees_the_objects_of_a_node_and_of_its_pods():
    world = World()
    world.node("a", disk="ssd")
    world.put("a", app="web")
    view = NodeView(world.cluster.nodes["a"])
    assert (view.name, view.labels["disk"]) == ("a", "ssd")
    assert view.obj["metadata"]["name"] == "a"
    assert [pod["metadata"]["labels"]["app"] for pod in view.pods] == ["web"]
    pod = {"metadata": {"namespace": "n", "name": "p", "uid": "u", "resourceVersion": "7"}}
    assert a_plugin().pod_key(pod) == ("n", "p", "u", "7")


def added(world, **attributes):
    made = {name: staticmethod(value) if callable(value) else value for name, value in attributes.items()}
    return AddedPlugin(a_plugin(**made)), world.cluster.templates.info(world.pod()), world.cluster.nodes["a"]


@pytest.fixture
def world():
    made = World()
    made.node("a")
    return made


@pytest.mark.parametrize("status", [None, Status("Mine", ("why",)), Status("Mine", ("a", "b"), True)])
def test_the_status_of_an_added_plugin_is_handed_on(world, status):
    plugin, pod, node = added(world, filter=lambda pod, node: status)
    assert plugin.filter(pod, node) is status


@pytest.mark.parametrize(
    "status",
    [
        True,
        ("Mine", ("why",), False),
        Status("Other", ("why",)),
        Status("Mine", ()),
        Status("Mine", ["why"]),
        Status("Mine", "why"),
        Status("Mine", ("why", 3)),
    ],
)
def test_a_wrong_status_of_an_added_plugin_names_it(world, status):
    plugin, pod, node = added(world, filter=lambda pod, node: status)
    with pytest.raises(PluginError, match=r"scheduler plugin Mine: filter of default/p1 on a returned"):
        plugin.filter(pod, node)


def test_scores_of_added_plugins_are_whole_numbers(world):
    plugin, pod, node = added(world, score=lambda pod, node: 7)
    assert plugin.score(pod, node) == 7
    plugin, pod, node = added(world, score=lambda pod, node: 7.0)
    with pytest.raises(PluginError, match=r"Mine: score of default/p2 on a returned 7.0"):
        plugin.score(pod, node)


@pytest.mark.parametrize("final", [[0, 100], [50, 50]])
def test_final_scores_of_added_plugins_are_handed_on(world, final):
    plugin, _, _ = added(world, normalize=lambda scores: final)
    assert plugin.final_scores([1, 2]) == final


@pytest.mark.parametrize("final", [[-1, 5], [5, -1], [101, 5], [5, 101], [5.0, 5], [5], [5, 5, 5], [None, 5]])
def test_final_scores_outside_of_their_limits_are_refused(world, final):
    plugin, _, _ = added(world, normalize=lambda scores: final)
    with pytest.raises(PluginError, match="as many whole numbers from 0 to 100"):
        plugin.final_scores([1, 2])


def test_a_key_that_cannot_be_hashed_is_refused(world):
    plugin, pod, _ = added(world, pod_key=lambda pod: "k")
    assert plugin.pod_key(pod) == "k"
    plugin, pod, _ = added(world, pod_key=lambda pod: [])
    with pytest.raises(PluginError, match="pod_key of default/p2 raised TypeError"):
        plugin.pod_key(pod)
