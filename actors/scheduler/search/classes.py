"""Where a pod of one class fits and where it is best, found incrementally with upstream's exact result.

Nodes on which every plugin has the same input form one *signature*; a class of equal pods keeps each
signature's nodes in list order, and looks again only at nodes in the cluster's log of changes.  What depends
on other nodes (topology counts, normalisation over the sampled nodes) is worked out once per signature and
pod.  So a pod costs a few signatures, not a thousand nodes.

Holds: `rows[i]` is what the filters that see one node say of node i, and a feasible row's position is in the
group of its signature; tallies equal a count over all pods; a choice equals that of running every plugin on
every sampled node.

Mirrors  kubernetes v1.25 pkg/scheduler/schedule_one.go: findNodesThatFitPod, prioritizeNodes, selectHost;
         framework/plugins/{podtopologyspread,interpodaffinity}.
Differs  nodes are looked at one by one, so none beyond the last one wanted (upstream: 16 at a time); one draw
         among equals instead of one per equal.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.scheduler.cluster import ANTI, Cluster, Entry, NodeInfo
from actors.scheduler.match import holds
from actors.scheduler.plugins.node_filters import (
    Status,
    image_score,
    intolerable,
    known_score,
    pods_status,
    preferred_weight,
    room_on,
    static_status,
    tolerates,
)
from actors.scheduler.pods import Group, PodInfo, PodTerm, Spread, Template
from actors.scheduler.search.signature import (
    AFFINITY,
    AFFINITY_WEIGHT,
    ALL,
    ANTI_AFFINITY,
    DEFAULT_HOST_SKEW,
    DEFAULT_ZONE_SKEW,
    EXISTING,
    HARD,
    NO_DOMAIN,
    NO_KEY,
    NO_SHIFT,
    NOT_ASKED,
    POD_AFFINITY_WEIGHT,
    SKEW,
    SOFT,
    SPREAD_WEIGHT,
    TAINT_WEIGHT,
    Found,
    Matcher,
    Member,
    Shift,
    Signature,
    Static,
    Tally,
    count_domains,
    normalized_spread,
)

VECTORS_MAX = 4_096  # groups of pods whose matches are remembered; beyond it they are asked anew


class ClassState:
    """One class of equal pods over all nodes."""

    def __init__(self, cluster: Cluster, template: Template) -> None:
        self.cluster = cluster
        self.template = template
        self._entries: list[Entry] = []
        self._selector: tuple[Any, ...] = ()
        self._cursor = self._layout = self._entries_version = self._owners_version = 0
        self._namespaces_version = 0
        self.version = 0  # rises whenever an answer may have changed
        self.nodes: list[NodeInfo] = []
        self.position: dict[str, int] = {}
        self._rebuild()

    # --- keeping up -----------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Take in what has changed since the last time."""
        cluster = self.cluster
        if (
            self._layout != cluster.layout
            or self._cursor < cluster.log_base
            or self._outdated()
            or (self._heeds_taints and self._tolerated() != self._borne)
        ):
            self._rebuild()
        elif self._cursor < cluster.log_end:
            log = cluster.log[self._cursor - cluster.log_base :]
            self._cursor = cluster.log_end
            self.version += 1
            place = self.position.get
            counted: dict[str, None] = {}
            if self.tallies:
                self._least.clear()
                vectors = self._vectors
                counted = {
                    name: None
                    for name, group in log
                    if group is not None and (vectors[group] if group in vectors else self._vector(group))
                }
                for name in counted:
                    position = place(name)
                    if position is not None:
                        self._tally(position)
            for name in dict(log):
                position = place(name)
                if position is not None:
                    self._place(position, name in counted or not self._alone)

    def _outdated(self) -> bool:
        """Whether the terms or the default selector that concern this class are no longer the same."""
        cluster = self.cluster
        if self._entries_version != cluster.entries_version:
            self._entries_version = cluster.entries_version
            if cluster.concerning(self.template) != self._entries:
                return True
        if self._namespaces_version != cluster.namespaces_version:
            self._namespaces_version = cluster.namespaces_version
            terms = [term for matcher in self._matchers for term in matcher.terms]
            terms += [entry.term for entry in cluster.entries.values()]
            if any(term.namespace_selector is not None for term in terms):
                return True
        if self._owners_version != cluster.owners_version:
            self._owners_version = cluster.owners_version
            return self._default_selector() != self._selector
        return False

    def _default_selector(self) -> tuple[Any, ...]:
        template = self.template
        if template.own_spread:
            return ()
        return self.cluster.default_selector(template.namespace, template.labels, template.owner)

    def _rebuild(self) -> None:
        cluster, template = self.cluster, self.template
        self._layout, self._cursor = cluster.layout, cluster.log_end
        self._namespaces_version = cluster.namespaces_version
        self.version += 1
        self._entries_version, self._owners_version = cluster.entries_version, cluster.owners_version
        self._entries, self._selector = cluster.concerning(template), self._default_selector()
        self._vectors: dict[Group, tuple[int, ...]] = {}
        self._least: dict[int, int] = {}
        self._declare()
        everyone = cluster.list_nodes()
        named = template.node_names
        if named is not None and not self.tallies:
            self.nodes = [n for n in map(cluster.nodes.get, named) if n is not None and n.obj is not None]
        else:
            self.nodes = everyone
        self.position = {node.name: at for at, node in enumerate(self.nodes)}
        self._only = None if named is None else frozenset(named)
        count = len(self.nodes)
        self.rows: list[Signature | Status] = [NOT_ASKED] * count
        self.groups: dict[Signature, list[int]] = {}
        self.feasible: list[int] = []
        self._statics: list[Static | None] = [None] * count
        self._values = [
            tuple(node.labels.get(key) for key in self.keys) if self.keys else () for node in self.nodes
        ]
        if self.tallies:
            self._borne = self._tolerated()
            count_domains(self.tallies, self.nodes, template, self._borne)
            for position in range(count):
                self._tally(position)
        for position in range(count):
            self._place(position, True)

    def _declare(self) -> None:
        """Which tallies the class needs, and where in a signature each finds its node's value."""
        template, names = self.template, self.cluster.names
        self._matchers: list[Matcher] = []
        self.tallies: list[Tally] = []
        self.soft = self._soft()
        self.hard = [
            (c, self._spread_tally(c, HARD), holds(c.selector, template.labels)) for c in template.hard
        ]
        self.soft_tallies = [self._spread_tally(c, SOFT) for c in self.soft]
        terms = template.affinity
        self.affinity = [self._term_tally(t.topology_key, terms) for t in terms]
        self.anti = [self._term_tally(t.topology_key, (t,)) for t in template.anti_affinity]
        self.preferred = [(w, self._term_tally(t.topology_key, (t,))) for w, t in template.preferred_pods]
        self.borne_anti = [e for e in self._entries if e.kind == ANTI]
        self.borne_score = [e for e in self._entries if e.kind != ANTI]
        self.wide = bool(self.hard or self.affinity or self.anti or self.borne_anti)
        keys: dict[str, int] = {}
        self._local_tallies: list[Tally] = []
        self._host_key = names.label_hostname
        for tally in self.tallies:
            tally.host = tally.key == self._host_key
            if tally.host:
                tally.slot = len(self._local_tallies)
                self._local_tallies.append(tally)
            else:
                tally.slot = keys.setdefault(tally.key, len(keys))
        self._local_entries: list[Entry] = []
        self._entry_slot: dict[Entry, int] = {}
        for entry in self._entries:
            if entry.term.topology_key == self._host_key:
                self._entry_slot[entry] = len(self._local_tallies) + len(self._local_entries)
                self._local_entries.append(entry)
            else:
                self._entry_slot[entry] = keys.setdefault(entry.term.topology_key, len(keys))
        self.keys = tuple(keys)
        self._heeds_taints = any(tally.tolerated for tally in self.tallies)
        # What is counted on a node's host is counted by that node's own pods.
        self._alone = not self._local_entries and all(tally.own for tally in self._local_tallies)

    def _soft(self) -> tuple[Spread, ...]:
        template, names = self.template, self.cluster.names
        if template.own_spread:
            return template.soft
        named = template.node_names
        if not self._selector or (named is not None and len(named) < 2):  # one node needs no score
            return ()
        return (
            Spread(names.label_hostname, DEFAULT_HOST_SKEW, self._selector),
            Spread(names.label_zone, DEFAULT_ZONE_SKEW, self._selector),
        )

    def _spread_tally(self, constraint: Spread, nodes: int) -> Tally:
        own = nodes == SOFT and constraint.topology_key == self.cluster.names.label_hostname
        tally = self._new_tally(constraint.topology_key, Matcher(constraint.selector, ()), nodes, own)
        tally.any_node, tally.tolerated = constraint.any_node, constraint.tolerated
        return tally

    def _term_tally(self, key: str, terms: tuple[PodTerm, ...]) -> Tally:
        return self._new_tally(key, Matcher(None, terms), ALL, False)

    def _new_tally(self, key: str, matcher: Matcher, nodes: int, own: bool) -> Tally:
        if matcher not in self._matchers:
            self._matchers.append(matcher)
        tally = Tally(key, self._matchers.index(matcher), nodes, own)
        self.tallies.append(tally)
        return tally

    def _tolerated(self) -> list[bool]:
        """Of each node whether the pod tolerates all its taints, if that is asked."""
        wanted, nodes = self.template.tolerations, self.nodes
        return [not self._heeds_taints or all(tolerates(wanted, t) for t in node.taints) for node in nodes]

    def _vector(self, group: Group) -> tuple[int, ...]:
        """Which matchers count the pods of this group."""
        known = self._vectors.get(group)
        if known is None:
            if len(self._vectors) >= VECTORS_MAX:
                self._vectors.clear()
            known = self._vectors[group] = tuple(
                at
                for at, matcher in enumerate(self._matchers)
                if matcher.counts(group, self.template.namespace, self.cluster.namespaces)
            )
        return known

    def _tally(self, position: int) -> None:
        node, vectors = self.nodes[position], self._vectors
        sums = [0] * len(self._matchers)
        for group, count in node.groups.items():
            vector = vectors.get(group)
            for index in self._vector(group) if vector is None else vector:
                sums[index] += count
        for tally in self.tallies:
            had = tally.shares[position]
            has = sums[tally.matcher]
            if had >= 0 and had != has:
                tally.shares[position] = has
                tally.counts[node.labels[tally.key]] += has - had
                tally.total += has - had

    def _place(self, position: int, counted: bool) -> None:
        """Put a node into the group of its present signature.  counted: its counts may be others."""
        old = self.rows[position]
        new = self._row(position, old, counted)
        if old is new or old == new:
            return
        self.rows[position] = new
        if isinstance(old, Signature):
            group = self.groups[old]
            del group[bisect_left(group, position)]
            if not group:
                del self.groups[old]
        if isinstance(new, Signature):
            insort(self.groups.setdefault(new, []), position)
        if isinstance(old, Signature) != isinstance(new, Signature):
            if isinstance(new, Signature):
                insort(self.feasible, position)
            else:
                del self.feasible[bisect_left(self.feasible, position)]

    def _row(self, position: int, old: Signature | Status, counted: bool) -> Signature | Status:
        """What the filters that see one node say of it, or its signature; `old` itself where that still holds."""
        node = self.nodes[position]
        if self._only is not None and node.name not in self._only:
            return NOT_ASKED
        static = self._statics[position]
        if static is None or static.facts is not node.facts:
            static = self._static(position)
        if static.status is not None:
            return static.status
        room: Status | int = node.rooms.get(self.template.asks) or room_on(self.template, node)
        if not isinstance(room, int):
            return room
        base = room + static.images
        if type(old) is not Signature:
            local = self._local(position, node)
        else:
            local = self._local(position, node) if counted else old.local
            if (
                old.base == base
                and old.local == local
                and old.taints == static.taints
                and old.weight == static.weight
            ):
                return old
        return Signature(base, static.taints, static.weight, local, self._values[position])

    def _static(self, position: int) -> Static:
        node, known = self.nodes[position], self._statics[position]
        if known is None or known.facts is not node.facts:
            template, cluster = self.template, self.cluster
            known = self._statics[position] = Static(
                node.facts,
                static_status(template, node, cluster.names.taint_unschedulable),
                intolerable(template, node),
                preferred_weight(template, node),
                image_score(template, node, len(cluster.order)),
            )
        return known

    def _signature(self, position: int, node: NodeInfo, static: Static) -> Signature:
        base, local = known_score(self.template, node) + static.images, self._local(position, node)
        return Signature(base, static.taints, static.weight, local, self._values[position])

    def _local(self, position: int, node: NodeInfo) -> tuple[int, ...]:
        """Counts on the node's own host."""
        tallies, entries = self._local_tallies, self._local_entries
        if not tallies and not entries:
            return ()
        host = node.labels.get(self._host_key)
        if host is None:
            return (-1,) * len(tallies) + (0,) * len(entries)
        counts = [t.shares[position] if t.own else t.counts.get(host, 0) for t in tallies]
        if entries:
            counts += [e.values.get(host, 0) for e in entries]
        return tuple(counts)

    # --- filters across nodes -------------------------------------------------------------------------------

    def _at(self, tally: Tally, signature: Signature, shift: Shift) -> int | None:
        """The tally's count at the topology value of such nodes; None: they have no such label."""
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

    def _borne_at(self, entry: Entry, signature: Signature) -> int:
        slot = self._entry_slot[entry]
        if entry.term.topology_key == self._host_key:
            return signature.local[slot]
        value = signature.values[slot]
        return 0 if value is None else entry.values.get(value, 0)

    def _smallest(self, tally: Tally, constraint: Spread, node: NodeInfo | None, shift: Shift) -> int:
        """The least count over the domains (the global minimum of a spread constraint)."""
        if constraint.min_domains and len(tally.counts) < constraint.min_domains:
            return 0
        index = self.tallies.index(tally)
        if node is not None and shift.get(index):
            value = node.labels.get(tally.key)
            by = shift[index]
            return min((c + by if v == value else c for v, c in tally.counts.items()), default=NO_DOMAIN)
        least = self._least.get(index)
        if least is None:
            least = self._least[index] = min(tally.counts.values(), default=NO_DOMAIN)
        return least

    def across(
        self,
        signature: Signature,
        node: NodeInfo | None = None,
        shift: Shift = NO_SHIFT,
        anti: Mapping[str, int] | None = None,
    ) -> Status | None:
        """PodTopologySpread and InterPodAffinity on nodes of this signature.

        shift, anti: what would be different on `node` if some pods came or went, by tally and topology key.
        """
        for constraint, tally, itself in self.hard:
            count = self._at(tally, signature, shift)
            if count is None:
                return NO_KEY
            if count + itself - self._smallest(tally, constraint, node, shift) > constraint.max_skew:
                return SKEW
        if self.affinity and not self._near(signature, shift):
            return AFFINITY
        for tally in self.anti:
            if (self._at(tally, signature, shift) or 0) > 0:
                return ANTI_AFFINITY
        if anti and node is not None:
            sums = {key: by for key, by in anti.items() if key in node.labels}
            for entry in self.borne_anti:
                key = entry.term.topology_key
                sums[key] = sums.get(key, 0) + self._borne_at(entry, signature)
            return EXISTING if any(count > 0 for count in sums.values()) else None
        for entry in self.borne_anti:
            if self._borne_at(entry, signature) > 0:
                return EXISTING
        return None

    def _near(self, signature: Signature, shift: Shift) -> bool:
        exist = True
        for tally in self.affinity:
            count = self._at(tally, signature, shift)
            if count is None:
                return False
            exist = exist and count > 0
        if exist:
            return True
        # The first of a group of pods that want each other may go anywhere.
        total = sum(t.total + shift.get(self.tallies.index(t), 0) for t in self.affinity)
        template, of_namespaces = self.template, self.cluster.namespaces
        return not total and all(
            t.matches(template.namespace, template.labels, of_namespaces) for t in template.affinity
        )

    def try_node(self, node: NodeInfo, changes: Iterable[tuple[PodInfo, int]]) -> Status | None:
        """All filters on a copy of a node to which the pods have been added (1) or removed (-1)."""
        position = self.position.get(node.name)
        if position is None:  # a node that the pod does not name
            return static_status(self.template, node, self.cluster.names.taint_unschedulable)
        static = self._static(position)
        status = static.status or pods_status(self.template, node)
        if status is not None:
            return status
        shift: dict[int, int] = {}
        anti: dict[str, int] = {}
        template = self.template
        for pod, sign in changes:
            # Quirk: a pod that is being deleted does not count where it is, and is missed when it is taken away.
            vector = self._vector(pod.template.groups[False])
            for index, tally in enumerate(self.tallies):
                if tally.shares[position] >= 0 and tally.matcher in vector:
                    shift[index] = shift.get(index, 0) + sign
            for term in pod.template.anti_affinity:
                if term.matches(template.namespace, template.labels, self.cluster.namespaces):
                    anti[term.topology_key] = anti.get(term.topology_key, 0) + sign
        if not (self.wide or anti):
            return None
        return self.across(self._signature(position, node, static), node, shift, anti)

    # --- choosing -------------------------------------------------------------------------------------------

    def choose(
        self, start: int, wanted: int, draw: Callable[[int], int], excluded: Mapping[int, Status]
    ) -> Found:
        """The best of the first `wanted` feasible nodes from `start` on; equals are drawn among.

        excluded: positions that fail for a reason that is not the class's own (room kept for others)
        """
        lists, total = self._passing(excluded)
        count = len(self.nodes)
        if not total:
            return Found("", 0, count)
        if total <= wanted:
            members = [Member(signature, at, [(0, len(at))], len(at)) for signature, at in lists]
            return Found(self._best(members, total, draw), total, count)
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
        return Found(self._best(members, wanted, draw), wanted, (last - start) % count + 1)

    def _passing(self, excluded: Mapping[int, Status]) -> tuple[list[tuple[Signature, list[int]]], int]:
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

    def _best(self, members: list[Member], total: int, draw: Callable[[int], int]) -> str:
        scores = self.totals(members)
        best = max(scores)
        tied = [member for member, score in zip(members, scores, strict=True) if score == best]
        among = sum([member.size for member in tied])
        left = draw(among) if among > 1 else 0
        for _, at, cuts, _ in tied:
            for low, high in cuts:
                if left < high - low:
                    return self.nodes[at[low + left]].name
                left -= high - low
        raise AssertionError("a draw beyond the nodes it was among")

    def totals(self, members: list[Member]) -> list[int]:
        """For each signature that passed, the weighted sum of all scores that are not the same for every node."""
        taints = max([m.signature.taints for m in members])
        weights = max([m.signature.weight for m in members])
        spread = self._spread_scores(members) if self.soft else None
        pods = self._pod_scores(members) if self.preferred or self.borne_score else None
        sums = [m.signature.base for m in members]
        if taints:
            scores = [100 - 100 * m.signature.taints // taints for m in members]
            sums = [total + TAINT_WEIGHT * score for total, score in zip(sums, scores, strict=True)]
        if weights:
            scores = [100 * m.signature.weight // weights for m in members]
            sums = [total + AFFINITY_WEIGHT * score for total, score in zip(sums, scores, strict=True)]
        if spread is not None:
            sums = [total + SPREAD_WEIGHT * score for total, score in zip(sums, spread, strict=True)]
        if pods is not None:
            sums = [total + POD_AFFINITY_WEIGHT * score for total, score in zip(sums, pods, strict=True)]
        return sums

    def _spread_scores(self, members: list[Member]) -> list[int]:
        tallies = self.soft_tallies
        counted, kept = None, members
        if self.template.own_spread:  # nodes that lack a key count for nothing
            counted = [
                all(self._at(t, member.signature, NO_SHIFT) is not None for t in tallies)
                for member in members
            ]
            kept = [member for member, counts in zip(members, counted, strict=True) if counts]
        sums = [0.0] * len(members)
        for constraint, tally in zip(self.soft, tallies, strict=True):
            slot, extra = tally.slot, constraint.max_skew - 1
            if tally.host:
                weight = math.log(sum([member.size for member in kept]) + 2)
                for index, member in enumerate(members):
                    count = member.signature.local[slot]
                    if count >= 0:
                        sums[index] += count * weight + extra
            else:
                weight = math.log(len({member.signature.values[slot] for member in kept}) + 2)
                for index, member in enumerate(members):
                    value = member.signature.values[slot]
                    if value is not None:
                        sums[index] += tally.counts.get(value, 0) * weight + extra
        return normalized_spread(sums, counted)

    def _pod_scores(self, members: list[Member]) -> list[int]:
        raw = []
        for signature, _, _, _ in members:
            score = sum(w * (self._at(t, signature, NO_SHIFT) or 0) for w, t in self.preferred)
            score += sum(self._borne_at(entry, signature) for entry in self.borne_score)
            raw.append(score)
        least, width = min(raw), max(raw) - min(raw)
        return [int(100 * ((score - least) / width)) if width else 0 for score in raw]

    def failures(self, excluded: Mapping[int, Status]) -> dict[str, Status]:
        """Why each node that was tried does not do."""
        result: dict[str, Status] = {}
        of_signature = {signature: self.across(signature) for signature in self.groups}
        for position, row in enumerate(self.rows):
            if row is NOT_ASKED:
                continue
            status = excluded.get(position) or (of_signature[row] if isinstance(row, Signature) else row)
            if status is not None:
                result[self.nodes[position].name] = status
        return result
