"""The route controller, which has the cloud make routes to the pods of nodes."""

from __future__ import annotations

from typing import Any

from actors.controllers.route import compare
from actors.controllers.shared.cloud import Refused, Route
from sim.options.controllers.networks import network
from sim.units import SECOND
from tests.actor.controllers.clouds import StatedCloud
from tests.actor.controllers.test_nodeipam import add
from tests.actor.controllers.workload import World, world

OF_CLOUD: dict[str, Any] = {
    "cloud_provider": "orrery",
    "allocate_node_cidrs": True,
    "cluster_cidr": "10.0.0.0/16",
    "cluster_name": "blue",
}


class RefusingCloud(StatedCloud):
    """A cloud that makes no route while `refuses` is set."""

    refuses = True

    def create_route(self, cluster: str, hint: str, node: str, cidr: str) -> Refused | None:
        return Refused("no room") if self.refuses else super().create_route(cluster, hint, node, cidr)


async def network_of(w: World, name: str) -> tuple[str, str]:
    node = (await w.plane.ask("get", "nodes", "", name)).obj
    found = {c["type"]: (c["status"], c["reason"]) for c in node["status"]["conditions"]}
    return found["NetworkUnavailable"]


def test_routes_outside_of_the_cluster_are_left_alone() -> None:
    routes = [
        Route("x", "gone", "10.0.1.0/24"),
        Route("y", "gone", "192.168.0.0/24"),
        Route("z", "a", "10.0.2.0/24"),
    ]
    found = compare({"a": ("10.0.2.0/24",), "b": ("10.0.3.0/24",)}, routes, [network("10.0.0.0/16")])
    assert found.missing == [("b", "10.0.3.0/24")]
    assert [route.name for route in found.surplus] == ["x"]


async def test_each_node_gets_a_route_and_shows_it() -> None:
    cloud = StatedCloud()
    async with world(("route",), cloud=cloud, **OF_CLOUD) as w:
        await add(w, "a", podCIDRs=["10.0.0.0/24"])
        await add(w, "b")
        await w.settle(11 * SECOND)
        uid = (await w.plane.ask("get", "nodes", "", "a")).obj["metadata"]["uid"]
        assert cloud.networks.routes == {f"blue-{uid}": ("blue", "a", "10.0.0.0/24")}
        assert await network_of(w, "a") == ("False", "RouteCreated")
        assert await network_of(w, "b") == ("True", "NoRouteCreated")
        await w.plane.ask("delete", "nodes", "", "a")
        await w.settle(11 * SECOND)
        assert not cloud.networks.routes


async def test_failing_route_is_shown_and_made_in_a_later_period() -> None:
    cloud = RefusingCloud()
    async with world(("route",), cloud=cloud, route_reconciliation_period_us=30 * SECOND, **OF_CLOUD) as w:
        await add(w, "a", podCIDRs=["10.0.0.0/24"])
        await w.settle(31 * SECOND)
        assert await network_of(w, "a") == ("True", "NoRouteCreated")
        reason, text = (await w.events("a"))[0]
        assert reason == "FailedToCreateRoute"
        assert text.startswith("Could not create route ") and text.endswith(": no room")
        cloud.refuses = False
        await w.settle(20 * SECOND)
        assert not cloud.networks.routes
        await w.settle(11 * SECOND)
        assert cloud.networks.routes
        assert await network_of(w, "a") == ("False", "RouteCreated")
