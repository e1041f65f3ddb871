"""The parts of a pod's status one by one: phase, last status, conditions, what is not shown yet."""

from typing import Any

import pytest

from actors.node.pods.pod_status import (
    LOST_STATE,
    NOTHING,
    UNKNOWN_END,
    View,
    conditions_of,
    container_status,
    final_status,
    generate,
    past_deadline,
    phase_of,
    probed,
    reasoned,
    unseen_us,
)
from actors.node.runtime.profile import ContainerBehaviour
from sim.api.types import Obj
from sim.units import SECOND
from tests.unit.actors.node.pods.test_pod_status import ENDED, FAILED, RUNS, pod, runtime, status

UP: Obj = {"running": {}}
WAITS: Obj = {"waiting": {}}


def end(code: int) -> Obj:
    return {"terminated": {"exitCode": code}}


def at(state: Obj, last: Obj | None = None, name: str = "c", **more: Any) -> Obj:
    return {"name": name, "state": state, "lastState": NOTHING if last is None else last, **more}


ONE_INIT = {"initContainers": [{"name": "i", "image": "i"}]}


@pytest.mark.parametrize(
    ("policy", "app", "phase"),
    [
        ("Always", [], "Pending"),
        ("Always", [at(WAITS)], "Pending"),
        ("Always", [at(WAITS, end(1))], "Running"),
        ("Always", [at(end(0))], "Running"),
        ("OnFailure", [at(end(0))], "Succeeded"),
        ("OnFailure", [at(end(1))], "Running"),
        ("OnFailure", [at(WAITS, end(0))], "Running"),  # counted as ended, not as succeeded
        ("Never", [at(end(1))], "Failed"),
        ("Never", [at(end(0))], "Succeeded"),
        ("Never", [at(UP)], "Running"),
    ],
)
def test_phase_of_one_container(policy: str, app: list[Obj], phase: str) -> None:
    assert phase_of(pod(policy), [], app) == phase


@pytest.mark.parametrize(
    ("policy", "init", "phase"),
    [
        ("Always", [], "Pending"),
        ("Always", [at(UP, name="i")], "Pending"),
        ("Always", [at(UP, end(1), name="i")], "Pending"),
        ("Always", [at(WAITS, name="i")], "Pending"),
        ("Always", [at(end(0), name="i")], "Running"),
        ("Always", [at(end(1), name="i")], "Running"),
        ("Never", [at(end(1), name="i")], "Failed"),
        ("Never", [at(end(0), name="i")], "Running"),
        ("Never", [at(WAITS, end(1), name="i")], "Failed"),
        ("OnFailure", [at(WAITS, end(1), name="i")], "Running"),
    ],
)
def test_phase_by_the_end_of_an_init_container(policy: str, init: list[Obj], phase: str) -> None:
    assert phase_of(pod(policy, **ONE_INIT), init, [at(UP)]) == phase


def held(name: str, state: Obj, last: Obj | None = None) -> Obj:
    return at(state, last, name)


def test_last_status_ends_what_has_no_end() -> None:
    shown = {"phase": "Running", "containerStatuses": [held("a", UP), held("b", end(3)), held("c", WAITS)]}
    ended = final_status(shown)
    assert ended["phase"] == "Running"
    assert [one["state"] for one in ended["containerStatuses"]] == [UNKNOWN_END, end(3), UNKNOWN_END]
    assert "initContainerStatuses" not in ended


@pytest.mark.parametrize(
    ("init", "app", "wanted_init", "wanted_app"),
    [
        # no init container has begun: the first one counts
        ([WAITS, WAITS], [WAITS], [UNKNOWN_END, WAITS], [WAITS]),
        ([end(0), UP, WAITS], [WAITS], [end(0), UNKNOWN_END, WAITS], [WAITS]),
        ([end(0), end(1)], [WAITS], [end(0), end(1)], [WAITS]),
        ([end(0), end(0)], [WAITS], [end(0), end(0)], [UNKNOWN_END]),
        # containers that ran in an earlier sandbox have begun
        ([end(0), UP], [UP, WAITS], [end(0), UNKNOWN_END], [UNKNOWN_END, UNKNOWN_END]),
    ],
)
def test_last_status_of_a_pod_that_initializes(
    init: list[Obj], app: list[Obj], wanted_init: list[Obj], wanted_app: list[Obj]
) -> None:
    shown = {
        "containerStatuses": [held(f"c{n}", state) for n, state in enumerate(app)],
        "initContainerStatuses": [held(f"i{n}", state) for n, state in enumerate(init)],
    }
    ended = final_status(shown)
    assert [one["state"] for one in ended["initContainerStatuses"]] == wanted_init
    assert [one["state"] for one in ended["containerStatuses"]] == wanted_app


def test_an_init_container_that_waits_again_has_begun() -> None:
    shown = {"containerStatuses": [], "initContainerStatuses": [held("i", WAITS), held("j", WAITS, end(1))]}
    states = [one["state"] for one in final_status(shown)["initContainerStatuses"]]
    assert states == [UNKNOWN_END, UNKNOWN_END]


def test_reasons_are_replaced_and_forgotten_by_container() -> None:
    assert reasoned({"a": ("r", "m")}, "b", ("s", "n")) == {"a": ("r", "m"), "b": ("s", "n")}
    same = {"a": ("r", "m")}
    assert reasoned(same, "b", None) is same
    assert reasoned({"a": ("r", "m"), "b": ("s", "n")}, "a", None) == {"b": ("s", "n")}
    assert reasoned(same, "a", None) is NOTHING


@pytest.mark.parametrize(
    ("seconds", "started_us", "now_us", "is_late"),
    [
        (None, 0, 9 * SECOND, False),
        (5, None, 9 * SECOND, False),
        (5, SECOND, 6 * SECOND - 1, False),
        (5, SECOND, 6 * SECOND, True),
        (0, SECOND, SECOND, True),
    ],
)
def test_a_deadline_passes_with_its_last_second(
    seconds: int | None, started_us: int | None, now_us: int, is_late: bool
) -> None:
    obj = pod() if seconds is None else pod(activeDeadlineSeconds=seconds)
    assert past_deadline(obj, started_us, now_us) is is_late


OUTCOMES = (("Initialized", "True", "", ""), ("Ready", "False", "Why", "text"))
THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"


def test_conditions_keep_their_time_while_their_status_does() -> None:
    first = conditions_of(OUTCOMES, (), THEN)
    assert [one["lastTransitionTime"] for one in first] == [THEN, THEN]
    assert first[1] == {
        "lastProbeTime": None, "lastTransitionTime": THEN, "type": "Ready", "status": "False",
        "reason": "Why", "message": "text",
    }  # fmt: skip
    assert "reason" not in first[0]
    assert conditions_of(OUTCOMES, first, NOW) == first
    other = (OUTCOMES[0], ("Ready", "False", "Other", ""))
    assert [one["lastTransitionTime"] for one in conditions_of(other, first, NOW)] == [THEN, THEN]
    ready = (OUTCOMES[0], ("Ready", "True", "", ""))
    assert [one["lastTransitionTime"] for one in conditions_of(ready, first, NOW)] == [THEN, NOW]
    # without a time before, it is that of now
    bare = [{**one, "lastTransitionTime": None} for one in first]
    assert [one["lastTransitionTime"] for one in conditions_of(OUTCOMES, bare, NOW)] == [NOW, NOW]
    # in another order, or with one more: ours in our order, behind the others
    turned = conditions_of(OUTCOMES, [first[1], first[0]], NOW)
    assert turned == first
    gate = {"type": "gate", "status": "True"}
    assert conditions_of(OUTCOMES, [first[0], gate, first[1]], NOW) == [gate, *first]
    assert (
        conditions_of(OUTCOMES, [{"type": "PodScheduled", "status": "True"}], NOW)[0]["type"] == "Initialized"
    )


def outcome(obj: Obj, shown: Obj, type_: str) -> tuple[str, str]:
    found = next(one for one in shown["conditions"] if one["type"] == type_)
    return found["status"], found.get("reason", "")


@pytest.mark.parametrize(
    ("policy", "behaviour", "ready", "initialized"),
    [
        ("Never", ENDED, ("False", "PodCompleted"), ("True", "PodCompleted")),
        ("Never", FAILED, ("False", "PodFailed"), ("True", "")),
        ("Always", FAILED, ("False", "ContainersNotReady"), ("True", "")),
        ("Always", RUNS, ("True", ""), ("True", "")),
    ],
)
def test_readiness_by_phase(
    policy: str, behaviour: ContainerBehaviour, ready: tuple[str, str], initialized: tuple[str, str]
) -> None:
    obj = pod(policy, readinessGates=[])
    shown = status(obj, runtime(c=behaviour))
    assert outcome(obj, shown, "Ready") == ready
    assert outcome(obj, shown, "ContainersReady") == ready
    assert outcome(obj, shown, "Initialized") == initialized
    assert outcome(obj, shown, "PodScheduled") == ("True", "")


def test_gates_are_read_when_the_containers_are_ready() -> None:
    gated = pod(readinessGates=[{"conditionType": "g"}])
    assert outcome(gated, status(gated, runtime(c=FAILED)), "Ready") == ("False", "ContainersNotReady")
    assert outcome(gated, status(gated, runtime(c=RUNS)), "Ready") == ("False", "ReadinessGatesNotReady")
    gated["status"] = {"conditions": [{"type": "g", "status": "True"}, {"type": "g", "status": "False"}]}
    shown = status(gated, runtime(c=RUNS))
    assert outcome(gated, shown, "Ready") == ("True", "")
    assert [one["type"] for one in shown["conditions"]] == [
        "Initialized", "Ready", "ContainersReady", "PodScheduled",
    ]  # fmt: skip


def test_a_probe_changes_its_container_alone() -> None:
    obj = pod(names=("a", "b"))
    shown = status(obj, runtime(a=RUNS, b=RUNS))
    unready = probed(obj, shown, "b", "ready", False, NOW)
    assert [one["ready"] for one in unready["containerStatuses"]] == [True, False]
    assert outcome(obj, unready, "Ready") == ("False", "ContainersNotReady")
    unstarted = probed(obj, shown, "a", "started", False, NOW)
    assert [one["started"] for one in unstarted["containerStatuses"]] == [False, True]
    assert unstarted["conditions"] == shown["conditions"]


@pytest.mark.parametrize(
    ("view", "phase", "reason", "message"),
    [
        ({"override": ("", "Evicted", "m")}, "Failed", "Evicted", "m"),
        ({"override": ("Succeeded", "Evicted", "m")}, "Succeeded", "Evicted", "m"),
        (
            {"late": True},
            "Failed",
            "DeadlineExceeded",
            "Pod was active on the node longer than the specified deadline",
        ),
        ({}, "Running", None, None),
    ],
)
def test_what_ends_a_pod_is_shown(view: dict[str, Any], phase: str, reason: str, message: str) -> None:
    shown = status(pod(), runtime(c=RUNS), **view)
    assert (shown["phase"], shown.get("reason"), shown.get("message")) == (phase, reason, message)


def test_a_pod_that_has_succeeded_succeeds_though_it_is_killed() -> None:
    assert status(pod("Never"), runtime(c=ENDED), override=("", "r", "m"))["phase"] == "Succeeded"


@pytest.mark.parametrize(
    ("shown", "old", "phase", "reason"),
    [
        ("Failed", {"phase": "Failed", "reason": "r"}, "Failed", "r"),
        ("Running", {"phase": "Failed", "reason": "r"}, "Failed", "r"),
        ("Running", {"phase": "Running", "reason": "r"}, "Running", "r"),
        ("Running", {"phase": "Pending", "reason": "r"}, "Running", None),
        (None, {}, "Running", None),
    ],
)
def test_reason_stays_as_long_as_its_phase(
    shown: str | None, old: Obj, phase: str, reason: str | None
) -> None:
    obj = {**pod(), "status": {"phase": shown}}
    made = generate(obj, old, View(10, int, ["1.1.1.1"], runtime(c=RUNS)))
    assert (made["phase"], made.get("reason")) == (phase, reason)


def test_statuses_are_sorted_by_name_and_old_values_stay() -> None:
    temporary = [{"name": "z", "image": "i"}, {"name": "e", "image": "i"}]
    obj = pod(names=("b", "a"), ephemeralContainers=temporary)
    old = {"startTime": THEN, "qosClass": "Burstable", "nominatedNodeName": "n", "podIP": "9.9.9.9"}
    made = generate(obj, old, View(10, int, ["1.1.1.1"], None))
    assert [one["name"] for one in made["containerStatuses"]] == ["a", "b"]
    assert [one["name"] for one in made["ephemeralContainerStatuses"]] == ["e", "z"]
    assert [one["ready"] for one in made["ephemeralContainerStatuses"]] == [False, False]
    assert (made["startTime"], made["qosClass"], made["nominatedNodeName"]) == (THEN, "Burstable", "n")
    assert (made["podIP"], made["podIPs"]) == ("9.9.9.9", [{"ip": "9.9.9.9"}])
    assert "initContainerStatuses" not in made
    both = generate(obj, {**old, "podIPs": [{"ip": "8.8.8.8"}]}, View(10, int, ["1.1.1.1"], None))
    assert both["podIPs"] == [{"ip": "8.8.8.8"}]
    fresh = generate(pod(), {}, View(10, int, ["1.1.1.1"], None))
    assert (fresh["startTime"], fresh["qosClass"]) == ("1970-01-01T00:00:00Z", "BestEffort")
    assert {"podIP", "nominatedNodeName", "reason", "message"}.isdisjoint(fresh)


def entry(obj: Obj, sandbox: Any, init: bool = False, held: tuple[Obj, ...] = (), **view: Any) -> Obj:
    spec = obj["spec"]["initContainers" if init else "containers"][0]
    return container_status(obj, spec, View(10, int, ["1.1.1.1"], sandbox, **view), init=init, held=held)


def test_container_is_ready_when_it_runs_and_its_probes_pass() -> None:
    assert [entry(pod(), runtime(c=RUNS))[key] for key in ("started", "ready")] == [True, True]
    unready = entry(pod(), runtime(c=RUNS), unready={"c": None})
    assert [unready[key] for key in ("started", "ready")] == [True, False]
    unstarted = entry(pod(), runtime(c=RUNS), unstarted={"c": None})
    assert [unstarted[key] for key in ("started", "ready")] == [False, False]
    assert not entry(pod(), runtime(c=ENDED))["started"]
    assert not entry(pod(), None)["started"]


@pytest.mark.parametrize(("behaviour", "is_ready"), [(RUNS, False), (ENDED, True), (FAILED, False)])
def test_init_container_is_ready_when_it_has_succeeded(behaviour: ContainerBehaviour, is_ready: bool) -> None:
    shown = entry(pod(**ONE_INIT), runtime(i=behaviour), init=True)
    assert shown["ready"] is is_ready
    assert "started" not in shown


BACK_OFF = {"reasons": {"c": ("CrashLoopBackOff", "m")}}
WAITING: Obj = {"waiting": {"reason": "CrashLoopBackOff", "message": "m"}}


def test_a_reason_replaces_the_state_of_what_will_start_again() -> None:
    assert entry(pod(), runtime(c=RUNS), **BACK_OFF)["state"].keys() == {"running"}
    crashed = entry(pod(), runtime(c=FAILED), **BACK_OFF)
    assert crashed["state"] == WAITING
    assert crashed["lastState"]["terminated"]["exitCode"] == 1
    assert entry(pod("Never"), runtime(c=FAILED), **BACK_OFF)["state"].keys() == {"terminated"}
    assert entry(pod("OnFailure"), runtime(c=ENDED), **BACK_OFF)["state"].keys() == {"terminated"}
    leaving = pod()
    leaving["metadata"]["deletionTimestamp"] = THEN
    assert entry(leaving, runtime(c=FAILED), **BACK_OFF)["state"].keys() == {"terminated"}
    pulled = entry(pod("Never"), None, reasons={"c": ("ErrImagePull", "")})
    assert pulled["state"] == {"waiting": {"reason": "ErrImagePull"}}
    again = entry(pod(**ONE_INIT), runtime(i=ENDED), init=True, reasons={"i": ("r", "m")})
    assert again["state"].keys() == {"terminated"}  # it never starts again after success


def test_container_without_instance_shows_what_is_known_of_it() -> None:
    assert entry(pod(), None)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert entry(pod(**ONE_INIT), None)["state"] == {"waiting": {"reason": "PodInitializing"}}
    ended = {"name": "c", "state": end(4), "lastState": {}, "restartCount": 2}
    assert entry(pod(), None, held=(ended,)) is ended
    retried = entry(pod(), None, held=(ended,), **BACK_OFF)
    assert (retried["state"], retried["lastState"], retried["restartCount"]) == (WAITING, end(4), 2)
    ran = {"name": "c", "state": UP, "lastState": {}, "restartCount": 2}
    lost = entry(pod(), None, held=(ran,))
    assert (lost["lastState"], lost["restartCount"]) == (LOST_STATE, 3)
    leaving = pod()
    leaving["metadata"]["deletionTimestamp"] = THEN
    assert entry(leaving, None, held=(ran,))["restartCount"] == 2
    waits = {"name": "c", "state": WAITS, "lastState": {}, "restartCount": 0}
    assert entry(pod(), None, held=(waits,)) == entry(pod(), None)
    waits["restartCount"] = 1
    assert entry(pod(), None, held=(waits,))["restartCount"] == 1


def test_the_state_before_the_newest_instance_is_the_last_one() -> None:
    sandbox = runtime(c=FAILED)
    assert entry(pod(), sandbox)["lastState"] == {}
    from_before = sandbox.newest("c")
    assert entry(pod(), sandbox)["containerID"] == from_before.ident
    assert entry(pod(), sandbox)["restartCount"] == 0


def test_changes_that_the_status_does_not_show() -> None:
    sandbox = runtime(c=ContainerBehaviour(exit_after_us=50))
    sandbox.ready = True
    shown = generate(pod(), {}, View(10, int, ["1.1.1.1"], sandbox))
    exit_us = sandbox.next_exit_us(10)
    assert exit_us is not None
    assert unseen_us(sandbox, shown, 10) == exit_us
    assert [unseen_us(sandbox, shown, exit_us + late_us) for late_us in (0, 5)] == [exit_us, exit_us + 5]
    assert unseen_us(sandbox, {**shown, "containerStatuses": []}, 20) == exit_us
    other = [{**shown["containerStatuses"][0], "containerID": "other"}]
    assert unseen_us(sandbox, {**shown, "containerStatuses": other}, 20) == 20
    unknown = [{**shown["containerStatuses"][0], "name": "gone"}]
    assert unseen_us(sandbox, {**shown, "containerStatuses": unknown}, 20) == exit_us
    sandbox.ready = False
    assert unseen_us(sandbox, shown, 20) == 20
    assert unseen_us(sandbox, {**shown, "phase": "Failed"}, 20) == exit_us
