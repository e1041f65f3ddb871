"""Claims and volumes that are deleted while they are in use, or while no controller runs."""

from __future__ import annotations

from sim.api.types import Obj
from sim.app.cluster import Cluster

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"


def claim(**spec: str) -> Obj:
    size = {"requests": {"storage": "1Gi"}}
    whole = {"accessModes": ["ReadWriteOnce"], "resources": size, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": whole}


def pod() -> Obj:
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]
    spec = {"containers": [{"name": "c", "image": "i:1"}], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def is_going(cluster: Cluster, resource: str, name: str, namespace: str = "default") -> bool:
    found = cluster.get(resource, name, namespace)
    assert found is not None
    return "deletionTimestamp" in found["metadata"]


async def test_claim_of_a_running_pod_outlives_its_deletion_and_a_crash() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(claim(), pod())
        await cluster.run_for("1m")
        assert cluster.request("delete", CLAIMS, "default", "c").ok
        manager = cluster.supervisor["controller-manager-0"]
        manager.crash()
        assert cluster.request("delete", "pods", "default", "p").ok
        await cluster.run_for("1m")
        assert cluster.get("pods", "p") is None
        assert is_going(cluster, CLAIMS, "c")
        manager.start()
        await cluster.run_for("1m")
        assert cluster.get(CLAIMS, "c") is None


async def test_unbound_volume_goes_when_the_controller_manager_is_back() -> None:
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/x"},
        },
    }
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(volume)
        await cluster.run_for("10s")
        manager = cluster.supervisor["controller-manager-0"]
        manager.crash()
        assert cluster.request("delete", VOLUMES, "", "v").ok
        await cluster.run_for("10s")
        assert is_going(cluster, VOLUMES, "v", "")
        manager.start()
        await cluster.run_for("1m")
        assert cluster.get(VOLUMES, "v", "") is None


async def test_claim_gets_the_default_class_that_exists_when_it_is_created() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        names = cluster.names
        annotations = {names.annotation_default_storage_class: "true"}
        cluster.apply(
            {
                "apiVersion": names.api_version("storage", "v1"),
                "kind": "StorageClass",
                "metadata": {"name": "standard", "annotations": annotations},
                "provisioner": "example.com/p",
            }
        )
        cluster.apply(claim())
        await cluster.run_for("5s")
        found = cluster.get(CLAIMS, "c")
        assert found is not None
        assert found["spec"]["storageClassName"] == "standard"
