"""Decisions of the node lifecycle controller: health of nodes, and the taints that follow.  Pure.

Turns a node, its lease and what was known of both into a new `Health`, into the conditions to write
after the node was silent for too long, and into taints to add and to remove.

Holds: the node's own clock is never used: a heartbeat is an observed change, at the controller's
       own time; objects are changed by path copy.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/node_lifecycle_controller.go
         (tryUpdateNodeHealth, doNoScheduleTaintingPass), pkg/util/taints/taints.go,
         pkg/api/v1/pod/util.go (UpdatePodCondition).
Differs  the silence of a node that never reported is measured on the monotonic clock too
         (upstream: wall clock).
Quirk:   a status heartbeat clears the lease observed before, so that the next pass takes the same
         lease for a new heartbeat: a node that crashes right after a status write is found 5 s
         later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import assert_never

from sim.api.objects import condition_of
from sim.api.schema.typed_objects import NodeCondition, Taint
from sim.api.store import Item
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import MS

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
HEALTH_TICK_US = 20 * MS  # retrySleepTime
HEALTH_TICKS = 5  # scheduler.NodeHealthUpdateRetry
_SILENT_TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")  # not NetworkUnavailable


@dataclass(frozen=True, slots=True)
class PassCost:
    """Duration of a pass without its requests.

    240 healthy nodes take 10 ms, fitted to recorded runs: passes without writes are 5.010 s apart.
    """

    base_us: int = 1_000
    node_us: int = 37


# --- health ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns of the nodes in a pass.

    first: index of the node with the first turn
    done: number of turns that are over
    """

    first: int
    count: int
    start_us: int
    cost_us: int
    done: int

    def of(self, index: int) -> int:
        """The turn of the node with this index."""
        return (index - self.first) % self.count

    def at_us(self, turn: int) -> int:
        """The end of a turn."""
        return self.start_us + self.cost_us * (turn + 1)


class Phase(Enum):
    """What a pass has to do for a node that is neither `Healthy` nor `Settled`.

    NEW: the node was never examined
    DUE: it is examined in full
    """

    NEW = "new"
    DUE = "due"


@dataclass(slots=True)
class Healthy:
    """Of a healthy and unchanged node only the lease is read.

    node: the object of the last full examination, or of a later heartbeat
    reported: newest object that differs from `node` only in heartbeat times, None if none
    """

    node: Obj
    reported: Obj | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """Of a silent node nothing is left to do, until its object or its lease changes."""

    node: Obj
    lease: Item | None


class Counted(Enum):
    """How a zone counts a node."""

    OUT = "out"
    READY = "ready"
    NOT_READY = "not ready"


class Health:
    """What the controller knows of one node.

    lease_key: store key of the node's lease
    standing: how much of the node the next pass has to read
    ready: Ready condition of the last status heartbeat, None if there was none
    renewed: renewTime of the last lease that counted as a heartbeat, None if none or cleared
    probe_us: time of the last heartbeat, by the controller's clock
    verdict: trace record of the decision or write that made the node not ready, 0 if unknown
    ref: reference to the Node object for events
    index: position of the node in the order of passes
    timed: True if a deadline is set for the node
    row: row of the node in the columns of renewals, -1 if its renewals come one by one
    zone, counted: the zone that counts the node, or did so last, and how
    """

    __slots__ = (
        "counted",
        "index",
        "lease_key",
        "name",
        "probe_us",
        "ready",
        "ref",
        "renewed",
        "row",
        "standing",
        "timed",
        "verdict",
        "zone",
    )

    def __init__(self, name: str, lease_key: str) -> None:
        self.name = name
        self.lease_key = lease_key
        self.standing: Phase | Healthy | Settled = Phase.NEW
        self.verdict = 0
        self.ready: Obj | None = None
        self.renewed: int | None = None
        self.probe_us = 0
        self.ref: Obj = {}
        self.index = 0
        self.row = -1
        self.timed = False
        self.zone = ""
        self.counted = Counted.OUT

    def observe_renewal(self, renewed: int, at_us: int) -> None:
        """Observe a lease of a healthy node."""
        if self.renewed is None or renewed > self.renewed:
            self.renewed, self.probe_us = renewed, at_us


def last_verdict(nodes: Iterable[Health], zone: str | None = None) -> int:
    """The latest verdict on a node, or on a node of a zone; 0 if none is known."""
    return max((health.verdict for health in nodes if zone in (None, health.zone)), default=0)


def observe(health: Health, ready: Obj | None, renewed: int | None, now_us: int, created_us: int) -> None:
    """Update a node's health by what a pass reads.

    ready: Ready condition of the node, None if it has none
    renewed: renewTime of its lease (NO_TIME: never renewed), None if it has no lease
    """
    saved, before = health.ready, health.renewed
    if health.standing is Phase.NEW:
        health.standing = Phase.DUE
        health.ready = ready
        health.probe_us = created_us if ready is None else now_us
    elif ready is None:
        health.ready = None  # no heartbeat, even if there was a condition before
    elif saved is not ready:
        if saved is None or saved.get("lastHeartbeatTime") != ready.get("lastHeartbeatTime"):
            health.ready, health.renewed, health.probe_us = ready, None, now_us
    if renewed is not None and (before is None or renewed > before):
        health.renewed, health.probe_us = renewed, now_us


def same(node: Obj | None, known: Obj | None) -> bool:
    """True if both objects are the same revision of a node.

    A compact item builds a new object on each read, so identity is not enough.
    """
    if node is known:
        return True
    if node is None or known is None:
        return False
    return bool(node["metadata"]["resourceVersion"] == known["metadata"]["resourceVersion"])


def only_reported(health: Health, node: Obj | None) -> bool:
    """True if a node with columnar renewals is healthy and has at most new heartbeat times."""
    healthy = health.standing
    if health.row < 0 or type(healthy) is not Healthy or node is None:
        return False
    if same(node, healthy.node):
        return not health.timed  # a report made it forget its last lease
    ready = condition_of(node, "Ready") if same(node, healthy.reported) else None
    saved = health.ready
    return (
        ready is not None and saved is not None and saved["lastHeartbeatTime"] != ready["lastHeartbeatTime"]
    )


def renew_time(lease: Item | None) -> int | None:
    """The renewTime of a lease (NO_TIME: never renewed); None without a lease."""
    return None if lease is None else lease.peek_us("spec", "renewTime")


def keeps_standing(health: Health, node: Obj, lease: Item | None, now_us: int, grace_us: int) -> bool:
    """Observe a node by its heartbeat and its lease alone.

    Returns False if that is not enough, because the node is neither healthy nor settled, has
    changed, or has become silent.
    """
    match health.standing:
        case Healthy() as healthy:
            if same(node, healthy.node):
                renewed = renew_time(lease)
                if renewed is not None:
                    health.observe_renewal(renewed, now_us)
            elif same(node, healthy.reported):
                healthy.node = node
                observe(health, condition_of(node, "Ready"), renew_time(lease), now_us, now_us)
            else:
                return False
            return now_us - health.probe_us <= grace_us
        case Settled(of_node, of_lease):
            return of_node is node and of_lease is lease and now_us - health.probe_us > grace_us
        case Phase():
            return False
        case never:
            assert_never(never)


def report(health: Health, node: Obj) -> None:
    """Take over the object of a node that has only reported."""
    healthy = health.standing
    if type(healthy) is Healthy and not same(node, healthy.node):
        healthy.node, health.ready = node, condition_of(node, "Ready")


def next_health_try(failed_us: int, now_us: int) -> tuple[int, bool]:
    """(time of the next attempt to write a silent node's status, True if it is the last attempt).

    failed_us: time at which the first attempt had failed
    now_us: time at which the latest attempt had failed
    Mirrors  apimachinery wait.go: PollImmediate, poller, WaitForWithContext: a tick during an
             attempt is lost, and one more attempt follows at the end of the time, so that quick
             attempts are six, not NodeHealthUpdateRetry.
    """
    tick_us = now_us + HEALTH_TICK_US - (now_us - failed_us) % HEALTH_TICK_US
    end_us = failed_us + HEALTH_TICKS * HEALTH_TICK_US
    return (tick_us, False) if tick_us < end_us else (max(now_us, end_us), True)


def silent_status(node: Obj, now: str, agent: str) -> Obj:
    """The node with the conditions of a silent node; the same object if nothing changes."""
    old = node.get("status", {}).get("conditions") or []
    conditions: list[NodeCondition] = [_unknown(condition, now, agent) for condition in old]
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


def _unknown(condition: NodeCondition, now: str, agent: str) -> NodeCondition:
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
    """The pod with Ready=False; None if nothing changes."""
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
    """True if the node has the taint, with any value."""
    for taint in node.get("spec", {}).get("taints") or ():
        if taint["key"] == key and taint["effect"] == effect:
            return True
    return False


def taint_for(status: str, names: Names) -> str | None:
    """The key of the NoExecute taint for a Ready status, None if it needs none."""
    return {"False": names.taint_not_ready, "Unknown": names.taint_unreachable}.get(status)


def opposite_taint(key: str, names: Names) -> str:
    """The other one of the two NoExecute taint keys."""
    return names.taint_unreachable if key == names.taint_not_ready else names.taint_not_ready


class ConditionTaints:
    """The NoSchedule taints that follow from a node's conditions and from its cordon."""

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
        """Keys of NoSchedule taints (to add, to remove)."""
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
    """The taints with `added`, which replace taints of equal key and effect; None if unchanged."""
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
    """The taints without those of these keys and effects; None if unchanged."""
    result = [taint for taint in taints if (taint["key"], taint["effect"]) not in removed]
    return None if len(result) == len(taints) else result


def taints_patch(node: Obj, taints: Sequence[Taint]) -> Obj:
    """The patch that sets the taint list if the node still has this revision."""
    return {
        "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
        "spec": {"taints": list(taints) or None},
    }


# --- labels ---------------------------------------------------------------------------------------


def label_fixes(labels: Mapping[str, str], names: Names) -> dict[str, str]:
    """Beta labels of OS and architecture that differ from the stable ones."""
    pairs = ((names.label_os, names.label_beta_os), (names.label_arch, names.label_beta_arch))
    return {
        beta: labels[stable]
        for stable, beta in pairs
        if stable in labels and labels.get(beta) != labels[stable]
    }
