"""Pods with claims on a whole cluster: they wait for a volume, and go to where it is."""

from __future__ import annotations

from typing import Any

from sim import Cluster
from sim.api.types import Obj

CLASS = {"storageClassName": "manual", "accessModes": ["ReadWriteOnce"]}


def volume(name: str, node: tuple[str, str] | None = None) -> Obj:
    """A volume that only the node with this label reaches, if one is given."""
    spec: dict[str, Any] = {**CLASS, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/d"}}
    if node is not None:
        term = {"matchExpressions": [{"key": node[0], "operator": "In", "values": [node[1]]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def stateful_set(name: str, replicas: int) -> Obj:
    """A StatefulSet with a claim of class `manual` for each pod."""
    claim = {**CLASS, "resources": {"requests": {"storage": "1Gi"}}}
    container = {"name": "c", "image": "a", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


def texts(c: Cluster, name: str, reason: str) -> list[str]:
    return [
        event["message"]
        for event in c.list("events")
        if event["involvedObject"]["name"] == name and event["reason"] == reason
    ]


def phase(c: Cluster, resource: str, name: str) -> str:
    found = c.get(resource, name)
    assert found is not None
    return str(found["status"]["phase"])


async def test_stateful_set_runs_when_its_claims_have_volumes_and_waits_otherwise() -> None:
    async with Cluster(nodes=3) as c:
        c.apply(volume("pv"), stateful_set("pgx", 2))
        await c.run_for("60s")
        assert phase(c, "persistentvolumeclaims", "data-pgx-0") == "Bound"
        assert phase(c, "pods", "pgx-0") == "Running"
        # The second claim has no volume; its pod says so, and runs when there is one.
        assert phase(c, "persistentvolumeclaims", "data-pgx-1") == "Pending"
        assert phase(c, "pods", "pgx-1") == "Pending"
        reason = "3 pod has unbound immediate PersistentVolumeClaims"
        assert texts(c, "pgx-1", "FailedScheduling")[0].startswith(f"0/3 nodes are available: {reason}.")
        c.apply(volume("late", (c.names.label_hostname, "node-2")))
        await c.run_for("60s")
        pod = c.get("pods", "pgx-1")
        assert pod is not None
        assert (pod["status"]["phase"], pod["spec"]["nodeName"]) == ("Running", "node-2")
        # The node agents have registered, without drivers.
        assert [bool(node["spec"]["drivers"]) for node in c.list("csinodes")] == [False] * 3


async def test_missing_claims_and_unknown_drivers_keep_pods_from_running() -> None:
    async with Cluster(nodes=1) as c:
        mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        for name, source in (
            ("missing", {"persistentVolumeClaim": {"claimName": "none"}}),
            ("unknown", {"csi": {"driver": "gone.example"}}),
            ("projected", {"projected": {"sources": [{"secret": {"name": "none"}}]}}),
        ):
            spec = {
                "containers": [{"name": "c", "image": "a", **mounts}],
                "volumes": [{"name": "v", **source}],
            }
            c.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        await c.run_for("30s")
        assert [pod["status"]["phase"] for pod in c.list("pods")] == ["Pending"] * 3
        assert '1 persistentvolumeclaim "none" not found' in texts(c, "missing", "FailedScheduling")[0]
        assert "driver name gone.example not found in the list" in texts(c, "unknown", "FailedMount")[0]
        text = 'MountVolume.SetUp failed for volume "v" : secret "none" not found'
        assert texts(c, "projected", "FailedMount")[0] == text
