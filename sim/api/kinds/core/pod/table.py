"""The table row of a pod.  Its status is computed from those of its containers.

Turns a pod into its cells: readiness, the aggregate status of its containers, restarts, age and
addresses.

Mirrors  kubernetes v1.25 pkg/printers/internalversion/printers.go: printPod.
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.common.cells import age
from sim.api.objects import TERMINAL, condition_status, is_deleting, name_of, phase_of
from sim.api.types import Obj
from sim.units import human_duration, parse_time


def _ended(state: Obj, prefix: str = "") -> str:
    terminated = state["terminated"]
    if terminated.get("reason"):
        return prefix + str(terminated["reason"])
    if terminated.get("signal"):
        return f"{prefix}Signal:{terminated['signal']}"
    return f"{prefix}ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(pod: Obj) -> tuple[str, list[Obj]] | None:
    """Status, and the statuses of init containers up to the first that has not succeeded; None if
    all have.
    """
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    for i, found in enumerate(statuses):
        state = found.get("state") or {}
        seen = list(statuses[: i + 1])
        if "terminated" in state:
            if state["terminated"].get("exitCode", 0) == 0:
                continue
            return _ended(state, "Init:"), seen
        reason = (state.get("waiting") or {}).get("reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}", seen
        return f"Init:{i}/{total}", seen
    return None


def _running(pod: Obj, reason: str) -> tuple[str, int]:
    """Status and number of ready containers, once all init containers have succeeded."""
    ready, running = 0, False
    for found in reversed((pod.get("status") or {}).get("containerStatuses") or ()):
        state = found.get("state") or {}
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting:
            reason = waiting
        elif "terminated" in state:
            reason = _ended(state)
        elif found.get("ready") and "running" in state:
            running = True
            ready += 1
    if reason == "Completed" and running:
        reason = "Running" if condition_status(pod, "Ready") == "True" else "NotReady"
    return reason, ready


def _restarts(statuses: list[Obj], now_us: int) -> str:
    count = sum(s.get("restartCount", 0) for s in statuses)
    ends = [((s.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for s in statuses]
    last = max((parse_time(end) for end in ends if end), default=None)
    return f"{count} ({human_duration(now_us - last)} ago)" if count and last is not None else str(count)


def pod_cells(pod: Obj, now_us: int) -> list[Any]:
    """The cells of a pod."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or ""
    initializing = _initializing(pod)
    if initializing is not None:
        (reason, counted), ready = initializing, 0
    else:
        reason, ready = _running(pod, reason)
        counted = list(status.get("containerStatuses") or ())
    if is_deleting(pod):
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    gates = spec.get("readinessGates") or ()
    passed = sum(condition_status(pod, gate["conditionType"]) == "True" for gate in gates)
    ips = status.get("podIPs") or ()
    return [
        name_of(pod),
        f"{ready}/{len(spec.get('containers') or ())}",
        reason,
        _restarts(counted, now_us),
        age(pod, now_us),
        ips[0]["ip"] if ips else "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"{passed}/{len(gates)}" if gates else "<none>",
    ]


def row_conditions(pod: Obj) -> list[Obj]:
    """The condition that marks the row of a pod that has ended."""
    phase = phase_of(pod)
    if phase not in TERMINAL:
        return []
    message = "The pod failed." if phase == "Failed" else "The pod has completed successfully."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
