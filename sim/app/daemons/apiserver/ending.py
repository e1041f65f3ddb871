"""The end of an API server that runs alone: from the first signal to the last answer.

Turns signals into the termination of the server's process, and the phases of that into what its
listeners and connections do.

Holds: from the first signal on the server is not ready; after --shutdown-delay-duration it accepts
no connection (with --shutdown-send-retry-after: it answers with 429), finishes the requests that it
has, and ends its watches in order; a second signal ends the process at once.

Mirrors  kubernetes v1.25 apiserver pkg/server/{genericapiserver,signal}.go; golang net/http
         server.go (Shutdown).
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import trio

from sim.kernel import Supervisor
from sim.units import Virtual

LOG = logging.getLogger(__name__)
SIGNAL = "signal"  # the operation of the gate
ENDED, FAILED = 0, 1  # exit status
CLOSES = "close"  # the decision after which requests are refused
LAST_S = 5.0  # real time in which clients take their last answers


class Ending:
    """The end of one server.

    name: of its process
    answers: True if it answers requests that come too late
    begins: called at the first signal
    drains: set when no further connection is accepted
    ended: set at the end of the server's process
    status: the exit status of the process, from then on
    """

    def __init__(
        self, supervisor: Supervisor, name: str, *, answers: bool, begins: Callable[[], None]
    ) -> None:
        self.drains, self.ended = trio.Event(), trio.Event()
        self.status = FAILED
        self._supervisor, self._name, self._answers = supervisor, name, answers
        self._is_asked, self._begins = False, begins
        kernel = supervisor.kernel
        kernel.gate.handle(SIGNAL, self._ask)
        kernel.trace.listen(supervisor.decision, self._see_decision)
        kernel.trace.listen(supervisor.kind, self._see_process)

    def _ask(self, _: Any, done: Callable[[Any], None]) -> None:
        self._is_asked = True
        self._supervisor[self._name].terminate()
        done(None)

    def _see_decision(self, _: int, at_us: Virtual, cause: int, values: tuple[Any, ...]) -> None:
        if values[:2] == (self._name, CLOSES) and not self._answers:
            self.drains.set()

    def _see_process(self, _: int, at_us: Virtual, cause: int, values: tuple[Any, ...]) -> None:
        what, name, reason = values
        if name != self._name or what not in ("exit", "crash"):
            return
        if self._is_asked:
            self.status = ENDED
        else:
            LOG.error("%s", reason)
        self.drains.set()
        self.ended.set()

    async def follow(self, signals: AsyncIterator[int]) -> None:
        """Begin at the first signal; end the process at the second."""
        number = await anext(signals)
        LOG.info("received %s, shutting down", signal.Signals(number).name)
        self._begins()
        self._supervisor.kernel.gate.post(SIGNAL, None, lambda _: None)
        await anext(signals)
        logging.shutdown()
        os._exit(FAILED)
