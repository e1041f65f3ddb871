"""A part of a program that a process of the cluster itself carries out: an agent, an API server.

Turns a generator of waits, as programs have them, into calls in the time of an actor.

Holds: nothing happens within the call that begins it; the part continues only while the actor's
incarnation lives, later while it is paused or slow; `cancel` ends it where it waits.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from actors.node.programs.waits import Wait
from sim.kernel import Context
from sim.kernel.timer import Timer

T = TypeVar("T")


class Driven(Generic[T]):
    """One part under way.  done: called with what it returns, unless it is cancelled"""

    def __init__(self, ctx: Context, steps: Generator[Wait, None, T], done: Callable[[T], None]) -> None:
        self._ctx, self._steps, self._done = ctx, steps, done
        self._wait: Wait | None = None
        self._timer: Timer | None = None
        self._over = False
        ctx.call_later_us(0, self._go)

    def cancel(self) -> None:
        """End it."""
        if not self._over:
            self._over = True
            self._settle()
            self._steps.close()

    def _settle(self) -> None:
        """Wait for nothing any more."""
        wait, self._wait = self._wait, None
        for source in wait.sources if wait is not None else ():
            source.unwatch(self._stir)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stir(self) -> None:
        """Go on once no program runs."""
        if self._wait is not None:
            self._settle()
            self._ctx.call_later_us(0, self._go)

    def _go(self, _: object = None) -> None:
        self._timer = None
        if self._over:
            return
        try:
            wait = next(self._steps)
        except StopIteration as end:
            self._over = True
            self._done(end.value)
            return
        self._wait = wait
        if any(source.ready for source in wait.sources):
            self._stir()
            return
        for source in wait.sources:
            source.watch(self._stir)
        if wait.until_us is not None:
            at_us = max(wait.until_us, self._ctx.kernel.now_us)
            self._timer = self._ctx.timer_at_us(at_us, self._due)

    def _due(self, _: object) -> None:
        self._timer = None
        self._settle()
        self._go()
