"""The node's own admission of pods."""

from typing import Any

import pytest

from actors.node.pod_spec import requests_of
from actors.node.pods.admit import (
    Used,
    refuse,
    refuse_os,
    refuse_sysctls,
    refuse_under_pressure,
    shortages,
)
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


def test_totals_rise_and_fall_with_the_pods_that_they_count() -> None:
    used, one, two = Used(), requests_of(asking("1")), requests_of(asking("500m"))
    used.add(one)
    used.add(two)
    assert (used.pods, used.amounts) == (2, {"cpu": 1500})
    used.remove(one)
    assert (used.pods, used.amounts) == (1, {"cpu": 500})


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        ({"cpu": "1"}, []),
        ({"cpu": "1001m"}, [("cpu", 1001, 1000, 2000)]),
        ({"cpu": "0"}, []),
        ({"cpu": "1", "memory": "2Gi"}, [("memory", 2 << 30, 0, 1 << 30)]),
        ({"ephemeral-storage": "1"}, [("ephemeral-storage", 1, 0, 0)]),
        (
            {"memory": "2Gi", "cpu": "3"},
            [("cpu", 3000, 1000, 2000), ("memory", 2 << 30, 0, 1 << 30)],
        ),
    ],
)
def test_each_resource_is_short_beyond_what_others_leave(asked: Obj, missing: list[Any]) -> None:
    used, wanting = Used(), pod()
    used.add(requests_of(asking("1")))
    wanting["spec"]["containers"][0]["resources"] = {"requests": asked}
    assert shortages(requests_of(wanting), used, node()) == missing


@pytest.mark.parametrize(("limit", "present", "is_short"), [("2", 1, False), ("2", 2, True), ("1", 1, True)])
def test_a_node_admits_as_many_pods_as_it_allows(limit: str, present: int, is_short: bool) -> None:
    used = Used()
    used.pods = present
    wanted = [("pods", 1, present, int(limit))] if is_short else []
    assert shortages(requests_of(pod()), used, node(pods=limit)) == wanted


def test_a_node_without_status_has_room_for_nothing() -> None:
    bare = {"metadata": {"name": "n"}}
    assert shortages(requests_of(asking()), Used(), bare) == [("pods", 1, 0, 0), ("cpu", 1000, 0, 0)]


def taint_text(effect: str, key: str = "k") -> Obj:
    return {"key": key, "value": "v", "effect": effect}


@pytest.mark.parametrize(
    ("taints", "refused"),
    [
        ([], False),
        ([taint_text("NoSchedule")], False),
        ([taint_text("NoSchedule"), taint_text("NoExecute")], True),
        ([taint_text("NoExecute", "mine")], False),
        ([taint_text("NoExecute", "mine"), taint_text("NoExecute")], True),
    ],
)
def test_only_untolerated_no_execute_taints_refuse(taints: list[Obj], refused: bool) -> None:
    tolerant = asking(tolerations=[{"key": "mine", "operator": "Exists"}])
    refusal = refuse(tolerant, requests_of(tolerant), Used(), {**node(), "spec": {"taints": taints}}, False)
    assert (refusal is not None) is refused


def test_a_pod_may_name_the_node_or_none() -> None:
    for name in ("n", "", None):
        named = asking(nodeName=name)
        assert refuse(named, requests_of(named), Used(), node(), False) is None


@pytest.mark.parametrize(
    ("taken", "wanted", "clash"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.1"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.1"}, True),
    ],
)
def test_host_ports_clash_by_protocol_address_and_number(taken: Obj, wanted: Obj, clash: bool) -> None:
    used, present, new = Used(), pod(), pod()
    present["spec"]["containers"][0]["ports"] = [{"hostPort": 7}, taken]
    new["spec"]["containers"][0]["ports"] = [{"hostPort": 9}, wanted]
    used.add(requests_of(present))
    refusal = refuse(new, requests_of(new), used, node(), False)
    assert refusal == (("NodePorts", "Predicate NodePorts failed") if clash else None)


TAINT = "memory-pressure"
TOLERANT = {"tolerations": [{"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("spec", "qos", "pressures", "static", "refused"),
    [
        ({}, "BestEffort", (), False, False),
        ({}, "BestEffort", ("MemoryPressure",), False, True),
        ({}, "Burstable", ("MemoryPressure",), False, False),
        (TOLERANT, "BestEffort", ("MemoryPressure",), False, False),
        (TOLERANT, "BestEffort", ("DiskPressure",), False, True),
        ({}, "Burstable", ("DiskPressure",), False, True),
        ({}, "Burstable", ("DiskPressure", "MemoryPressure"), False, True),
        ({}, "BestEffort", ("DiskPressure",), True, False),
        ({"priority": 2_000_000_000}, "BestEffort", ("DiskPressure",), False, False),
        ({"priority": 1_999_999_999}, "BestEffort", ("DiskPressure",), False, True),
    ],
)
def test_pressure_refuses_by_kind_and_class(
    spec: Obj, qos: str, pressures: tuple[str, ...], static: bool, refused: bool
) -> None:
    obj = pod(**spec)
    obj["status"] = {"qosClass": qos}
    text = f"The node had condition: [{' '.join(pressures)}]. "
    wanted = ("Evicted", text) if refused else None
    assert refuse_under_pressure(obj, pressures, static, TAINT) == wanted


@pytest.mark.parametrize(
    ("names", "spec", "problem"),
    [
        ([], {}, ""),
        (["net.ipv4.tcp_syncookies", "kernel.shm_rmid_forced"], {}, ""),
        (["net/ipv4/tcp_syncookies"], {}, ""),
        (["kernel.msgmax"], {}, '"kernel.msgmax" not allowlisted'),
        (["net.core.somaxconn", "mine.a.b"], {}, ""),
        (["net.core.some"], {}, '"net.core.some" not allowlisted'),
        (["mine", "min.a"], {}, '"mine" not allowlisted'),
        (["net.ipv4.tcp_syncookies"], {"hostNetwork": True}, "not allowed with host net enabled"),
        (["net.ipv4.tcp_syncookies"], {"hostIPC": True}, ""),
        (["kernel.shm_rmid_forced"], {"hostIPC": True}, "not allowed with host ipc enabled"),
        (["kernel.shm_rmid_forced"], {"hostNetwork": True}, ""),
    ],
)
def test_sysctls_are_safe_or_allowed_and_not_of_the_host(names: list[str], spec: Obj, problem: str) -> None:
    obj = pod(securityContext={"sysctls": [{"name": name, "value": "1"} for name in names]}, **spec)
    refusal = refuse_sysctls(obj, ["net.core.somaxconn", "mine.*"])
    assert (refusal is not None) is bool(problem)
    assert problem in (refusal or ("", ""))[1]


@pytest.mark.parametrize(
    ("label", "named", "runs", "reason"),
    [
        (None, None, "windows", ""),
        ("linux", None, "linux", ""),
        ("windows", None, "linux", "PodOSSelectorNodeLabelDoesNotMatch"),
        (None, "linux", "linux", ""),
        (None, "windows", "linux", "PodOSNotSupported"),
        ("linux", "windows", "linux", "PodOSNotSupported"),
        ("windows", "windows", "windows", ""),
        ("linux", None, None, ""),
        (None, "windows", None, "PodOSNotSupported"),
    ],
)
def test_a_pod_names_its_system_by_label_and_field(
    label: str | None, named: str | None, runs: str | None, reason: str
) -> None:
    obj = pod()
    if label is not None:
        obj["metadata"]["labels"] = {"os": label}
    if named is not None:
        obj["spec"]["os"] = {"name": named}
    where = {**node(), "status": {"nodeInfo": {"operatingSystem": runs}} if runs else None}
    assert (refuse_os(obj, where, "os") or ("",))[0] == reason
