"""Events a second of the bare kernel, callbacks that plan the next one and tasks that sleep, and
what Trio alone does here.

python -m tests.bench.kernel

The goals of BENCHMARKS.md were set by measurements on a machine on which Trio made `SWITCHES_THERE`
and `SENDS_THERE` a second: what this one makes of these says how much slower or faster everything
else is here.  `tests.bench.against` compares whole runs with those of an earlier version.
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
SWITCHES = SENDS = 300_000
# A second, where the floor of 4.1 s for a fill of 5,000 nodes was measured: 100 tasks that pass a
# checkpoint; channels.
SWITCHES_THERE, SENDS_THERE = 696_000, 142_000


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


async def _switches() -> None:
    async def switcher() -> None:
        for _ in range(SWITCHES // 100):
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(switcher)


async def _sends() -> None:
    async def sender(to: trio.MemorySendChannel[int]) -> None:
        async with to:
            for number in range(SENDS):
                await to.send(number)

    to, by = trio.open_memory_channel[int](0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender, to)
        async for _ in by:
            pass


def _tell(what: str, here: float, there: int) -> None:
    print(f"{what:<14} {here:>12,.0f} a second, {here / there:.2f} of what the goals were set by")


def main() -> None:
    print(machine())
    _tell("Trio switches", SWITCHES / best_of(lambda: trio.run(_switches)), SWITCHES_THERE)
    _tell("Trio channels", SENDS / best_of(lambda: trio.run(_sends)), SENDS_THERE)
    print(f"callbacks      {CALLBACKS / best_of(lambda: trio.run(_callbacks)):>12,.0f} a second")
    print(f"task wake-ups  {WAKE_UPS / best_of(lambda: trio.run(_tasks)):>12,.0f} a second")


if __name__ == "__main__":
    main()
