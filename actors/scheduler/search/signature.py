"""The small values of the incremental search: signatures, tallies, what a choice answers, wide statuses.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/{podtopologyspread,interpodaffinity}: reasons;
         apis/config/v1/default_plugins.go: weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.match import holds
from actors.scheduler.plugins.node_filters import Status, matches_node
from actors.scheduler.pods import Group, NamespaceLabels, PodTerm, Template

# Plugin weights (apis/config/v1/default_plugins.go); Fit, Balanced and ImageLocality have weight 1.
TAINT_WEIGHT, AFFINITY_WEIGHT, SPREAD_WEIGHT, POD_AFFINITY_WEIGHT = 3, 2, 2, 2
DEFAULT_HOST_SKEW, DEFAULT_ZONE_SKEW = 3, 5  # podtopologyspread/plugin.go: systemDefaultConstraints
NO_DOMAIN = (1 << 31) - 1  # criticalPaths start at MaxInt32

SKEW = Status("PodTopologySpread", ("node(s) didn't match pod topology spread constraints",))
NO_KEY = Status(
    "PodTopologySpread",
    ("node(s) didn't match pod topology spread constraints (missing required label)",),
    True,
)
AFFINITY = Status("InterPodAffinity", ("node(s) didn't match pod affinity rules",), True)
ANTI_AFFINITY = Status("InterPodAffinity", ("node(s) didn't match pod anti-affinity rules",))
EXISTING = Status("InterPodAffinity", ("node(s) didn't satisfy existing pods anti-affinity rules",))
NOT_ASKED = Status("", ())  # PreFilter left the node out: neither tried nor reported

ALL, SOFT, HARD = 0, 1, 2  # which nodes a tally counts
Shift = Mapping[int, int]
NO_SHIFT: Shift = {}


class Signature(NamedTuple):
    """All that the scores and the filters across nodes depend on, but for the tallies."""

    base: int  # Fit + Balanced + ImageLocality
    taints: int
    weight: int  # preferred node affinity
    local: tuple[int, ...]  # counts on the node's own host
    values: tuple[str | None, ...]  # topology values other than the host


class Matcher(NamedTuple):
    """Which pods count: those of a spread constraint's selector, or those that match all of some terms."""

    selector: tuple[Any, ...] | None
    terms: tuple[PodTerm, ...]

    def counts(self, group: Group, namespace: str, of_namespaces: NamespaceLabels) -> bool:
        """Whether pods of this group count; `namespace`: of the pod that has the constraint."""
        if self.terms:
            return all(t.matches(group.namespace, group.labels, of_namespaces) for t in self.terms)
        return not group.dying and group.namespace == namespace and holds(self.selector, group.labels)


class Tally:
    """Matching pods by topology value.  own: only each node's own count matters."""

    def __init__(self, key: str, matcher: int, nodes: int, own: bool = False) -> None:
        self.key = key
        self.matcher = matcher
        self.nodes = nodes
        self.own = own
        self.any_node = self.tolerated = False  # as the spread constraint's
        self.host = False
        self.slot = 0
        self.counts: dict[str, int] = {}
        self.shares: list[int] = []  # per node; -1: the node does not count
        self.total = 0

    def includes(self, labelled: bool, matches: bool, borne: bool) -> bool:
        """Whether a node counts.

        labelled: it has all keys that are asked for; matches: the pod's affinity; borne: the pod tolerates its taints
        """
        if self.own or self.nodes == ALL:
            return True
        return labelled and (matches or self.any_node) and (borne or not self.tolerated)


def count_domains(
    tallies: Sequence[Tally], nodes: Sequence[NodeInfo], template: Template, borne: Sequence[bool]
) -> None:
    """Which nodes count for which tally: by their labels and taints, so that it holds until these change.

    borne: of each node whether a pod of the template tolerates its taints, if that is asked
    """
    hard_keys = [c.topology_key for c in template.hard]
    soft_keys = [c.topology_key for c in template.soft] if template.own_spread else []
    for node, is_borne in zip(nodes, borne, strict=True):
        labels = node.labels
        matches = matches_node(template, node)
        labelled = (
            True,
            all(key in labels for key in soft_keys),
            all(key in labels for key in hard_keys),
        )
        for tally in tallies:
            value = labels.get(tally.key)
            if value is None or not tally.includes(labelled[tally.nodes], matches, is_borne):
                tally.shares.append(-1)
            else:
                tally.shares.append(0)
                tally.counts.setdefault(value, 0)


class Static(NamedTuple):
    facts: object
    status: Status | None
    taints: int
    weight: int
    images: int


class Found(NamedTuple):
    """node "": none fits.  processed: how many nodes were looked at; feasible: how many of them fit."""

    node: str
    feasible: int
    processed: int


class Member(NamedTuple):
    """A signature's feasible nodes among those looked at: `at[low:high]` for each of the cuts."""

    signature: Signature
    at: list[int]
    cuts: list[tuple[int, int]]
    size: int


def normalized_spread(sums: list[float], counted: list[bool] | None) -> list[int]:
    """PodTopologySpread's scores: the lower the sum the better; what is not counted gets none."""
    raw = [math.floor(score + 0.5) for score in sums]
    real = raw if counted is None else list(compress(raw, counted))
    least, most = min(real, default=0), max(real, default=0)
    scores = [100 * (most + least - score) // most for score in raw] if most else [100] * len(raw)
    return scores if counted is None else [a * b for a, b in zip(scores, counted, strict=True)]
