"""HorizontalPodAutoscaler controller: scales a target to the size that its metrics require.

Turns autoscalers into keys, and carries out the steps of each sync.

Holds: an autoscaler is synced once per sync period, independent of other events; the history of
       recommendations is in memory only and uses the monotonic clock (Go compares times by it),
       while the ages of pods, which come from the API, use the wall clock.  Nothing is decided
       here; the steps are those of `sync`, their values those of `decide`.

Mirrors  kubernetes v1.25 pkg/controller/podautoscaler/{horizontal.go,rate_limiters.go}.
Differs  no known deviation.
"""

from __future__ import annotations

from typing import assert_never

from actors.controllers.horizontalpodautoscaler import decide
from actors.controllers.horizontalpodautoscaler import sync as steps
from actors.controllers.horizontalpodautoscaler.metrics_apis import source_of
from actors.controllers.shared.pod_owners import labelled
from actors.controllers.shared.shell import Env
from actors.controllers.shared.steps import Event, Update, carry_out
from sim.api.objects import key_of
from sim.api.types import Obj, Reply
from sim.client.queue import WorkQueue
from sim.client.rest.limiter import ItemExponential

CLIENT = "horizontal-pod-autoscaler"


async def start(env: Env) -> None:
    """Run the HorizontalPodAutoscaler controller until its process ends."""
    loop = AutoscalerLoop(env)
    await env.informers.start_and_sync()
    env.ctx.spawn(loop.work, name="horizontalpodautoscaler")


class AutoscalerLoop:
    """Shell of the controller: the queue, the histories, and what the steps of a sync do."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.client = env.client(CLIENT)
        self.scales = env.client(CLIENT)
        self.recorder = env.recorder(CLIENT, self.client)
        options = env.options
        period_us = options.horizontal_pod_autoscaler_sync_period_us
        self.queue = WorkQueue(env.ctx, "horizontalpodautoscaler", ItemExponential(period_us, period_us))
        self.autoscalers = env.informers[steps.AUTOSCALERS]
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
        scheme, ctx = self.env.scheme, self.env.ctx
        seen = steps.Seen(
            (*scheme.resources, *scheme.more.served.resources),
            lambda namespace, selector: labelled(self.pods, namespace, selector),
            self._periods,
            self._history.get(key),
            ctx.now_us(),
            ctx.wall_us(),
        )
        outcome = await carry_out(steps.reconcile(hpa, seen), self._do)
        if outcome.history is not None:
            self._history[key] = outcome.history
        return outcome.error

    async def _do(self, action: steps.Action) -> steps.Answer:
        ctx, reply, source = self.env.ctx, Reply(code=200), None
        match action:
            case steps.GetScale(resource, namespace, name):
                request = self.scales.request("get", resource, namespace, name, subresource="scale")
                reply = await self.scales.ask(request)
            case steps.SetScale(resource, scale, target, why, cause):
                ctx.decided("autoscale", target, why, cause)
                reply = await self.scales.update(resource, scale, subresource="scale")
            case steps.ReadMetric(asked):
                source = await source_of(self.env.metrics, self.client, self.env.scheme, asked)
            case Update(name, obj, subresource):
                reply = await self.client.update(name, obj, subresource)
            case Event(obj, kind, reason, message):
                self.recorder.event(obj, kind, reason, message)
            case _:
                assert_never(action)
        return steps.Answer(reply, source, ctx.now_us(), ctx.wall_us())
