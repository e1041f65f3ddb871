"""Long work: one unit of work on a thread, beside which reads from outside are applied.

`Aside.plan` makes a unit of work of a function and of one that takes its outcome.  The first must
change nothing but what it owns.  Where no clients wait, both run in the driver.  Where a
cluster is served, the first runs on a thread.  Virtual time rests and no other unit runs, but those
operations of the gate that change nothing (`Gate.handle`) are applied as if they had come before.
Where the function rests (`sim.pauses`), its unit ends and another one follows: all other work from
outside is applied between the two.

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
from sim.pauses import Parts

Outcome = outcome.Maybe[Any]
Job = tuple[Parts, Callable[[Outcome], None], int]  # the last: its cause


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
        self.jobs.append((Parts(work), then, self._kernel.cause))

    def kick(self) -> None:
        """Look at the gate: an operation may have been handed in."""
        self._news.set()

    async def run(self) -> int:
        """Do one unit of the work that waits (called by the driver); 0 if none waits, otherwise 1."""
        if not self.jobs:
            return 0
        parts, then, cause = self.jobs[0]  # kept there while it is done, so that `end` finds it
        if self.threads is None:
            parts.go_on()
        else:
            self.busy = True  # its position in the journal is that of the reads before it
            try:
                await self._done(parts)
            finally:
                self.busy = False
        kernel = self._kernel
        kernel.steps += 1
        self.jobs.popleft()
        if parts.found is None:
            self.jobs.append((parts, then, cause))
        else:
            kernel.follow(cause)
            then(parts.found)
        return 1

    def end(self) -> None:
        """Give up the work that has begun."""
        for parts, _, _ in self.jobs:
            parts.give_up()

    async def _done(self, parts: Parts) -> None:
        """Do a part on a thread, beside which reads are applied."""
        done = False

        async def run() -> None:
            nonlocal done
            await trio.to_thread.run_sync(parts.go_on, limiter=self.threads)
            done = True
            self.kick()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            while not done:
                self._news = trio.Event()
                self._kernel.gate.apply_reads()
                await self._news.wait()
