"""A callback that can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Timer:
    """A callback that can be taken back."""

    __slots__ = ("arg", "at_us", "fn")

    def __init__(self, at_us: int, fn: Callable[[Any], None], arg: Any) -> None:
        self.at_us = at_us
        self.fn: Callable[[Any], None] | None = fn
        self.arg = arg

    def cancel(self) -> None:
        self.fn = None
        self.arg = None

    @property
    def active(self) -> bool:
        return self.fn is not None


def fire(timer: Timer) -> None:
    fn, arg = timer.fn, timer.arg
    if fn is not None:
        timer.fn = timer.arg = None
        fn(arg)
