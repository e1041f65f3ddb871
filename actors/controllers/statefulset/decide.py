"""Decisions of the StatefulSet controller: the next acts on its pods, in order.  Pure.

Turns a set, its two revisions and its pods into acts (create, delete, update) one after the other:
`steps` is a generator that yields an act and receives the error text of its outcome, or None. The
status is counted along with the acts, so that it is right even if an act fails.

Holds: OrderedReady makes one change a sync and never skips a pod that is not available; Parallel
       does not wait, but updates one pod at a time; a terminating pod is replaced only after it is
       gone.

Mirrors  kubernetes v1.25
         pkg/controller/statefulset/{stateful_set_control.go,stateful_set_utils.go}.
Quirk    with the gate MaxUnavailableStatefulSet the status of a sync that deletes old pods still
         counts them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from actors.controllers.shared.pod_owners import int_or_percent, is_available, pod_from_template
from actors.controllers.shared.pod_template_hash import revision_data, revision_hash, revision_json
from actors.controllers.shared.revisions import make_revision
from actors.controllers.statefulset.claims import Retention, storage_matches, with_storage
from sim.api.objects import is_deleting, is_ready, phase_of, replicas_of
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.patterns import pattern

if TYPE_CHECKING:
    from sim.ident import Names

_MEMBER = pattern(r"^(.*)-([0-9]+)$")
NAME_MAX = 223  # longest prefix of a revision's name, from stateful_set_utils and history
ORDINAL_MAX = 2**31 - 1


class Verb(Enum):
    """Kind of an act."""

    CREATE = "create"
    DELETE = "delete"
    UPDATE = "update"  # restore name, label and claims of the ordinal
    RECREATE = "recreate"  # record the event that a failed pod is about to be deleted
    REPLACE = "replace"  # delete for an update to another revision; a missing pod is no error
    RETAIN = "retain"  # set the owner references of the pod's claims


@dataclass(frozen=True, slots=True)
class Act:
    """One act on a pod."""

    verb: Verb
    pod: Obj


Steps = Generator[Act, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Revisions:
    """Names and templates of the current revision and of the update revision."""

    current: str
    update: str
    current_template: Obj
    update_template: Obj


@dataclass(slots=True)
class Counts:
    """Numbers of the status."""

    replicas: int = 0
    ready: int = 0
    available: int = 0
    current: int = 0
    updated: int = 0


@dataclass(slots=True)
class Plan:
    """A set during one sync.

    pods: all members, including terminating ones
    several: True if several pods may be replaced at once (gate MaxUnavailableStatefulSet)
    retention: owners of claims (gate StatefulSetAutoDeletePVC), None if the gate is off
    """

    owner: Obj
    ref: Obj
    revisions: Revisions
    pods: Sequence[Obj]
    names: Names
    wall_us: int
    several: bool = False
    retention: Retention | None = None
    counts: Counts = field(default_factory=Counts)

    def revision_of(self, pod: Obj) -> str:
        """Name of the pod's revision, "" if it has none."""
        return str((pod["metadata"].get("labels") or {}).get(self.names.label_controller_revision_hash, ""))

    def runs(self, pod: Obj) -> bool:
        """True if the pod is running and ready."""
        return phase_of(pod) == "Running" and is_ready(pod)

    def is_healthy(self, pod: Obj) -> bool:
        """True if the pod is running, ready and not terminating."""
        return self.runs(pod) and not is_deleting(pod)

    def is_available(self, pod: Obj) -> bool:
        """True if the pod is running and ready for the set's minReadySeconds."""
        min_ready_s = self.owner["spec"].get("minReadySeconds") or 0
        return self.runs(pod) and is_available(pod, min_ready_s, self.wall_us)

    def count(self, pod: Obj, by: int) -> None:
        """Count a created pod (by 1) or a deleted one (by -1) for its revision."""
        revision = self.revision_of(pod)
        self.counts.current += by if revision == self.revisions.current else 0
        self.counts.updated += by if revision == self.revisions.update else 0

    def new_pod(self, ordinal: int) -> Obj:
        """The pod to create for an ordinal, at the current or the update revision."""
        revisions = self.revisions
        if _wants_current(self.owner, ordinal):
            name, template = revisions.current, revisions.current_template
        else:
            name, template = revisions.update, revisions.update_template
        return pod_of(self.owner, self.ref, template, name, ordinal, self.names)

    def is_repaired(self, pod: Obj, ordinal: int) -> bool:
        """True if a pod has the identity and the storage of its ordinal."""
        return (
            identity_matches(self.owner, pod, ordinal, self.names)
            and storage_matches(self.owner, pod, ordinal)
            and (self.retention is None or self.retention.is_kept(pod, ordinal))
        )


def is_ordered(owner: Obj) -> bool:
    """True for the pod management policy OrderedReady."""
    return bool(owner["spec"].get("podManagementPolicy", "OrderedReady") != "Parallel")


def strategy_of(owner: Obj) -> tuple[str, int | None]:
    """(type, partition); the partition is None without a rollingUpdate block."""
    strategy = owner["spec"].get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate")
    partition = None if rolling is None else int(rolling.get("partition") or 0)
    return strategy.get("type", "RollingUpdate"), partition


def _wants_current(owner: Obj, ordinal: int) -> bool:
    kind, partition = strategy_of(owner)
    if partition is not None:
        return ordinal < partition
    return kind == "RollingUpdate" and ordinal < int(owner.get("status", {}).get("currentReplicas", 0))


def ordinal_of(owner: Obj, pod: Obj) -> int:
    """The pod's ordinal; -1 if the name is not one of the set's or the number exceeds an int32."""
    found = _MEMBER.match(pod["metadata"]["name"])
    if found is None or found[1] != owner["metadata"]["name"]:
        return -1
    ordinal = int(found[2]) if len(found[2].lstrip("0")) <= 10 else ORDINAL_MAX + 1
    return ordinal if ordinal <= ORDINAL_MAX else -1


def is_member(owner: Obj, pod: Obj) -> bool:
    """True if the pod's name is the set's name and a number."""
    found = _MEMBER.match(pod["metadata"]["name"])
    return found is not None and bool(found[1] == owner["metadata"]["name"])


# --- pods and claims ------------------------------------------------------------------------------


def new_revision(owner: Obj, ref: Obj, number: int, names: Names, first: int, collisions: int) -> Obj:
    """The ControllerRevision of the present template.

    Its name has the hash of the template and the collision count. Quirk: its hash label is that of
    the first attempt, even if a later name is used.

    first: collision count at the first attempt
    """
    template = owner["spec"]["template"]
    data = revision_data(template)
    text = revision_json(data)
    labels = (template.get("metadata") or {}).get("labels") or {}
    labels = {**labels, f"controller.{names.domain}/hash": revision_hash(text, first)}
    name = f"{owner['metadata']['name'][:NAME_MAX]}-{revision_hash(text, collisions)}"
    return make_revision(owner, ref, name, labels, data, number)


def pod_of(owner: Obj, ref: Obj, template: Obj, revision: str, ordinal: int, names: Names) -> Obj:
    """The pod of an ordinal at a revision."""
    pod = pod_from_template(template, owner, ref)
    labels = {
        **(pod["metadata"].get("labels") or {}),
        names.label_controller_revision_hash: revision,
    }
    pod = {**pod, "metadata": {**pod["metadata"], "labels": labels}}
    named = with_storage(owner, with_identity(owner, pod, ordinal, names), ordinal)
    spec = {**named["spec"], "hostname": named["metadata"]["name"]}
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    return {**named, "spec": spec}


def with_identity(owner: Obj, pod: Obj, ordinal: int, names: Names) -> Obj:
    """The pod with the name and the label of the ordinal."""
    name = f"{owner['metadata']['name']}-{ordinal}"
    meta = pod["metadata"]
    labels = {**(meta.get("labels") or {}), names.label_statefulset_pod_name: name}
    named = {**meta, "name": name, "namespace": owner["metadata"]["namespace"], "labels": labels}
    return {**pod, "metadata": named}


def identity_matches(owner: Obj, pod: Obj, ordinal: int, names: Names) -> bool:
    """True if name and label are those of the ordinal (`web-007` is not `web-7`)."""
    meta = pod["metadata"]
    label = (meta.get("labels") or {}).get(names.label_statefulset_pod_name)
    return bool(label == meta["name"] == f"{owner['metadata']['name']}-{ordinal}")


# --- the order of acts ----------------------------------------------------------------------------


def steps(plan: Plan) -> Steps:
    """All acts of a sync in order; returns the error that ended it, or None."""
    wanted = replicas_of(plan.owner)
    slots: list[Obj | None] = [None] * wanted
    condemned: list[tuple[int, Obj]] = []
    for pod in plan.pods:
        _count_found(plan, pod)
        ordinal = ordinal_of(plan.owner, pod)
        if 0 <= ordinal < wanted:
            slots[ordinal] = pod
        elif ordinal >= wanted:
            condemned.append((ordinal, pod))
    condemned.sort(key=lambda entry: entry[0])
    if is_deleting(plan.owner):
        return None
    first_unhealthy = _first_unhealthy(plan, slots, condemned)
    done, error = yield from _fill(plan, slots)
    if done or error is not None:
        return error
    done, error = yield from _condemn(plan, condemned, first_unhealthy)
    if done or error is not None:
        return error
    return (yield from _roll(plan, slots))


def _count_found(plan: Plan, pod: Obj) -> None:
    counts = plan.counts
    counts.replicas += 1
    if plan.runs(pod):
        counts.ready += 1
        if plan.is_available(pod):
            counts.available += 1
    if phase_of(pod) and not is_deleting(pod):
        plan.count(pod, 1)


def _first_unhealthy(
    plan: Plan, slots: Sequence[Obj | None], condemned: Sequence[tuple[int, Obj]]
) -> Obj | None:
    """The first pod that is not healthy; None if all are, or if a missing pod comes first."""
    for pod in [*slots, *(pod for _, pod in condemned)]:
        if pod is None or not plan.is_healthy(pod):
            return pod
    return None


def _fill(plan: Plan, slots: list[Obj | None]) -> Generator[Act, str | None, tuple[bool, str | None]]:
    """Create, await and repair ordinals 0 … n-1; returns (True if the sync ends here, error)."""
    ordered = is_ordered(plan.owner)
    for ordinal, pod in enumerate(slots):
        if pod is not None and phase_of(pod) == "Failed":
            yield Act(Verb.RECREATE, pod)
            error = yield Act(Verb.DELETE, pod)
            if error is not None:
                return True, error
            plan.count(pod, -1)
            plan.counts.replicas -= 1
            pod = None
        if pod is None:
            made = plan.new_pod(ordinal)
            if plan.retention is not None and plan.retention.is_stale(made, ordinal):
                return True, None
            slots[ordinal] = made
            error = yield Act(Verb.CREATE, made)
            if error is not None:
                return True, error
            plan.counts.replicas += 1
            plan.count(made, 1)
            if ordered:
                return True, None
            continue
        if ordered and (is_deleting(pod) or not plan.is_available(pod)):
            return True, None
        if not plan.is_repaired(pod, ordinal):
            error = yield Act(Verb.UPDATE, pod)
            if error is not None:
                return True, error
    return False, None


def _condemn(
    plan: Plan, condemned: Sequence[tuple[int, Obj]], first_unhealthy: Obj | None
) -> Generator[Act, str | None, tuple[bool, str | None]]:
    """Delete pods beyond the replicas, highest ordinal first; returns as `_fill`."""
    ordered = is_ordered(plan.owner)
    for ordinal, pod in condemned:
        if plan.retention is not None and not plan.retention.is_kept(pod, ordinal):
            error = yield Act(Verb.RETAIN, pod)
            if error is not None:
                return True, error
    for _, pod in reversed(condemned):
        if is_deleting(pod):
            if ordered:
                return True, None
            continue
        if ordered and not plan.is_available(pod) and pod is not first_unhealthy:
            return True, None
        error = yield Act(Verb.DELETE, pod)
        if error is not None:
            return True, error
        plan.count(pod, -1)
        if ordered:
            return True, None
    return False, None


def _roll(plan: Plan, slots: Sequence[Obj | None]) -> Steps:
    """Replace one pod of another revision, from the highest ordinal to the partition.

    A pod that is not healthy is awaited.
    """
    kind, partition = strategy_of(plan.owner)
    if kind == "OnDelete":
        return None
    if plan.several:
        return (yield from _roll_several(plan, slots))
    for pod in reversed(slots[partition or 0 :]):
        assert pod is not None
        if plan.revision_of(pod) != plan.revisions.update and not is_deleting(pod):
            error = yield Act(Verb.DELETE, pod)
            plan.counts.current -= 1
            return error
        if not plan.is_healthy(pod):
            return None
    return None


def _roll_several(plan: Plan, slots: Sequence[Obj | None]) -> Steps:
    """As `_roll`, but replaces several pods while at most maxUnavailable pods are unavailable."""
    rolling = (plan.owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    limit = max(1, int_or_percent(rolling.get("maxUnavailable", 1), len(slots), round_up=False))
    left = limit - sum(pod is None or not plan.is_healthy(pod) for pod in slots)
    for pod in reversed(slots[rolling.get("partition") or 0 :]):
        if left <= 0:
            break
        assert pod is not None
        if plan.revision_of(pod) != plan.revisions.update and not is_deleting(pod):
            error = yield Act(Verb.REPLACE, pod)
            if error is not None:
                return error
            left -= 1
    return None


# --- status ---------------------------------------------------------------------------------------


def status_of(plan: Plan, collision_count: int) -> Obj:
    """The status after the acts."""
    counts, revisions = plan.counts, plan.revisions
    kind, _ = strategy_of(plan.owner)
    current, current_count = revisions.current, counts.current
    if kind == "RollingUpdate" and counts.updated == counts.replicas == counts.ready:
        current, current_count = revisions.update, counts.updated
    status: Obj = {
        "observedGeneration": plan.owner["metadata"].get("generation", 0),
        "replicas": counts.replicas,
    }
    optional = {
        "readyReplicas": counts.ready,
        "currentReplicas": current_count,
        "updatedReplicas": counts.updated,
    }
    status.update((name, count) for name, count in optional.items() if count)
    status["availableReplicas"] = counts.available
    status["currentRevision"] = current
    status["updateRevision"] = revisions.update
    status["collisionCount"] = collision_count
    return status


def is_inconsistent(stored: Obj, status: Obj) -> bool:
    """True if the stored status differs; a new collision count alone is not worth a write."""
    if status["observedGeneration"] > stored.get("observedGeneration", 0):
        return True
    counts = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    return any(status.get(name, 0) != stored.get(name, 0) for name in counts) or any(
        status[name] != stored.get(name, "") for name in ("currentRevision", "updateRevision")
    )
