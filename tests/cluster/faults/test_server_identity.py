"""Identities of API servers, and what they register about their storage."""

from __future__ import annotations

from typing import Any

from sim.app.cluster import Cluster
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan

GATES = {"feature-gates": "APIServerIdentity=true,StorageVersionAPI=true"}
SERVED = {"runtime-config": "internal.apiserver.orch.io/v1alpha1=true"}


def servers(cluster: Cluster) -> list[str]:
    """Names of the leases of servers."""
    leases = cluster.list("leases", "orch-system")
    return [one["metadata"]["name"] for one in leases if one["metadata"].get("labels")]


def known(cluster: Cluster, name: str) -> list[str]:
    status = (cluster.get("storageversions", name) or {})["status"]
    return sorted(each["apiServerID"] for each in status["storageVersions"])


async def test_server_that_is_gone_leaves_its_lease_for_an_hour_and_then_no_version() -> None:
    plan = ClusterPlan(
        api_server=ComponentPlan(2, {**GATES, **SERVED}),
        controller_manager=ComponentPlan(flags={**GATES, "controllers": "storage-version-gc"}),
        scheduler=ComponentPlan(0),
    )
    async with Cluster(plan) as cluster:
        await cluster.run_for("30s")
        both = servers(cluster)
        assert len(both) == 2 and len(cluster.list("storageversions")) == 48
        assert known(cluster, "core.pods") == sorted(both)
        orphan = {"metadata": {"name": "a.b"}, "apiVersion": "internal.apiserver.orch.io/v1alpha1"}
        cluster.apply({**orphan, "kind": "StorageVersion", "spec": {}})
        await cluster.run_for("1s")
        version = {"apiServerID": "gone", "encodingVersion": "v1", "decodableVersions": ["v1"]}
        body: Any = {"status": {"storageVersions": [version], "commonEncodingVersion": "v1"}}
        merge = "application/merge-patch+json"
        said = cluster.request(
            "patch", "storageversions", "", "a.b", subresource="status", body=body, content_type=merge
        )
        assert said.ok, said.message
        await cluster.run_for("5s")
        assert cluster.get("storageversions", "a.b") is None  # its only server has no lease
        cluster.supervisor["apiserver-1"].crash()
        await cluster.run_for("59m")
        assert servers(cluster) == both
        await cluster.run_for("62m")
        (left,) = servers(cluster)
        assert known(cluster, "core.pods") == [left]


async def test_resources_wait_for_a_registration_that_cannot_be_made() -> None:
    plan = ClusterPlan(
        api_server=ComponentPlan(1, GATES), controller_manager=ComponentPlan(0), scheduler=ComponentPlan(0)
    )
    async with Cluster(plan) as cluster:
        await cluster.run_for("20s")
        body = {"metadata": {"name": "x"}}
        refused = cluster.request("create", "configmaps", "default", body=body)
        assert (refused.code, refused.reason) == (503, "ServiceUnavailable")
        wait = "wait for storage version registration to complete for resource: "
        last = "the server could not find the requested resource (post storageversions.internal.apiserver.orch.io)"
        assert refused.message == f"{wait}configmaps, last seen error: {last}"
        late = cluster.request("create", "jobs", "default", body=body)
        assert late.message == f"{wait}jobs.batch, last seen error: <nil>"
        assert cluster.request("get", "configmaps", "default", "x").code == 404
        assert len(servers(cluster)) == 1
