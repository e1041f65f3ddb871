"""Keeps, for one class of equal pods, the results for each node of the plugins that read one node.

Nodes on which every plugin has the same input form one *signature*. A class keeps the nodes of each
signature in list order, and evaluates again only the nodes in the cluster's log of changes. Counts
over several nodes are kept in tallies, which the same log brings up to date.

Holds: `rows[i]` is the status that the filters of one node give to node i, or the signature of node
i, and its position is then in the group of its signature; tallies equal a count over all pods.

Mirrors  kubernetes v1.25 pkg/scheduler/schedule_one.go: findNodesThatFitPod; framework/plugins/
         {podtopologyspread,interpodaffinity}: PreFilter and PreScore.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

from actors.scheduler.cluster import ANTI, Entry, NodeInfo
from actors.scheduler.plugins.added import AddedPlugin
from actors.scheduler.plugins.base import DefaultPlugin, Status
from actors.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from actors.scheduler.plugins.pod_topology_spread import (
    PodTopologySpread,
    default_constraints,
    listed_constraints,
)
from actors.scheduler.plugins.registry import Profile
from actors.scheduler.pods import Group, PodInfo, PodTerm, Spread
from actors.scheduler.search.room import room_key, room_on, room_score
from actors.scheduler.search.signature import (
    ALL,
    HARD,
    NOT_ASKED,
    SOFT,
    Matcher,
    Signature,
    Static,
    Tally,
    count_domains,
)
from sim.api.scheduling import holds, tolerates

# Groups of pods with remembered matches; beyond it the memory starts again empty.
VECTORS_MAX = 4_096


class ClassRows:
    """The rows of one class of equal pods.

    pod: one pod of the class, which added plugins see
    version: rises whenever a result may have changed
    wide: True if a filter reads more than the nodes' own statuses, so that `across` must be called
    scored: the plugins of the raw scores in a signature

    Size: half of the attributes are columns with a row for each node, and the rest are what the
    last rebuild read, which is compared with the cluster before each cycle.  A search over
    thousands of nodes reads all columns at one position in its inner loop.
    """

    def __init__(self, profile: Profile, pod: PodInfo) -> None:
        self.profile = profile
        self.cluster = profile.cluster
        self._room = room_key(profile, pod.template)
        self.pod = pod
        self.template = pod.template
        self.scored: tuple[DefaultPlugin | AddedPlugin, ...] = (*profile.normalized, *profile.added)
        self._entries: list[Entry] = []
        self._selector: tuple[Any, ...] = ()
        self._cursor = self._layout = self._entries_version = self._owners_version = 0
        self._namespaces_version = 0
        self.version = 0
        self.nodes: list[NodeInfo] = []
        self.position: dict[str, int] = {}
        self._rebuild()

    # --- following the cluster --------------------------------------------------------------------

    def sync(self, by_changes: bool = True) -> None:
        """Apply the changes in the cluster since the last call.

        by_changes: False to evaluate all nodes after any change
        """
        cluster = self.cluster
        if (
            self._layout != cluster.versions.layout
            or self._cursor < cluster.changes.base
            or self._is_outdated()
            or (self._reads_taints and self._tolerated() != self._tolerated_before)
            or (self._cursor < cluster.changes.end and not by_changes)
        ):
            self._rebuild()
        elif self._cursor < cluster.changes.end:
            log = cluster.changes.latest[self._cursor - cluster.changes.base :]
            self._cursor = cluster.changes.end
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
                    self._place(position, name in counted or not self._own_counts_only)

    def _is_outdated(self) -> bool:
        """Return True if the terms or the default selector that apply to this class have changed."""
        cluster = self.cluster
        if self._entries_version != cluster.versions.entries:
            self._entries_version = cluster.versions.entries
            if cluster.concerning(self.template) != self._entries:
                return True
        if self._namespaces_version != cluster.versions.namespaces:
            self._namespaces_version = cluster.versions.namespaces
            terms = [term for matcher in self._matchers for term in matcher.terms]
            terms += [entry.term for entry in cluster.entries.values()]
            if any(term.namespace_selector is not None for term in terms):
                return True
        if self._owners_version != cluster.versions.owners:
            self._owners_version = cluster.versions.owners
            return self._default_selector() != self._selector
        return False

    def _default_selector(self) -> tuple[Any, ...]:
        template = self.template
        if template.own_spread:
            return ()
        return self.cluster.default_selector(template.namespace, template.labels, template.owner)

    def _rebuild(self) -> None:
        cluster, template = self.cluster, self.template
        self._layout, self._cursor = cluster.versions.layout, cluster.changes.end
        self._namespaces_version = cluster.versions.namespaces
        self.version += 1
        self._entries_version, self._owners_version = cluster.versions.entries, cluster.versions.owners
        self._entries, self._selector = cluster.concerning(template), self._default_selector()
        self._vectors: dict[Group, tuple[int, ...]] = {}
        self._least: dict[int, int] = {}
        self._declare()
        everyone = cluster.list_nodes()
        named = self.profile.named(template)
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
            self._tolerated_before = self._tolerated()
            keys = [c.topology_key for c, _, _ in self.hard], [c.topology_key for c in self.soft]
            if not self.needs_keys:
                keys[1].clear()
            count_domains(self.tallies, self.nodes, template, self._tolerated_before, keys)
            for position in range(count):
                self._tally(position)
        for position in range(count):
            self._place(position, True)

    # --- tallies ----------------------------------------------------------------------------------

    def _declare(self) -> None:
        """Decide which tallies the class needs, and where in a signature each finds its node's
        value.
        """
        template, names, profile = self.template, self.cluster.names, self.profile
        spreads, near = (profile.has_filter(kind.name) for kind in (PodTopologySpread, InterPodAffinity))
        scores_near = profile.has_score(InterPodAffinity.name)
        self._matchers: list[Matcher] = []
        self.tallies: list[Tally] = []
        self.soft = self._soft()
        self.hard = [
            (c, self._spread_tally(c, HARD), holds(c.selector, template.labels))
            for c in (self._hard() if spreads else ())
        ]
        self.soft_tallies = [self._spread_tally(c, SOFT) for c in self.soft]
        terms = template.pod_terms.required if near else ()
        self.affinity = [self._term_tally(t.topology_key, terms) for t in terms]
        self.anti = [self._term_tally(t.topology_key, (t,)) for t in template.pod_terms.forbidden if near]
        self.preferred = [
            (w, self._term_tally(t.topology_key, (t,)))
            for w, t in template.pod_terms.preferred
            if scores_near
        ]
        self.existing_anti = [e for e in self._entries if e.kind == ANTI and near]
        factors = (0, 1, profile.spec.required_weight)  # by the kind of the entry
        scored = [(factors[e.kind], e) for e in self._entries if scores_near]
        self.existing_score = [(factor, entry) for factor, entry in scored if factor]
        added = self.profile.added
        self.wide = bool(self.hard or self.affinity or self.anti or self.existing_anti or added)
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
        self._reads_taints = any(tally.tolerated for tally in self.tallies)
        # True if the counts in a signature are those of the node's own pods.
        self._own_counts_only = not self._local_entries and all(tally.own for tally in self._local_tallies)

    def _soft(self) -> tuple[Spread, ...]:
        template, profile = self.template, self.profile
        if not profile.has_score(PodTopologySpread.name):
            return ()
        if template.own_spread:
            return template.soft
        named = self.profile.named(template)
        if named is not None and len(named) < 2:  # a single node needs no score
            return ()
        if profile.spec.spread is not None:
            return listed_constraints(self._selector, profile.spec.spread, hard=False)
        return default_constraints(self._selector, self.cluster.names)

    def _hard(self) -> tuple[Spread, ...]:
        template, listed = self.template, self.profile.spec.spread
        if template.own_spread or listed is None:
            return template.hard
        return listed_constraints(self._selector, listed, hard=True)

    @property
    def needs_keys(self) -> bool:
        """True if a node without the keys of all soft constraints counts for none of them."""
        return self.template.own_spread or self.profile.spec.spread is not None

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
        """For each node, return True if the pod tolerates all its taints or no tally depends on it."""
        wanted, nodes = self.template.tolerations, self.nodes
        return [not self._reads_taints or all(tolerates(wanted, t) for t in node.taints) for node in nodes]

    def _vector(self, group: Group) -> tuple[int, ...]:
        """Return the indexes of the matchers that count the pods of this group."""
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
        """Count the pods of one node again."""
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

    # --- rows -------------------------------------------------------------------------------------

    def _place(self, position: int, counted: bool) -> None:
        """Put a node into the group of its present signature.

        counted: True if the counts on its host may have changed
        """
        old = self.rows[position]
        new = self._row(position, old, counted)
        if old is new or old == new:
            return
        self.rows[position] = new
        was_feasible, is_feasible = type(old) is Signature, type(new) is Signature
        if was_feasible:
            group = self.groups[old]  # type: ignore[index]
            del group[bisect_left(group, position)]
            if not group:
                del self.groups[old]  # type: ignore[arg-type]
        if is_feasible:
            insort(self.groups.setdefault(new, []), position)  # type: ignore[arg-type]
        if was_feasible != is_feasible:
            if is_feasible:
                insort(self.feasible, position)
            else:
                del self.feasible[bisect_left(self.feasible, position)]

    def _row(self, position: int, old: Signature | Status, counted: bool) -> Signature | Status:
        """Return the node's status or signature; `old` itself where the old signature still holds."""
        node = self.nodes[position]
        if self._only is not None and node.name not in self._only:
            return NOT_ASKED
        static = self._statics[position]
        if static is None or static.facts is not node.facts:
            static = self._static(position)
        if static.status is not None:
            return static.status
        room: Status | int = node.rooms.get(self._room) or room_on(self.profile, self.template, node)
        if type(room) is not int:
            return room  # type: ignore[return-value]
        base, raw = room + static.base, static.raw
        if self.profile.added:
            return self._added(
                Signature(base, raw, self._local(position, node), self._values[position]), node
            )
        if type(old) is not Signature:
            local = self._local(position, node)
        else:
            local = self._local(position, node) if counted else old.local
            if old.base == base and old.local == local and old.raw == raw:
                return old
        return Signature(base, raw, local, self._values[position])

    def _static(self, position: int) -> Static:
        node, known = self.nodes[position], self._statics[position]
        if known is None or known.facts is not node.facts:
            template, profile = self.template, self.profile
            known = self._statics[position] = Static(
                node.facts,
                profile.filter_node(template, node),
                sum([plugin.weight * plugin.score(template, node) for plugin in profile.absolute]),
                tuple([plugin.score(template, node) for plugin in profile.normalized]),
            )
        return known

    def _signature(self, position: int, node: NodeInfo, static: Static) -> Signature:
        """Return the signature of a copy of the node at this position."""
        base, local = room_score(self.profile, self.template, node) + static.base, self._local(position, node)
        return self._added(Signature(base, static.raw, local, self._values[position]), node)

    def _added(self, signature: Signature, node: NodeInfo) -> Signature:
        """Add the results of the added plugins: the first refusal, or the scores of all."""
        pod, added = self.pod, self.profile.added
        for plugin in added:
            refusal = plugin.filter(pod, node)
            if refusal is not None:
                return signature._replace(refusal=refusal)
        scores = [plugin.score(pod, node) for plugin in added]
        return signature._replace(raw=(*signature.raw, *scores)) if scores else signature

    def _local(self, position: int, node: NodeInfo) -> tuple[int, ...]:
        """Return the counts on the node's own host."""
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
