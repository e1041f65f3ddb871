"""Spreads the pods that a selector selects over the values of a node label.

The class counts all pods for each node, as the rule reads. `actors.scheduler.search` keeps the
counts from pod to pod and shares the parts that do not count.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/podtopologyspread.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import compress

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import MAX_SCORE, ClusterEvent, DefaultPlugin, Reads, Status
from actors.scheduler.plugins.node_affinity import matches_node
from actors.scheduler.pods import Spread, Template
from sim.api.scheduling import Requirements, holds, tolerates
from sim.ident import Names
from sim.options.scheduling.profiles import DefaultSpread

DEFAULT_HOST_SKEW, DEFAULT_ZONE_SKEW = 3, 5  # plugin.go: systemDefaultConstraints
NO_DOMAIN = (1 << 31) - 1  # the least count where no node is a domain (MaxInt32)
IGNORED = -1  # invalidScore: the node lacks a label of the pod's own constraints

SKEW = Status("PodTopologySpread", ("node(s) didn't match pod topology spread constraints",))
NO_KEY = Status(
    "PodTopologySpread",
    ("node(s) didn't match pod topology spread constraints (missing required label)",),
    True,
)


class PodTopologySpread(DefaultPlugin):
    """Limits the skew of hard constraints and prefers nodes by soft ones."""

    name = "PodTopologySpread"
    weight = 2
    events = ClusterEvent.POD | ClusterEvent.NODE_ADD | ClusterEvent.NODE_LABEL
    reads = Reads.CLUSTER

    def filter(self, pod: Template, node: NodeInfo) -> Status | None:
        """Refuse a node on which the pod would exceed the skew of a DoNotSchedule constraint."""
        keys = [constraint.topology_key for constraint in pod.hard]
        for constraint in pod.hard:
            value = node.labels.get(constraint.topology_key)
            if value is None:
                return NO_KEY
            counts = self._counts(pod, constraint, keys)
            itself = holds(constraint.selector, pod.labels)
            if counts.get(value, 0) + itself - least_count(counts.values(), constraint) > constraint.max_skew:
                return SKEW
        return None

    def scores(self, pod: Template, nodes: Sequence[NodeInfo]) -> list[int]:
        """Score the feasible nodes by their counts, weighted by the number of domains among them."""
        selector = self.cluster.default_selector(pod.namespace, pod.labels, pod.owner)
        constraints = pod.soft if pod.own_spread else default_constraints(selector, self.cluster.names)
        if not constraints:
            return self.normalize([0] * len(nodes))
        keys = [constraint.topology_key for constraint in constraints] if pod.own_spread else []
        scored = [node for node in nodes if all(key in node.labels for key in keys)]
        sums = [0.0] * len(nodes)
        for constraint in constraints:
            key = constraint.topology_key
            is_host = key == self.cluster.names.label_hostname
            domains = len(scored) if is_host else len({node.labels.get(key) for node in scored})
            counts = {} if is_host else self._counts(pod, constraint, keys)
            for index, node in enumerate(nodes):
                if key in node.labels:
                    count = _count(pod, constraint, node) if is_host else counts.get(node.labels[key], 0)
                    sums[index] += count * domain_weight(domains) + constraint.max_skew - 1
        return self.normalize(
            [
                rounded(total) if all(key in node.labels for key in keys) else IGNORED
                for node, total in zip(nodes, sums, strict=True)
            ]
        )

    def normalize(self, scores: list[int]) -> list[int]:
        """Give the lowest sum the highest score, and nodes that are ignored 0."""
        counted = [score != IGNORED for score in scores]
        real = list(compress(scores, counted))
        least, most = min(real, default=0), max(real, default=0)
        if not most:
            return [MAX_SCORE * counts for counts in counted]
        return [
            MAX_SCORE * (most + least - score) // most if counts else 0
            for score, counts in zip(scores, counted, strict=True)
        ]

    def _counts(self, pod: Template, constraint: Spread, keys: Collection[str]) -> dict[str, int]:
        """Count the selected pods by value of the topology key, over the nodes that are domains."""
        counts: dict[str, int] = {}
        for node in self.cluster.list_nodes():
            value = node.labels.get(constraint.topology_key)
            if value is None or not all(key in node.labels for key in keys):
                continue
            if not (constraint.any_node or matches_node(pod, node)):
                continue
            if constraint.tolerated and not all(tolerates(pod.tolerations, t) for t in node.taints):
                continue
            counts[value] = counts.get(value, 0) + _count(pod, constraint, node)
        return counts


def _count(pod: Template, constraint: Spread, node: NodeInfo) -> int:
    """Count the pods on a node that the constraint selects; pods that are being deleted do not
    count.
    """
    return sum(
        count
        for group, count in node.groups.items()
        if not group.terminating
        and group.namespace == pod.namespace
        and holds(constraint.selector, group.labels)
    )


def default_constraints(selector: Requirements, names: Names) -> tuple[Spread, ...]:
    """Return the soft constraints of pods that have none of their own; an empty selector gives
    none.
    """
    if not selector:
        return ()
    return (
        Spread(names.label_hostname, DEFAULT_HOST_SKEW, selector),
        Spread(names.label_zone, DEFAULT_ZONE_SKEW, selector),
    )


def listed_constraints(
    selector: Requirements, listed: Sequence[DefaultSpread], *, hard: bool
) -> tuple[Spread, ...]:
    """Return the constraints that a profile lists for pods without their own, of one kind; an empty
    selector gives none.
    """
    if not selector:
        return ()
    return tuple(Spread(one.topology_key, one.max_skew, selector) for one in listed if one.is_hard is hard)


def least_count(counts: Iterable[int], constraint: Spread) -> int:
    """Return the global minimum: the least count over all domains, or 0 if there are too few of
    them.
    """
    found = list(counts)
    return 0 if len(found) < constraint.min_domains else min(found, default=NO_DOMAIN)


def domain_weight(domains: int) -> float:
    """Return the factor of a constraint's counts (topologyNormalizingWeight)."""
    return math.log(domains + 2)


def rounded(score: float) -> int:
    """Round half up, as upstream does for scores that are not negative."""
    return math.floor(score + 0.5)
