"""The clusters of `--like`: everything that they bring along is ready after the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.api.objects import condition_status
from sim.app.cli.main import main
from sim.app.cluster import Cluster
from sim.app.reference.shipped import DISTRIBUTIONS, distribution
from sim.app.serving.journal import Session
from sim.app.timetable import begin

CLAIMING = [
    {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"},
        "spec": {
            "containers": [{"name": "c", "image": "db", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    },
]  # fmt: skip


@pytest.mark.slow
async def test_everything_of_a_small_distribution_is_ready_after_the_start() -> None:
    assert DISTRIBUTIONS == ("small-distribution",)
    plan = Session(str(distribution("small-distribution")), nodes=3).plan()
    async with Cluster(plan.cluster) as cluster:
        begin(cluster, plan)
        await cluster.run_until("1m")
        assert cluster.refused == ()
        pods = cluster.list("pods")
        assert [condition_status(pod, "Ready") for pod in pods] == ["True"] * 7
        deployments = cluster.list("deployments")
        assert [one["metadata"]["name"] for one in deployments] == ["welcome", "controller", "coredns"]
        assert {condition_status(one, "Available") for one in deployments} == {"True"}
        assert [one["status"]["numberReady"] for one in cluster.list("daemonsets")] == [3]
        services = cluster.list("apiservices")
        assert {condition_status(one, "Available") for one in services} == {"True"}
        assert "v1beta1.metrics.k8s.io" in [one["metadata"]["name"] for one in services]
        dns = cluster.get("services", "kube-dns", "kube-system")
        assert dns is not None
        assert dns["spec"]["clusterIP"] == "10.0.0.10"
        ingress = cluster.get("ingresses", "welcome")
        assert ingress is not None
        assert ingress["spec"]["ingressClassName"] == "nginx"
        cluster.apply(*CLAIMING)
        await cluster.run_until("2m")
        claim, pod = cluster.get("persistentvolumeclaims", "data"), cluster.get("pods", "db")
        assert claim is not None
        assert pod is not None
        assert (claim["status"]["phase"], pod["status"]["phase"]) == ("Bound", "Running")


def test_distribution_beside_a_scenario_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text("")
    assert main(["serve", str(tmp_path / "mine.yaml"), "--like", "small-distribution"]) == 2
    assert "--like: is a cluster of its own (leave out the scenario)" in capsys.readouterr().err
