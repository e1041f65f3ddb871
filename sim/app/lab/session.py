"""The cluster of a lab, inside the thread of its portal or in a copy of the process.

Turns calls from outside into runs, steps and states of the cluster, and keeps checkpoints.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from sim.app.cluster import Cluster
from sim.app.control.until import Awaited
from sim.app.inspect.why import story_so_far
from sim.app.lab.copied import CopiedPortal, Held, copied
from sim.app.lab.recording import RESOURCES, Recording
from sim.app.lab.shown import State, Story
from sim.app.parts.given import check_object
from sim.app.parts.resting import Rest
from sim.app.run import record, sample
from sim.app.timetable import applied_us, header_of
from sim.client import Client
from sim.ident import NAMES
from sim.kernel import Actor, SoFar, Trace
from sim.report import Timeline
from sim.scenario.plan.plan import Plan

CHECKPOINTS_MAX = 32  # processes, some 6 MiB each for 90 nodes and 50 MiB for 1,000


class Session(Held):
    """The cluster of a lab with its observers, inside the thread of the portal."""

    def __init__(self, plan: Plan, seed: int, folder: Path, every_us: int = 0) -> None:
        self.plan, self._every_us = plan, every_us
        self._checkpoints: list[tuple[int, CopiedPortal[Session]]] = []
        self._awaited: Awaited | None = None
        self.folder = folder
        self.trace = Trace(folder / "lab.trace", header_of(plan, seed))
        self.cluster = Cluster(plan.cluster, seed=seed, trace=self.trace)
        self.timeline = Timeline(NAMES[plan.cluster.naming])
        self.recording = Recording(NAMES[plan.cluster.naming])
        self.programs: dict[str, Actor] = {}
        # Objects that wait until the nodes have booted; None from then on.
        self._waiting: list[Mapping[str, Any]] | None = [*plan.objects]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        """Run the cluster."""
        try:
            async with self.cluster as cluster:
                for change in cluster.present(RESOURCES):
                    self.recording.see(change)
                cluster.observe(self.recording.see, RESOURCES)
                record(cluster, self.timeline)
                sample(cluster, self.timeline)
                cluster.do.on_step(self.timeline.step)
                cluster.do.schedule(self.plan.steps)
                cluster.kernel.call_at(applied_us(self.plan), self._booted)
                yield self
        finally:
            for _, portal in self._checkpoints:
                portal.close()
            self.trace.close()

    def apply(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Apply objects, or let them wait until the nodes have booted.  Raises InputError for a
        value that is no object.
        """
        if self._waiting is None:
            self.cluster.apply(*objects)
            return
        for obj in objects:
            check_object(self.cluster.scheme, obj)
        self._waiting += objects

    @property
    def objects_from_us(self) -> int:
        """The time at which the waiting objects are applied; 0 if that has happened."""
        return 0 if self._waiting is None else applied_us(self.plan)

    def _booted(self, _: None) -> None:
        """Apply the objects that wait."""
        waiting, self._waiting = self._waiting, None
        self.cluster.hand_in(waiting or ())

    @property
    def now_us(self) -> int:
        """Virtual time."""
        return self.cluster.kernel.now_us

    async def run_until(self, at_us: int) -> None:
        """Run to an instant, or until the kernel is halted."""
        while self._every_us and (rest_us := (self.now_us // self._every_us + 1) * self._every_us) <= at_us:
            await self.cluster.run_until(rest_us)
            if self.now_us < rest_us:
                return
            await self._keep()
        await self.cluster.run_until(at_us)

    async def _keep(self) -> None:
        """Keep a copy of the process as a checkpoint; of many, every second one is given up."""
        copy = None if self.programs else await copied(self)
        if copy is not None:
            self._checkpoints.append((self.now_us, copy))
        if len(self._checkpoints) > CHECKPOINTS_MAX:
            for _, portal in self._checkpoints[1::2]:
                portal.close()
            del self._checkpoints[1::2]

    def checkpoints(self) -> list[tuple[int, CopiedPortal[Session]]]:
        """The copies that rest, each with its instant."""
        return self._checkpoints

    async def run_until_holds(self, text: str | Mapping[str, Any], limit_us: int) -> bool:
        """Run until a condition holds or an event happens; False if the limit came first."""
        self._awaited = awaited = Awaited(self.cluster, text, self.halt)
        try:
            if not awaited.holds:
                await awaited.run(self.run_until, self.now_us + limit_us)
        finally:
            awaited.forget()
        return awaited.holds

    async def run_until_steady(self, quiet_us: int, limit_us: int) -> Rest:
        """Run until nothing was written for a time, at most for the limit."""
        return await self.cluster.run_until_steady(quiet_us, limit_us)

    def prepare(self) -> SoFar:
        """Return what a copy of the process needs: the trace so far."""
        return self.trace.so_far()

    def settle(self, prepared: SoFar) -> Callable[[], object]:
        """Let the copy have a folder of its own; returns what removes it."""
        folder = tempfile.TemporaryDirectory(prefix="orrery-lab-", ignore_cleanup_errors=True)
        self.folder = Path(folder.name)
        self.trace.move(prepared, self.folder / "lab.trace")
        self._every_us, self._checkpoints = 0, []
        if self._awaited is not None:
            self._awaited.forget()  # that of the run in which the copy was made
        return folder.cleanup

    def halt(self) -> None:
        """Let the run end with the present instant."""
        self.cluster.kernel.halt()

    def add_program(
        self, name: str, main: Callable[[Client], Awaitable[object]], qps: float, burst: int
    ) -> None:
        """Run a program of the user as a process."""
        self.programs[name] = self.cluster.add_program(name, main, qps=qps, burst=burst)

    def state(self) -> State:
        """The present state in numbers."""
        return State(self.now_us, **self.cluster.counts())

    def story(self, target: str, namespace: str, what: str) -> Story:
        """What led to what became of an object."""
        copy = self.folder / "so-far.trace"
        self.trace.so_far().copy(copy)
        result = story_so_far(copy, target, namespace, what)
        return Story(result.title, result.lines)


async def carried_out(action: Callable[[Session], Any], session: Session) -> Any:
    """Carry out an action and all that is due at its instant, so that the next one finds it done.

    Without that, the real time between two actions would decide what is run between them.
    """
    result = action(session)
    await session.run_until(session.now_us)
    return result
