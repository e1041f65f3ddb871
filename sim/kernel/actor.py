"""Actors: named processes that start, crash, restart without memory, pause, slow down and drift.

An actor is `main(ctx)`, which runs again for each incarnation with a fresh `Context`; its memory
lives in that call. `main` may be async (a task that waits) or a plain function that only sets up
callbacks and returns (thousands of node agents); in both cases the incarnation lives until it exits
or crashes.

All waiting, timing and randomness of an actor goes through its `Context`, where faults act:
- crash: tasks are cancelled, callbacks dropped, `on_stop` hooks run (they cut connections, nothing
  more);
- terminate (SIGTERM): the process runs its farewell, if it has one, and ends by itself; a start
  during that time takes effect after its end;
- pause (SIGSTOP, a long stall): tasks and callbacks that become due are held, and run, in order, on
  resume;
- slow: each piece of work is deferred by a fixed extra delay, in order; work that is still deferred
  when the fault ends runs at once;
- clock: offset and drift change what the actor reads as time, and drift also changes how long the
  sleeps last that begin under it; a sleep that has begun keeps its end.

Holds: nothing of a crashed incarnation runs after the crash; two incarnations share no memory and
no random stream; a paused actor runs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from random import Random
from typing import Any, Literal, assert_never

import trio

from sim.errors import InputError
from sim.kernel.causes import Standing, caused_by
from sim.kernel.draws.streams import Sparing
from sim.kernel.kernel import Kernel
from sim.kernel.sync import Future, Mailbox
from sim.kernel.tasks import KernelTask
from sim.kernel.timer import Timer
from sim.kernel.trace.records import Kind, Values
from sim.units import Virtual, Wall, format_duration

Main = Callable[["Context"], Awaitable[None] | None]
MENDS = ("start", "resume")  # kinds of record that end every fault of a process
PROCESS = "process"
HINDER = ("slow", "terminate")  # kinds of record after which a process still runs


Ending = Literal["crash", "exit"]  # how a process ends: from outside, or by itself


class State(Enum):
    """Whether and how an incarnation runs."""

    RUNNING = "running"
    PAUSED = "paused"
    SLOW = "slow"
    DEAD = "dead"


class ActorExit(Exception):
    """Raised by `Context.exit`: the process ends by itself for this reason."""


class Clock:
    """An actor's clock: an offset in microseconds and a drift in parts per million."""

    __slots__ = ("_past", "_standing", "base_us", "drift_ppm", "local_us", "offset_us")

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.offset_us = 0  # of the wall clock only
        self.drift_ppm = 0
        self.base_us = Virtual(0)
        self.local_us = 0
        self._past: tuple[
            tuple[Virtual, int, int, int], ...
        ] = ()  # earlier settings: since, local time, offset, drift

    def read_us(self, now_us: int) -> int:
        """The monotonic time of this clock at an instant of virtual time."""
        elapsed = now_us - self.base_us
        return self.local_us + elapsed + elapsed * self.drift_ppm // 1_000_000

    def set(self, now_us: Virtual, *, offset_us: int | None = None, drift_ppm: int | None = None) -> None:
        """Set offset or drift from this instant on."""
        self._standing.moved()
        self._past += ((self.base_us, self.local_us, self.offset_us, self.drift_ppm),)
        self.local_us, self.base_us = self.read_us(now_us), now_us
        if offset_us is not None:
            self.offset_us = offset_us
        if drift_ppm is not None:
            self.drift_ppm = drift_ppm

    def said_us(self, at_us: int) -> int:
        """The wall clock's reading at `at_us`, relative to the start of the run, under the settings
        of that time.
        """
        since_us, local_us, offset_us, drift_ppm = self.base_us, self.local_us, self.offset_us, self.drift_ppm
        for before in reversed(self._past):
            if at_us >= since_us:
                break
            since_us, local_us, offset_us, drift_ppm = before
        elapsed = at_us - since_us
        return local_us + elapsed + elapsed * drift_ppm // 1_000_000 + offset_us

    def real_us(self, local_duration_us: int) -> int:
        """How long a duration of this clock lasts in virtual time."""
        if not self.drift_ppm:
            return local_duration_us
        return -(-local_duration_us * 1_000_000 // (1_000_000 + self.drift_ppm))


class Context:
    """One incarnation of one actor: its clock, timers, tasks, randomness and trace."""

    def __init__(self, kernel: Kernel, actor: Actor, incarnation: int, nursery: trio.Nursery) -> None:
        self.kernel = kernel
        self.name = actor.name
        self.incarnation = incarnation
        self.state = State.RUNNING
        self.clock = actor.clock
        self._actor = actor
        self._nursery = nursery
        self._held: list[Callable[[], None]] = []  # held while paused
        self._late: dict[int, Callable[[], None]] = {}  # deferred while slow, by number
        self._deferred_count = 0
        self._free_us = self._paused_us = Virtual(0)
        self.runs_freely = True  # neither paused nor slow
        self._hindrance_hooks: tuple[Callable[[], None], ...] = ()
        self._stop_hooks: list[Callable[[], None]] = []
        self._resume_hook: Callable[[Virtual], None] | None = None
        self._farewell: Callable[[], None] | None = None
        self.ending = False  # SIGTERM has been received
        self.views: tuple[Any, ...] = ()  # its informers, for checks from outside

    # --- time -------------------------------------------------------------------------------------

    def now_us(self) -> int:
        """This actor's monotonic clock: virtual time since the start of the run, with its drift."""
        clock = self.clock
        now_us = self.kernel.now_us
        return clock.read_us(now_us) if clock.drift_ppm or clock.local_us else now_us

    def wall_us(self) -> Wall:
        """This actor's wall clock: Unix time in microseconds, with its offset and drift."""
        clock, kernel = self.clock, self.kernel
        now_us: int = kernel.now_us
        if clock.drift_ppm or clock.local_us:
            now_us = clock.read_us(kernel.now_us)
        return kernel.epoch_us + now_us + clock.offset_us

    def said_us(self, at_us: int) -> Wall:
        """The reading of this actor's wall clock at that time."""
        return self.kernel.epoch_us + self.clock.said_us(at_us)

    @property
    def alive(self) -> bool:
        """True until the incarnation ends."""
        return self.state is not State.DEAD

    async def sleep_us(self, duration_us: int) -> None:
        """Wait for a duration by this actor's clock."""
        kernel = self.kernel
        kernel.call_later(self.clock.real_us(duration_us), self._wake, kernel.ticket())
        await kernel.park("sleep")

    def _wake(self, ticket: Any) -> None:
        self.kernel.wake(ticket)

    def call_later_us(self, delay_us: int, fn: Callable[[Any], None], arg: Any = None) -> None:
        """Call `fn(arg)` after a delay by this actor's clock, if this incarnation still lives."""
        kernel, clock = self.kernel, self.clock
        if clock.drift_ppm:
            delay_us = clock.real_us(delay_us)
        kernel.call_at(kernel.now_us + delay_us, self._run, (fn, arg))

    def timer_us(self, delay_us: int, fn: Callable[[Any], None], arg: Any = None) -> Timer:
        """Like `call_later_us`, with a handle to cancel it."""
        return self.kernel.timer_at(self.kernel.now_us + self.clock.real_us(delay_us), self._run, (fn, arg))

    def call_at_us(self, at_us: int, fn: Callable[[Any], None], arg: Any = None) -> None:
        """Call `fn(arg)` at an instant of virtual time, for work that is not timed by this actor's
        clock.
        """
        self.kernel.call_at(Virtual(at_us), self._run, (fn, arg))

    def timer_at_us(self, at_us: int, fn: Callable[[Any], None], arg: Any = None) -> Timer:
        """Like `call_at_us`, with a handle to cancel it."""
        return self.kernel.timer_at(Virtual(at_us), self._run, (fn, arg))

    def run(self, fn: Callable[[Any], None], arg: Any = None) -> None:
        """Run a piece of this actor's work that arrives now (a message, a reply); it is held while
        paused, deferred while slow and dropped after the end.
        """
        self._run((fn, arg))

    def _run(self, work: tuple[Callable[[Any], None], Any]) -> None:
        state = self.state
        if state is State.RUNNING:
            work[0](work[1])
        elif state is State.PAUSED:
            cause = self.kernel.cause
            self._held.append(lambda: self._run_caused(work, cause))
        elif state is State.SLOW:
            cause = self.kernel.cause
            self._defer(lambda: self._do(work, cause))
        elif state is not State.DEAD:
            assert_never(state)

    def _run_caused(self, work: tuple[Callable[[Any], None], Any], cause: int) -> None:
        self.kernel.follow(cause)
        self._run(work)

    def _do(self, work: tuple[Callable[[Any], None], Any], cause: int) -> None:
        if self.state is not State.DEAD:
            self.kernel.follow(cause)
            work[0](work[1])

    def _defer(self, go: Callable[[], None]) -> None:
        """Defer a piece of work by the delays of all earlier ones and its own."""
        self._free_us = max(self._free_us, self.kernel.now_us) + self._actor.extra_us
        self._deferred_count += 1
        self._late[self._deferred_count] = go
        self.kernel.call_at(self._free_us, self._turn, self._deferred_count)

    def _turn(self, number: int) -> None:
        """Run a deferred piece of work, unless it has run already or the process is paused."""
        go = self._late.pop(number, None)
        if go is not None:
            go()

    # --- tasks ------------------------------------------------------------------------------------

    def spawn(self, fn: Callable[..., Awaitable[object]], *args: Any, name: str = "") -> KernelTask:
        """Start a task of this actor; it ends with the incarnation."""
        label = f"{self.name}/{name or getattr(fn, '__name__', 'task')}"
        return self.kernel.spawn(self._nursery, self, label, self._guarded, fn, args)

    async def _guarded(self, fn: Callable[..., Awaitable[object]], args: Sequence[Any]) -> None:
        try:
            await fn(*args)
        except ActorExit as exit_:
            self._actor.exited(str(exit_))

    def holds(self, task: KernelTask, value: Any) -> bool:
        """True if the kernel must not release a task now (paused, slow); it is released later."""
        if self.state is State.RUNNING or self.state is State.DEAD:
            return False
        ticket = task, task.gen
        if self.state is State.PAUSED:
            self._held.append(lambda: self.kernel.resume_task(ticket, value))
            return True
        if task.why != "slow":
            task.why = "slow"
            self._defer(lambda: self.kernel.resume_task(ticket, value))
            return True
        return False

    async def gather(self, *jobs: Callable[[], Awaitable[Any]]) -> list[Any]:
        """Run jobs as tasks side by side; returns their results in order."""
        results: list[Any] = [None] * len(jobs)
        left = len(jobs)
        finished = Future(self, "gather")

        async def one(index: int, job: Callable[[], Awaitable[Any]]) -> None:
            nonlocal left
            results[index] = await job()
            left -= 1
            if not left:
                finished.set(None)

        for index, job in enumerate(jobs):
            self.spawn(one, index, job, name="gather")
        if left:
            await finished.wait()
        return results

    async def forever(self) -> None:
        """Wait until the incarnation ends."""
        await self.kernel.park("the end")

    def future(self, why: str = "") -> Future:
        """A new future of this actor; `why` describes it in deadlock reports."""
        return Future(self, why)

    def mailbox(self, name: str, capacity: int) -> Mailbox:
        """A new bounded mailbox of this actor."""
        return Mailbox(self, name, capacity)

    # --- randomness, trace, ending ----------------------------------------------------------------

    def stream(self, label: str) -> Random:
        """A random stream of this incarnation; call once per label and keep the stream."""
        return self.kernel.stream(f"{self.name}#{self.incarnation}/{label}")

    def sparing_stream(self, label: str) -> Sparing:
        """Like `stream`, but smaller, for thousands of actors that draw rarely."""
        return Sparing(self.kernel.seed, f"{self.name}#{self.incarnation}/{label}")

    def record(self, kind: Kind, values: Values) -> int:
        """Add a trace record now; returns its id."""
        return self.kernel.record(kind, values)

    def decided(self, what: str, target: str, why: Mapping[str, Any], cause: int = 0) -> int:
        """Record a decision of this actor about an object ("pods/default/web-1") and its reasons;
        returns the record's id.

        cause: the record that led to the decision, if that is not the present cause (see `silence`)

        The decision is the cause of what follows.
        """
        kernel = self.kernel
        kind = self._actor.decision
        values = (self.name, what, target, why)
        kernel.cause = new = kernel.trace.add(kind, kernel.now_us, cause or kernel.cause, values)
        return new

    def silence(self, host: str, since_us: int) -> int:
        """The record of the fault that explains why no message from `host` has arrived since this
        time of the actor's clock (0: none is known).
        """
        kernel = self.kernel
        unheard_us = self.now_us() - since_us
        return kernel.standing.silence(host, self.name, kernel.now_us - unheard_us)

    def relief(self, since_us: int) -> int:
        """The record of the end of the fault that kept messages of this process from arriving since
        this time of its clock (0: none is known).
        """
        kernel = self.kernel
        return kernel.standing.relief(self.name, kernel.now_us - (self.now_us() - since_us))

    def on_resume(self, hook: Callable[[Virtual], None]) -> None:
        """Call `hook` when this process resumes after a pause, before the held work runs, with the
        virtual time of the pause's start; for actors that compute when periodic work is due.
        """
        self._resume_hook = hook

    def on_hindrance(self, hook: Callable[[], None]) -> None:
        """Call `hook` just before this process is paused or slowed down, and just after it runs
        freely again.

        A fast path that saves pieces of work of the process falls back then, because each piece
        costs a slow process time.
        """
        self._hindrance_hooks = (*self._hindrance_hooks, hook)

    def hindered(self, freely: bool) -> None:
        """Call the hooks: the process is paused or slowed down next (False) or runs freely (True)."""
        self.runs_freely = freely
        for hook in self._hindrance_hooks:
            hook()

    def on_stop(self, hook: Callable[[], None]) -> None:
        """Run `hook` when this incarnation ends (to cut its connections); it must not wait or send."""
        self._stop_hooks.append(hook)

    def on_terminate(self, farewell: Callable[[], None]) -> None:
        """Run `farewell` when this process receives SIGTERM; the process must end by itself soon
        after.
        """
        self._farewell = farewell

    def exit(self, reason: str) -> None:
        """End this process from within a callback or task (tasks: the call does not return)."""
        if self.kernel.current is not None and self.kernel.current.owner is self:
            raise ActorExit(reason)
        self._actor.exited(reason)


class Actor:
    """A supervised process, created by `Supervisor.add`."""

    def __init__(self, supervisor: Supervisor, name: str, main: Main, restart_us: int | None) -> None:
        self.name = name
        self.clock = Clock(supervisor.kernel.standing)
        self.extra_us = 0
        self.incarnations = 0
        self.context: Context | None = None
        self.decision = supervisor.decision
        # Delay before a process that exited by itself is restarted.
        self.restart_us = restart_us
        self.barred = False  # a fault prevents its start
        self.to_boot = False  # its machine is not present yet and will start it
        self._again = False  # a start was requested while it was ending
        self._main = main
        self._supervisor = supervisor
        self._scope: trio.CancelScope | None = None

    @property
    def running(self) -> bool:
        """True while an incarnation lives."""
        return self.context is not None

    def start(self) -> None:
        """Start an incarnation now, or after the end of the one that is ending; no effect if one
        runs or a fault prevents the start.
        """
        if self.barred or self.to_boot:
            return
        if self.context is not None:
            self._again = self.context.ending
            return
        supervisor = self._supervisor
        self.incarnations += 1
        self.context = context = Context(supervisor.kernel, self, self.incarnations, supervisor.nursery)
        with supervisor.noted("start", self.name, ""):
            if inspect.iscoroutinefunction(self._main):
                context.spawn(self._run_main, context, name="main")
            else:
                self._main(context)
        supervisor.on_start(self.name)

    async def _run_main(self, context: Context) -> None:
        result = self._main(context)
        assert result is not None
        await result

    def crash(self, reason: str = "killed") -> None:
        """End the incarnation at once: its planned work is dropped (no effect if none runs)."""
        self._end("crash", reason)

    def terminate(self) -> None:
        """Send SIGTERM: it ends at once or after its farewell (no effect if none runs)."""
        context = self.context
        if context is None or context.ending:
            return
        farewell = context._farewell
        if farewell is None:
            self.exited("terminated")
            return
        context.ending = True
        with self._supervisor.noted("terminate", self.name, ""):
            context.run(lambda _: farewell())

    def exited(self, reason: str) -> None:
        """The process ended by itself; it is restarted after `restart_us`, if set, or if a start
        was requested while it was ending.
        """
        self._end("exit", reason)

    def _end(self, how: Ending, reason: str) -> None:
        context, self.context = self.context, None
        if context is None:
            return
        again, self._again = self._again, False
        supervisor = self._supervisor
        with supervisor.noted(how, self.name, reason):
            still, context.state = context.state is State.PAUSED, State.DEAD
            context._held.clear()
            context._late.clear()
            hooks, context._stop_hooks = context._stop_hooks, []
            for hook in hooks:
                hook()
            supervisor.kernel.cancel_owned(context)
            if still:
                supervisor.kernel.network.stir(self.name)
            if how == "exit" and (again or self.restart_us is not None):
                supervisor.kernel.call_later(self.restart_us or 0, lambda _: self.start())

    def pause(self) -> None:
        """Stop running anything and keep everything (a SIGSTOP, a long stall)."""
        context = self.context
        if context is not None:
            with self._supervisor.noted("pause", self.name, ""):
                if context.state is not State.PAUSED:
                    context._paused_us = self._supervisor.kernel.now_us
                context.hindered(freely=False)
                context.state = State.PAUSED
                # These arrived before all that is held from now on.
                context._held += context._late.values()
                context._late.clear()
                self._supervisor.kernel.network.stir(self.name)

    def resume(self, extra_us: int = 0) -> None:
        """End `pause` or `slow`; held work runs now, in order.  extra_us: delay of a `slow` that
        follows.
        """
        context = self.context
        if context is not None and context.state is not State.DEAD:
            with self._supervisor.noted("resume", self.name, ""):
                stood, context.state = (
                    context.state is State.PAUSED,
                    State.SLOW if extra_us else State.RUNNING,
                )
                self.extra_us, context._free_us = extra_us, Virtual(0)
                context.hindered(freely=not extra_us)
                self._supervisor.kernel.network.stir(self.name)
                if stood and context._resume_hook is not None:
                    context._resume_hook(context._paused_us)
                current, context._held, context._late = [*context._late.values(), *context._held], [], {}
                for go in current:
                    go()

    def slow(self, extra_us: int) -> None:
        """From now on each piece of work takes `extra_us` longer."""
        if self.context is not None:
            with self._supervisor.noted("slow", self.name, f"by {format_duration(extra_us)}"):
                self.context.hindered(freely=False)
                self.extra_us = extra_us
                self.context.state = State.SLOW


class Supervisor:
    """Owns every actor of a run.

    nursery: the Trio nursery of their tasks
    on_start: called with each actor that has just started
    kind: of the records of starts, ends and faults, each with what happened, actor and reason
    """

    def __init__(self, kernel: Kernel, nursery: trio.Nursery) -> None:
        self.kernel = kernel
        self.nursery = nursery
        self.on_start: Callable[[str], None] = lambda _: None
        self.actors: dict[str, Actor] = {}
        self.kind = kernel.kind("actor", "what", "name", "reason")
        self.decision = kernel.kind("decision", "actor", "what", "target", "why")

    def add(self, name: str, main: Main, *, restart_us: int | None = None, start: bool = True) -> Actor:
        """Register an actor under a unique name; start=False leaves it stopped."""
        assert name not in self.actors, f"two actors named {name}"
        actor = self.actors[name] = Actor(self, name, main, restart_us)
        if start:
            actor.start()
        return actor

    def remove(self, name: str) -> None:
        """Crash an actor and forget it."""
        self.actors.pop(name).crash("removed")

    def __getitem__(self, name: str) -> Actor:
        """The actor of a name.  Raises InputError."""
        if name not in self.actors:
            raise InputError(f"there is no process {name!r}", "", "add it before it is named")
        return self.actors[name]

    @contextmanager
    def noted(self, what: str, name: str, reason: str, of_process: bool = True) -> Iterator[None]:
        """Record a fault or its end at an actor; the record is the cause of what happens within the
        `with` block, and not of what follows.

        A process that ends or is hindered counts as silent (`Kernel.standing`) until it starts or
        resumes.

        of_process: False if the process itself continues as before
        """
        kernel = self.kernel
        with caused_by(kernel, kernel.record(self.kind, (what, name, reason))):
            if what in MENDS and of_process:
                kernel.standing.end(PROCESS, (name,))
            elif of_process:
                silent = what not in HINDER
                whole = silent and name not in kernel.standing.shared  # another replica may answer
                kernel.standing.begin(PROCESS, (name,), silent, whole=lambda _: whole)
            yield
