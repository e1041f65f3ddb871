"""HorizontalPodAutoscaler loop: as many replicas as what is measured asks for.

Turns an autoscaler, the scale of its target and what its metrics come to into a new scale and a
status.

Holds: an autoscaler is looked at once a sync period, whatever happens in between; what was
recommended before is remembered by this process only, by a clock that nobody sets (Go's times
compare by it), while the ages of pods, which the API tells, are taken by the wall clock.

Mirrors  kubernetes v1.25 pkg/controller/podautoscaler/{horizontal.go,rate_limiters.go}.
Differs  nothing known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from actors.controllers.horizontalpodautoscaler import decide
from actors.controllers.horizontalpodautoscaler import metric_sources as sources
from actors.controllers.shared.pod_owners import labelled
from actors.controllers.shared.shell import Env
from sim.api.objects import key_of
from sim.api.selectors import SelectorError, parse_labels
from sim.api.types import Obj, Reply
from sim.client.queue import WorkQueue
from sim.client.rest.limiter import ItemExponential
from sim.units import format_time

CLIENT = "horizontal-pod-autoscaler"


async def start(env: Env) -> None:
    loop = AutoscalerLoop(env)
    await env.informers.start_and_sync()
    env.ctx.spawn(loop.work, name="horizontalpodautoscaler")


@dataclass(slots=True)
class _Look:
    """One look at an autoscaler: its status as it will be written, and the scale of its target.

    current: replicas of the target's scale; seen: those its status tells
    usage: the trace record by which its metrics come to what they do (0: none known)
    """

    key: str
    hpa: Obj
    status: Obj
    namespace: str
    scale: Obj = field(default_factory=dict)
    resource: Any = None
    current: int = 0
    seen: int = 0
    usage: int = 0

    @property
    def spec(self) -> Obj:
        spec: Obj = self.hpa["spec"]
        return spec


class AutoscalerLoop:
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
        """Each key comes back after a period, whatever came of it, until its autoscaler is gone."""
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
        look = _Look(key, hpa, dict(hpa.get("status") or {}), hpa["metadata"]["namespace"])
        problem = await self._get_scale(look)
        if problem is not None:
            text = f"the HPA controller was unable to get the target's current scale: {problem}"
            self._tell(look, decide.Condition("AbleToScale", "False", "FailedGetScale", text))
            self._warn(look, "FailedGetScale", problem)
            return await self._write(look) or problem
        text = "the HPA controller was able to get the target's current scale"
        self._tell(look, decide.Condition("AbleToScale", "True", "SucceededGetScale", text))
        first = decide.Moment(look.current, self.env.ctx.now_us())
        self._history.setdefault(key, decide.History((first,)))
        return await self._decide(look)

    # --- the target -------------------------------------------------------------------------------

    async def _get_scale(self, look: _Look) -> str | None:
        """Find the target's kind and read its scale; the first of its versions that answers counts."""
        target = look.spec["scaleTargetRef"]
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
                "get", resource, look.namespace, target["name"], subresource="scale"
            )
            reply = await self.scales.ask(request)
            if reply.ok:
                look.scale, look.resource = _body(reply), resource
                look.current = (look.scale.get("spec") or {}).get("replicas", 0)
                look.seen = (look.scale.get("status") or {}).get("replicas", 0)
                return None
            problem = problem or reply.message
        return problem

    # --- the size ---------------------------------------------------------------------------------

    async def _decide(self, look: _Look) -> str | None:
        spec, current = look.spec, look.current
        low, high = spec.get("minReplicas", 1), spec["maxReplicas"]
        shown: list[Obj] | None = None
        wanted, why = current, ""
        if current == 0 and low != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            self._tell(look, decide.Condition("ScalingActive", "False", "ScalingDisabled", text))
        elif current > high:
            wanted, why = high, "Current number of replicas above Spec.MaxReplicas"
        elif current < low:
            wanted, why = low, "Current number of replicas below Spec.MinReplicas"
        else:
            found = self._compute(look, self.env.ctx.wall_us())
            if isinstance(found, str):
                self._set_status(
                    look, look.status.get("desiredReplicas", 0), look.status.get("currentMetrics")
                )
                error = await self._write(look)
                self._warn(look, "FailedComputeMetricsReplicas", found)
                return error or f"failed to compute desired number of replicas: {found}"
            proposed, name, shown = found
            if proposed != current:
                why = f"{name} above target" if proposed > current else "All metrics below target"
            bounds = decide.Bounds(low, high, spec.get("behavior"), current, self.env.ctx.now_us())
            size = decide.normalize(proposed, bounds, self._history[look.key], self._periods.downscale_us)
            self._history[look.key] = size.history
            for condition in size.conditions:
                self._tell(look, condition)
            wanted = size.replicas
        if wanted != current:
            error = await self._rescale(look, wanted, why)
            if error is not None:
                return error
            look.status["lastScaleTime"] = format_time(self.env.ctx.wall_us())
        self._set_status(look, wanted, shown)
        return await self._write(look)

    async def _rescale(self, look: _Look, wanted: int, why: str) -> str | None:
        scale = {**look.scale, "spec": {**(look.scale.get("spec") or {}), "replicas": wanted}}
        facts = {"from": look.current, "to": wanted, "why": why}
        target = f"{look.resource.plural}/{look.namespace}/{look.spec['scaleTargetRef']['name']}"
        self.env.ctx.decided("autoscale", target, facts, look.usage)
        reply = await self.scales.update(look.resource, scale, subresource="scale")
        if not reply.ok:
            self._warn(look, "FailedRescale", f"New size: {wanted}; reason: {why}; error: {reply.message}")
            text = f"the HPA controller was unable to update the target scale: {reply.message}"
            self._tell(look, decide.Condition("AbleToScale", "False", "FailedUpdateScale", text))
            self._set_status(look, look.status.get("desiredReplicas", 0), look.status.get("currentMetrics"))
            return await self._write(look) or f"failed to rescale: {reply.message}"
        text = f"the HPA controller was able to update the target scale to {wanted}"
        self._tell(look, decide.Condition("AbleToScale", "True", "SucceededRescale", text))
        self.recorder.event(look.hpa, "Normal", "SuccessfulRescale", f"New size: {wanted}; reason: {why}")
        history, now_us = self._history[look.key], self.env.ctx.now_us()
        self._history[look.key] = history.scaled(look.current, wanted, look.spec.get("behavior"), now_us)
        return None

    # --- metrics ----------------------------------------------------------------------------------

    def _compute(self, look: _Look, wall_us: int) -> tuple[int, str, list[Obj]] | str:
        """The largest of what the metrics ask for, which one it is, and what the status shows; or
        the error.
        """
        text = (look.scale.get("status") or {}).get("selector", "")
        if not text:
            self._warn(look, "SelectorRequired", "selector is required")
            missing = "the HPA target's scale is missing a selector"
            self._tell(look, decide.Condition("ScalingActive", "False", "InvalidSelector", missing))
            return "selector is required"
        try:
            selector = parse_labels(text)
        except SelectorError as error:  # a custom resource tells what it likes
            odd = f"couldn't convert selector into a corresponding internal selector object: {error}"
            self._warn(look, "InvalidSelector", odd)
            self._tell(look, decide.Condition("ScalingActive", "False", "InvalidSelector", odd))
            return odd
        pods = labelled(self.pods, look.namespace, selector)
        target = sources.Target(look.namespace, pods, look.current, look.seen, wall_us)
        found: list[sources.Found] = []
        failed: list[sources.Failed] = []
        shown: list[Obj] = []
        for metric in look.spec["metrics"]:
            answer = sources.compute(self.env.metrics, metric, target, self._periods)
            if isinstance(answer, sources.Found):
                found.append(answer)
                shown.append(answer.shown)
                look.usage = max(look.usage, answer.cause)
            else:
                failed.append(answer)
                shown.append({"type": ""})
                self._warn(look, answer.reason, answer.problem)
        best = max(found, key=lambda answer: answer.replicas, default=None)
        if best is not None and not best.replicas:
            best = found[-1]  # Quirk: of those that ask for nothing the last one is told of
        if best is None or (failed and best.replicas < look.current):
            first = failed[0]
            why = f"the HPA was unable to compute the replica count: {first.problem}"
            self._tell(look, decide.Condition("ScalingActive", "False", first.reason, why))
            count = f"{len(failed)} invalid out of {len(shown)}"
            return f"invalid metrics ({count}), first error is: {first.error}"
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._tell(look, decide.Condition("ScalingActive", "True", "ValidMetricFound", text))
        return best.replicas, best.name, shown

    # --- status -----------------------------------------------------------------------------------

    def _warn(self, look: _Look, reason: str, text: str) -> None:
        self.recorder.event(look.hpa, "Warning", reason, text)

    def _tell(self, look: _Look, condition: decide.Condition) -> None:
        """Set a condition; its time moves with its status only."""
        known = list(look.status.get("conditions") or ())
        at = next((i for i, held in enumerate(known) if held["type"] == condition.type), len(known))
        held = known[at] if at < len(known) else {}
        since = held.get("lastTransitionTime") if held.get("status") == condition.status else None
        known[at : at + 1] = [
            {
                "type": condition.type,
                "status": condition.status,
                "lastTransitionTime": since or format_time(self.env.ctx.wall_us()),
                "reason": condition.reason,
                "message": condition.message,
            }
        ]
        look.status["conditions"] = known

    def _set_status(self, look: _Look, desired: int, shown: list[Obj] | None) -> None:
        look.status |= {"desiredReplicas": desired, "currentMetrics": shown}
        look.status.pop("currentReplicas", None)
        look.status.pop("observedGeneration", None)
        if look.current:
            look.status["currentReplicas"] = look.current

    async def _write(self, look: _Look) -> str | None:
        if look.status == (look.hpa.get("status") or {}):
            return None
        written = {**look.hpa, "status": look.status}
        reply = await self.client.update("horizontalpodautoscalers", written, subresource="status")
        if not reply.ok:
            self._warn(look, "FailedUpdateStatus", reply.message)
            return f"failed to update status: {reply.message}"
        return None


def _body(reply: Reply) -> Obj:
    body: Obj = reply.body
    return body
