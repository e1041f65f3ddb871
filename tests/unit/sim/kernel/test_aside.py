"""Long work on a thread: operations that are applied beside it, those that wait, and the replay."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from sim.kernel import Kernel, Operation
from tests.unit.sim.kernel.test_kernel import running

Done = Callable[[Any], None]
PATIENCE_S = 20.0


class Outside:
    """Operations that plan long work, write and read; `seen` is their order."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.seen = kernel, list[tuple[str, int]]()
        self.read = threading.Event()
        self._kind = kernel.kind("seen", "what")
        kernel.gate.handle("long", self._long)
        kernel.gate.handle("write", self._write)
        kernel.gate.handle("look", self._look, reads=lambda payload: payload == "plain")

    def _note(self, what: str) -> None:
        self.seen.append((what, self.kernel.now_us))

    def _long(self, pieces: int, done: Done) -> None:
        def work() -> bool:
            return self.read.wait(PATIENCE_S)

        def then(found: Any) -> None:
            self._note(f"long {found.unwrap()}")
            self.kernel.record(self._kind, ("long",))
            if pieces > 1:
                self._long(pieces - 1, done)
            else:
                done(None)

        self.kernel.aside.plan(work, then)

    def _write(self, payload: str, done: Done) -> None:
        self._note("write")
        self.kernel.record(self._kind, ("write",))
        done(payload)

    def _look(self, payload: str, done: Done) -> None:
        self._note(f"look {payload}")
        self.read.set()
        done(payload)


async def used(
    pace: float, replay: list[Operation] | None = None, end_us: int = 0
) -> tuple[Kernel, list[tuple[str, int]]]:
    """A run with clients that write and look while long work is done, or its replay."""
    kernel = Kernel(5, replay=replay)
    outside = Outside(kernel)
    kernel.set_rate(pace)
    async with running(kernel):
        kernel.call_at(50, lambda _: outside._note("later"))
        if replay is None:
            kernel.aside.threads = trio.CapacityLimiter(1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(kernel.gate.submit, "long", 2)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(kernel.gate.submit, "write", "w")
                nursery.start_soon(kernel.gate.submit, "look", "other")
                await trio.testing.wait_all_tasks_blocked()
                assert outside.seen == []  # neither may change what the work reads
                assert await kernel.gate.submit("look", "plain") == "plain"
            end_us = kernel.now_us + 100
        kernel.set_rate(float("inf"))
        await kernel.run_until(end_us)
    return kernel, outside.seen


@pytest.mark.parametrize("pace", [0, 1])
async def test_reads_are_answered_while_long_work_is_done_and_writes_after(pace: float) -> None:
    kernel, seen = await used(pace)
    assert [what for what, _ in seen[:2]] == ["look plain", "long True"]
    assert sorted(what for what, _ in seen[2:5]) == ["long True", "look other", "write"]
    assert seen[-1][0] == "later"
    assert [op.name for op in kernel.gate.journal][:2] == ["long", "look"]


async def test_replay_of_long_work_has_the_same_order_without_a_thread() -> None:
    live, seen = await used(0)
    again, replayed = await used(0, list(live.gate.journal), live.now_us)
    assert replayed == seen
    assert (again.steps, again.gate.journal) == (live.steps, live.gate.journal)
    assert again.trace.sha256() == live.trace.sha256()


async def test_error_in_long_work_reaches_its_taker() -> None:
    kernel = Kernel(5)
    found: list[Any] = []
    kernel.aside.threads = trio.CapacityLimiter(1)
    async with running(kernel):
        kernel.aside.plan(lambda: {}["a"], found.append)
        await kernel.run_until(1)
    with pytest.raises(KeyError):
        found[0].unwrap()
