"""Processes: crash, restart, pause, slowness, clocks, exit."""

from typing import Any

import pytest
import trio

from sim.kernel import TIMED_OUT, Context, Kernel
from tests.unit.sim.kernel.test_kernel import running


async def test_nothing_of_a_crashed_actor_runs_and_its_memory_is_gone() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        async def main(ctx: Context) -> None:
            memory = []
            ctx.call_later_us(7, lambda _: log.append((ctx.incarnation, "callback")))
            while True:
                await ctx.sleep_us(5)
                memory.append(1)
                log.append((ctx.incarnation, len(memory)))

        actor = supervisor.add("a", main)
        await kernel.run_until(6)
        actor.crash()
        await kernel.run_until(50)
        assert log == [(1, 1)]
        actor.start()
        await kernel.run_until(57)
        assert log == [(1, 1), (2, 1), (2, "callback")]


async def test_task_that_parks_during_the_crash_of_its_process_ends_too() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        async def main(ctx: Context) -> None:
            async def often() -> None:
                while True:
                    await ctx.sleep_us(5)
                    log.append(kernel.now_us)

            ctx.spawn(often)
            await ctx.sleep_us(100)  # started first, so ended first, too

        actor = supervisor.add("a", main)
        kernel.call_at(12, lambda _: actor.crash())  # found due by the task that has just parked
        await kernel.run_until(50)
    assert log == [5, 10]


async def test_a_paused_actor_runs_nothing_and_catches_up_in_order() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        def main(ctx: Context) -> None:
            for delay in (1, 4, 6, 20):
                ctx.call_later_us(delay, lambda d: log.append((kernel.now_us, d)), delay)

        actor = supervisor.add("a", main)
        await kernel.run_until(2)
        actor.pause()
        await kernel.run_until(10)
        assert log == [(1, 1)]
        actor.resume()
        await kernel.run_until(30)
        assert log == [(1, 1), (10, 4), (10, 6), (20, 20)]


async def test_paused_task_continues_where_it_was() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        async def main(ctx: Context) -> None:
            while True:
                await ctx.sleep_us(4)
                log.append(kernel.now_us)

        actor = supervisor.add("a", main)
        await kernel.run_until(5)
        actor.pause()
        await kernel.run_until(20)
        actor.resume()
        await kernel.run_until(25)
        assert log == [4, 20, 24]


@pytest.mark.parametrize("how", ["paused", "slow"])
async def test_held_task_ends_with_its_process(how: str) -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        async def late(ctx: Context) -> None:
            log.append("started")

        async def main(ctx: Context) -> None:
            try:
                await ctx.sleep_us(4)
                log.append("woken")
            finally:
                log.append(str(kernel.now_us))

        actor = supervisor.add("a", main)
        await kernel.run_until(2)
        actor.pause() if how == "paused" else actor.slow(100)
        assert actor.context is not None
        actor.context.spawn(late, actor.context)
        await kernel.run_until(10)
        actor.crash()
        await kernel.run_until(20)
        assert log == ["10"]
        assert not kernel.tasks
        await kernel.run_until(500)
        assert log == ["10"]


async def test_a_slow_actor_does_each_piece_of_work_later_but_in_order() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        def main(ctx: Context) -> None:
            for delay in (10, 11, 12):
                ctx.call_later_us(delay, lambda d: log.append((kernel.now_us, d)), delay)

        actor = supervisor.add("a", main)
        actor.slow(100)
        await kernel.run_until(1_000)
        assert log == [(110, 10), (210, 11), (310, 12)]


async def test_deferred_work_of_a_slow_actor_runs_in_order_when_it_is_fast_again() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        async def main(ctx: Context) -> None:
            for delay in (10, 11, 12, 250):
                ctx.call_later_us(delay, lambda d: log.append((kernel.now_us, d)), delay)
            await ctx.sleep_us(13)
            log.append((kernel.now_us, 13))

        actor = supervisor.add("a", main)
        await kernel.run_until(1)
        actor.slow(100)
        await kernel.run_until(120)
        actor.resume()
        actor.slow(1_000)  # new work does not wait for earlier deferred work
        await kernel.run_until(2_000)
        assert log == [(110, 10), (120, 11), (120, 12), (120, 13), (1250, 250)]


async def test_a_paused_actor_that_is_slow_then_does_what_was_held_slowly() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        def main(ctx: Context) -> None:
            for delay in (10, 20, 30, 40):
                ctx.call_later_us(delay, lambda d: log.append((kernel.now_us, d)), delay)

        actor = supervisor.add("a", main)
        actor.slow(100)
        await kernel.run_until(15)
        actor.pause()
        await kernel.run_until(35)
        actor.resume(100)
        await kernel.run_until(1_000)
        assert log == [(35, 10), (135, 20), (235, 30), (335, 40)]


async def test_a_drifting_clock_changes_what_is_read_and_how_long_sleeps_last() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        async def main(ctx: Context) -> None:
            await ctx.sleep_us(1_000_000)
            log.append((kernel.now_us, ctx.now_us(), ctx.wall_us() - kernel.epoch_us))

        actor = supervisor.add("a", main, start=False)
        actor.clock.set(0, offset_us=5_000, drift_ppm=250_000)
        actor.start()
        await kernel.run_until(2_000_000)
        assert log == [(800_000, 1_000_000, 1_005_000)]


async def test_an_exit_ends_every_task_of_the_process_and_restarts_it_after_the_delay() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        async def main(ctx: Context) -> None:
            async def child() -> None:
                while True:
                    await ctx.sleep_us(2)
                    log.append((ctx.incarnation, kernel.now_us))

            ctx.spawn(child)
            await ctx.sleep_us(5)
            ctx.exit("lost the lease")

        supervisor.add("a", main, restart_us=10)
        await kernel.run_until(18)
        assert log == [(1, 2), (1, 4), (2, 17)]


async def test_a_future_times_out_by_virtual_time() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        async def main(ctx: Context) -> None:
            answer = ctx.future("an answer")
            log.append((await answer.wait_us(30) is TIMED_OUT, kernel.now_us))
            other = ctx.future()
            ctx.call_later_us(5, other.set, "here")
            log.append((await other.wait_us(30), kernel.now_us))

        supervisor.add("a", main)
        await kernel.run_until(100)
        assert log == [(True, 30), ("here", 35)]


async def test_jobs_side_by_side_give_their_results_in_order() -> None:
    kernel, log = Kernel(), []
    async with running(kernel) as supervisor:

        async def main(ctx: Context) -> None:
            async def job(delay: int) -> int:
                await ctx.sleep_us(delay)
                return delay

            log.append(await ctx.gather(*[lambda d=d: job(d) for d in (30, 10, 20)]))
            log.append(kernel.now_us)

        supervisor.add("a", main)
        await kernel.run_until(100)
        assert log == [[30, 10, 20], 30]


async def test_a_full_mailbox_refuses_and_counts() -> None:
    kernel, got = Kernel(), []
    async with running(kernel) as supervisor:
        boxes: list[Any] = []

        async def main(ctx: Context) -> None:
            boxes.append(ctx.mailbox("in", 2))
            await ctx.sleep_us(10)
            got.extend([await boxes[0].get(), await boxes[0].get()])
            await ctx.forever()

        supervisor.add("a", main)
        await kernel.run_until(1)
        assert [boxes[0].put(n) for n in range(3)] == [True, True, False]
        await kernel.run_until(20)
        assert got == [0, 1] and boxes[0].refused == 1


async def test_second_task_that_waits_for_a_mailbox_is_an_error() -> None:
    kernel, errors = Kernel(), []
    async with running(kernel) as supervisor:

        async def main(ctx: Context) -> None:
            box = ctx.mailbox("in", 2)
            ctx.spawn(box.get)
            await ctx.sleep_us(1)
            try:
                await box.get()
            except AssertionError as error:
                errors.append(str(error).splitlines()[0])
            await ctx.forever()

        supervisor.add("a", main)
        await kernel.run_until(10)
        assert errors == ["a second task waits for a mailbox"]


async def test_crashing_many_actors_at_one_instant_is_deterministic() -> None:
    async def once() -> str:
        kernel = Kernel(3)
        kind = kernel.kind("note", "name", "what")
        async with running(kernel) as supervisor:

            async def main(ctx: Context) -> None:
                try:
                    await ctx.sleep_us(1_000)
                except trio.Cancelled:
                    kernel.record(kind, (ctx.name, "cancelled"))
                    raise

            for index in range(100):
                supervisor.add(f"a{index}", main)
            await kernel.run_until(10)
            for index in range(0, 100, 3):
                supervisor[f"a{index}"].crash()
            await kernel.run_until(2_000)
            return kernel.trace.sha256()

    assert await once() == await once()
