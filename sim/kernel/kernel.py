"""Virtual time inside an ordinary Trio run on the real clock.

Three kinds of work in one total order (virtual time, the instant at which it was planned, sequence
number):
- callbacks, `call_at(at_us, fn, arg)`: plain functions, the hot path;
- tasks: Trio tasks of actors that block only in kernel primitives.  The kernel owns the ready queue
  and lets one of them run at a time, so Trio's own scheduling order has nothing to reorder;
  cancellation is delivered through the same queue.  A task that parks does the driver's work itself
  up to the next task's turn;
- work from outside (servers, a terminal, a notebook), handed in at the gate, applied between two
  events and journalled with its position, so that a run with live clients can be replayed.

Time is an integer number of microseconds and does not advance before each spawned task has really
started. Only public Trio API is used.

Holds: same seed and same journal, same order of work.  Nothing here reads the wall clock except to
keep pace, in which a pause of the process does not count (`sim.kernel.pace`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sized
from heapq import heapify, heappop, heappush
from random import Random
from time import perf_counter
from typing import Any

import outcome
import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from sim.kernel.aside import Aside
from sim.kernel.causes import Standing
from sim.kernel.draws.streams import stream
from sim.kernel.fast import FAST, FastPaths
from sim.kernel.gate import Gate, Operation
from sim.kernel.meters import Meters
from sim.kernel.network import Network
from sim.kernel.order import LAST, LATER, ORDER_BITS, Beat, order_as_of
from sim.kernel.outside import Outside
from sim.kernel.pace import NEVER_US, Pace
from sim.kernel.standstill import DeadlockError, Livelock, LivelockError, describe_waits
from sim.kernel.tasks import CANCELLED, Entry, KernelTask, Passes, Ticket
from sim.kernel.timer import Timer, fire
from sim.kernel.trace.records import Kind, RecordKind, Trace, Values
from sim.units import Virtual, Wall

SPAN_BITS = 20  # a span of time is about a second
LOOK = 15  # the real clock is read after each unit of work with these low bits in its number
# Virtual time zero is this instant unless a run says otherwise: 2026-01-01T00:00:00Z.
DEFAULT_EPOCH_US = Wall(1_767_225_600_000_000)


def _nothing(until_us: Virtual, order: int) -> None:
    """Stands for the bulk work while there is none."""


# A callback: time, order, function (None: `beat` of the argument), argument, cause.
Call = tuple[Virtual, int, Callable[[Any], None] | None, Any, int]


class Kernel:
    """The virtual clock, its queue, and the driver that runs it (`await kernel.run()`).

    Size: its loop, and what plans calls, read two thirds of them; much of the rest is in parts.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        trace: Trace | None = None,
        epoch_us: Wall = DEFAULT_EPOCH_US,
        slice_s: float = 0.002,
        replay: list[Operation] | None = None,
        fast: FastPaths = FAST,
    ) -> None:
        self.seed = seed
        self.fast = fast
        self.epoch_us = epoch_us
        self.now_us = Virtual(0)
        self.cause = self.steps = 0
        self.trace = trace if trace is not None else Trace()
        self.standing = Standing(lambda: self.now_us, lambda: self.cause)
        self.network = Network(seed, self.standing)
        self.aside, self.long_work = (aside := Aside(self)), aside.jobs
        self.gate = Gate(self, replay or [])
        self.meters: Meters | None = None  # what a reader of metrics counts; None without one
        self.queues: dict[tuple[str, str], Sized] = {}  # the work queues, by process and name
        # What processes show of their present state, by process: family, labels and value.
        self.gauges: dict[str, Callable[[], Iterable[tuple[str, tuple[str, ...], float]]]] = {}
        # By lock and process: whether a candidate is healthy, and whether it leads.
        self.candidates: dict[tuple[str, str], Callable[[], tuple[bool, bool]]] = {}
        self.elected: Callable[[str, str], None] | None = None  # (lock, new leader)
        self.tasks: dict[int, KernelTask] = {}
        self.current: KernelTask | None = None
        self._heap: list[Call] = []  # due before `_near_us`; empty only if nothing is planned
        self._near_us = Virtual(0)
        self._later: dict[int, list[Call]] = {}  # calls due later, by span of time, in any order
        self._spans: list[int] = []  # a heap of its keys
        self._ready: deque[Entry] = deque()
        self._late: list[Entry] = []  # started or cancelled by Trio, in any order
        self._held: dict[int, KernelTask] = {}  # ready, but paused or slow
        self._carrier: KernelTask | None = None  # the parked task that does the driver's work
        self._carrier_gen = self._starting = 0
        self._seq = 0  # the order of the call planned last: see `order_of`
        self.order = 0  # order of the call that runs now, or ran last, within its instant
        self._as_of = 0  # number of the last call of `call_as_of`
        # When bulk work before the next call is due; `bulk` does all up to a time and an order.
        self.bulk_us, self.bulk_order = NEVER_US, 0
        self.bulk: Callable[[Virtual, int], None] = _nothing
        self._instant_step = 0  # units of work done before time reached this instant
        self._slice_limit_us, self._slice_quota, self._slice_done = Virtual(0), 0, 0
        self._slice_ends, self._slice_over = 0.0, True
        self.slice_s = slice_s
        self.after_slice: Callable[[], None] = lambda: None  # nothing of the run depends on it
        self.at_rest = self.after_slice  # called when nothing more is due now
        self.pace, self._todo = Pace(), 0
        self._stopped = self._admitting = False
        self._driver: trio.lowlevel.Task | None = None
        self._wakeup: trio.Event | None = None  # while the driver waits, with nothing to do
        self._failure: Exception | None = None  # of an operation that was applied at once
        self._reached = trio.Event()
        self._livelock = Livelock()
        self._passes = Passes()
        self.outside = Outside(self)

    # --- for code inside the simulation -----------------------------------------------------------

    def call_at(self, at_us: Virtual, fn: Callable[[Any], None], arg: Any = None) -> None:
        """Call `fn(arg)` at a virtual time (not before now), after everything already due then."""
        self._seq = seq = self._seq + 1
        if at_us < self.now_us:
            at_us = self.now_us
        if at_us < self._near_us:
            heappush(self._heap, (at_us, seq, fn, arg, self.cause))
            return
        later = self._later.get(at_us >> SPAN_BITS)  # the usual case of `_put_off`
        if later is not None:
            later.append((at_us, seq, fn, arg, self.cause))
        else:
            self._defer((at_us, seq, fn, arg, self.cause))

    def _defer(self, call: Call) -> None:
        """Keep calls of later spans out of the heap until their span begins: there are thousands of
        renewals and ends of watches.
        """
        span = call[0] >> SPAN_BITS
        later = self._later.get(span)
        if later is not None:
            later.append(call)
            return
        self._later[span] = [call]
        heappush(self._spans, span)
        if not self._heap:
            self._open_span()

    def _open_span(self) -> None:
        """Move the calls of the next span to the heap, after all calls before it have run."""
        if self._spans:
            span = heappop(self._spans)
            self._near_us = Virtual((span + 1) << SPAN_BITS)
            self._heap += self._later.pop(span)
            heapify(self._heap)

    def call_later(self, delay_us: int, fn: Callable[[Any], None], arg: Any = None) -> None:
        """Call `fn(arg)` after a delay in virtual time."""
        self.call_at(self.now_us + delay_us, fn, arg)

    def call_as_of(
        self, planned_us: Virtual, at_us: Virtual, fn: Callable[[Any], None], arg: Any = None
    ) -> None:
        """Like `call_at`, in the order of a call planned at `planned_us`, before or after now."""
        self._as_of = number = (self._as_of + 1) % LATER
        self.call_in(order_as_of(planned_us, number), at_us, fn, arg)

    def next_order(self, count: int = 1) -> int:
        """The order of a call that is planned now, for `call_in`; of several, that of the last."""
        self._seq = seq = self._seq + count
        return seq

    def call_in(self, order: int, at_us: Virtual, fn: Callable[[Any], None], arg: Any = None) -> None:
        """Like `call_at`, in an order that was taken before (`next_order`)."""
        call = max(at_us, self.now_us), order, fn, arg, self.cause
        if at_us < self._near_us:
            heappush(self._heap, call)
        else:
            self._defer(call)

    def beat_at(self, at_us: Virtual, beat: Beat) -> None:
        """Like `call_at` for `beat.beat`, in the order that `beat.order` gives."""
        seq = beat.order
        # The usual case of `_put_off`: a span that has begun is not there.
        later = self._later.get(at_us >> SPAN_BITS)
        if later is not None:
            later.append((at_us, seq, None, beat, 0))
        elif at_us < self._near_us:
            heappush(self._heap, (max(at_us, self.now_us), seq, None, beat, 0))
        else:
            self._defer((at_us, seq, None, beat, 0))

    @property
    def due_us(self) -> Virtual:
        """When the next callback or bulk work is due; NEVER_US without any."""
        return self._heap[0][0] if self._heap and self._heap[0][0] < self.bulk_us else self.bulk_us

    def timer_at(self, at_us: Virtual, fn: Callable[[Any], None], arg: Any = None) -> Timer:
        """Like `call_at`, with a handle to cancel it."""
        timer = Timer(at_us, fn, arg)
        self.call_at(at_us, fire, timer)
        return timer

    def stream(self, name: str) -> Random:
        """A random generator keyed by the seed and `name`."""
        return stream(self.seed, name)

    def kind(self, name: RecordKind, *fields: str) -> Kind:
        """Declare a kind of trace record."""
        return self.trace.kind(name, *fields)

    def record(self, kind: Kind, values: Values) -> int:
        """Add a trace record now, caused by what runs now; returns its id."""
        return self.trace.add(kind, self.now_us, self.cause, values)

    def follow(self, record: int) -> None:
        """Let a record (0: none) be the cause of the rest of the present unit of work.  For a part
        of it there is `caused_by` (`sim.kernel.causes`).
        """
        self.cause = record

    def wake(self, ticket: Ticket, value: Any = None) -> None:
        """Make the parked task ready, once; a ticket of an earlier parking has no effect."""
        task, gen = ticket
        if task.gen == gen:
            task.gen += 1
            task.cause = self.cause
            self._ready.append((task, value))

    def ticket(self) -> Ticket:
        """A ticket by which the current task can be woken from its next parking."""
        task = self.current
        assert task is not None, "only a kernel task can wait in the kernel"
        return task, task.gen

    async def park(self, why: str = "") -> Any:
        """Wait until `wake` is called with this task's ticket; returns the value given there."""
        task = self.current
        assert task is not None, "only a kernel task can wait in the kernel"
        gen = task.gen
        task.why = why
        self.current = None
        if self._driver is not None:
            entry = self._carry_on(task, gen)
            if entry is not None:
                if entry[1] is CANCELLED:
                    await trio.lowlevel.checkpoint()  # Trio cancels the task here
                return entry[1]

        def abort(raise_cancel: Callable[[], Any]) -> Abort:
            if self._driver is None:  # no kernel is left to deliver it
                return Abort.SUCCEEDED
            if task.gen == gen:
                task.gen += 1
                self._late.append((task, outcome.capture(raise_cancel)))
                self.kick()
            else:
                self._hold_no_more(task)
            return Abort.FAILED

        value = await wait_task_rescheduled(abort)
        if self._driver is None:
            # released by a kernel that has ended; the nursery is being cancelled
            await trio.sleep_forever()
        if value is CANCELLED:
            await trio.lowlevel.checkpoint()
        return value

    def _carry_on(self, task: KernelTask, gen: int) -> Entry | None:
        """Do the driver's work in the parking task, up to the next task's turn.

        Returns that turn if it is the caller's own, without a pass of Trio's loop; otherwise one
        pass follows. Trio does not know that the caller waits, so `cancel` records a cancellation
        during this time.
        """
        self._carrier, self._carrier_gen = task, gen
        if task.scope.cancel_called:
            self._note_cancel(task)
        done: outcome.Maybe[Entry | None] = outcome.capture(self._work)
        self._carrier = None
        entry = None if type(done) is outcome.Error else done.value
        if entry is None:
            assert self._driver is not None
            reschedule(self._driver, done)
        elif entry[0] is task:
            self.current, self.cause = task, task.cause
            return entry
        else:
            self._release(entry)
        return None

    def cancel(self, task: KernelTask) -> None:
        """Cancel a task other than the running one: it is released once more, in its turn, with the
        cancellation.
        """
        task.scope.cancel()
        if task is self._carrier:
            self._note_cancel(task)
        self._hold_no_more(task)

    def _note_cancel(self, carrier: KernelTask) -> None:
        if carrier.gen == self._carrier_gen:
            carrier.gen += 1
            self._late.append((carrier, CANCELLED))

    def _hold_no_more(self, task: KernelTask) -> None:
        """Give a cancelled task its turn although its owner holds it, and will not release it."""
        if self._held.pop(task.ident, None) is not None:
            task.gen += 1
            self._late.append((task, CANCELLED))
            self.kick()

    def spawn(
        self, nursery: trio.Nursery, owner: Any, name: str, fn: Callable[..., Awaitable[object]], *args: Any
    ) -> KernelTask:
        """Start a task in `nursery` under the kernel's order, at the present instant."""
        self._seq += 1
        task = KernelTask(self._seq, name, owner)
        task.cause = self.cause
        self.tasks[task.ident] = task
        self._starting += 1

        def abort(_: object) -> Abort:
            if self._driver is None:
                # Trio wakes it: a driver that starts now has no task to release
                task.trio_task = None
                return Abort.SUCCEEDED
            self._hold_no_more(task)
            return Abort.FAILED  # a running kernel releases it in its turn, cancelled or not

        async def body() -> None:
            task.trio_task = current_task()
            self._starting -= 1
            # Trio starts children in any order; they are sorted by ident later.
            self._late.append((task, None))
            self.kick()
            try:
                await wait_task_rescheduled(abort)
                if self._driver is None or task.scope.cancel_called:
                    return  # the kernel or the process ended before the task started
                with task.scope:
                    await fn(*args)
            finally:
                task.gen = -1
                self.tasks.pop(task.ident, None)
                if self._driver is not None and self.current is task:
                    self.current = None
                    reschedule(self._driver)

        nursery.start_soon(body, name=name)
        return task

    # --- control, from any Trio task outside ------------------------------------------------------

    def kick(self) -> None:
        """Wake the driver, because there may be work."""
        if self._wakeup is not None:
            self._wakeup.set()
        self.aside.kick()

    def admit(self) -> None:
        """Apply what waits at the gate: at once while the driver has nothing to do."""
        wakeup = self._wakeup
        if wakeup is None or wakeup.is_set() or self._admitting or self._stopped:
            self.kick()
            return
        due_us, self._admitting = self.due_us, True
        try:
            self.gate.apply()
        except Exception as error:
            self._failure = error  # which ends the run, not the client
        finally:
            self._admitting = False
        news = self._ready or self._late or self._starting or self.long_work or self.gate.waiting
        if news or self.due_us != due_us or self._failure is not None:
            self.kick()

    def set_rate(self, rate: float) -> None:
        """Virtual seconds per real second: math.inf as fast as possible, 0 paused."""
        self.pace.rebase(self.now_us)
        self.pace.rate = rate
        self.kick()

    @property
    def rate(self) -> float:
        """Virtual seconds per real second."""
        return self.pace.rate

    def step(self, count: int = 1) -> trio.Event:
        """Run `count` units of work, at any rate and goal; the event is set when they are done."""
        self._todo += count
        self.kick()
        return self._reached

    def stop(self) -> None:
        """End `run`."""
        self._stopped = True
        self.kick()

    def set_goal(self, until_us: Virtual) -> None:
        """Let virtual time run up to this instant (NEVER_US: without end)."""
        if until_us > self.pace.goal_us <= self.now_us:
            self.pace.rebase(self.now_us)
        self.pace.goal_us = min(until_us, self.pace.end_us)
        self.kick()

    def halt(self) -> None:
        """Let the run end with the present instant, from a callback or from outside; what is due at
        it is still done, so that the end does not depend on real time.
        """
        self.set_goal(self.now_us)
        self._end_slice()

    def hold(self) -> None:
        """Let virtual time rest after this instant, if it runs as fast as possible, until `let_go`."""
        self.pace.holds += 1
        if self.rate == math.inf:
            self._end_slice()

    def let_go(self) -> None:
        """End one `hold`."""
        self.pace.holds -= 1
        self.kick()

    def rest(self) -> None:
        """Let virtual time rest after this instant, at any rate, until `resume`."""
        self.pace.rests += 1
        self._end_slice()

    def resume(self) -> None:
        """End one `rest`.  The time that has passed is not made up for."""
        self.pace.rests -= 1
        self.pace.rebase(self.now_us)
        self.kick()

    def bind(self, until_us: Virtual) -> None:
        """Let virtual time not go beyond an instant, at any rate, until another call."""
        if until_us != self.pace.bound_us:
            self.pace.bound_us = until_us
            self._end_slice()
            self.kick()

    def _end_slice(self) -> None:
        """Let the slice end with the present instant."""
        self._slice_limit_us, self._slice_over, self._slice_ends = self.now_us, True, 0.0

    async def run_until(self, at_us: Virtual) -> None:
        """Run everything due up to and including `at_us`, at the set pace; returns when it is done."""
        if self._stopped:
            raise RuntimeError("the kernel has stopped")
        self.set_goal(at_us)
        await self.reached()

    async def reached(self) -> None:
        """Wait until a goal is reached, also one that is set later."""
        await self._reached.wait()

    def outside_now_us(self) -> Virtual:
        """The virtual time to show to a person: between events it advances with the rate."""
        return self.now_us if self.aside.busy else self.pace.shown_us(self.now_us, self.due_us)

    # --- the driver -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Drive the simulation until `stop()`; run this in a nursery that outlives the actors'."""
        self._driver = current_task()
        self.pace.rebase(self.now_us)
        try:
            while not self._stopped:
                await self._turn()
        finally:  # parked tasks stay so until their nursery is cancelled
            self._driver = None
            self.aside.end()
            for task, out in [*self._ready, *self._late, *((task, None) for task in self._held.values())]:
                if task.trio_task is not None:
                    reschedule(task.trio_task, out if isinstance(out, outcome.Error) else outcome.Value(None))
            self._ready.clear()
            self._late.clear()
            self._wake_all()

    async def _turn(self) -> None:
        """Do one slice of work, then let the rest of the program run, or wait for work."""
        if self._failure is not None:
            raise self._failure
        done = await self._slice(self._limit_us(), self._todo or (1 << 60)) + await self.aside.run()
        self.after_slice()
        if self._todo and (done or self.pace.bound_us >= NEVER_US):
            self._todo = max(0, self._todo - done) if done else 0
            if not self._todo:
                self._wake_all()
            await self._passes.let_run(self.slice_s)
            return
        # The goal or the rate may have been set while tasks ran.
        limit_us = self._limit_us()
        busy = self._starting or self._ready or self._late or self.gate.waiting or self.long_work
        # The slice ended just before a journalled operation.
        busy = busy or self.gate.replaying_at(self.steps)
        if busy or self.due_us <= min(limit_us, NEVER_US - 1):
            await self._passes.let_run(self.slice_s)
            return
        self._reach(limit_us)
        self._wakeup = trio.Event()
        self.at_rest()
        if self._stopped:
            return
        with trio.move_on_after(self.pace.wait_s(self.now_us, self.due_us)):
            await self._wakeup.wait()
        self._wakeup = None

    def _limit_us(self) -> Virtual:
        return self.pace.stepped_us(self.now_us) if self._todo else self.pace.limit_us(self.now_us)

    def _reach(self, limit_us: Virtual) -> None:
        """Nothing more is due up to the limit: set the time to it and wake what waited for it."""
        goal_us = self.pace.goal_us
        if self.pace.bound_us <= limit_us:
            self.move_to(max(self.now_us, self.pace.bound_us))
        if limit_us >= goal_us and not self._todo and not self.gate.replaying_at(self.steps):
            if goal_us < NEVER_US:
                self.move_to(max(self.now_us, goal_us))
            self._wake_all()

    def _wake_all(self) -> None:
        """Wake the tasks that wait for a goal."""
        self._reached.set()
        self._reached = trio.Event()

    async def _slice(self, limit_us: Virtual, quota: int) -> int:
        """Run up to `quota` units of work due up to the limit, for about one time slice; returns
        their number.
        """
        self._slice_limit_us, self._slice_ends = limit_us, perf_counter() + self.slice_s
        self._slice_quota, self._slice_done, self._slice_over = quota, 0, False
        while (entry := self._work()) is not None:
            self._release(entry)
            await wait_task_rescheduled(lambda _: Abort.FAILED)
        livelock = self._livelock
        livelock.count = self.steps - self._instant_step
        if livelock.count > livelock.limit:
            raise LivelockError(livelock.describe(self.now_us, self._heap, self._ready))
        self.cause = 0
        return self._slice_done

    def _work(self) -> Entry | None:
        """Run callbacks up to the next task's turn, which is returned; None at the slice's end."""
        heap, ready, late, gate = self._heap, self._ready, self._late, self.gate
        inbox, replay, long_work = gate.inbox, gate.replay, self.long_work
        limit_us, done, quota = self._slice_limit_us, self._slice_done, self._slice_quota
        look = min(quota, (done | LOOK) + 1)
        entry: Entry | None = None
        while not self._starting and not self._slice_over:
            if late:
                ready.extend(sorted(late, key=lambda entry: entry[0].ident))
                late.clear()
            if inbox or (replay and replay[0].step <= self.steps):
                gate.apply()
            if long_work or self._starting:  # a task of an operation starts before time passes
                break
            if ready:
                entry = ready.popleft()
                if entry[0].owner.holds(*entry):
                    self._held[entry[0].ident] = entry[0]
                    entry = None
                    continue
                self.steps += 1
            else:
                if (
                    not heap
                    or heap[0][0] > limit_us
                    or (heap[0][0] >= self.bulk_us and (self.bulk_us, self.bulk_order) < heap[0][:2])
                ):
                    if not self._go_on_in_bulk(limit_us):
                        break
                    done += 1
                    self._slice_over = perf_counter() > self._slice_ends
                    continue
                at_us, self.order, fn, arg, cause = heappop(heap)
                if not heap:
                    self._open_span()
                if at_us != self.now_us:
                    assert at_us > self.now_us, "virtual time goes back"
                    self.now_us = at_us
                    self._instant_step = self.steps
                    if self._seq < at_us << ORDER_BITS:
                        self._seq = at_us << ORDER_BITS
                self.steps += 1
                if fn is not None:
                    self.cause = cause
                    fn(arg)
                else:
                    self.cause = arg.cause
                    again_us = arg.beat(at_us)
                    if again_us:
                        self.beat_at(again_us, arg)
            done += 1
            if done >= look:
                look = min(quota, done + LOOK + 1)
                self._slice_over = done >= quota or perf_counter() > self._slice_ends
            if entry is not None:
                break
        self._slice_done = done
        return entry

    def _go_on_in_bulk(self, limit_us: Virtual) -> bool:
        """Do the bulk work that is due before the next call, which it may move forward; False if
        there is none.
        """
        until_us, order = self._heap[0][:2] if self._heap else (NEVER_US, 0)
        if until_us > limit_us:
            until_us, order = limit_us, LAST
        if (self.bulk_us, self.bulk_order) >= (until_us, order):
            return False
        far_us = self.bulk_us + (1 << SPAN_BITS)
        if until_us > far_us:
            until_us, order = far_us, LAST
        self.bulk(until_us, order)
        return True

    def move_to(self, at_us: Virtual) -> None:
        """Advance time to an instant; what is planned from here on has the order of that instant."""
        self.now_us = at_us
        if self._seq < at_us << ORDER_BITS:
            self._seq = at_us << ORDER_BITS

    def _release(self, entry: Entry) -> None:
        """Let a task run; at the slice's end it, or the task after it, returns to the driver."""
        task, value = entry
        self.current = task
        self.cause = task.cause
        assert task.trio_task is not None
        reschedule(task.trio_task, value if type(value) is outcome.Error else outcome.Value(value))

    def cancel_owned(self, owner: Any) -> None:
        """Cancel all tasks of an owner, in order of start; the running one ends by itself."""
        for task in list(self.tasks.values()):
            if task.owner is owner and task is not self.current:
                self.cancel(task)

    def resume_task(self, ticket: Ticket, value: Any) -> None:
        """Put back a wake-up that the task's owner has held, unless the task was cancelled since."""
        task, gen = ticket
        if task.gen == gen and self._held.pop(task.ident, None) is not None:
            self._ready.append((task, value))

    def check_deadlock(self) -> None:
        """Raise DeadlockError if tasks wait and nothing is left that could wake them."""
        more = self._heap or self._ready or self._late or self._starting or self.gate.waiting
        if self.tasks and not more:
            raise DeadlockError(describe_waits(self.now_us, self.tasks.values()))
