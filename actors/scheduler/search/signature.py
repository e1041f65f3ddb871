"""The small values of the incremental search: signatures, tallies and the results of a choice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import Status
from actors.scheduler.plugins.node_affinity import matches_node
from actors.scheduler.pods import Group, NamespaceLabels, PodTerm, Template
from sim.api.scheduling import holds

NOT_ASKED = Status("", ())  # PreFilter left the node out: it is neither tried nor reported

ALL, SOFT, HARD = 0, 1, 2  # the nodes that a tally counts
Shift = Mapping[int, int]
NO_SHIFT: Shift = {}


class Signature(NamedTuple):
    """All that scores and filters across nodes read of a node, except for the tallies.

    base: weighted sum of the final scores that read one node only
    raw: scores of the node that `normalize` makes final, in the order of `ClassRows.scored`
    local: counts on the node's own host
    values: the node's topology values other than the host
    refusal: the status of an added plugin, which applies after all default filters
    """

    base: int
    raw: tuple[int, ...]
    local: tuple[int, ...]
    values: tuple[str | None, ...]
    refusal: Status | None = None


class Matcher(NamedTuple):
    """A rule that selects pods: the selector of a spread constraint, or a set of terms that must
    all match.
    """

    selector: tuple[Any, ...] | None
    terms: tuple[PodTerm, ...]

    def counts(self, group: Group, namespace: str, of_namespaces: NamespaceLabels) -> bool:
        """Return True if pods of this group count; `namespace` is that of the pod with the
        constraint.
        """
        if self.terms:
            return all(t.matches(group.namespace, group.labels, of_namespaces) for t in self.terms)
        return not group.terminating and group.namespace == namespace and holds(self.selector, group.labels)


class Tally:
    """The numbers of matching pods by topology value.

    own: True if only each node's own count is used
    any_node, tolerated: as in the spread constraint
    slot: the place of the node's value or count in a signature
    shares: the count of each node; -1 if the node does not count
    """

    def __init__(self, key: str, matcher: int, nodes: int, own: bool = False) -> None:
        self.key = key
        self.matcher = matcher
        self.nodes = nodes
        self.own = own
        self.any_node = self.tolerated = False
        self.host = False
        self.slot = 0
        self.counts: dict[str, int] = {}
        self.shares: list[int] = []
        self.total = 0

    def includes(self, has_keys: bool, matches: bool, is_tolerated: bool) -> bool:
        """Return True if a node counts.

        has_keys: the node has the labels of all constraints
        matches: the pod's node affinity matches the node
        is_tolerated: the pod tolerates the node's taints
        """
        if self.own or self.nodes == ALL:
            return True
        return has_keys and (matches or self.any_node) and (is_tolerated or not self.tolerated)


def count_domains(
    tallies: Sequence[Tally],
    nodes: Sequence[NodeInfo],
    template: Template,
    tolerated: Sequence[bool],
    required: tuple[Collection[str], Collection[str]],
) -> None:
    """Decide which nodes count for which tally; the result holds until their labels or taints
    change.

    tolerated: for each node, True if the template tolerates its taints
    required: the labels of a node that counts for hard constraints, and for soft ones
    """
    hard_keys, soft_keys = map(frozenset, required)
    for node, is_tolerated in zip(nodes, tolerated, strict=True):
        labels = node.labels
        matches = matches_node(template, node)
        keys = labels.keys()
        has_keys = True, soft_keys <= keys, hard_keys <= keys
        for tally in tallies:
            value = labels.get(tally.key)
            if value is None or not tally.includes(has_keys[tally.nodes], matches, is_tolerated):
                tally.shares.append(-1)
            else:
                tally.shares.append(0)
                tally.counts.setdefault(value, 0)


class Static(NamedTuple):
    """The results that depend on the node's own properties only.

    facts: the node's token of these properties; the results hold while the node has the same one
    base: weighted sum of final scores
    raw: scores that are not final
    """

    facts: object
    status: Status | None
    base: int
    raw: tuple[int, ...]


class Found(NamedTuple):
    """The result of a search.

    node: name of the chosen node, "" if none fits
    feasible: number of nodes found that fit
    processed: number of nodes that were examined
    """

    node: str
    feasible: int
    processed: int


class Member(NamedTuple):
    """The feasible nodes of one signature among those examined: `at[low:high]` for each of the
    cuts.
    """

    signature: Signature
    at: list[int]
    cuts: list[tuple[int, int]]
    size: int
