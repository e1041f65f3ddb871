"""Outside operations on a paced kernel."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sim.kernel import NEVER_US, Kernel


@asynccontextmanager
async def waiting(kernel: Kernel) -> AsyncIterator[None]:
    """A paced kernel with nothing to do."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run)
        kernel.set_rate(10)
        kernel.set_goal(NEVER_US)
        await wait_all_tasks_blocked()
        yield
        kernel.stop()


async def test_what_an_outside_operation_plans_for_at_once_is_done_without_another_push() -> None:
    kernel = Kernel()
    kernel.gate.handle("ask", lambda payload, done: kernel.call_later(0, done, payload))
    async with waiting(kernel):
        with trio.fail_after(30):
            assert [await kernel.gate.submit("ask", n) for n in range(20)] == list(range(20))


async def test_operation_with_two_results_is_an_error() -> None:
    kernel, errors = Kernel(), []

    def ask(payload: Any, done: Any) -> None:
        done(payload)
        try:
            done(payload)
        except AssertionError as error:
            errors.append(str(error).splitlines()[0])

    kernel.gate.handle("ask", ask)
    async with waiting(kernel):
        assert await kernel.gate.submit("ask", 1) == 1
    assert errors == ["an operation has two results"]


async def test_operation_is_applied_at_once_where_the_driver_only_waits() -> None:
    kernel, answers = Kernel(), list[Any]()
    kernel.gate.handle("ask", lambda payload, done: done(payload))
    async with waiting(kernel):
        kernel.gate.post("ask", 1, answers.append)
        assert answers == [1]


async def test_operation_waits_for_its_turn_within_a_unit_of_work() -> None:
    kernel, seen = Kernel(), list[Any]()
    kernel.gate.handle("ask", lambda payload, done: done(payload))

    def unit(_: Any) -> None:
        kernel.gate.post("ask", 1, seen.append)
        seen.append("unit")

    async with waiting(kernel):
        kernel.call_later(0, unit)
        kernel.kick()
        await wait_all_tasks_blocked()
    assert seen == ["unit", 1]


async def test_operation_from_within_an_operation_comes_after_it() -> None:
    kernel, seen = Kernel(), list[Any]()

    def ask(payload: Any, done: Any) -> None:
        if payload:
            kernel.gate.post("ask", payload - 1, seen.append)
        done(payload)

    kernel.gate.handle("ask", ask)
    async with waiting(kernel):
        kernel.gate.post("ask", 2, seen.append)
        assert seen == [2, 1, 0]


async def test_error_of_an_operation_ends_the_run_and_not_its_client() -> None:
    kernel = Kernel()

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    kernel.gate.handle("ask", broken)
    with pytest.RaisesGroup(ZeroDivisionError):
        async with waiting(kernel):
            kernel.gate.post("ask", None, print)
            await wait_all_tasks_blocked()
