"""ReplicaSet controller: keeps `spec.replicas` active pods for each set.

Turns a set, its pods and its expectations into creates (slow start), deletes (in the order of
deletion) and a status.

Holds: a sync creates or deletes at most 500 pods; it creates and deletes nothing while the cache
       does not show the earlier creates and deletes; the status counts the pods as they were
       before the sync's own creates and deletes.

Mirrors  kubernetes v1.25 pkg/controller/replicaset/{replica_set.go,replica_set_utils.go},
         pkg/controller/controller_utils.go (ActivePodsWithRanks), pkg/controller/replication (same
         code).
Differs  metrics of the deletion order are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cmp_to_key
from typing import Any

from actors.controllers.shared.owned_pod_counts import Counts, OwnedTally
from actors.controllers.shared.pod_owners import (
    PodControl,
    PodEvents,
    candidates_of,
    index_by_controller,
    index_by_namespace,
    is_available,
    labelled,
    owner_ref,
    pod_from_template,
    ready_since_us,
    selector_of,
)
from actors.controllers.shared.shell import Env, Expectations, Owner, claim_objects, run_workers
from sim.api.objects import (
    condition_of,
    controller_of,
    is_active,
    is_deleting,
    is_ready,
    key_of,
    phase_of,
    replicas_of,
)
from sim.api.selectors import from_selector
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.kernel.measure import observe
from sim.options.features.gates import enabled
from sim.patterns import pattern
from sim.units import MS, SECOND, format_time, parse_time

AGE_RATIO = "replicaset_controller_sorting_deletion_age_ratio"
BURST_REPLICAS = 500  # replica_set.go: BurstReplicas
_COST = pattern(r"0|-[0-9]{1,10}|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class Flavour:
    """The differences between ReplicaSets and ReplicationControllers, which share this code."""

    resource: str
    kind: str
    client: str
    component: str


REPLICA_SET = Flavour("replicasets", "ReplicaSet", "replicaset-controller", "replicaset-controller")
REPLICATION_CONTROLLER = Flavour(
    "replicationcontrollers", "ReplicationController", "replication-controller", "replication-controller"
)


async def start(env: Env) -> None:
    """Run the ReplicaSet controller until its process ends."""
    await start_flavour(env, REPLICA_SET, env.options.concurrent_replicaset_syncs)


async def start_flavour(env: Env, flavour: Flavour, workers: int) -> None:
    """Run the controller of one flavour until its process ends."""
    loop = ReplicaSetLoop(env, flavour)
    await env.informers.start_and_sync()
    run_workers(env, loop.queue, loop.sync, workers)


# --- pure decisions -------------------------------------------------------------------------------


def surplus_of(owner: Obj, active_count: int) -> int:
    """The number of pods to delete (positive) or to create (negative) now, at most a burst."""
    diff = active_count - replicas_of(owner)
    return max(-BURST_REPLICAS, min(BURST_REPLICAS, diff))


_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class _DeletionRank:
    """The properties of a pod that decide the order of deletion; lower pods are deleted first."""

    fixed: tuple[int, int, int, int, int]
    ready_us: int | None
    restarts: int
    created_us: int
    uid: str


def _deletion_cost(text: str) -> int:
    """Quirk: text that is not an int32, or has leading zeros or a plus sign, counts as 0."""
    if _COST.fullmatch(text) is None:
        return 0
    cost = int(text)
    return cost if -(1 << 31) <= cost < 1 << 31 else 0


def _rank(pod: Obj, related: int, cost_annotation: str) -> _DeletionRank:
    meta = pod["metadata"]
    cost = _deletion_cost((meta.get("annotations") or {}).get(cost_annotation, ""))
    restarts = max(
        (s.get("restartCount", 0) for s in pod.get("status", {}).get("containerStatuses") or ()), default=0
    )
    fixed = (
        1 if pod["spec"].get("nodeName") else 0,
        _PHASES.get(phase_of(pod), 0),
        1 if is_ready(pod) else 0,
        cost,
        -related,
    )
    created = meta.get("creationTimestamp")
    return _DeletionRank(
        fixed, ready_since_us(pod), restarts, parse_time(created) if created else 0, meta["uid"]
    )


def _age_bucket(since_us: int, wall_us: int) -> int:
    age_ns = (wall_us - since_us) * 1000
    return age_ns.bit_length() - 1 if age_ns > 0 else -1


def _compare_age(a_us: int, b_us: int, uids: tuple[str, str], wall_us: int | None) -> int:
    """Compare ages: the younger pod is deleted first.

    With `wall_us`, ages within the same power of two are equal, and the uid decides.
    """
    if not a_us or not b_us:
        return -1 if not a_us else 1
    if wall_us is None:
        return b_us - a_us
    diff = _age_bucket(a_us, wall_us) - _age_bucket(b_us, wall_us)
    return diff if diff else (-1 if uids[0] < uids[1] else 1)


def _compare(a: _DeletionRank, b: _DeletionRank, wall_us: int | None) -> int:
    if a.fixed != b.fixed:
        return -1 if a.fixed < b.fixed else 1
    if a.ready_us is not None and b.ready_us is not None and a.ready_us != b.ready_us:
        return _compare_age(a.ready_us, b.ready_us, (a.uid, b.uid), wall_us)
    if a.restarts != b.restarts:
        return b.restarts - a.restarts
    if a.created_us != b.created_us:
        return _compare_age(a.created_us, b.created_us, (a.uid, b.uid), wall_us)
    return -1 if a.uid < b.uid else 1


def age_ratios(pods: Sequence[Obj], victims: Sequence[Obj], wall_us: int) -> list[int]:
    """How many times as old each ready victim is as the youngest ready pod, in whole numbers.

    Quirk: upstream divides by zero for a pod that is younger than a millisecond; it has none here.
    """
    created = [parse_time(pod["metadata"]["creationTimestamp"]) for pod in pods if is_ready(pod)]
    youngest_ms = (wall_us - max(created, default=wall_us)) // MS
    if youngest_ms <= 0:
        return []
    ages = [wall_us - parse_time(pod["metadata"]["creationTimestamp"]) for pod in victims if is_ready(pod)]
    return [int(age_us // MS // youngest_ms) for age_us in ages]


def choose_victims(
    pods: Sequence[Obj], count: int, on_node: Mapping[str, int], cost_annotation: str, wall_us: int | None
) -> list[Obj]:
    """The `count` pods that come first in the order of deletion.

    on_node: node -> number of active pods of related sets
    cost_annotation: name of the deletion cost annotation; "" to ignore costs
    wall_us: present time, to compare ages in powers of two; None to compare exact times
    """
    if count >= len(pods):
        return list(pods)
    ranked = {
        pod["metadata"]["uid"]: _rank(pod, on_node.get(pod["spec"].get("nodeName", ""), 0), cost_annotation)
        for pod in pods
    }

    def compare(a: Obj, b: Obj) -> int:
        return _compare(ranked[a["metadata"]["uid"]], ranked[b["metadata"]["uid"]], wall_us)

    return sorted(pods, key=cmp_to_key(compare))[:count]


@dataclass(frozen=True, slots=True)
class Totals:
    """The numbers in a status: all pods, those with all template labels, ready and available ones."""

    replicas: int
    labeled: int
    ready: int
    available: int


def totals_of(owner: Obj, pods: Sequence[Obj], wall_us: int) -> Totals:
    """Count the pods one by one."""
    wanted = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    min_ready_s = owner["spec"].get("minReadySeconds") or 0
    labeled = ready = available = 0
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        if labels is wanted or all(labels.get(k) == v for k, v in wanted.items()):
            labeled += 1
        if is_ready(pod):
            ready += 1
            if is_available(pod, min_ready_s, wall_us):
                available += 1
    return Totals(len(pods), labeled, ready, available)


def counted_totals(owner: Obj, counts: Counts) -> Totals | None:
    """The totals from the counts by label set, or None if the pods must be listed.

    Pods must be listed to release those that do not match, and to see for how long they are ready.
    """
    spec = owner["spec"]
    if spec.get("minReadySeconds"):
        return None
    wanted = (spec["template"].get("metadata") or {}).get("labels") or {}
    matches = selector_of(owner)
    labeled = 0
    for pairs, count in counts.labels.items():
        labels = dict(pairs)
        if not matches({"metadata": {"labels": labels}}):
            return None
        labeled += count if all(labels.get(k) == v for k, v in wanted.items()) else 0
    return Totals(counts.active, labeled, counts.ready, counts.ready)


def status_of(owner: Obj, totals: Totals, failure: tuple[str, str] | None, wall_us: int) -> Obj:
    """The status with these totals.

    failure: (reason, message) of failed creates or deletes, None if there were none
    """
    status: Obj = {"replicas": totals.replicas}
    counts = {
        "fullyLabeledReplicas": totals.labeled,
        "readyReplicas": totals.ready,
        "availableReplicas": totals.available,
    }
    status.update((name, count) for name, count in counts.items() if count)
    status["observedGeneration"] = owner["metadata"].get("generation", 0)
    conditions = list(owner.get("status", {}).get("conditions") or ())
    had = condition_of(owner, "ReplicaFailure")
    if failure is not None and had is None:
        reason, message = failure
        conditions.append(
            {
                "type": "ReplicaFailure",
                "status": "True",
                "lastTransitionTime": format_time(wall_us),
                "reason": reason,
                "message": message,
            }
        )
    elif failure is None and had is not None:
        conditions = [c for c in conditions if c["type"] != "ReplicaFailure"]
    if conditions:
        status["conditions"] = conditions
    return status


def needs_write(owner: Obj, status: Obj) -> bool:
    """True if the status differs from the stored one."""
    stored = owner.get("status") or {}
    return {"replicas": 0, **stored} != status or not stored


# --- shell ----------------------------------------------------------------------------------------


class ReplicaSetLoop:
    """Shell of the controller: handlers, queue, and the sync of one set."""

    def __init__(self, env: Env, flavour: Flavour) -> None:
        self.env = env
        self.flavour = flavour
        self.resource = env.scheme.resource(flavour.resource)
        self.client = env.client(flavour.client)
        self.expectations = Expectations(env.ctx.now_us)
        self.control = PodControl(
            env, self.client, env.recorder(flavour.component, self.client), self.expectations
        )
        self.queue = env.queue(flavour.kind.lower())
        self.sets = env.informers[flavour.resource]
        self.pods = env.informers["pods"]
        index_by_namespace(self.sets)
        index_by_controller(self.sets)
        index_by_controller(self.pods)
        self.sets.on(add=self._changed, update=self._updated, delete=self._deleted)
        self.tally = OwnedTally(flavour.kind, self.pods)
        PodEvents(flavour.kind, self.sets, self.queue, self.expectations).attach(self.pods)

    def _changed(self, owner: Obj) -> None:
        self.queue.add(key_of(owner))

    def _updated(self, old: Obj, new: Obj) -> None:
        if old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._deleted(old)
        self.queue.add(key_of(new))

    def _deleted(self, owner: Obj) -> None:
        key = key_of(owner)
        self.expectations.forget(key)
        self.queue.add(key)

    async def sync(self, key: str) -> str | None:
        """Bring the pods and the status of one set up to date; returns an error text or None."""
        owner = self.sets.get(key)
        if owner is None:
            self.expectations.forget(key)
            return None
        totals, pods = self._counted(owner), list[Obj]()
        if totals is not None and totals.replicas == replicas_of(owner):
            return await self._write_status(owner, status_of(owner, totals, None, self.env.ctx.wall_us()))
        satisfied = self.expectations.satisfied(key)
        if totals is None or surplus_of(owner, totals.replicas) > 0:
            totals = None
            active = [pod for pod in candidates_of(self.pods, owner) if is_active(pod)]
            identity = Owner(owner, self.flavour.resource, self.resource.api_version, self.resource.kind)
            pods, error = await claim_objects(self.client, identity, "pods", active, selector_of(owner))
            if error is not None:
                return error
        failed: str | None = None
        surplus = surplus_of(owner, len(pods) if totals is None else totals.replicas)
        if satisfied and surplus and not is_deleting(owner):
            failed = await self._manage(owner, pods, surplus)
        failure = None
        if failed is not None:
            failure = ("FailedCreate" if surplus < 0 else "FailedDelete", failed)
        wall_us = self.env.ctx.wall_us()
        status = status_of(owner, totals or totals_of(owner, pods, wall_us), failure, wall_us)
        error = await self._write_status(owner, status)
        if error is not None:
            return error
        wanted = replicas_of(owner)
        min_ready_s = owner["spec"].get("minReadySeconds") or 0
        if failed is None and min_ready_s and status.get("readyReplicas", 0) == wanted:
            if status.get("availableReplicas", 0) != wanted:
                self.queue.add_after_us(key, min_ready_s * SECOND)
        return failed

    def _counted(self, owner: Obj) -> Totals | None:
        """The totals from the counts; None if pods may have to be adopted, released or listed."""
        meta = owner["metadata"]
        if self.pods.by_index("controller", f"orphan/{meta['namespace']}"):
            return None
        return counted_totals(owner, self.tally.of(meta["uid"]))

    async def _manage(self, owner: Obj, pods: Sequence[Obj], surplus: int) -> str | None:
        key = key_of(owner)
        if surplus < 0:
            self.expectations.expect_creates(key, -surplus)
            template = owner["spec"]["template"]
            if not (template.get("metadata") or {}).get("labels"):
                self.expectations.forget(key)
                return "unable to create pods, no labels"
            pod = pod_from_template(template, owner, owner_ref(self.env, self.flavour.resource, owner))
            return await self.control.create(owner, [pod] * -surplus)
        gates = self.env.options.feature_gates
        costs, steps = (enabled(gates, gate) for gate in ("PodDeletionCost", "LogarithmicScaleDown"))
        annotation = self.env.names.annotation_pod_deletion_cost if costs else ""
        wall_us = self.env.ctx.wall_us() if steps else None
        victims = choose_victims(pods, surplus, self._on_node(owner), annotation, wall_us)
        if len(victims) < len(pods):
            for ratio in age_ratios(pods, victims, self.env.ctx.wall_us()):
                observe(self.env.ctx.kernel, AGE_RATIO, ratio)
        self.expectations.expect_deletes(key, [key_of(pod) for pod in victims])
        return await self.control.delete(owner, victims)

    def _on_node(self, owner: Obj) -> dict[str, int]:
        """Node -> number of active pods that are selected by sets with the same controller.

        Quirk: empty for a set without a controller.
        """
        counts: dict[str, int] = {}
        ref = controller_of(owner)
        if ref is None:
            return counts
        seen: set[str] = set()  # membership only
        for related in self.sets.by_index("controller", ref["uid"]):
            selector = from_selector(related["spec"].get("selector"))
            for pod in labelled(self.pods, related["metadata"]["namespace"], selector):
                uid = pod["metadata"]["uid"]
                if is_active(pod) and uid not in seen:
                    seen.add(uid)
                    node = pod["spec"].get("nodeName", "")
                    counts[node] = counts.get(node, 0) + 1
        return counts

    async def _write_status(self, owner: Obj, status: Obj) -> str | None:
        """Write a status that differs; on failure, read the set and write once more."""
        if not needs_write(owner, status):
            return None
        reply = await self.client.update(
            self.flavour.resource, {**owner, "status": status}, subresource="status"
        )
        if reply.ok:
            return None
        meta = owner["metadata"]
        live: Any = await self.client.get(self.flavour.resource, meta["namespace"], meta["name"])
        if not live.ok:
            # Quirk: upstream reports the failed read, not the failed write.
            return str(live.message)
        reply = await self.client.update(
            self.flavour.resource, {**live.obj, "status": status}, subresource="status"
        )
        return None if reply.ok else reply.message
