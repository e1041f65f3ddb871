"""Both endpoint controllers and the disruption controller against the real API server."""

from __future__ import annotations

import pytest

from sim.api.types import Obj
from sim.units import MS, SECOND
from tests.actor.controllers.workload import POD_SPEC, World, workload, world

LOOPS = ("endpoint", "endpointslice")


def pod(name: str, node: str = "n1", **labels: str) -> Obj:
    return {
        "metadata": {"name": name, "labels": {"app": "a", **labels}},
        "spec": {**POD_SPEC, "nodeName": node},
    }


def service(**spec: object) -> Obj:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {
        "metadata": {"name": "s", "labels": {"svc": "lab"}},
        "spec": {"ports": ports, "selector": {"app": "a"}, **spec},
    }


async def start(w: World, *pods: str) -> None:
    await w.create("nodes", {"metadata": {"name": "n1"}}, "")
    for index, name in enumerate(pods):
        await w.create("pods", pod(name))
        await w.make_ready(name, ip=f"10.9.1.{index + 1}")


async def ready_ips(w: World) -> list[str]:
    pieces = await w.stored("endpointslices")
    return [
        e["addresses"][0]
        for piece in pieces
        for e in piece.get("endpoints") or ()
        if e["conditions"]["ready"]
    ]


async def test_ready_pods_are_in_endpoints_and_slice() -> None:
    async with world(LOOPS) as w:
        await start(w, "p1", "p2")
        await w.make_ready("p2", ready=False, ip="10.9.1.2")
        await w.create("services", service())
        await w.settle()
        (subset,) = (await w.get("endpoints", "s"))["subsets"]
        assert [a["ip"] for a in subset["addresses"]] == ["10.9.1.1"]
        assert [a["ip"] for a in subset["notReadyAddresses"]] == ["10.9.1.2"]
        assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        (piece,) = await w.stored("endpointslices")
        names = w.plane.server.scheme.names
        assert piece["metadata"]["labels"] == {
            "svc": "lab",
            names.label_service_name: "s",
            names.label_managed_by: names.managed_by_endpointslice_controller,
        }
        assert piece["metadata"]["ownerReferences"][0]["kind"] == "Service"
        assert await ready_ips(w) == ["10.9.1.1"]


async def test_unready_pod_leaves_the_ready_endpoints_within_a_second() -> None:
    async with world(LOOPS) as w:
        await start(w, "p1")
        await w.create("services", service())
        await w.settle()
        await w.make_ready("p1", ready=False, ip="10.9.1.1")
        await w.settle(500 * MS)
        assert await ready_ips(w) == []
        assert "addresses" not in (await w.get("endpoints", "s"))["subsets"][0]


async def test_terminating_pod_is_serving_in_its_slice_and_not_in_endpoints() -> None:
    async with world(LOOPS) as w:
        await start(w, "p1")
        await w.create("services", service())
        await w.settle()
        await w.patch("pods", "p1", {"metadata": {"finalizers": ["x.io/hold"]}})
        await w.delete("pods", "p1")
        await w.settle()
        (piece,) = await w.stored("endpointslices")
        wanted = {"ready": False, "serving": True, "terminating": True}
        assert piece["endpoints"][0]["conditions"] == wanted
        assert not (await w.get("endpoints", "s")).get("subsets")


async def test_service_without_pods_has_one_empty_slice_that_is_reused() -> None:
    async with world(LOOPS) as w:
        await start(w)
        await w.create("services", service())
        await w.settle()
        (empty,) = await w.stored("endpointslices")
        assert (empty["endpoints"], empty["ports"]) == (None, None)  # as decoded from protobuf
        await w.create("pods", pod("p1"))
        await w.make_ready("p1", ip="10.9.1.1")
        await w.settle()
        (piece,) = await w.stored("endpointslices")
        assert piece["metadata"]["name"] == empty["metadata"]["name"]
        assert await ready_ips(w) == ["10.9.1.1"]


async def test_deleted_slice_is_recreated_after_a_second() -> None:
    async with world(LOOPS) as w:
        await start(w, "p1")
        await w.create("services", service())
        await w.settle()
        (name,) = await w.names("endpointslices")
        await w.delete("endpointslices", name)
        await w.settle(500 * MS)
        assert await w.stored("endpointslices") == []
        await w.settle(1 * SECOND)
        assert await ready_ips(w) == ["10.9.1.1"]


async def test_endpoints_are_deleted_with_their_service() -> None:
    async with world(LOOPS) as w:
        await start(w, "p1")
        await w.create("services", service())
        await w.settle()
        await w.delete("services", "s")
        await w.settle()
        assert await w.stored("endpoints") == []


async def test_pod_on_unknown_node_is_left_out_until_the_node_exists() -> None:
    async with world(LOOPS) as w:
        await start(w, "p1")
        await w.create("pods", pod("p2", node="n2"))
        await w.make_ready("p2", ip="10.9.1.2")
        await w.create("services", service())
        await w.settle(500 * MS)
        assert await ready_ips(w) == ["10.9.1.1"]
        await w.create("nodes", {"metadata": {"name": "n2"}}, "")
        await w.settle(10 * SECOND)
        assert sorted(await ready_ips(w)) == ["10.9.1.1", "10.9.1.2"]


async def test_budget_counts_the_scale_of_the_controller_and_its_ready_pods() -> None:
    async with world(("replicaset", "disruption")) as w:
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=4))
        budget = {
            "metadata": {"name": "b"},
            "spec": {"maxUnavailable": "34%", "selector": {"matchLabels": {"app": "web"}}},
        }
        await w.settle()
        await w.create("poddisruptionbudgets", budget)
        await w.settle()
        await w.make_all_ready()
        await w.settle()
        status = (await w.get("poddisruptionbudgets", "b"))["status"]
        counts = {
            k: status[k] for k in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
        }
        # 34% of 4 rounds up to 2
        assert counts == {
            "expectedPods": 4,
            "desiredHealthy": 2,
            "currentHealthy": 4,
            "disruptionsAllowed": 2,
        }
        assert status["conditions"][0]["reason"] == "SufficientPods"


async def test_pod_without_node_breaks_its_endpoints_and_not_its_slice() -> None:
    async with world(LOOPS) as w:
        await start(w, "p1")
        loose = pod("p2")
        del loose["spec"]["nodeName"]
        await w.create("pods", loose)
        await w.make_ready("p2", ip="10.9.1.2")
        await w.create("services", service())
        await w.settle()
        assert await w.names("endpoints") == []
        assert "FailedToCreateEndpoint" in [reason for reason, _ in await w.events("s")]
        assert await ready_ips(w) == ["10.9.1.1"]


async def test_external_name_service_with_selector_has_endpoints() -> None:
    async with world(LOOPS) as w:
        await start(w, "p1")
        await w.create("services", service(type="ExternalName", externalName="example.com"))
        await w.settle()
        (subset,) = (await w.get("endpoints", "s"))["subsets"]
        assert [a["ip"] for a in subset["addresses"]] == ["10.9.1.1"]
        assert sorted(p["addressType"] for p in await w.stored("endpointslices")) == ["IPv4", "IPv6"]


async def test_rejected_slice_is_reported_and_retried() -> None:
    async with world(LOOPS) as w:
        await start(w, "p1")
        await w.create("services", service())
        await w.settle()
        w.quota.refuse_once("update", "endpointslices", 500, "InternalError", "no")
        await w.make_ready("p1", ready=False, ip="10.9.1.1")
        await w.settle()
        reported = [text for reason, text in await w.events("s") if reason == "FailedToUpdateEndpointSlices"]
        (name,) = await w.names("endpointslices")
        text = f"failed to update {name} EndpointSlice for Service default/s: no"
        assert reported == [f"Error updating Endpoint Slices for Service default/s: {text}"]
        assert await ready_ips(w) == []


@pytest.mark.slow
async def test_foreign_change_of_endpoints_stays_until_the_service_is_resynced() -> None:
    """The resync comes 12 to 24 hours after the start; own changes of Endpoints queue no key."""
    async with world(LOOPS) as w:
        await start(w, "p1")
        await w.create("services", service())
        await w.settle()
        right = (await w.get("endpoints", "s"))["subsets"]
        await w.patch("endpoints", "s", {"subsets": None})
        began_us = w.kernel.now_us
        await w.settle(12 * 3600 * SECOND - began_us)
        assert "subsets" not in await w.get("endpoints", "s")
        await w.settle(12 * 3600 * SECOND + 10 * SECOND)
        assert (await w.get("endpoints", "s"))["subsets"] == right
