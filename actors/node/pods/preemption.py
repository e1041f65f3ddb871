"""Room for critical pods: one that is refused for want of resources alone ends pods that matter less.

Turns what is missing and what other pods ask for into the pods that have to go (`choose`, pure); ends these one after
the other, each with its own grace period, and lets the agent admit the critical pod then.

Holds: pods of a better class of service go only for what all of the lesser classes cannot give; a critical pod that
waits for room has no worker, and nothing of it starts.

Mirrors  pkg/kubelet/preemption/preemption.go: HandleAdmissionFailure, getPodsToPreempt; pkg/kubelet/types/pod_update.go:
         Preemptable (v1.25).
Differs  the agent does its other work meanwhile; whether there is room is asked again then, unless a victim took too long
         to end: nobody waits for that any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from actors.node.pods.admit import Requests, is_critical, requests_of, shortages
from actors.node.pods.pod_status import pod_qos
from actors.node.pods.worker import FINISHED, TERMINATED
from sim.api.store import Item
from sim.api.types import Obj

if TYPE_CHECKING:
    from actors.node.agent import NodeAgent
    from actors.node.pods.worker import Worker


QOS = ("BestEffort", "Burstable", "Guaranteed")  # in the order in which they go
REASON, MESSAGE = "Preempting", "Preempted in order to admit critical pod"
NOT_FOUND = (
    "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to "
    "preempt: no set of running pods found to reclaim resources: [{}]"
)


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that may have to go, with what it asks for."""

    uid: str
    qos: str
    asked: Mapping[str, int]


Missing = Mapping[str, int]


def choose(candidates: Sequence[Victim], missing: Missing) -> list[Victim] | None:
    """Those that have to go so that nothing is missing any more, in their order; None if all are not enough."""
    if _without(missing, candidates):
        return None
    lesser, burstable, guaranteed = ([c for c in candidates if c.qos == qos] for qos in QOS)
    best = _nearest(guaranteed, _without(missing, [*lesser, *burstable]))
    middle = _nearest(burstable, _without(missing, [*lesser, *best]))
    return [*_nearest(lesser, _without(missing, [*middle, *best])), *middle, *best]


def _without(missing: Missing, gone: Iterable[Victim]) -> Missing:
    """What is missing still when these are gone."""
    pods = list(gone)
    left = {name: amount - sum(pod.asked.get(name, 0) for pod in pods) for name, amount in missing.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _nearest(pods: list[Victim], missing: Missing) -> list[Victim]:
    """Each time the pod that leaves the least missing, of equals the smaller one."""
    chosen: list[Victim] = []
    left = list(pods)
    while missing and left:
        pod = min(
            left, key=lambda p: (_distance(missing, p), p.asked.get("memory", 0), p.asked.get("cpu", 0))
        )
        missing = _without(missing, [pod])
        left.remove(pod)
        chosen.append(pod)
    return chosen


def _distance(missing: Missing, pod: Victim) -> float:
    """The squares of the shares that would be missing still, added up."""
    rest = ((amount - pod.asked.get(name, 0), amount) for name, amount in missing.items())
    return sum((short / amount) ** 2 for short, amount in rest if short > 0)


def preemptable(pod: Obj, static: bool, other: Obj, other_static: bool) -> bool:
    """Whether `other` may have to go for `pod`."""
    if is_critical(pod, static) and not is_critical(other, other_static):
        return True
    mine, theirs = pod["spec"].get("priority"), other["spec"].get("priority")
    return mine is not None and theirs is not None and mine > theirs


class Preemption:
    """One agent's.  _waiting: critical pods by uid, and who has to go for each: the first is being ended.

    _granted: those that go by the room that there will be
    """

    __slots__ = ("_agent", "_granted", "_waiting")

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._waiting: dict[str, tuple[Item, list[Worker]]] = {}
        self._granted: dict[str, None] = {}

    def holds(self, uid: str, item: Item | None = None) -> bool:
        """Whether the pod waits for room; `item`: its latest state."""
        waits = self._waiting.get(uid)
        if waits is not None and item is not None:
            self._waiting[uid] = item, waits[1]
        return waits is not None

    def drop(self, uid: str) -> None:
        """The pod is gone: nobody has to go for it any more."""
        self._waiting.pop(uid, None)
        self._granted.pop(uid, None)

    def keep(self, here: Mapping[str, None]) -> None:
        """Only the pods of these uids, and static ones, are there still."""
        for uid in [uid for uid in self._waiting if uid not in here and uid not in self._agent.mirrors.uids]:
            self.drop(uid)

    def make_room(self, worker: Worker, requests: Requests, node: Obj) -> str | None:
        """For a critical pod: None if it has room, "" if it waits for it now, else why it cannot have any."""
        agent, uid, static = self._agent, worker.uid, self._agent.is_static(worker)
        granted = uid in self._granted
        self._granted.pop(uid, None)
        short = shortages(requests, agent.used, node)
        if granted or not short:
            return None
        missing = {resource: asked + held - capacity for resource, asked, held, capacity in short}
        candidates = {
            other.uid: other
            for other in agent.workers.values()
            if other.requests is not None
            and other.state not in (TERMINATED, FINISHED)
            and preemptable(worker.pod, static, other.pod, agent.is_static(other))
        }
        chosen = choose([_victim(other) for other in candidates.values()], missing)
        if chosen is None:
            left = _without(missing, [_victim(other) for other in candidates.values()])
            return NOT_FOUND.format("".join(f"(res: {name}, q: {amount}), " for name, amount in left.items()))
        self._waiting[uid] = worker.item, [candidates[victim.uid] for victim in chosen]
        self._end_next(uid)
        return ""

    def _end_next(self, uid: str) -> None:
        agent = self._agent
        _, left = self._waiting[uid]
        while left and left[0].state in (TERMINATED, FINISHED):
            left.pop(0)
        if left:
            agent.event(left[0].pod, "Warning", REASON, MESSAGE)
            agent.kills.end(left[0], ("Failed", REASON, MESSAGE), partial(self._ended, uid, left[0]))
        else:
            agent.ctx.call_later_us(0, self._admit, uid)

    def _ended(self, uid: str, victim: Worker, in_time: bool) -> None:
        left = self._waiting[uid][1] if uid in self._waiting else []
        if not left or left[0] is not victim:
            return  # the pod is gone, or waits anew
        if not in_time:
            self._granted[uid] = None
        left.pop(0)
        self._end_next(uid)

    def _admit(self, uid: str) -> None:
        waits = self._waiting.pop(uid, None)
        if waits is not None:
            item, _ = waits
            self._agent.pod_added(item, item.obj)


def _victim(worker: Worker) -> Victim:
    return Victim(worker.uid, pod_qos(worker.pod), {**dict(requests_of(worker.pod).amounts), "pods": 1})
