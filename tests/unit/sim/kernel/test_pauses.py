"""A paced kernel in a process that is stopped for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from trio.testing import wait_all_tasks_blocked

from sim.kernel import NEVER_US, Kernel, OutsideAnswer, OutsideRequest
from sim.kernel.outside import ANSWERED
from sim.kernel.pace import LOOK_S, PAUSE_S, Pace
from sim.units import SECOND

RATE = 10
LEAP_US = int((LOOK_S + PAUSE_S) * RATE * SECOND)  # the most by which a pause moves virtual time


class RealClock:
    """The clock of a machine; it advances only where a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Sender:
    """Sends nothing: the test gives the answers."""

    def send(self, number: int, request: OutsideRequest, limit_s: float) -> None:
        """Begin a call."""

    def cancel(self, number: int) -> None:
        """End a call."""


@asynccontextmanager
async def paced(kernel: Kernel) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run)
        kernel.set_rate(RATE)
        kernel.set_goal(NEVER_US)
        await wait_all_tasks_blocked()
        yield
        kernel.stop()


async def passed(kernel: Kernel, clock: RealClock, seconds: float) -> None:
    """Let real time pass, and the driver see it."""
    clock.now_s += seconds
    kernel.kick()
    await wait_all_tasks_blocked()


async def test_pause_of_the_process_is_no_passage_of_virtual_time() -> None:
    clock, seen = RealClock(), []
    kernel = Kernel()
    kernel.pace = Pace(clock)
    kernel.call_at(30 * SECOND, seen.append, "due")
    async with paced(kernel):
        await passed(kernel, clock, 100.0)
        assert (kernel.outside_now_us() <= LEAP_US, seen) == (True, [])
        for _ in range(29):
            await passed(kernel, clock, 0.1)
        before_us = kernel.outside_now_us()
        assert 29 * SECOND <= before_us < 30 * SECOND + LEAP_US
        await passed(kernel, clock, 0.1)
        assert (kernel.now_us, seen) == (30 * SECOND, ["due"])


async def test_time_shown_outside_does_not_count_a_pause_that_no_driver_has_seen() -> None:
    clock = RealClock()
    kernel = Kernel()
    kernel.pace = Pace(clock)
    kernel.call_at(500 * SECOND, lambda _: None)
    async with paced(kernel):
        clock.now_s += 7.0
        assert kernel.outside_now_us() <= LEAP_US


async def test_time_passes_in_a_kernel_without_plans() -> None:
    clock = RealClock()
    kernel = Kernel()
    kernel.pace = Pace(clock)
    async with paced(kernel):
        for _ in range(100):
            await passed(kernel, clock, 0.1)
        assert abs(kernel.outside_now_us() - 100 * SECOND) < SECOND // 1000


async def test_call_of_a_server_outside_outlives_a_pause_of_the_process() -> None:
    clock, seen = RealClock(), list[OutsideAnswer]()
    kernel = Kernel()
    kernel.pace = Pace(clock)
    kernel.outside.begin(Sender(), {})
    request = OutsideRequest("POST", "https://x", timeout_us=10 * SECOND)
    kernel.call_at(0, lambda _: kernel.outside.call(request, seen.append))
    async with paced(kernel):
        await passed(kernel, clock, 5.0)
        kernel.gate.post(ANSWERED, [1, 200, [], b"x", ""], lambda _: None)
        await wait_all_tasks_blocked()
    assert seen == [OutsideAnswer(200, (), b"x")]


def test_work_that_is_short_of_a_pause_is_made_up_for() -> None:
    clock = RealClock()
    pace = Pace(clock)
    pace.rate = 2
    pace.rebase(0)
    for _ in range(10):
        clock.now_s += 0.9 * PAUSE_S
        limit_us = pace.paced_us()
    assert abs(limit_us - 2 * 9 * PAUSE_S * SECOND) < SECOND // 1000
