"""Long work: one unit of work on a thread, beside which reads from outside are applied.

`Aside.plan` makes a unit of work of a function and of one that takes its outcome.  The first must
change nothing but what it owns.  Where no clients wait, both run in the driver.  Where a
cluster is served, the first runs on a thread.  Virtual time rests and no other unit runs, but those
operations of the gate that change nothing (`Gate.handle`) are applied as if they had come before.

Holds: a run is the same with and without the thread.  Nothing changes what the function reads, and
a journalled read has the position of the unit, so that a replay applies it before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import outcome
import trio

from sim.kernel.gate import Driver

Outcome = outcome.Maybe[Any]
Job = tuple[Callable[[], Any], Callable[[Outcome], None], int]  # the last: its cause


class Aside:
    """The long work of a kernel.

    threads: where it runs while a cluster is served; None: in the driver
    busy: True while a function runs on a thread
    """

    def __init__(self, kernel: Driver) -> None:
        self._kernel = kernel
        self.threads: trio.CapacityLimiter | None = None
        self.jobs: deque[Job] = deque()  # read by the kernel before each unit of work
        self.busy = False
        self._news = trio.Event()

    @contextmanager
    def on_threads(self) -> Iterator[None]:
        """Within this, long work is done on a thread: clients wait."""
        self.threads = trio.CapacityLimiter(1)
        try:
            yield
        finally:
            self.threads = None

    def plan(self, work: Callable[[], Any], then: Callable[[Outcome], None]) -> None:
        """Let `work` be the unit of work that follows the present one, and call `then` with its
        outcome.  Work from outside may come between the two.
        """
        self.jobs.append((work, then, self._kernel.cause))

    def kick(self) -> None:
        """Look at the gate: an operation may have been handed in."""
        self._news.set()

    async def run(self) -> int:
        """Do one unit of the work that waits (called by the driver); 0 if none waits, otherwise 1."""
        if not self.jobs:
            return 0
        work, then, cause = self.jobs.popleft()
        if self.threads is None:
            found: Outcome = outcome.capture(work)
        else:
            self.busy = True  # its position in the journal is that of the reads before it
            try:
                found = await self._done(work)
            finally:
                self.busy = False
        kernel = self._kernel
        kernel.steps += 1
        kernel.follow(cause)
        then(found)
        return 1

    async def _done(self, work: Callable[[], Any]) -> Outcome:
        """The outcome of a function on a thread, beside which reads are applied."""
        box: list[Outcome] = []

        async def run() -> None:
            box.append(await trio.to_thread.run_sync(outcome.capture, work, limiter=self.threads))
            self.kick()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            while not box:
                self._news = trio.Event()
                self._kernel.gate.apply_reads()
                await self._news.wait()
        return box[0]
