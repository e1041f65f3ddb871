"""A process that runs alone: a kernel on the wall clock with one actor, until a signal or its end.

Turns the main function of an actor into a process of the machine with an exit status.

Holds: virtual time is the wall clock from the start on, and continues where the wall clock is set
back, unless it is that of a served cluster; SIGTERM and SIGINT let the actor say farewell (a
scheduler releases its lease), a second one ends the process at once with status 1; an actor that
ends by itself ends the process with status 1, as upstream's do when they lose their lease.

Mirrors  kubernetes v1.25 apiserver pkg/server/signal.go (SetupSignalHandler).
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import trio

from sim.api.scheme.scheme import Scheme
from sim.app.daemons.connection import credentials_of
from sim.app.daemons.happenings import log_happenings
from sim.errors import InputError
from sim.ident import Names
from sim.kernel import NEVER_US, Actor, Kernel, NoJournal, Supervisor
from sim.kernel.actor import Main
from sim.units import Virtual, Wall
from sim.wire.rest.access import Access, AccessError
from sim.wire.rest.following import Following
from sim.wire.rest.transport import RestClients, Sender

LOG = logging.getLogger(__name__)
FAREWELL_S = 10.0  # real time for an actor to end after the first signal
ENDED, FAILED = 0, 1  # exit status
ONCE = "runonce"  # the reason of an end that was asked for by an option
SIGNAL = "signal"  # the operation of the gate


class Alone:
    """What a component that runs alone is made of.

    host: the name of this machine, under which the actor runs
    actor: once it begins
    farewell_s: real time for the actor to end after the first signal
    following: the clock that it follows; None for the wall clock
    """

    def __init__(
        self, names: Names, kernel: Kernel, nursery: trio.Nursery, following: Following | None = None
    ) -> None:
        self.following = following
        self.names = names
        self.scheme = Scheme(names)
        self.kernel = kernel
        self.nursery = nursery
        self.host = socket.gethostname()
        self.actor: Actor | None = None
        self.farewell_s = FAREWELL_S

    def clients(self, access: Access, agent: str, *, own_accounts: bool = False) -> RestClients:
        """The calls of this process to one API server."""
        credentials = credentials_of(access)
        return RestClients(
            self.kernel,
            self.scheme,
            self.nursery,
            credentials,
            agent=agent,
            own_accounts=own_accounts,
            following=self.following,
        )

    def sender(self, access: Access, agent: str) -> Sender:
        """The calls of this process outside of virtual time."""
        return Sender(self.names, credentials_of(access), agent, False)


Make = Callable[[Alone], Awaitable[Main]]


def run_process(names: Names, make: Make, following: Following | None = None) -> int:
    """Run a component until it ends; returns the exit status.

    make: makes the actor, and starts in the nursery what serves beside it
    following: the clock that it follows; None for the wall clock
    """
    return trio.run(_run, names, make, following)


def _by_the_wall() -> Kernel:
    kernel = Kernel(secrets.randbits(63), epoch_us=Wall(time.time_ns() // 1000))
    kernel.set_rate(1)
    kernel.set_goal(NEVER_US)
    return kernel


async def _run(names: Names, make: Make, following: Following | None) -> int:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            try:
                kernel = await following.begin(nursery) if following is not None else _by_the_wall()
                kernel.gate.journal = NoJournal()
                alone = Alone(names, kernel, nursery, following)
                main = await make(alone)
            except (AccessError, InputError) as error:
                LOG.critical("%s", error)
                nursery.cancel_scope.cancel()
                return FAILED
            supervisor = Supervisor(kernel, nursery)
            life = _Life(supervisor, alone)
            log_happenings(supervisor)
            nursery.start_soon(kernel.run)
            life.begin(main)
            if following is not None:
                nursery.start_soon(life.live_by, following)
            nursery.start_soon(life.follow, signals)
            await life.ended.wait()
            kernel.stop()
            nursery.cancel_scope.cancel()
    return life.status


class _Life:
    """The one actor of a process: its end, and the signals that ask for it.

    status: the exit status of the process once `ended` is set
    """

    def __init__(self, supervisor: Supervisor, alone: Alone) -> None:
        self._alone = alone
        self.ended = trio.Event()
        self.status = FAILED
        self._supervisor = supervisor
        self._is_asked = False
        supervisor.kernel.gate.handle(SIGNAL, self._ask)
        supervisor.kernel.trace.listen(supervisor.kind, self._see)

    def begin(self, main: Main) -> None:
        """Start the actor."""
        actor = self._alone.actor = self._supervisor.add(self._alone.host, main, start=False)
        actor.start()

    def _see(self, _: int, at_us: Virtual, cause: int, values: tuple[Any, ...]) -> None:
        what, _name, reason = values
        if what != "exit":
            return
        if self._is_asked or reason == ONCE:
            self.status = ENDED
        else:
            LOG.error("%s", reason)
        self.ended.set()

    def _ask(self, _: Any, done: Callable[[Any], None]) -> None:
        self._is_asked = True
        assert self._alone.actor is not None
        self._alone.actor.terminate()
        done(None)

    async def live_by(self, following: Following) -> None:
        """Follow a clock to its end, which is that of the process."""
        await following.run(self._supervisor.kernel)
        self.ended.set()

    async def follow(self, signals: AsyncIterator[int]) -> None:
        """End the actor at the first signal, and the process at the second."""
        number = await anext(signals)
        LOG.info("received %s, ending", signal.Signals(number).name)
        self._supervisor.kernel.gate.post(SIGNAL, None, lambda _: None)
        with trio.move_on_after(self._alone.farewell_s):
            await anext(signals)
        logging.shutdown()
        os._exit(FAILED)  # the actor has not ended
