import random

import pytest

from actors.scheduler.attempt import Attempts, nodes_wanted
from actors.scheduler.cluster import Cluster
from sim.ident import NAMES
from sim.options.gates import OF_SPREAD
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

    def __init__(self, seed, gates=()):
        self.draw = random.Random(seed)
        self.cluster = Cluster(N, gates)
        self.attempts = Attempts(self.cluster, 0)
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
def test_the_incremental_choice_is_that_of_every_plugin_on_every_sampled_node(seed, gates):
    world = World(seed, gates)
    for _ in range(25):
        world.step()
        shape = world.draw.choice(world.classes)
        pod = world.new_pod(shape)
        naive = world.naive(shape)
        state = world.attempts.state(world.cluster.templates.template(pod))
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


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [(99, 99), (100, 100), (1000, 420), (2000, 680), (5000, 500), (6000, 300), (15000, 750)],
)
def test_the_share_of_nodes_searched_shrinks_as_the_cluster_grows(nodes, wanted):
    assert nodes_wanted(nodes, 0) == wanted
