"""Room for critical pods: one that only lacks resources ends less important pods.

Turns what is missing, and the requests of other pods, into the pods to end (`choose`, pure); ends
these one after the other, each with its own grace period, and then lets the agent admit the
critical pod.

Holds: pods of a better class of service end only for what all of the lesser classes cannot give; a
critical pod that waits for room has no worker, and nothing of it starts.

Mirrors  pkg/kubelet/preemption/preemption.go: HandleAdmissionFailure, getPodsToPreempt;
         pkg/kubelet/types/pod_update.go: Preemptable (v1.25).
Differs  the agent continues its other work in between.  Then the resources are checked once more,
         unless a victim took too long to end, in which case its end is not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from actors.node.pod_spec import Requests, is_critical, pod_qos, requests_of
from actors.node.pod_work import FINISHED, TERMINATED
from actors.node.pods.admit import Used, shortages
from actors.node.runtime.ports import Agent, NodePod
from sim.api.scheduling import BEST_EFFORT, BURSTABLE, GUARANTEED
from sim.api.store import Item
from sim.api.types import Obj
from sim.dataclass import dataclass

QOS = (BEST_EFFORT, BURSTABLE, GUARANTEED)  # in the order in which they are ended
REASON, MESSAGE = "Preempting", "Preempted in order to admit critical pod"
NOT_FOUND = (
    "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to "
    "preempt: no set of running pods found to reclaim resources: [{}]"
)


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that may be ended, with its requests."""

    uid: str
    qos: str
    requested: Mapping[str, int]


Missing = Mapping[str, int]


def choose(candidates: Sequence[Victim], missing: Missing) -> list[Victim] | None:
    """The pods to end so that nothing is missing any more, in order.

    None if all together are not enough.
    """
    if _without(missing, candidates):
        return None
    lesser, burstable, guaranteed = ([c for c in candidates if c.qos == qos] for qos in QOS)
    best = _cover(guaranteed, _without(missing, [*lesser, *burstable]))
    middle = _cover(burstable, _without(missing, [*lesser, *best]))
    return [*_cover(lesser, _without(missing, [*middle, *best])), *middle, *best]


def _without(missing: Missing, gone: Iterable[Victim]) -> Missing:
    """What is still missing when these pods have ended."""
    pods = list(gone)
    left = {
        name: amount - sum(pod.requested.get(name, 0) for pod in pods) for name, amount in missing.items()
    }
    return {name: amount for name, amount in left.items() if amount > 0}


def _cover(pods: list[Victim], missing: Missing) -> list[Victim]:
    """Repeatedly the pod that leaves the least missing; of equal ones the smaller one.

    All of the pods are enough.
    """
    chosen: list[Victim] = []
    left = list(pods)
    while missing:
        pod = min(
            left,
            key=lambda p: (_distance(missing, p), p.requested.get("memory", 0), p.requested.get("cpu", 0)),
        )
        missing = _without(missing, [pod])
        left.remove(pod)
        chosen.append(pod)
    return chosen


def _distance(missing: Missing, pod: Victim) -> float:
    """The sum of the squares of the shares that would still be missing."""
    rest = ((amount - pod.requested.get(name, 0), amount) for name, amount in missing.items())
    return sum((short / amount) ** 2 for short, amount in rest if short > 0)


def preemptable(pod: Obj, static: bool, other: Obj, other_static: bool) -> bool:
    """True if `other` may be ended for `pod`."""
    if is_critical(pod, static) and not is_critical(other, other_static):
        return True
    own_priority, other_priority = pod["spec"].get("priority"), other["spec"].get("priority")
    return own_priority is not None and other_priority is not None and own_priority > other_priority


class Preemption:
    """The preemption of one agent incarnation.

    _waiting: uid of each critical pod that waits for room -> its newest state and the pods to end,
        of which the first is being ended
    _granted: uids of pods that are admitted although a victim took too long to end
    """

    __slots__ = ("_agent", "_granted", "_used", "_waiting")

    def __init__(self, agent: Agent, used: Used) -> None:
        self._agent, self._used = agent, used
        self._waiting: dict[str, tuple[Item, list[NodePod]]] = {}
        self._granted: dict[str, None] = {}

    def holds(self, uid: str, item: Item | None = None) -> bool:
        """True if the pod waits for room.  item: its newest state, which is kept."""
        waiting = self._waiting.get(uid)
        if waiting is not None and item is not None:
            self._waiting[uid] = item, waiting[1]
        return waiting is not None

    def drop(self, uid: str) -> None:
        """The pod no longer exists and needs no room."""
        self._waiting.pop(uid, None)
        self._granted.pop(uid, None)

    def keep(self, listed: Mapping[str, None]) -> None:
        """Drop waiting pods that were not listed, other than static ones."""
        for uid in [uid for uid in self._waiting if uid not in listed and not self._agent.is_static(uid)]:
            self.drop(uid)

    def make_room(self, worker: NodePod, requests: Requests, node: Obj) -> str | None:
        """Find room for a critical pod.

        Returns None if there is room, "" if the pod waits for it now, else why there can be none.
        """
        agent, uid, static = self._agent, worker.uid, self._agent.is_static(worker.uid)
        granted = uid in self._granted
        self._granted.pop(uid, None)
        short = shortages(requests, self._used, node)
        if granted or not short:
            return None
        missing = {resource: requested + held - capacity for resource, requested, held, capacity in short}
        candidates = {
            other.uid: other
            for other in agent.workers.values()
            if other.requests is not None
            and other.state not in (TERMINATED, FINISHED)
            and preemptable(worker.pod, static, other.pod, agent.is_static(other.uid))
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
            agent.end_pod(left[0], ("Failed", REASON, MESSAGE), partial(self._ended, uid, left[0]))
        else:
            agent.ctx.call_later_us(0, self._admit, uid)

    def _ended(self, uid: str, victim: NodePod, in_time: bool) -> None:
        left = self._waiting[uid][1] if uid in self._waiting else []
        if not left or left[0] is not victim:
            return  # the pod no longer exists, or waits for other pods
        if not in_time:
            self._granted[uid] = None
        left.pop(0)
        self._end_next(uid)

    def _admit(self, uid: str) -> None:
        waiting = self._waiting.pop(uid, None)
        if waiting is not None:
            item, _ = waiting
            self._agent.pod_added(item, item.obj)


def _victim(worker: NodePod) -> Victim:
    return Victim(worker.uid, pod_qos(worker.pod), {**dict(requests_of(worker.pod).amounts), "pods": 1})
