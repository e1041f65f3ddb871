"""Measures where this program spends its time, for a client of /debug/pprof/profile.

Turns the running main thread into a profile: a second thread looks at its stack at even intervals.

Holds: the simulation is only looked at; one client measures at a time.

Mirrors  golang runtime/pprof (100 samples a second).
"""

from __future__ import annotations

import sys
import threading
import time
from functools import partial

import trio

from sim.wire.http.pages.pprof import Frame, Stack, encode

PERIOD_S = 0.01
DEPTH_MAX = 200


class Profiler:
    """The profiler of this process."""

    def __init__(self) -> None:
        self._alone = trio.CapacityLimiter(1)

    async def profile(self, seconds: int) -> bytes:
        """The profile of the next seconds."""
        thread = threading.get_ident()
        measure = partial(_measured, thread, seconds)
        return await trio.to_thread.run_sync(measure, limiter=self._alone, abandon_on_cancel=True)


def _measured(thread: int, seconds: float) -> bytes:
    begun, begun_ns = time.monotonic(), time.time_ns()
    samples: dict[Stack, int] = {}
    while (passed := time.monotonic() - begun) < seconds:
        stack = _stack(thread)
        samples[stack] = samples.get(stack, 0) + 1
        time.sleep(min(PERIOD_S, seconds - passed))
    return encode(samples, int(PERIOD_S * 1e6), begun_ns // 1000, int(seconds * 1e6))


def _stack(thread: int) -> Stack:
    """The present stack of a thread, the innermost frame first."""
    result: list[Frame] = []
    frame = sys._current_frames().get(thread)
    while frame is not None and len(result) < DEPTH_MAX:
        code = frame.f_code
        result.append(Frame(code.co_qualname, code.co_filename, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(result)
