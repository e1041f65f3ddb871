"""The scheduler's filters and scores plugin by plugin, node by node, from the objects: slow and
plain.
"""

import math

from actors.scheduler.match import from_label_selector
from sim.api.scheduling import holds, node_term
from sim.ident import NAMES
from sim.units import quantity_milli, quantity_value

NAMES_ = NAMES["orch"]


def labels(obj):
    return obj["metadata"].get("labels") or {}


def request(pod, name, default=None):
    reader = quantity_milli if name == "cpu" else quantity_value
    total = 0
    for c in pod["spec"]["containers"]:
        asked = (c.get("resources") or {}).get("requests") or {}
        total += reader(asked[name]) if name in asked else (default or 0)
    return total


def tolerates(pod, taint, effects=None):
    for t in pod["spec"].get("tolerations") or ():
        if effects is not None and t.get("effect", "") not in effects:
            continue
        if t.get("effect") and t["effect"] != taint["effect"]:
            continue
        if t.get("key") and t["key"] != taint["key"]:
            continue
        if t.get("operator") == "Exists" or t.get("value", "") == taint.get("value", ""):
            return True
    return False


def affinity(pod, kind):
    return (pod["spec"].get("affinity") or {}).get(kind) or {}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def matches_node(pod, node):
    if any(labels(node).get(k) != v for k, v in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    required = affinity(pod, "nodeAffinity").get(REQUIRED)
    if required is None:
        return True
    terms = map(node_term, required["nodeSelectorTerms"])
    return any(t.holds(node["metadata"]["name"], labels(node)) for t in terms if not t.empty)


def term_matches(term, owner, pod):
    if pod["metadata"]["namespace"] not in (term.get("namespaces") or [owner["metadata"]["namespace"]]):
        return False
    return holds(from_label_selector(term.get("labelSelector")), labels(pod))


class Naive:
    """nodes: in list order; pods: with spec.nodeName; spread: the default constraints' selector or
    None.
    """

    def __init__(self, nodes, pods, default_selector):
        self.nodes = nodes
        self.by_name = {n["metadata"]["name"]: n for n in nodes}
        self.pods = [p for p in pods if p["spec"]["nodeName"] in self.by_name]
        self.on = {n["metadata"]["name"]: [] for n in nodes}
        for p in self.pods:
            self.on[p["spec"]["nodeName"]].append(p)
        self.default_selector = default_selector

    def node_of(self, pod):
        return self.by_name[pod["spec"]["nodeName"]]

    def local(self, pod, node):
        spec = node.get("spec") or {}
        if spec.get("unschedulable"):
            taint = {"key": NAMES_.taint_unschedulable, "effect": "NoSchedule"}
            if not tolerates(pod, taint):
                return "NodeUnschedulable"
        for taint in spec.get("taints") or ():
            if taint["effect"] != "PreferNoSchedule" and not tolerates(pod, taint):
                return "TaintToleration"
        if not matches_node(pod, node):
            return "NodeAffinity"
        here = self.on[node["metadata"]["name"]]
        free = node["status"]["allocatable"]
        if len(here) + 1 > int(free["pods"]):
            return "NodeResourcesFit"
        asks = request(pod, "cpu") or request(pod, "memory")
        if asks and (
            request(pod, "cpu") > quantity_milli(free["cpu"]) - sum(request(p, "cpu") for p in here)
            or request(pod, "memory")
            > quantity_value(free["memory"]) - sum(request(p, "memory") for p in here)
        ):
            return "NodeResourcesFit"
        return None

    def spread_filter(self, pod, node):
        hard = [
            c
            for c in pod["spec"].get("topologySpreadConstraints") or ()
            if c["whenUnsatisfiable"] == "DoNotSchedule"
        ]
        for c in hard:
            key = c["topologyKey"]
            if key not in labels(node):
                return "PodTopologySpread"
            counts = {}
            for n in self.nodes:
                if self.includes(pod, c, n) and all(h["topologyKey"] in labels(n) for h in hard):
                    value = labels(n)[key]
                    counts[value] = counts.get(value, 0) + self.count(pod, c, n)
            least = min(counts.values(), default=1 << 31) if len(counts) >= c.get("minDomains", 0) else 0
            itself = holds(self.selector(pod, c), labels(pod))
            if counts.get(labels(node)[key], 0) + itself - least > c["maxSkew"]:
                return "PodTopologySpread"
        return None

    def includes(self, pod, constraint, node):
        """Whether a node is a domain of a constraint."""
        taints = (node.get("spec") or {}).get("taints") or ()
        return (constraint.get("nodeAffinityPolicy") == "Ignore" or matches_node(pod, node)) and (
            constraint.get("nodeTaintsPolicy") != "Honor" or all(tolerates(pod, taint) for taint in taints)
        )

    def selector(self, pod, constraint):
        own = [key for key in constraint.get("matchLabelKeys") or () if key in labels(pod)]
        given = constraint["labelSelector"]
        return from_label_selector(
            {"matchLabels": {**given["matchLabels"], **{key: labels(pod)[key] for key in own}}}
        )

    def count(self, pod, constraint, node):
        selector = self.selector(pod, constraint)
        return sum(
            p["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and "deletionTimestamp" not in p["metadata"]
            and holds(selector, labels(p))
            for p in self.on[node["metadata"]["name"]]
        )

    def same(self, key, a, b):
        return key in labels(a) and labels(a)[key] == labels(b).get(key)

    def inter_pod_filter(self, pod, node):
        near = affinity(pod, "podAffinity").get(REQUIRED) or []
        far = affinity(pod, "podAntiAffinity").get(REQUIRED) or []
        if near:
            matching = [p for p in self.pods if all(term_matches(t, pod, p) for t in near)]
            if any(t["topologyKey"] not in labels(node) for t in near):
                return "InterPodAffinity"
            satisfied = all(
                any(self.same(t["topologyKey"], node, self.node_of(p)) for p in matching) for t in near
            )
            nowhere = not any(t["topologyKey"] in labels(self.node_of(p)) for p in matching for t in near)
            if not satisfied and not (nowhere and all(term_matches(t, pod, pod) for t in near)):
                return "InterPodAffinity"
        for t in far:
            if any(
                term_matches(t, pod, p) and self.same(t["topologyKey"], node, self.node_of(p))
                for p in self.pods
            ):
                return "InterPodAffinity"
        for p in self.pods:
            for t in affinity(p, "podAntiAffinity").get(REQUIRED) or []:
                if term_matches(t, p, pod) and self.same(t["topologyKey"], node, self.node_of(p)):
                    return "InterPodAffinity"
        return None

    def failing_plugin(self, pod, node):
        return self.local(pod, node) or self.spread_filter(pod, node) or self.inter_pod_filter(pod, node)

    def window(self, pod, start, wanted):
        """The feasible nodes found and how many were looked at."""
        found, looked = [], 0
        for at in range(len(self.nodes)):
            node = self.nodes[(start + at) % len(self.nodes)]
            looked += 1
            if self.failing_plugin(pod, node) is None:
                found.append(node)
                if len(found) == wanted:
                    # Further feasible ones only matter in that there are some: else all nodes are
                    # looked at.
                    rest = [self.nodes[(start + i) % len(self.nodes)] for i in range(at + 1, len(self.nodes))]
                    if all(self.failing_plugin(pod, n) for n in rest):
                        return found, len(self.nodes)
                    return found, looked
        return found, looked

    def best(self, pod, found):
        scores = self.scores(pod, found)
        top = max(scores)
        return [n["metadata"]["name"] for n, s in zip(found, scores, strict=True) if s == top]

    def scores(self, pod, found):
        totals = [self.resources(pod, n) for n in found]
        for weight, scores in (
            (3, self.taints(pod, found)),
            (2, self.preferred(pod, found)),
            (2, self.spread(pod, found)),
            (2, self.inter_pod(pod, found)),
        ):
            totals = [t + weight * s for t, s in zip(totals, scores, strict=True)]
        return totals

    def resources(self, pod, node):
        here, free = self.on[node["metadata"]["name"]], node["status"]["allocatable"]
        least, fractions = [], []
        for name, default, capacity in (
            ("cpu", 100, quantity_milli(free["cpu"])),
            ("memory", 200 << 20, quantity_value(free["memory"])),
        ):
            used = sum(request(p, name, default) for p in here) + request(pod, name, default)
            least.append(max(capacity - used, 0) * 100 // capacity)
            asked = sum(request(p, name) for p in here) + request(pod, name)
            fractions.append(min(asked / capacity, 1.0))
        return sum(least) // 2 + int((1 - abs((fractions[0] - fractions[1]) / 2)) * 100)

    def taints(self, pod, found):
        raw = [
            sum(
                t["effect"] == "PreferNoSchedule" and not tolerates(pod, t, ("", "PreferNoSchedule"))
                for t in (n.get("spec") or {}).get("taints") or ()
            )
            for n in found
        ]
        return [100 - 100 * r // max(raw) if max(raw) else 100 for r in raw]

    def preferred(self, pod, found):
        terms = affinity(pod, "nodeAffinity").get(PREFERRED) or []
        raw = [
            sum(
                t["weight"]
                for t in terms
                if node_term(t["preference"]).holds(n["metadata"]["name"], labels(n))
            )
            for n in found
        ]
        return [100 * r // max(raw) if max(raw) else r for r in raw]

    def spread(self, pod, found):
        own = pod["spec"].get("topologySpreadConstraints") or []
        constraints = [c for c in own if c["whenUnsatisfiable"] == "ScheduleAnyway"]
        if not own and self.default_selector:
            selector = {"matchLabels": self.default_selector}
            constraints = [
                {"topologyKey": NAMES_.label_hostname, "maxSkew": 3, "labelSelector": selector},
                {"topologyKey": NAMES_.label_zone, "maxSkew": 5, "labelSelector": selector},
            ]
        if not constraints:
            return [100] * len(found)
        keys = [c["topologyKey"] for c in constraints]
        lacking = [bool(own) and any(k not in labels(n) for k in keys) for n in found]
        kept = [n for n, lacks in zip(found, lacking, strict=True) if not lacks]
        raw = []
        for node in found:
            score = 0.0
            for c in constraints:
                key = c["topologyKey"]
                if key not in labels(node):
                    continue
                if key == NAMES_.label_hostname:
                    count, domains = self.count(pod, c, node), len(kept)
                else:
                    domains = len({labels(n).get(key) for n in kept})
                    count = sum(
                        self.count(pod, c, n)
                        for n in self.nodes
                        if labels(n).get(key) == labels(node)[key]
                        and self.includes(pod, c, n)
                        and (not own or all(k in labels(n) for k in keys))
                    )
                score += count * math.log(domains + 2) + (c["maxSkew"] - 1)
            raw.append(math.floor(score + 0.5))
        real = [r for r, lacks in zip(raw, lacking, strict=True) if not lacks]
        if not real:
            return [0] * len(found)
        least, most = min(real), max(real)
        return [
            0 if lacks else 100 * (most + least - r) // most if most else 100
            for r, lacks in zip(raw, lacking, strict=True)
        ]

    def inter_pod(self, pod, found):
        values = {}

        def add(term, node, weight):
            key = term["topologyKey"]
            if key in labels(node):
                pair = (key, labels(node)[key])
                values[pair] = values.get(pair, 0) + weight

        for p in self.pods:
            node = self.node_of(p)
            for sign, kind in ((1, "podAffinity"), (-1, "podAntiAffinity")):
                for item in affinity(pod, kind).get(PREFERRED) or ():
                    if term_matches(item["podAffinityTerm"], pod, p):
                        add(item["podAffinityTerm"], node, sign * item["weight"])
                for item in affinity(p, kind).get(PREFERRED) or ():
                    if term_matches(item["podAffinityTerm"], p, pod):
                        add(item["podAffinityTerm"], node, sign * item["weight"])
            for term in affinity(p, "podAffinity").get(REQUIRED) or ():
                if term_matches(term, p, pod):
                    add(term, node, 1)
        raw = [sum(values.get(pair, 0) for pair in labels(n).items()) for n in found]
        width = max(raw) - min(raw)
        return [int(100 * ((r - min(raw)) / width)) if width else 0 for r in raw]
