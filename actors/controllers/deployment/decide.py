"""Decisions of the Deployment controller: ReplicaSet sizes, conditions and status.  Pure.

Turns a Deployment and its ReplicaSets into new sizes (rolling update, proportional scaling),
annotations, the next status, and the ReplicaSet of a new template.

Holds: a rolling update never plans more than replicas + maxSurge pods, nor fewer available pods
       than replicas - maxUnavailable.

Mirrors  kubernetes v1.25 pkg/controller/deployment/{rolling.go,sync.go,progress.go},
         pkg/controller/deployment/util/deployment_util.go.
Differs  no known deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from actors.controllers.shared.pod_owners import int_or_percent
from actors.controllers.shared.pod_template_hash import pod_template_hash
from sim.api.memo import IdentityMemo
from sim.api.objects import annotations_of, condition_of, replicas_of
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.units import SECOND, format_time, parse_time, parse_whole

if TYPE_CHECKING:
    from sim.ident import Names

MAX_INT32 = 2**31 - 1
NO_TIME = "0001-01-01T00:00:00Z"
HISTORY_CHARS = 2000  # sync.go: maxRevHistoryLengthInChars
PROGRESSING, AVAILABLE, REPLICA_FAILURE = "Progressing", "Available", "ReplicaFailure"
NEW_AVAILABLE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"


# --- reading --------------------------------------------------------------------------------------


def counted(rs: Obj, field: str) -> int:
    """A number in the status, 0 if it is missing."""
    return int(rs.get("status", {}).get(field, 0))


def is_rolling(deployment: Obj) -> bool:
    """True for the strategy RollingUpdate, False for Recreate."""
    return bool(deployment["spec"].get("strategy", {}).get("type", "RollingUpdate") == "RollingUpdate")


def fenceposts(deployment: Obj) -> tuple[int, int]:
    """(maxSurge rounded up, maxUnavailable rounded down) in pods, never both 0."""
    if not is_rolling(deployment):
        return 0, 0
    replicas = replicas_of(deployment)
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    surge = int_or_percent(rolling.get("maxSurge", 0), replicas, True)
    unavailable = int_or_percent(rolling.get("maxUnavailable", 0), replicas, False)
    if not surge and not unavailable:
        unavailable = 1
    return surge, unavailable


def max_unavailable(deployment: Obj) -> int:
    """The number of pods that may be unavailable during a rollout."""
    replicas = replicas_of(deployment)
    if not is_rolling(deployment) or not replicas:
        return 0
    return min(fenceposts(deployment)[1], replicas)


def has_deadline(deployment: Obj) -> bool:
    """True if the Deployment has a progress deadline."""
    deadline = deployment["spec"].get("progressDeadlineSeconds")
    return deadline is not None and deadline != MAX_INT32


def int_annotation(obj: Obj, key: str, bits: int = 32) -> int | None:
    """The number of at most `bits` bits in an annotation; None if it holds none."""
    return parse_whole(annotations_of(obj).get(key, ""), bits)


def revision(obj: Obj, names: Names) -> int:
    """The revision in the object's annotation, 0 if it has none."""
    return int_annotation(obj, names.annotation_revision, 64) or 0


def rollback_revision(deployment: Obj, names: Names) -> int | None:
    """The revision that the rollback annotation asks for (0: the previous one); None without it."""
    return int_annotation(deployment, names.annotation_rollback_to, 64)


def last_revision(rss: Sequence[Obj], names: Names) -> int:
    """The revision before the newest, 0 if there is none.

    Quirk: if two ReplicaSets share the newest number, it is that number.
    """
    numbers = sorted((revision(rs, names) for rs in rss), reverse=True)
    return max(numbers[1], 0) if len(numbers) > 1 else 0


def by_creation(rss: Sequence[Obj]) -> list[Obj]:
    """ReplicaSets from oldest to newest."""
    return sorted(rss, key=lambda rs: (rs["metadata"].get("creationTimestamp") or "", rs["metadata"]["name"]))


def active(rss: Sequence[Obj]) -> list[Obj]:
    """The ReplicaSets with a size above 0."""
    return [rs for rs in rss if replicas_of(rs) > 0]


def _bare_metadata(template: Obj, hash_label: str) -> Obj:
    meta = template.get("metadata") or {}
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != hash_label}
    return {k: v for k, v in {**meta, "labels": labels}.items() if v}


_compared: IdentityMemo[tuple[bool]] = IdentityMemo()


def same_template(a: Obj, b: Obj, hash_label: str) -> bool:
    """True if two templates are equal without the hash label."""
    known = _compared.get(a, b, hash_label)
    if known is None:
        same_spec = a.get("spec") == b.get("spec")
        same = same_spec and _bare_metadata(a, hash_label) == _bare_metadata(b, hash_label)
        known = _compared.put((same,), a, b, hash_label)
    return known[0]


def find_new(deployment: Obj, rss: Sequence[Obj], hash_label: str) -> Obj | None:
    """The oldest ReplicaSet with the Deployment's present template."""
    template = deployment["spec"]["template"]
    return next(
        (rs for rs in by_creation(rss) if same_template(rs["spec"]["template"], template, hash_label)), None
    )


def is_complete(deployment: Obj, status: Obj) -> bool:
    """True if all replicas are updated and available and no others exist."""
    replicas = replicas_of(deployment)
    observed: int = status.get("observedGeneration", 0)
    return observed >= deployment["metadata"].get("generation", 0) and all(
        status.get(count, 0) == replicas for count in ("updatedReplicas", "replicas", "availableReplicas")
    )


# --- sizes ----------------------------------------------------------------------------------------


def total(rss: Sequence[Obj]) -> int:
    """The sum of the sizes."""
    return sum(replicas_of(rs) for rs in rss)


def new_size(deployment: Obj, rss: Sequence[Obj], new_replicas: int) -> int:
    """The next size of the new ReplicaSet.

    rss: all other ReplicaSets
    new_replicas: present size of the new ReplicaSet
    """
    replicas = replicas_of(deployment)
    if not is_rolling(deployment):
        return replicas
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    room = replicas + int_or_percent(rolling.get("maxSurge", 0), replicas, True) - total(rss) - new_replicas
    return new_replicas + max(0, min(room, replicas - new_replicas)) if room > 0 else new_replicas


def unhealthy_cuts(olds: Sequence[Obj], budget: int) -> tuple[list[tuple[Obj, int]], bool]:
    """Scale down old pods that are not available: ([(ReplicaSet, new size)], behind).

    The oldest ReplicaSet is first. `behind` is True if a ReplicaSet counts more available pods than
    its size: its status does not show the last scaling yet, so nothing else may be scaled down now
    (upstream: "got invalid request to scale down").
    """
    cuts: list[tuple[Obj, int]] = []
    for rs in by_creation(olds):
        if budget <= 0:
            break
        size, available = replicas_of(rs), counted(rs, "availableReplicas")
        if size and size != available:
            cut = min(budget, size - available)
            if cut < 0:
                return cuts, True
            budget -= cut
            cuts.append((rs, size - cut))
    return cuts, False


def old_budget(deployment: Obj, rss: Sequence[Obj], new: Obj) -> int:
    """The number of old pods that may be removed."""
    minimum = replicas_of(deployment) - max_unavailable(deployment)
    return total(rss) - minimum - (replicas_of(new) - counted(new, "availableReplicas"))


def available_cuts(deployment: Obj, rss: Sequence[Obj], olds: Sequence[Obj]) -> list[tuple[Obj, int]]:
    """Scale down old ReplicaSets while more pods are available than required."""
    available = sum(counted(rs, "availableReplicas") for rs in rss)
    budget = available - (replicas_of(deployment) - max_unavailable(deployment))
    cuts = []
    for rs in by_creation(olds):
        if budget <= 0:
            break
        size = replicas_of(rs)
        if size:
            cut = min(size, budget)
            budget -= cut
            cuts.append((rs, size - cut))
    return cuts


def active_or_latest(new: Obj | None, olds: Sequence[Obj]) -> Obj | None:
    """The only active ReplicaSet; the newest one if none is active; None if several are active."""
    running = active([*olds, new] if new is not None else olds)
    if len(running) == 1:
        return running[0]
    if running or (new is None and not olds):
        return None
    return new if new is not None else by_creation(olds)[-1]


def is_saturated(deployment: Obj, new: Obj | None, names: Names) -> bool:
    """True if the new ReplicaSet has its full size and all its pods are available."""
    if new is None:
        return False
    replicas = replicas_of(deployment)
    desired = int_annotation(new, names.annotation_desired_replicas)
    return (
        replicas_of(new) == replicas and desired == replicas and counted(new, "availableReplicas") == replicas
    )


def _round_half_away(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def to_add(deployment: Obj, rss: Sequence[Obj]) -> int:
    """Pods to add (negative: to remove) over all sets when a Deployment is scaled in a rollout."""
    replicas = replicas_of(deployment)
    return (replicas + fenceposts(deployment)[0] if replicas else 0) - total(rss)


def proportional_sizes(deployment: Obj, rss: Sequence[Obj], names: Names) -> list[tuple[Obj, int]]:
    """The next sizes of the active ReplicaSets when a Deployment is scaled in a rollout."""
    replicas = replicas_of(deployment)
    goal = replicas + fenceposts(deployment)[0]
    running, add = active(rss), to_add(deployment, rss)
    ordered = running
    if add:
        # Equal sizes: newer ones first when growing, older ones first when shrinking.
        ordered = by_creation(running)
        if add > 0:
            ordered.reverse()
        ordered.sort(key=replicas_of, reverse=True)
    sizes: list[int] = []
    added = 0
    for rs in ordered:
        size = replicas_of(rs)
        share = 0
        if add not in (0, added):
            if not replicas:
                share = -size
            else:
                annotated = int_annotation(rs, names.annotation_max_replicas)
                base = annotated if annotated is not None else counted(deployment, "replicas")
                share = _round_half_away(size * goal, base) - size if base else 0
            share = min(share, add - added) if add > 0 else max(share, add - added)
        sizes.append(size + share)
        added += share
    if add and sizes:
        sizes[0] = max(0, sizes[0] + add - added)
    return list(zip(ordered, sizes, strict=True))


# --- annotations ----------------------------------------------------------------------------------


def skipped_annotations(names: Names) -> frozenset[str]:
    """Annotations of a Deployment that are not copied to its ReplicaSets."""
    return frozenset(
        (
            names.annotation_last_applied,
            names.annotation_revision,
            names.annotation_revision_history,
            names.annotation_desired_replicas,
            names.annotation_max_replicas,
            names.annotation_rollback_to,
        )
    )


def replicas_annotations(deployment: Obj, names: Names) -> dict[str, str]:
    """The annotations of a ReplicaSet with the size of its Deployment."""
    replicas = replicas_of(deployment)
    return {
        names.annotation_desired_replicas: str(replicas),
        names.annotation_max_replicas: str(replicas + fenceposts(deployment)[0]),
    }


def wanted_annotations(
    deployment: Obj, have: dict[str, str], new_revision: int, names: Names
) -> dict[str, str]:
    """Annotations of the new ReplicaSet: the Deployment's, its revision, and its earlier revisions."""
    skipped = skipped_annotations(names)
    wanted = {**have, **{k: v for k, v in annotations_of(deployment).items() if k not in skipped}}
    old_text = have.get(names.annotation_revision)
    old = parse_whole(old_text) if old_text else 0
    if old is None:
        # Quirk: if the stored revision is not a number, no annotation is copied either.
        return have
    if old >= new_revision:
        return wanted
    wanted[names.annotation_revision] = str(new_revision)
    if old_text is not None:
        history = wanted.get(names.annotation_revision_history, "")
        wanted[names.annotation_revision_history] = _with_history(history, old_text)
    return wanted


def _with_history(history: str, old: str) -> str:
    if not history:
        return old
    entries = [*history.split(","), old]
    while len(",".join(entries)) > HISTORY_CHARS and len(entries) > 1:
        entries.pop(0)
    return ",".join(entries)


# --- the new ReplicaSet ---------------------------------------------------------------------------


def new_replica_set(deployment: Obj, ref: Obj, number: int, size: int, names: Names) -> Obj:
    """The ReplicaSet to create for a Deployment's present template.

    It shares the parts of the template's spec with the Deployment by identity.

    number: revision
    """
    spec, hash_label = deployment["spec"], names.label_pod_template_hash
    annotations = wanted_annotations(deployment, {}, number, names)
    annotations |= replicas_annotations(deployment, names)
    template = spec["template"]
    hashed = pod_template_hash(template, deployment.get("status", {}).get("collisionCount"))
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), hash_label: hashed}
    selector = spec.get("selector") or {}
    made: Obj = {
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), hash_label: hashed}},
        "template": {**template, "metadata": {**meta, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        made["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment['metadata']['name']}-{hashed}",
            "namespace": deployment["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [ref],
            "annotations": annotations,
        },
        "spec": {**made, "replicas": size},
    }


# --- status ---------------------------------------------------------------------------------------


def make_condition(kind: str, status: str, reason: str, message: str, wall_us: int) -> Obj:
    """A condition that changes now."""
    now = format_time(wall_us)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def without(conditions: Sequence[Obj], kind: str) -> list[Obj]:
    """The conditions of all other types."""
    return [c for c in conditions if c["type"] != kind]


def with_condition(conditions: Sequence[Obj], new: Obj) -> list[Obj]:
    """Set a condition (Quirk: with equal status and reason the old one stays, and its message too)."""
    had = next((c for c in conditions if c["type"] == new["type"]), None)
    if had is not None and had["status"] == new["status"]:
        if had.get("reason") == new["reason"]:
            return list(conditions)
        new = {**new, "lastTransitionTime": had.get("lastTransitionTime")}
    return [*without(conditions, new["type"]), new]


def with_status(obj: Obj, conditions: Sequence[Obj]) -> Obj:
    """The object with these conditions."""
    return {**obj, "status": {**obj.get("status", {}), "conditions": list(conditions)}}


def conditions_of(obj: Obj) -> list[Obj]:
    """The conditions of an object."""
    return list(obj.get("status", {}).get("conditions") or ())


def base_status(deployment: Obj, rss: Sequence[Obj], new: Obj | None, wall_us: int) -> Obj:
    """The status with its counts and the Available condition."""
    available = sum(counted(rs, "availableReplicas") for rs in rss)
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sum(counted(rs, "replicas") for rs in rss),
        "updatedReplicas": counted(new, "replicas") if new is not None else 0,
        "readyReplicas": sum(counted(rs, "readyReplicas") for rs in rss),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total(rss) - available),
    }
    status: Obj = {name: count for name, count in counts.items() if count}
    if "collisionCount" in deployment.get("status", {}):
        status["collisionCount"] = deployment["status"]["collisionCount"]
    if available >= replicas_of(deployment) - max_unavailable(deployment):
        texts = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        texts = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    conditions = with_condition(conditions_of(deployment), make_condition(AVAILABLE, *texts, wall_us))
    return {**status, "conditions": conditions}


def rollout_status(deployment: Obj, rss: Sequence[Obj], new: Obj | None, wall_us: int) -> Obj:
    """As `base_status`, with the Progressing condition and failures of ReplicaSets."""
    status = base_status(deployment, rss, new, wall_us)
    conditions: list[Obj] = status["conditions"]
    current = condition_of(deployment, PROGRESSING)
    if not has_deadline(deployment):
        conditions = without(conditions, PROGRESSING)
    elif not (
        status.get("replicas", 0) == status.get("updatedReplicas", 0)
        and current is not None
        and current.get("reason") == NEW_AVAILABLE
    ):
        conditions = _progress(deployment, status, new, wall_us)
    failure = _failure(rss, new)
    conditions = with_condition(conditions, failure) if failure else without(conditions, REPLICA_FAILURE)
    return {**status, "conditions": conditions}


def _progress(deployment: Obj, status: Obj, new: Obj | None, wall_us: int) -> list[Obj]:
    conditions: list[Obj] = status["conditions"]
    current = condition_of(deployment, PROGRESSING)
    subject = f'Deployment "{deployment["metadata"]["name"]}"'
    if new is not None:
        subject = f'ReplicaSet "{new["metadata"]["name"]}"'
    if is_complete(deployment, status):
        text = f"{subject} has successfully progressed."
        return with_condition(conditions, make_condition(PROGRESSING, "True", NEW_AVAILABLE, text, wall_us))
    if _is_progressing(deployment, status):
        made = make_condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{subject} is progressing.", wall_us)
        if current is not None and current["status"] == "True":
            made["lastTransitionTime"] = current["lastTransitionTime"]
        return [*without(conditions, PROGRESSING), made]
    if is_timed_out(deployment, current, wall_us):
        text = f"{subject} has timed out progressing."
        return with_condition(conditions, make_condition(PROGRESSING, "False", TIMED_OUT, text, wall_us))
    return conditions


def _is_progressing(deployment: Obj, status: Obj) -> bool:
    was = deployment.get("status", {})

    def get(values: Obj, field: str) -> int:
        return int(values.get(field, 0))

    old_left = get(status, "replicas") - get(status, "updatedReplicas")
    return (
        get(status, "updatedReplicas") > get(was, "updatedReplicas")
        or old_left < get(was, "replicas") - get(was, "updatedReplicas")
        or get(status, "readyReplicas") > get(was, "readyReplicas")
        or get(status, "availableReplicas") > get(was, "availableReplicas")
    )


def deadline_us(deployment: Obj, current: Obj) -> int:
    """The progress deadline; a condition without update time counts from the year 1, as in Go."""
    updated_us = parse_time(current.get("lastUpdateTime") or NO_TIME)
    return updated_us + int(deployment["spec"]["progressDeadlineSeconds"]) * SECOND


def is_timed_out(deployment: Obj, current: Obj | None, wall_us: int) -> bool:
    """True if the progress deadline is over."""
    if current is None or current.get("reason") == NEW_AVAILABLE:
        return False
    return current.get("reason") == TIMED_OUT or deadline_us(deployment, current) < wall_us


def _failure(rss: Sequence[Obj], new: Obj | None) -> Obj | None:
    """The ReplicaFailure condition of the new ReplicaSet, else of an old one."""
    for rs in ([new] if new is not None else []) + list(rss):
        found = condition_of(rs, REPLICA_FAILURE)
        if found is not None:
            return {**found, "lastUpdateTime": found.get("lastTransitionTime")}
    return None


@dataclass(frozen=True, slots=True)
class Pause:
    """Reason and message of the Progressing condition of a paused or resumed Deployment."""

    reason: str
    message: str


def pause_change(deployment: Obj) -> Pause | None:
    """The condition to set because the Deployment was paused or resumed; None if it is set."""
    if not has_deadline(deployment):
        return None
    current = condition_of(deployment, PROGRESSING)
    reason = current.get("reason") if current is not None else None
    if reason == TIMED_OUT:
        return None
    paused = bool(deployment["spec"].get("paused"))
    if paused and reason != "DeploymentPaused":
        return Pause("DeploymentPaused", "Deployment is paused")
    if not paused and reason == "DeploymentPaused":
        return Pause("DeploymentResumed", "Deployment is resumed")
    return None


def cleanup_victims(deployment: Obj, olds: Sequence[Obj], names: Names) -> list[Obj]:
    """Old ReplicaSets beyond the history limit, lowest revision first.

    ReplicaSets with pods, or with changes that their controller has not observed, are kept.
    """
    limit = deployment["spec"].get("revisionHistoryLimit")
    if limit is None or limit == MAX_INT32:
        return []
    alive = [rs for rs in olds if "deletionTimestamp" not in rs["metadata"]]
    surplus = len(alive) - limit
    if surplus <= 0:
        return []
    ordered = sorted(by_creation(alive), key=lambda rs: revision(rs, names))
    return [
        rs
        for rs in ordered[:surplus]
        if not counted(rs, "replicas")
        and not replicas_of(rs)
        and rs["metadata"].get("generation", 0) <= counted(rs, "observedGeneration")
    ]
