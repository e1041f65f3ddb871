"""One attempt to place a pod: find the feasible nodes, choose one, or report why not and preempt.

Holds: the place in the node list where the next search starts; one `ClassState` for each class of
equal pods among those tried most recently. Pods are equal if they have the same shape, the same
values of all labels that a selector reads, and equal keys of the added plugins. Nothing is sent and
nothing waits here.

Mirrors  kubernetes v1.25 pkg/scheduler/schedule_one.go: schedulePod, numFeasibleNodesToFind,
         evaluateNominatedNode, and the decisions of handleSchedulingFailure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import is_not
from typing import Any, NamedTuple

from actors.scheduler.cluster import Cluster
from actors.scheduler.messages import NO_NODES, fit_error
from actors.scheduler.plugins.base import DEFAULT, CycleError, SchedulerPlugin, Status
from actors.scheduler.plugins.node_affinity import AFFINITY_CONFLICT
from actors.scheduler.plugins.registry import Profile
from actors.scheduler.pods import PodInfo, Template
from actors.scheduler.preempt import Budget, Candidate, fits, preempt, waiting_for
from actors.scheduler.search.classes import ClassState
from actors.scheduler.search.signature import NOT_ASKED, Signature
from actors.scheduler.search.volumes import VolumeSearch
from actors.scheduler.volumes.pod_volumes import Choice, PodVolumes
from actors.scheduler.volumes.storage import Storage
from sim.options.features.gates import VOLUME_CAPACITY_PRIORITY
from sim.options.scheduling.profiles import ProfileSpec

FEASIBLE_MIN = 100  # minFeasibleNodesToFind
PERCENT_MIN = 5  # minFeasibleNodesPercentageToFind
STATES_MAX = 512  # classes kept up to date; the least recently used one is removed first

UNSCHEDULABLE, ERROR = "Unschedulable", "SchedulerError"
Draw = Callable[[int], int]
ClassKey = tuple[Any, ...]
# The status of a node for a class, and what it depends on: the node's facts, its pods, the pods
# nominated to it.
Beside = tuple[tuple[ClassState, object, object, list[PodInfo]] | None, Status | None]


class Placed(NamedTuple):
    """The pod fits on this node.

    choice: how its claims are bound there; None without claims
    """

    node: str
    choice: Choice | None = None


class Failed(NamedTuple):
    """The pod has no node.

    plugins: names of the plugins that refused nodes; None if the failure has another reason
    candidate: the node and the pods to preempt there
    early: True if a plugin refused the pod before nodes were filtered
    nominate: the node on which the pod waits for room, "" for none, None to leave the nomination
        unchanged
    """

    message: str
    reason: str
    plugins: tuple[str, ...] | None = None
    candidate: Candidate | None = None
    nominate: str | None = ""
    early: bool = False


def nodes_wanted(count: int, percentage: int) -> int:
    """Return how many feasible nodes are enough (numFeasibleNodesToFind)."""
    if count < FEASIBLE_MIN or percentage >= 100:
        return count
    share = percentage or max(50 - count // 125, PERCENT_MIN)
    return max(count * share // 100, FEASIBLE_MIN)


class Attempts:
    """Tries pods one after the other on a cluster.

    percentage: share of the nodes that must be found feasible, 0 for upstream's adaptive share
    added: plugins of library users
    storage: the view of claims and volumes; None if no pod has any
    gates: the feature gates of volume plugins that are on
    spec: the profile
    by_changes: True if a class evaluates only nodes with changes; else a change evaluates all again
    """

    def __init__(
        self,
        cluster: Cluster,
        percentage: int,
        added: Sequence[SchedulerPlugin] = (),
        storage: Storage | None = None,
        gates: Collection[str] = (),
        *,
        by_changes: bool = True,
        spec: ProfileSpec = DEFAULT,
    ) -> None:
        self.cluster, self.storage = cluster, storage
        self._by_changes = by_changes
        self.profile = Profile(cluster, added, gates, spec)
        self._scores_volumes = VOLUME_CAPACITY_PRIORITY in gates and self.profile.has_score("VolumeBinding")
        self.start = 0
        self.feasible = 1  # nodes among which the last pod that was placed had its node chosen
        self._percentage = percentage
        self._states: dict[ClassKey, ClassState] = {}
        self._refusals: dict[ClassState, tuple[int, Failed]] = {}
        self._beside: dict[str, Beside] = {}
        self._keys: dict[Template, ClassKey] = {}  # for the selectors at `_selected_version`
        self._selected_version = -1

    def state(self, pod: PodInfo) -> ClassState:
        """Return the state of the pod's class, up to date."""
        template = pod.template
        key = shared = self._key(template)
        added = self.profile.added
        if added:
            key = (*shared, *[plugin.pod_key(pod) for plugin in added])
        state = self._states.pop(key, None)
        if state is not None and self._key(state.template) != shared:
            # The class was made when no selector read a label that one reads now.
            self._refusals.pop(state, None)
            state = None
        if state is None:
            state = ClassState(self.profile, pod)
            if len(self._states) >= STATES_MAX:
                oldest = next(iter(self._states))
                self._refusals.pop(self._states.pop(oldest), None)
        else:
            state.sync(self._by_changes)
        self._states[key] = state
        return state

    def _key(self, template: Template) -> ClassKey:
        cluster = self.cluster
        if self._selected_version != cluster.versions.selected:
            self._selected_version = cluster.versions.selected
            self._keys.clear()
        key = self._keys.get(template)
        if key is None:
            if len(self._keys) >= STATES_MAX:
                self._keys.clear()
            selected, own = cluster.selected_labels, template.own_keys
            labels = [pair for pair in template.labels.items() if pair[0] in selected or pair[0] in own]
            key = self._keys[template] = (template.shape, tuple(labels))
        return key

    def place(self, pod: PodInfo, budgets: Callable[[], list[Budget]], draw: Draw) -> Placed | Failed:
        """Try the pod.

        budgets: returns the PodDisruptionBudgets; called only if preemption is considered
        """
        cluster = self.cluster
        everyone = cluster.list_nodes()
        if not everyone:
            return Failed(NO_NODES, UNSCHEDULABLE)
        for name in self.profile.named(pod.template) or ():
            if name not in cluster.position:
                return Failed(f'nodeinfo not found for node name "{name}"', ERROR)
        state, volumes = self.state(pod), self._volumes(pod)
        try:
            return self._place(state, pod, volumes, budgets, draw)
        except CycleError as error:
            return Failed(str(error), ERROR)

    def _volumes(self, pod: PodInfo) -> VolumeSearch | None:
        if not pod.volumes or self.storage is None:
            return None
        return VolumeSearch(self.profile, PodVolumes(self.cluster, self.storage, pod))

    def _place(
        self,
        state: ClassState,
        pod: PodInfo,
        volumes: VolumeSearch | None,
        budgets: Callable[[], list[Budget]],
        draw: Draw,
    ) -> Placed | Failed:
        cluster = self.cluster
        everyone = cluster.list_nodes()
        named = self.profile.named(pod.template)
        refused = AFFINITY_CONFLICT if named == () else None
        if refused is None and volumes is not None:
            refused = volumes.refusal()
        if refused is not None:
            failures = {node.name: refused for node in everyone}
            return self._failed(state, pod, failures, budgets, draw, volumes)._replace(early=True)
        excluded = self._kept_for_others(state, pod, volumes)
        if volumes is not None:
            excluded = volumes.exclude(state, excluded)
        if not cluster.nominated:
            self._beside.clear()
        count = len(state.nodes if named is None else named)
        alone = not cluster.nominated and not pod.nominated and volumes is None
        refusal = self._refusals.get(state)
        if alone and refusal is not None and refusal[0] == state.version:
            self.start %= count  # all nodes would be examined
            return refusal[1]  # an equal pod was refused, and nothing has changed after that
        if self._passes(state, pod.nominated, excluded):
            self.feasible = 1
            return self._placed(pod.nominated, volumes)
        scored = volumes if self._scores_volumes else None
        found = state.choose(self.start, nodes_wanted(count, self._percentage), draw, excluded, scored)
        # Quirk: after a pod that names its nodes the index wraps at their number, as upstream.
        self.start = (self.start + min(found.processed, count)) % count
        if found.node:
            self.feasible = found.feasible
            return self._placed(found.node, volumes)
        refusals = self._beside_others(state, pod, volumes)
        failures = state.failures(refusals if volumes is None else {**excluded, **refusals})
        waited = cluster.nodes.get(pod.nominated)
        if waited is not None and waited.obj is not None and waited.name not in failures:
            # The node in the pod's status is tried first, even if the pod's affinity leaves it out.
            status = fits(state, pod, waited, volumes=volumes)
            if status is not None:
                failures[waited.name] = status
        failed = self._failed(state, pod, failures, budgets, draw, volumes)
        if alone and failed.candidate is None:
            self._refusals[state] = (state.version, failed)
        return failed

    def _placed(self, name: str, volumes: VolumeSearch | None) -> Placed:
        if volumes is None:
            return Placed(name)
        return Placed(name, volumes.volumes.choice(self.cluster.nodes[name]))

    def _kept_for_others(
        self, state: ClassState, pod: PodInfo, volumes: VolumeSearch | None
    ) -> dict[int, Status]:
        """Return the nodes that are feasible only without the pods that are nominated to them."""
        excluded: dict[int, Status] = {}
        for name in self.cluster.nominated:
            position = state.position.get(name)
            if position is None or not isinstance(state.rows[position], Signature):
                continue
            if waiting_for(self.cluster, pod, name):
                status = fits(state, pod, state.nodes[position], volumes=volumes)
                if status is not None:
                    excluded[position] = status
        return excluded

    def _beside_others(
        self, state: ClassState, pod: PodInfo, volumes: VolumeSearch | None
    ) -> dict[int, Status]:
        """Return the statuses of nodes with the pods that are nominated to them; the message
        reports these.
        """
        statuses: dict[int, Status] = {}
        for name in self.cluster.nominated:
            position = state.position.get(name)
            row = NOT_ASKED if position is None else state.rows[position]
            waiting = waiting_for(self.cluster, pod, name)
            if position is None or row is NOT_ASKED or not waiting:
                continue
            if not isinstance(row, Signature) and row.unresolvable:
                continue  # the pods on the node do not matter
            node = state.nodes[position]
            now = (state, node.facts, node.rooms, waiting)
            known, status = self._beside.get(name, (None, None))
            if (
                volumes is not None
                or known is None
                or known[3] != waiting
                or any(map(is_not, known[:3], now))
            ):
                status = fits(state, pod, node, volumes=volumes)
                if (
                    volumes is None
                    and not state.wide
                    and not any(other.template.pod_terms.forbidden for other in waiting)
                ):
                    self._beside[name] = (now, status)  # it depends on nothing else
            if status is not None:
                statuses[position] = status
        return statuses

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
        volumes: VolumeSearch | None,
    ) -> Failed:
        count = len(self.cluster.order)
        plugins = tuple(dict.fromkeys(status.plugin for status in failures.values()))
        if not self.profile.spec.preempts:
            return Failed(fit_error(count, failures.values()), UNSCHEDULABLE, plugins, nominate=None)
        outcome = preempt(state, pod, failures, budgets(), draw, volumes)
        message = fit_error(count, failures.values(), outcome.message)
        if outcome.candidate is not None:
            return Failed(message, UNSCHEDULABLE, plugins, outcome.candidate, outcome.candidate.node)
        return Failed(message, UNSCHEDULABLE, plugins, None, None if outcome.keep else "")
