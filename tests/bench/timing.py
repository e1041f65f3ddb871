"""What the benchmarks share: the best of several tries, and where the time goes.

Seconds are the process's own: a run is one thread that never waits, so on a machine with nothing
else to do they are the clock's, and on a busy one they are nearer to it than the clock is.  The
best, not the mean: others can only make a try slower.
"""

from __future__ import annotations

import cProfile
import platform
import pstats
import sys
from collections.abc import Callable
from os import cpu_count
from pathlib import Path
from time import process_time

TRIES = 3


def best_of(run: Callable[[], object], tries: int = TRIES) -> float:
    """Seconds of the fastest of some tries."""
    best = float("inf")
    for _ in range(tries):
        began = process_time()
        run()
        best = min(best, process_time() - began)
    return best


def profiled(run: Callable[[], object], lines: int = 25) -> None:
    """Run once under the profiler and print the functions with most time of their own."""
    profile = cProfile.Profile()
    profile.runcall(run)
    pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(lines)


def wants_profile() -> bool:
    return "--profile" in sys.argv


def machine() -> str:
    """The processor and the interpreter, for BENCHMARKS.md."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return f"{cpu_count()} cores of {model}, Python {platform.python_version()}"
