"""The Node object and its status."""

from actors.node.heartbeat.node_status import (
    Health,
    allocatable_of,
    capacity_of,
    changed,
    conditions_of,
    fixed_status,
    heartbeat_patch,
    host_addresses,
    images_of,
    new_node,
    only_heartbeats_differ,
    status_of,
    status_patch,
)
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import NodeSpec
from sim.ident import NAMES
from sim.options.node.agent import parse_node_agent


def test_allocatable_is_capacity_less_reservations_and_hard_eviction() -> None:
    options = parse_node_agent({"orch-reserved": "cpu=500m,memory=1Gi"})
    result = allocatable_of({"cpu": "4", "memory": "8Gi", "pods": "110"}, options)
    assert result == {"cpu": "3500m", "memory": f"{7 * 1024 - 100}Mi", "pods": "110"}


def test_huge_pages_reduce_allocatable_memory() -> None:
    capacity = {"memory": "8Gi", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}
    result = allocatable_of(capacity, parse_node_agent({}))
    assert result == {"memory": f"{5 * 1024 - 100}Mi", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}
    assert allocatable_of({**capacity, "memory": "2Gi"}, parse_node_agent({}))["memory"] == "0"
    ignored = parse_node_agent(
        {"experimental-allocatable-ignore-eviction": True, "system-reserved": "memory=9Gi"}
    )
    assert allocatable_of(capacity, ignored)["memory"] == "0"


def test_machine_offers_no_huge_pages_of_each_size_unless_it_has_some() -> None:
    given = capacity_of(
        NodeSpec("n", capacity={"memory": "8Gi", "hugepages-2Mi": "1Gi"}), parse_node_agent({})
    )
    assert (given["hugepages-2Mi"], given["hugepages-1Gi"]) == ("1Gi", "0")
    assert allocatable_of(given, parse_node_agent({}))["hugepages-1Gi"] == "0"
    adopted = NodeSpec("n", capacity={"memory": "8Gi"}, allocatable={"memory": "7Gi"})
    assert "hugepages-1Gi" not in capacity_of(adopted, parse_node_agent({}))


def test_conditions_follow_health_and_changes_cause_events() -> None:
    first, events = conditions_of(Health(), [], "t1")
    assert events == ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]
    assert [c["type"] for c in first] == ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
    second, events = conditions_of(Health(("down",), ("MemoryPressure",)), first, "t2")
    assert events == ["NodeHasInsufficientMemory", "NodeNotReady"]
    assert second[0]["reason"] == "KubeletHasInsufficientMemory" and second[0]["lastTransitionTime"] == "t2"
    assert second[1]["lastTransitionTime"] == "t1" and second[1]["lastHeartbeatTime"] == "t2"
    assert second[3]["message"] == "down"


def test_foreign_conditions_keep_their_content_and_order() -> None:
    foreign = [{"type": "Odd", "status": "True"}, {"type": "NetworkUnavailable", "status": "False"}]
    own, _ = conditions_of(Health(), [], "t1")
    memory, disk, *others = own
    for old, order in (
        ([*own, foreign[0]], [*own, foreign[0]]),
        ([foreign[1], *own[::-1]], [foreign[1], *own[::-1]]),
        ([disk, foreign[0], memory, foreign[1]], [disk, foreign[0], memory, foreign[1], *others]),
    ):
        made, _ = conditions_of(Health(), old, "t2")
        assert [c["type"] for c in made] == [c["type"] for c in order]
        assert all(c in made for c in old if c in foreign)


def test_reboot_event_requires_an_earlier_boot_id() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    fixed = fixed_status(machine, options, ["1.1.1.1"])
    for old, told in (("other", ["Rebooted"]), ("", []), (machine.boot_id, [])):
        _, events = status_of(machine, options, fixed, {"nodeInfo": {"bootID": old}}, Health(), "t1")
        assert [reason for reason in events if reason == "Rebooted"] == told


def test_images_are_listed_by_size_with_digest_and_tag() -> None:
    digest = "sha256:" + "0" * 64
    images = {"small:1": 1, f"pinned@{digest}": 3, "localhost:5000/big:2": 9, "equal": 3}
    rows = images_of(images, -1)
    assert [(row["names"][-1], row["sizeBytes"]) for row in rows] == [
        ("localhost:5000/big:2", 9), ("equal", 3), (f"pinned@{digest}", 3), ("small:1", 1),
    ]  # fmt: skip
    assert [len(row["names"]) for row in rows] == [2, 2, 1, 2]
    assert [row["names"][0].partition("@sha256:")[0] for row in rows] == [
        "localhost:5000/big", "equal", "pinned", "small",
    ]  # fmt: skip
    assert images_of(images, 2) == rows[:2] and images_of(images, 0) == []


def test_heartbeat_times_and_order_of_conditions_are_no_change() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    fixed = fixed_status(machine, options, ["1.1.1.1"])
    first, _ = status_of(machine, options, fixed, {}, Health(), "t1")
    second, _ = status_of(machine, options, fixed, first, Health(), "t2")
    assert not changed({**first, "conditions": first["conditions"][::-1]}, second)
    assert changed(first, status_of(machine, options, fixed, first, Health(("x",)), "t2")[0])


def test_heartbeat_patch_equals_status_patch_of_unchanged_node() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    fixed = fixed_status(machine, options, ["1.1.1.1"])
    first, _ = status_of(machine, options, fixed, {}, Health(), "t1")
    foreign = {"type": "NetworkUnavailable", "status": "False", "lastHeartbeatTime": "t0"}
    for conditions in (first["conditions"], [*first["conditions"], foreign], first["conditions"][::-1]):
        old = {**first, "conditions": conditions}
        for now in ("t1", "t2"):
            new, _ = status_of(machine, options, fixed, old, Health(), now)
            assert heartbeat_patch(old, now) == status_patch(old, new)


def test_only_heartbeats_differ_is_false_after_any_other_change() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    old, _ = status_of(machine, options, fixed_status(machine, options, ["1.1.1.1"]), {}, Health(), "t1")
    first, *others = old["conditions"]
    with_new_times = {**first, "lastHeartbeatTime": "t2"}
    assert only_heartbeats_differ(old, {**old, "conditions": [with_new_times, *others]})
    for conditions in (
        [{**with_new_times, "status": "Odd"}, *others],
        [*others, with_new_times],
        others,
        [first, *others, with_new_times],
    ):
        assert not only_heartbeats_differ(old, {**old, "conditions": conditions})
    assert not only_heartbeats_differ(old, {**old, "phase": "odd"})
    assert not only_heartbeats_differ(old, {**old, "capacity": {}})


def test_missing_condition_or_other_transition_time_is_a_change() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    status, _ = status_of(machine, options, fixed_status(machine, options, ["1.1.1.1"]), {}, Health(), "t1")
    *others, ready = status["conditions"]
    assert changed({**status, "conditions": others}, status)
    assert changed({**status, "conditions": [*others, {**ready, "lastTransitionTime": "t0"}]}, status)


def test_new_boot_id_causes_reboot_event() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    first, _ = status_of(machine, options, fixed_status(machine, options, ["a"]), {}, Health(), "t1")
    machine.power_loss(0)
    machine.power_on()
    _, events = status_of(machine, options, fixed_status(machine, options, ["a"]), first, Health(), "t2")
    assert events == ["Rebooted"]


def test_new_node_has_labels_taints_and_schedulability_of_options() -> None:
    names = NAMES["kubernetes"]
    machine = Machine(NodeSpec("n", zone="a", labels={"x": "y"}))
    options = parse_node_agent({"register-with-taints": "k=v:NoSchedule", "register-schedulable": False})
    made = new_node(machine, options, names, {})
    labels = made["metadata"]["labels"]
    assert labels[names.label_zone] == "a" and labels["x"] == "y" and labels[names.label_hostname] == "n"
    assert made["spec"]["unschedulable"] is True
    assert [t["key"] for t in made["spec"]["taints"]] == ["k", names.taint_unschedulable]


def test_status_lists_both_addresses_of_a_node_before_its_name() -> None:
    machine = Machine(NodeSpec("n", address="10.9.9.9"))
    for given, shown in (
        ("", ["10.9.9.9"]),
        ("fd00::1", ["fd00::1"]),
        ("fd00::1,10.0.0.1", ["fd00::1", "10.0.0.1"]),
    ):
        options = parse_node_agent({"node-ip": given})
        *own, last = fixed_status(machine, options, host_addresses(machine, options))["addresses"]
        assert own == [{"type": "InternalIP", "address": address} for address in shown]
        assert last == {"type": "Hostname", "address": "n"}
