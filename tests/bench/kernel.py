"""Events a second of the bare kernel: callbacks that plan the next one, and tasks that sleep.

python -m tests.bench.kernel
"""

from __future__ import annotations

from typing import Any

import trio

from sim.kernel import Context, Kernel, Supervisor
from sim.units import SECOND
from tests.bench.timing import best_of, machine

ACTORS = 1_000
CALLBACKS = 1_000_000
WAKE_UPS = 100_000


async def _callbacks() -> None:
    """As heartbeats are: a thousand timers of nearly equal periods."""
    async with trio.open_nursery() as nursery:
        kernel = Kernel(1)

        def beat(period_us: Any) -> None:
            kernel.call_later(period_us, beat, period_us)

        for number in range(ACTORS):
            beat(SECOND + number)
        nursery.start_soon(kernel.run)
        await kernel.run_until(CALLBACKS // ACTORS * (SECOND + ACTORS))
        assert kernel.steps >= CALLBACKS
        kernel.stop()


async def _tasks() -> None:
    """As starting and waiting actors are."""
    async with trio.open_nursery() as nursery:
        kernel = Kernel(1)
        supervisor = Supervisor(kernel, nursery)

        async def sleeper(ctx: Context) -> None:
            for _ in range(WAKE_UPS // 100):
                await ctx.sleep_us(SECOND)

        for number in range(100):
            supervisor.add(f"sleeper-{number}", sleeper)
        nursery.start_soon(kernel.run)
        await kernel.run_until((WAKE_UPS // 100 + 1) * SECOND)
        assert kernel.steps >= WAKE_UPS
        kernel.stop()
        nursery.cancel_scope.cancel()


def main() -> None:
    print(machine())
    print(f"callbacks      {CALLBACKS / best_of(lambda: trio.run(_callbacks)):>12,.0f} a second")
    print(f"task wake-ups  {WAKE_UPS / best_of(lambda: trio.run(_tasks)):>12,.0f} a second")


if __name__ == "__main__":
    main()
