"""Places pods near other pods, or away from them, by the values of a node label.

The class reads all pods for each node, as upstream's rule does. `actors.scheduler.search` keeps
counts between pods.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/interpodaffinity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import MAX_SCORE, ClusterEvent, DefaultPlugin, Reads, Status
from actors.scheduler.pods import Group, PodTerm, Template

REQUIRED_WEIGHT = 1  # hardPodAffinityWeight: of the required terms of pods that have a node

AFFINITY = Status("InterPodAffinity", ("node(s) didn't match pod affinity rules",), True)
ANTI_AFFINITY = Status("InterPodAffinity", ("node(s) didn't match pod anti-affinity rules",))
EXISTING = Status("InterPodAffinity", ("node(s) didn't satisfy existing pods anti-affinity rules",))


class InterPodAffinity(DefaultPlugin):
    """Applies the pod affinity and anti-affinity terms of the pod and of the pods that have a node."""

    name = "InterPodAffinity"
    weight = 2
    events = ClusterEvent.POD | ClusterEvent.NODE_ADD | ClusterEvent.NODE_LABEL
    reads = Reads.CLUSTER

    def filter(self, pod: Template, node: NodeInfo) -> Status | None:
        """Refuse a node by required terms: affinity, then anti-affinity, then that of existing
        pods.
        """
        if pod.pod_terms.required and not self._is_near(pod, node):
            return AFFINITY
        for term in pod.pod_terms.forbidden:
            if self._count((term,), term.topology_key, node):
                return ANTI_AFFINITY
        for other, at in self._pods():
            for term in other.pod_terms.forbidden:
                if self._matches(term, pod) and _shares_value(term.topology_key, node, at):
                    return EXISTING
        return None

    def score(self, pod: Template, node: NodeInfo) -> int:
        """Sum the weights of preferred terms of the pod, and of terms of existing pods that match
        it.
        """
        total = 0
        for weight, term in pod.pod_terms.preferred:
            total += weight * self._count((term,), term.topology_key, node)
        for other, at in self._pods():
            terms = [
                *other.pod_terms.preferred,
                *((REQUIRED_WEIGHT, term) for term in other.pod_terms.required),
            ]
            for weight, term in terms:
                if self._matches(term, pod) and _shares_value(term.topology_key, node, at):
                    total += weight
        return total

    def normalize(self, scores: list[int]) -> list[int]:
        """Scale the scores so that the least becomes 0 and the greatest 100; equal scores become 0."""
        least, width = min(scores), max(scores) - min(scores)
        return [int(MAX_SCORE * ((score - least) / width)) if width else 0 for score in scores]

    def _is_near(self, pod: Template, node: NodeInfo) -> bool:
        terms = pod.pod_terms.required
        if any(term.topology_key not in node.labels for term in terms):
            return False
        if all(self._count(terms, term.topology_key, node) for term in terms):
            return True
        # The first pod of a group that requires its own members may use any node.
        exists = any(self._count(terms, t.topology_key, n) for t in terms for n in self.cluster.list_nodes())
        return not exists and all(self._matches(term, pod) for term in terms)

    def _count(self, terms: Sequence[PodTerm], key: str, node: NodeInfo) -> int:
        """Count the pods that match all the terms, on nodes with the same value of the topology
        key.
        """
        return sum(
            count
            for at in self.cluster.list_nodes()
            if _shares_value(key, node, at)
            for group, count in at.groups.items()
            if all(self._matches(term, group) for term in terms)
        )

    def _matches(self, term: PodTerm, pod: Template | Group) -> bool:
        return term.matches(pod.namespace, pod.labels, self.cluster.namespaces)

    def _pods(self) -> Iterator[tuple[Template, NodeInfo]]:
        """Yield the pods that have a node, with their nodes."""
        for node in self.cluster.list_nodes():
            for pod in node.pods.values():
                yield pod.template, node


def _shares_value(key: str, node: NodeInfo, other: NodeInfo) -> bool:
    return key in node.labels and node.labels[key] == other.labels.get(key)
