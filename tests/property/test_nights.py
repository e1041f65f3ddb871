"""Nights drawn from a seed: faults and people's actions of all kinds at once, and what must hold
when all of it is over.

No draw is special: each is a scenario file as anybody may write it, and its run ends, mended, with
nothing left in any book.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from sim.api.objects import is_ready
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.director import Director
from sim.scenario.compile import compile_plan
from sim.scenario.plan.plan import Plan
from sim.scenario.read.source import parse_documents

NODES = 5
# long enough for back-offs of five minutes and the node controller's rates
NIGHT_S, QUIET_S = 400, 2100


def workload(kind: str, name: str, **spec: Any) -> Obj:
    container = {"name": "c", "image": f"r/{name}:1", "resources": {"requests": {"cpu": "50m"}}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    whole = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": whole}


OBJECTS = [
    workload("Deployment", "web", replicas=7),
    workload("StatefulSet", "db", replicas=3, serviceName="db"),
    workload("DaemonSet", "ds"),
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    },
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    },
]
CLIENTS = ("nodes", "controller-manager-0", "scheduler", "node-1")
WAYS = (
    "power-loss", "shutdown", "hang", "network-cut", "agent-crash", "runtime-failure", "runtime-hang", "pod-network-failure",
)  # fmt: skip
ACTORS = (
    "apiserver-0",
    "apiserver-1",
    "controller-manager-leader",
    "scheduler-leader",
    "node-2",
    "scheduler",
)
TARGETS = ("deployments/web", "statefulsets/db", "daemonsets/ds")


def fault(draw: Random) -> Obj:
    """One that ends."""
    some, actor, server = {"pick": draw.randint(1, 3)}, draw.choice(ACTORS), f"apiserver-{draw.randrange(2)}"
    client, of_all, short = (
        draw.choice(CLIENTS),
        draw.choice(["apiserver", server]),
        draw.choice(["10Mi", "80Mi"]),
    )
    body: Obj = draw.choice([
        {"fail": {"nodes": some, "how": draw.choice(WAYS)}},
        {"fail": {"nodes": some, "how": "slow-disk", "by": "5s"}},
        {"pressure": {"nodes": some, "resource": draw.choice(["memory", "nodefs"]), "available": short}},
        {"workload": {"selector": "app=web", **draw.choice([{"exitAfter": "5s", "exitCode": 1}, {"ready": False}, {"stop": "never"}])}},
        {"partition": {"between": draw.sample([client, of_all], 2), "oneWay": draw.random() < 0.5}},
        {"network": {"between": [client, of_all], "latency": "10ms..3s", "loss": 0.2, "duplication": 0.1}},
        {"partition": {"between": draw.sample(["storage", server], 2), "oneWay": draw.random() < 0.5}},
        {"network": {"between": [server, "storage"], "latency": "10ms..3s", "loss": 0.2}},
        {"crash": {"actor": actor, "gracefully": draw.random() < 0.5}},
        {"stall": {"actor": draw.choice([actor, "storage"])}},
        {"slow": {"actor": actor, "by": "50ms"}},
        {"clock": {"actor": actor, "offset": draw.choice(["-10m", "1h"]), "driftPpm": 500}},
        {"storage": draw.choice([{"how": "pause"}, {"how": "lost-quorum"}, {"how": "slow", "by": "4s"}])},
        {"overload": {"apiServer": server, "by": "2s", "inflight": draw.choice([0, 5])}},
        {"lag": {"apiServer": server, "by": "40s"}},
        {"diverge": {"apiServer": server}},
        {"cordon": {"nodes": some}},
    ])  # fmt: skip
    return {**body, "for": f"{draw.randint(2, 150)}s"}


def action(draw: Random) -> Obj:
    resource, _, name = draw.choice(TARGETS).partition("/")
    annotated = {"metadata": {"annotations": {"roll": str(draw.randrange(4))}}}
    body: Obj = draw.choice([
        {"scale": {"resource": "deployments", "name": "web", "replicas": draw.randint(0, 9)}},
        {"delete": {"resource": "pods", "selector": f"app={name}", "gracePeriodSeconds": draw.choice([0, 5])}},
        {"patch": {"resource": resource, "name": name, "merge": {"spec": {"template": annotated}}}},
        {"evict": {"selector": f"app={name}"}},
        {"dropWatches": {}},
        {"compact": {}},
        {"loseLease": {"component": draw.choice(["scheduler", "controller-manager"])}},
        {"apply": {"objects": [draw.choice(OBJECTS)]}},
    ])  # fmt: skip
    return body


def logger(name: str, version: int) -> Obj:
    """A static pod."""
    container = {"name": "c", "image": f"r/log:{version}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


def in_the_cloud(draw: Random) -> Obj:
    """Faults of instances, files of static pods and logs."""
    some: Obj = {"pick": draw.randint(1, 3)}
    written = logger(draw.choice(["log", "more"]), draw.randint(1, 3))
    ends: Obj = draw.choice([
        {"fail": {"nodes": some, "how": draw.choice(["instance-stopped", "instance-deleted"])}},
        {"cloud": draw.choice([{"how": "outage"}, {"how": "slow", "by": "3s"}])},
        {"workload": {"selector": "app=web", "logRate": draw.choice(["1Mi", "3Gi"])}},
        {"crash": {"actor": f"node-{draw.randrange(NODES)}"}},
    ])  # fmt: skip
    stays: Obj = draw.choice([
        {"manifest": {"nodes": some, "write": written}},
        {"manifest": {"nodes": some, "write": written, "file": "log"}},
        {"manifest": {"nodes": some, "spoil": "log"}},
        {"manifest": {"nodes": some, "remove": draw.choice(["log", "more"])}},
        {"delete": {"resource": "pods", "name": f"log-node-{draw.randrange(NODES)}"}},
    ])  # fmt: skip
    return draw.choice([{**ends, "for": f"{draw.randint(2, 300)}s"}, stays])


# The state at the beginning of the night, for any draws.
FILES = (
    {"write": logger("more", 1)},
    {"remove": "more"},
    {"write": logger("log", 1)},
)


def night(seed: int, folder: Path, more: int = 0) -> Plan:
    """more: how many steps of a cloud's are drawn beside."""
    draw = Random(seed)
    steps = [
        {"name": f"s{n}", "at": f"{draw.randint(20, NIGHT_S)}s", **draw.choice([fault, fault, action])(draw)}
        for n in range(35)
    ]
    flags: Obj = {}
    if more:
        flags = {"cloud-provider": "orrery"}
        files = [
            {"name": f"f{n}", "at": "16s", "manifest": {"nodes": {}, **body}} for n, body in enumerate(FILES)
        ]
        cloud = [
            {"name": f"c{n}", "at": f"{draw.randint(20, NIGHT_S)}s", **in_the_cloud(draw)}
            for n in range(more)
        ]
        last = [{**step, "name": f"again-{step['name']}", "at": f"{NIGHT_S + 160}s"} for step in files]
        steps = [*files, *steps[: 35 - more], *cloud, *last]
    lock = {"leader-elect-resource-lock": draw.choice(["leases", "endpointsleases"])}
    managers = {"replicas": 2, "flags": lock}
    nodes = [{"count": NODES, "staticPods": [logger("log", 1)], "flags": flags}]
    cluster = {
        "nodes": nodes,
        "apiServer": {"replicas": 2},
        "controllerManager": {**managers, "flags": {**lock, **flags}},
        "scheduler": managers,
    }
    # What follows a cordon that took a pod's place.
    steps.append({"name": "open", "at": f"{NIGHT_S + 160}s", "uncordon": {"nodes": {}}})
    spec = {"seed": seed, "duration": "1h", "cluster": cluster, "objects": OBJECTS, "timeline": steps}
    body = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "night"}, "spec": spec}
    (document,) = parse_documents(yaml.safe_dump(body), "night.yaml")
    return compile_plan(document, folder)


def unmended(cluster: Cluster) -> list[str]:
    """What is not as it was before the night."""
    found = [f"{n['metadata']['name']} {n['spec'].get('taints')}" for n in cluster.list("nodes")
             if not is_ready(n) or n["spec"].get("taints") or n["spec"].get("unschedulable")]  # fmt: skip
    pods = {pod["metadata"]["uid"]: pod for pod in cluster.list("pods")}
    found += [
        f"{pod['metadata']['name']} ends" for pod in pods.values() if "deletionTimestamp" in pod["metadata"]
    ]
    for resource, wanted, ready in (
        ("deployments", "replicas", "availableReplicas"),
        ("statefulsets", "replicas", "readyReplicas"),
    ):
        for obj in cluster.list(resource):
            if obj["spec"][wanted] != obj["status"].get(ready, 0):
                found.append(f"{resource} {obj['status']}")
    (daemons,) = cluster.list("daemonsets")
    if not daemons["status"]["numberReady"] == daemons["status"]["updatedNumberScheduled"] == NODES:
        found.append(f"daemons {daemons['status']}")
    for name, node in cluster.nodes.items():
        agent, of_node = node.machine.agent, [p for p in pods.values() if p["spec"].get("nodeName") == name]
        own = [pod for pod in of_node if not _is_mirror(cluster, pod)]
        known = {*agent.mirrors.uids, *(pod["metadata"]["uid"] for pod in own)}
        gone = {pod["metadata"]["uid"] for pod in own if pod["status"]["phase"] != "Running"}
        if set(agent.workers) != known or not known - gone <= set(node.machine.pods) <= known:
            found.append(f"the books of {name}")
        if len(of_node) - len(own) != 1:
            found.append(f"{name} has {len(of_node) - len(own)} mirrors")
    return found


def _is_mirror(cluster: Cluster, pod: Obj) -> bool:
    return cluster.names.annotation_mirror_pod in (pod["metadata"].get("annotations") or {})


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "more"), [(0, 0), (5, 0), (8, 0), (2, 20)])
async def test_all_drawn_faults_end_and_are_mended(seed: int, more: int, tmp_path: Path) -> None:
    """Seed 5 once left nodes under pressure, 8 did not end, 2 left a static pod without its mirror."""
    plan = night(seed, tmp_path, more)
    async with Cluster(plan.cluster, seed=seed) as cluster:
        ended: list[str] = []
        director = Director(cluster, lambda name, *_: ended.append(name))
        director.schedule(plan.steps)
        await cluster.run_until("15s")
        cluster.apply(*plan.objects)
        await cluster.run_until(f"{NIGHT_S + 160 + QUIET_S}s")
        faults = [step.name for step in plan.steps if any(choice.for_us for choice in step.choices)]
        assert all(f"end of {name}" in ended for name in faults)
        assert not unmended(cluster)
