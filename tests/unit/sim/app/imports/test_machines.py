"""Nodes as groups of a scenario."""

from __future__ import annotations

from typing import Any

from sim.app.imports.machines import node_groups

Value = dict[str, Any]


def node(name: str, zone: str = "", memory: str = "32Gi", **labels: str) -> Value:
    zones = {"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "north"} if zone else {}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **zones, **labels}},
        "spec": {}, "status": {"capacity": {"cpu": "8", "memory": memory, "pods": "110", "hugepages-1Gi": "0"}},
    }  # fmt: skip


def test_equal_nodes_make_one_group_with_their_zones() -> None:
    nodes = [node(f"ip-10-0-{n}", "abc"[n % 3], disk="ssd") for n in range(6)]
    groups, steps, notes, _ = node_groups(nodes)
    assert groups == [
        {
            "count": 6, "names": [f"ip-10-0-{n}" for n in range(6)], "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "zones": ["a", "b", "c"], "region": "north", "labels": {"disk": "ssd"},
        }
    ]  # fmt: skip
    assert steps == []
    assert notes == []


def test_zones_of_unequal_size_keep_their_numbers_of_nodes() -> None:
    nodes = [*(node(f"a{n}", "a") for n in range(3)), node("b0", "b")]
    groups, *_ = node_groups(nodes)
    assert [(group["count"], group["zones"], group["names"]) for group in groups] == [
        (2, ["a", "b"], ["a0", "b0"]),
        (2, ["a"], ["a1", "a2"]),
    ]


def test_names_that_a_scenario_gives_itself_are_kept() -> None:
    groups, _, notes, _ = node_groups([node(f"kwok-{n}") for n in range(12)])
    assert [(group["prefix"], group["count"]) for group in groups] == [("kwok", 12)]
    assert notes == []


def test_memory_that_varies_by_less_than_a_percent_makes_one_group() -> None:
    groups, *_ = node_groups([node("x0", memory="32780672Ki"), node("x1", memory="32780668Ki")])
    assert [group["capacity"]["memory"] for group in groups] == ["32780668Ki"]
    assert len(node_groups([node("x0", memory="32Gi"), node("x1", memory="16Gi")])[0]) == 2


def test_labels_of_a_single_node_are_left_out_with_a_note() -> None:
    groups, _, notes, _ = node_groups([node(f"x{n}", instance=f"i-{n}") for n in range(3)])
    assert len(groups) == 1 and "labels" not in groups[0]
    assert "labels that name a single node are left out: instance" in notes


def test_taints_of_the_control_plane_are_dropped_and_others_kept() -> None:
    given = node("x")
    own = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    given["spec"]["taints"] = [
        {**own, "timeAdded": None},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
    ]
    assert node_groups([given])[0][0]["taints"] == [own]


def test_cordoned_node_is_cordoned_by_a_step_at_the_beginning() -> None:
    given = [node("x"), node("y")]
    given[1]["spec"]["unschedulable"] = True
    _, steps, notes, _ = node_groups(given)
    assert steps == [{"at": "1s", "name": "cordoned", "cordon": {"nodes": {"name": ["y"]}}}]
    assert "nodes that were cordoned are cordoned by the step `cordoned`" in notes


def test_allocatable_below_capacity_becomes_reserved() -> None:
    given = node("x", memory="4Gi")
    given["status"]["allocatable"] = {"cpu": "7920m", "memory": "3Gi"}
    (group,) = node_groups([given])[0]
    assert group["flags"] == {"kube-reserved": f"cpu=80m,memory={(1 << 20) - (100 << 10)}Ki"}


def test_role_and_type_name_the_groups_of_nodes_that_lose_their_names() -> None:
    plane = node("scheduler-0", **{"node-role.kubernetes.io/control-plane": ""})
    worker = node("w" * 64, **{"node.kubernetes.io/instance-type": "m5.large"})
    assert node_groups([plane])[2:] == (
        ["nodes have new names (1 of 1): scheduler-0 is control-plane-0"],
        {"scheduler-0": "control-plane-0"},
    )
    assert [group["prefix"] for group in node_groups([plane, worker])[0]] == ["control-plane", "m5.large"]
