"""NUMA nodes that fit all resources of a container or a pod: hints, merged by a policy.  Pure.

A provider (of devices, processors or memory) names for each resource the sets of NUMA nodes from
which it could serve a request.  No hints at all mean that it has no preference; an empty list, that
no set would do.

Mirrors  pkg/kubelet/cm/topologymanager: policy.go, policy_*.go, bitmask (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

from actors.node.resources.topology import mask_of

NUMA_NODES_MAX = 8  # topology_manager.go: maxAllowableNUMANodes
SINGLE, RESTRICTED, NONE = "single-numa-node", "restricted", "none"


class Hint(NamedTuple):
    """A set of NUMA nodes.  nodes: None if any will do; preferred: True if no smaller set could
    do
    """

    nodes: int | None = None
    preferred: bool = False


Hints = Mapping[str, Sequence[Hint] | None]
NO_PREFERENCE = Hint(None, True)


def masks_of(nodes: Sequence[int]) -> Iterator[int]:
    """All sets of these nodes but the empty one, the smallest first."""
    for size in range(1, len(nodes) + 1):
        yield from map(mask_of, combinations(nodes, size))


def hints_of(
    nodes: Sequence[int], could_ever: Callable[[int], bool], can_now: Callable[[int], bool]
) -> list[tuple[int, int]]:
    """The sets that can serve a request now, each with the least size of one that ever could."""
    least, found = len(nodes), list[int]()
    for mask in masks_of(nodes):
        if could_ever(mask) and mask.bit_count() < least:
            least = mask.bit_count()
        if can_now(mask):
            found.append(mask)
    return [(mask, least) for mask in found]


def is_narrower(one: int, other: int) -> bool:
    """True if a set has fewer nodes than another, or as many with lower numbers."""
    if one.bit_count() == other.bit_count():
        return one < other
    return one.bit_count() < other.bit_count()


def merged(policy: str, node_count: int, providers: Sequence[Hints]) -> tuple[Hint, bool]:
    """The best hint of all providers, and whether the policy admits the container with it."""
    whole = (1 << node_count) - 1
    filtered = [list(hints) for provider in providers for hints in _filtered(provider)]
    if policy == SINGLE:
        filtered = [
            [hint for hint in hints if hint.preferred and (hint.nodes is None or hint.nodes.bit_count() == 1)]
            for hints in filtered
        ]
    best = _best(whole, filtered)
    if policy == SINGLE and best.nodes == whole:
        best = Hint(None, best.preferred)
    return best, best.preferred or policy not in (SINGLE, RESTRICTED)


def _filtered(provider: Hints) -> list[Sequence[Hint]]:
    if not provider:
        return [(NO_PREFERENCE,)]
    return [
        (NO_PREFERENCE,) if hints is None else (hints or (Hint(None, False),)) for hints in provider.values()
    ]


def _best(whole: int, filtered: Sequence[Sequence[Hint]]) -> Hint:
    """The best of all merged hints, one of each resource."""
    wanted = max((_least(hints) for hints in filtered), default=0)
    best: Hint | None = None
    for permutation in product(*filtered):
        merged_hint = _merge(whole, permutation)
        if merged_hint.nodes and (best is None or _replaces(wanted, best, merged_hint)):
            best = merged_hint
    return best or Hint(whole, False)


def _least(hints: Sequence[Hint]) -> int:
    return min((hint.nodes.bit_count() for hint in hints if hint.nodes is not None), default=0)


def _merge(whole: int, hints: Sequence[Hint]) -> Hint:
    named = [hint.nodes for hint in hints if hint.nodes is not None]
    nodes = whole
    for one in named:
        nodes &= one
    return Hint(nodes, all(hint.preferred for hint in hints) and all(one == named[0] for one in named))


def _replaces(wanted: int, current: Hint, candidate: Hint) -> bool:
    """True if a candidate is better than the best so far.

    wanted: among sets that are not preferred, the number of nodes that is best
    """
    assert current.nodes is not None
    assert candidate.nodes is not None
    if current.preferred is not candidate.preferred:
        return candidate.preferred
    narrower = is_narrower(candidate.nodes, current.nodes)
    held, new = current.nodes.bit_count(), candidate.nodes.bit_count()
    if current.preferred or held > wanted:
        return narrower
    if held == wanted:
        return new == wanted and narrower
    if new >= wanted or new == held:
        return new == wanted or (new == held and narrower)
    return new > held
