"""The agent's sync loop as far as it matters when it stands still, for it handles nothing while a runtime error stands,
and when the clock is set, at which it looks each second.

Turns errors that come and go into the instants at which the loop looks again; what comes for it meanwhile (pods from the
API, workers that want to begin something) waits for that.

Holds: a loop that is awake keeps nothing; what waited is handled in the order in which it came.

Mirrors  pkg/kubelet/kubelet.go: syncLoop (v1.25).
Differs  of what waits nothing is lost, however much it is; upstream's channels fill up and their senders wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from actors.node.pods.ports import SleepingPod
from sim.kernel.actor import Context
from sim.units import MS, SECOND

SLEEP_US = 100 * MS  # kubelet.go: syncLoop, base, factor 2, max
SLEEP_MAX_US = 5 * SECOND


def turn_at(since_us: int, at_us: int) -> int:
    """When a loop that has found errors since then looks again for the first time at that instant or after it."""
    turn_us, sleep_us = since_us, SLEEP_US
    while turn_us < at_us:
        turn_us += sleep_us
        sleep_us = min(2 * sleep_us, SLEEP_MAX_US)
    return turn_us


class RuntimeState(Protocol):
    """The container runtime as its last checks showed it."""

    @property
    def silent(self) -> bool:
        """True while calls that change nothing get no answer."""
        ...

    def failed(self) -> bool:
        """True while the runtime has an error other than that of the network."""
        ...


class Owner(Protocol):
    """What the sync loop uses of the node agent."""

    ctx: Context

    @property
    def now_us(self) -> int:
        """The kernel's time."""
        ...

    @property
    def runtime(self) -> RuntimeState:
        """The container runtime."""
        ...

    @property
    def workers(self) -> Mapping[str, SleepingPod]:
        """The workers of all pods, by uid."""
        ...

    def tick_after(self, at_us: int) -> int:
        """The first tick of the sync loop strictly after an instant."""
        ...


class SyncLoop:
    """One agent incarnation's.  _since_us: of the turn at which it found errors first, -1 while it is awake."""

    __slots__ = ("_agent", "_asking", "_backlog", "_due_us", "_since_us", "_waiting")

    def __init__(self, agent: Owner) -> None:
        self._agent = agent
        self._since_us = -1
        self._due_us = -1  # of the turn at which it is to go on
        # What led to it, who handles it, and what it is.
        self._backlog: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []
        self._waiting: dict[str, SleepingPod] = {}
        self._asking: dict[str, SleepingPod] = {}  # those whose calls have no answer

    @property
    def asleep(self) -> bool:
        return self._since_us >= 0

    def stalled(self) -> bool:
        """Whether a worker has to wait that wants to begin something: also for a runtime that does not answer."""
        return self.asleep or self._agent.runtime.silent

    def resume_later(self, worker: SleepingPod) -> None:
        self._waiting[worker.uid] = worker

    def answer_later(self, worker: SleepingPod) -> None:
        self._asking[worker.uid] = worker

    def handle_later(self, handler: Callable[..., None], *what: Any) -> None:
        self._backlog.append((self._agent.ctx.kernel.cause, handler, what))

    def runtime_checked(self) -> None:
        """What is known of the runtime may have changed."""
        agent = self._agent
        if agent.runtime.failed():
            self._due_us = -1
            if not self.asleep:
                self._since_us = agent.tick_after(agent.now_us)  # its next turn at the latest
        elif self.asleep:
            if self._due_us < 0:
                self._due_us = turn_at(self._since_us, agent.now_us)
                agent.ctx.call_at_us(self._due_us, self._wake, self._due_us)
        elif not self.stalled():
            self._resume()

    def _wake(self, planned_us: int) -> None:
        if planned_us != self._due_us:
            return  # an error has come meanwhile
        self._since_us = self._due_us = -1
        kernel, (backlog, self._backlog) = self._agent.ctx.kernel, (self._backlog, [])
        cause = kernel.cause
        for led, handler, what in backlog:
            kernel.cause = led or cause
            handler(*what)
        kernel.cause = cause
        self._resume()

    def clock_set(self) -> None:
        """Probes ask for the age of containers at each tick of theirs, the loop at its own for pods that are late."""
        for worker in self._agent.workers.values():
            for probe in worker.probes:
                probe.replan()
        self._agent.ctx.call_at_us(self._agent.tick_after(self._agent.now_us), self._look)

    def _look(self, _: object) -> None:
        for worker in list(self._agent.workers.values()):
            worker.replan()

    def answered(self) -> None:
        """The runtime answers: what has been asked of it goes on, however the loop sleeps."""
        asking, self._asking = self._asking, {}
        for worker in asking.values():
            worker.answered()

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for worker in waiting.values():
            worker.wake()
