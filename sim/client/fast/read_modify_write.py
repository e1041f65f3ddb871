"""A read and the write that follows from it, as one kernel event while nothing moves.

Turns "read it, then write what comes of that" into the write at the instant of its arrival, and what is known of the read
and its reply before.

Holds: each of the four messages takes a delay of its own, those of the first three drawn when the read is sent; what is
read is what the server has at that time, one link delay before an ordinary read would find it; in its microsecond the write
comes before what was planned while the read was under way.  As soon as something moves, or the caller wants it (`plan`),
the exchange goes on from where it is, step by step, at the same instants.

Mirrors  nothing upstream: the two ordinary calls are its meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.api.store import Item
from sim.api.types import Request
from sim.client.fast.coalesced_calls import Caller, FoldedCalls, OnReply, Served, nobody
from sim.kernel import NEVER_US, Context

NOTHING = (-1, 0)
# One call: the server's short way for it, the ordinary request that it stands for, and who gets the reply.
Leg = tuple[Callable[[Any], Served | None], Callable[[], Request], OnReply]
# What was read: by which call, the object, when it was served and answered, when that is known.
Read = tuple[Leg, Item, int, int, int]


class Exchange(FoldedCalls):
    """Exchanges about one object, one at a time, and single calls.

    _read: on its way, with the write behind it; _number: of the write that is planned; _next: when it is sent, and the delay
    that it is known to take; _told: who hears that it is done; _limits: after which time each call is given up, and when both
    """

    __slots__ = ("_limits", "_next", "_number", "_read", "_told")

    def __init__(self, ctx: Context, client: Caller, asked: Request, timeout_us: int) -> None:
        super().__init__(ctx, client, asked, timeout_us)
        self._read: Read | None = None
        self._told: Callable[[Item, int], None] | None = None
        self._number = 0
        self._next = self._limits = NOTHING

    def exchange(
        self,
        read: Leg,
        compose: Callable[[Item, int], bool],
        write: Leg,
        told: Callable[[Item, int], None],
        timeout_us: int = 0,
        ends_us: int = NEVER_US,
    ) -> bool:
        """Read now; at the reply's instant `compose` what the write sends.  False: nothing was sent.

        compose: answers whether the write is to be sent
        timeout_us: of each, if other than the client's; ends_us: when both are given up
        told: when the write is done, of what came of it and when the reply comes, which nobody waits for until `claim`
        """
        if self._moves != self._standing.moves and not self._is_open():
            return False
        self.over()
        served = read[0](self._way)
        channel, kernel = self._channel, self._kernel
        assert channel is not None
        if served is None:
            return False
        now_us = kernel.now_us
        replies_us = now_us + channel.out.delay_us() + served[1]
        at_us = replies_us + channel.back.delay_us()
        delay_us, timeout_us = channel.out.delay_us(), timeout_us or self._timeout_us or NEVER_US
        if at_us - now_us >= timeout_us or at_us + delay_us >= min(at_us + timeout_us, ends_us):
            return False
        if not compose(served[0], at_us):
            return False
        bucket, local_us = self._bucket, self._ctx.now_us()
        if bucket.limits and not bucket.take(local_us, 2):
            return False
        self._next = at_us, delay_us
        self._read = read, served[0], now_us, replies_us, at_us
        self._told = told
        self._cause = kernel.cause
        self._limits = timeout_us, ends_us
        self._begin(write, at_us, True)
        kernel.call_at(at_us + delay_us, self._commit, self._number)
        self._standing.put_off[self] = None
        return True

    def _begin(self, leg: Leg, sent_us: int, quiet: bool) -> None:
        self._serve, self._request, self._on_reply = leg
        self._sent_us, self._quiet = sent_us, quiet
        timeout_us, ends_us = self._limits
        self._limit_us = min(timeout_us, ends_us - sent_us)

    def _commit(self, number: int) -> None:
        if number != self._number:
            return  # it went on step by step
        told, self._read, self._told = self._told, None, None
        self._next, self._limits = NOTHING, NOTHING
        self._arrive(None)
        if self._due is not None:
            self._serve = nobody
            if told is not None:
                self._kernel.cause = self._cause
                told(self._due, self._due_us)

    def plan(self) -> None:
        read, self._read = self._read, None
        if read is None or self._kernel.now_us >= read[4]:
            self._quiet = False
            super().plan()
            return
        leg, item, served_us, replies_us, at_us = read
        self._number += 1
        self._begin(leg, served_us, False)
        self._served_us = served_us, replies_us
        self._kernel.call_at(at_us, self._deliver, item)

    def _has_token(self) -> bool:
        return self._next[0] == self._kernel.now_us or super()._has_token()

    def _out_us(self) -> int:
        sent_us, delay_us = self._next
        return delay_us if sent_us == self._kernel.now_us else super()._out_us()
