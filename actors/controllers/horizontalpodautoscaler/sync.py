"""One sync of an autoscaler as steps: what is read and written, and what follows an answer.  Pure.

Turns an autoscaler, the scale of its target and its metrics into a new scale and a status.

Mirrors  kubernetes v1.25 pkg/controller/podautoscaler/horizontal.go (reconcileAutoscaler,
         scaleForResourceMappings, computeReplicasForMetrics, setStatus, updateStatusIfNeeded).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import NamedTuple

from actors.controllers.horizontalpodautoscaler import decide
from actors.controllers.horizontalpodautoscaler import metric_sources as sources
from actors.controllers.horizontalpodautoscaler.metrics_apis import Asked
from actors.controllers.shared.metrics_api import Metrics
from actors.controllers.shared.steps import Event, SyncFailed, T, Update
from sim.api.schema.resource import Resource
from sim.api.selectors import LabelSelector, SelectorError, parse_labels
from sim.api.types import Obj, Reply
from sim.dataclass import dataclass
from sim.units import format_time

AUTOSCALERS = "horizontalpodautoscalers"


@dataclass(frozen=True, slots=True)
class GetScale:
    """Read the scale of a target."""

    resource: Resource
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class SetScale:
    """Write the scale of a target.

    why: the facts of the decision, with the trace record of the newest measurement as its cause
    """

    resource: Resource
    scale: Obj
    target: str
    why: Obj
    cause: int


@dataclass(frozen=True, slots=True)
class ReadMetric:
    """Find the source of a metric.  Answer: the source"""

    asked: Asked


Action = GetScale | SetScale | ReadMetric | Update | Event


class Answer(NamedTuple):
    """What follows an action, and the time by both clocks of the process."""

    reply: Reply
    source: Metrics | None
    now_us: int
    wall_us: int


Steps = Generator[Action, Answer, T]


class Seen(NamedTuple):
    """What a sync sees besides the autoscaler.

    resources: those that a target may have
    pods_of: the pods of a namespace that a selector matches
    history: what is remembered of the autoscaler; None if this is its first sync
    now_us, wall_us: the time by both clocks
    """

    resources: Iterable[Resource]
    pods_of: Callable[[str, LabelSelector], Sequence[Obj]]
    periods: decide.Periods
    history: decide.History | None
    now_us: int
    wall_us: int


class Outcome(NamedTuple):
    """The end of a sync: the error text, and what is remembered."""

    error: str | None
    history: decide.History | None


def reconcile(hpa: Obj, seen: Seen) -> Steps[Outcome]:
    """The sync of an autoscaler."""
    return _Sync(hpa, seen).run()


class _Sync:
    """The status as it will be written, and the scale of the target.

    current: replicas in the spec of the scale; observed: those in its status
    cause: trace record of the newest measurement, 0 if there is none
    """

    def __init__(self, hpa: Obj, seen: Seen) -> None:
        self.seen = seen
        self.hpa = hpa
        self.spec: Obj = hpa["spec"]
        self.status: Obj = dict(hpa.get("status") or {})
        self.namespace: str = hpa["metadata"]["namespace"]
        self.history = seen.history or decide.History()
        self.now_us, self.wall_us = seen.now_us, seen.wall_us
        self.scale: Obj = {}
        self.current = self.observed = self.cause = 0

    def _do(self, action: Action) -> Steps[Answer]:
        answer = yield action
        self.now_us, self.wall_us = answer.now_us, answer.wall_us
        return answer

    def run(self) -> Steps[Outcome]:
        error, found = None, False
        try:
            resource = yield from self._find_scale()
            found = True
            yield from self._decide(resource)
        except SyncFailed as failure:
            error = str(failure)
        return Outcome(error, self.history if found else self.seen.history)

    # --- the target -------------------------------------------------------------------------------

    def _find_scale(self) -> Steps[Resource]:
        """Read the scale of the target.  Raises SyncFailed."""
        try:
            resource = yield from self._get_scale()
        except SyncFailed as failure:
            text = f"the HPA controller was unable to get the target's current scale: {failure}"
            self._set_condition("AbleToScale", "False", "FailedGetScale", text)
            yield from self._warn("FailedGetScale", str(failure))
            yield from self._write()
            raise
        text = "the HPA controller was able to get the target's current scale"
        self._set_condition("AbleToScale", "True", "SucceededGetScale", text)
        if self.seen.history is None:
            self.history = decide.History((decide.Moment(self.current, self.now_us),))
        return resource

    def _get_scale(self) -> Steps[Resource]:
        """Find the target's resource and read its scale, trying its versions.  Raises SyncFailed."""
        target = self.spec["scaleTargetRef"]
        given, kind = target.get("apiVersion", ""), target["kind"]
        group, slash, version = given.rpartition("/")
        if "/" in group or (slash and not (group and version)):
            raise SyncFailed(f"unexpected GroupVersion string: {given}")
        found = [r for r in self.seen.resources if r.group == group and r.kind == kind]
        problem = "" if found else f'no matches for kind "{kind}" in group "{group}"'
        for resource in found:
            reply = (yield from self._do(GetScale(resource, self.namespace, target["name"]))).reply
            if reply.ok:
                scale: Obj = reply.body
                self.scale = scale
                self.current = (scale.get("spec") or {}).get("replicas", 0)
                self.observed = (scale.get("status") or {}).get("replicas", 0)
                return resource
            problem = problem or reply.message
        raise SyncFailed(problem)

    # --- the size ---------------------------------------------------------------------------------

    def _decide(self, resource: Resource) -> Steps[None]:
        spec, current = self.spec, self.current
        low, high = spec.get("minReplicas", 1), spec["maxReplicas"]
        shown: list[Obj] | None = None
        wanted, why = current, ""
        if current == 0 and low != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set_condition("ScalingActive", "False", "ScalingDisabled", text)
        elif current > high:
            wanted, why = high, "Current number of replicas above Spec.MaxReplicas"
        elif current < low:
            wanted, why = low, "Current number of replicas below Spec.MinReplicas"
        else:
            try:
                proposed, name, shown = yield from self._compute()
            except SyncFailed as failure:
                self._keep_status()
                failed = f"failed to compute desired number of replicas: {failure}"
                try:
                    yield from self._write()
                except SyncFailed as unwritten:
                    failed = str(unwritten)
                yield from self._warn("FailedComputeMetricsReplicas", str(failure))
                raise SyncFailed(failed) from None
            if proposed != current:
                why = f"{name} above target" if proposed > current else "All metrics below target"
            bounds = decide.Bounds(low, high, spec.get("behavior"), current, self.now_us)
            size = decide.normalize(proposed, bounds, self.history, self.seen.periods.downscale_us)
            self.history = size.history
            for condition in size.conditions:
                self._set_condition(condition.type, condition.status, condition.reason, condition.message)
            wanted = size.replicas
        if wanted != current:
            yield from self._rescale(resource, wanted, why)
            self.status["lastScaleTime"] = format_time(self.wall_us)
        self._set_status(wanted, shown)
        yield from self._write()

    def _rescale(self, resource: Resource, wanted: int, why: str) -> Steps[None]:
        scale = {**self.scale, "spec": {**(self.scale.get("spec") or {}), "replicas": wanted}}
        facts = {"from": self.current, "to": wanted, "why": why}
        target = f"{resource.plural}/{self.namespace}/{self.spec['scaleTargetRef']['name']}"
        reply = (yield from self._do(SetScale(resource, scale, target, facts, self.cause))).reply
        if not reply.ok:
            yield from self._warn(
                "FailedRescale", f"New size: {wanted}; reason: {why}; error: {reply.message}"
            )
            text = f"the HPA controller was unable to update the target scale: {reply.message}"
            self._set_condition("AbleToScale", "False", "FailedUpdateScale", text)
            self._keep_status()
            yield from self._write()
            raise SyncFailed(f"failed to rescale: {reply.message}")
        text = f"the HPA controller was able to update the target scale to {wanted}"
        self._set_condition("AbleToScale", "True", "SucceededRescale", text)
        text = f"New size: {wanted}; reason: {why}"
        yield from self._do(Event(self.hpa, "Normal", "SuccessfulRescale", text))
        self.history = self.history.scaled(self.current, wanted, self.spec.get("behavior"), self.now_us)

    # --- metrics ----------------------------------------------------------------------------------

    def _compute(self) -> Steps[tuple[int, str, list[Obj]]]:
        """(largest proposal, name of its metric, metrics for the status).  Raises SyncFailed."""
        wall_us = self.wall_us
        text = (self.scale.get("status") or {}).get("selector", "")
        if not text:
            yield from self._warn("SelectorRequired", "selector is required")
            missing = "the HPA target's scale is missing a selector"
            self._set_condition("ScalingActive", "False", "InvalidSelector", missing)
            raise SyncFailed("selector is required")
        try:
            selector = parse_labels(text)
        except SelectorError as error:  # a custom resource can have any text as its selector
            invalid = f"couldn't convert selector into a corresponding internal selector object: {error}"
            yield from self._warn("InvalidSelector", invalid)
            self._set_condition("ScalingActive", "False", "InvalidSelector", invalid)
            raise SyncFailed(invalid) from error
        pods = self.seen.pods_of(self.namespace, selector)
        target = sources.Target(self.namespace, pods, self.current, self.observed, wall_us)
        found: list[sources.Found] = []
        failed: list[sources.Failed] = []
        shown: list[Obj] = []
        for metric in self.spec["metrics"]:
            source = (yield from self._do(ReadMetric(Asked(metric, self.namespace, text)))).source
            assert source is not None
            result = sources.compute(source, metric, target, self.seen.periods)
            if isinstance(result, sources.Found):
                found.append(result)
                shown.append(result.shown)
                self.cause = max(self.cause, result.cause)
            else:
                failed.append(result)
                shown.append({"type": ""})
                yield from self._warn(result.reason, result.problem)
        best = max(found, key=lambda result: result.replicas, default=None)
        if best is not None and not best.replicas:
            best = found[-1]  # Quirk: if all propose 0 replicas, the last metric is reported
        if best is None or (failed and best.replicas < self.current):
            first = failed[0]
            why = f"the HPA was unable to compute the replica count: {first.problem}"
            self._set_condition("ScalingActive", "False", first.reason, why)
            count = f"{len(failed)} invalid out of {len(shown)}"
            raise SyncFailed(f"invalid metrics ({count}), first error is: {first.error}")
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._set_condition("ScalingActive", "True", "ValidMetricFound", text)
        return best.replicas, best.name, shown

    # --- status -----------------------------------------------------------------------------------

    def _warn(self, reason: str, text: str) -> Steps[None]:
        yield from self._do(Event(self.hpa, "Warning", reason, text))

    def _set_condition(self, kind: str, status: str, reason: str, message: str) -> None:
        """Set a condition; its transition time changes only with its status."""
        known = list(self.status.get("conditions") or ())
        at = next((i for i, stored in enumerate(known) if stored["type"] == kind), len(known))
        stored = known[at] if at < len(known) else {}
        since = stored.get("lastTransitionTime") if stored.get("status") == status else None
        known[at : at + 1] = [
            {
                "type": kind,
                "status": status,
                "lastTransitionTime": since or format_time(self.wall_us),
                "reason": reason,
                "message": message,
            }
        ]
        self.status["conditions"] = known

    def _keep_status(self) -> None:
        self._set_status(self.status.get("desiredReplicas", 0), self.status.get("currentMetrics"))

    def _set_status(self, desired: int, shown: list[Obj] | None) -> None:
        self.status |= {"desiredReplicas": desired, "currentMetrics": shown}
        self.status.pop("currentReplicas", None)
        self.status.pop("observedGeneration", None)
        if self.current:
            self.status["currentReplicas"] = self.current

    def _write(self) -> Steps[None]:
        """Write the status if it differs.  Raises SyncFailed."""
        if self.status == (self.hpa.get("status") or {}):
            return
        written = {**self.hpa, "status": self.status}
        reply = (yield from self._do(Update(AUTOSCALERS, written, "status"))).reply
        if not reply.ok:
            yield from self._warn("FailedUpdateStatus", reply.message)
            raise SyncFailed(f"failed to update status: {reply.message}")
