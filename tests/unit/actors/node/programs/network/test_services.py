"""Where packets to virtual addresses go."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.programs.network.services import Route, route
from sim.api.types import Obj
from tests.unit.actors.node.programs.network.town import Town, endpoint, service, slice_of

TWO = slice_of(
    endpoint("10.244.0.2", nodeName="n1", hints={"forZones": [{"name": "a"}]}),
    endpoint("10.244.1.2", nodeName="n2", hints={"forZones": [{"name": "b"}]}),
    endpoint("10.244.1.3", ready=False, nodeName="n2"),
)


def go(one: Obj, host: str = "10.96.0.80", port: int = 80, *slices: Obj, **where: Any) -> Route | None:
    return route(
        [one], lambda _: slices or [TWO], host, port, where.pop("protocol", "TCP"), Town.names, **where
    )


def hosts(found: Route | None) -> list[str]:
    assert found is not None
    return [one.host for one in found.endpoints]


def test_only_ready_endpoints_are_behind_a_cluster_ip() -> None:
    found = go(service("web"))
    assert hosts(found) == ["10.244.0.2", "10.244.1.2"]
    assert found is not None
    assert (found.endpoints[0].port, found.masked, found.affinity_s) == (8080, False, 0)


def test_other_ports_protocols_and_addresses_are_not_virtual() -> None:
    assert go(service("web"), port=81) is None
    assert go(service("web"), protocol="UDP") is None
    assert go(service("web"), "10.96.0.81") is None
    assert go(service("web", "None"), "None") is None
    assert go(service("web", labels={Town.names.label_proxy_name: "x"})) is None


def test_without_an_endpoint_a_packet_is_rejected_and_with_far_ones_only_dropped() -> None:
    assert go(service("web"), "10.96.0.80", 80, slice_of()) == Route(("default", "web", "http"))
    near = service("web", internalTrafficPolicy="Local")
    assert hosts(go(near, node="n1")) == ["10.244.0.2"]
    found = go(near, node="n3")
    assert found is not None
    assert (found.endpoints, found.dropped) == ((), True)


@pytest.mark.parametrize(("annotation", "zone", "wanted"), [
    ("auto", "a", ["10.244.0.2"]), ("Auto", "b", ["10.244.1.2"]), ("auto", "c", ["10.244.0.2", "10.244.1.2"]),
    ("", "a", ["10.244.0.2", "10.244.1.2"]), ("auto", "", ["10.244.0.2", "10.244.1.2"]),
])  # fmt: skip
def test_hints_count_if_the_service_asks_for_them(annotation: str, zone: str, wanted: list[str]) -> None:
    one = service("web", annotations={Town.names.annotation_topology_hints: annotation})
    assert hosts(go(one, zone=zone)) == wanted


def test_node_ports_and_external_addresses_lead_to_the_same_endpoints_masked() -> None:
    ports = [{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"}]
    one = service("web", ports=ports, type="NodePort", externalIPs=["203.0.113.7"])
    for host, port, is_node in (("192.168.0.1", 30080, True), ("203.0.113.7", 80, False)):
        found = go(one, host, port, node_address=is_node)
        assert hosts(found) == ["10.244.0.2", "10.244.1.2"]
        assert found is not None
        assert found.masked
    assert go(one, "192.168.0.1", 30080) is None
    one["spec"]["externalTrafficPolicy"] = "Local"
    found = go(one, "192.168.0.1", 30080, node_address=True)
    assert found is not None
    assert not found.masked


def test_session_affinity_lasts_three_hours_or_as_the_service_says() -> None:
    found = go(service("web", sessionAffinity="ClientIP"))
    assert found is not None
    assert found.affinity_s == 10800
    config = {"clientIP": {"timeoutSeconds": 5}}
    found = go(service("web", sessionAffinity="ClientIP", sessionAffinityConfig=config))
    assert found is not None
    assert found.affinity_s == 5
