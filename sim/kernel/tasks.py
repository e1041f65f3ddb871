"""Kernel tasks: the state of a Trio task in the kernel, and cancellation in the kernel's order."""

from __future__ import annotations

from time import perf_counter
from typing import Any, Final

import trio

ALONE_S = 0.02  # the slice of a run that serves no client


class KernelTask:
    """One Trio task under the kernel's order.  `owner` decides whether it may run now (see
    `Context`).
    """

    __slots__ = ("cause", "gen", "ident", "name", "owner", "scope", "trio_task", "why")

    def __init__(self, ident: int, name: str, owner: Any) -> None:
        self.ident = ident
        self.name = name
        self.owner = owner
        self.scope = trio.CancelScope()
        self.trio_task: trio.lowlevel.Task | None = None
        self.gen = 0
        self.cause = 0
        self.why: str = "start"


Ticket = tuple[KernelTask, int]
Entry = tuple[KernelTask, Any]  # a task's turn, and the value with which it is released


class Cancelled:
    """The value that makes a released task deliver Trio's cancellation."""


CANCELLED: Final = Cancelled()


class Passes(trio.abc.Instrument):
    """Observes at each pass of Trio's loop how many tasks other than the driver are runnable."""

    def __init__(self) -> None:
        self._others = 0

    def before_io_wait(self, timeout: float) -> None:
        """Count the runnable tasks; Trio calls this before it waits for I/O."""
        self._others = trio.lowlevel.current_statistics().tasks_runnable - 1

    async def let_run(self, most_s: float) -> None:
        """Let servers run until all of them are blocked, or their share of the time is used up.

        A checkpoint is one pass of Trio's loop, and one HTTP request takes several passes. What
        becomes ready in a pass shows in the next one, so this waits for two passes without work.
        (`trio.testing` has such a function too, but its import takes 90 ms.) With slices of ALONE_S
        there are no servers: one pass is enough for a display, and takes a tenth of the time.
        """
        if most_s >= ALONE_S:
            await trio.lowlevel.checkpoint()
            return
        end, calm = perf_counter() + most_s, 0
        trio.lowlevel.add_instrument(self)
        try:
            while calm < 2 and perf_counter() < end:
                await trio.lowlevel.checkpoint()
                calm = 0 if self._others else calm + 1
        finally:
            trio.lowlevel.remove_instrument(self)
