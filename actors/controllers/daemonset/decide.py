"""Decisions of the DaemonSet controller: nodes that need a pod, pods to delete, the status.  Pure.

Turns a set, the nodes and the set's pods by node into nodes that need a pod and pods to delete,
both to maintain the set (`decide_nodes`) and to update it (`decide_roll`).

Holds: without surge, one live pod is kept on a node; nodes and pods are processed in the order of
       their names.

Mirrors  kubernetes v1.25 pkg/controller/daemon/{daemon_controller.go,update.go},
         pkg/controller/daemon/util/daemonset_util.go.
Differs  upstream processes nodes in map order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from actors.controllers.shared.pod_owners import int_or_percent, is_available, pod_from_template
from actors.controllers.shared.pod_template_hash import pod_template_hash, revision_data
from actors.controllers.shared.revisions import make_revision
from sim.api.objects import is_deleting, is_ready, labels_of, name_of, phase_of
from sim.api.scheduling import (
    NO_EXECUTE,
    NO_SCHEDULE,
    required_nodes,
    taint_of,
    tolerates,
    toleration,
    toleration_of,
    with_toleration,
)
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.units import SECOND, parse_whole

if TYPE_CHECKING:
    from sim.ident import Names

BACKOFF_US, BACKOFF_MAX_US = 1 * SECOND, 900 * SECOND  # daemonset.go: NewBackOff(1s, 15m)

PodsByNode = Mapping[str, Sequence[Obj]]


# --- nodes ----------------------------------------------------------------------------------------


def template_tolerations(template: Obj, names: Names) -> list[Obj]:
    """The template's tolerations and those that every daemon pod gets."""
    spec = template["spec"]
    added = [
        (names.taint_not_ready, "NoExecute"),
        (names.taint_unreachable, "NoExecute"),
        (names.taint_disk_pressure, "NoSchedule"),
        (names.taint_memory_pressure, "NoSchedule"),
        (names.taint_pid_pressure, "NoSchedule"),
        (names.taint_unschedulable, "NoSchedule"),
    ]
    if spec.get("hostNetwork"):
        added.append((names.taint_network_unavailable, "NoSchedule"))
    have = list(spec.get("tolerations") or ())
    for key, effect in added:
        have = with_toleration(have, toleration(key, effect))
    return have


class NodeFit:
    """Whether the pods of one template run on a node, memoized until its labels or spec change.

    Each answer is (True if a pod should be created on the node, True if an existing pod may stay).
    """

    def __init__(self, template: Obj, names: Names) -> None:
        self.template = template
        self._node_name = template["spec"].get("nodeName")
        self._tolerations = tuple(map(toleration_of, template_tolerations(template, names)))
        self._required = required_nodes(template["spec"])
        self._known: dict[str, tuple[object, object, tuple[bool, bool]]] = {}

    def __call__(self, node: Obj) -> tuple[bool, bool]:
        meta, spec = node["metadata"], node.get("spec")
        labels = meta.get("labels")
        known = self._known.get(meta["name"])
        if known is not None and known[0] is labels and known[1] is spec:
            return known[2]
        fit = self.fresh(node)
        self._known[meta["name"]] = (labels, spec, fit)
        return fit

    def fresh(self, node: Obj) -> tuple[bool, bool]:
        """The answer without the memo, for an old revision of a node."""
        name = name_of(node)
        if self._node_name and self._node_name != name:
            return False, False
        if not self._required.match(name, labels_of(node)):
            return False, False
        taints = map(taint_of, node.get("spec", {}).get("taints") or ())
        effects = [
            taint[2]
            for taint in taints
            if taint[2] in (NO_SCHEDULE, NO_EXECUTE) and not tolerates(self._tolerations, taint)
        ]
        return not effects, NO_EXECUTE not in effects


_REQUIRED = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


# --- pods -----------------------------------------------------------------------------------------


def target_node(pod: Obj) -> str:
    """The node that a daemon pod is bound to or has affinity for; "" if neither."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for requirement in term.get("matchFields") or ():
            values: Sequence[str] = requirement.get("values") or ()
            if requirement["key"] == "metadata.name" and requirement["operator"] == "In" and len(values) == 1:
                return str(values[0])
    return ""


def pods_by_node(pods: Sequence[Obj]) -> dict[str, list[Obj]]:
    """Pods by their target node; pods without one are left out."""
    by_node: dict[str, list[Obj]] = {}
    for pod in pods:
        node = target_node(pod)
        if node:
            by_node.setdefault(node, []).append(pod)
    return by_node


def oldest_first(pods: Sequence[Obj]) -> list[Obj]:
    """Scheduled pods before others, each by creation time."""
    return sorted(
        pods,
        key=lambda pod: (
            not pod["spec"].get("nodeName"),
            pod["metadata"].get("creationTimestamp") or "",
            pod["metadata"]["name"],
        ),
    )


class FailedPodBackoff:
    """The back-off between deletes of failed pods, per set, generation and node.

    Bound: a new entry drops the oldest one if that is older than twice the longest delay.
    """

    def __init__(self) -> None:
        # (set uid, generation, node) -> (delay, time of the last delete), oldest first
        self._entries: dict[tuple[str, int, str], tuple[int, int]] = {}

    def wait_us(self, key: tuple[str, int, str], now_us: int) -> int:
        """The delay before the pod may be deleted; 0: delete it now, which doubles the delay."""
        wait_us, since_us = self._entries.get(key, (0, 0))
        if wait_us and now_us - since_us < wait_us:
            return wait_us
        kept = wait_us and now_us - since_us <= 2 * BACKOFF_MAX_US
        self._entries.pop(key, None)
        self._entries[key] = (min(2 * wait_us, BACKOFF_MAX_US) if kept else BACKOFF_US, now_us)
        oldest = next(iter(self._entries))
        if now_us - self._entries[oldest][1] > 2 * BACKOFF_MAX_US:
            del self._entries[oldest]
        return 0


@dataclass(frozen=True, slots=True)
class View:
    """A set during one sync.

    hash: revision hash of the present template
    generation: template generation from the set's annotation, None if unknown
    fit: `NodeFit` of the template
    """

    owner: Obj
    hash: str
    generation: str | None
    names: Names
    fit: Callable[[Obj], tuple[bool, bool]]
    wall_us: int

    def is_updated(self, pod: Obj) -> bool:
        """True if the pod has the present template."""
        labels = pod["metadata"].get("labels") or {}
        if (
            self.generation is not None
            and labels.get(self.names.label_pod_template_generation) == self.generation
        ):
            return True
        return bool(self.hash) and labels.get(self.names.label_controller_revision_hash) == self.hash

    def is_available(self, pod: Obj) -> bool:
        """True if the pod is ready for the set's minReadySeconds."""
        return is_available(pod, self.owner["spec"].get("minReadySeconds") or 0, self.wall_us)


@dataclass(slots=True)
class Changes:
    """Changes to make.

    create: names of nodes that need a pod
    failed: (failed pod, node) found in the pass; a pod is deleted when its back-off is over
    """

    create: list[str] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)
    failed: list[tuple[Obj, str]] = field(default_factory=list)


def rolling_limits(owner: Obj, desired: int) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) in nodes, rounded up, not both 0; (0, 0) for OnDelete."""
    strategy = owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    surge = int_or_percent(rolling.get("maxSurge", 0), desired, True)
    unavailable = int_or_percent(rolling.get("maxUnavailable", 1), desired, True)
    return (0, 1) if desired and not surge and not unavailable else (surge, unavailable)


def decide_nodes(view: View, nodes: Sequence[Obj], by_node: PodsByNode) -> Changes:
    """The changes that give every matching node one pod and remove the other pods.

    Failed pods are only listed: the caller applies the back-off.
    """
    changes = Changes()
    surges = rolling_limits(view.owner, len(nodes))[0] > 0
    names = set()  # membership only
    for node in nodes:
        name = node["metadata"]["name"]
        names.add(name)
        run, stay = view.fit(node)
        pods = by_node.get(name)
        if run and pods is None:
            changes.create.append(name)
        elif stay and pods is not None:
            _keep_one(view, name, pods, run, surges, changes)
        elif pods is not None:
            changes.delete += [pod for pod in pods if not is_deleting(pod)]
    for name in sorted(by_node):
        if name not in names:
            changes.delete += [pod for pod in by_node[name] if not pod["spec"].get("nodeName")]
    return changes


def _keep_one(view: View, node: str, pods: Sequence[Obj], run: bool, surges: bool, changes: Changes) -> None:
    living: list[Obj] = []
    for pod in pods:
        if is_deleting(pod):
            continue
        if phase_of(pod) == "Failed":
            changes.failed.append((pod, node))
        else:
            living.append(pod)
    if not surges:
        changes.delete += oldest_first(living)[1:]
        return
    if len(living) <= 1:
        if not living and run:
            changes.create.append(node)
        return
    # With surge, two pods may stay: the new one until it is available, the old one while it is
    # ready.
    label = view.names.label_controller_revision_hash
    new: Obj | None = None
    old: Obj | None = None
    for pod in oldest_first(living):
        is_new = (pod["metadata"].get("labels") or {}).get(label) == view.hash
        if is_new and new is None:
            new = pod
        elif not is_new and old is None:
            old = pod
        else:
            changes.delete.append(pod)
    if new is not None and old is not None and (not is_ready(old) or view.is_available(new)):
        changes.delete.append(old)


def _old_and_new(view: View, pods: Sequence[Obj]) -> tuple[Obj | None, Obj | None, bool]:
    """(new pod, old pod, True); (None, None, False) if there are several of one kind."""
    new: Obj | None = None
    old: Obj | None = None
    for pod in pods:
        if is_deleting(pod):
            continue
        if view.is_updated(pod):
            if new is not None:
                return None, None, False
            new = pod
        else:
            if old is not None:
                return None, None, False
            old = pod
    return new, old, True


def decide_roll(view: View, nodes: Sequence[Obj], by_node: PodsByNode) -> Changes:
    """The changes of one step of a rolling update."""
    wanted = [node["metadata"]["name"] for node in nodes if view.fit(node)[0]]
    surge, unavailable = rolling_limits(view.owner, len(wanted))
    # Nodes that need a pod and have none count, and so do nodes with pods that need none.
    names = [*wanted, *sorted(by_node.keys() - set(wanted))]
    pods = {name: by_node.get(name, ()) for name in names}
    return _roll_surge(view, pods, surge) if surge else _roll_unavailable(view, pods, unavailable)


def _roll_unavailable(view: View, by_node: PodsByNode, limit: int) -> Changes:
    """Quirk: old pods that are not available are deleted at once and do not count for the limit."""
    lacking = 0
    at_once: list[Obj] = []
    candidates: list[Obj] = []
    for pods in by_node.values():
        new, old, _ = _old_and_new(view, pods)
        if (new is None) == (old is None):  # none, both, or several of one kind
            lacking += 1
        elif new is not None:
            lacking += 0 if view.is_available(new) else 1
        elif old is not None:
            (candidates if view.is_available(old) else at_once).append(old)
    return Changes(delete=[*at_once, *candidates[: max(0, limit - lacking)]])


def _roll_surge(view: View, by_node: PodsByNode, limit: int) -> Changes:
    changes = Changes()
    surging = 0
    candidates: list[str] = []
    for name, pods in by_node.items():
        new, old, clear = _old_and_new(view, pods)
        if not clear:
            surging += 1
        elif old is None:
            continue
        elif new is None:
            (candidates if view.is_available(old) else changes.create).append(name)
        elif view.is_available(new):
            changes.delete.append(old)
        else:
            surging += 1
    changes.create += candidates[: max(0, limit - surging)]
    return changes


def new_revision(owner: Obj, ref: Obj, number: int, names: Names) -> Obj:
    """The ControllerRevision of the present template."""
    template = owner["spec"]["template"]
    hashed = pod_template_hash(template, owner.get("status", {}).get("collisionCount"))
    labels = {
        **((template.get("metadata") or {}).get("labels") or {}),
        names.label_controller_revision_hash: hashed,
    }
    name = f"{owner['metadata']['name']}-{hashed}"
    return make_revision(owner, ref, name, labels, revision_data(template), number)


def daemon_template(owner: Obj, hash: str, generation: str | None, names: Names) -> Obj:
    """The template of the set's pods, with all tolerations and the labels of its revision."""
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), names.label_controller_revision_hash: hash}
    if generation is not None:
        labels[names.label_pod_template_generation] = generation
    spec = {**template["spec"], "tolerations": template_tolerations(template, names)}
    return {**template, "metadata": {**meta, "labels": labels}, "spec": spec}


def daemon_pod(template: Obj, owner: Obj, ref: Obj, node: str) -> Obj:
    """The pod for a node: required node affinity is replaced by the node's name."""
    pod = pod_from_template(template, owner, ref)
    affinity = pod["spec"].get("affinity") or {}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    node_affinity = {**(affinity.get("nodeAffinity") or {}), **required}
    return {**pod, "spec": {**pod["spec"], "affinity": {**affinity, "nodeAffinity": node_affinity}}}


def template_generation(owner: Obj, names: Names) -> str | None:
    """The template generation in the set's annotation, None if it holds no number."""
    text = (owner["metadata"].get("annotations") or {}).get(names.annotation_template_generation, "")
    generation = parse_whole(text)
    return None if generation is None else str(generation)


def count_status(view: View, nodes: Sequence[Obj], by_node: PodsByNode) -> dict[str, int]:
    """The counts of the status; of several pods on a node, the oldest counts."""
    desired = current = misscheduled = ready = available = updated = 0
    for node in nodes:
        pods = by_node.get(node["metadata"]["name"])
        if not view.fit(node)[0]:
            misscheduled += 1 if pods else 0
            continue
        desired += 1
        if not pods:
            continue
        current += 1
        pod = pods[0] if len(pods) == 1 else oldest_first(pods)[0]
        if is_ready(pod):
            ready += 1
            available += 1 if view.is_available(pod) else 0
        updated += 1 if view.is_updated(pod) else 0
    return {
        "currentNumberScheduled": current,
        "numberMisscheduled": misscheduled,
        "desiredNumberScheduled": desired,
        "numberReady": ready,
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": desired - available,
    }


def is_status_stale(owner: Obj, counts: Mapping[str, int]) -> bool:
    """True if the status needs a write.

    Quirk: an unobserved generation causes a write even in a sync that does not set it.
    """
    stored = owner.get("status") or {}
    if stored.get("observedGeneration", 0) < owner["metadata"].get("generation", 0):
        return True
    return any(stored.get(name, 0) != count for name, count in counts.items())


def with_counts(status: Obj, counts: Mapping[str, int]) -> Obj:
    """The status with these counts; optional counts of zero are left out."""
    merged = {**status, **counts}
    return {name: value for name, value in merged.items() if value or name in _REQUIRED or name not in counts}
