"""Disruption controller: computes how many pods of a PodDisruptionBudget may be evicted now.

Turns a budget, its pods and the scales of their controllers into the budget's status; the API
server grants evictions by that status.

Holds: if the number of expected pods is unknown, no eviction is allowed (fail safe); a pod with a
       granted eviction counts as gone for 120 s.

Mirrors  kubernetes v1.25 pkg/controller/disruption/disruption.go.
Differs  the recheck queue is a delayed add of the budget's key; a stale DisruptionTarget condition
         is not removed after two minutes; a pod update that changes neither labels, readiness,
         phase, owner nor deletion queues no key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from actors.controllers.shared.pod_owners import (
    LABEL_INDEX,
    NAMESPACE_INDEX,
    index_by_labels,
    index_by_namespace,
    int_or_percent,
    label_values,
    latest_cause,
    pair_of,
    pod_changed,
)
from actors.controllers.shared.shell import Env, run_workers
from sim.api.objects import condition_of, controller_of, is_deleting, is_ready, key_of, replicas_of
from sim.api.selectors import from_selector
from sim.api.types import Obj
from sim.client.cache.derived import Digests
from sim.dataclass import dataclass
from sim.units import SECOND, format_time, parse_time

RESOURCE = "poddisruptionbudgets"
DELETION_TIMEOUT_US = 2 * 60 * SECOND  # disruption.go: DeletionTimeout
ALLOWED = "DisruptionAllowed"
PAIR_INDEX = "selector-pair"
_WORKLOADS = ("apps", "extensions")
_GROUPS = {
    "ReplicationController": ("",),
    "ReplicaSet": _WORKLOADS,
    "Deployment": _WORKLOADS,
    "StatefulSet": ("apps",),
}


async def start(env: Env) -> None:
    """Run the disruption controller until its process ends."""
    loop = DisruptionLoop(env)
    await env.informers.start_and_sync()
    loop.attribute_causes()
    run_workers(env, loop.queue, loop.sync, 1)


def pair_values(budget: Obj) -> tuple[str, ...]:
    """The namespace with one label that the selector requires, or alone if it requires none."""
    namespace = budget["metadata"]["namespace"]
    labels = (budget["spec"].get("selector") or {}).get("matchLabels")
    return (pair_of(namespace, labels) if labels else f"{namespace}/",)


# --- pure decisions -------------------------------------------------------------------------------


def needs_scale(budget: Obj) -> bool:
    """True if the number of expected pods is the sum of their controllers' scales."""
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        return True
    return isinstance(spec.get("minAvailable"), str)


def desired_healthy(budget: Obj, expected: int) -> int:
    """The number of pods that must stay healthy; percentages of both fields round up."""
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - int_or_percent(spec["maxUnavailable"], expected, True))
    return int_or_percent(spec.get("minAvailable", 0), expected, True)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The parts of a pod that a budget depends on.

    owner: reference to the pod's controller, None for an orphan
    """

    key: str
    name: str
    labels: Mapping[str, str]
    deleting: bool
    ready: bool
    owner: Obj | None


def facts_of(pod: Obj) -> PodFacts:
    """The facts of a pod."""
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    return PodFacts(key_of(pod), meta["name"], labels, is_deleting(pod), is_ready(pod), controller_of(pod))


def selected(pods: Sequence[PodFacts], matches: Callable[[Mapping[str, str]], bool]) -> list[PodFacts]:
    """The pods with matching labels, evaluated once for each labels object, as pods share these."""
    answers: dict[int, bool] = {}
    found = []
    for pod in pods:
        answer = answers.get(id(pod.labels))
        if answer is None:
            answer = answers[id(pod.labels)] = matches(pod.labels)
        if answer:
            found.append(pod)
    return found


def disrupted_pods(
    budget: Obj, pods: Sequence[PodFacts], wall_us: int
) -> tuple[dict[str, str], list[PodFacts], int | None]:
    """(evictions still pending, pods that should be gone by now, next check in Unix time or None)."""
    granted = budget.get("status", {}).get("disruptedPods") or {}
    kept: dict[str, str] = {}
    late: list[PodFacts] = []
    recheck_us: int | None = None
    for pod in pods if granted else ():
        name = pod.name
        if pod.deleting or name not in granted:
            continue
        expires_us = parse_time(granted[name]) + DELETION_TIMEOUT_US
        if expires_us < wall_us:
            late.append(pod)
        else:
            kept[name] = granted[name]
            recheck_us = expires_us if recheck_us is None else min(recheck_us, expires_us)
    return kept, late, recheck_us


def count_healthy(pods: Sequence[PodFacts], disrupted: dict[str, str]) -> int:
    """The number of ready pods that are neither terminating nor to be evicted."""
    return sum(pod.ready and not pod.deleting and pod.name not in disrupted for pod in pods)


def next_status(budget: Obj, healthy: int, expected: int, disrupted: dict[str, str], wall_us: int) -> Obj:
    """The new status (Quirk: it gets a new condition, so its transition time is always now)."""
    desired = desired_healthy(budget, expected)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = budget["metadata"].get("generation", 0)
    condition = {
        "type": ALLOWED,
        "status": "True" if allowed else "False",
        "observedGeneration": generation,
        "lastTransitionTime": format_time(wall_us),
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    status: Obj = {
        "observedGeneration": generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": [condition],
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    return status


def is_up_to_date(budget: Obj, status: Obj) -> bool:
    """True if the stored status is equal apart from the time of the condition."""
    stored = budget.get("status") or {}
    had = condition_of(budget, ALLOWED)
    if had is None or any(had.get(k) != status["conditions"][0][k] for k in ("status", "reason")):
        return False
    return {**stored, "conditions": None} == {**status, "conditions": None}


def failed_status(budget: Obj, message: str, wall_us: int) -> Obj:
    """The status that allows no evictions after a failed sync."""
    stored = budget.get("status") or {}
    conditions = list(stored.get("conditions") or ())
    had = condition_of(budget, ALLOWED)
    made = {
        "type": ALLOWED,
        "status": "False",
        "lastTransitionTime": had["lastTransitionTime"]
        if had is not None and had["status"] == "False"
        else format_time(wall_us),
        "reason": "SyncFailed",
        "message": message,
    }
    if stored.get("observedGeneration"):
        made["observedGeneration"] = stored["observedGeneration"]
    return {
        **stored,
        "disruptionsAllowed": 0,
        "conditions": [*(c for c in conditions if c["type"] != ALLOWED), made],
    }


# --- shell ----------------------------------------------------------------------------------------


class _Failed(Exception):
    """The number of expected pods is unknown."""


class DisruptionLoop:
    """Shell of the controller: handlers, queue, and the sync of one budget."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.client = env.client("disruption-controller")
        self.scales = env.client("disruption-controller")
        self.recorder = env.recorder("controllermanager", self.client)
        self.queue = env.queue("disruption")
        self.budgets = env.informers[RESOURCE]
        self.pods = env.informers["pods"]
        self.controllers = {
            "ReplicationController": env.informers["replicationcontrollers"],
            "ReplicaSet": env.informers["replicasets"],
            "Deployment": env.informers["deployments"],
            "StatefulSet": env.informers["statefulsets"],
        }
        index_by_namespace(self.budgets)
        self.budgets.add_index(PAIR_INDEX, pair_values, ("spec", "selector"))
        index_by_labels(self.pods)
        self._labelled = Digests(self.pods, LABEL_INDEX, facts_of)
        self._in_namespace = Digests(self.pods, NAMESPACE_INDEX, facts_of)
        self._no_budgets = True  # pod events need no lookup
        self.budgets.on(add=self._changed, update=lambda old, new: self._changed(new), delete=self._deleted)
        self.pods.on(add=self._pod_changed, update=self._pod_updated, delete=self._pod_changed)

    def _changed(self, budget: Obj) -> None:
        self._no_budgets = not self.budgets.objects
        self.queue.add(key_of(budget))

    def _deleted(self, budget: Obj) -> None:
        self._changed(budget)
        namespace, pair = budget["metadata"]["namespace"], pair_values(budget)[0]
        self._labelled.forget(pair)
        self._in_namespace.forget(namespace)

    def _pod_updated(self, old: Obj, new: Obj) -> None:
        if not self._no_budgets and pod_changed(old, new):
            self._pod_changed(new)

    def _pod_changed(self, pod: Obj) -> None:
        """Queue the pod's budget (Quirk: of several, the first, with an event on the pod)."""
        if self._no_budgets:
            return
        namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
        values = (f"{namespace}/", *label_values(pod))
        matching = [budget for value in values for budget in self._matching(PAIR_INDEX, value, labels)]
        if not matching:
            return
        if len(matching) > 1:  # restore the order of arrival
            matching = self._matching(NAMESPACE_INDEX, namespace, labels)
        if len(matching) > 1:
            meta, first = pod["metadata"], matching[0]["metadata"]["name"]
            text = (
                f'Pod "{meta["namespace"]}"/"{meta["name"]}" matches multiple PodDisruptionBudgets.  '
                f'Chose "{first}" arbitrarily.'
            )
            self.recorder.event(pod, "Warning", "MultiplePodDisruptionBudgets", text)
        self.queue.add(key_of(matching[0]))

    def attribute_causes(self) -> None:
        """Attribute each queued budget to the latest change of its pods.

        Call before the first sync.

        Pods may have been listed before budgets, so no handler has attributed their changes.
        """
        for budget in self.budgets.list():
            found = self.pods.items_by_index(*self._index_of(budget))
            if found or (budget.get("status") or {}).get("currentHealthy"):
                cause = latest_cause(self.queue, self.pods, found, budget["metadata"]["namespace"])
                self.queue.add_cause(key_of(budget), cause)

    def _matching(self, index: str, value: str, labels: Mapping[str, str]) -> list[Obj]:
        found = self.budgets.by_index(index, value)
        return [budget for budget in found if from_selector(budget["spec"].get("selector")).matches(labels)]

    async def sync(self, key: str) -> str | None:
        """Update the status of one budget; returns an error text or None."""
        budget = self.budgets.get(key)
        if budget is None:
            return None
        namespace, selector = budget["metadata"]["namespace"], from_selector(budget["spec"].get("selector"))
        pods = selected(self._candidates(budget), selector.matches)
        if not pods:
            self.recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        try:
            expected = await self._expected(namespace, pods) if needs_scale(budget) else len(pods)
        except _Failed as failed:
            text = f"Failed to calculate the number of expected pods: {failed}"
            self.recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            return await self._fail_safe(budget, str(failed))
        if "minAvailable" not in budget["spec"] and not needs_scale(budget):
            expected = 0
        wall_us = self.env.ctx.wall_us()
        disrupted, late, recheck_us = disrupted_pods(budget, pods, wall_us)
        for pod in late:
            # Quirk: upstream fills in the namespace twice
            text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            self.recorder.event(self.pods.objects[pod.key], "Warning", "NotDeleted", text)
        status = next_status(budget, count_healthy(pods, disrupted), expected, disrupted, wall_us)
        if not is_up_to_date(budget, status):
            reply = await self.client.update(RESOURCE, {**budget, "status": status}, subresource="status")
            if reply.reason == "Conflict":
                return reply.message
            if not reply.ok:
                return await self._fail_safe(budget, reply.message)
        if recheck_us is not None:
            # One microsecond later, as the eviction is still pending at the exact end.
            self.queue.add_after_us(key, recheck_us - wall_us + 1)
        return None

    def _candidates(self, budget: Obj) -> list[PodFacts]:
        """The pods with the label that the selector requires, or all pods of the namespace."""
        index, value = self._index_of(budget)
        return (self._labelled if index == LABEL_INDEX else self._in_namespace).of(value)

    def _index_of(self, budget: Obj) -> tuple[str, str]:
        """(index of pods, value that all pods of the budget have in it)."""
        if not (budget["spec"].get("selector") or {}).get("matchLabels"):
            index_by_namespace(self.pods)
            return NAMESPACE_INDEX, budget["metadata"]["namespace"]
        return LABEL_INDEX, pair_values(budget)[0]

    async def _fail_safe(self, budget: Obj, message: str) -> str | None:
        status = failed_status(budget, message, self.env.ctx.wall_us())
        reply = await self.client.update(RESOURCE, {**budget, "status": status}, subresource="status")
        return None if reply.ok else reply.message

    async def _expected(self, namespace: str, pods: Sequence[PodFacts]) -> int:
        """Sum of the scales of the pods' distinct controllers; pods without one are skipped."""
        scales: dict[str, int] = {}
        for pod in pods:
            ref = pod.owner
            if ref is None or ref["uid"] in scales:
                continue
            found = await self._scale(ref, namespace)
            if found is None:
                raise _Failed(f'found no controllers for pod "{pod.name}"')
            uid, scale = found
            scales[ref["uid"]] = 0  # mark this reference as done
            scales[uid] = scale
        return sum(scales.values())

    def _cached(self, ref: Obj, namespace: str) -> Obj | None:
        if ref["apiVersion"].rpartition("/")[0] not in _GROUPS.get(ref["kind"], ()):
            return None
        found = self.controllers[ref["kind"]].get(f"{namespace}/{ref['name']}")
        return found if found is not None and found["metadata"]["uid"] == ref["uid"] else None

    async def _scale(self, ref: Obj, namespace: str) -> tuple[str, int] | None:
        # A Deployment counts only as the controller of a ReplicaSet.
        found = self._cached(ref, namespace) if ref["kind"] != "Deployment" else None
        if found is not None and ref["kind"] == "ReplicaSet":
            above = controller_of(found)
            if above is not None and above["kind"] == "Deployment":
                found = self._cached(above, namespace)
        if found is not None:
            return found["metadata"]["uid"], replicas_of(found)
        resource = self.env.scheme.by_kind(ref["apiVersion"], ref["kind"])
        if resource is None:
            raise _Failed(f'no matches for kind "{ref["kind"]}" in version "{ref["apiVersion"]}"')
        request = self.scales.request("get", resource, namespace, ref["name"], subresource="scale")
        reply = await self.scales.ask(request)
        if reply.ok:
            scale = reply.obj
            uid = scale["metadata"].get("uid", "")
            return (uid, int(scale["spec"].get("replicas", 0))) if uid == ref["uid"] else None
        if reply.reason != "NotFound":
            raise _Failed(reply.message)
        if resource.subresource("scale") is not None:
            return None
        raise _Failed(f"{resource.group_resource} does not implement the scale subresource")
