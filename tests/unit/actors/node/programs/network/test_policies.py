"""What NetworkPolicies let through, rule by rule of the API's documentation."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.programs.network.policies import EGRESS, INGRESS, Packet, Party, dropped_by
from sim.api.types import Obj

SPACES = {"shop": {"team": "a"}, "office": {"team": "b"}}


def pod(name: str, host: str, namespace: str = "shop", node: str = "n1", **labels: str) -> Party:
    ports = [{"name": "http", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]
    meta = {"name": name, "namespace": namespace, "labels": labels}
    return Party(host, node, {"metadata": meta, "spec": {"containers": [{"ports": ports}]}})


WEB = pod("web", "10.244.0.2", app="web")
CLIENT = pod("client", "10.244.1.2", node="n2", app="client")
OTHER = pod("other", "10.244.1.3", "office", node="n2", app="client")
NODE, FAR_NODE, WORLD = Party("192.168.0.1", "n1"), Party("192.168.0.2", "n2"), Party("198.51.100.7")


def policy(name: str = "p", namespace: str = "shop", **spec: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"podSelector": {}, **spec}}


def passes(
    *policies: Obj,
    direction: str = INGRESS,
    source: Party = CLIENT,
    target: Party = WEB,
    port: int = 8080,
    protocol: str = "TCP",
) -> bool:
    packet = Packet(source, target, protocol, port)
    return not dropped_by(direction, packet, policies, lambda name: SPACES.get(name, {}))


def from_(*peers: Obj, **rule: Any) -> Obj:
    return policy(ingress=[{"from": list(peers), **rule}])


def ports(*given: Obj) -> Obj:
    return policy(ingress=[{"ports": list(given)}])


def test_a_pod_that_no_policy_selects_takes_all() -> None:
    assert passes()
    assert passes(policy(podSelector={"matchLabels": {"app": "db"}}))
    assert passes(policy(namespace="office"))


def test_a_selected_pod_takes_what_some_policy_allows() -> None:
    deny = policy("deny")
    packet = Packet(CLIENT, WEB, "TCP", 80)
    assert dropped_by(INGRESS, packet, [deny, policy("q")], lambda _: {}) == ("shop/deny", "shop/q")
    assert passes(deny, policy(ingress=[{}]))
    assert passes(deny, direction=EGRESS, source=CLIENT)


@pytest.mark.parametrize(
    ("spec", "in_", "out"),
    [
        ({}, False, True),
        ({"egress": [{"to": [{"podSelector": {}}], "ports": [{"port": 1}]}]}, False, False),
        ({"policyTypes": ["Egress"]}, True, False),
        ({"policyTypes": ["Ingress", "Egress"]}, False, False),
        ({"policyTypes": ["Ingress", "Egress"], "egress": [{}]}, False, True),
    ],
)
def test_types_of_a_policy_default_by_its_rules(spec: Obj, in_: bool, out: bool) -> None:
    assert passes(policy(**spec)) is in_
    assert passes(policy(**spec), direction=EGRESS, source=WEB, target=CLIENT) is out


@pytest.mark.parametrize(
    ("peer", "taken"),
    [
        ({"podSelector": {}}, ["client"]),
        ({"podSelector": {"matchLabels": {"app": "none"}}}, []),
        ({"namespaceSelector": {}}, ["client", "other"]),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, ["other"]),
        ({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}}, []),
        ({"ipBlock": {"cidr": "10.244.1.0/24"}}, ["client", "other"]),
        ({"ipBlock": {"cidr": "10.244.1.0/24", "except": ["10.244.1.3/32"]}}, ["client"]),
        ({"ipBlock": {"cidr": "0.0.0.0/0"}}, ["client", "other", "node", "world"]),
        ({"ipBlock": {"cidr": "fd00::/8"}}, []),
    ],
)
def test_peers_are_pods_by_selectors_and_addresses_by_blocks(peer: Obj, taken: list[str]) -> None:
    sources = {"client": CLIENT, "other": OTHER, "node": FAR_NODE, "world": WORLD}
    assert [name for name, source in sources.items() if passes(from_(peer), source=source)] == taken


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"protocol": "TCP"}, [(80, "TCP"), (8080, "TCP")]),
        ({"port": 80}, [(80, "TCP")]),
        ({"port": 80, "endPort": 9000}, [(80, "TCP"), (8080, "TCP")]),
        ({"port": "http"}, [(8080, "TCP")]),
        ({"port": "http", "protocol": "UDP"}, []),
        ({"port": "dns", "protocol": "UDP"}, [(53, "UDP")]),
    ],
)
def test_ports_are_numbers_ranges_and_names_of_the_target(given: Obj, taken: list[tuple[int, str]]) -> None:
    tried = [(80, "TCP"), (8080, "TCP"), (53, "UDP")]
    found = [one for one in tried if passes(ports(given), port=one[0], protocol=one[1])]
    assert found == taken
    named = policy(policyTypes=["Egress"], egress=[{"ports": [given]}])
    out = [
        one
        for one in tried
        if passes(named, direction=EGRESS, source=CLIENT, target=WEB, port=one[0], protocol=one[1])
    ]
    assert out == taken


def test_peers_and_ports_of_one_rule_have_to_meet_both() -> None:
    rule = from_({"podSelector": {}}, ports=[{"port": 80}])
    assert passes(rule, port=80) and not passes(rule, port=81)
    assert not passes(rule, port=80, source=OTHER)


def test_a_pod_reaches_itself_and_exchanges_packets_with_its_node() -> None:
    both = policy(policyTypes=["Ingress", "Egress"])
    assert passes(both, source=WEB) and passes(both, source=NODE) and not passes(both, source=FAR_NODE)
    assert passes(both, direction=EGRESS, source=WEB, target=NODE)
    assert not passes(both, direction=EGRESS, source=WEB, target=FAR_NODE)
    assert passes(both, target=NODE)
