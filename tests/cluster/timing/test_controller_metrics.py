"""What controllers count of their syncs, and what they show of the present state.

To see it fail: leave out the call that counts, for example `_count_sync` of the Job controller.
"""

from __future__ import annotations

from typing import Any

from sim.app.cluster import Cluster
from sim.app.measured.components import ComponentMetrics

RUNS = {"name": "c", "image": "i", "command": ["sleep", "infinity"]}
POD = {"spec": {"restartPolicy": "Never", "containers": [RUNS]}}


def job(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": POD, **spec},
    }


def objects() -> list[dict[str, Any]]:
    meta = {"metadata": {"name": "web"}}
    service = {"apiVersion": "v1", "kind": "Service", **meta}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector = {"matchLabels": labels}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "hostPath": {"path": "/x"}}
    subsets = [{"addresses": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}], "ports": [{"port": 80}]}]
    return [
        {**service, "spec": {"selector": labels, "ports": [{"port": 80}]}},
        {**service, "metadata": {"name": "bare"}, "spec": {"ports": [{"port": 80}]}},
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "bare"}, "subsets": subsets},
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            **meta,
            "spec": {"replicas": 3, "selector": selector, "template": template},
        },
        job("done", ttlSecondsAfterFinished=10),
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "often"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job("x")["spec"]}},
        },
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": claim},
    ]


def check_slices(metrics: ComponentMetrics) -> None:
    value, own = metrics.value, "endpoint_slice_controller_"
    assert value(f"{own}changes", operation="create") >= 1
    assert value(f"{own}syncs", result="success") >= 1
    assert value(f"{own}endpoints_added_per_sync_sum") == 3
    assert value(f"{own}endpoints_removed_per_sync_sum") == 0
    assert value(f"{own}endpoints_desired") == 3
    assert value(f"{own}num_endpoint_slices") == value(f"{own}desired_endpoint_slices") >= 1
    mirrored = "endpoint_slice_mirroring_controller_"
    assert value(f"{mirrored}changes", operation="create") >= 1
    assert value(f"{mirrored}endpoints_added_per_sync_sum") >= 2
    assert value(f"{mirrored}endpoints_sync_duration_count") >= 1
    assert value(f"{mirrored}endpoints_desired") >= 2


async def test_controllers_count_their_syncs_and_show_what_they_keep() -> None:
    async with Cluster(nodes=2, seed=1, naming="kubernetes") as cluster:
        metrics = cluster.metrics()
        value = metrics.value
        await cluster.run_for("10s")
        for each in objects():
            cluster.apply(each)
        await cluster.run_for("15s")
        check_slices(metrics)
        jobs = "job_controller_"
        labels = {"completion_mode": "NonIndexed"}
        assert value(f"{jobs}job_sync_total", action="pods_created", result="success", **labels) == 1
        pod = next(pod for pod in cluster.list("pods") if pod["metadata"]["name"].startswith("done"))
        body = {"status": {"phase": "Succeeded"}}
        reply = cluster.request(
            "patch",
            "pods",
            "default",
            pod["metadata"]["name"],
            subresource="status",
            body=body,
            content_type="application/merge-patch+json",
        )
        assert reply.code == 200
        await cluster.run_for("70s")
        assert value(f"{jobs}job_finished_total", result="succeeded", **labels) == 1
        assert value(f"{jobs}job_pods_finished_total", result="succeeded", **labels) == 1
        assert value(f"{jobs}job_pods_finished_total", result="failed", **labels) == 0
        assert value("ttl_after_finished_controller_job_deletion_duration_seconds_count") == 1
        assert value("cronjob_controller_cronjob_job_creation_skew_duration_seconds_count") >= 1
        plugin = {"plugin_name": "kubernetes.io/host-path", "volume_mode": "Filesystem"}
        assert value("pv_collector_total_pv_count", **plugin) == 1
        assert value("pv_collector_bound_pv_count", storage_class="") == 1
        assert value("pv_collector_bound_pvc_count", namespace="default") == 1
        assert value("workqueue_adds_total", name="endpoint_slice") > 0
        assert value("workqueue_adds_total", name="endpointslice") == 0
        ratios = "replicaset_controller_sorting_deletion_age_ratio"
        before = value(f"{ratios}_count")
        cluster.request(
            "patch",
            "replicasets",
            "default",
            "web",
            body={"spec": {"replicas": 1}},
            content_type="application/merge-patch+json",
        )
        await cluster.run_for("5s")
        assert value(f"{ratios}_count") == before + 2
        assert value(f"{ratios}_sum") == 2
        assert value("endpoint_slice_controller_endpoints_removed_per_sync_sum") == 2
