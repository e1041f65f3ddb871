"""The invariant `no-lost-work`: no controller, scheduler or agent forgets an object.

Turns objects into what is still to be done about them (`_due`), and leases and nodes into the
processes that should do it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sim.api.objects import condition_status, is_deleting
from sim.api.store import Change, path_of
from sim.api.types import Obj
from sim.check.expect import Spec
from sim.check.invariants.base import Invariant, ReadyNodes
from sim.check.world import World, split_key
from sim.check.writes import listed
from sim.dataclass import dataclass
from sim.faults.disturbances import LAST_DISTURBANCE
from sim.ident import Names
from sim.units import SECOND
from sim.verdict import Verdict

MANAGER, SCHEDULER = "controller-manager", "scheduler"
SETS = ("replicasets", "replicationcontrollers")
OBSERVED = ("deployments", *SETS, "statefulsets", "daemonsets", "poddisruptionbudgets")


@dataclass(slots=True)
class _Work:
    """What is to be done about an object: the work, the component or node ("//nodes//NAME") of it,
    and since when.
    """

    what: str
    actor: str
    since_us: int
    rev: int


@dataclass(slots=True)
class _Lease:
    """The lease of a component: since when it is led without a gap, and its last renewal."""

    holder: str
    since_us: int
    renewed_us: int
    duration_us: int


class NoLostWork(Invariant):
    """What there is to do about an object is done while the process that should do it is healthy.

    Work is: a new generation that the controller has not observed; a ReplicaSet or
    ReplicationController with too many or too few pods and no failure in its status; a DaemonSet
    that lacks pods; a pod that the scheduler has not looked at; a pod on a node that is Ready, of
    which the agent has not begun it. Broken if it takes longer than `within`, counted from the last
    disturbance and from when the component was led, or the node Ready, without a gap.
    """

    name_in_file = "no-lost-work"
    within_default = "5m"
    after_default = LAST_DISTURBANCE
    example: ClassVar[str] = "{name: no queue is lost, invariant: {name: no-lost-work, within: 10m}}"

    _work: dict[str, _Work]  # by key of the object
    _leases: dict[str, _Lease]  # by component

    def __init__(self, spec: Spec, names: Names) -> None:
        self._work, self._leases, self._nodes = {}, {}, ReadyNodes()
        self._components = {names.component(one): one for one in (MANAGER, SCHEDULER)}
        super().__init__(spec, names)

    def reset(self) -> None:
        """Forget what took long before the window."""
        super().reset()
        self._lost: dict[str, str] = {}

    def resources(self) -> frozenset[str]:
        """The objects with work, the leases of components, and nodes."""
        return frozenset((*OBSERVED, "pods", "nodes", f"leases/{self.names.system_namespace}"))

    def take(self, world: World, resource: str, change: Change) -> None:
        """Take a commit of an object, a lease or a node."""
        key, obj = change.item.key, change.item.obj
        if resource == "leases":
            self._lease(change)
            return
        if resource == "nodes":
            self._nodes.take(change)
            return
        what, actor = ("", "") if change.deleted else _due(resource, obj)
        entry = self._work.get(key)
        if entry is not None and entry.what != what:
            self._judge_one(key, entry, change.at_us)
            del self._work[key]
        if what and (entry is None or entry.what != what):
            self._work[key] = _Work(what, actor, change.at_us, change.item.rev)

    def _lease(self, change: Change) -> None:
        component = self._components.get(split_key(change.item.key)[2])
        if component is None:
            return
        spec = change.item.obj.get("spec") or {}
        holder, at_us = str(spec.get("holderIdentity") or ""), change.at_us
        if change.deleted or not holder:
            self._leases.pop(component, None)
            return
        duration_us = int(spec.get("leaseDurationSeconds") or 15) * SECOND
        entry = self._leases.get(component)
        gap = entry is None or entry.holder != holder or at_us - entry.renewed_us > entry.duration_us
        since_us = at_us if entry is None or gap else entry.since_us
        self._leases[component] = _Lease(holder, since_us, at_us, duration_us)

    def _healthy_us(self, actor: str, at_us: int) -> int | None:
        """Since when the process that should do the work is healthy; None if it is not."""
        if actor not in (MANAGER, SCHEDULER):
            return self._nodes.since_us(actor.removeprefix("//nodes//"))
        lease = self._leases.get(actor)
        if lease is None or at_us - lease.renewed_us > lease.duration_us:
            return None
        return lease.since_us

    def _judge_one(self, key: str, work: _Work, at_us: int) -> None:
        """Judge work that took until now, or that is still to be done."""
        healthy_us = self._healthy_us(work.actor, at_us)
        if healthy_us is None or not self.in_window(at_us):
            return
        took_us = at_us - max(work.since_us, healthy_us, self.from_us or 0)
        if took_us > self.within_us:
            self.note(at_us - took_us, key, work.rev)
            self._lost[key] = f"{path_of(key)} for {self.shown(took_us)}: {work.what}"

    def at_fault(self) -> tuple[str, ...]:
        """The objects that were forgotten."""
        return tuple(self._lost)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on all work."""
        target = f"within {self.shown(self.within_us)}"
        if never := self.unopened(target):
            return never
        for key, work in self._work.items():
            self._judge_one(key, work, self.stop_us(end_us))
        if self._lost:
            return self.broken(listed([*self._lost.values()]), target)
        return self.kept("all is done", target)


def _due(resource: str, obj: Obj) -> tuple[str, str]:
    """What is to be done about an object, and the process to do it; empty if nothing is."""
    if resource == "pods":
        return _due_of_pod(obj)
    status: Any = obj.get("status") or {}
    generation = obj["metadata"].get("generation", 0)
    if status.get("observedGeneration", 0) < generation:
        return f"generation {generation} is not observed", MANAGER
    if resource in SETS and not is_deleting(obj) and not condition_status(obj, "ReplicaFailure"):
        has, wants = status.get("replicas", 0), obj["spec"].get("replicas", 1)
        if has != wants:
            return f"it has {'more' if has > wants else 'fewer'} pods than it wants", MANAGER
    if resource == "daemonsets" and not is_deleting(obj):
        if status.get("currentNumberScheduled", 0) < status.get("desiredNumberScheduled", 0):
            return "it lacks pods", MANAGER
    return "", ""


def _due_of_pod(pod: Obj) -> tuple[str, str]:
    status: Any = pod.get("status") or {}
    if is_deleting(pod) or status.get("phase") in ("Succeeded", "Failed"):
        return "", ""
    node = pod["spec"].get("nodeName")
    if not node:
        looked = condition_status(pod, "PodScheduled")
        return ("", "") if looked else ("the scheduler has not looked at it", SCHEDULER)
    return ("", "") if status.get("startTime") else ("its agent has not begun it", f"//nodes//{node}")
