"""Token buckets and the back-off limiters of work queues, as pure arithmetic on times.

Holds: a bucket serves its waiters in the order of their requests; all times are microseconds of one
clock.

Mirrors  golang.org/x/time/rate as client-go v1.25 util/flowcontrol/throttle.go uses it;
         client-go util/workqueue/default_rate_limiters.go.
Differs  one token lasts a whole number of microseconds (upstream: a float).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from sim.kernel import NEVER_US

SECOND_US = 1_000_000
ITEM_BASE_US = 5_000  # client-go DefaultControllerRateLimiter: 5 ms doubling to 1000 s
ITEM_MAX_US = 1_000 * SECOND_US


class TokenBucket:
    """`burst` tokens, refilled at `qps` a second; a rate of zero or less means no limit, as
    upstream.
    """

    __slots__ = ("_burst_us", "_full_us", "_token_us", "limits", "pending")

    def __init__(self, qps: float, burst: int) -> None:
        self._token_us = round(SECOND_US / qps) if qps > 0 else 0
        self._burst_us = burst * self._token_us
        self._full_us = 0  # when the bucket is full again
        self.limits = self._token_us > 0
        # A token reserved for a later time, and what is called if another request needs a token
        # before: the deferred work that will take it continues step by step.
        self.pending: tuple[int, Callable[[], None]] | None = None

    def reserve(self, now_us: int, most_us: int = NEVER_US) -> int:
        """Take a token, on credit if necessary; returns the wait before it may be used.

        Returns -1, and takes no token, if the wait would be longer than `most_us`.
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
        """Take a token if there is no wait for it; returns False if none was taken."""
        if self.pending is not None:
            self.settle(now_us)
        full_us = self._full_us
        full_us = (full_us if full_us > now_us else now_us) + self._token_us
        if full_us - self._burst_us > now_us:
            return False
        self._full_us = full_us
        return True

    def take_both(self, now_us: int, later_us: int, plan: Callable[[], None]) -> bool:
        """Take a token now and reserve another one for later, if neither needs a wait; returns
        False if none was taken.
        """
        full_us = self._full_us
        if not self.take(now_us):
            return False
        after_us = self._full_us
        if (after_us if after_us > later_us else later_us) + self._token_us - self._burst_us > later_us:
            self._full_us = full_us
            return False
        self.pending = later_us, plan
        return True

    def settle(self, now_us: int) -> None:
        """Take the reserved token if its time has come; otherwise cancel the reservation and notify
        its deferred work.
        """
        if self.pending is None:
            return
        (later_us, plan), self.pending = self.pending, None
        if later_us <= now_us:
            self.take(later_us)
        else:
            plan()


class Limiter(Protocol):
    """Decides how long a failed key waits before its next try."""

    def when_us(self, key: Hashable, now_us: int) -> int:
        """Count a failure of the key; returns the wait before its next try."""
        ...

    def forget(self, key: Hashable) -> None:
        """Reset the failures of a key."""
        ...

    def retries(self, key: Hashable) -> int:
        """The number of failures of a key since `forget`."""
        ...


class ItemExponential:
    """Per key: a wait of `base_us`, doubled with each failure, up to `max_us`."""

    def __init__(self, base_us: int = ITEM_BASE_US, max_us: int = ITEM_MAX_US) -> None:
        self._base_us = base_us
        self._max_us = max_us
        self._failures: dict[Hashable, int] = {}

    def when_us(self, key: Hashable, now_us: int) -> int:
        """Count a failure; returns the doubled wait."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._base_us << min(failures, 60), self._max_us)

    def forget(self, key: Hashable) -> None:
        """Reset the failures of a key."""
        self._failures.pop(key, None)

    def retries(self, key: Hashable) -> int:
        """The number of failures of a key since `forget`."""
        return self._failures.get(key, 0)


class SharedBucket:
    """One token bucket for all keys."""

    def __init__(self, qps: float = 10, burst: int = 100) -> None:
        self._bucket = TokenBucket(qps, burst)

    def when_us(self, key: Hashable, now_us: int) -> int:
        """Take a token; returns the wait for it."""
        return self._bucket.reserve(now_us)

    def forget(self, key: Hashable) -> None:
        """Has no effect: a bucket holds no keys."""

    def retries(self, key: Hashable) -> int:
        """Always 0: a bucket holds no keys."""
        return 0


class MaxOf:
    """The longest wait of several limiters."""

    def __init__(self, *limiters: Limiter) -> None:
        self._limiters = limiters

    def when_us(self, key: Hashable, now_us: int) -> int:
        """Count a failure in each limiter; returns the longest wait."""
        return max([limiter.when_us(key, now_us) for limiter in self._limiters])

    def forget(self, key: Hashable) -> None:
        """Reset the failures of a key in each limiter."""
        for limiter in self._limiters:
            limiter.forget(key)

    def retries(self, key: Hashable) -> int:
        """The largest number of failures that a limiter has counted."""
        return max([limiter.retries(key) for limiter in self._limiters])


def default_limiter() -> Limiter:
    """The limiter of a control loop: per key 5 ms to 1000 s; 10 a second for all keys after 100."""
    return MaxOf(ItemExponential(), SharedBucket())
