"""The virtual time of a cluster that `orrery serve` runs, for programs of users.

    clock = Clock("my-controller", "out/config")
    clock.sleep(60)                     # seconds of virtual time; `await clock.wait(60)` in trio
    with clock.hold():                  # time of the cluster rests
        work(clock.now())

Time in the cluster goes no further than the next timer of each clock.  When a timer fires, it rests
for SETTLE_S real seconds, in which the program may begin to hold it.

Holds: `now` never goes back; a clock that is closed is not waited for.

Mirrors  nothing upstream.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from sim.app.steering.remote import Remote
from sim.errors import InputError

SETTLE_S = 0.02  # real seconds in which a program may begin to hold, or set another timer
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Timer:
    """A function that is called once, at an instant of virtual time."""

    def __init__(self, at_us: int, call: Callable[[], None]) -> None:
        self.at_us, self._call = at_us, call
        self.is_active = True

    def cancel(self) -> None:
        """Let it not be called."""
        self.is_active = False

    def fire(self) -> None:
        """Call it, unless it was cancelled or has been called."""
        was, self.is_active = self.is_active, False
        if was:
            self._call()


class Clock:
    """A clock that follows one cluster.

    name: of the program; clocks have their turns in the order of their names
    config: a client configuration of the cluster; None for that of kubectl
    Raises InputError.
    """

    def __init__(self, name: str = "clock", config: Path | str | None = None, context: str = "") -> None:
        self._remote = Remote(None if config is None else Path(config), context)
        self._changed = threading.Condition()
        self._timers: list[tuple[int, int, Timer]] = []
        self._set = self._ended = self._shown_us = 0
        self._announced: int | None = None
        self._closed = ""
        self._last: dict[str, Any] = {}
        self._came_s = 0.0
        messages = self._remote.follow("/time/clock", {"name": name})
        self._take(next(messages))
        for work, given in ((self._read, (messages,)), (self._turns, ())):
            threading.Thread(target=work, args=given, name=name, daemon=True).start()

    def now(self) -> datetime:
        """The time of the cluster."""
        return _EPOCH + timedelta(microseconds=int(self._last["epoch_us"]) + self._now_us())

    def timer(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call a function after seconds of virtual time, in a thread of this clock."""
        with self._changed:
            self._check()
            timer = Timer(self._now_us() + max(0, round(seconds * 1e6)), call)
            self._set += 1
            heapq.heappush(self._timers, (timer.at_us, self._set, timer))
            self._changed.notify_all()
        return timer

    def sleep(self, seconds: float) -> None:
        """Wait for seconds of virtual time.  Raises InputError if the clock ends."""
        fired = threading.Event()
        self.timer(seconds, fired.set)
        with self._changed:
            while not fired.is_set():
                self._check()
                self._changed.wait()

    async def wait(self, seconds: float) -> None:
        """As `sleep`, in a program of trio."""
        import trio

        fired, token = trio.Event(), trio.lowlevel.current_trio_token()
        timer = self.timer(seconds, lambda: token.run_sync_soon(fired.set))
        try:
            await fired.wait()
        finally:
            timer.cancel()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let time of the cluster rest; `now` is exact in it."""
        named = {"name": f"{self._last['name']}-{threading.get_ident()}"}
        at_us = self._remote.post("/time/hold", named)["virtual_us"]
        self._take({**self._last, "now_us": at_us, "paused": True})
        try:
            yield
        finally:
            self._remote.post("/time/release", named)

    def close(self) -> None:
        """Follow no longer: no timer fires any more."""
        with self._changed:
            self._closed = self._closed or "the clock is closed"
            self._timers.clear()
            self._changed.notify_all()
        self._announce(self._last["turn"], None)

    # --- the threads ------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._closed:
            raise InputError(self._closed)

    def _next_us(self) -> int | None:
        while self._timers and not self._timers[0][2].is_active:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _now_us(self) -> int:
        """Virtual time: that of the turn, or what has passed since the last message at most."""
        last, at_us = self._last, int(self._last["now_us"])
        if last["turn"] == self._ended and not last["paused"] and last["pace"] != "max":
            passed_us = int((monotonic() - self._came_s) * float(last["pace"]) * 1e6)
            at_us += passed_us if self._announced is None else min(passed_us, self._announced - at_us)
        self._shown_us = max(self._shown_us, at_us)
        return self._shown_us

    def _take(self, message: dict[str, Any]) -> None:
        with self._changed:
            self._last, self._came_s = message, monotonic()
            self._changed.notify_all()

    def _read(self, messages: Iterator[dict[str, Any]]) -> None:
        why = "the cluster has ended"
        try:
            for message in messages:
                self._take(message)
        except InputError as error:
            why = str(error)
        with self._changed:
            self._closed = self._closed or why
            self._changed.notify_all()

    def _turns(self) -> None:
        while not self._closed:
            with self._changed:
                turn = int(self._last["turn"])
                if turn == self._ended and self._next_us() == self._announced:
                    self._changed.wait()
                    continue
            if turn != self._ended:
                self._do_turn()
            with self._changed:
                self._ended, self._announced = turn, self._next_us()
            self._announce(turn, self._announced)

    def _do_turn(self) -> None:
        """Fire what is due, and give the program time to react."""
        at_us = int(self._last["now_us"])
        with self._changed:
            due: list[Timer] = []
            while (next_us := self._next_us()) is not None and next_us <= at_us:
                due.append(heapq.heappop(self._timers)[2])
        for timer in due:
            timer.fire()
        with self._changed:
            self._changed.notify_all()
            quiet_s = monotonic() + SETTLE_S
            while due and not self._closed and (left_s := quiet_s - monotonic()) > 0:
                self._changed.wait(left_s)

    def _announce(self, turn: int, next_us: int | None) -> None:
        try:
            self._remote.post("/time/turn", {"clock": self._last["clock"], "turn": turn, "next_us": next_us})
        except InputError as error:
            self._closed = self._closed or str(error)
