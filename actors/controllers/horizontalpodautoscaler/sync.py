"""HorizontalPodAutoscaler controller: scales a target to the size that its metrics require.

Turns an autoscaler, the scale of its target and its metrics into a new scale and a status.

Holds: an autoscaler is synced once per sync period, independent of other events; the history of
       recommendations is in memory only and uses the monotonic clock (Go compares times by it),
       while the ages of pods, which come from the API, use the wall clock.

Mirrors  kubernetes v1.25 pkg/controller/podautoscaler/{horizontal.go,rate_limiters.go}.
Differs  no known deviation.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from actors.controllers.horizontalpodautoscaler import decide
from actors.controllers.horizontalpodautoscaler import metric_sources as sources
from actors.controllers.horizontalpodautoscaler.metrics_apis import Asked, source_of
from actors.controllers.shared.pod_owners import labelled
from actors.controllers.shared.shell import Env
from sim.api.objects import key_of
from sim.api.selectors import SelectorError, parse_labels
from sim.api.types import Obj, Reply
from sim.client.queue import WorkQueue
from sim.client.rest.limiter import ItemExponential
from sim.dataclass import dataclass
from sim.units import format_time

CLIENT = "horizontal-pod-autoscaler"


@dataclass(slots=True)
class _SyncState:
    """State of one sync: the autoscaler's status as it will be written, and the target's scale.

    current: replicas in the spec of the target's scale
    observed: replicas in the status of the target's scale
    usage_cause: trace record of the newest measurement, 0 if there is none
    """

    key: str
    hpa: Obj
    status: Obj
    namespace: str
    scale: Obj = field(default_factory=dict)
    resource: Any = None
    current: int = 0
    observed: int = 0
    usage_cause: int = 0

    @property
    def spec(self) -> Obj:
        """The spec of the autoscaler."""
        spec: Obj = self.hpa["spec"]
        return spec


class AutoscalerLoop:
    """Shell of the controller: the queue, and the sync of one autoscaler."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.client = env.client(CLIENT)
        self.scales = env.client(CLIENT)
        self.recorder = env.recorder(CLIENT, self.client)
        options = env.options
        self._period_us = options.horizontal_pod_autoscaler_sync_period_us
        self.queue = WorkQueue(
            env.ctx, "horizontalpodautoscaler", ItemExponential(self._period_us, self._period_us)
        )
        self.autoscalers = env.informers["horizontalpodautoscalers"]
        self.pods = env.informers["pods"]
        self._failed = env.ctx.kernel.kind("sync-error", "queue", "key", "error")
        self._history: dict[str, decide.History] = {}
        self._periods = decide.Periods(
            options.horizontal_pod_autoscaler_tolerance,
            options.horizontal_pod_autoscaler_downscale_stabilization_us,
            options.horizontal_pod_autoscaler_cpu_initialization_period_us,
            options.horizontal_pod_autoscaler_initial_readiness_delay_us,
        )
        self.autoscalers.on(add=self._changed, update=lambda _, new: self._changed(new))

    def _changed(self, hpa: Obj) -> None:
        self.queue.add_rate_limited(key_of(hpa))

    async def work(self) -> None:
        """Sync each key once per period until its autoscaler is deleted."""
        while True:
            key = await self.queue.get()
            hpa = self.autoscalers.get(key)
            if hpa is None:
                self._history.pop(key, None)
            else:
                error = await self.sync(key, hpa)
                if error is not None:
                    self.env.ctx.record(self._failed, (self.queue.name, key, error))
                self.queue.add_rate_limited(key)
            self.queue.done(key)

    async def sync(self, key: str, hpa: Obj) -> str | None:
        """Scale the target of one autoscaler; returns an error text or None."""
        state = _SyncState(key, hpa, dict(hpa.get("status") or {}), hpa["metadata"]["namespace"])
        problem = await self._get_scale(state)
        if problem is not None:
            text = f"the HPA controller was unable to get the target's current scale: {problem}"
            self._set_condition(state, decide.Condition("AbleToScale", "False", "FailedGetScale", text))
            self._warn(state, "FailedGetScale", problem)
            return await self._write(state) or problem
        text = "the HPA controller was able to get the target's current scale"
        self._set_condition(state, decide.Condition("AbleToScale", "True", "SucceededGetScale", text))
        first = decide.Moment(state.current, self.env.ctx.now_us())
        self._history.setdefault(key, decide.History((first,)))
        return await self._decide(state)

    # --- the target -------------------------------------------------------------------------------

    async def _get_scale(self, state: _SyncState) -> str | None:
        """Find the target's resource and read its scale, trying its versions; returns an error or
        None.
        """
        target = state.spec["scaleTargetRef"]
        given = target.get("apiVersion", "")
        group, slash, version = given.rpartition("/")
        if "/" in group or (slash and not (group and version)):
            return f"unexpected GroupVersion string: {given}"
        kind = target["kind"]
        known = (*self.env.scheme.resources, *self.env.scheme.more.served.resources)
        found = [r for r in known if r.group == group and r.kind == kind]
        if not found:
            return f'no matches for kind "{kind}" in group "{group}"'
        problem = ""
        for resource in found:
            request = self.scales.request(
                "get", resource, state.namespace, target["name"], subresource="scale"
            )
            reply = await self.scales.ask(request)
            if reply.ok:
                state.scale, state.resource = _body(reply), resource
                state.current = (state.scale.get("spec") or {}).get("replicas", 0)
                state.observed = (state.scale.get("status") or {}).get("replicas", 0)
                return None
            problem = problem or reply.message
        return problem

    # --- the size ---------------------------------------------------------------------------------

    async def _decide(self, state: _SyncState) -> str | None:
        spec, current = state.spec, state.current
        low, high = spec.get("minReplicas", 1), spec["maxReplicas"]
        shown: list[Obj] | None = None
        wanted, why = current, ""
        if current == 0 and low != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set_condition(state, decide.Condition("ScalingActive", "False", "ScalingDisabled", text))
        elif current > high:
            wanted, why = high, "Current number of replicas above Spec.MaxReplicas"
        elif current < low:
            wanted, why = low, "Current number of replicas below Spec.MinReplicas"
        else:
            found = await self._compute(state, self.env.ctx.wall_us())
            if isinstance(found, str):
                self._set_status(
                    state, state.status.get("desiredReplicas", 0), state.status.get("currentMetrics")
                )
                error = await self._write(state)
                self._warn(state, "FailedComputeMetricsReplicas", found)
                return error or f"failed to compute desired number of replicas: {found}"
            proposed, name, shown = found
            if proposed != current:
                why = f"{name} above target" if proposed > current else "All metrics below target"
            bounds = decide.Bounds(low, high, spec.get("behavior"), current, self.env.ctx.now_us())
            size = decide.normalize(proposed, bounds, self._history[state.key], self._periods.downscale_us)
            self._history[state.key] = size.history
            for condition in size.conditions:
                self._set_condition(state, condition)
            wanted = size.replicas
        if wanted != current:
            error = await self._rescale(state, wanted, why)
            if error is not None:
                return error
            state.status["lastScaleTime"] = format_time(self.env.ctx.wall_us())
        self._set_status(state, wanted, shown)
        return await self._write(state)

    async def _rescale(self, state: _SyncState, wanted: int, why: str) -> str | None:
        scale = {**state.scale, "spec": {**(state.scale.get("spec") or {}), "replicas": wanted}}
        facts = {"from": state.current, "to": wanted, "why": why}
        target = f"{state.resource.plural}/{state.namespace}/{state.spec['scaleTargetRef']['name']}"
        self.env.ctx.decided("autoscale", target, facts, state.usage_cause)
        reply = await self.scales.update(state.resource, scale, subresource="scale")
        if not reply.ok:
            self._warn(state, "FailedRescale", f"New size: {wanted}; reason: {why}; error: {reply.message}")
            text = f"the HPA controller was unable to update the target scale: {reply.message}"
            self._set_condition(state, decide.Condition("AbleToScale", "False", "FailedUpdateScale", text))
            self._set_status(
                state, state.status.get("desiredReplicas", 0), state.status.get("currentMetrics")
            )
            return await self._write(state) or f"failed to rescale: {reply.message}"
        text = f"the HPA controller was able to update the target scale to {wanted}"
        self._set_condition(state, decide.Condition("AbleToScale", "True", "SucceededRescale", text))
        self.recorder.event(state.hpa, "Normal", "SuccessfulRescale", f"New size: {wanted}; reason: {why}")
        history, now_us = self._history[state.key], self.env.ctx.now_us()
        self._history[state.key] = history.scaled(state.current, wanted, state.spec.get("behavior"), now_us)
        return None

    # --- metrics ----------------------------------------------------------------------------------

    async def _compute(self, state: _SyncState, wall_us: int) -> tuple[int, str, list[Obj]] | str:
        """(largest proposal, name of its metric, metrics for the status), or an error text."""
        text = (state.scale.get("status") or {}).get("selector", "")
        if not text:
            self._warn(state, "SelectorRequired", "selector is required")
            missing = "the HPA target's scale is missing a selector"
            self._set_condition(state, decide.Condition("ScalingActive", "False", "InvalidSelector", missing))
            return "selector is required"
        try:
            selector = parse_labels(text)
        except SelectorError as error:  # a custom resource can have any text as its selector
            invalid = f"couldn't convert selector into a corresponding internal selector object: {error}"
            self._warn(state, "InvalidSelector", invalid)
            self._set_condition(state, decide.Condition("ScalingActive", "False", "InvalidSelector", invalid))
            return invalid
        pods = labelled(self.pods, state.namespace, selector)
        target = sources.Target(state.namespace, pods, state.current, state.observed, wall_us)
        found: list[sources.Found] = []
        failed: list[sources.Failed] = []
        shown: list[Obj] = []
        for metric in state.spec["metrics"]:
            asked = Asked(metric, state.namespace, text)
            source = await source_of(self.env.metrics, self.client, self.env.scheme, asked)
            result = sources.compute(source, metric, target, self._periods)
            if isinstance(result, sources.Found):
                found.append(result)
                shown.append(result.shown)
                state.usage_cause = max(state.usage_cause, result.cause)
            else:
                failed.append(result)
                shown.append({"type": ""})
                self._warn(state, result.reason, result.problem)
        best = max(found, key=lambda result: result.replicas, default=None)
        if best is not None and not best.replicas:
            best = found[-1]  # Quirk: if all propose 0 replicas, the last metric is reported
        if best is None or (failed and best.replicas < state.current):
            first = failed[0]
            why = f"the HPA was unable to compute the replica count: {first.problem}"
            self._set_condition(state, decide.Condition("ScalingActive", "False", first.reason, why))
            count = f"{len(failed)} invalid out of {len(shown)}"
            return f"invalid metrics ({count}), first error is: {first.error}"
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._set_condition(state, decide.Condition("ScalingActive", "True", "ValidMetricFound", text))
        return best.replicas, best.name, shown

    # --- status -----------------------------------------------------------------------------------

    def _warn(self, state: _SyncState, reason: str, text: str) -> None:
        self.recorder.event(state.hpa, "Warning", reason, text)

    def _set_condition(self, state: _SyncState, condition: decide.Condition) -> None:
        """Set a condition; its transition time changes only with its status."""
        known = list(state.status.get("conditions") or ())
        at = next((i for i, stored in enumerate(known) if stored["type"] == condition.type), len(known))
        stored = known[at] if at < len(known) else {}
        since = stored.get("lastTransitionTime") if stored.get("status") == condition.status else None
        known[at : at + 1] = [
            {
                "type": condition.type,
                "status": condition.status,
                "lastTransitionTime": since or format_time(self.env.ctx.wall_us()),
                "reason": condition.reason,
                "message": condition.message,
            }
        ]
        state.status["conditions"] = known

    def _set_status(self, state: _SyncState, desired: int, shown: list[Obj] | None) -> None:
        state.status |= {"desiredReplicas": desired, "currentMetrics": shown}
        state.status.pop("currentReplicas", None)
        state.status.pop("observedGeneration", None)
        if state.current:
            state.status["currentReplicas"] = state.current

    async def _write(self, state: _SyncState) -> str | None:
        if state.status == (state.hpa.get("status") or {}):
            return None
        written = {**state.hpa, "status": state.status}
        reply = await self.client.update("horizontalpodautoscalers", written, subresource="status")
        if not reply.ok:
            self._warn(state, "FailedUpdateStatus", reply.message)
            return f"failed to update status: {reply.message}"
        return None


def _body(reply: Reply) -> Obj:
    body: Obj = reply.body
    return body
