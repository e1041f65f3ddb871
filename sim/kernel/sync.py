"""Objects that a task waits for: a value set once (`Future`) and a bounded queue (`Mailbox`).

Holds: at most one task waits on a future or mailbox; `set` after the first and `put` after the
owner's death do nothing; a full mailbox refuses (`put` returns False) and counts what it refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from sim.kernel.tasks import Ticket
from sim.kernel.timer import Timer


class _TimedOut:
    def __repr__(self) -> str:
        return "TIMED_OUT"


TIMED_OUT: Final = _TimedOut()


class Scheduler(Protocol):
    """The kernel as waiting tasks use it."""

    def ticket(self) -> Ticket:
        """Return a ticket that wakes the current task."""
        ...

    async def park(self, why: str) -> Any:
        """Suspend the current task until its ticket is used."""
        ...

    def wake(self, ticket: Ticket) -> None:
        """Resume the task of a ticket at this instant."""
        ...


class TaskOwner(Protocol):
    """The actor (`sim.kernel.actor.Context`) of the waiting task."""

    @property
    def kernel(self) -> Scheduler:
        """The kernel that runs the actor."""
        ...

    @property
    def alive(self) -> bool:
        """False once the actor has crashed or stopped."""
        ...

    def timer_us(self, delay_us: int, fn: Callable[[Any], None], arg: Any, /) -> Timer:
        """Call `fn` after a delay by the actor's clock."""
        ...


class Future:
    """A value that one task waits for and any callback sets."""

    __slots__ = ("_ctx", "_ticket", "done", "value", "why")

    def __init__(self, ctx: TaskOwner, why: str = "") -> None:
        self._ctx = ctx
        self._ticket: Ticket | None = None
        self.done = False
        self.value: Any = None
        self.why = why

    def set(self, value: Any) -> None:
        """Set the value and resume the waiting task at this instant; later calls have no effect."""
        if not self.done:
            self.done = True
            self.value = value
            if self._ticket is not None:
                self._ctx.kernel.wake(self._ticket)

    async def wait(self) -> Any:
        """Wait for the value and return it."""
        if not self.done:
            assert self._ticket is None, "a second task waits for a future"
            self._ticket = self._ctx.kernel.ticket()
            await self._ctx.kernel.park(self.why)
        return self.value

    async def wait_us(self, timeout_us: int) -> Any:
        """As `wait`; TIMED_OUT if the value does not come within this time by the actor's clock."""
        timer = self._ctx.timer_us(timeout_us, self.set, TIMED_OUT)
        value = await self.wait()
        timer.cancel()
        return value


class Mailbox:
    """A bounded queue with one reader."""

    __slots__ = ("_ctx", "_items", "_ticket", "capacity", "name", "refused")

    def __init__(self, ctx: TaskOwner, name: str, capacity: int) -> None:
        self._ctx = ctx
        self._items: deque[Any] = deque()
        self._ticket: Ticket | None = None
        self.name = name
        self.capacity = capacity
        self.refused = 0

    def put(self, item: Any) -> bool:
        """Add an item; False (and counted) when full or when the owner is dead."""
        if len(self._items) >= self.capacity or not self._ctx.alive:
            self.refused += 1
            return False
        self._items.append(item)
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self._ctx.kernel.wake(ticket)
        return True

    def __len__(self) -> int:
        return len(self._items)

    async def get(self) -> Any:
        """Remove and return the oldest item; wait for one if there is none."""
        while not self._items:
            assert self._ticket is None, "a second task waits for a mailbox"
            self._ticket = self._ctx.kernel.ticket()
            await self._ctx.kernel.park(f"mail in {self.name}")
        return self._items.popleft()
