"""Actors: named processes that start, crash, restart with their memory lost, pause, slow down and
    drift.

An actor is `main(ctx)`, run anew for each incarnation with a fresh `Context`; whatever it keeps
lives in that call.  `main` may be async (a task that waits) or a plain function that only sets up
callbacks and returns (thousands of node agents); either way the incarnation lives until it exits or
is crashed.

All waiting, timing and randomness of an actor goes through its `Context`, which is where faults are
put in:
- crash: tasks are cancelled, callbacks dropped, `on_stop` hooks run (they cut connections, nothing
  more);
- terminate (SIGTERM): the process ends by itself, after its farewell if it has one, and goes on
  until then; who starts it meanwhile has it started anew when it has ended;
- pause (SIGSTOP, a long stall): tasks and callbacks due meanwhile are held and run, in order, on
  resume;
- slow: each piece of work is put off by a fixed extra delay, in order; what is left of it when that
  ends is done at once;
- clock: offset and drift change what the actor reads as time, drift also how long its sleeps really
  last: those that begin under it; one that has begun keeps its end.

Holds: nothing of a dead incarnation runs after the crash; two incarnations share no memory and no
random stream; a paused actor runs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from random import Random
from typing import Any

import trio

from sim.kernel.causes import Standing
from sim.kernel.kernel import Kernel
from sim.kernel.streams import Sparing
from sim.kernel.sync import Future, Mailbox
from sim.kernel.tasks import KernelTask
from sim.kernel.timer import Timer
from sim.kernel.trace.records import Kind, Values
from sim.units import format_duration

Main = Callable[["Context"], Awaitable[None] | None]
MENDS = ("start", "resume")  # what ends every fault of a process
PROCESS = "process"
HINDER = ("slow", "terminate")  # what lets a process go on, for now


class State(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    SLOW = "slow"
    DEAD = "dead"


class ActorExit(Exception):
    """Raised by `Context.exit`: the process ends by itself with this reason."""


class Clock:
    """An actor's clock: offset in microseconds, drift in parts per million, from one instant on."""

    __slots__ = ("_past", "_standing", "base_us", "drift_ppm", "local_us", "offset_us")

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.offset_us = 0  # wall clock only
        self.drift_ppm = 0
        self.base_us = 0
        self.local_us = 0
        self._past: tuple[
            tuple[int, int, int, int], ...
        ] = ()  # how it went before: since, local, offset, drift

    def read_us(self, now_us: int) -> int:
        elapsed = now_us - self.base_us
        return self.local_us + elapsed + elapsed * self.drift_ppm // 1_000_000

    def set(self, now_us: int, *, offset_us: int | None = None, drift_ppm: int | None = None) -> None:
        self._standing.moved()
        self._past += ((self.base_us, self.local_us, self.offset_us, self.drift_ppm),)
        self.local_us, self.base_us = self.read_us(now_us), now_us
        if offset_us is not None:
            self.offset_us = offset_us
        if drift_ppm is not None:
            self.drift_ppm = drift_ppm

    def said_us(self, at_us: int) -> int:
        """What the wall clock said at that time, since the start of the run: what was noted then
        stands, however it is set.
        """
        since_us, local_us, offset_us, drift_ppm = self.base_us, self.local_us, self.offset_us, self.drift_ppm
        for before in reversed(self._past):
            if at_us >= since_us:
                break
            since_us, local_us, offset_us, drift_ppm = before
        elapsed = at_us - since_us
        return local_us + elapsed + elapsed * drift_ppm // 1_000_000 + offset_us

    def real_us(self, local_duration_us: int) -> int:
        """How long a local duration lasts in virtual time."""
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
        self._held: list[Callable[[], None]] = []  # while it is paused
        self._late: dict[int, Callable[[], None]] = {}  # while it is slow, by number
        self._put_offs = 0
        self._free_us = 0
        self._paused_us = 0
        self.runs_freely = True  # it is neither paused nor slow
        self._hindrance_hooks: tuple[Callable[[], None], ...] = ()
        self._stop_hooks: list[Callable[[], None]] = []
        self._resume_hook: Callable[[int], None] | None = None
        self._farewell: Callable[[], None] | None = None
        self.ending = False  # it has been asked to

    # --- time -------------------------------------------------------------------------------------

    def now_us(self) -> int:
        """This actor's monotonic clock: virtual time since the start of the run, with its drift."""
        clock = self.clock
        now_us = self.kernel.now_us
        return clock.read_us(now_us) if clock.drift_ppm or clock.local_us else now_us

    def wall_us(self) -> int:
        """This actor's wall clock: Unix time in microseconds, with its offset and drift."""
        clock, kernel = self.clock, self.kernel
        now_us = kernel.now_us
        if clock.drift_ppm or clock.local_us:
            now_us = clock.read_us(now_us)
        return kernel.epoch_us + now_us + clock.offset_us

    def said_us(self, at_us: int) -> int:
        """What this actor's wall clock said at that time."""
        return self.kernel.epoch_us + self.clock.said_us(at_us)

    @property
    def alive(self) -> bool:
        return self.state is not State.DEAD

    async def sleep_us(self, duration_us: int) -> None:
        kernel = self.kernel
        kernel.call_later(self.clock.real_us(duration_us), self._wake, kernel.ticket())
        await kernel.park("sleep")

    def _wake(self, ticket: Any) -> None:
        self.kernel.wake(ticket)

    def call_later_us(self, delay_us: int, fn: Callable[[Any], None], arg: Any = None) -> None:
        """Call `fn(arg)` after a delay by this actor's clock, if this incarnation still lives then."""
        kernel, clock = self.kernel, self.clock
        if clock.drift_ppm:
            delay_us = clock.real_us(delay_us)
        kernel.call_at(kernel.now_us + delay_us, self._run, (fn, arg))

    def timer_us(self, delay_us: int, fn: Callable[[Any], None], arg: Any = None) -> Timer:
        """As `call_later_us`, with a handle to cancel it."""
        return self.kernel.timer_at(self.kernel.now_us + self.clock.real_us(delay_us), self._run, (fn, arg))

    def call_at_us(self, at_us: int, fn: Callable[[Any], None], arg: Any = None) -> None:
        """Call `fn(arg)` at an instant of the kernel's time: what is due then is not timed by this
        actor's clock.
        """
        self.kernel.call_at(at_us, self._run, (fn, arg))

    def timer_at_us(self, at_us: int, fn: Callable[[Any], None], arg: Any = None) -> Timer:
        """As `call_at_us`, with a handle to cancel it."""
        return self.kernel.timer_at(at_us, self._run, (fn, arg))

    def run(self, fn: Callable[[Any], None], arg: Any = None) -> None:
        """Run a piece of this actor's work that arrives now (a message, a reply): held, delayed or
        dropped.
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
            self._put_off(lambda: self._do(work, cause))

    def _run_caused(self, work: tuple[Callable[[Any], None], Any], cause: int) -> None:
        self.kernel.cause = cause
        self._run(work)

    def _do(self, work: tuple[Callable[[Any], None], Any], cause: int) -> None:
        if self.state is not State.DEAD:
            self.kernel.cause = cause
            work[0](work[1])

    def _put_off(self, go: Callable[[], None]) -> None:
        """For as long as it and all before it take."""
        self._free_us = max(self._free_us, self.kernel.now_us) + self._actor.extra_us
        self._put_offs += 1
        self._late[self._put_offs] = go
        self.kernel.call_at(self._free_us, self._turn, self._put_offs)

    def _turn(self, number: int) -> None:
        """That piece of work has its turn, unless its process has caught up, or is paused, since."""
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
        """Asked by the kernel before it releases a task: True if it must wait (paused, slow)."""
        if self.state is State.RUNNING or self.state is State.DEAD:
            return False
        ticket = task, task.gen
        if self.state is State.PAUSED:
            self._held.append(lambda: self.kernel.resume_task(ticket, value))
            return True
        if task.why != "slow":
            task.why = "slow"
            self._put_off(lambda: self.kernel.resume_task(ticket, value))
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
        await self.kernel.park("the end")

    def future(self, why: str = "") -> Future:
        return Future(self, why)

    def mailbox(self, name: str, capacity: int) -> Mailbox:
        return Mailbox(self, name, capacity)

    # --- randomness, trace, ending ----------------------------------------------------------------

    def stream(self, label: str) -> Random:
        """A random stream of this incarnation's own; call once per label and keep it."""
        return self.kernel.stream(f"{self.name}#{self.incarnation}/{label}")

    def sparing_stream(self, label: str) -> Sparing:
        """As `stream`, for who is one of thousands and draws rarely."""
        return Sparing(self.kernel.seed, f"{self.name}#{self.incarnation}/{label}")

    def record(self, kind: Kind, values: Values) -> int:
        return self.kernel.record(kind, values)

    def decided(self, what: str, target: str, why: Mapping[str, Any], cause: int = 0) -> int:
        """Record a decision of this actor's about an object ("pods/default/web-1") and what it
        rests on.

        `cause`: what led to it, if that is not what runs now (see `silence`).  What is done from
            here on is caused by the decision.  Returns its record id.
        """
        kernel = self.kernel
        kind = self._actor.decision
        values = (self.name, what, target, why)
        kernel.cause = made = kernel.trace.add(kind, kernel.now_us, cause or kernel.cause, values)
        return made

    def silence(self, host: str, since_us: int) -> int:
        """What to blame for not having heard of `host` since this time of the own clock (0: nothing
        known).
        """
        kernel = self.kernel
        unheard_us = self.now_us() - since_us
        return kernel.standing.silence(host, self.name, kernel.now_us - unheard_us)

    def relief(self, since_us: int) -> int:
        """What ended that had kept others from hearing this process since this time of its clock
        (0: nothing known).
        """
        kernel = self.kernel
        return kernel.standing.relief(self.name, kernel.now_us - (self.now_us() - since_us))

    def on_resume(self, hook: Callable[[int], None]) -> None:
        """Call `hook` when this process goes on after a pause, with the kernel's time at which it
        stopped: before what was held meanwhile.  For who computes when loops would have come round.
        """
        self._resume_hook = hook

    def on_hindrance(self, hook: Callable[[], None]) -> None:
        """Call `hook` just before this process is paused or slowed down, and just after it runs
        freely again.

        A fast path that spares the process pieces of work falls back then: each piece takes a slow
        process time.
        """
        self._hindrance_hooks = (*self._hindrance_hooks, hook)

    def hindered(self, freely: bool) -> None:
        """The process is paused or slowed down next (False), or runs `freely` from now on (True)."""
        self.runs_freely = freely
        for hook in self._hindrance_hooks:
            hook()

    def on_stop(self, hook: Callable[[], None]) -> None:
        """Run `hook` when this incarnation ends (to cut its connections); it must not wait or send."""
        self._stop_hooks.append(hook)

    def on_terminate(self, farewell: Callable[[], None]) -> None:
        """Run `farewell` when this process is asked to end (SIGTERM); it is to end by itself soon
        after.
        """
        self._farewell = farewell

    def exit(self, reason: str) -> None:
        """End this process from within a callback or task (tasks: the call does not return)."""
        if self.kernel.current is not None and self.kernel.current.owner is self:
            raise ActorExit(reason)
        self._actor.exited(reason)


class Actor:
    """A supervised process.  Made by `Supervisor.add`."""

    def __init__(self, supervisor: Supervisor, name: str, main: Main, restart_us: int | None) -> None:
        self.name = name
        self.clock = Clock(supervisor.kernel.standing)
        self.extra_us = 0
        self.incarnations = 0
        self.context: Context | None = None
        self.decision = supervisor.decision
        # delay before a process that exited by itself is started again
        self.restart_us = restart_us
        self.barred = False  # a fault keeps it from starting
        self.to_boot = False  # its machine is not there yet, and starts it when it is
        self._again = False  # it was started while it was ending
        self._main = main
        self._supervisor = supervisor
        self._scope: trio.CancelScope | None = None

    @property
    def running(self) -> bool:
        return self.context is not None

    def start(self) -> None:
        """Start an incarnation now, or when the one that is ending has ended (no effect when one
        runs, or must not).
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
        """End the incarnation at once: nothing it planned happens any more (no effect when none
        runs).
        """
        self._end("crash", reason)

    def terminate(self) -> None:
        """Ask the incarnation to end: at once, or after its farewell (no effect when none runs)."""
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
        """The process ended by itself; it is started again after `restart_us`, if set, or if that
        was asked for meanwhile.
        """
        self._end("exit", reason)

    def _end(self, how: str, reason: str) -> None:
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
        """Stop running anything, keep everything (a SIGSTOP, a long stall)."""
        context = self.context
        if context is not None:
            with self._supervisor.noted("pause", self.name, ""):
                if context.state is not State.PAUSED:
                    context._paused_us = self._supervisor.kernel.now_us
                context.hindered(freely=False)
                context.state = State.PAUSED
                context._held += context._late.values()  # it came before all that comes now
                context._late.clear()
                self._supervisor.kernel.network.stir(self.name)

    def resume(self, extra_us: int = 0) -> None:
        """Go on after `pause` or `slow`; what was held runs now, in order.  extra_us: it is slow
        from now on.
        """
        context = self.context
        if context is not None and context.state is not State.DEAD:
            with self._supervisor.noted("resume", self.name, ""):
                stood, context.state = (
                    context.state is State.PAUSED,
                    State.SLOW if extra_us else State.RUNNING,
                )
                self.extra_us, context._free_us = extra_us, 0
                context.hindered(freely=not extra_us)
                self._supervisor.kernel.network.stir(self.name)
                if stood and context._resume_hook is not None:
                    context._resume_hook(context._paused_us)
                held, context._held, context._late = [*context._late.values(), *context._held], [], {}
                for go in held:
                    go()

    def slow(self, extra_us: int) -> None:
        """From now on each piece of work takes this much longer."""
        if self.context is not None:
            with self._supervisor.noted("slow", self.name, f"by {format_duration(extra_us)}"):
                self.context.hindered(freely=False)
                self.extra_us = extra_us
                self.context.state = State.SLOW


class Supervisor:
    """Owns every actor of a run.  `nursery` is the Trio nursery their tasks live in.

    on_start: told of each actor whose process has just started, whoever started it
    """

    def __init__(self, kernel: Kernel, nursery: trio.Nursery) -> None:
        self.kernel = kernel
        self.nursery = nursery
        self.on_start: Callable[[str], None] = lambda _: None
        self.actors: dict[str, Actor] = {}
        self._kind = kernel.kind("actor", "what", "name", "reason")
        self.decision = kernel.kind("decision", "actor", "what", "target", "why")

    def add(self, name: str, main: Main, *, restart_us: int | None = None, start: bool = True) -> Actor:
        """Register an actor under a unique name, and start it unless told otherwise."""
        assert name not in self.actors, f"two actors named {name}"
        actor = self.actors[name] = Actor(self, name, main, restart_us)
        if start:
            actor.start()
        return actor

    def remove(self, name: str) -> None:
        self.actors.pop(name).crash("removed")

    def __getitem__(self, name: str) -> Actor:
        return self.actors[name]

    @contextmanager
    def noted(self, what: str, name: str, reason: str, of_process: bool = True) -> Iterator[None]:
        """Record what befalls an actor; what is done within is caused by it, what comes after is
        not.

        A process that ends or is held up is silent until it starts or goes on again
        (`Kernel.standing`).
        of_process: False if it goes on as before, whatever else this does to it
        """
        kernel = self.kernel
        before = kernel.cause
        kernel.cause = kernel.record(self._kind, (what, name, reason))
        if what in MENDS and of_process:
            kernel.standing.end(PROCESS, (name,))
        elif of_process:
            silent = what not in HINDER
            whole = silent and name not in kernel.standing.shared  # another replica may answer
            kernel.standing.begin(PROCESS, (name,), silent, whole=lambda _: whole)
        yield
        kernel.cause = before
