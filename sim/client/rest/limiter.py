"""Token buckets and the back-off limiters of work queues, as arithmetic on times that are handed
in.

Holds: a bucket's waiters are served in the order in which they asked; times are microseconds of one
clock.

Mirrors  golang.org/x/time/rate as client-go v1.25 util/flowcontrol/throttle.go uses it;
         client-go util/workqueue/default_rate_limiters.go.
Differs  one token lasts a whole number of microseconds (upstream: a float).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from sim.api.store import Planned
from sim.kernel import NEVER_US

SECOND_US = 1_000_000
ITEM_BASE_US = 5_000  # client-go DefaultControllerRateLimiter: 5 ms doubling to 1000 s
ITEM_MAX_US = 1_000 * SECOND_US


class TokenBucket:
    """`burst` tokens, refilled at `qps` a second.  A rate of zero or less is no limit, as upstream."""

    __slots__ = ("_burst_us", "_full_us", "_token_us", "limits", "pending")

    def __init__(self, qps: float, burst: int) -> None:
        self._token_us = round(SECOND_US / qps) if qps > 0 else 0
        self._burst_us = burst * self._token_us
        self._full_us = 0  # when the bucket would be full again
        self.limits = self._token_us > 0
        # A token that is taken at a later time, and what plans to take it: it is told if others
        # want tokens before.
        self.pending: tuple[int, Planned] | None = None

    def reserve(self, now_us: int, most_us: int = NEVER_US) -> int:
        """Take a token, on credit if need be; returns how long to wait before using it.

        -1: it would be longer than `most_us`, and none was taken
        """
        if self.pending is not None:
            self.settle(now_us)
        full_us = self._full_us
        full_us = (full_us if full_us > now_us else now_us) + self._token_us
        wait_us = full_us - self._burst_us - now_us
        if wait_us > most_us:
            return -1
        self._full_us = full_us
        return wait_us if wait_us > 0 else 0

    def take(self, now_us: int) -> bool:
        """As `reserve` where there is nothing to wait for; False: there is, and nothing was taken."""
        if self.pending is not None:
            self.settle(now_us)
        full_us = self._full_us
        full_us = (full_us if full_us > now_us else now_us) + self._token_us
        if full_us - self._burst_us > now_us:
            return False
        self._full_us = full_us
        return True

    def take_both(self, now_us: int, later_us: int, planned: Planned) -> bool:
        """Take a token now and another one later, if neither has to be waited for; False: nothing
        was taken.
        """
        full_us = self._full_us
        if not self.take(now_us):
            return False
        after_us = self._full_us
        if (after_us if after_us > later_us else later_us) + self._token_us - self._burst_us > later_us:
            self._full_us = full_us
            return False
        self.pending = later_us, planned
        return True

    def settle(self, now_us: int) -> None:
        """Take the token that was to be taken by now; one that is to be taken later is given up,
        and its taker is told.
        """
        if self.pending is None:
            return
        (later_us, planned), self.pending = self.pending, None
        if later_us <= now_us:
            self.take(later_us)
        else:
            planned.plan()


class Limiter(Protocol):
    """How long a key that failed waits before its next try."""

    def when_us(self, key: Hashable, now_us: int) -> int: ...
    def forget(self, key: Hashable) -> None: ...
    def retries(self, key: Hashable) -> int: ...


class ItemExponential:
    """Per key: `base_us` doubled with each failure, up to `max_us`."""

    def __init__(self, base_us: int = ITEM_BASE_US, max_us: int = ITEM_MAX_US) -> None:
        self._base_us = base_us
        self._max_us = max_us
        self._failures: dict[Hashable, int] = {}

    def when_us(self, key: Hashable, now_us: int) -> int:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._base_us << min(failures, 60), self._max_us)

    def forget(self, key: Hashable) -> None:
        self._failures.pop(key, None)

    def retries(self, key: Hashable) -> int:
        return self._failures.get(key, 0)


class SharedBucket:
    """One bucket for all keys."""

    def __init__(self, qps: float = 10, burst: int = 100) -> None:
        self._bucket = TokenBucket(qps, burst)

    def when_us(self, key: Hashable, now_us: int) -> int:
        return self._bucket.reserve(now_us)

    def forget(self, key: Hashable) -> None:
        """A bucket remembers no keys."""

    def retries(self, key: Hashable) -> int:
        return 0


class MaxOf:
    """The longest wait that any of several limiters asks for."""

    def __init__(self, *limiters: Limiter) -> None:
        self._limiters = limiters

    def when_us(self, key: Hashable, now_us: int) -> int:
        return max([limiter.when_us(key, now_us) for limiter in self._limiters])

    def forget(self, key: Hashable) -> None:
        for limiter in self._limiters:
            limiter.forget(key)

    def retries(self, key: Hashable) -> int:
        return max([limiter.retries(key) for limiter in self._limiters])


def default_limiter() -> Limiter:
    """Of a control loop's queue: per key 5 ms to 1000 s, all together 10 a second after 100."""
    return MaxOf(ItemExponential(), SharedBucket())
