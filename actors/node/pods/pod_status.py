"""The `status` of a pod: from its object, its runtime and the last failed starts.  Pure.

Equal conditions are one shared object (`_condition` is cached): thousands of pods that became ready
in the same second differ only in ids and addresses.

Mirrors  pkg/kubelet/kubelet_pods.go: generateAPIPodStatus, convertStatusToAPIStatus, getPhase;
         pkg/kubelet/status/generate.go: the conditions (v1.25).
Differs  termination messages come from the runtime model, not from a file in the container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import assert_never

from actors.node.pod_spec import RestartPolicy, pod_qos, restart_policy, should_restart
from actors.node.pod_work import Override, PodPhase, Reason
from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.image_store.names import image_id
from sim.api.objects import TERMINAL
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.units import SECOND, format_time

LOST_MESSAGE = (
    "The container could not be located when the pod was deleted.  The container used to be Running"
)
DEADLINE_REASON = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"
NOTHING: Obj = {}


@dataclass(slots=True)
class View:
    """What the agent knows about a pod besides its object, at one instant.

    said_us: the reading of the machine's wall clock at a kernel time
    host_ips: the node's addresses, the main one first
    reasons: container -> why its last start failed
    unready, unstarted: containers that their probes report as such
    override: phase, reason and message for a pod that is killed; no phase means Failed, or
        Succeeded if it has succeeded
    late: True if the pod is past its activeDeadlineSeconds
    """

    now_us: int
    said_us: Callable[[int], int]
    host_ips: Sequence[str]
    runtime: PodRuntime | None = None
    reasons: Mapping[str, Reason] = field(default_factory=lambda: NOTHING)
    unready: Mapping[str, None] = field(default_factory=lambda: NOTHING)
    unstarted: Mapping[str, None] = field(default_factory=lambda: NOTHING)
    override: Override | None = None
    late: bool = False


def reasoned(reasons: Mapping[str, Reason], name: str, reason: Reason | None) -> Mapping[str, Reason]:
    """The reasons with a new one for a container, or with none."""
    if reason is not None:
        return {**reasons, name: reason}
    if name not in reasons:
        return reasons
    return {held: why for held, why in reasons.items() if held != name} or NOTHING


@lru_cache(maxsize=4096)
def _condition(type_: str, status: str, since: str, reason: str, message: str) -> Obj:
    # These fields are as upstream's JSON and the API's answers have them, so that equal conditions
    # are equal dicts.
    condition = {"lastProbeTime": None, "lastTransitionTime": since, "type": type_, "status": status}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


@lru_cache(maxsize=256)
def _waiting(reason: str, message: str) -> Obj:
    state = {"reason": reason} if reason else {}
    if message:
        state["message"] = message
    return {"waiting": state}


# --- containers -----------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _running(unix_s: int) -> Obj:
    return {"running": {"startedAt": format_time(unix_s * SECOND)}}


def _state(container: Container, view: View) -> Obj:
    started_us = view.said_us(container.started_us)
    if not container.exited(view.now_us):
        return _running(started_us // SECOND)
    assert container.exit_us is not None
    terminated = {
        "exitCode": container.exit_code,
        "reason": container.reason,
        "startedAt": format_time(started_us),
        "finishedAt": format_time(view.said_us(container.exit_us)),
        "containerID": container.ident,
    }
    if container.message:
        terminated["message"] = container.message
    return {"terminated": terminated}


# The last state of a container that was running and that the runtime no longer knows.
LOST_STATE: Obj = {
    "terminated": {
        "reason": "ContainerStatusUnknown",
        "message": LOST_MESSAGE,
        "exitCode": 137,
        "startedAt": None,
        "finishedAt": None,
    }
}


@lru_cache(maxsize=1024)
def _unstarted(name: str, image: str, reason: str, init: bool) -> Obj:
    """A container that never ran, the same object for all pods of a template."""
    status = {"name": name, "ready": False, "restartCount": 0, "image": image, "imageID": "",
              "state": _waiting(reason, ""), "lastState": NOTHING}  # fmt: skip
    return status if init else {**status, "started": False}


def container_status(pod: Obj, spec: Obj, view: View, *, init: bool, held: Iterable[Obj]) -> Obj:
    """One entry of a list of container statuses.

    held: the entries so far
    """
    name, runtime = spec["name"], view.runtime
    instances = runtime.instances(name) if runtime is not None else ()
    newest = instances[-1] if instances else None
    reason = view.reasons.get(name)
    if newest is None:
        old = _by_name(held).get(name)
        if old is not None and "terminated" in old["state"]:
            if reason is None:
                # Quirk: its end is shown until it runs again, although the runtime no longer knows
                # of it
                return old
            status = {**old}
        else:
            default = "PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating"
            status = _unstarted(name, spec["image"], default, init)
            history = NOTHING if old is None else _earlier_instances(pod, old)
            if not history and reason is None:
                return status
            status = {**status, **history}
    else:
        image = newest.image
        status = {
            "name": name,
            "ready": False,
            "restartCount": newest.attempt,
            "image": image,
            "imageID": image_id(image),
            "state": _state(newest, view),
            "lastState": _state(instances[-2], view) if len(instances) > 1 else NOTHING,
            "containerID": newest.ident,
        }
    if (
        reason is not None
        and not (newest is not None and newest.running(view.now_us))
        and not pod["metadata"].get("deletionTimestamp")  # else no container will start again
    ):
        if newest is None or should_restart(_policy(pod, init), newest.exit_code):
            if "terminated" in status["state"]:
                status["lastState"] = status["state"]
            status["state"] = _waiting(*reason)
    if init:
        status["ready"] = status["state"].get("terminated", NOTHING).get("exitCode") == 0
    else:
        started = "running" in status["state"] and name not in view.unstarted
        status["started"] = started
        status["ready"] = started and name not in view.unready
    return status


def _earlier_instances(pod: Obj, old: Obj) -> Obj:
    """What is left of the instances of a container that has none now; empty without any."""
    restarts, last = old.get("restartCount", 0), old.get("lastState")
    # Quirk: the last instance is neither shown nor counted if the container had ended before that.
    if "running" in (old.get("state") or NOTHING) and "terminated" not in (last or NOTHING):
        last = LOST_STATE
        restarts += 0 if pod["metadata"].get("deletionTimestamp") else 1
    return {"lastState": last or NOTHING, "restartCount": restarts} if last or restarts else NOTHING


def unseen_us(runtime: PodRuntime, shown: Obj, now_us: int) -> int | None:
    """The first change that the status does not show: now, at a future exit, or None."""
    for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for status in shown.get(key) or ():
            newest = runtime.newest(status["name"])
            if newest is None:
                continue
            state = status["state"]
            if status.get("containerID") != newest.ident:
                return now_us
            if newest.exited(now_us) and "running" in state:
                return now_us
    if not runtime.ready and shown.get("phase") not in TERMINAL:
        return now_us
    return runtime.next_exit_us(now_us)


# The final state of a container if the runtime never showed its end.
UNKNOWN_END: Obj = {
    "terminated": {
        "reason": "ContainerStatusUnknown",
        "exitCode": 137,
        "startedAt": None,
        "finishedAt": None,
        "message": "The container could not be located when the pod was terminated",
    }
}


def final_status(status: Obj) -> Obj:
    """The last status of a pod of which nothing runs any more.  Its phase and conditions stay.

    Containers without an observed end count as failed, except those of a pod with init containers
    that did not complete, and init containers that never started.

    Mirrors  status_manager.go: TerminatePod.
    """
    init, app = status.get("initContainerStatuses") or [], status["containerStatuses"]
    begun = max((n for n, held in enumerate(init, 1) if not _never_started(held)), default=1)
    ended = {
        "containerStatuses": app,
        "initContainerStatuses": [*map(_with_end, init[:begun]), *init[begun:]],
    }
    if not init or not all(map(_never_started, app)) or _exit_code(init[-1]) == 0:
        ended["containerStatuses"] = [*map(_with_end, app)]
    return {**status, **{key: held for key, held in ended.items() if held}}


def _never_started(status: Obj) -> bool:
    """True if the container has not been observed to start."""
    return "waiting" in status["state"] and "terminated" not in status["lastState"]


def _with_end(status: Obj) -> Obj:
    return status if "terminated" in status["state"] else {**status, "state": UNKNOWN_END}


def _policy(pod: Obj, init: bool) -> RestartPolicy:
    policy = restart_policy(pod)
    return "OnFailure" if init and policy == "Always" else policy


def _by_name(statuses: Iterable[Obj]) -> dict[str, Obj]:
    return {status["name"]: status for status in statuses}


# --- phase ----------------------------------------------------------------------------------------


def phase_of(pod: Obj, init: Sequence[Obj], app: Sequence[Obj]) -> PodPhase:
    """The phase that follows from the containers."""
    policy = restart_policy(pod)
    inits = pod["spec"].get("initContainers")
    if inits:
        statuses = _by_name(init)
        codes = [_exit_code(statuses[c["name"]]) if c["name"] in statuses else None for c in inits]
        if policy == "Never" and any(codes):
            return "Failed"
        if None in codes:  # Quirk: also if the other containers ran in an earlier sandbox
            return "Pending"
    waiting = len(pod["spec"]["containers"]) - len(app)  # containers without a status
    running = stopped = succeeded = 0
    for status in app:
        state = status["state"]
        if "running" in state:
            running += 1
        elif "terminated" in state:
            stopped += 1
            succeeded += state["terminated"]["exitCode"] == 0
        elif "terminated" in status["lastState"]:
            stopped += 1
        else:
            waiting += 1
    if waiting:
        return "Pending"
    if running or policy == "Always":
        return "Running"
    if stopped == succeeded:
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _exit_code(status: Obj) -> int | None:
    for state in (status["state"], status["lastState"]):
        if "terminated" in state:
            return int(state["terminated"]["exitCode"])
        if "running" in state:
            return None
    return None


# --- conditions -----------------------------------------------------------------------------------


Outcome = tuple[str, str, str, str]  # type, status, reason, message


def _outcomes(pod: Obj, phase: PodPhase, init: Sequence[Obj], app: Sequence[Obj]) -> Sequence[Outcome]:
    unready = tuple([s["name"] for s in app if not s["ready"]])
    incomplete = tuple([s["name"] for s in init if not s["ready"]]) if init else ()
    outcomes = _own_outcomes(phase, unready, incomplete)
    if outcomes[1][1] == "True" and pod["spec"].get("readinessGates"):
        initialized, _, *others = outcomes
        return [initialized, ("Ready", *_readiness_gates(pod)), *others]
    return outcomes


@lru_cache(maxsize=1024)
def _own_outcomes(
    phase: PodPhase, unready: tuple[str, ...], incomplete: tuple[str, ...]
) -> Sequence[Outcome]:
    """The outcomes without readiness gates: the same tuples for all pods of a template."""
    ready, initialized = ("True", "", ""), ("True", "", "")
    match phase:
        case "Succeeded":
            ready, initialized = ("False", "PodCompleted", ""), ("True", "PodCompleted", "")
        case "Failed":
            ready = ("False", "PodFailed", "")
        case "Pending" | "Running" | "Unknown":
            if unready:
                ready = (
                    "False",
                    "ContainersNotReady",
                    f"containers with unready status: [{' '.join(unready)}]",
                )
        case _:
            assert_never(phase)
    if incomplete and phase != "Succeeded":
        text = f"containers with incomplete status: [{' '.join(incomplete)}]"
        initialized = ("False", "ContainersNotInitialized", text)
    return (
        ("Initialized", *initialized),
        ("Ready", *ready),
        ("ContainersReady", *ready),
        ("PodScheduled", "True", "", ""),
    )


def _readiness_gates(pod: Obj) -> tuple[str, str, str]:
    held: dict[str, str] = {}
    for condition in (pod.get("status") or {}).get("conditions") or ():
        # of several with one type the first counts
        held.setdefault(condition["type"], condition["status"])
    unmet = []
    for gate in pod["spec"].get("readinessGates") or ():
        type_ = gate["conditionType"]
        if type_ not in held:
            unmet.append(f'corresponding condition of pod readiness gate "{type_}" does not exist.')
        elif held[type_] != "True":
            unmet.append(f'the status of pod readiness gate "{type_}" is not "True", but {held[type_]}')
    return ("False", "ReadinessGatesNotReady", ", ".join(unmet)) if unmet else ("True", "", "")


OWN_CONDITIONS = frozenset({"Initialized", "Ready", "ContainersReady", "PodScheduled"})


# By the identity of the old conditions: pods with equal changes in one second share the list.
_conditions: dict[tuple[Sequence[Outcome], int, str], tuple[Sequence[Obj], list[Obj]]] = {}
_CONDITIONS_MAX = 4096


def conditions_of(outcomes: Sequence[Outcome], old: Sequence[Obj], now: str) -> list[Obj]:
    """Foreign conditions first, then ours; the transition time changes only with the status."""
    key = (tuple(outcomes), id(old), now)
    known = _conditions.get(key)
    if known is None:
        if len(_conditions) >= _CONDITIONS_MAX:
            _conditions.clear()
        known = _conditions[key] = (old, _find_conditions(outcomes, old, now))
    return known[1]


def _find_conditions(outcomes: Sequence[Outcome], old: Sequence[Obj], now: str) -> list[Obj]:
    unchanged = _unchanged_conditions(outcomes, old)
    if unchanged is not None:
        return unchanged
    held = {condition["type"]: condition for condition in old}
    conditions = []
    if not OWN_CONDITIONS.issuperset(held):
        conditions = [condition for condition in old if condition["type"] not in OWN_CONDITIONS]
    for type_, status, reason, message in outcomes:
        before, since = held.get(type_), now
        if before is not None and before["status"] == status:
            since = before.get("lastTransitionTime") or now
        conditions.append(_condition(type_, status, since, reason, message))
    return conditions


def _unchanged_conditions(outcomes: Sequence[Outcome], old: Sequence[Obj]) -> list[Obj] | None:
    """The conditions if they are exactly the old ones, in the same order; else None."""
    if len(outcomes) != len(old):
        return None
    conditions = []
    for (type_, status, reason, message), held in zip(outcomes, old, strict=True):
        since = held.get("lastTransitionTime")
        if not since:
            return None
        condition = _condition(type_, status, since, reason, message)
        if held != condition:
            return None
        conditions.append(condition)
    return conditions


# --- the whole ------------------------------------------------------------------------------------


def past_deadline(pod: Obj, start_us: int | None, wall_now_us: int) -> bool:
    """True if the pod has been active for longer than its deadline."""
    seconds = pod["spec"].get("activeDeadlineSeconds")
    return seconds is not None and start_us is not None and wall_now_us - start_us >= seconds * SECOND


def generate(pod: Obj, old: Obj, view: View) -> Obj:
    """The status that the pod should have now.  old: the status so far (at first the API's)."""
    spec = pod["spec"]
    held = old.get("containerStatuses") or ()
    app = [container_status(pod, c, view, init=False, held=held) for c in spec["containers"]]
    init: list[Obj] = []
    if spec.get("initContainers"):
        held = old.get("initContainerStatuses") or ()
        init = [container_status(pod, c, view, init=True, held=held) for c in spec["initContainers"]]
    if len(app) > 1:
        app.sort(key=lambda s: str(s["name"]))
    phase, reason, message = _phase(pod, old, view, init, app)
    now = format_time(view.said_us(view.now_us))
    conditions = conditions_of(_outcomes(pod, phase, init, app), old.get("conditions") or (), now)
    if view.override is not None:  # Quirk: the conditions do not follow the override yet
        wanted, reason, message = view.override
        phase = wanted or ("Succeeded" if phase == "Succeeded" else "Failed")
    status: Obj = {
        "phase": phase,
        "conditions": conditions,
        "hostIP": view.host_ips[0],
        "startTime": old.get("startTime") or now,
        "containerStatuses": app,
        "qosClass": old.get("qosClass") or pod_qos(pod),
    }
    if init:
        status["initContainerStatuses"] = init
    if ephemeral := spec.get("ephemeralContainers"):
        held = old.get("ephemeralContainerStatuses") or ()
        made = [{**container_status(pod, c, view, init=True, held=held), "ready": False} for c in ephemeral]
        status["ephemeralContainerStatuses"] = sorted(made, key=lambda s: str(s["name"]))
    if reason:
        status["reason"] = reason
    if message:
        status["message"] = message
    if spec.get("hostNetwork"):
        status["podIP"], status["podIPs"] = view.host_ips[0], [{"ip": ip} for ip in view.host_ips]
    elif view.runtime is not None and (ip := view.runtime.ip):
        status["podIP"], status["podIPs"] = ip, [{"ip": ip}]
    elif old.get("podIP"):
        status["podIP"], status["podIPs"] = old["podIP"], old.get("podIPs") or [{"ip": old["podIP"]}]
    if old.get("nominatedNodeName"):
        status["nominatedNodeName"] = old["nominatedNodeName"]
    return status


def probed(pod: Obj, status: Obj, container: str, key: str, value: bool, now: str) -> Obj:
    """The status with a probe's result: whether a container is `ready`, or has `started`.

    Quirk: the next sync derives readiness from `started`.

    Mirrors  status_manager.go: SetContainerReadiness, SetContainerStartup.
    """
    app = [{**s, key: value} if s["name"] == container else s for s in status["containerStatuses"]]
    changed = {**status, "containerStatuses": app}
    if key == "ready":
        outcomes = _outcomes(pod, status["phase"], status.get("initContainerStatuses") or (), app)
        changed["conditions"] = conditions_of(outcomes, status["conditions"], now)
    return changed


def _phase(
    pod: Obj, old: Obj, view: View, init: Sequence[Obj], app: Sequence[Obj]
) -> tuple[PodPhase, str, str]:
    """The phase, reason and message: by the containers, unless the deadline has passed.

    The reason and message of an end stay as long as its phase.  Quirk: a pod that was to fail
    succeeds without a reason if its containers end well when they are stopped and do not start
    again.
    """
    shown, before = (pod.get("status") or NOTHING).get("phase"), old.get("phase")
    known = old.get("reason", ""), old.get("message", "")
    if shown in TERMINAL:  # a terminal phase is final
        return shown, *known
    if view.late:
        return "Failed", DEADLINE_REASON, DEADLINE_MESSAGE
    phase = phase_of(pod, init, app)
    if phase not in TERMINAL and before in TERMINAL:
        phase = before
    return phase, *(known if phase == before else ("", ""))
