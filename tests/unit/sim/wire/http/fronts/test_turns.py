"""Connections that become readable at once have their turns in several passes of Trio's loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from sim.wire.http.fronts import turns as module
from sim.wire.http.fronts.turns import RELEASED, Turns, turns

COUNT = 3 * RELEASED


class Passes(trio.abc.Instrument):
    """How many passes there were."""

    passes = 0

    def before_io_wait(self, timeout: float) -> None:
        """Count one."""
        self.passes += 1


@asynccontextmanager
async def readable() -> AsyncIterator[int]:
    """The number of a socket that has bytes to read."""
    ours, theirs = trio.socket.socketpair()
    with ours, theirs:
        await theirs.send(b"x")
        yield ours.fileno()


async def passes_of_turns(count: int) -> list[int]:
    """The pass in which each of some connections has its turn, in the order of the turns."""
    found: list[int] = []
    counted = Passes()
    trio.lowlevel.add_instrument(counted)

    async def take(begin: trio.Event) -> None:
        async with readable() as number:
            await begin.wait()
            await turns().take(number)
            found.append(counted.passes)

    begin = trio.Event()
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(take, begin)
        await trio.testing.wait_all_tasks_blocked()
        begin.set()
    trio.lowlevel.remove_instrument(counted)
    return found


async def most_in_a_pass() -> int:
    """How many connections have their turn in one pass, at most.

    The kernel may report those that become readable at once in several passes, so that not each
    pass has as many.
    """
    return max(Counter(await passes_of_turns(COUNT)).values())


async def test_pass_that_has_taken_its_time_lets_few_connections_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PASS_S", -1.0)
    assert await most_in_a_pass() == RELEASED


async def test_pass_with_time_left_lets_all_connections_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PASS_S", 1000.0)
    assert await most_in_a_pass() > RELEASED


async def test_connection_that_is_cancelled_before_its_turn_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PASS_S", -1.0)
    monkeypatch.setattr(module, "RELEASED", 0)  # it waits until it is cancelled
    own = Turns()
    async with readable() as number, trio.open_nursery() as nursery:
        nursery.start_soon(own.take, number)
        with trio.fail_after(30):
            while not own._waiting:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert not own._waiting
