"""Actions, admission, back-off, node status, options: plain values in, plain values out."""

from typing import Any

import pytest

from actors.node.heartbeat.node_status import (
    Health,
    allocatable_of,
    beat_patch,
    changed,
    conditions_of,
    fixed_status,
    images_of,
    new_node,
    only_beaten,
    status_of,
    status_patch,
    threshold_value,
)
from actors.node.pods.actions import compute_actions, effective_grace_us
from actors.node.pods.admit import Used, matches_node, refuse, requests_of, shortages
from actors.node.pods.backoff import Backoff
from actors.node.runtime.hooks import hook_end
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec
from actors.node.sources.mirrors import mirror_of, static_pod
from sim.api.types import Obj
from sim.errors import InputError
from sim.ident import NAMES
from sim.kernel.dice import Dice
from sim.options.node_agent import parse_node_agent
from sim.units import SECOND
from tests.unit.actors.node.pods.test_pod_status import ENDED, FAILED, RUNS, pod, runtime

# --- actions ----------------------------------------------------------------------------------------------


def test_a_pod_without_a_sandbox_gets_one_and_all_its_containers() -> None:
    actions = compute_actions(pod(names=("a", "b")), None, {}, 10)
    assert actions.create_sandbox and not actions.kill_pod
    assert [c["name"] for c in actions.starts] == ["a", "b"]


def test_a_lost_sandbox_is_made_again_unless_the_pod_never_restarts() -> None:
    sandbox = runtime(c=ENDED)
    sandbox.ready = False
    again = compute_actions(pod("Always"), sandbox, {}, 10)
    assert again.kill_pod and again.create_sandbox and again.starts
    never = compute_actions(pod("Never"), sandbox, {}, 10)
    assert never.kill_pod and not never.create_sandbox and not never.starts


def test_a_dead_container_is_started_as_the_policy_says() -> None:
    for policy, behaviour, wanted in [("Always", ENDED, 1), ("OnFailure", ENDED, 0), ("OnFailure", FAILED, 1),
                                      ("Never", FAILED, 0)]:  # fmt: skip
        actions = compute_actions(pod(policy), runtime(c=behaviour), {}, 10)
        assert len(actions.starts) == wanted
        assert actions.kill_pod is (wanted == 0)


def test_a_failed_liveness_probe_restarts_unless_the_policy_is_never() -> None:
    actions = compute_actions(pod(), runtime(c=RUNS), {"c": "liveness"}, 10)
    assert actions.kills[0][2] == "Container c failed liveness probe, will be restarted"
    assert len(actions.starts) == 1
    never = compute_actions(pod("Never"), runtime(c=RUNS), {"c": "liveness"}, 10)
    assert never.kills[0][2] == "Container c failed liveness probe" and not never.starts


def test_init_containers_run_one_by_one() -> None:
    obj = pod(initContainers=[{"name": "i1", "image": "i"}, {"name": "i2", "image": "i"}])
    assert compute_actions(obj, runtime(i1=RUNS), {}, 10).init is None
    following = compute_actions(obj, runtime(i1=ENDED), {}, 10).init
    assert following is not None and following["name"] == "i2"
    failed = compute_actions(obj, runtime(i1=FAILED), {}, 10).init
    assert failed is not None and failed["name"] == "i1"
    assert compute_actions(obj, runtime(i1=ENDED, i2=ENDED), {}, 10).starts


def test_zero_grace_counts_as_not_set() -> None:
    obj = pod(terminationGracePeriodSeconds=7)
    assert effective_grace_us(obj) == 7 * SECOND
    assert effective_grace_us(obj, 0) == 7 * SECOND
    assert effective_grace_us(obj, 3) == 3 * SECOND
    assert effective_grace_us(obj, -1) == SECOND


@pytest.mark.parametrize(
    ("command", "seconds", "code"),
    [
        (["sleep", "5"], 5, 0),
        (["/bin/sh", "-c", "sleep 5"], 5, 0),
        (["sleep", "1m"], 60, 0),
        (["true"], 0, 0),
        (["/bin/false"], 0, 1),
        (["sh", "-c", "exit 7"], 0, 7),
        (["nginx", "-s", "quit"], 0, 0),
        (["sh", "-c", "sleep 15 && nginx -s quit"], 15, 0),
        (["sh", "-c", "nginx -s quit; while killall -0 nginx; do sleep 1; done"], 0, 0),
        (["sh", "-c", "nginx -s quit; sleep 3; false"], 3, 1),
    ],
)
def test_a_hook_ends_as_its_command_does(command: list[str], seconds: int, code: int) -> None:
    container = {"lifecycle": {"preStop": {"exec": {"command": command}}}}
    assert hook_end(container, "preStop") == (seconds * SECOND, code)
    assert hook_end(container, "postStart") == (0, 0)


# --- back-off ---------------------------------------------------------------------------------------------


def test_the_first_restart_is_free_and_the_delay_doubles_to_five_minutes() -> None:
    backoff, at_us, delays = Backoff(), 0, []
    for _ in range(8):
        delays.append(backoff.held_us("k", at_us, at_us) // SECOND)
        backoff.next("k", at_us, at_us)
        at_us += SECOND
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_run_of_more_than_ten_minutes_starts_afresh_and_a_shorter_one_does_not() -> None:
    """Case 33."""
    backoff = Backoff()
    for _ in range(7):
        backoff.next("k", 0, 0)
    assert backoff.held_us("k", 599 * SECOND, 599 * SECOND) == 300 * SECOND
    assert backoff.held_us("k", 601 * SECOND, 601 * SECOND) == 0
    backoff.next("k", 601 * SECOND, 601 * SECOND)
    assert backoff.held_us("k", 602 * SECOND, 602 * SECOND) == 10 * SECOND


# --- admission --------------------------------------------------------------------------------------------


def node(**allocatable: str) -> Obj:
    status = {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10", **allocatable}}
    return {"metadata": {"name": "n", "labels": {"disk": "ssd"}}, "spec": {}, "status": status}


def asking(cpu: str = "1", **spec: Any) -> Obj:
    obj = pod(**spec)
    obj["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return obj


def test_a_pod_is_refused_for_the_first_thing_that_is_short() -> None:
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


def test_where_others_hold_too_much_all_are_refused_that_ask_for_anything_at_all() -> None:
    used, idle, small = Used(), pod(), pod()
    used.add(requests_of(asking("3")))
    small["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Mi"}}
    assert shortages(requests_of(idle), used, node()) == []
    assert shortages(requests_of(small), used, node()) == [("cpu", 0, 3000, 2000)]


def test_huge_pages_that_a_node_lacks_are_short_and_extended_resources_are_not() -> None:
    wanting = pod()
    wanting["spec"]["containers"][0]["resources"] = {"requests": {"e.com/gpu": "1", "hugepages-2Mi": "2Mi"}}
    assert shortages(requests_of(wanting), Used(), node()) == [("hugepages-2Mi", 2 << 20, 0, 0)]


def test_an_extended_resource_that_the_node_lacks_is_short_where_an_init_container_asks_for_it() -> None:
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
def test_a_pod_that_belongs_elsewhere_is_refused(spec: Obj, reason: str) -> None:
    refusal = refuse(asking(**spec), requests_of(asking()), Used(), node(), False)
    assert (refusal or ("",))[0] == reason


def test_an_untolerated_no_execute_taint_refuses_all_but_static_pods() -> None:
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


def test_a_pod_asks_for_the_larger_of_its_containers_and_any_init_container() -> None:
    obj = asking("1", initContainers=[{"name": "i", "image": "i", "resources": {"requests": {"cpu": "3"}}}])
    assert requests_of(obj).amounts == (("cpu", 3000),)


# --- the node ---------------------------------------------------------------------------------------------


def test_allocatable_is_capacity_less_reservations_and_hard_eviction() -> None:
    options = parse_node_agent({"orch-reserved": "cpu=500m,memory=1Gi"})
    result = allocatable_of({"cpu": "4", "memory": "8Gi", "pods": "110"}, options)
    assert result == {"cpu": "3500m", "memory": f"{7 * 1024 - 100}Mi", "pods": "110"}


def test_huge_pages_are_no_memory_for_others() -> None:
    capacity = {"memory": "8Gi", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}
    result = allocatable_of(capacity, parse_node_agent({}))
    assert result == {"memory": f"{5 * 1024 - 100}Mi", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}
    assert allocatable_of({**capacity, "memory": "2Gi"}, parse_node_agent({}))["memory"] == "0"
    ignored = parse_node_agent(
        {"experimental-allocatable-ignore-eviction": True, "system-reserved": "memory=9Gi"}
    )
    assert allocatable_of(capacity, ignored)["memory"] == "0"


def test_a_percentage_threshold_goes_through_a_float_of_32_bits() -> None:
    assert threshold_value("10%", "100Gi") == int(107374182400 * 0.10000000149011612)
    assert threshold_value("100Mi", "8Gi") == 104857600


def test_conditions_follow_health_and_tell_their_changes_as_events() -> None:
    first, events = conditions_of(Health(), [], "t1")
    assert events == ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]
    assert [c["type"] for c in first] == ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
    second, events = conditions_of(Health(("down",), ("MemoryPressure",)), first, "t2")
    assert events == ["NodeHasInsufficientMemory", "NodeNotReady"]
    assert second[0]["reason"] == "KubeletHasInsufficientMemory" and second[0]["lastTransitionTime"] == "t2"
    assert second[1]["lastTransitionTime"] == "t1" and second[1]["lastHeartbeatTime"] == "t2"
    assert second[3]["message"] == "down"


def test_conditions_of_others_and_their_order_stay_as_they_are() -> None:
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


def test_a_boot_is_told_only_of_a_node_that_has_told_of_one_before() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    fixed = fixed_status(machine, options, "1.1.1.1")
    for old, told in (("other", ["Rebooted"]), ("", []), (machine.boot_id, [])):
        _, events = status_of(machine, options, fixed, {"nodeInfo": {"bootID": old}}, Health(), "t1")
        assert [reason for reason in events if reason == "Rebooted"] == told


def test_images_are_listed_by_size_each_by_its_digest_and_its_tag() -> None:
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


def test_heartbeat_times_and_order_alone_are_no_change() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    fixed = fixed_status(machine, options, "1.1.1.1")
    first, _ = status_of(machine, options, fixed, {}, Health(), "t1")
    second, _ = status_of(machine, options, fixed, first, Health(), "t2")
    assert not changed({**first, "conditions": first["conditions"][::-1]}, second)
    assert changed(first, status_of(machine, options, fixed, first, Health(("x",)), "t2")[0])


def test_a_beat_says_what_the_whole_way_would_say_of_an_unchanged_node() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    fixed = fixed_status(machine, options, "1.1.1.1")
    first, _ = status_of(machine, options, fixed, {}, Health(), "t1")
    foreign = {"type": "NetworkUnavailable", "status": "False", "lastHeartbeatTime": "t0"}
    for conditions in (first["conditions"], [*first["conditions"], foreign], first["conditions"][::-1]):
        old = {**first, "conditions": conditions}
        for now in ("t1", "t2"):
            new, _ = status_of(machine, options, fixed, old, Health(), now)
            assert beat_patch(old, now) == status_patch(old, new)


def test_a_status_is_only_beaten_when_nothing_but_heartbeat_times_has_changed() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    old, _ = status_of(machine, options, fixed_status(machine, options, "1.1.1.1"), {}, Health(), "t1")
    first, *others = old["conditions"]
    beaten = {**first, "lastHeartbeatTime": "t2"}
    assert only_beaten(old, {**old, "conditions": [beaten, *others]})
    for conditions in (
        [{**beaten, "status": "Odd"}, *others],
        [*others, beaten],
        others,
        [first, *others, beaten],
    ):
        assert not only_beaten(old, {**old, "conditions": conditions})
    assert not only_beaten(old, {**old, "phase": "odd"})
    assert not only_beaten(old, {**old, "capacity": {}})


def test_a_status_that_lacks_a_condition_or_has_another_transition_time_is_changed() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    status, _ = status_of(machine, options, fixed_status(machine, options, "1.1.1.1"), {}, Health(), "t1")
    *others, ready = status["conditions"]
    assert changed({**status, "conditions": others}, status)
    assert changed({**status, "conditions": [*others, {**ready, "lastTransitionTime": "t0"}]}, status)


def test_instances_of_a_container_stay_until_they_are_dropped_and_then_are_counted_anew() -> None:
    machine = Machine(NodeSpec("n"))
    sandbox = machine.run_sandbox("u", "default", "p", "10.0.0.0/24", "")
    for name in ("a", "b", "a", "a", "b"):
        machine.start(sandbox, name, "i", ENDED, 0)
    kept = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert [(c.name, c.attempt) for c in sandbox.containers] == kept
    newest = sandbox.newest("a")
    assert newest is not None and newest.attempt == 2 and sandbox.newest("c") is None
    first = sandbox.containers[0].ident
    machine.drop("u", sandbox.instances("a"))
    again = machine.start(sandbox, "a", "i", ENDED, 0)
    assert again.attempt == 0 and again.ident != first


def test_a_new_boot_is_an_event() -> None:
    machine, options = Machine(NodeSpec("n")), parse_node_agent({})
    first, _ = status_of(machine, options, fixed_status(machine, options, "a"), {}, Health(), "t1")
    machine.power_loss(0)
    machine.power_on()
    _, events = status_of(machine, options, fixed_status(machine, options, "a"), first, Health(), "t2")
    assert events == ["Rebooted"]


def test_a_new_node_carries_labels_taints_and_schedulability() -> None:
    names = NAMES["kubernetes"]
    machine = Machine(NodeSpec("n", zone="a", labels={"x": "y"}))
    options = parse_node_agent({"register-with-taints": "k=v:NoSchedule", "register-schedulable": False})
    made = new_node(machine, options, names, {})
    labels = made["metadata"]["labels"]
    assert labels[names.label_zone] == "a" and labels["x"] == "y" and labels[names.label_hostname] == "n"
    assert made["spec"]["unschedulable"] is True
    assert [t["key"] for t in made["spec"]["taints"]] == ["k", names.taint_unschedulable]


# --- the rest ---------------------------------------------------------------------------------------------


def test_an_option_without_effect_is_refused_as_such() -> None:
    with pytest.raises(InputError, match="no effect"):
        parse_node_agent({"--topology-manager-policy": "restricted"})
    with pytest.raises(InputError, match="did you mean 'max-pods'"):
        parse_node_agent({"max-pod": 3})


def test_addresses_are_given_in_turn_and_come_back() -> None:
    machine = Machine(NodeSpec("n"))
    first = [machine.run_sandbox(uid, "ns", uid, "10.0.0.0/29", "").ip for uid in "abcde"]
    assert first == ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]
    machine.remove("b")
    assert machine.run_sandbox("f", "ns", "f", "10.0.0.0/29", "").ip == "10.0.0.3"


def test_a_container_is_stopped_by_its_own_means_or_by_the_end_of_its_grace() -> None:
    machine = Machine(NodeSpec("n"))
    sandbox = machine.run_sandbox("u", "ns", "p", "10.0.0.0/24", "")
    gentle = machine.start(sandbox, "a", "i", ContainerBehaviour(stop_us=50), 0)
    stubborn = machine.start(sandbox, "b", "i", ContainerBehaviour(stop_us=None), 0)
    assert machine.stop(gentle, 1000, 100) == 150 and gentle.exit_code == 0
    assert machine.stop(stubborn, 1000, 100) == 1100 and stubborn.exit_code == 137
    assert stubborn.running(1099) and not stubborn.running(1100)


def test_dice_spread_evenly_and_a_jitter_is_one_draw() -> None:
    dice, other = Dice(7), Dice(7)
    draws = [dice.below(1000) for _ in range(2000)]
    assert draws == [other.jitter_us(19_980, 5) - 19_980 for _ in range(2000)]
    assert 480 < sum(draws) / len(draws) < 520 and min(draws) < 10 and max(draws) > 990


@pytest.mark.parametrize(
    ("bound", "label", "matches"),
    [("3", "4", True), ("4", "4", False), ("x", "4", False), ("1" * 5000, "4", False), ("3", "x", False)],
)
def test_an_affinity_compares_whole_numbers_only(bound: str, label: str, matches: bool) -> None:
    term = {"matchExpressions": [{"key": "n", "operator": "Gt", "values": [bound]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    node = {"metadata": {"name": "a", "labels": {"n": label}}}
    assert matches_node({"affinity": {"nodeAffinity": required}}, node) is matches


def test_a_static_pod_is_given_what_the_api_would_not_give_it() -> None:
    names = NAMES["kubernetes"]
    toleration = {"key": "mine", "operator": "Exists"}
    manifest = {"metadata": {"name": "proxy"}, "spec": {"containers": [], "tolerations": [toleration]}}
    made = static_pod(manifest, "Node-1", names, 7)
    meta, uid = made["metadata"], made["metadata"]["uid"]
    assert (meta["name"], meta["namespace"]) == ("proxy-node-1", "default") and len(uid) == 32
    assert meta["annotations"] == {
        "kubernetes.io/config.hash": uid,
        "kubernetes.io/config.source": "file",
        "kubernetes.io/config.seen": "1970-01-01T00:00:00.000007000Z",
    }
    assert made["spec"]["nodeName"] == "Node-1"
    assert made["spec"]["tolerations"] == [toleration, {"operator": "Exists", "effect": "NoExecute"}]
    assert static_pod(manifest, "Node-1", names, 8)["metadata"]["uid"] == uid
    assert static_pod(manifest, "Node-2", names, 7)["metadata"]["uid"] != uid
    own = {"metadata": {"name": "proxy", "namespace": "system", "uid": "own"}, "spec": {"containers": []}}
    assert static_pod(own, "n", names, 7)["metadata"]["annotations"]["kubernetes.io/config.hash"] == "own"
    mirror = mirror_of(made, {"metadata": {"name": "Node-1", "uid": "node"}}, names)
    assert mirror["metadata"]["annotations"] == {**meta["annotations"], "kubernetes.io/config.mirror": uid}
    assert "uid" not in mirror["metadata"] and mirror["spec"] == made["spec"]
    assert mirror["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "Node-1", "uid": "node", "controller": True}
    ]
