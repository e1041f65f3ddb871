"""Is a node alive, and which taints follow from what it says: decisions of the node lifecycle loop.

Turns a node, its lease and what was known of both into a new `Health`, into the conditions to write
when it has been silent for too long, and into taints to add and remove.

Holds: the node's own clock is never believed: a heartbeat is a change seen, at the controller's own
time; objects are changed by path copy.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/node_lifecycle_controller.go
         (tryUpdateNodeHealth, doNoScheduleTaintingPass), pkg/util/taints/taints.go,
         pkg/api/v1/pod/util.go (UpdatePodCondition).
Differs  silence is measured on the monotonic clock also for a node that never reported (upstream:
         wall clock).
Quirk:   a status heartbeat forgets the lease seen before, so that the next pass takes the same
         lease for a new
         heartbeat: a node that dies right after a status write is found 5 s later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sim.api.objects import condition_of
from sim.api.types import Obj
from sim.ident import Names
from sim.units import MS

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
HEALTH_TICK_US = 20 * MS  # retrySleepTime
HEALTH_TICKS = 5  # scheduler.NodeHealthUpdateRetry
_SILENT_TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")  # not NetworkUnavailable

Taint = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PassCost:
    """What a pass takes besides its requests.  240 quiet nodes: 10 ms (fitted to recorded deaths:
    passes in which nothing is written are 5.010 s apart)."""

    base_us: int = 1_000
    node_us: int = 37


# --- health ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turns:
    """A pass over `count` nodes, from the one whose index is `first`; `done` of them have had their
    turn.
    """

    first: int
    count: int
    start_us: int
    cost_us: int
    done: int

    def of(self, index: int) -> int:
        """The turn of a node."""
        return (index - self.first) % self.count

    def at_us(self, turn: int) -> int:
        """When a turn is over."""
        return self.start_us + self.cost_us * (turn + 1)


class Health:
    """What is known of one node.

    lease_key: of its lease, in the store
    ready: its Ready condition when last heard of by status (None: never had one)
    lease_revision: of its lease when it was last looked at ("": it had none)
    renewed: renewTime of the last lease that counted as a heartbeat (None: none, or forgotten)
    probe_us: when it was last heard of, by the controller's clock
    verdict: the trace record of the decision or write by which it is not ready (0: none known)
    node, quiet: the object of the last look, and whether only its lease need be looked at until it
    changes; beaten: the newest that has only other heartbeat times than `node`, None if there is
    none
    index: its place in the list of all; timed: whether its silence will be noticed; row: among
    those whose renewals come by the thousand, -1 if they come one by one
    zone, counted: the zone in whose counts it stands, as ready (True), not ready (False) or not at
    all (None)
    """

    __slots__ = (
        "beaten",
        "counted",
        "index",
        "known",
        "lease_key",
        "lease_revision",
        "name",
        "node",
        "probe_us",
        "quiet",
        "ready",
        "renewed",
        "row",
        "timed",
        "verdict",
        "zone",
    )

    def __init__(self, name: str, lease_key: str) -> None:
        self.name = name
        self.lease_key = lease_key
        self.lease_revision = ""
        self.verdict = 0
        self.known = False
        self.ready: Obj | None = None
        self.renewed: int | None = None
        self.probe_us = 0
        self.node: Obj | None = None
        self.beaten: Obj | None = None
        self.quiet = False
        self.index = 0
        self.row = -1
        self.timed = False
        self.zone = ""
        self.counted: bool | None = None

    def hear(self, renewed: int, at_us: int) -> None:
        """A lease of it, while it is well."""
        if self.renewed is None or renewed > self.renewed:
            self.renewed, self.probe_us = renewed, at_us


def last_verdict(everyone: Iterable[Health], zone: str | None = None) -> int:
    """The latest record by which a node (of this zone) is ready or not (0: none known)."""
    return max((health.verdict for health in everyone if zone in (None, health.zone)), default=0)


def listen(health: Health, ready: Obj | None, renewed: int | None, now_us: int, created_us: int) -> None:
    """Fold what a pass sees of a node into its health.

    renewed: time of its lease by the node's own clock (NO_TIME: never renewed); None: it has none
    """
    saved, before = health.ready, health.renewed
    if not health.known:
        health.known = True
        health.ready = ready
        health.probe_us = created_us if ready is None else now_us
    elif ready is None:
        health.ready = None  # no sign of life, even if there was a condition before
    elif saved is not ready:
        if saved is None or saved.get("lastHeartbeatTime") != ready.get("lastHeartbeatTime"):
            health.ready, health.renewed, health.probe_us = ready, None, now_us
    if renewed is not None and (before is None or renewed > before):
        health.renewed, health.probe_us = renewed, now_us


def same(node: Obj | None, known: Obj | None) -> bool:
    """Whether these are a node as of one revision: what rests in bytes is another object each time
    it is read.
    """
    if node is known:
        return True
    if node is None or known is None:
        return False
    return bool(node["metadata"]["resourceVersion"] == known["metadata"]["resourceVersion"])


def only_reported(health: Health, node: Obj | None) -> bool:
    """Whether a node whose renewals come by the thousand is well, and has at most other heartbeat
    times than before.
    """
    if health.row < 0 or not health.quiet or node is None:
        return False
    if same(node, health.node):
        return not health.timed  # it forgot the lease that it had
    ready = condition_of(node, "Ready") if same(node, health.beaten) else None
    saved = health.ready
    return (
        ready is not None and saved is not None and saved["lastHeartbeatTime"] != ready["lastHeartbeatTime"]
    )


def next_health_try(failed_us: int, now_us: int) -> tuple[int, bool]:
    """When to write a silent node's status again, and whether that is the last time.

    failed_us: when the first try had failed; now_us: when the latest had
    Mirrors  apimachinery wait.go: PollImmediate, poller, WaitForWithContext: a tick that finds a
             try under way is lost, and at the end of the time there is one try more, so that quick
             ones are six, not NodeHealthUpdateRetry.
    """
    tick_us = now_us + HEALTH_TICK_US - (now_us - failed_us) % HEALTH_TICK_US
    end_us = failed_us + HEALTH_TICKS * HEALTH_TICK_US
    return (tick_us, False) if tick_us < end_us else (max(now_us, end_us), True)


def silent_status(node: Obj, now: str, agent: str) -> Obj:
    """The node with the conditions of one that stopped reporting; the same object if nothing
    changes.
    """
    old = node.get("status", {}).get("conditions") or []
    conditions = [_silenced(condition, now, agent) for condition in old]
    have = {condition["type"] for condition in old}
    for kind in _SILENT_TYPES:
        if kind not in have:
            conditions.append(
                {
                    "type": kind,
                    "status": "Unknown",
                    "lastHeartbeatTime": node["metadata"].get("creationTimestamp"),
                    "lastTransitionTime": now,
                    "reason": "NodeStatusNeverUpdated",
                    "message": f"{agent} never posted node status.",
                }
            )
    if len(conditions) == len(old) and all(a is b for a, b in zip(conditions, old, strict=True)):
        return node
    return {**node, "status": {**node.get("status", {}), "conditions": conditions}}


def _silenced(condition: Obj, now: str, agent: str) -> Obj:
    if condition["type"] not in _SILENT_TYPES or condition["status"] == "Unknown":
        return condition
    return {
        **condition,
        "status": "Unknown",
        "lastTransitionTime": now,
        "reason": "NodeStatusUnknown",
        "message": f"{agent} stopped posting node status.",
    }


def not_ready_pod(pod: Obj, now: str) -> Obj | None:
    """The pod with Ready False; None if there is nothing to change."""
    conditions = pod.get("status", {}).get("conditions") or []
    for index, condition in enumerate(conditions):
        if condition["type"] == "Ready":
            if condition["status"] == "False":
                return None
            changed = {**condition, "status": "False", "lastTransitionTime": now}
            return {
                **pod,
                "status": {
                    **pod["status"],
                    "conditions": [*conditions[:index], changed, *conditions[index + 1 :]],
                },
            }
    return None


# --- taints ---------------------------------------------------------------------------------------


def has_taint(node: Obj, key: str, effect: str) -> bool:
    for taint in node.get("spec", {}).get("taints") or ():
        if taint["key"] == key and taint["effect"] == effect:
            return True
    return False


def taint_for(status: str, names: Names) -> str | None:
    """The taint key that a Ready status asks for."""
    return {"False": names.taint_not_ready, "Unknown": names.taint_unreachable}.get(status)


def opposite_taint(key: str, names: Names) -> str:
    return names.taint_unreachable if key == names.taint_not_ready else names.taint_not_ready


class ConditionTaints:
    """Which NoSchedule taints a node's conditions and its cordon ask for."""

    def __init__(self, names: Names) -> None:
        self._cordon = names.taint_unschedulable
        self._by_condition = {
            ("Ready", "False"): names.taint_not_ready,
            ("Ready", "Unknown"): names.taint_unreachable,
            ("MemoryPressure", "True"): names.taint_memory_pressure,
            ("DiskPressure", "True"): names.taint_disk_pressure,
            ("PIDPressure", "True"): names.taint_pid_pressure,
            ("NetworkUnavailable", "True"): names.taint_network_unavailable,
        }
        self._ours = frozenset((*self._by_condition.values(), self._cordon))

    def diff(self, node: Obj) -> tuple[list[str], list[str]]:
        """Keys of NoSchedule taints to add and to remove."""
        wanted: dict[str, None] = {}
        for condition in node.get("status", {}).get("conditions") or ():
            key = self._by_condition.get((condition["type"], condition["status"]))
            if key is not None:
                wanted[key] = None
        if node.get("spec", {}).get("unschedulable"):
            wanted[self._cordon] = None
        have = [
            taint["key"]
            for taint in node.get("spec", {}).get("taints") or ()
            if taint["effect"] == NO_SCHEDULE and taint["key"] in self._ours
        ]
        return [key for key in wanted if key not in have], [key for key in have if key not in wanted]


def with_taints(taints: Sequence[Taint], added: Sequence[Taint]) -> list[Taint] | None:
    """The list with these set (one of the same key and effect is replaced); None if nothing
    changes.
    """
    result = list(taints)
    for taint in added:
        for index, old in enumerate(result):
            if old["key"] == taint["key"] and old["effect"] == taint["effect"]:
                result[index] = taint
                break
        else:
            result.append(taint)
    return None if result == list(taints) else result


def without_taints(taints: Sequence[Taint], removed: Sequence[tuple[str, str]]) -> list[Taint] | None:
    """The list without those of these keys and effects; None if nothing changes."""
    result = [taint for taint in taints if (taint["key"], taint["effect"]) not in removed]
    return None if len(result) == len(taints) else result


def taints_patch(node: Obj, taints: Sequence[Taint]) -> Obj:
    """The patch that sets the taint list of exactly this revision of the node."""
    return {
        "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
        "spec": {"taints": list(taints) or None},
    }


# --- labels ---------------------------------------------------------------------------------------


def label_fixes(labels: Mapping[str, str], names: Names) -> dict[str, str]:
    """Beta labels of system and architecture that must follow the stable ones."""
    pairs = ((names.label_os, names.label_beta_os), (names.label_arch, names.label_beta_arch))
    return {
        beta: labels[stable]
        for stable, beta in pairs
        if stable in labels and labels.get(beta) != labels[stable]
    }
