"""When a proxy may write its rules: at most so often, after a burst of two; and once an hour.

Turns the instants at which a write is wanted, begins and ends into the instant of the next one. All
times are virtual microseconds.

Mirrors  pkg/util/async/bounded_frequency_runner.go and its use in pkg/proxy/iptables/proxier.go
         (v1.25): a token a `minSyncPeriod`, two at most; without a token the next attempt is a
         period after the end of the last write. The largest interval is an hour.
Differs  `iptables-sync-period` is missing: upstream looks so often whether another program has
         removed its rules, which nothing does here.
"""

from __future__ import annotations

from sim.units import HOUR

BURST = 2
LONGEST_US = HOUR


class Frequency:
    """The frequency of the writes of one proxy.

    min_us: the least time between two writes; 0: there is none
    """

    def __init__(self, min_us: int) -> None:
        self.min_us = min_us
        self._credit_us = BURST * min_us  # a write costs a period
        self._counted_us = 0  # when the credit was computed
        self._ended_us = 0  # the last write

    def wait_us(self, now_us: int) -> int:
        """How long a write has to wait; 0: it begins now, which is counted."""
        if not self.min_us:
            return 0
        self._credit_us = min(BURST * self.min_us, self._credit_us + now_us - self._counted_us)
        self._counted_us = now_us
        if self._credit_us >= self.min_us:
            self._credit_us -= self.min_us
            return 0
        return self._ended_us + self.min_us - now_us

    def ended(self, now_us: int) -> None:
        """A write has ended."""
        self._ended_us = now_us
