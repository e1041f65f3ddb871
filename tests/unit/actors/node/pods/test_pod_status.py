"""A pod and its runtime turned into a status."""

from typing import Any

import pytest

from actors.node.pod_spec import pod_qos
from actors.node.pods.pod_status import View, generate
from actors.node.pods.status_manager import outgoing, status_patch
from actors.node.runtime.containers import PodRuntime
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec
from sim.api.types import Obj

RUNS = ContainerBehaviour()


def pod(policy: str = "Always", names: tuple[str, ...] = ("c",), **spec: Any) -> Obj:
    containers = [{"name": name, "image": "i"} for name in names]
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"restartPolicy": policy, "containers": containers, **spec},
    }


def runtime(**containers: ContainerBehaviour) -> PodRuntime:
    machine = Machine(NodeSpec("n"))
    sandbox = machine.run_sandbox("u", "default", "p", "10.0.0.0/24", "")
    for name, behaviour in containers.items():
        machine.start(sandbox, name, "i", behaviour, 0)
    return sandbox


def status(obj: Obj, sandbox: PodRuntime | None, now_us: int = 10, **view: Any) -> Obj:
    return generate(obj, {}, View(now_us, int, ["1.1.1.1"], sandbox, **view))


ENDED = ContainerBehaviour(exit_after_us=5)
FAILED = ContainerBehaviour(exit_after_us=5, exit_code=1)


@pytest.mark.parametrize(
    ("policy", "first", "second", "phase"),
    [
        ("Always", RUNS, RUNS, "Running"),
        ("Always", RUNS, FAILED, "Running"),
        ("Always", FAILED, FAILED, "Running"),
        ("OnFailure", ENDED, FAILED, "Running"),
        ("OnFailure", ENDED, ENDED, "Succeeded"),
        ("Never", ENDED, ENDED, "Succeeded"),
        ("Never", ENDED, FAILED, "Failed"),
        ("Never", RUNS, FAILED, "Running"),
    ],
)
def test_phase_follows_from_containers_and_restart_policy(
    policy: str, first: ContainerBehaviour, second: ContainerBehaviour, phase: str
) -> None:
    assert status(pod(policy, ("a", "b")), runtime(a=first, b=second))["phase"] == phase


def test_containers_of_a_pod_without_status_and_sandbox_wait() -> None:
    init = [{"name": "i", "image": "x"}]
    found = status(pod(initContainers=init), None)
    shown = [*found["initContainerStatuses"], *found["containerStatuses"]]
    assert [(one["name"], *one["state"]) for one in shown] == [("i", "waiting"), ("c", "waiting")]


def test_container_without_status_keeps_pod_pending() -> None:
    shown = status(pod(names=("a", "b")), runtime(a=RUNS))
    assert shown["phase"] == "Pending"
    assert shown["containerStatuses"][1]["state"] == {"waiting": {"reason": "ContainerCreating"}}


def test_failed_init_container_fails_pod_that_never_restarts() -> None:
    init = [{"name": "i", "image": "i"}]
    assert status(pod("Never", initContainers=init), runtime(i=FAILED))["phase"] == "Failed"
    assert status(pod("Always", initContainers=init), runtime(i=FAILED))["phase"] == "Pending"


def test_pod_that_initializes_again_in_new_sandbox_is_pending() -> None:
    made = status(pod(initContainers=[{"name": "i", "image": "i"}]), runtime(i=RUNS, c=FAILED))
    assert made["phase"] == "Pending"
    initialized = made["conditions"][0]
    assert (initialized["type"], initialized["status"]) == ("Initialized", "False")
    assert initialized["message"] == "containers with incomplete status: [i]"


def test_back_off_replaces_state_and_moves_end_to_last_state() -> None:
    shown = status(pod(), runtime(c=FAILED), reasons={"c": ("CrashLoopBackOff", "back-off 10s")})
    container = shown["containerStatuses"][0]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert shown["phase"] == "Running"


def test_terminal_phase_is_final() -> None:
    old = {"phase": "Failed", "reason": "Evicted", "message": "m"}
    shown = generate(pod(), old, View(10, int, ["1.1.1.1"], runtime(c=RUNS)))
    assert (shown["phase"], shown["reason"]) == ("Failed", "Evicted")


def test_terminal_phase_is_withheld_while_containers_may_run() -> None:
    done = status(pod("Never"), runtime(c=FAILED))
    held = {"phase": "Running"}
    assert outgoing(done, held, running=True)["phase"] == "Running"
    assert outgoing(done, held, running=False)["phase"] == "Failed"


def test_transition_time_changes_only_with_status() -> None:
    sandbox = runtime(c=RUNS)
    first = generate(pod(), {}, View(10, int, ["1.1.1.1"], sandbox))
    later = generate(pod(), first, View(5_000_000, int, ["1.1.1.1"], sandbox))
    assert later["conditions"] == first["conditions"]
    unready = generate(pod(), later, View(6_000_000, int, ["1.1.1.1"], sandbox, unready={"c": None}))
    moved = {c["type"]: c["lastTransitionTime"] for c in unready["conditions"]}
    assert moved["Ready"] == moved["ContainersReady"] == "1970-01-01T00:00:06Z"
    assert moved["PodScheduled"] == "1970-01-01T00:00:00Z"
    assert unready["conditions"][1]["message"] == "containers with unready status: [c]"


def test_foreign_conditions_are_kept_and_come_first() -> None:
    gate = {"type": "example.com/gate", "status": "True"}
    shown = outgoing(status(pod(), runtime(c=RUNS)), {"conditions": [gate]}, running=True)
    assert shown["conditions"][0]["type"] == "example.com/gate"


def test_pod_with_unmet_readiness_gates_is_not_ready_and_lists_them() -> None:
    obj = pod(readinessGates=[{"conditionType": type_} for type_ in ("g", "met", "h")])
    obj["status"] = {"conditions": [{"type": "met", "status": "True"}, {"type": "h", "status": "Unknown"}]}
    shown = status(obj, runtime(c=RUNS))
    ready = next(c for c in shown["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
    assert ready["message"] == (
        'corresponding condition of pod readiness gate "g" does not exist., '
        'the status of pod readiness gate "h" is not "True", but Unknown'
    )
    assert next(c for c in shown["conditions"] if c["type"] == "ContainersReady")["status"] == "True"


def test_status_patch_holds_changes_and_clears_removed_fields() -> None:
    old = status(pod(), None)
    new = status(pod(), runtime(c=RUNS))
    patch = status_patch({**old, "reason": "x"}, new)
    assert patch["phase"] == "Running" and patch["reason"] is None and "hostIP" not in patch
    assert [c["type"] for c in patch["conditions"]] == ["Ready", "ContainersReady"]
    assert patch["conditions"][0]["reason"] is None
    assert status_patch(new, new) == {}


def test_container_that_runtime_no_longer_knows_is_shown_as_unknown() -> None:
    old = status(pod(), runtime(c=RUNS))
    shown = generate(pod(), old, View(10, int, ["1.1.1.1"], None))
    last = shown["containerStatuses"][0]["lastState"]["terminated"]
    assert (last["reason"], last["exitCode"]) == ("ContainerStatusUnknown", 137)
    assert shown["containerStatuses"][0]["restartCount"] == 1


def test_container_with_earlier_end_is_not_counted_again_if_runtime_forgets() -> None:
    crashed = runtime(c=FAILED)
    old = status(pod(), crashed)
    old["containerStatuses"][0]["lastState"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
    old["containerStatuses"][0]["state"] = {"running": {}}
    old["containerStatuses"][0]["restartCount"] = 1
    shown = generate(pod(), old, View(20, int, ["1.1.1.1"], None))["containerStatuses"][0]
    assert shown["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert (shown["lastState"]["terminated"]["exitCode"], shown["restartCount"]) == (1, 1)


def test_end_of_container_stays_shown_if_runtime_no_longer_knows_it() -> None:
    old = status(pod("Never", ("a", "b")), runtime(a=ENDED, b=FAILED))
    later = generate(pod("Never", ("a", "b")), {**old, "phase": "Running"}, View(20, int, ["1.1.1.1"], None))
    assert [s["state"]["terminated"]["exitCode"] for s in later["containerStatuses"]] == [0, 1]
    assert later["phase"] == "Failed"


def test_equal_conditions_of_two_pods_are_one_object() -> None:
    first, second = status(pod(), runtime(c=RUNS)), status(pod(), runtime(c=RUNS))
    assert all(a is b for a, b in zip(first["conditions"], second["conditions"], strict=True))


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_class_of_service_follows_from_requests_and_limits(resources: Obj, qos: str) -> None:
    obj = pod()
    obj["spec"]["containers"][0]["resources"] = resources
    assert pod_qos(obj) == qos


def test_pod_in_network_of_its_node_has_both_addresses() -> None:
    view = View(10, int, ["fd00::1", "10.9.9.9"], runtime(c=RUNS))
    shown = generate(pod(hostNetwork=True), {}, view)
    assert shown["podIPs"] == [{"ip": "fd00::1"}, {"ip": "10.9.9.9"}]
    assert (shown["hostIP"], shown["podIP"]) == ("fd00::1", "fd00::1")
    shown = generate(pod(), {}, view)
    assert (shown["hostIP"], shown["podIPs"]) == ("fd00::1", [{"ip": "10.0.0.2"}])


def test_address_of_new_sandbox_replaces_the_old_one_in_the_patch() -> None:
    patch = status_patch({"podIPs": [{"ip": "10.0.0.2"}]}, {"podIPs": [{"ip": "10.0.0.4"}]})
    assert patch == {"podIPs": [{"ip": "10.0.0.4"}, {"$patch": "delete", "ip": "10.0.0.2"}]}


def test_refused_pod_shows_reason_and_foreign_conditions_only() -> None:
    scheduled, foreign = ({"type": type_, "status": "True"} for type_ in ("PodScheduled", "example.com/gate"))
    refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "m", "startTime": "t", "conditions": []}
    held = {"phase": "Pending", "qosClass": "Burstable", "nominatedNodeName": "n", "conditions": [scheduled]}
    patch = status_patch(held, outgoing(refused, held, running=False))
    assert patch == {
        "phase": "Failed", "reason": "OutOfcpu", "message": "m", "startTime": "t",
        "conditions": None, "qosClass": None, "nominatedNodeName": None,
    }  # fmt: skip
    held["conditions"] = [foreign, scheduled]
    patch = status_patch(held, outgoing(refused, held, running=False))
    assert patch["conditions"] == [{"$patch": "delete", "type": "PodScheduled"}]
    assert patch["$setElementOrder/conditions"] == [{"type": "example.com/gate"}]
    assert status_patch(refused, outgoing(refused, refused, running=False)) == {}
