"""Pure conversions of much data, on a thread, so that other requests proceed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import trio

from sim.wire.http.forms.body import BadBody

INLINE_MAX = 8 * 1024  # bytes of a body that is converted at once: a few milliseconds at most
_Value = TypeVar("_Value")


async def on_thread(convert: Callable[[], _Value], threads: trio.CapacityLimiter) -> _Value:
    """The result of a pure conversion on one of these threads."""
    result, refused = await trio.to_thread.run_sync(partial(_caught, convert), limiter=threads)
    if refused is None:
        return result  # type: ignore[no-any-return]
    try:
        raise refused
    finally:
        del refused  # to which this frame would otherwise refer, and its traceback to the frame


def _caught(convert: Callable[[], Any]) -> tuple[Any, BadBody | None]:
    """The result of a conversion, or its refusal.

    The refusal is returned without its traceback: one that Trio carries from thread to thread
    refers to itself through a frame, and keeps the body until a full garbage collection.
    """
    try:
        return convert(), None
    except BadBody as refused:
        refused.__context__ = None
        return None, refused.with_traceback(None)
