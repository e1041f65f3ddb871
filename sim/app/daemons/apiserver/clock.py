"""The clock of an API server that runs alone, when it follows the virtual time of a served cluster.

Turns each turn of the server at its clock into work of its kernel and turns of the programs that
follow the server in the same way, so that one cluster steers the time of all.

Holds: a turn ends when nothing more is due in the server and no program that follows it has a turn;
requests of others are answered between turns too, at the instant of the last one, which is at most
TICK_US ago.

Mirrors  nothing upstream.
"""

from __future__ import annotations

import trio

from sim.app.steering.routes import TIME_ROUTES, Clocks, Stage
from sim.kernel import NEVER_US, Kernel
from sim.units import SECOND, Virtual
from sim.wire.rest.access import Credentials
from sim.wire.rest.following import Following
from sim.wire.turns import Turns

TICK_US = SECOND  # of virtual time: objects show their times in seconds


class ServerClock(Following):
    """The clock of one API server."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__("apiserver", credentials)
        self._quiet = trio.Event()
        self._scope = trio.CancelScope()

    def join(self, kernel: Kernel, turns: Turns) -> None:
        """Take over the time of a server that has not begun.

        turns: of the programs that follow it
        """
        self._kernel, self._turns = kernel, turns
        turns.on_rest, kernel.at_rest = self._rested, turns.rested
        kernel.set_goal(kernel.now_us)
        self.on_change = turns.changed  # type: ignore[method-assign]

    def stage(self) -> Stage:
        """What answers the programs that follow the server."""
        return Stage(Clocks(self._turns, lambda: self.state), TIME_ROUTES)

    async def live(self) -> bool:
        """Do turns until `leave`; returns False if the clock has ended before."""
        with self._scope:
            await self.run(self._kernel)
        return self._scope.cancelled_caught

    def leave(self) -> None:
        """Follow the wall clock from now on, to end."""
        self._scope.cancel()
        self._kernel.set_rate(1)
        self._kernel.set_goal(NEVER_US)

    @property
    def _due_us(self) -> Virtual:
        kernel = self._kernel
        return min(kernel.due_us, self._turns.next_us, Virtual(kernel.now_us + TICK_US))

    async def next_us(self, kernel: Kernel) -> Virtual:
        """When the server, or a program that follows it, has something to do again."""
        self._quiet = trio.Event()
        kernel.kick()
        await self._quiet.wait()
        return self._due_us

    def _rested(self) -> None:
        """Nothing more is due at this instant, perhaps after a request that came between turns."""
        self._quiet.set()
        if self._due_us < self._next_us and self._nursery is not None and self._turn:
            self._next_us = self._due_us
            self._nursery.start_soon(self._announce)
