"""The agent's sync loop: the times at which it handles nothing, and changes of the clock.

While the runtime has an error, upstream's loop sleeps and handles nothing. This module turns errors
that appear and disappear into the instants at which the loop handles events again; pods from the
API and workers that want to begin something wait until then. When the clock is set, the loop plans
again what it polls each second.

Holds: a loop that is awake keeps nothing; a backlog is handled in the order in which it arrived.

Mirrors  pkg/kubelet/kubelet.go: syncLoop (v1.25).
Differs  the backlog is unbounded and loses nothing; upstream's channels fill up and their senders
         block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.node.runtime.ports import Agent, NodePod
from sim.kernel.causes import caused_by
from sim.units import MS, SECOND

SLEEP_US = 100 * MS  # kubelet.go: syncLoop, base, factor 2, max
SLEEP_MAX_US = 5 * SECOND


def retry_at(since_us: int, at_us: int) -> int:
    """When a loop that has had errors since `since_us` checks for the first time at or after an
    instant.

    Each sleep is twice as long as the one before, up to the maximum.
    """
    retry_us, sleep_us = since_us, SLEEP_US
    while retry_us < at_us:
        retry_us += sleep_us
        sleep_us = min(2 * sleep_us, SLEEP_MAX_US)
    return retry_us


class SyncLoop:
    """The sync loop of one agent incarnation.

    _since_us: when the loop found the first of the present errors; -1 while it is awake
    _due_us: when the loop wakes, once the error is gone; -1 while there is one
    _backlog: the cause, the handler and the arguments of each event that waits
    _sleeping: workers that wait to begin their next piece of work
    _unanswered: workers that wait for an answer of the runtime
    """

    __slots__ = ("_agent", "_backlog", "_due_us", "_since_us", "_sleeping", "_unanswered")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._since_us = -1
        self._due_us = -1
        self._backlog: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []
        self._sleeping: dict[str, NodePod] = {}
        self._unanswered: dict[str, NodePod] = {}

    @property
    def asleep(self) -> bool:
        """True while the loop handles nothing."""
        return self._since_us >= 0

    @property
    def asleep_since_us(self) -> int | None:
        """Since when the loop handles nothing; None while it does."""
        return self._since_us if self.asleep else None

    def stalled(self) -> bool:
        """True while no worker may begin anything, also because the runtime does not answer."""
        return self.asleep or self._agent.runtime.silent

    def resume_later(self, worker: NodePod) -> None:
        """Wake the worker when the loop continues."""
        self._sleeping[worker.uid] = worker

    def answer_later(self, worker: NodePod) -> None:
        """Call `answered` of the worker when the runtime answers."""
        self._unanswered[worker.uid] = worker

    def handle_later(self, handler: Callable[..., None], *what: Any) -> None:
        """Call a handler when the loop continues."""
        self._backlog.append((self._agent.ctx.kernel.cause, handler, what))

    def runtime_checked(self) -> None:
        """The errors of the runtime may have changed."""
        agent = self._agent
        if agent.runtime.failed():
            self._due_us = -1
            if not self.asleep:
                # The loop's next iteration finds the error.
                self._since_us = agent.tick_after(agent.now_us)
        elif self.asleep:
            if self._due_us < 0:
                self._due_us = retry_at(self._since_us, agent.now_us)
                agent.ctx.call_at_us(self._due_us, self._wake, self._due_us)
        elif not self.stalled():
            self._resume()

    def _wake(self, planned_us: int) -> None:
        if planned_us != self._due_us:
            return  # another error appeared in between
        self._since_us = self._due_us = -1
        kernel, (backlog, self._backlog) = self._agent.ctx.kernel, (self._backlog, [])
        for cause, handler, what in backlog:
            with caused_by(kernel, cause):
                handler(*what)
        self._resume()

    def clock_set(self) -> None:
        """The clock was set: plan probes and workers again.

        Probes compare the age of containers at each of their ticks, the loop the deadlines of pods
        at its own.
        """
        for worker in self._agent.workers.values():
            worker.replan_probes()
        self._agent.ctx.call_at_us(self._agent.tick_after(self._agent.now_us), self._replan_workers)

    def _replan_workers(self, _: object) -> None:
        for worker in list(self._agent.workers.values()):
            worker.replan()

    def answered(self) -> None:
        """The runtime answers: its callers continue, even while the loop sleeps."""
        unanswered, self._unanswered = self._unanswered, {}
        for worker in unanswered.values():
            worker.answered()

    def _resume(self) -> None:
        sleeping, self._sleeping = self._sleeping, {}
        for worker in sleeping.values():
            worker.wake()
