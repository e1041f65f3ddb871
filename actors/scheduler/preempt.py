"""Decides which pods of lower priority must be deleted so that a pod fits.

Holds: a victim has a lower priority than the pod; without the victims of the result the pod passes
all filters on that node, and with any one of them it does not (as far as trials in order of
importance show).

Mirrors  kubernetes v1.25 pkg/scheduler/framework/preemption/preemption.go and
         framework/plugins/defaultpreemption/default_preemption.go.
Differs  nodes are tried one by one, and of candidates equal in every respect the first tried wins
         (upstream: the order of a map). The end of the last victim is seen after the cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from actors.scheduler.cluster import Cluster, NodeInfo
from actors.scheduler.messages import PREEMPTION, fit_error
from actors.scheduler.plugins.base import Status
from actors.scheduler.pods import PodInfo
from actors.scheduler.search.classes import ClassState
from actors.scheduler.search.volumes import VolumeSearch
from sim.api.scheduling import Requirements, holds

PRIORITY_OFFSET = 1 << 31  # so that a sum of negative priorities still grows with each victim

NO_VICTIMS = Status("DefaultPreemption", ("No preemption victims found for incoming pod",), True)
NO_HELP = Status("DefaultPreemption", ("Preemption is not helpful for scheduling",), True)
NEVER = f"{PREEMPTION}not eligible due to preemptionPolicy=Never."
TERMINATING = f"{PREEMPTION}not eligible due to a terminating pod on the nominated node."


class Budget(NamedTuple):
    """A PodDisruptionBudget.

    allowed: number of pods that may still be disrupted
    disrupted: names of pods with a disruption that is counted already
    """

    namespace: str
    selector: Requirements | None
    allowed: int
    disrupted: frozenset[str]

    def covers(self, pod: PodInfo) -> bool:
        """Return True if the deletion of the pod counts against the budget."""
        # As upstream, an empty selector covers no pod here, and no selector covers a pod without
        # labels.
        return (
            pod.template.namespace == self.namespace
            and bool(self.selector and pod.template.labels)
            and holds(self.selector, pod.template.labels)
            and pod.obj["metadata"]["name"] not in self.disrupted
        )


class Candidate(NamedTuple):
    """A node on which preemption makes room.

    victims: those that violate a budget first, and the more important first in either part
    violations: number of victims that violate a budget
    """

    node: str
    victims: tuple[PodInfo, ...]
    violations: int


class Outcome(NamedTuple):
    """The result of preemption.

    message: part of the FailedScheduling text
    keep: True if the pod's earlier nomination stays
    """

    candidate: Candidate | None
    message: str
    keep: bool = False


def preempt(
    state: ClassState,
    pod: PodInfo,
    failures: Mapping[str, Status],
    budgets: list[Budget],
    draw: Callable[[int], int],
    volumes: VolumeSearch | None = None,
) -> Outcome:
    """Find the node on which the least important pods must be deleted.

    failures: why each node is not feasible now
    volumes: those of the pod, None if it has none
    """
    cluster = state.cluster
    refusal = _not_eligible(cluster, pod, failures)
    if refusal:
        return Outcome(None, refusal, keep=True)
    statuses = {name: NO_HELP for name, status in failures.items() if status.unresolvable}
    # Quirk: a node that the pod's affinity left out has no status, and is tried like the others.
    hopeful = [node for node in cluster.list_nodes() if node.name not in statuses]
    candidates: list[Candidate] = []
    percentage, least = state.profile.spec.candidates
    enough = min(max(len(hopeful) * percentage // 100, least), len(hopeful))
    offset = draw(len(hopeful)) if len(hopeful) > 1 else 0
    for node in hopeful[offset:] + hopeful[:offset]:
        found = _victims_on(state, pod, node, budgets, volumes)
        if isinstance(found, Status):
            statuses[node.name] = found
            continue
        candidates.append(found)
        if len(candidates) >= enough and any(not c.violations for c in candidates):
            break
    if not candidates:
        return Outcome(None, PREEMPTION + fit_error(len(statuses), statuses.values()))
    return Outcome(min(candidates, key=_cost), "")


def _not_eligible(cluster: Cluster, pod: PodInfo, failures: Mapping[str, Status]) -> str:
    if pod.template.never_preempts:
        return NEVER
    node = cluster.nodes.get(pod.nominated)
    if node is None or node.obj is None:  # the node was deleted before its pods
        return ""
    if pod.nominated in failures and failures[pod.nominated].unresolvable:
        return ""
    if any(p.terminating and p.template.priority < pod.template.priority for p in node.pods.values()):
        return TERMINATING
    return ""


def importance(pod: PodInfo) -> tuple[int, str]:
    """Sort key of pods: higher priority first, then earlier start."""
    return -pod.template.priority, pod.start_time


def _victims_on(
    state: ClassState,
    pod: PodInfo,
    node: NodeInfo,
    budgets: list[Budget],
    volumes: VolumeSearch | None = None,
) -> Candidate | Status:
    if all(priority >= pod.template.priority for priority in node.priorities):
        return NO_VICTIMS
    lower = sorted(
        (p for p in node.pods.values() if p.template.priority < pod.template.priority), key=importance
    )
    trial = node.copy()
    gone: dict[str, PodInfo] = {}
    for victim in lower:
        trial.add(victim, -1)
        gone[victim.key] = victim
    status = fits(state, pod, trial, gone.values(), volumes)
    if status is not None:
        return status
    violating, others = _violating(lower, budgets)
    victims: list[PodInfo] = []
    violations = 0
    for victim in [*violating, *others]:
        trial.add(victim)
        del gone[victim.key]
        if fits(state, pod, trial, gone.values(), volumes) is not None:
            trial.add(victim, -1)
            gone[victim.key] = victim
            victims.append(victim)
            violations += victim in violating
    # If the pod fits without a victim after all, upstream reports that and tries the next node
    # (DryRunPreemption).
    if not victims:
        return Status("", (f'expected at least one victim pod on node "{node.name}"',))
    return Candidate(node.name, tuple(victims), violations)


def fits(
    state: ClassState,
    pod: PodInfo,
    node: NodeInfo,
    gone: Iterable[PodInfo] = (),
    volumes: VolumeSearch | None = None,
) -> Status | None:
    """Apply all filters to a node, also with the nominated pods of no lower priority on it."""
    changes = [(victim, -1) for victim in gone]
    waiting = waiting_for(state.cluster, pod, node.name)
    if waiting:
        trial = node.copy()
        for other in waiting:
            trial.add(other)
        status = state.try_node(trial, changes + [(other, 1) for other in waiting], volumes)
        if status is not None:
            return status
    return state.try_node(node, changes, volumes)


def waiting_for(cluster: Cluster, pod: PodInfo, node_name: str) -> list[PodInfo]:
    """Return the other pods nominated to this node that have no lower priority."""
    return [
        other
        for key, other in cluster.nominated.get(node_name, {}).items()
        if key != pod.key and other.template.priority >= pod.template.priority
    ]


def _violating(pods: list[PodInfo], budgets: list[Budget]) -> tuple[list[PodInfo], list[PodInfo]]:
    left = [budget.allowed for budget in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        violated = False
        for index, budget in enumerate(budgets):
            if budget.covers(pod):
                left[index] -= 1
                violated = violated or left[index] < 0
        (violating if violated else others).append(pod)
    return violating, others


class _Later(NamedTuple):
    """Text ordered backwards: the later start is preferred."""

    text: str

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _Later)
        return self.text > other.text


def _cost(candidate: Candidate) -> tuple[int, int, int, int, _Later]:
    """The sort key of candidates; the least is chosen."""
    victims = candidate.victims
    highest = max(victim.template.priority for victim in victims)
    return (
        candidate.violations,
        # Quirk: that of the first victim, which need not be the highest if it violates a budget.
        victims[0].template.priority,
        sum(victim.template.priority + PRIORITY_OFFSET for victim in victims),
        len(victims),
        _Later(min(v.start_time for v in victims if v.template.priority == highest)),
    )
