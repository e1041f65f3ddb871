"""What a proxy learns of Services, and where its rules lead."""

from __future__ import annotations

from typing import Any

from actors.node.proxy.rules import Learned, port_of
from sim.ident import NAMES

NAMES_ = NAMES["kubernetes"]
WEB = ("default", "web")


def service(**spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "nodePort": 30080}, {"name": "admin", "port": 81}]
    whole = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": ports, **spec}
    return {"metadata": {"namespace": "default", "name": "web"}, "spec": whole}


def piece(*endpoints: tuple[str, str, bool], name: str = "web-x") -> dict[str, Any]:
    """A slice with endpoints: address, node, and whether it is ready."""
    return {
        "metadata": {"namespace": "default", "name": name, "labels": {NAMES_.label_service_name: "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}, {"name": "admin", "port": 8081}],
        "endpoints": [
            {
                "addresses": [host],
                "nodeName": node,
                "conditions": {"ready": ready},
                "targetRef": {"name": f"p-{node}"},
            }
            for host, node, ready in endpoints
        ],
    }


def learned(spec: dict[str, Any], *pieces: dict[str, Any]) -> Learned:
    known = Learned(NAMES_)
    known.service(spec)
    for one in pieces:
        known.slice(one)
    return known


TWO = piece(("10.1.0.1", "a", True), ("10.1.0.2", "b", True), ("10.1.0.3", "c", False))


def hosts(known: Learned, node: str = "a", port: str = "") -> list[tuple[str, int]]:
    way = known.rules().to(WEB, port, NAMES_, node=node, zone="")
    assert way is not None
    return [(one.host, one.port) for one in way.endpoints]


def test_rules_lead_to_the_ready_endpoints_of_a_port() -> None:
    known = learned(service(), TWO)
    assert hosts(known) == [("10.1.0.1", 8080), ("10.1.0.2", 8080)]
    assert hosts(known, port="admin") == hosts(known, port="81") == [("10.1.0.1", 8081), ("10.1.0.2", 8081)]


def test_local_policy_leads_to_endpoints_of_the_node_or_nowhere() -> None:
    known = learned(service(internalTrafficPolicy="Local"), TWO)
    assert hosts(known, "b") == [("10.1.0.2", 8080)]
    way = known.rules().to(WEB, "", NAMES_, node="d", zone="")
    assert way is not None and (way.endpoints, way.dropped) == ((), True)


def test_local_policy_of_a_node_port_leads_to_endpoints_of_the_node() -> None:
    everywhere = learned(service(), TWO).rules().from_outside(WEB, "", NAMES_, node="b")
    near = learned(service(externalTrafficPolicy="Local"), TWO).rules()
    there, nowhere = (near.from_outside(WEB, "", NAMES_, node=node) for node in ("b", "d"))
    assert everywhere is not None and there is not None and nowhere is not None
    assert [one.pod for one in everywhere.endpoints] == ["p-a", "p-b"]
    assert [one.pod for one in there.endpoints] == ["p-b"]
    assert (nowhere.endpoints, nowhere.dropped) == ((), True)
    assert near.from_outside(WEB, "admin", NAMES_, node="b") is None
    empty = learned(service(externalTrafficPolicy="Local")).rules().from_outside(WEB, "", NAMES_, node="b")
    assert empty is not None and (empty.endpoints, empty.dropped) == ((), False)


def test_port_of_another_protocol_is_reached_from_inside_and_outside() -> None:
    port = {"name": "http", "port": 80, "nodePort": 30080, "protocol": "UDP"}
    udp = {**TWO, "ports": [{"name": "http", "port": 8080, "protocol": "UDP"}]}
    rules = learned(service(ports=[port]), udp).rules()
    inside = rules.to(WEB, "", NAMES_, node="a", zone="")
    outside = rules.from_outside(WEB, "", NAMES_, node="a")
    assert inside is not None and outside is not None
    assert [len(way.endpoints) for way in (inside, outside)] == [2, 2]


def test_service_that_is_not_known_has_no_rules() -> None:
    rules = learned(service(), TWO).rules()
    assert rules.to(("default", "wbe"), "", NAMES_, node="a", zone="") is None
    assert rules.to(WEB, "https", NAMES_, node="a", zone="") is None
    assert rules.from_outside(("default", "wbe"), "", NAMES_, node="a") is None
    assert rules.from_outside(WEB, "https", NAMES_, node="a") is None
    assert port_of(service(ports=None), "") is None


def test_table_that_is_being_written_does_not_change() -> None:
    known = learned(service(), TWO)
    table = known.rules()
    assert known.slice(piece(("10.1.0.9", "a", True)))
    assert known.service(service(), deleted=True)
    way = table.to(WEB, "", NAMES_, node="a", zone="")
    assert way is not None and len(way.endpoints) == 2
    assert known.rules().to(WEB, "", NAMES_, node="a", zone="") is None


def test_change_of_what_rules_are_not_made_of_asks_for_no_write() -> None:
    known = learned(service(), TWO)
    later = {**TWO, "metadata": {**TWO["metadata"], "resourceVersion": "9"}}
    assert not known.slice(later)
    assert not known.service({**service(), "metadata": {**service()["metadata"], "resourceVersion": "9"}})
    assert known.slice(later, deleted=True)
    assert not known.slice(later, deleted=True)


def test_headless_service_has_no_rules() -> None:
    known = Learned(NAMES_)
    assert not known.service(service(clusterIP="None", clusterIPs=["None"]))
    assert known.service(service())
    assert known.service(service(clusterIP="None", clusterIPs=["None"]))
    assert known.rules().services == {}


def test_number_of_endpoints_counts_each_address_for_each_port() -> None:
    known = learned(service(), TWO, piece(("10.1.0.4", "a", True), name="web-y"))
    assert known.rules().endpoints == 8
    known.slice(piece(name="web-y"))
    assert known.rules().endpoints == 6
    known.slice(TWO, deleted=True)
    assert known.rules().endpoints == 0
    known.slice({**TWO, "endpoints": None, "metadata": {"namespace": "default", "name": "none"}})
    assert known.rules().endpoints == 0
