"""Callbacks that can be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.units import Virtual


class Timer:
    """A scheduled callback that can be cancelled."""

    __slots__ = ("arg", "at_us", "fn")

    def __init__(self, at_us: Virtual, fn: Callable[[Any], None], arg: Any) -> None:
        self.at_us = at_us
        self.fn: Callable[[Any], None] | None = fn
        self.arg = arg

    def cancel(self) -> None:
        """Cancel the callback; this has no effect after it has run."""
        self.fn = None
        self.arg = None

    @property
    def active(self) -> bool:
        """True until the callback runs or is cancelled."""
        return self.fn is not None


def fire(timer: Timer) -> None:
    """Run the callback of a timer unless it has been cancelled."""
    fn, arg = timer.fn, timer.arg
    if fn is not None:
        timer.fn = timer.arg = None
        fn(arg)
