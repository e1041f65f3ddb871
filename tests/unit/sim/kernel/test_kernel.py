"""The virtual clock: one total order, pace, goals, cancellation, detection of standstill."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio

from sim.kernel import DeadlockError, Kernel, LivelockError, Supervisor
from sim.kernel.tasks import ALONE_S, Passes


@asynccontextmanager
async def running(kernel: Kernel) -> AsyncIterator[Supervisor]:
    async with trio.open_nursery() as actors:
        supervisor = Supervisor(kernel, actors)
        actors.start_soon(kernel.run)
        yield supervisor
        kernel.stop()
        actors.cancel_scope.cancel()


async def test_callbacks_run_by_time_then_by_order_of_scheduling() -> None:
    kernel, seen = Kernel(), []
    async with running(kernel):
        for at_us, name in [(5, "c"), (3, "a"), (3, "b"), (9, "late")]:
            kernel.call_at(at_us, seen.append, name)
        await kernel.run_until(5)
        assert seen == ["a", "b", "c"]
        assert kernel.now_us == 5


@pytest.mark.parametrize("seed", range(5))
async def test_calls_seconds_or_hours_ahead_run_in_order_of_time_and_planning(
    seed: int,
) -> None:
    kernel, random = Kernel(), Random(seed)
    planned: list[tuple[int, int]] = []
    seen: list[tuple[int, int]] = []

    def plan(_: Any) -> None:
        for spread_us in (3, 500_000, 2_000_000, 3_600_000_000):
            at_us = kernel.now_us + random.randrange(spread_us)
            planned.append((at_us, len(planned)))
            kernel.call_at(at_us, ran, planned[-1])

    def ran(entry: tuple[int, int]) -> None:
        seen.append(entry)
        assert kernel.now_us == entry[0]
        if len(planned) < 1_000:
            plan(None)

    async with running(kernel):
        await kernel.run_until(7_654_321)  # nothing at all is planned yet
        plan(None)
        while len(seen) < 1_000:
            await kernel.run_until(kernel.now_us + random.randrange(3_000_000_000))
    assert seen == sorted(seen) == sorted(planned)


async def test_a_callback_asked_for_in_the_past_runs_now() -> None:
    kernel, seen = Kernel(), []
    async with running(kernel):
        kernel.call_at(10, lambda _: kernel.call_at(2, lambda _: seen.append(kernel.now_us)))
        await kernel.run_until(20)
        assert seen == [10]


async def test_a_cancelled_timer_does_not_fire() -> None:
    kernel, seen = Kernel(), []
    async with running(kernel):
        timer = kernel.timer_at(5, seen.append, "x")
        kernel.timer_at(6, seen.append, "y")
        timer.cancel()
        await kernel.run_until(10)
        assert seen == ["y"] and not timer.active


async def test_the_cause_of_work_is_what_ran_when_it_was_scheduled() -> None:
    kernel, seen = Kernel(), []
    kind = kernel.kind("k", "x")
    async with running(kernel):

        def first(_: Any) -> None:
            kernel.cause = kernel.record(kind, (1,))
            kernel.call_later(5, lambda _: seen.append(kernel.cause))

        kernel.call_at(1, first)
        kernel.call_at(2, lambda _: seen.append(kernel.cause))
        await kernel.run_until(10)
        assert seen == [0, 1]


def recording(log: list[tuple[int, str]], kernel: Kernel, name: str) -> Callable[[Any], Any]:
    async def main(ctx: Any) -> None:
        random = ctx.stream("naps")
        while True:
            await ctx.sleep_us(1 + int(random.random() * 50))
            log.append((kernel.now_us, name))

    return main


async def one_run(seed: int, others: int = 0) -> list[tuple[int, str]]:
    kernel, log = Kernel(seed), []
    async with running(kernel) as supervisor:
        for index in range(20):
            supervisor.add(f"a{index}", recording(log, kernel, f"a{index}"))
        for index in range(others):
            supervisor.add(f"b{index}", recording([], kernel, ""))
        await kernel.run_until(500)
        supervisor["a3"].crash()
        await kernel.run_until(1_000)
    return log


async def test_tasks_run_in_the_same_order_in_every_run_with_one_seed() -> None:
    first = await one_run(7)
    assert len(first) > 300
    assert await one_run(7) == first
    assert await one_run(8) != first


async def test_adding_actors_changes_no_other_draws() -> None:
    assert sorted(await one_run(7)) == sorted(await one_run(7, others=5))


async def test_sleeping_tasks_of_one_instant_run_in_order_of_falling_asleep() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:
        for index in range(50):

            async def main(ctx: Any, index: int = index) -> None:
                await ctx.sleep_us(10)
                log.append(index)

            supervisor.add(f"a{index}", main)
        await kernel.run_until(10)
        assert log == list(range(50))


async def test_paused_kernel_runs_only_the_requested_steps() -> None:
    kernel, seen = Kernel(), []
    async with running(kernel):
        kernel.set_rate(0)
        for at_us in range(1, 6):
            kernel.call_at(at_us, seen.append, at_us)
        kernel.set_goal(100)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == []
        kernel.step(3)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [1, 2, 3] and kernel.now_us == 3
        kernel.set_rate(math.inf)
        await kernel.run_until(100)
        assert seen == [1, 2, 3, 4, 5]


async def test_a_paced_kernel_keeps_to_the_wall_clock() -> None:
    kernel = Kernel()
    async with running(kernel):
        kernel.set_rate(100.0)
        started = trio.current_time()
        kernel.call_at(3_000_000, lambda _: None)
        await kernel.run_until(5_000_000)
        assert trio.current_time() - started >= 0.045


async def test_standstill_names_what_every_task_waits_for() -> None:
    kernel = Kernel()
    async with running(kernel) as supervisor:

        async def main(ctx: Any) -> None:
            await ctx.mailbox("orders", 3).get()

        supervisor.add("clerk", main)
        await kernel.run_until(10)
        with pytest.raises(DeadlockError, match="clerk/main waits for mail in orders"):
            kernel.check_deadlock()


async def test_work_without_end_at_one_instant_is_reported_with_its_name() -> None:
    kernel = Kernel()
    kernel._livelock.limit = 10_000

    def spin(_: Any) -> None:
        kernel.call_later(0, spin)

    kernel.call_at(5, spin)
    with pytest.RaisesGroup(pytest.RaisesExc(LivelockError, match="livelock at 0.000005 s.*spin")):
        async with running(kernel):
            await kernel.run_until(10)


@pytest.mark.parametrize(("slice_s", "is_single"), [(ALONE_S, True), (0.002, False)])
async def test_a_slice_without_servers_is_followed_by_one_pass(slice_s: float, is_single: bool) -> None:
    turns = []

    async def beside() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            turns.append(1)

    async with trio.open_nursery() as others:
        others.start_soon(beside)
        await trio.lowlevel.checkpoint()
        turns.clear()
        await Passes().let_run(slice_s)
        assert (len(turns) <= 1) is is_single
        others.cancel_scope.cancel()
