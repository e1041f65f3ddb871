"""The service controller, which has the cloud make load balancers."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.controllers.clouds import StatedCloud
from tests.actor.controllers.workload import World, world

FINALIZER = SCHEME.names.finalizer_balancer_cleanup
OF_CLOUD: dict[str, Any] = {"cloud_provider": "orrery"}


def service(name: str, type: str = "LoadBalancer", **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"type": type, "ports": [{"port": 80}], **spec}}


async def add_node(w: World, name: str, ready: bool = True, **meta: Any) -> None:
    await w.plane.ask("create", "nodes", body={"metadata": {"name": name, **meta}})
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "reason": "r", "message": "m"}]
    body = {"status": {"conditions": conditions}}
    kind = SCHEME.names.media_merge_patch
    reply = await w.plane.ask("patch", "nodes", "", name, body=body, content_type=kind, subresource="status")
    assert reply.ok, reply.message


def shown(service: Obj) -> list[str]:
    return [one["ip"] for one in service["status"]["loadBalancer"].get("ingress", [])]


async def reasons(w: World, name: str) -> list[str]:
    return [reason for reason, _ in await w.events(name)]


async def test_load_balancer_is_made_changed_and_deleted_with_its_service() -> None:
    cloud = StatedCloud()
    async with world(("service",), cloud=cloud, **OF_CLOUD) as w:
        await add_node(w, "a")
        await add_node(w, "b", ready=False)
        await w.create("services", service("web"))
        await w.create("services", service("own", loadBalancerClass="example.com/x"))
        await w.settle()
        web = await w.get("services", "web")
        (balancer,) = cloud.networks.balancers.values()
        assert shown(web) == [balancer.address]
        assert web["metadata"]["finalizers"] == [FINALIZER]
        assert (balancer.owner, balancer.nodes, balancer.ports) == ("orch", ("a",), (("TCP", 80),))
        assert await w.events("web") == [
            ("EnsuringLoadBalancer", "Ensuring load balancer"),
            ("EnsuredLoadBalancer", "Ensured load balancer"),
        ]
        await w.patch("services", "web", {"spec": {"ports": [{"port": 81}]}})
        await w.settle()
        assert balancer.ports == (("TCP", 81),)
        await w.delete("services", "web")
        await w.settle()
        assert [s["metadata"]["name"] for s in await w.stored("services")][-1] == "own"
        assert not cloud.networks.balancers
        assert (await reasons(w, "web"))[-2:] == ["DeletingLoadBalancer", "DeletedLoadBalancer"]


async def test_changed_type_takes_the_load_balancer_away() -> None:
    cloud = StatedCloud()
    async with world(("service",), cloud=cloud, **OF_CLOUD) as w:
        await w.create("services", service("web"))
        await w.settle()
        assert "UnAvailableLoadBalancer" in await reasons(w, "web")
        await w.patch("services", "web", {"spec": {"type": "ClusterIP"}})
        await w.settle()
        web = await w.get("services", "web")
        assert (shown(web), web["metadata"].get("finalizers")) == ([], None)
        assert ("Type", "LoadBalancer -> ClusterIP") in await w.events("web")
        assert not cloud.networks.balancers


async def test_changed_nodes_reach_every_load_balancer_and_failures_are_repeated() -> None:
    cloud = StatedCloud()
    async with world(("service",), cloud=cloud, **OF_CLOUD) as w:
        await add_node(w, "a")
        await w.create("services", service("web"))
        await w.settle()
        (balancer,) = cloud.networks.balancers.values()
        cloud.outages.append(("load-balancers",))
        await add_node(w, "b")
        await w.settle()
        assert balancer.nodes == ("a",)
        failed = [text for reason, text in await w.events("web") if reason == "UpdateLoadBalancerFailed"]
        assert failed[:1] == ["Error updating load balancer with new hosts [a b]: the cloud does not answer"]
        cloud.outages.clear()
        await w.settle(100 * SECOND)  # the next pass over nodes
        assert balancer.nodes == ("a", "b")
        await add_node(w, "c", labels={SCHEME.names.label_exclude_balancers: ""})
        await w.settle()
        assert balancer.nodes == ("a", "b")


async def test_failing_cloud_is_asked_again_after_a_doubled_delay() -> None:
    cloud = StatedCloud()
    cloud.quotas.append(0)
    async with world(("service",), cloud=cloud, **OF_CLOUD) as w:
        await w.create("services", service("web"))
        await w.settle(17 * SECOND)
        text = (
            "Error syncing load balancer: failed to ensure load balancer: "
            "quota of load balancers exceeded: limit 0"
        )
        assert ("SyncLoadBalancerFailed", text) in await w.events("web")
        cloud.quotas.clear()
        await w.settle(17 * SECOND)  # tries after 0, 5 and 15 s; the next is after 35 s
        assert not cloud.networks.balancers
        await w.settle(3 * SECOND)
        assert cloud.networks.balancers


@pytest.mark.parametrize(("workers", "made"), [(1, 1), (3, 3)])
async def test_concurrent_syncs_limit_how_many_services_wait_for_the_cloud(workers: int, made: int) -> None:
    cloud = StatedCloud()
    cloud.slow.append((("load-balancers",), 10 * SECOND))
    async with world(("service",), cloud=cloud, concurrent_service_syncs=workers, **OF_CLOUD) as w:
        for name in ("a", "b", "c"):
            await w.create("services", service(name))
        await w.settle(12 * SECOND)
        assert len(cloud.networks.balancers) == made
