"""One try to place one pod: find the nodes, choose one, or say why not and whom to preempt.

Holds: the place in the node list where the next search starts; one `ClassState` per class of equal pods
among those tried lately, where pods are equal that have one shape and the same of those labels that some selector
asks for.  Nothing is sent and nothing waits here.

Mirrors  kubernetes v1.25 pkg/scheduler/schedule_one.go: schedulePod, numFeasibleNodesToFind,
         evaluateNominatedNode, and the decisions of handleSchedulingFailure.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_not
from typing import NamedTuple

from actors.scheduler.cluster import Cluster
from actors.scheduler.messages import NO_NODES, fit_error
from actors.scheduler.plugins.node_filters import AFFINITY_CONFLICT, Status
from actors.scheduler.pods import PodInfo, Template
from actors.scheduler.preempt import Budget, Candidate, fits, preempt, waiting_for
from actors.scheduler.search.classes import ClassState
from actors.scheduler.search.signature import NOT_ASKED, Signature

FEASIBLE_MIN = 100  # minFeasibleNodesToFind
PERCENT_MIN = 5  # minFeasibleNodesPercentageToFind
STATES_MAX = 512  # classes kept up to date; the one used longest ago goes first

UNSCHEDULABLE, ERROR = "Unschedulable", "SchedulerError"
Draw = Callable[[int], int]
ClassKey = tuple[object, tuple[tuple[str, str], ...]]
# What a class was told of a node, and what that hangs on: what the node has, what is on it, and who waits for it.
Beside = tuple[tuple[ClassState, object, object, list[PodInfo]] | None, Status | None]


class Placed(NamedTuple):
    node: str


class Failed(NamedTuple):
    """nominate: the node on which to wait for room, "" to wait for none any more, None to leave it as it is.

    plugins: those that refused nodes; None: it was not for plugins that it failed
    """

    message: str
    reason: str
    plugins: tuple[str, ...] | None = None
    candidate: Candidate | None = None
    nominate: str | None = ""


def nodes_wanted(count: int, percentage: int) -> int:
    """How many feasible nodes are enough."""
    if count < FEASIBLE_MIN or percentage >= 100:
        return count
    share = percentage or max(50 - count // 125, PERCENT_MIN)
    return max(count * share // 100, FEASIBLE_MIN)


class Attempts:
    """Tries pods one after the other on a cluster."""

    def __init__(self, cluster: Cluster, percentage: int) -> None:
        self.cluster = cluster
        self.start = 0
        self._percentage = percentage
        self._states: dict[ClassKey, ClassState] = {}
        self._refusals: dict[ClassState, tuple[int, Failed]] = {}
        self._beside: dict[str, Beside] = {}
        self._keys: dict[Template, ClassKey] = {}  # of the labels asked for at `_asked_version`
        self._asked_version = -1

    def state(self, template: Template) -> ClassState:
        """The class's state, up to date."""
        key = self._key(template)
        state = self._states.pop(key, None)
        if state is not None and self._key(state.template) != key:
            # It is of a pod with labels that nobody asked for then, and somebody does now.
            self._refusals.pop(state, None)
            state = None
        if state is None:
            state = ClassState(self.cluster, template)
            if len(self._states) >= STATES_MAX:
                oldest = next(iter(self._states))
                self._refusals.pop(self._states.pop(oldest), None)
        else:
            state.sync()
        self._states[key] = state
        return state

    def _key(self, template: Template) -> ClassKey:
        cluster = self.cluster
        if self._asked_version != cluster.asked_version:
            self._asked_version = cluster.asked_version
            self._keys.clear()
        key = self._keys.get(template)
        if key is None:
            if len(self._keys) >= STATES_MAX:
                self._keys.clear()
            asked, own = cluster.asked, template.own_keys
            told = [pair for pair in template.labels.items() if pair[0] in asked or pair[0] in own]
            key = self._keys[template] = (template.shape, tuple(told))
        return key

    def place(self, pod: PodInfo, budgets: Callable[[], list[Budget]], draw: Draw) -> Placed | Failed:
        """Try the pod.  budgets: asked for only when preemption is considered."""
        cluster = self.cluster
        everyone = cluster.list_nodes()
        if not everyone:
            return Failed(NO_NODES, UNSCHEDULABLE)
        for name in pod.template.node_names or ():
            if name not in cluster.position:
                return Failed(f'nodeinfo not found for node name "{name}"', ERROR)
        state = self.state(pod.template)
        excluded = self._kept_for_others(state, pod)
        if pod.template.node_names == ():
            failures = {node.name: AFFINITY_CONFLICT for node in everyone}
            return self._failed(state, pod, failures, budgets, draw)
        if not cluster.nominated:
            self._beside.clear()
        count = len(state.nodes if pod.template.node_names is None else pod.template.node_names)
        alone = not cluster.nominated and not pod.nominated
        refusal = self._refusals.get(state)
        if alone and refusal is not None and refusal[0] == state.version:
            self.start %= count  # all nodes would be looked at
            return refusal[1]  # an equal pod was refused, and nothing has changed since
        if self._passes(state, pod.nominated, excluded):
            return Placed(pod.nominated)
        found = state.choose(self.start, nodes_wanted(count, self._percentage), draw, excluded)
        # Quirk: after a pod that names its nodes the index wraps at their number, as upstream.
        self.start = (self.start + min(found.processed, count)) % count
        if found.node:
            return Placed(found.node)
        failures = state.failures(self._beside_others(state, pod))
        waited = cluster.nodes.get(pod.nominated)
        if waited is not None and waited.obj is not None and waited.name not in failures:
            # The node that its status names is asked first, also where the pod's affinity leaves it out.
            status = fits(state, pod, waited)
            if status is not None:
                failures[waited.name] = status
        failed = self._failed(state, pod, failures, budgets, draw)
        if alone and failed.candidate is None:
            self._refusals[state] = (state.version, failed)
        return failed

    def _kept_for_others(self, state: ClassState, pod: PodInfo) -> dict[int, Status]:
        """Nodes that would do, were it not for pods that wait for room there."""
        excluded: dict[int, Status] = {}
        for name in self.cluster.nominated:
            position = state.position.get(name)
            if position is None or not isinstance(state.rows[position], Signature):
                continue
            if waiting_for(self.cluster, pod, name):
                status = fits(state, pod, state.nodes[position])
                if status is not None:
                    excluded[position] = status
        return excluded

    def _beside_others(self, state: ClassState, pod: PodInfo) -> dict[int, Status]:
        """Why nodes do not do when the pods that wait for room there have taken it: this is what is told of them."""
        told: dict[int, Status] = {}
        for name in self.cluster.nominated:
            position = state.position.get(name)
            row = NOT_ASKED if position is None else state.rows[position]
            waiting = waiting_for(self.cluster, pod, name)
            if position is None or row is NOT_ASKED or not waiting:
                continue
            if not isinstance(row, Signature) and row.unresolvable:
                continue  # whatever is on the node
            node = state.nodes[position]
            now = (state, node.facts, node.rooms, waiting)
            known, status = self._beside.get(name, (None, None))
            if known is None or known[3] != waiting or any(map(is_not, known[:3], now)):
                status = fits(state, pod, node)
                if not state.wide and not any(other.template.anti_affinity for other in waiting):
                    self._beside[name] = (now, status)  # it hangs on nothing else
            if status is not None:
                told[position] = status
        return told

    @staticmethod
    def _passes(state: ClassState, name: str, excluded: dict[int, Status]) -> bool:
        position = state.position.get(name) if name else None
        if position is None or position in excluded:
            return False
        row = state.rows[position]
        return isinstance(row, Signature) and state.across(row) is None

    def _failed(
        self,
        state: ClassState,
        pod: PodInfo,
        failures: dict[str, Status],
        budgets: Callable[[], list[Budget]],
        draw: Draw,
    ) -> Failed:
        count = len(self.cluster.order)
        plugins = tuple(dict.fromkeys(status.plugin for status in failures.values()))
        outcome = preempt(state, pod, failures, budgets(), draw)
        message = fit_error(count, failures.values(), outcome.message)
        if outcome.candidate is not None:
            return Failed(message, UNSCHEDULABLE, plugins, outcome.candidate, outcome.candidate.node)
        return Failed(message, UNSCHEDULABLE, plugins, None, None if outcome.keep else "")
