"""The incremental search compared with running every plugin on every node."""

import random

import pytest

from actors.scheduler.attempt import Attempts, nodes_wanted
from actors.scheduler.cluster import Cluster
from actors.scheduler.plugins import SchedulerPlugin
from actors.scheduler.plugins.registry import Profile
from actors.scheduler.search.signature import Member
from sim.ident import NAMES
from sim.options.features.gates import OF_SPREAD
from tests.unit.actors.scheduler.naive import Naive

N = NAMES["orch"]
APPS = ("web", "db", "job")


def make_node(draw, index):
    labels = {N.label_hostname: f"n{index}", "disk": draw.choice(("ssd", "hdd"))}
    if draw.random() < 0.9:
        labels[N.label_zone] = draw.choice("abc")
    taints = [
        {"key": "t", "value": "v", "effect": draw.choice(("NoSchedule", "PreferNoSchedule"))}
        for _ in range(draw.random() < 0.25)
    ]
    return {
        "metadata": {"name": f"n{index}", "labels": labels},
        "spec": {"taints": taints, "unschedulable": draw.random() < 0.05},
        "status": {
            "allocatable": {
                "cpu": str(draw.choice((2, 4))),
                "memory": "8Gi",
                "pods": str(draw.choice((4, 20))),
            }
        },
    }


def pod_term(app, key):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def gated(draw, action):
    """Fields of a spread constraint that are there while their gates are on."""
    found = {}
    if draw.random() < 0.4 and action == "DoNotSchedule":
        found["minDomains"] = draw.choice((1, 2, 3, 4))
    for field, values in (
        ("nodeAffinityPolicy", ("Honor", "Ignore")),
        ("nodeTaintsPolicy", ("Honor", "Ignore")),
    ):
        if draw.random() < 0.5:
            found[field] = draw.choice(values)
    if draw.random() < 0.4:
        found["matchLabelKeys"] = draw.choice((["v"], ["v", "w"], ["w"]))
    return found


def make_class(draw, gates=()):
    """A pod without name or node."""
    app = draw.choice(APPS)
    keys = (N.label_zone, N.label_hostname)
    spec = {"containers": [{"name": "c", "image": "i", "resources": {}}]}
    if draw.random() < 0.7:
        requests = {"cpu": draw.choice(("100m", "500m")), "memory": draw.choice(("100Mi", "1Gi"))}
        spec["containers"][0]["resources"] = {"requests": requests}
    if draw.random() < 0.3:
        spec["tolerations"] = [{"key": "t", "operator": "Exists"}]
    if draw.random() < 0.2:
        spec["nodeSelector"] = {"disk": "ssd"}
    affinity = {}
    if draw.random() < 0.3:
        preference = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]}
        affinity["nodeAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": preference}]
        }
    for kind in ("podAffinity", "podAntiAffinity"):
        side = {}
        if draw.random() < 0.2:
            side["requiredDuringSchedulingIgnoredDuringExecution"] = [
                pod_term(draw.choice(APPS), draw.choice(keys))
            ]
        if draw.random() < 0.3:
            side["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {
                    "weight": draw.choice((1, 50)),
                    "podAffinityTerm": pod_term(draw.choice(APPS), draw.choice(keys)),
                }
            ]
        if side:
            affinity[kind] = side
    if affinity:
        spec["affinity"] = affinity
    if draw.random() < (0.8 if gates else 0.4):
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": key,
                "maxSkew": draw.choice((1, 2)),
                "whenUnsatisfiable": (action := draw.choice(("DoNotSchedule", "ScheduleAnyway"))),
                "labelSelector": {"matchLabels": {"app": app}},
                **(gated(draw, action) if gates else {}),
            }
            for key in draw.sample(keys, draw.choice((1, 2)))
        ]
    version = {"v": draw.choice("12")} if gates else {}
    return {"metadata": {"namespace": "default", "labels": {"app": app, **version}}, "spec": spec}


class World:
    """The same objects in a Cluster and as plain lists."""

    def __init__(self, seed, gates=(), added=()):
        self.draw = random.Random(seed)
        self.cluster = Cluster(N, gates, whole_objects=bool(added))
        self.attempts = Attempts(self.cluster, 0, added)
        self.nodes, self.pods = {}, {}
        self.made = 0
        for _ in range(self.draw.choice((5, 12))):
            self.add_node()
        self.classes = [make_class(self.draw, gates) for _ in range(5)]
        self.service = "web" if self.draw.random() < 0.6 else ""
        if self.service:
            service = {"spec": {"selector": {"app": self.service}}}
            self.cluster.set_service("default", "s", service)

    def add_node(self):
        self.made += 1
        node = make_node(self.draw, self.made)
        self.nodes[node["metadata"]["name"]] = node
        self.cluster.set_node(node)

    def new_pod(self, shape):
        self.made += 1
        return {**shape, "metadata": {**shape["metadata"], "name": f"p{self.made}"}}

    def put(self, pod, node):
        pod = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        self.pods[f"default/{pod['metadata']['name']}"] = pod
        self.cluster.set_pod(self.cluster.templates.info(pod))

    def step(self):
        chance = self.draw.random()
        if self.pods and chance < 0.15:
            key = self.draw.choice(list(self.pods))
            del self.pods[key]
            self.cluster.remove_pod(key)
        elif self.pods and chance < 0.25:
            key = self.draw.choice(list(self.pods))
            pod = self.pods[key]
            pod = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
            self.pods[key] = pod
            self.cluster.set_pod(self.cluster.templates.info(pod, self.cluster.pods[key]))
        elif chance < 0.32:
            name = self.draw.choice(list(self.nodes))
            changed = make_node(self.draw, int(name[1:]))
            if self.draw.random() < 0.5:
                changed["metadata"] = self.nodes[name]["metadata"]
            self.nodes[name] = changed
            self.cluster.set_node(changed)
        elif chance < 0.35:
            self.add_node()
        elif chance < 0.38 and len(self.nodes) > 3:
            name = self.draw.choice(list(self.nodes))
            del self.nodes[name]
            self.cluster.delete_node(name)

    def naive(self, shape):
        ordered = [self.nodes[node.name] for node in self.cluster.list_nodes()]
        selected = self.service and shape["metadata"]["labels"]["app"] == self.service
        return Naive(ordered, list(self.pods.values()), {"app": self.service} if selected else None)


@pytest.mark.parametrize("gates", [(), OF_SPREAD])
@pytest.mark.parametrize("seed", range(60))
def test_search_chooses_the_node_that_rules_applied_to_objects_choose(seed, gates):
    world = World(seed, gates)
    for _ in range(25):
        world.step()
        shape = world.draw.choice(world.classes)
        pod = world.new_pod(shape)
        naive = world.naive(shape)
        state = world.attempts.state(world.cluster.templates.info(pod))
        count = len(world.nodes)
        start, wanted = world.draw.randrange(count), world.draw.randrange(1, count + 1)
        among = []

        def draw(number, among=among):
            among.append(number)
            return world.draw.randrange(number)

        found = state.choose(start, wanted, draw, {})
        window, looked = naive.window(pod, start, wanted)
        assert found.feasible == len(window)
        failing = {name: naive.failing_plugin(pod, node) for name, node in world.nodes.items()}
        assert {name: status.plugin for name, status in state.failures({}).items()} == {
            name: plugin for name, plugin in failing.items() if plugin
        }
        if not window:
            assert found.node == ""
            continue
        best = naive.best(pod, window)
        assert found.processed == looked
        assert found.node in best
        assert (among or [1]) == [len(best)]
        world.put(pod, found.node)


class Crowding(SchedulerPlugin):
    """Refuses nodes with two pods of the pod's version or app, and prefers nodes with many pods."""

    name = "Crowding"
    weight = 5

    def filter(self, pod, node):
        alike = [p for p in node.pods if p["metadata"]["labels"] == pod["metadata"]["labels"]]
        return self.refuse("too many alike", unresolvable=len(alike) > 2) if len(alike) > 1 else None

    def score(self, pod, node):
        return len(node.pods) + (node.labels["disk"] == "ssd")


class DiskOfPod(SchedulerPlugin):
    """Scores a node by the name of the pod, so that no two pods share a class."""

    name = "DiskOfPod"
    absolute_scores = True

    def score(self, pod, node):
        return 40 if pod["metadata"]["name"][-1] in "02468" and node.labels["disk"] == "hdd" else 0


def status_of_all_plugins(profile: Profile, info, node):
    """The first refusal, plugin by plugin."""
    for plugin in profile.plugins:
        status = plugin.filter(info.template, node)
        if status is not None:
            return status
    refusals = [plugin.filter(info, node) for plugin in profile.added]
    return next((status for status in refusals if status is not None), None)


def totals_of_all_plugins(profile: Profile, info, nodes):
    """The weighted sums of all scores, plugin by plugin."""
    totals = [0] * len(nodes)
    columns = [(plugin.weight, plugin.scores(info.template, nodes)) for plugin in profile.plugins]
    for plugin in profile.added:
        raw = [plugin.score(info, node) for node in nodes]
        columns.append((plugin.weight, plugin.final_scores(raw)))
    for weight, scores in columns:
        totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
    return totals


@pytest.mark.parametrize("added", [(), (Crowding(),), (Crowding(), DiskOfPod())], ids=len)
@pytest.mark.parametrize("gates", [(), OF_SPREAD], ids=["default", "gated"])
@pytest.mark.parametrize("seed", range(20))
def test_search_equals_every_plugin_on_every_node(seed, gates, added):
    world = World(seed, gates, added)
    for _ in range(20):
        world.step()
        info = world.cluster.templates.info(world.new_pod(world.draw.choice(world.classes)))
        state, nodes = world.attempts.state(info), world.cluster.list_nodes()
        statuses = {node.name: status_of_all_plugins(world.attempts.profile, info, node) for node in nodes}
        assert state.failures({}) == {name: status for name, status in statuses.items() if status}
        feasible = [node for node in nodes if statuses[node.name] is None]
        if not feasible:
            continue
        members = [Member(signature, at, [(0, len(at))], len(at)) for signature, at in state.passing({})[0]]
        found = {
            state.nodes[at].name: total
            for member, total in zip(members, state.totals(members), strict=True)
            for at in member.at
        }
        totals = totals_of_all_plugins(world.attempts.profile, info, feasible)
        # The search leaves out scores that are equal on all nodes.
        assert {node.name: total - max(totals) for node, total in zip(feasible, totals, strict=True)} == {
            name: total - max(found.values()) for name, total in found.items()
        }
        world.put(info.obj, world.draw.choice(feasible).name)


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [(99, 99), (100, 100), (1000, 420), (2000, 680), (5000, 500), (6000, 300), (15000, 750)],
)
def test_share_of_searched_nodes_shrinks_as_the_cluster_grows(nodes, wanted):
    assert nodes_wanted(nodes, 0) == wanted
