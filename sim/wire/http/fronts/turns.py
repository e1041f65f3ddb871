"""How long one pass of Trio's loop may serve connections, before others have their turn.

The connections that become readable in a pass are served in it until it has taken PASS_S; the rest
of them waits in order, and a few go on in each pass that follows.

Holds: thousands of clients that send or leave at once stop the loop for no longer than it takes to
note each of them.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from itertools import islice
from time import perf_counter
from typing import Any, Final

import trio
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

PASS_S: Final = 0.01
RELEASED: Final = 8  # connections that go on in a pass, of those that have waited


class Turns(trio.abc.Instrument):
    """The turns of one Trio run."""

    def __init__(self) -> None:
        self._ends_s = perf_counter() + PASS_S  # of the present pass
        self._waiting: dict[Task, None] = {}
        self._wakeup = trio.Event()
        trio.lowlevel.add_instrument(self)
        trio.lowlevel.spawn_system_task(self._run, name="turns of connections")

    def after_io_wait(self, timeout: float) -> None:
        """Begin a pass."""
        self._ends_s = perf_counter() + PASS_S

    async def take(self, descriptor: int) -> None:
        """Wait until a connection is readable and has its turn."""
        await trio.lowlevel.wait_readable(descriptor)
        if perf_counter() < self._ends_s:
            return
        task = current_task()

        def abort(_: Any) -> Abort:
            self._waiting.pop(task, None)
            return Abort.SUCCEEDED

        self._waiting[task] = None
        self._wakeup.set()
        await wait_task_rescheduled(abort)

    async def _run(self) -> None:
        """Let those that wait go on."""
        while True:
            if not self._waiting:
                self._wakeup = trio.Event()
                await self._wakeup.wait()
            for task in [*islice(self._waiting, RELEASED)]:
                del self._waiting[task]
                reschedule(task)
            await trio.lowlevel.checkpoint()


_TURNS = trio.lowlevel.RunVar[Turns]("turns")


def turns() -> Turns:
    """The turns of the present Trio run."""
    try:
        return _TURNS.get()
    except LookupError:
        made = Turns()
        _TURNS.set(made)
        return made
