"""The processes of one pod: which run, which wait, and when the next of them continues.

Turns the passing of virtual time, signals and sources that become ready into steps of programs.

Holds: a program that is killed is closed where it waits, so it must not yield in a `finally`;
programs run only within `run`, one at a time, in the order in which they became able to; a run
depends on the instants and the order of calls alone; a program that never waits cannot stop the
simulation: after `TURNS` turns in a row without a wait it rests, the longer the oftener, up to
`REST_MAX_US`.

Mirrors  Linux kernel/signal.c: sig_task_ignored (process 1 gets no signal that it has no handler
         for, except SIGKILL and SIGSTOP from outside of its container).
Differs  a program's own calculations take no time, but for that rest: a loop that counts runs at
         the speed of the rest, not of a processor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any

from actors.node.programs.ends import BrokenPipe, End
from actors.node.programs.process import (
    HARMLESS,
    KILLED,
    Identity,
    NoProcess,
    Process,
    Processes,
    Signal,
)
from actors.node.programs.waits import Main, Wait
from sim.units import MS, SECOND

TURNS = 1_000
REST_US, REST_MAX_US = 10 * MS, 10 * SECOND
PROCESSES_MAX = 256  # of one pod; a process more cannot be started (EAGAIN)


class _Running:
    """A process under way.

    wait: what it waits for; None if it can go on
    turns: how often it continued without having waited; rest_us: its next rest
    """

    __slots__ = ("main", "process", "rest_us", "turns", "wait", "wake")

    def __init__(self, process: Process, main: Main) -> None:
        self.process = process
        self.main = main
        self.wait: Wait | None = None
        self.turns = 0
        self.rest_us = REST_US
        self.wake: Callable[[], None] = _asleep


def _asleep() -> None:
    pass


class Table(Processes):
    """The processes of a pod.

    now_us: the instant of the last run
    stir: called, outside of `run`, when a process has become able to go on
    limit: how many processes there may be at once
    """

    __slots__ = (
        "_current", "_pids", "_queue", "_running", "_runs", "_timers", "_timers_made", "limit", "stir",
    )  # fmt: skip

    def __init__(self, stir: Callable[[], None], now_us: int = 0, limit: int = PROCESSES_MAX) -> None:
        self.now_us = now_us
        self.stir = stir
        self.limit = limit
        self._running: dict[Process, _Running] = {}
        self._queue: deque[_Running] = deque()
        self._timers: list[tuple[int, int, _Running, Wait]] = []
        self._timers_made = 0
        self._pids: dict[Any, int] = {}
        self._runs = False
        self._current: _Running | None = None

    @property
    def processes(self) -> tuple[Process, ...]:
        """The processes under way, oldest first."""
        return tuple(self._running)

    @property
    def next_us(self) -> int | None:
        """When `run` has to be called next; None if only a source or a signal can change anything."""
        if self._queue:
            return self.now_us
        while self._timers and self._timers[0][2].wait is not self._timers[0][3]:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def spawn(
        self,
        main: Callable[[Process], Main],
        container: Any,
        words: tuple[str, ...],
        env: Mapping[str, str],
        cwd: str,
        identity: Identity,
        *,
        ends: dict[int, End],
        parent: Process | None = None,
        space: object = None,
    ) -> Process:
        """Start a process, as `Processes.spawn` says."""
        if len(self._running) >= self.limit:
            for end in ends.values():
                end.close()
            raise NoProcess
        space = space or (container if parent is None else parent.space)
        pid = self._pids[space] = self._pids.get(space, 0) + 1
        process = Process(self, pid, container, words, env, cwd, identity, ends, parent, space)
        running = _Running(process, main(process))
        running.wake = lambda: self._wake(running)
        self._running[process] = running
        self._ready(running)
        return process

    def run(self, now_us: int) -> None:
        """Let all processes go on until each of them waits."""
        assert not self._runs, "a program has run the table"
        assert now_us >= self.now_us, "time has gone backwards"
        self.now_us, self._runs = now_us, True
        try:
            while True:
                while (next_us := self.next_us) is not None and not self._queue and next_us <= now_us:
                    self._timers[0][2].wake()
                if not self._queue:
                    return
                self._step(self._queue.popleft())
        finally:
            self._runs = False

    def signal(self, process: Process, number: int, *, outside: bool = False) -> None:
        """Send a signal, as `Processes.signal` says."""
        running = self._running.get(process)
        if running is None or number == 0 or number in process.ignored:
            return
        if number == Signal.KILL:
            if process.pid != 1 or outside:
                self._end(running, KILLED + number)
        elif number in process.caught:
            process.pending.append(number)
            if running.wait is not None and not running.wait.deaf:
                running.wake()
        elif process.pid != 1 and number not in HARMLESS:
            self._end(running, KILLED + number)

    def kill(self, container: Any, code: int = KILLED + Signal.KILL) -> None:
        """End all processes of a container, the newest first: no shell sees the end of a child."""
        for process in reversed(self.processes):
            if process.container == container and (running := self._running.get(process)) is not None:
                self._end(running, code)

    def empty(self, space: object) -> None:
        """End all processes of a namespace, as the kernel does when its process 1 has ended."""
        for process in reversed(self.processes):
            if process.space is space and (running := self._running.get(process)) is not None:
                self._end(running, KILLED + Signal.KILL)

    # --- steps of one process ---------------------------------------------------------------------

    def _ready(self, running: _Running) -> None:
        self._queue.append(running)
        if not self._runs:
            self.stir()

    def _wake(self, running: _Running) -> None:
        wait = running.wait
        if wait is not None:
            running.wait = None
            for source in wait.sources:
                source.unwatch(running.wake)
            self._ready(running)

    def _step(self, running: _Running) -> None:
        process = running.process
        if process not in self._running:
            return  # it was killed after it had become able to go on
        self._current = running
        try:
            wait = next(running.main)
        except StopIteration as end:
            self._end(running, int(end.value or 0) & 255)
        except BrokenPipe:
            self._end(running, KILLED + Signal.PIPE)
        except RecursionError:
            self._end(running, KILLED + Signal.SEGV)  # as a program without any stack left
        else:
            if process in self._running:
                self._wait(running, wait)
            else:  # it has killed itself, or all of its container
                running.main.close()
        finally:
            self._current = None

    def _wait(self, running: _Running, wait: Wait) -> None:
        until_us = wait.until_us
        at_once = any(source.ready for source in wait.sources)
        if at_once or (until_us is not None and until_us <= self.now_us):
            running.turns += 1
            if running.turns < TURNS:
                self._queue.append(running)
                return
            wait = Wait(until_us=self.now_us + running.rest_us)
            running.rest_us = min(2 * running.rest_us, REST_MAX_US)
        else:
            running.rest_us = REST_US
        running.turns = 0
        running.wait = wait
        for source in wait.sources:
            source.watch(running.wake)
        if wait.until_us is not None:
            self._timers_made += 1
            heappush(self._timers, (wait.until_us, self._timers_made, running, wait))

    def _end(self, running: _Running, code: int) -> None:
        process = running.process
        self._running.pop(process, None)
        if process.ended.ready:
            return
        if running.wait is not None:
            for source in running.wait.sources:
                source.unwatch(running.wake)
        running.wait = None
        if running is not self._current:
            running.main.close()
        for fd in tuple(process.ends):
            process.close(fd)
        process.ended.code = code
        process.ended.set()
        if not any(other.space is process.space for other in self._running):
            self._pids.pop(process.space, None)
