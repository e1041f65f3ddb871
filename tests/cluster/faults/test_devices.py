"""Machines with a topology and devices in a whole cluster, from the scenario's file on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim import Cluster, load
from sim.errors import InputError, InputErrors

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: s}
spec:
  duration: 3m
  cluster:
    naming: kubernetes
    established: %s
    nodes:
      - count: 1
        capacity: {cpu: 8, memory: 16Gi}
        topology: {sockets: 2, numaNodes: 2, threadsPerCore: 2}
        devices: [{resource: example.com/gpu, count: 4, numa: [0, 0, 1, 1], env: GPUS, registerAfter: 2s}]
        flags: {cpu-manager-policy: static, kube-reserved: cpu=1, topology-manager-policy: single-numa-node}
  objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}]
  timeline:
    - {at: 30s, devices: {nodes: {}, resource: example.com/gpu, ids: [dev-0, dev-3]}, for: 1m}
  expect: [{name: the node is ready, eventually: "each nodes have Ready=True"}]
"""


def pod(name: str, gpus: int) -> dict[str, object]:
    limits = {"cpu": "2", "memory": "1Gi", "example.com/gpu": str(gpus)}
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sh", "-c", "echo $GPUS; nproc; sleep 1000"],
        "resources": {"limits": limits},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


@pytest.mark.slow
@pytest.mark.parametrize("established", ["false", "true"])
async def test_devices_are_scheduled_allocated_and_break(established: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO % established)
    plan = load(file)
    async with Cluster(plan.cluster) as cluster:
        await cluster.run_for("1s")
        if established == "true":
            amounts = (cluster.get("nodes", "node-0") or {})["status"]["allocatable"]
            assert amounts["example.com/gpu"] == "4"
        await cluster.run_for("20s")
        cluster.apply(pod("a", 2), pod("b", 1))
        await cluster.run_for("20s")
        found = {one["metadata"]["name"]: one for one in cluster.list("pods")}
        assert {name: one["status"]["phase"] for name, one in found.items()} == {
            "a": "Running",
            "b": "Running",
        }
        held = cluster.nodes["node-0"].machine.allocations
        names = {one["metadata"]["uid"]: name for name, one in found.items()}
        devices = {names[uid]: each["c"]["example.com/gpu"] for uid, each in held.devices.items()}
        assert devices == {"a": ("dev-0", "dev-1"), "b": ("dev-2",)}
        cluster.nodes["node-0"].break_devices("example.com/gpu", ("dev-3",))
        await cluster.run_for("20s")
        cluster.apply(pod("c", 1))
        await cluster.run_for("10s")
        assert (cluster.get("nodes", "node-0") or {})["status"]["allocatable"]["example.com/gpu"] == "3"
        assert (cluster.get("pods", "c") or {})["status"]["phase"] == "Pending"


def test_wrong_devices_and_topologies_are_named_with_their_places(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    text = (SCENARIO % "false").replace("sockets: 2", "sockets: 3").replace("count: 4", "count: 4, ids: [x]")
    file.write_text(text)
    with pytest.raises(InputErrors) as errors:
        load(file)
    assert [one.message for one in errors.value.errors] == [
        "8 processors cannot be divided into 3 equal parts of cores with 2 threads",
        "devices have either a count or ids",
    ]


@pytest.mark.slow
async def test_a_step_disconnects_a_plugin_until_its_end(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    broken = "ids: [dev-0, dev-3]}"
    file.write_text((SCENARIO % "false").replace(broken, "how: disconnected}"))
    plan = load(file)
    async with Cluster(plan.cluster) as cluster:

        def gpus() -> tuple[str, str]:
            status = (cluster.get("nodes", "node-0") or {})["status"]
            return status["capacity"]["example.com/gpu"], status["allocatable"]["example.com/gpu"]

        await cluster.run_for("25s")
        cluster.do.devices(nodes={}, resource="example.com/gpu", how="disconnected", for_="20s")
        await cluster.run_for("15s")
        assert gpus() == ("4", "0")
        await cluster.run_for("25s")
        assert gpus() == ("4", "4")
    file.write_text((SCENARIO % "false").replace(broken, "ids: [dev-0], how: disconnected}"))
    with pytest.raises(InputError, match="a plug-in ends with all of its devices"):
        load(file)
