"""Finds where a pod of one class fits and where it is best, with upstream's exact result.

Filters and scores that read several nodes (topology counts, normalisation over the examined nodes)
are worked out once per signature and pod. So a pod costs a few signatures instead of a thousand
nodes.

Holds: a choice equals that of running every plugin on every examined node.

Mirrors  kubernetes v1.25 pkg/scheduler/schedule_one.go: findNodesThatFitPod, prioritizeNodes,
         selectHost; framework/plugins/{podtopologyspread,interpodaffinity}.
Differs  nodes are examined one by one, so none after the last one wanted (upstream: 16 at a time);
         one random draw among equals instead of one per equal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

from actors.scheduler.cluster import Entry, NodeInfo
from actors.scheduler.plugins.base import Status
from actors.scheduler.plugins.inter_pod_affinity import AFFINITY, ANTI_AFFINITY, EXISTING, InterPodAffinity
from actors.scheduler.plugins.pod_topology_spread import (
    IGNORED,
    NO_KEY,
    SKEW,
    PodTopologySpread,
    domain_weight,
    least_count,
    rounded,
)
from actors.scheduler.plugins.registry import Profile
from actors.scheduler.pods import PodInfo, Spread
from actors.scheduler.search.rows import ClassRows
from actors.scheduler.search.signature import NO_SHIFT, NOT_ASKED, Found, Member, Shift, Signature, Tally
from actors.scheduler.search.volumes import VolumeSearch


class ClassState(ClassRows):
    """One class of equal pods over all nodes: filters across nodes, and the choice of a node."""

    def __init__(self, profile: Profile, pod: PodInfo) -> None:
        super().__init__(profile, pod)
        self._spread, self._affinity = PodTopologySpread(self.cluster), InterPodAffinity(self.cluster)

    # --- filters across nodes ---------------------------------------------------------------------

    def _at(self, tally: Tally, signature: Signature, shift: Shift) -> int | None:
        """Return the tally's count at the topology value of such nodes; None if they lack the
        label.
        """
        if tally.host:
            count = signature.local[tally.slot]
            if count < 0:
                return None
        else:
            value = signature.values[tally.slot]
            if value is None:
                return None
            count = tally.counts.get(value, 0)
        return count + shift.get(self.tallies.index(tally), 0) if shift else count

    def _existing_at(self, entry: Entry, signature: Signature) -> int:
        """Return the weight of an existing pods' term at the topology value of such nodes."""
        slot = self._entry_slot[entry]
        if entry.term.topology_key == self._host_key:
            return signature.local[slot]
        value = signature.values[slot]
        return 0 if value is None else entry.values.get(value, 0)

    def _smallest(self, tally: Tally, constraint: Spread, node: NodeInfo | None, shift: Shift) -> int:
        """Return the global minimum of a spread constraint."""
        index = self.tallies.index(tally)
        if node is not None and shift.get(index):
            value = node.labels.get(tally.key)
            by = shift[index]
            return least_count((c + by if v == value else c for v, c in tally.counts.items()), constraint)
        least = self._least.get(index)
        if least is None:
            least = self._least[index] = least_count(tally.counts.values(), constraint)
        return least

    def across(
        self,
        signature: Signature,
        node: NodeInfo | None = None,
        shift: Shift = NO_SHIFT,
        anti: Mapping[str, int] | None = None,
    ) -> Status | None:
        """Apply PodTopologySpread, InterPodAffinity and the added plugins to nodes of this
        signature.

        shift: changes of tallies at `node`, by index, if pods are added or removed
        anti: changes of the anti-affinity terms that match the pod, by topology key
        """
        for constraint, tally, itself in self.hard:
            count = self._at(tally, signature, shift)
            if count is None:
                return NO_KEY
            if count + itself - self._smallest(tally, constraint, node, shift) > constraint.max_skew:
                return SKEW
        if self.affinity and not self._is_near(signature, shift):
            return AFFINITY
        for tally in self.anti:
            if (self._at(tally, signature, shift) or 0) > 0:
                return ANTI_AFFINITY
        if anti and node is not None:
            sums = {key: by for key, by in anti.items() if key in node.labels}
            for entry in self.existing_anti:
                key = entry.term.topology_key
                sums[key] = sums.get(key, 0) + self._existing_at(entry, signature)
            return EXISTING if any(count > 0 for count in sums.values()) else signature.refusal
        for entry in self.existing_anti:
            if self._existing_at(entry, signature) > 0:
                return EXISTING
        return signature.refusal

    def _is_near(self, signature: Signature, shift: Shift) -> bool:
        """Return True if the required pod affinity holds on nodes of this signature."""
        exist = True
        for tally in self.affinity:
            count = self._at(tally, signature, shift)
            if count is None:
                return False
            exist = exist and count > 0
        if exist:
            return True
        # The first pod of a group that requires its own members may use any node.
        total = sum(t.total + shift.get(self.tallies.index(t), 0) for t in self.affinity)
        template, of_namespaces = self.template, self.cluster.namespaces
        return not total and all(
            t.matches(template.namespace, template.labels, of_namespaces) for t in template.pod_terms.required
        )

    def try_node(
        self, node: NodeInfo, changes: Iterable[tuple[PodInfo, int]], volumes: VolumeSearch | None = None
    ) -> Status | None:
        """Apply all filters to a copy of a node to which pods have been added (1) or from which
        removed (-1).

        volumes: those of the pod, None if it has none
        """
        position = self.position.get(node.name)
        if position is None:  # a node that the pod does not name
            return self.profile.filter_node(self.template, node)
        static = self._static(position)
        status = static.status or self.profile.filter_room(self.template, node)
        if status is None and volumes is not None:
            status = volumes.filter(node)
        if status is not None:
            return status
        shift: dict[int, int] = {}
        anti: dict[str, int] = {}
        template, near = self.template, self.profile.has_filter(InterPodAffinity.name)
        for pod, sign in changes:
            # Quirk: a pod that is being deleted does not count on its node, and yet its removal
            # reduces the count.
            vector = self._vector(pod.template.groups[False])
            for index, tally in enumerate(self.tallies):
                if tally.shares[position] >= 0 and tally.matcher in vector:
                    shift[index] = shift.get(index, 0) + sign
            for term in pod.template.pod_terms.forbidden if near else ():
                if term.matches(template.namespace, template.labels, self.cluster.namespaces):
                    anti[term.topology_key] = anti.get(term.topology_key, 0) + sign
        if not (self.wide or anti):
            return None
        return self.across(self._signature(position, node, static), node, shift, anti)

    # --- choosing ---------------------------------------------------------------------------------

    def choose(
        self,
        start: int,
        wanted: int,
        draw: Callable[[int], int],
        excluded: Mapping[int, Status],
        volumes: VolumeSearch | None = None,
    ) -> Found:
        """Return the best of the first `wanted` feasible nodes from `start` on; `draw` chooses
        among equals.

        excluded: positions that fail for a reason that is not the class's own (room kept for other
            pods, volumes)
        volumes: those of the pod if they have scores
        """
        lists, total = self.passing(excluded)
        count = len(self.nodes)
        if not total:
            return Found("", 0, count)
        if total <= wanted:
            members = [Member(signature, at, [(0, len(at))], len(at)) for signature, at in lists]
            return Found(self._best(members, total, draw, volumes), total, count)
        start %= count
        if total == len(self.feasible):
            feasible = self.feasible
        else:
            feasible = sorted(position for _, at in lists for position in at)
        last = feasible[(bisect_left(feasible, start) + wanted - 1) % total]
        spans = [(start, last + 1)] if last >= start else [(start, count), (0, last + 1)]
        members = []
        for signature, at in lists:
            cuts = [(bisect_left(at, low), bisect_left(at, high)) for low, high in spans]
            here = sum([high - low for low, high in cuts])
            if here:
                members.append(Member(signature, at, cuts, here))
        name = self._best(members, wanted, draw, volumes)
        return Found(name, wanted, (last - start) % count + 1)

    def passing(self, excluded: Mapping[int, Status]) -> tuple[list[tuple[Signature, list[int]]], int]:
        """Return the signatures that pass all filters with their positions, and the number of
        positions.
        """
        lists = []
        total = 0
        for signature, at in self.groups.items():
            if self.wide and self.across(signature) is not None:
                continue
            if excluded:
                at = [position for position in at if position not in excluded]
                if not at:
                    continue
            lists.append((signature, at))
            total += len(at)
        return lists, total

    def _best(
        self, members: list[Member], total: int, draw: Callable[[int], int], volumes: VolumeSearch | None
    ) -> str:
        scores = self.totals(members)
        if volumes is not None:
            members, scores = self._apart(members, scores, volumes)
        best = max(scores)
        tied = [member for member, score in zip(members, scores, strict=True) if score == best]
        if len(tied) > 1:  # in an order that does not depend on earlier searches
            tied.sort(key=first_position)
        among = sum([member.size for member in tied])
        left = draw(among) if among > 1 else 0
        for _, at, cuts, _ in tied:
            for low, high in cuts:
                if left < high - low:
                    return self.nodes[at[low + left]].name
                left -= high - low
        raise AssertionError("a draw beyond the number of equal nodes")

    def _apart(
        self, members: list[Member], scores: list[int], volumes: VolumeSearch
    ) -> tuple[list[Member], list[int]]:
        """Return each node as a member of its own, with the score of the pod's volumes on it."""
        single: list[Member] = []
        sums: list[int] = []
        for member, score in zip(members, scores, strict=True):
            for low, high in member.cuts:
                for index in range(low, high):
                    single.append(member._replace(cuts=[(index, index + 1)], size=1))
                    sums.append(score + volumes.bonus(self.nodes[member.at[index]]))
        return single, sums

    def totals(self, members: list[Member]) -> list[int]:
        """Return, for each signature that passed, the weighted sum of all scores that differ
        between nodes.
        """
        sums = [m.signature.base for m in members]
        for index, plugin in enumerate(self.scored):
            raw = [m.signature.raw[index] for m in members]
            if any(raw):
                sums = _added(sums, plugin.weight, plugin.final_scores(raw))
        if self.soft:
            sums = _added(sums, self.profile.spread_weight, self._spread_scores(members))
        if self.preferred or self.existing_score:
            sums = _added(sums, self.profile.affinity_weight, self._pod_scores(members))
        return sums

    def _spread_scores(self, members: list[Member]) -> list[int]:
        tallies = self.soft_tallies
        counted, kept = None, members
        if self.needs_keys:  # nodes that lack a key are ignored
            counted = [
                all(self._at(t, member.signature, NO_SHIFT) is not None for t in tallies)
                for member in members
            ]
            kept = [member for member, counts in zip(members, counted, strict=True) if counts]
        sums = [0.0] * len(members)
        for constraint, tally in zip(self.soft, tallies, strict=True):
            slot, extra = tally.slot, constraint.max_skew - 1
            if tally.host:
                weight = domain_weight(sum([member.size for member in kept]))
                for index, member in enumerate(members):
                    count = member.signature.local[slot]
                    if count >= 0:
                        sums[index] += count * weight + extra
            else:
                weight = domain_weight(len({member.signature.values[slot] for member in kept}))
                for index, member in enumerate(members):
                    value = member.signature.values[slot]
                    if value is not None:
                        sums[index] += tally.counts.get(value, 0) * weight + extra
        raw = [rounded(total) for total in sums]
        if counted is not None:
            raw = [score if counts else IGNORED for score, counts in zip(raw, counted, strict=True)]
        return self._spread.normalize(raw)

    def _pod_scores(self, members: list[Member]) -> list[int]:
        raw = []
        for signature, _, _, _ in members:
            score = sum(w * (self._at(t, signature, NO_SHIFT) or 0) for w, t in self.preferred)
            score += sum(
                factor * self._existing_at(entry, signature) for factor, entry in self.existing_score
            )
            raw.append(score)
        return self._affinity.normalize(raw)

    def failures(self, excluded: Mapping[int, Status]) -> dict[str, Status]:
        """Return why each node that was tried is not feasible."""
        result: dict[str, Status] = {}
        of_signature = {signature: self.across(signature) for signature in self.groups}
        for position, row in enumerate(self.rows):
            if row is NOT_ASKED:
                continue
            status = excluded.get(position) or (of_signature[row] if isinstance(row, Signature) else row)
            if status is not None:
                result[self.nodes[position].name] = status
        return result


def first_position(member: Member) -> int:
    """The position of a member's first node; its first part may be empty."""
    low = next(low for low, high in member.cuts if low < high)
    return member.at[low]


def _added(sums: list[int], weight: int, scores: list[int]) -> list[int]:
    return [total + weight * score for total, score in zip(sums, scores, strict=True)]
