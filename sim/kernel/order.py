"""The order of calls that are due at one instant.

Calls are ordered by the instant at which they were planned, and then by the order in which they
were planned there.  A fast path that skips a step plans the next one earlier or later than the
ordinary path does, so it says as of which instant a call is planned; a count of all calls would not
do, for fast paths plan fewer of them.

Holds: two calls of one instant have different orders, unless both are planned as of one instant
other than the present.
"""

from __future__ import annotations

from typing import Any, Protocol

from sim.units import Virtual

# The order of a call among those due at its instant: when it was planned, and a number below ORDERS
# in which the upper half belongs to calls planned as of another instant (`call_as_of`).
ORDER_BITS = 26
LATER = 1 << (ORDER_BITS - 1)
LAST = 1 << 90  # after all orders


def order_as_of(planned_us: Virtual, number: int) -> int:
    """The order of a call that the ordinary path plans at an instant, after all others planned
    then.

    number: its place among such calls, from 0 to LATER - 1
    """
    return planned_us << ORDER_BITS | LATER | number


class Beat(Protocol):
    """Work that repeats, with thousands of instances (`Kernel.beat_at`).

    cause: what each is caused by; order: of the next one among the calls of its instant
        (`order_as_of`)
    """

    cause: int
    order: int

    def __lt__(self, other: Any) -> bool:
        """A total order of instances that are due at one instant and have one order."""
        ...

    def beat(self, at_us: Virtual) -> Virtual:
        """Do the work now; returns the time of the next repetition, 0 for none."""
        ...
