"""Time limits in real time that count only the time in which this process ran.

A number of seconds becomes a cancel scope of Trio. When a process was stopped, or its machine was
paused, all deadlines of Trio are over when it continues, also those of clients that did their part
during the pause. Here such a pause does not count: one task for each Trio run adds up the time
between its ticks, and leaves out what a tick came late.

Holds: what was read or sent during a pause is handled before a limit is over; a limit ends at most
TICK_S later than its time, apart from pauses; while no limit is set, nothing wakes.

Mirrors  nothing upstream: Go's net/http has the same deadlines by the wall clock, but its servers
         are not paused by a debugger or a notebook.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import trio

TICK_S = 0.2
LATE_S = 0.5  # a tick that took longer has met a pause


class _Ticker:
    """The clock of one Trio run.

    armed: the limits that are set; ran_s: the time in which this process ran, up to the last tick
    """

    def __init__(self) -> None:
        self.armed: dict[Limit, None] = {}
        self.ran_s = 0.0  # up to the last tick
        self._ticked_s = trio.current_time()
        self._late = False
        self._wakeup: trio.Event | None = None
        trio.lowlevel.spawn_system_task(self._run, name="ticks of time limits")

    def now_s(self) -> float:
        """The time in which this process ran."""
        return self.ran_s + min(trio.current_time() - self._ticked_s, TICK_S)

    def arm(self, limit: Limit) -> None:
        """Watch over a limit."""
        self.armed[limit] = None
        if self._wakeup is not None:
            self._ticked_s = trio.current_time()
            self._wakeup.set()
            self._wakeup = None

    async def _run(self) -> None:
        while True:
            if not self.armed:
                self.ran_s = self.now_s()
                self._ticked_s = trio.current_time()
                self._wakeup = trio.Event()
                await self._wakeup.wait()
            await trio.sleep(TICK_S)
            now_s = trio.current_time()
            self._count(now_s - self._ticked_s)
            self._ticked_s = now_s
            for limit in [each for each in self.armed if each.due_s <= self.ran_s]:
                del self.armed[limit]
                limit.scope.cancel()

    def _count(self, passed_s: float) -> None:
        """Add the time of a tick. Of one that came late nothing counts, of several in a row a
        little, since a machine that is always late has limits too.
        """
        late, self._late = self._late, passed_s > LATE_S
        if not self._late:
            self.ran_s += passed_s
        elif late:
            self.ran_s += TICK_S


_TICKER = trio.lowlevel.RunVar[_Ticker]("ticker")


def _ticker() -> _Ticker:
    try:
        return _TICKER.get()
    except LookupError:
        made = _Ticker()
        _TICKER.set(made)
        return made


def ran_s() -> float:
    """The seconds in which this process ran, counted while a limit is set."""
    return _ticker().now_s()


class Limit:
    """The time limit of a cancel scope, which may be set again. due_s: by the clock of the ticker"""

    __slots__ = ("_ticker", "due_s", "scope")

    def __init__(self, scope: trio.CancelScope) -> None:
        self.scope = scope
        self.due_s = math.inf
        self._ticker = _ticker()

    def set(self, seconds: float) -> None:
        """Cancel the scope after some seconds from now; never if they are infinite."""
        self.due_s = self._ticker.now_s() + seconds
        if math.isinf(seconds):
            self._ticker.armed.pop(self, None)
        else:
            self._ticker.arm(self)

    def renew(self, seconds: float) -> None:
        """As `set`, up to TICK_S later, without a look at the clock if it is set already."""
        ticker = self._ticker
        if self in ticker.armed:
            self.due_s = ticker.ran_s + TICK_S + seconds
        else:
            self.set(seconds)

    def shorten(self, seconds: float) -> None:
        """As `set`, if that is sooner than the present limit."""
        if self._ticker.now_s() + seconds < self.due_s:
            self.set(seconds)

    @property
    def left_s(self) -> float:
        """The seconds that are left; 0 if it is over."""
        return max(0.0, self.due_s - self._ticker.now_s())


class Deadline:
    """One limit for several pieces of work, which share its seconds; the time between them counts."""

    __slots__ = ("_limit",)

    def __init__(self, seconds: float) -> None:
        self._limit = Limit(trio.CancelScope())
        self._limit.set(seconds)

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Do a piece of work.  Raises TooSlowError of Trio if the time is over before its end."""
        if self._limit.scope.cancel_called:
            raise trio.TooSlowError
        self._limit.scope = scope = trio.CancelScope()
        with scope:
            yield
        if scope.cancelled_caught:
            raise trio.TooSlowError

    def lift(self) -> None:
        """End the limit: no work follows."""
        self._limit.set(math.inf)

    def __enter__(self) -> Deadline:
        return self

    def __exit__(self, *_: object) -> None:
        self.lift()


class within:  # as the functions of Trio, in lower case
    """A cancel scope, as of `trio.move_on_after`; its seconds are those in which this process ran."""

    __slots__ = ("_limit", "_seconds")

    def __init__(self, seconds: float, *, shield: bool = False) -> None:
        self._limit = Limit(trio.CancelScope(shield=shield))
        self._seconds = seconds

    def shorten(self, seconds: float) -> None:
        """End it after some seconds from now, if that is sooner."""
        self._limit.shorten(seconds)

    def __enter__(self) -> trio.CancelScope:
        self._limit.set(self._seconds)
        return self._limit.scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._limit.set(math.inf)
        return bool(self._limit.scope.__exit__(kind, error, trace))
