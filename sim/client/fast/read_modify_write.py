"""Read-modify-write: a read and the write that follows from it, as one kernel event if undisturbed.

Turns "read the object, then write what follows from it" into the write at the instant of its
arrival and what the client knows of the read before.

Holds: each of the four messages has the delay, and each of the two requests takes the token, that
it would have alone. When a state changes, another write of the object commits, another request
wants a token, or the caller requests it (`plan`), the call continues step by step from where it is,
at the same instants; so the object that was read is the one that the server has when the read
arrives.

Mirrors  nothing upstream: the call must equal the two ordinary calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sim.api.store import Item
from sim.api.types import Request
from sim.client.fast.coalesced_calls import Caller, CoalescedCalls, OnReply, Serve, no_call
from sim.kernel import NEVER_US, Context
from sim.units import Virtual

# One call: the server's fast path, the ordinary request that it must equal, and the callback for
# the reply.
Leg = tuple[Serve, Callable[[], Request], OnReply]


class Planned(NamedTuple):
    """A read-modify-write under way.

    item: the revision that is read
    sent_us, arrives_us, replies_us, at_us: when the read is sent, arrives at the server, is
        answered, and when the reply arrives
    read_draw, write_draw: the draws of both requests
    writes_us: when the write arrives at the server
    timeout_us: timeout of each call
    ends_us: when both calls are abandoned
    """

    read: Leg
    write: Leg
    item: Item
    sent_us: Virtual
    arrives_us: Virtual
    replies_us: Virtual
    at_us: Virtual
    writes_us: Virtual
    read_draw: int
    write_draw: int
    written: Callable[[Item, int], None]
    undone: Callable[[], None]
    timeout_us: int
    ends_us: Virtual

    def limit_us(self, sent_us: Virtual) -> int:
        """Timeout of a call that is sent at `sent_us`."""
        return min(self.timeout_us, self.ends_us - sent_us)


class Exchange(CoalescedCalls):
    """Read-modify-writes of one object, one at a time, and single coalesced calls."""

    __slots__ = ("_planned",)

    def __init__(self, ctx: Context, client: Caller, asked: Request, timeout_us: int) -> None:
        super().__init__(ctx, client, asked, timeout_us)
        self._planned: Planned | None = None

    @property
    def read_us(self) -> int:
        """When the reply to the read under way arrives; NEVER_US if none is under way."""
        return NEVER_US if self._planned is None else self._planned.at_us

    def read_modify_write(
        self,
        read: Leg,
        compose: Callable[[Item, int], bool],
        write: Leg,
        written: Callable[[Item, int], None],
        timeout_us: int = 0,
        ends_us: Virtual = NEVER_US,
        undone: Callable[[], None] = lambda: None,
    ) -> bool:
        """Read, compose and write: as one kernel event (see `exchange`), or else by an ordinary
        read, and its callback continues.

        Returns True if it is one event.
        """
        if self.exchange(read, compose, write, written, timeout_us, ends_us, undone):
            return True
        limit_us = min(timeout_us or self._timeout_us or NEVER_US, ends_us - self._kernel.now_us)
        self.call(*read, limit_us if limit_us < NEVER_US else 0)
        return False

    def exchange(
        self,
        read: Leg,
        compose: Callable[[Item, int], bool],
        write: Leg,
        written: Callable[[Item, int], None],
        timeout_us: int = 0,
        ends_us: Virtual = NEVER_US,
        undone: Callable[[], None] = lambda: None,
    ) -> bool:
        """Read now; at the instant of the reply, `compose` prepares the write.

        Returns False if nothing was sent.

        compose: returns True if the write is to be sent
        timeout_us: of each call, if other than the client's
        ends_us: when both calls are abandoned
        undone: called if the call continues step by step before the read is answered; it restores
            what `compose` changed
        `written`: called when the write is done, with the resulting object and the instant of the
            reply, which is not delivered before `claim`
        """
        kernel = self._kernel
        if not kernel.fast.read_writes or (self._epoch != self._standing.epoch and not self._is_open()):
            return False
        self.over()
        channel, way, now_us = self._channel, self._way, kernel.now_us
        assert channel is not None
        if not channel.out.steady or not channel.back.steady:
            return False
        purpose = self._asked.purpose
        draw = way.draw = channel.out.draw(now_us, purpose)
        served = read[0](way)
        if served is None or not way.guards(served[0]):
            return False
        arrives_us = now_us + channel.out.delay_us(draw)
        replies_us = arrives_us + served[1]
        at_us = replies_us + channel.back.delay_us(draw >> 16)
        write_draw = channel.out.draw(at_us, purpose)
        writes_us, timeout_us = (
            at_us + channel.out.delay_us(write_draw),
            timeout_us or self._timeout_us or NEVER_US,
        )
        if at_us - now_us >= timeout_us or writes_us >= min(at_us + timeout_us, ends_us):
            return False
        if not compose(served[0], at_us):
            return False
        bucket, local_us = self._bucket, self._ctx.now_us()
        if bucket.limits and not bucket.take_both(local_us, local_us + at_us - now_us, self.plan):
            return False
        self._planned = planned = Planned(
            read, write, served[0], now_us, arrives_us, replies_us, at_us, writes_us, draw, write_draw, written, undone,
            timeout_us, ends_us,
        )  # fmt: skip
        self._cause = kernel.cause
        way.guard(served[0], self.plan)
        kernel.call_as_of(at_us, writes_us, self._commit, planned)
        self._standing.deferred[self.plan] = None
        return True

    def _begin(self, leg: Leg, sent_us: Virtual, draw: int, quiet: bool, planned: Planned) -> None:
        self._serve, self._request, self._on_reply = leg
        self._sent_us, self._draw, self._quiet = sent_us, draw, quiet
        self._limit_us = planned.limit_us(sent_us)

    def _take_off(self) -> Planned | None:
        """Remove and return the read-modify-write under way."""
        planned, self._planned = self._planned, None
        if planned is not None:
            self._way.unguard(planned.item, self.plan)
            self._standing.deferred.pop(self.plan, None)
            if self._bucket.pending is not None and self._bucket.pending[1] == self.plan:
                later_us, _ = self._bucket.pending
                self._bucket.pending = None
                if later_us <= self._ctx.now_us():
                    self._bucket.take(later_us)
        return planned

    def _commit(self, planned: Planned) -> None:
        if planned is not self._planned:
            return  # the call continued step by step
        self._take_off()
        self._begin(planned.write, planned.at_us, planned.write_draw, True, planned)
        self._arrive(None)
        if self._due is not None:
            self._serve = no_call
            self._kernel.follow(self._cause)
            planned.written(self._due[0], self._due[1])

    def plan(self) -> None:
        """A state changes: continue step by step with ordinary calls."""
        planned, kernel = self._take_off(), self._kernel
        if planned is None:
            self._quiet = False
            super().plan()
        elif kernel.now_us < planned.at_us:
            planned.undone()
            self._begin(planned.read, planned.sent_us, planned.read_draw, False, planned)
            if kernel.now_us < planned.arrives_us:
                kernel.call_as_of(planned.sent_us, planned.arrives_us, self._arrive)
            else:
                self._served_us = planned.arrives_us, planned.replies_us
                kernel.call_as_of(planned.arrives_us, planned.at_us, self._deliver, planned.item)
        else:
            self._begin(planned.write, planned.at_us, planned.write_draw, False, planned)
            kernel.call_as_of(planned.at_us, planned.writes_us, self._arrive)
