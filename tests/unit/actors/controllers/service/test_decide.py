"""Pure decisions of the service controller."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.service.decide import (
    changes_traffic,
    hosts,
    needs_cleanup,
    needs_update,
    wants_balancer,
)
from sim.api.types import Obj
from sim.ident import NAMES

KUBE = NAMES["kubernetes"]


def service(uid: str = "u", annotations: Obj | None = None, **spec: Any) -> Obj:
    meta = {"uid": uid, "annotations": annotations or {}}
    return {"metadata": meta, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], **spec}}


@pytest.mark.parametrize(
    ("changed", "event"),
    [
        ({"type": "ClusterIP"}, ("Type", "LoadBalancer -> ClusterIP")),
        ({"loadBalancerSourceRanges": ["10.0.0.0/8"]}, ("LoadBalancerSourceRanges", "[] -> [10.0.0.0/8]")),
        ({"ports": [{"port": 81}]}, None),
        ({"sessionAffinity": "ClientIP"}, None),
        ({"loadBalancerIP": "1.2.3.4"}, ("LoadbalancerIP", " -> 1.2.3.4")),
        ({"externalIPs": ["1.2.3.4"]}, ("ExternalIP", "Count: 0 -> 1")),
        ({"annotations": {"a": "b"}}, None),
        ({"uid": "v"}, ("UID", "u -> v")),
        ({"externalTrafficPolicy": "Local"}, ("ExternalTrafficPolicy", " -> Local")),
        ({"ipFamilies": ["IPv4"]}, ("IPFamilies", "Count: 0 -> 1")),
    ],
)
def test_change_that_concerns_a_load_balancer_is_synced(changed: Obj, event: tuple[str, str] | None) -> None:
    assert needs_update(service(), service(**changed)) == (True, event)


def test_other_changes_and_other_services_are_not_synced() -> None:
    assert not needs_update(service(), service(selector={"a": "b"})).needed
    assert not needs_update(service(type="ClusterIP"), service(type="NodePort")).needed
    assert not needs_update(*[service(loadBalancerSourceRanges=["10.0.0.0/8"]) for _ in range(2)]).needed
    old, new = service(externalIPs=["1.1.1.1"]), service(externalIPs=["2.2.2.2"])
    assert needs_update(old, new) == (True, ("ExternalIP", "Added: 2.2.2.2"))


def test_service_that_begins_to_want_a_load_balancer_is_synced() -> None:
    assert needs_update(service(type="NodePort"), service()) == (True, ("Type", "NodePort -> LoadBalancer"))


def test_service_without_ports_is_compared() -> None:
    assert not needs_update(service(ports=None), service(ports=None)).needed
    assert needs_update(service(ports=None), service()) == (True, None)


def test_finalizer_of_a_service_that_wants_no_load_balancer_calls_for_cleanup() -> None:
    held = service()
    held["metadata"]["finalizers"] = ["f"]
    assert not needs_cleanup(held, "f")
    assert needs_cleanup({**held, "spec": {"type": "ClusterIP"}}, "f")
    assert needs_cleanup({**held, "metadata": {**held["metadata"], "deletionTimestamp": "t"}}, "f")
    assert not needs_cleanup(service(type="ClusterIP"), "f")
    assert not wants_balancer(service(loadBalancerClass="example.com/own"))


def node(name: str, ready: str = "True", labels: Obj | None = None, **spec: Any) -> Obj:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status}


def test_ready_nodes_that_are_not_excluded_get_traffic() -> None:
    nodes = [
        node("d"),
        node("unready", "Unknown"),
        node("excluded", labels={KUBE.label_exclude_balancers: ""}),
        node("leaving", taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]),
        {**node("new"), "status": {}},
        node("cordoned", unschedulable=True),
    ]
    assert hosts(nodes, KUBE) == ("cordoned", "d")


def test_node_moves_traffic_by_readiness_labels_and_cordon_only() -> None:
    assert changes_traffic(node("a"), node("a", "False"))
    assert changes_traffic(node("a"), node("a", labels={"x": "y"}))
    assert changes_traffic(node("a"), node("a", unschedulable=True))
    assert not changes_traffic(node("a"), node("a", taints=[{"key": "k", "effect": "NoSchedule"}]))
