"""Errors for a run that cannot continue: a deadlock of tasks, or a livelock at one instant."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from sim.kernel.tasks import KernelTask
from sim.units import Virtual


class DeadlockError(RuntimeError):
    """Tasks wait and no event is left that could wake one of them.  The text names what each waits
    for.
    """


class LivelockError(RuntimeError):
    """Work never ends at one instant.  The text names the queued callbacks and tasks."""


def describe_waits(now_us: Virtual, tasks: Iterable[KernelTask]) -> str:
    """Return the text of a deadlock, one line for each waiting task in order of start."""
    lines = [f"  {task.name} waits for {task.why or 'something unnamed'}" for task in tasks]
    return f"deadlock at {now_us / 1e6:.6f} s: nothing is scheduled and\n" + "\n".join(lines)


class Livelock:
    """Counts units of work at one instant.

    limit: a full cluster start puts some hundred thousand units into one instant; ten million is
        none.
    """

    def __init__(self, limit: int = 10_000_000) -> None:
        self.limit = limit
        self.count = 0

    def describe(self, now_us: Virtual, heap: list[Any], ready: deque[Any]) -> str:
        """Return the text of a livelock, with the most frequent queued callbacks and tasks."""
        names: Counter[str] = Counter()
        for entry in heap:
            if entry[0] <= now_us:
                what = entry[2] or entry[3].beat
                names[getattr(what, "__qualname__", repr(what))] += 1
        for task, _ in ready:
            names[task.name] += 1
        often = ", ".join(
            f"{name} ({count} waiting)"
            for name, count in sorted(names.items(), key=lambda kv: (-kv[1], kv[0]))[:10]
        )
        return f"livelock at {now_us / 1e6:.6f} s: {self.count} units of work without time moving on; queued: {often}"
