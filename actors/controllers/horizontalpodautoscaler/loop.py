"""HorizontalPodAutoscaler controller: scales a target to the size that its metrics require."""

from __future__ import annotations

from actors.controllers.horizontalpodautoscaler.sync import AutoscalerLoop
from actors.controllers.shared.shell import Env


async def start(env: Env) -> None:
    """Run the HorizontalPodAutoscaler controller until its process ends."""
    loop = AutoscalerLoop(env)
    await env.informers.start_and_sync()
    env.ctx.spawn(loop.work, name="horizontalpodautoscaler")
