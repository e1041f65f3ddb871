"""What programs outside do, for those that wait for them.

A served cluster may hold its virtual time back for a program outside: until the program has opened
its first watch, and for some real time after each request of it and each event that it is given.

Holds: what is done at which instant of virtual time does not depend on this, only when it is done.

Mirrors  nothing upstream.
"""

from __future__ import annotations

import trio

from sim.kernel import Kernel
from sim.wire.patience import LATE_S
from sim.wire.turns import Turns


class Clients:
    """The programs outside of one cluster.

    reaction_s: real seconds for which virtual time rests after a request or an event; 0: it does
        not rest
    watches: those that were opened so far
    works: requests, answers and events so far
    turns: of the programs that follow its time
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.turns = Turns(kernel)
        self.reaction_s = 0.0
        self.watches = self.works = 0
        self._opened, self._begun = trio.Event(), trio.Event()
        self._resting = False
        self._until_s = 0.0

    def opened(self) -> None:
        """A client has opened a watch."""
        self.watches += 1
        self._opened.set()
        self._opened = trio.Event()

    def worked(self) -> None:
        """A client has sent a request or was given an answer or an event."""
        self.works += 1
        if self.reaction_s:
            self._until_s = trio.current_time() + self.reaction_s
            if not self._resting:
                self._resting = True
                self._kernel.rest()
                self._begun.set()

    async def wait(self, watches: int = 1) -> None:
        """Wait until clients have opened so many watches."""
        while self.watches < watches:
            await self._opened.wait()

    async def hold(self, watches: int) -> None:
        """Let virtual time rest until clients have opened so many watches."""
        self._kernel.rest()
        try:
            await self.wait(watches)
        finally:
            self._kernel.resume()

    async def keep_reacting(self) -> None:
        """Let virtual time pass again when clients have had their time; runs until it is cancelled."""
        try:
            while True:
                await self._begun.wait()
                left_s = self._until_s - trio.current_time()
                if left_s <= 0:
                    self._go_on()
                    continue
                due_s = self._until_s
                await trio.sleep(left_s)
                if trio.current_time() - due_s > LATE_S:  # they were paused too
                    self._until_s = trio.current_time() + self.reaction_s
        finally:
            self.reaction_s = 0.0
            self._go_on()

    def _go_on(self) -> None:
        if self._resting:
            self._resting, self._begun = False, trio.Event()
            self._kernel.resume()
