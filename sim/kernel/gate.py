"""The gate: the one way in for work from outside the simulation.

An operation is a name and a msgpack-able payload.  Its handler runs between two units of work, at a
definite position (number of units done, virtual time), which the journal keeps; replaying the
journal in a kernel with the same seed applies the same operations at the same positions, and so
gives the same trace.

Holds: an operation is in the journal before it has an effect.  One that the journal cannot keep is
given to its handler's stand-in (`Gate.handle`), which must have no effect that a replay would lack;
a replay ends at the position of the first such operation.

A handler takes `(payload, done)` and calls `done(result)` once, at once or at a later virtual time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sized
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import trio

from sim.kernel.causes import CauseHolder
from sim.kernel.timer import Timer
from sim.units import Virtual

POSITION = "position"  # an operation without an effect, which says how far a run has come
Handler = Callable[[Any, Callable[[Any], None]], None]


class Operation(msgspec.Struct, frozen=True, array_like=True):
    """One journalled operation: applied when `step` units of work were done, at `at_us`."""

    step: int
    at_us: Virtual
    name: str
    payload: Any


class NotKeptError(Exception):
    """The journal cannot keep an operation."""


class Journal(Protocol):
    """Keeps operations in the order in which they are applied.  A list is one, and the default."""

    def append(self, operation: Operation, /) -> None:
        """Raises NotKeptError."""
        ...


class NoJournal:
    """Keeps none: a process that lives long does not grow by what happens to it."""

    def append(self, _: Operation, /) -> None:
        """Discard an operation."""


def unheard(_: Any) -> None:
    """Discard the result of a replayed operation: its client does not exist."""


class Driver(CauseHolder, Protocol):
    """The kernel as the gate, long work and calls outside use it.

    steps: units of work done so far
    """

    steps: int

    @property
    def gate(self) -> Gate:
        """The way in for work from outside."""
        ...

    @property
    def long_work(self) -> Sized:
        """The long work that waits to be done."""
        ...

    @property
    def now_us(self) -> Virtual:
        """Virtual time."""
        ...

    @property
    def rate(self) -> float:
        """Virtual seconds per real second."""
        ...

    def timer_at(self, at_us: Virtual, fn: Callable[[Any], None], arg: Any = None, /) -> Timer:
        """Call a function at a virtual time."""
        ...

    def hold(self) -> None:
        """Let virtual time rest while it runs as fast as possible."""
        ...

    def let_go(self) -> None:
        """End one `hold`."""
        ...

    def admit(self) -> None:
        """Let what has been posted be applied, at once or soon."""
        ...

    def move_to(self, at_us: Virtual, /) -> None:
        """Advance virtual time."""
        ...

    def outside_now_us(self) -> Virtual:
        """Return the virtual time that corresponds to the wall clock now."""
        ...


class Gate:
    """Queues outside operations, applies and journals them, or replays a journal."""

    def __init__(self, kernel: Driver, replay: list[Operation]) -> None:
        self._kernel = kernel
        self._handlers: dict[str, Handler] = {}
        self._unkept: dict[str, Handler] = {}
        self._reads: dict[str, Callable[[Any], bool]] = {}
        # Read by the kernel before each unit of work.
        self.inbox: deque[tuple[str, Any, Callable[[Any], None]]] = deque()
        self.replay = deque(replay)
        self.journal: Journal = list[Operation]()
        self.kept = True  # False once the journal could not keep an operation
        self._reached = -1  # the units of work of the last operation that was kept
        self.handle(POSITION, lambda _, done: done(None))

    def handle(
        self,
        name: str,
        handler: Handler,
        unkept: Handler | None = None,
        reads: Callable[[Any], bool] | None = None,
    ) -> None:
        """Name the handler of an operation; once each.

        unkept: called in its place where the journal cannot keep the operation, default the handler
        reads: returns True for a payload with which the operation changes nothing, so that it may
            be applied beside long work; None: it always changes something
        """
        assert name not in self._handlers, name
        self._handlers[name] = handler
        self._unkept[name] = unkept or handler
        if reads is not None:
            self._reads[name] = reads

    @property
    def waiting(self) -> bool:
        """True if an operation from outside waits to be applied."""
        return bool(self.inbox)

    def replaying_at(self, step: int) -> bool:
        """Return True if the journal has an operation for this step or an earlier one."""
        return bool(self.replay) and self.replay[0].step <= step

    async def submit(self, name: str, payload: Any) -> Any:
        """Hand an operation in from a Trio task outside and wait for its result."""
        answered, box = trio.Event(), list[Any]()

        def done(result: Any) -> None:
            assert not box, "an operation has two results"
            box.append(result)
            answered.set()

        self.post(name, payload, done)
        await answered.wait()
        return box[0]

    def post(self, name: str, payload: Any, done: Callable[[Any], None]) -> None:
        """As `submit` without waiting; `done` is called in the simulation's order, at the earliest
        before this returns, and must not block.
        """
        self.inbox.append((name, payload, done))
        self._kernel.admit()

    def note_position(self) -> None:
        """Keep in the journal how far the run has come, since a client is about to learn of it."""
        kernel = self._kernel
        if self._reached != kernel.steps and not self.replay:
            self._reached = kernel.steps
            with suppress(NotKeptError):
                self.journal.append(Operation(kernel.steps, kernel.now_us, POSITION, None))

    def apply(self) -> None:
        """Apply what waits, up to an operation that plans long work (called by the driver, between
        two units of work).
        """
        while self.replaying_at(self._kernel.steps):
            operation = self.replay.popleft()
            self._kernel.move_to(max(self._kernel.now_us, operation.at_us))
            self._do(operation.name, operation.payload, unheard)
        known = len(self._kernel.long_work)
        while self.inbox and len(self._kernel.long_work) == known:
            name, payload, done = self.inbox.popleft()
            self._do(name, payload, done)

    def apply_reads(self) -> None:
        """Apply those operations that change nothing, beside long work."""
        for _ in range(len(self.inbox)):
            operation = self.inbox.popleft()
            if self._is_read(operation):
                self._do(*operation)
            else:
                self.inbox.append(operation)

    def _is_read(self, operation: tuple[str, Any, Callable[[Any], None]]) -> bool:
        reads = self._reads.get(operation[0])
        return reads is not None and reads(operation[1])

    def _do(self, name: str, payload: Any, done: Callable[[Any], None]) -> None:
        kernel = self._kernel
        kernel.move_to(kernel.outside_now_us())
        handler = self._handlers[name]
        self._reached = kernel.steps
        try:
            self.journal.append(Operation(kernel.steps, kernel.now_us, name, payload))
        except NotKeptError:
            self.kept = False
            handler = self._unkept[name]
        kernel.follow(0)
        handler(payload, done)
        kernel.follow(0)
