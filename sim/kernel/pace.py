"""How virtual time follows real time: as fast as possible, at a rate, or at rest, up to a goal.

Turns the real time that has passed, the rate and the goal into the limit up to which the kernel may
run, the time to show to a person, and how long the driver may sleep.  It reads the real clock; what
happens within the simulation never depends on it.

The driver looks at the real clock between its slices, and at least each LOOK_S.  A look that comes
more than PAUSE_S late has met a pause: the process was stopped, its machine was paused, or one
piece of work took as long.  What came from outside during a pause, such as the answer of a webhook,
is read after it, and a leap of virtual time would let its deadline pass first.

Holds: time that passes while virtual time rests is not made up for, nor is a pause.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter

from sim.units import Virtual

NEVER_US = Virtual(1 << 62)
BEFORE_US = Virtual(-1)  # before the start of a run
WAKE_S = 0.001  # a paced kernel need not wake more often than a person or a socket can notice
LOOK_S = 0.2  # a pause within a longer sleep would not be noticed
PAUSE_S = 0.2


class Pace:
    """The pace of one kernel.

    rate: virtual seconds per real second; math.inf as fast as possible, 0 paused
    goal_us: virtual time up to which the run may go
    end_us: beyond which no goal leads
    bound_us: beyond which time does not go now, since a clock outside waits for it
    holds: reasons why time rests while it runs as fast as possible
    rests: reasons why time rests at any rate
    real_s: the real clock
    """

    __slots__ = (
        "_base_real",
        "_base_us",
        "_look_by",
        "bound_us",
        "end_us",
        "goal_us",
        "holds",
        "rate",
        "real_s",
        "rests",
    )

    def __init__(self, real_s: Callable[[], float] = perf_counter) -> None:
        self.real_s = real_s
        self.rate = math.inf
        self.goal_us, self.end_us, self.bound_us = Virtual(0), NEVER_US, NEVER_US
        self.holds = self.rests = 0
        self._base_us, self._base_real = Virtual(0), 0.0
        self._look_by = math.inf  # the real time of the next look, at the latest

    @property
    def is_timed(self) -> bool:
        """True while real time decides how far virtual time may go."""
        return not self.rests and self.rate not in (0, math.inf)

    def is_still(self, now_us: Virtual) -> bool:
        """True if no virtual time passes before the rate or the goal changes."""
        return not self.rate or self.goal_us <= now_us

    def rebase(self, now_us: Virtual) -> None:
        """Count from this instant of virtual time and the present real time."""
        self._base_us = now_us
        self._base_real = self._look_by = self.real_s()

    def paced_us(self) -> Virtual:
        """The virtual time that corresponds to the present real time, at a finite rate."""
        now = self.real_s()
        late_s = now - self._look_by
        if late_s > PAUSE_S:
            self._base_real += late_s
        if now > self._look_by:
            self._look_by = now
        return self._base_us + int(self.rate * (now - self._base_real) * 1_000_000)

    def limit_us(self, now_us: Virtual) -> Virtual:
        """The time up to which the kernel may run now; BEFORE_US for a paused one."""
        # With a goal in the past, the present instant is still finished.
        self.goal_us = max(self.goal_us, now_us)
        if self.rests and self.rate:
            return now_us
        limit_us = min(self.goal_us, max(self.bound_us, now_us))
        if self.rate == math.inf:
            return now_us if self.holds else limit_us
        return min(limit_us, self.paced_us()) if self.rate else BEFORE_US

    def stepped_us(self, now_us: Virtual) -> Virtual:
        """The time up to which single steps may go."""
        return min(self.end_us, max(self.bound_us, now_us))

    def shown_us(self, now_us: Virtual, due_us: Virtual) -> Virtual:
        """The time to show to a person, before the next call at `due_us`."""
        if self.rests or self.rate in (0, math.inf):  # not `is_timed`, without a call
            return now_us
        at_us = self.paced_us()
        if at_us > due_us:
            at_us = due_us
        at_us = min(at_us, self.goal_us, self.bound_us)
        return at_us if at_us > now_us else now_us

    def wait_s(self, now_us: Virtual, next_us: Virtual) -> float:
        """How long the driver may sleep, in real seconds, until the next call at `next_us`."""
        due_us = min(next_us, self.goal_us, self.bound_us)
        if not self.is_timed:
            return math.inf
        if due_us <= now_us:  # the goal is reached, or the gate advanced time to a due call
            return 0.0 if next_us == due_us else math.inf
        now = self.real_s()
        left_s = self._base_real + (due_us - self._base_us) / 1e6 / self.rate - now
        wait_s = min(max(WAKE_S, left_s), LOOK_S)
        self._look_by = max(self._look_by, now + wait_s)
        return wait_s
