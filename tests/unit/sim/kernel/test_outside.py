"""Calls to servers outside of the simulation: their place in virtual time, and their replay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf

import trio

from sim.kernel import NEVER_US, Kernel, Operation, OutsideAnswer, OutsideRequest
from sim.kernel.outside import ANSWERED, CALLS_MAX, CLOSED, DEADLINE_EXCEEDED, GONE, TOO_MANY
from sim.units import SECOND

REQUEST = OutsideRequest("POST", "https://x", timeout_us=10 * SECOND)


class Sender:
    """A sender; the test gives its answers."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.sent: list[int] = []
        self.cancelled: list[int] = []
        self.more = trio.Event()

    def send(self, number: int, request: OutsideRequest, limit_s: float) -> None:
        self.sent.append(number)
        self.more.set()

    def cancel(self, number: int) -> None:
        self.cancelled.append(number)

    def answer(self, number: int, failure: str = "") -> None:
        self.kernel.gate.post(ANSWERED, [number, 200, [["a", "b"]], b"x", failure], lambda _: None)


@asynccontextmanager
async def driven(kernel: Kernel, rate: float = inf) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run)
        kernel.set_rate(rate)
        yield
        kernel.stop()


async def test_virtual_time_rests_while_a_call_is_open_on_a_fast_clock() -> None:
    kernel = Kernel()
    sender = Sender(kernel)
    kernel.outside.begin(sender, {"a": 1})
    seen: list[tuple[int, OutsideAnswer]] = []
    ticks: list[int] = []
    kernel.call_at(
        5, lambda _: kernel.outside.call(REQUEST, lambda answer: seen.append((kernel.now_us, answer)))
    )
    kernel.call_at(6, lambda _: ticks.append(kernel.now_us))
    async with driven(kernel):
        kernel.set_goal(SECOND)
        await sender.more.wait()
        assert await kernel.gate.submit("outside", [True, {"a": 1}]) is None  # the driver has run
        assert (kernel.now_us, ticks) == (5, [])
        assert kernel.outside.open_calls == ("POST https://x",)
        sender.answer(1)
        await kernel.run_until(SECOND)
    assert seen == [(5, OutsideAnswer(200, (("a", "b"),), b"x"))]
    assert ticks == [6]
    assert kernel.outside.settings == {"a": 1}


async def test_sender_that_gives_up_leaves_the_call_to_its_deadline() -> None:
    kernel = Kernel()
    sender = Sender(kernel)
    kernel.outside.begin(sender, {})
    seen: list[tuple[int, str]] = []
    kernel.call_at(
        5, lambda _: kernel.outside.call(REQUEST, lambda answer: seen.append((kernel.now_us, answer.failure)))
    )
    async with driven(kernel):
        kernel.set_goal(20 * SECOND)
        await sender.more.wait()
        sender.answer(1, DEADLINE_EXCEEDED)
        await kernel.run_until(20 * SECOND)
    assert seen == [(5 + 10 * SECOND, DEADLINE_EXCEEDED)]
    assert sender.cancelled == [1]


async def test_paced_clock_finds_a_late_answer() -> None:
    kernel = Kernel()
    sender = Sender(kernel)
    kernel.outside.begin(sender, {})
    seen: list[tuple[int, str]] = []
    late = trio.Event()

    def take(answer: OutsideAnswer) -> None:
        seen.append((kernel.now_us, answer.failure))
        late.set()

    kernel.call_at(5, lambda _: kernel.outside.call(REQUEST, take))
    async with driven(kernel, 1_000_000):
        kernel.set_goal(NEVER_US)
        await late.wait()
        sender.answer(1)  # of no use any more
        await kernel.gate.submit("outside", [True, {}])
    assert seen == [(5 + 10 * SECOND, DEADLINE_EXCEEDED)]


async def test_calls_fail_at_once_without_a_sender_and_beyond_the_bound() -> None:
    kernel = Kernel()
    seen: list[str] = []
    kernel.outside.call(REQUEST, lambda answer: seen.append(answer.failure))
    assert seen == [CLOSED]
    kernel.outside.begin(Sender(kernel), {})
    async with driven(kernel):
        await kernel.gate.submit("outside", [True, {}])
        for _ in range(CALLS_MAX + 1):
            kernel.outside.call(REQUEST, lambda answer: seen.append(answer.failure))
        assert seen == [CLOSED, TOO_MANY]
        kernel.outside.end()
        await kernel.run_until(SECOND)  # time advances
    assert seen == [CLOSED, TOO_MANY, *[GONE] * CALLS_MAX]


async def test_replay_takes_the_answers_from_the_journal() -> None:
    async def run(replay: list[Operation]) -> tuple[list[tuple[int, int, bytes]], list[Operation]]:
        kernel = Kernel(replay=replay)
        seen: list[tuple[int, int, bytes]] = []

        def ask(_: object) -> None:
            kernel.outside.call(
                REQUEST, lambda answer: seen.append((kernel.now_us, kernel.steps, answer.body))
            )

        for at_us in range(0, 100, 7):
            kernel.call_at(at_us, ask)
            kernel.call_at(at_us + 1, lambda _: None)
        async with driven(kernel):
            if not replay:
                sender = Sender(kernel)
                kernel.outside.begin(sender, {})
                kernel.set_goal(SECOND)
                for number in range(1, 16):
                    while number not in sender.sent:
                        sender.more = trio.Event()
                        await sender.more.wait()
                    sender.answer(number)
            await kernel.run_until(SECOND)
        journal = kernel.gate.journal
        assert isinstance(journal, list)
        return seen, journal

    seen, journal = await run([])
    assert len(seen) == 15
    assert await run(journal) == (seen, journal)
