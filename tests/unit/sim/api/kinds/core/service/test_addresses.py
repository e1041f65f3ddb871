"""Addresses and ports of Services."""

from __future__ import annotations

from typing import Any

from sim.api.types import Reply
from tests.unit.sim.api.golden_api import Api

PATH = "/api/v1/namespaces/golden-ns/services"


def made(api: Api, **spec: Any) -> Reply:
    ports = [{"name": "a", "port": 80}]
    return api.ask("POST", PATH, {"metadata": {"name": "s"}, "spec": {"ports": ports, **spec}})


def changed(api: Api, **spec: Any) -> Reply:
    return api.ask("PATCH", f"{PATH}/s", {"spec": spec}, "application/merge-patch+json")


def test_a_change_of_type_clears_what_only_the_old_type_needs() -> None:
    api = Api()
    service = made(api, type="LoadBalancer", externalTrafficPolicy="Local").obj["spec"]
    assert service["healthCheckNodePort"] and service["ports"][0]["nodePort"]
    kept = changed(api, type="NodePort").obj["spec"]
    assert kept["ports"] == service["ports"] and kept["clusterIP"] == service["clusterIP"]
    assert "healthCheckNodePort" not in kept and "allocateLoadBalancerNodePorts" not in kept
    plain = changed(api, type="ClusterIP").obj["spec"]
    assert "nodePort" not in plain["ports"][0] and "externalTrafficPolicy" not in plain
    outside = changed(api, type="ExternalName", externalName="example.com").obj["spec"]
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "internalTrafficPolicy"} & outside.keys()


def test_a_load_balancer_may_do_without_node_ports() -> None:
    spec = made(Api(), type="LoadBalancer", allocateLoadBalancerNodePorts=False).obj["spec"]
    assert "nodePort" not in spec["ports"][0]


def test_a_second_family_is_not_configured_here() -> None:
    api = Api()
    assert made(api, ipFamilyPolicy="RequireDualStack").message == (
        'Service "s" is invalid: spec.ipFamilyPolicy: Invalid value: "RequireDualStack": '
        "this cluster is not configured for dual-stack services"
    )
    assert "not configured on this cluster" in made(api, ipFamilies=["IPv6"]).message
    headless = made(api, clusterIP="None").obj["spec"]
    assert headless["ipFamilies"] == ["IPv4", "IPv6"] and headless["ipFamilyPolicy"] == "RequireDualStack"


def test_an_address_may_not_change_once_given() -> None:
    api = Api()
    made(api)
    assert "may not change once set" in changed(api, clusterIP="10.0.0.250").message


def test_an_address_in_use_is_refused_but_not_in_a_dry_run() -> None:
    api = Api()
    address = made(api).obj["spec"]["clusterIP"]
    other = {"metadata": {"name": "t"}, "spec": {"ports": [{"port": 80}], "clusterIP": address}}
    assert "provided IP is already allocated" in api.ask("POST", PATH, other).message
    assert api.ask("POST", f"{PATH}?dryRun=All", other).code == 201


def test_a_dry_run_refuses_a_port_that_is_taken_and_none_that_is_out_of_range():
    api = Api()
    path = "/api/v1/namespaces/golden-ns/services"

    def service(name, number):
        ports = [{"port": 1, "nodePort": number}]
        return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}}

    assert api.ask("POST", path, service("a", 30_100)).code == 201
    assert api.ask("POST", f"{path}?dryRun=All", service("b", 30_100)).code == 422
    assert api.ask("POST", f"{path}?dryRun=All", service("b", 100)).code == 201
    assert api.ask("POST", path, service("b", 100)).code == 422


def test_a_health_check_port_that_is_not_to_be_had_is_an_internal_error():
    api = Api()
    port = made(api, type="NodePort").obj["spec"]["ports"][0]["nodePort"]
    for number, why in (
        (port, "provided port is already allocated"),
        (99, "provided port is not in the valid"),
    ):
        spec = {
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Local",
            "healthCheckNodePort": number,
            "ports": [{"port": 1}],
        }
        reply = api.ask("POST", PATH, {"metadata": {"name": "h"}, "spec": spec})
        text = f"failed to allocate requested HealthCheck NodePort {number}: {why}"
        assert (reply.code, reply.reason) == (500, "InternalError")
        assert reply.message.startswith(f"Internal error occurred: {text}")
        assert reply.body["details"]["causes"][0]["message"].startswith(text)


def test_one_node_port_twice_in_an_update_is_a_bare_500_and_for_two_protocols_fine():
    api = Api()
    port = made(api, type="NodePort").obj["spec"]["ports"][0]["nodePort"]
    twice = [{"name": name, "port": n, "nodePort": port} for n, name in enumerate("xy", 1)]
    reply = changed(api, ports=twice)
    assert (reply.code, reply.reason, reply.message) == (500, "", f"duplicate nodePort: {{TCP {port}}}")
    both = [{"name": p.lower(), "port": 1, "protocol": p, "nodePort": port} for p in ("TCP", "UDP")]
    assert changed(api, ports=both).code == 200


def test_a_dry_run_makes_up_an_address_and_ports_and_keeps_none() -> None:
    """alloc.go, ipallocator (dryRunRange), portallocator (PortAllocationOperation)."""
    api = Api()
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2, "nodePort": 31_000}, {"name": "c", "port": 3}]
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports}
    for _ in range(2):
        reply = api.ask("POST", f"{PATH}?dryRun=All", {"metadata": {"name": "d"}, "spec": spec})
        shown = reply.obj["spec"]
        assert (shown["clusterIP"], shown["clusterIPs"]) == ("10.0.0.0", ["10.0.0.0"])
        assert [port["nodePort"] for port in shown["ports"]] == [32_769, 31_000, 32_770]
        assert shown["healthCheckNodePort"] == 32_771
    made(api)
    turned = {"type": "NodePort", "ports": [{"name": "x", "port": 80}, {"name": "y", "port": 81}]}
    merge = "application/merge-patch+json"
    reply = api.ask("PATCH", f"{PATH}/s?dryRun=All", {"spec": turned}, merge)
    assert [port["nodePort"] for port in reply.obj["spec"]["ports"]] == [32_769, 32_770]
    assert api.ask("GET", f"{PATH}/s").obj["spec"]["type"] == "ClusterIP"


def test_a_dry_run_refuses_an_address_out_of_range() -> None:
    api = Api()
    for address in ("10.9.0.1", "10.0.0.0"):
        spec = {"ports": [{"port": 80}], "clusterIP": address}
        reply = api.ask("POST", f"{PATH}?dryRun=All", {"metadata": {"name": "o"}, "spec": spec})
        assert reply.code == 422
        assert f"the provided IP ({address}) is not in the valid range" in reply.message


def test_an_update_gives_the_protocols_of_one_port_different_numbers() -> None:
    """updateNodePorts looks for no number that the other protocol of a port has."""
    api = Api()
    made(api)
    both = [{"name": p.lower(), "port": 1, "protocol": p} for p in ("TCP", "UDP")]
    ports = changed(api, type="NodePort", ports=both).obj["spec"]["ports"]
    assert ports[0]["nodePort"] != ports[1]["nodePort"]
    spec = {"type": "NodePort", "ports": both}
    shared = api.ask("POST", PATH, {"metadata": {"name": "t"}, "spec": spec}).obj["spec"]["ports"]
    assert shared[0]["nodePort"] == shared[1]["nodePort"]


def test_an_update_to_one_family_gives_up_the_second() -> None:
    """initIPFamilyFields: the policy says what is wanted while the families stay as they are."""
    api = Api()
    assert made(api, clusterIP="None").obj["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    fewer = changed(api, ipFamilies=["IPv4"])
    text = "must be 'SingleStack' to release the secondary IP family"
    assert fewer.message.endswith(f'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": {text}')
    assert changed(api, ipFamilyPolicy="SingleStack").obj["spec"]["ipFamilies"] == ["IPv4"]
