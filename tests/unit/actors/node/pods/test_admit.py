"""The node's own admission of pods."""

from typing import Any

import pytest

from actors.node.pod_spec import requests_of
from actors.node.pods.admit import Used, refuse, shortages
from tests.unit.actors.node.pods.test_pod_status import Obj, pod


def node(**allocatable: str) -> Obj:
    status = {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10", **allocatable}}
    return {"metadata": {"name": "n", "labels": {"disk": "ssd"}}, "spec": {}, "status": status}


def asking(cpu: str = "1", **spec: Any) -> Obj:
    obj = pod(**spec)
    obj["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return obj


def test_admission_names_the_first_resource_that_is_short() -> None:
    used = Used()
    used.add(requests_of(asking("1500m")))
    refusal = refuse(asking(), requests_of(asking()), used, node(), False)
    assert refusal == (
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000",
    )
    used.remove(requests_of(asking("1500m")))
    assert refuse(asking(), requests_of(asking()), used, node(), False) is None
    assert refuse(asking(), requests_of(asking()), used, node(pods="0"), False) == (
        "OutOfpods",
        "Node didn't have enough resource: pods, requested: 1, used: 0, capacity: 0",
    )


def test_pod_with_any_request_is_refused_if_another_resource_is_overused() -> None:
    used, idle, small = Used(), pod(), pod()
    used.add(requests_of(asking("3")))
    small["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Mi"}}
    assert shortages(requests_of(idle), used, node()) == []
    assert shortages(requests_of(small), used, node()) == [("cpu", 0, 3000, 2000)]


def test_missing_huge_pages_are_short_and_missing_extended_resources_are_not() -> None:
    wanting = pod()
    wanting["spec"]["containers"][0]["resources"] = {"requests": {"e.com/gpu": "1", "hugepages-2Mi": "2Mi"}}
    assert shortages(requests_of(wanting), Used(), node()) == [("hugepages-2Mi", 2 << 20, 0, 0)]


def test_missing_extended_resource_is_short_if_init_container_requests_it() -> None:
    wanting, used = pod(), Used()
    wanting["spec"]["containers"][0]["resources"] = {"requests": {"e.com/gpu": "3"}}
    used.add(requests_of(wanting))
    first = {"name": "i", "image": "i", "resources": {"requests": {"e.com/gpu": "1"}}}
    wanting["spec"]["initContainers"] = [first]
    assert shortages(requests_of(wanting), used, node()) == [("e.com/gpu", 1, 3, 0)]
    has_some = node(**{"e.com/gpu": "6"})
    assert shortages(requests_of(wanting), used, has_some) == []
    used.add(requests_of(wanting))
    assert shortages(requests_of(wanting), used, has_some) == [("e.com/gpu", 3, 6, 6)]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"disk": "hdd"}}, "NodeAffinity"),
        ({"nodeName": "other"}, "NodeName"),
        ({"nodeSelector": {"disk": "ssd"}}, ""),
    ],
)
def test_pod_that_does_not_match_the_node_is_refused(spec: Obj, reason: str) -> None:
    refusal = refuse(asking(**spec), requests_of(asking()), Used(), node(), False)
    assert (refusal or ("",))[0] == reason


def test_untolerated_no_execute_taint_refuses_all_but_static_pods() -> None:
    tainted = {**node(), "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}}
    requests = requests_of(asking())
    assert refuse(asking(), requests, Used(), tainted, False) == (
        "TaintToleration", "Predicate TaintToleration failed",
    )  # fmt: skip
    assert refuse(asking(), requests, Used(), tainted, True) is None
    tolerant = asking(tolerations=[{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}])
    assert refuse(tolerant, requests, Used(), tainted, False) is None


def test_two_pods_cannot_share_a_host_port() -> None:
    obj = asking()
    obj["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    used = Used()
    used.add(requests_of(obj))
    assert refuse(obj, requests_of(obj), used, node(), False) == ("NodePorts", "Predicate NodePorts failed")
