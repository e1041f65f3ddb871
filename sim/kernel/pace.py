"""How virtual time follows real time: as fast as possible, at a rate, or at rest, up to a goal.

Turns the real time that has passed, the rate and the goal into the limit up to which the kernel may
run, the time to show to a person, and how long the driver may sleep.  It reads the real clock; what
happens within the simulation never depends on it.

Holds: time that passes while virtual time rests is not made up for.
"""

from __future__ import annotations

import math
from time import perf_counter

NEVER_US = 1 << 62
WAKE_S = 0.001  # a paced kernel need not wake more often than a person or a socket can notice


class Pace:
    """The pace of one kernel.

    rate: virtual seconds per real second; math.inf as fast as possible, 0 paused
    goal_us: virtual time up to which the run may go
    holds: reasons why time rests while it runs as fast as possible
    rests: reasons why time rests at any rate
    """

    __slots__ = ("_base_real", "_base_us", "goal_us", "holds", "rate", "rests")

    def __init__(self) -> None:
        self.rate = math.inf
        self.goal_us = 0
        self.holds = self.rests = 0
        self._base_us, self._base_real = 0, 0.0

    @property
    def is_timed(self) -> bool:
        """True while real time decides how far virtual time may go."""
        return not self.rests and self.rate not in (0, math.inf)

    def rebase(self, now_us: int) -> None:
        """Count from this instant of virtual time and the present real time."""
        self._base_us, self._base_real = now_us, perf_counter()

    def paced_us(self) -> int:
        """The virtual time that corresponds to the present real time, at a finite rate."""
        return self._base_us + int(self.rate * (perf_counter() - self._base_real) * 1_000_000)

    def limit_us(self, now_us: int) -> int:
        """The time up to which the kernel may run now; -1 for a paused one."""
        # With a goal in the past, the present instant is still finished.
        self.goal_us = max(self.goal_us, now_us)
        if self.rests and self.rate:
            return now_us
        if self.rate == math.inf:
            return now_us if self.holds else self.goal_us
        return min(self.goal_us, self.paced_us()) if self.rate else -1

    def shown_us(self, now_us: int, due_us: int) -> int:
        """The time to show to a person, before the next call at `due_us`."""
        return max(now_us, min(self.paced_us(), due_us, self.goal_us)) if self.is_timed else now_us

    def wait_s(self, now_us: int, next_us: int) -> float:
        """How long the driver may sleep, in real seconds, until the next call at `next_us`."""
        due_us = min(next_us, self.goal_us)
        if not self.is_timed or due_us >= NEVER_US:
            return math.inf
        if due_us <= now_us:  # the goal is reached, or the gate advanced time to a due call
            return 0.0 if next_us == due_us else math.inf
        return max(WAKE_S, self._base_real + (due_us - self._base_us) / 1e6 / self.rate - perf_counter())
