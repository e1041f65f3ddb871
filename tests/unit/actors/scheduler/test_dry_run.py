"""Preemption's dry run on a class's state, against new clusters without the removed pods."""

import random

import pytest

from actors.scheduler.cluster import Cluster
from actors.scheduler.plugins import SchedulerPlugin
from actors.scheduler.plugins.base import Status
from actors.scheduler.plugins.registry import Profile
from actors.scheduler.preempt import NO_VICTIMS, _victims_on, importance
from actors.scheduler.search.classes import ClassState
from sim.ident import NAMES
from tests.unit.actors.scheduler.test_attempt import World

N = NAMES["orch"]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class TwoOfAnApp(SchedulerPlugin):
    """Refuses nodes with two pods of the pod's app."""

    name = "TwoOfAnApp"

    def filter(self, pod, node):
        app = pod["metadata"]["labels"]["app"]
        alike = [other for other in node.pods if other["metadata"]["labels"]["app"] == app]
        return self.refuse("two of an app") if len(alike) > 1 else None


def drawn_term(draw):
    keys = ("zone", N.label_hostname)
    term = {"topologyKey": draw.choice(keys), "labelSelector": {"matchLabels": {"app": draw.choice("abc")}}}
    return {**term, "namespaceSelector": {}} if draw.random() < 0.3 else term


def drawn_pod(world, draw, node=""):
    ports = (80,) if draw.random() < 0.15 else ()
    start = f"2026-01-0{draw.randint(1, 9)}T00:00:00Z"
    shape = {"cpu": str(draw.choice((0, 1, 1, 2))), "app": draw.choice("abc"), "start": start}
    pod = world.pod(priority=draw.choice((0, 0, 1, 2, 5)), ports=ports, **shape)
    spec = pod["spec"]
    spec["affinity"] = {
        kind: {REQUIRED: [drawn_term(draw) for _ in range(draw.choice((1, 1, 2)))]}
        for kind in ("podAffinity", "podAntiAffinity")
        if draw.random() < 0.25
    }
    if draw.random() < 0.2:
        pod["metadata"]["namespace"] = "other"
    if node:
        spec["nodeName"] = node
    elif draw.random() < 0.4:
        constraint = {"maxSkew": draw.choice((1, 2)), "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**constraint, **drawn_term(draw)}]
    return pod


def key(pod):
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def why_not(nodes, pods, pod, name, added):
    """Return the status of the node in a new cluster of these nodes and pods."""
    cluster = Cluster(N)
    for node in nodes:
        cluster.set_node(node)
    for each in pods:
        cluster.set_pod(cluster.templates.info(each))
    return ClassState(Profile(cluster, added), cluster.templates.info(pod)).failures({}).get(name)


def expected(world, pods, pod, name, added):
    """Return the status, or the keys of the victims: the pods of lower priority that must go."""
    here = world.cluster.nodes[name].pods.values()
    lower = sorted((p for p in here if p.template.priority < pod["spec"]["priority"]), key=importance)
    nodes = [node.obj for node in world.cluster.nodes.values()]
    gone = [each.key for each in lower]

    def without():
        return why_not(nodes, [each for each in pods if key(each) not in gone], pod, name, added)

    status = without() if gone else NO_VICTIMS
    if status is not None:
        return status
    for each in lower:
        gone.remove(each.key)
        if without() is not None:
            gone.append(each.key)
    return sorted(gone)


@pytest.mark.parametrize("added", [(), (TwoOfAnApp(),)], ids=len)
@pytest.mark.parametrize("seed", range(40))
def test_dry_run_finds_the_victims_of_a_new_cluster_without_them(seed, added):
    draw, world = random.Random(seed), World(added)
    for number in range(draw.randint(1, 5)):
        zone = {"zone": draw.choice("xyz")} if draw.random() < 0.9 else {}
        world.node(f"n{number}", cpu=str(draw.choice((2, 3, 5))), **zone)
    names = list(world.cluster.nodes)
    pods = [drawn_pod(world, draw, draw.choice(names)) for _ in range(draw.randint(1, 12))]
    for each in pods:
        world.cluster.set_pod(world.cluster.templates.info(each))
    pod = drawn_pod(world, draw)
    pod["spec"]["priority"] = draw.choice((1, 2, 5, 9))
    info = world.cluster.templates.info(pod)
    state = world.attempts.state(info)
    for name, status in state.failures({}).items():
        if not status.unresolvable:
            found = _victims_on(state, info, world.cluster.nodes[name], [])
            shown = found if isinstance(found, Status) else sorted(victim.key for victim in found.victims)
            assert shown == expected(world, pods, pod, name, added)
