"""A cluster that has been up before is one that came up by itself, without its past."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sim.api.store import Change
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.app.run import run_plan
from sim.client.cache.informer import Informer
from sim.kernel import read
from sim.report.story import Book, about, chosen
from sim.scenario.compile import load
from sim.scenario.plan.plan import ClusterPlan
from sim.units import SECOND
from tests.cluster.faults.test_custom_resources import GROUP, WIDGETS, definition

# What two clusters of the same objects differ in: names that are drawn, places, addresses,
# instants, and what counts writes.
OWN = frozenset(
    ("name", "uid", "resourceVersion", "creationTimestamp", "nodeName", "ip", "podIP", "podIPs", "hostIP", "startTime",
     "containerID", "startedAt", "lastTransitionTime", "lastUpdateTime", "lastHeartbeatTime", "clusterIP", "clusterIPs",
     "endpoints.orch.io/last-change-trigger-time")
)  # fmt: skip
# There or not: as two pods became ready within one second or not.
TRIGGER = "'f:metadata': {'f:annotations': {'.': {}, 'f:endpoints.orch.io/last-change-trigger-time': {}}}, "
UID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
SCENARIOS = Path(__file__).parents[3] / "scenarios"
PODS = 32


def workload(kind: str, name: str, replicas: int, **pod: Any) -> Obj:
    labels = {"app": name}
    container: Obj = {
        "name": "c",
        "image": "registry.example/c:1",
        "resources": {"requests": {"cpu": "500m"}},
    }
    container |= pod.pop("container", {})
    more = {name: pod.pop(name) for name in ("serviceName",) if name in pod}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **pod}}
    return {
        "apiVersion": "v1" if kind == "ReplicationController" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            **({"replicas": replicas} if replicas else {}),
            **more,
            "selector": labels if kind == "ReplicationController" else {"matchLabels": labels},
            "template": template,
        },
    }


def service(name: str) -> Obj:
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


BARE: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "bare"},
    "spec": {"containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b:2"}], "hostNetwork": True},
}
OBJECTS = (
    workload("Deployment", "web", 12),
    service("web"),
    workload("ReplicaSet", "alone", 6),
    workload("ReplicationController", "old", 5, tolerations=[{"operator": "Exists"}]),
    workload("StatefulSet", "ordered", 3, serviceName="o"),
    workload("DaemonSet", "everywhere", 0),
    BARE,
)


def plan(*objects: Obj, nodes: int = 5) -> ClusterPlan:
    return ClusterPlan(nodes=plain_nodes(nodes), boot_us=10 * SECOND, established=objects)


def bare(value: Any) -> Any:
    if isinstance(value, dict):
        left = {key: bare(inner) for key, inner in value.items() if key not in OWN}
        return {key: inner for key, inner in left.items() if (key, inner) != ("annotations", {})}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def alike(cluster: Cluster, resource: str) -> Counter[bytes]:
    """The number of objects with each content and ownership, apart from the unique parts."""
    bucket = cluster.storage.store.bucket(cluster.scheme.resource(resource).prefix)
    texts = []
    for item in bucket.items.values():
        owners = sorted(
            (m.manager, m.operation, m.subresource, UID.sub("", str(m.fields)).replace(TRIGGER, ""))
            for m in item.managed
        )
        texts.append(msgspec.json.encode((bare(item.obj), owners), order="sorted"))
    return Counter(texts)


RESOURCES = (
    "pods",
    "replicasets",
    "deployments",
    "replicationcontrollers",
    "statefulsets",
    "daemonsets",
    "controllerrevisions",
    "nodes",
    "serviceaccounts",
    "services",
    "endpoints",
)


async def test_it_is_as_one_that_came_up() -> None:
    """Compared with a cluster in which a client created the same objects; both are at rest, and
    each node has reported.
    """
    grown = replace(plan(*OBJECTS), established=())
    async with Cluster(plan(*OBJECTS), seed=4) as past, Cluster(grown, seed=4) as present:
        await present.run_for("15s")
        present.apply(*OBJECTS)
        for cluster in (past, present):
            await cluster.run_until("10m")
            assert cluster.counts() == {"nodes": 5, "ready": 5, "pods": PODS, "running": PODS}
            assert not cluster.admin.refused
        for resource in RESOURCES:
            found, wanted = alike(past, resource), alike(present, resource)
            assert sum(found.values()) > 0, resource
            assert found == wanted, resource


async def test_pods_run_on_the_nodes_that_the_plan_names_from_the_first_instant() -> None:
    """Also where the scheduler would not place them, and pods that wait for a probe."""
    probe = {"readinessProbe": {"tcpSocket": {"port": 80}}, "ports": [{"containerPort": 80}]}
    objects = (
        workload("Deployment", "web", 4),
        workload("StatefulSet", "ordered", 3, serviceName="o"),
        workload("Deployment", "slow", 2, container=probe),
    )
    places = {
        "deployments/default/web": ("node-1", "node-1", "node-1"),
        "statefulsets/default/ordered": ("node-2", "node-0", "node-2"),
        "deployments/default/slow": ("node-0", "node-0"),
    }
    async with Cluster(replace(plan(*objects, nodes=3), places=places), seed=1) as cluster:
        await cluster.run_for(0)
        pods = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in cluster.list("pods")}
        assert Counter(node for name, node in pods.items() if name.startswith("web"))["node-1"] == 3
        assert [pods[f"ordered-{ordinal}"] for ordinal in range(3)] == ["node-2", "node-0", "node-2"]
        assert [node for name, node in pods.items() if name.startswith("slow")] == ["node-0", "node-0"]
        await cluster.run_for("2m")
        assert cluster.counts() == {"nodes": 3, "ready": 3, "pods": 9, "running": 9}
        assert {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in cluster.list("pods")} == pods


async def test_claim_and_volume_that_name_each_other_are_bound_from_the_first_instant() -> None:
    size = {"storage": "1Gi"}
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"capacity": size, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, "storageClassName": "s", "claimRef": reference},
    }  # fmt: skip
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "storageClassName": "s", "volumeName": "pv"},
    }  # fmt: skip
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    web = workload(
        "Deployment",
        "web",
        1,
        container=mounts,
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    )
    for objects in ((claim, volume, web), (volume, claim, web)):
        places = {"deployments/default/web": ("node-1",)}
        async with Cluster(replace(plan(*objects, nodes=2), places=places), seed=1) as cluster:
            await cluster.run_for(0)
            (bound,), (kept,), (pod,) = (
                cluster.list(each) for each in ("persistentvolumeclaims", "persistentvolumes", "pods")
            )
            assert (bound["status"]["phase"], kept["status"]["phase"], pod["spec"]["nodeName"]) == (
                "Bound",
                "Bound",
                "node-1",
            )
            assert kept["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
            seen: list[Change] = []
            cluster.observe(seen.append, ["persistentvolumeclaims", "persistentvolumes"])
            await cluster.run_for("1m")
            assert (cluster.counts()["running"], seen) == (1, [])


async def test_established_cluster_runs_from_the_first_instant_without_changes() -> None:
    async with Cluster(plan(*OBJECTS), seed=1) as cluster:
        await cluster.run_for(0)
        assert cluster.counts() == {"nodes": 5, "ready": 5, "pods": PODS, "running": PODS}
        seen: list[Change] = []
        cluster.observe(seen.append, ["pods"])
        nodes = [node["metadata"]["annotations"] | node["spec"] for node in cluster.list("nodes")]
        await cluster.run_for("10m")
        assert seen == []
        assert [node["metadata"]["annotations"] | node["spec"] for node in cluster.list("nodes")] == nodes
        per_node = Counter(pod["spec"]["nodeName"] for pod in cluster.list("pods"))
        assert max(per_node.values()) - min(per_node.values()) <= 1
        endpoints = cluster.get("endpoints", "web")
        assert endpoints is not None
        assert len(endpoints["subsets"][0]["addresses"]) == 12
        addresses = [p["status"]["podIP"] for p in cluster.list("pods") if not p["spec"].get("hostNetwork")]
        assert len({*addresses}) == PODS - 1


async def test_what_runs_there_fails_and_is_replaced_as_anywhere() -> None:
    async with Cluster(plan(*OBJECTS), seed=1) as cluster:
        await cluster.run_for("1m")
        cluster.fail_node("node-2", "power-loss")
        await cluster.run_for("7m")
        pods = [
            pod
            for pod in cluster.list("pods", selector="app=web")
            if "deletionTimestamp" not in pod["metadata"]
        ]
        assert len(pods) == 12
        assert all(pod["spec"]["nodeName"] != "node-2" for pod in pods)
        assert all(pod["status"]["phase"] == "Running" for pod in pods)


async def test_no_node_is_there_because_another_is(tmp_path: Path) -> None:
    async with Cluster(
        nodes=3, established=[workload("Deployment", "web", 2)], trace=tmp_path / "t"
    ) as cluster:
        await cluster.run_for("1s")
    book = Book(read(tmp_path / "t"))
    for node in ("node-0", "node-1", "node-2"):
        made = chosen(about(book, f"//nodes//{node}"), "created")
        assert made is not None and book.chain(made) == [made]


async def test_the_library_takes_objects_as_they_are() -> None:
    async with Cluster(
        nodes=2, established=[workload("Deployment", "web", 3)], naming="kubernetes"
    ) as cluster:
        await cluster.run_for(0)
        assert cluster.counts() == {"nodes": 2, "ready": 2, "pods": 3, "running": 3}
        await cluster.run_for("1m")
        web = cluster.get("deployments", "web")
        assert web is not None
        assert web["status"]["availableReplicas"] == 3


async def test_the_same_seed_gives_the_same_cluster() -> None:
    async def hashed(seed: int) -> str:
        async with Cluster(plan(*OBJECTS), seed=seed) as cluster:
            await cluster.run_for("1m")
            return cluster.kernel.trace.sha256()

    assert await hashed(1) == await hashed(1)
    assert await hashed(1) != await hashed(2)


PROBE = {"readinessProbe": {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 2}}
SETTINGS: Obj = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings"},
    "data": {"a": "b"},
}
MOUNTS = {"envFrom": [{"configMapRef": {"name": "settings"}}]}
FIRST = [{"name": "first", "image": "i", "command": ["true"]}]


@pytest.mark.parametrize(
    "obj",
    [
        workload("Deployment", "probed", 3, container=PROBE),
        workload("Deployment", "mounting", 3, container=MOUNTS),
        workload("Deployment", "beginning", 3, initContainers=FIRST),
    ],
    ids=["probed", "mounting", "beginning"],
)
async def test_what_waits_for_something_comes_up_by_itself(obj: Obj) -> None:
    async with Cluster(plan(SETTINGS, obj), seed=1) as cluster:
        await cluster.run_for(0)
        assert cluster.counts()["running"] == 0
        await cluster.run_for("2m")
        assert cluster.counts()["running"] == 3
        assert not cluster.admin.refused


async def test_what_finds_no_room_waits_for_it() -> None:
    async with Cluster(plan(workload("Deployment", "large", 40), nodes=2), seed=1) as cluster:
        await cluster.run_for(0)
        assert cluster.counts() == {"nodes": 2, "ready": 2, "pods": 40, "running": 32}
        await cluster.run_for("1m")
        assert cluster.counts() == {"nodes": 2, "ready": 2, "pods": 40, "running": 32}
        assert any(event["reason"] == "FailedScheduling" for event in cluster.list("events"))


async def test_a_quota_counts_them_soon() -> None:
    quota: Obj = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "9"}},
    }  # fmt: skip
    async with Cluster(plan(quota, workload("Deployment", "web", 8)), seed=1) as cluster:
        await cluster.run_for("1m")
        held = cluster.get("resourcequotas", "q")
        assert held is not None
        assert held["status"]["used"] == {"pods": "8"}


@pytest.mark.parametrize("hard", [{"pods": "5"}, {"requests.cpu": "2500m"}])
async def test_quota_limits_the_number_of_pods_in_any_order(hard: Obj) -> None:
    quota: Obj = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard},
    }  # fmt: skip
    objects = [workload("Deployment", "web", 8), quota, service("web")]
    counts = []
    for whole in (plan(*objects), replace(plan(), established=())):
        async with Cluster(whole, seed=1) as cluster:
            await cluster.run_for(0)
            if whole.established != ():
                assert cluster.counts()["running"] == 5
            if not whole.established:
                cluster.apply(quota)
                await cluster.run_for("1m")
                cluster.apply(*objects)
            await cluster.run_for("2m")
            held = cluster.get("resourcequotas", "q")
            assert held is not None
            (deployment,) = cluster.list("deployments")
            failed = [
                c["reason"] for c in deployment["status"]["conditions"] if c["type"] == "ReplicaFailure"
            ]
            counts.append(
                (cluster.counts(), held["status"], deployment["status"]["availableReplicas"], failed)
            )
    assert counts[0] == counts[1]
    assert counts[0][0]["running"] == 5


async def test_what_is_refused_is_applied_as_usual() -> None:
    early = workload("Deployment", "early", 2)
    early["metadata"]["namespace"] = "late"
    late = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}}
    lost = {**BARE, "metadata": {"name": "lost", "namespace": "nowhere"}}
    async with Cluster(plan(early, late, {**early, "kind": "Deploymint"}, lost, BARE), seed=1) as cluster:
        await cluster.run_for(0)
        assert cluster.counts()["running"] == 1
        await cluster.run_for("3m")
        assert cluster.counts()["running"] == 3
        told = cluster.admin.refused
        assert len(told) == 2
        assert "no kind Deploymint" in told[0]
        assert 'namespaces "nowhere" not found' in told[1]


async def test_custom_objects_are_applied_once_their_kind_is_there() -> None:
    made = definition("orch.io")
    spec = made["spec"] | {"names": {"kind": "Deployment", "plural": "widgets"}}
    odd = {"apiVersion": f"{GROUP}/v1", "kind": "Deployment", "metadata": {"name": "odd"}, "spec": {"a": "b"}}
    async with Cluster(plan(made | {"spec": spec}, odd, BARE), seed=1) as cluster:
        await cluster.run_for("1m")
        assert [obj["spec"] for obj in cluster.list(WIDGETS)] == [{"a": "b"}]
        assert cluster.counts()["running"] == 1
        assert not cluster.admin.refused


# Of the scenario files those in which it matters most what agents, controllers and the scheduler
# know of their pods.
FILES = (
    "autoscaling", "crash-loop", "drain-blocked", "memory-pressure", "preemption-storm", "rolling-update-node-death",
    "single-node-death", "statefulset-dead-node", "watch-herd",
)  # fmt: skip


@pytest.mark.parametrize("name", FILES)
async def test_a_scenario_holds_there_too(name: str) -> None:
    plan = load(SCENARIOS / f"{name}.yaml", ["cluster.established=true"])
    assert plan.cluster.established
    assert not plan.objects
    result = await run_plan(plan, picture=False)
    assert [verdict.name for verdict in result.verdicts if not verdict.ok] == []
    assert result.refused == ()


async def test_no_process_unpacks_all_pods_together_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 150,000 pods they would take 500 MiB, of which much would stay in use by nothing."""
    listed: list[str] = []
    plain = Informer.list

    def noted(self: Informer) -> list[Obj]:
        listed.append(self.resource)
        return plain(self)

    monkeypatch.setattr(Informer, "list", noted)
    plan = ClusterPlan(nodes=plain_nodes(3), established=(workload("Deployment", "web", 6),))
    async with Cluster(plan) as cluster:
        await cluster.run_for("2m")
        assert cluster.counts()["running"] == 6
    assert "nodes" in listed
    assert "pods" not in listed
