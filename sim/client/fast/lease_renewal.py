"""Lease renewals: a time in one object that its client updates for ever, one kernel event each.

Turns the end of one renewal into the next one: an ordinary request after a pause or, while nothing
changes its state (`Standing.epoch`), a write by the server's fast path for leases at the instant at
which that request would arrive.

Holds: each renewal takes one draw of 64 bits, from which the pause before it, its delays and the
storage's latency follow. The equal ordinary request has the same draw, so it is sent, arrives and
is answered at the same instants. When a state changes, or the fast path is closed, the renewal
continues from where it is as that request: planned, on its way to the server or on its way back.
Numbers that are the same for all renewals are one Python object: thousands of renewals exceed a
processor's cache, and each further object that one of them touches costs as much as several steps.

Mirrors  nothing upstream: component-helpers apimachinery/lease sends ordinary updates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

from sim.api.store import Item
from sim.api.types import Reply, Request
from sim.api.watch.columnar_renewals import Carrier
from sim.client.fast.coalesced_calls import Caller
from sim.client.rest.channel import Call, Channel
from sim.kernel import NEVER_US, Context, State
from sim.kernel.causes import caused_by
from sim.kernel.draws.dice import GAMMA, MASK, mix
from sim.kernel.order import LATER, ORDER_BITS
from sim.units import Virtual

NOT_DUE = Virtual(0)
ALIGNED = -1  # in place of a jitter: renewals take place at whole multiples of the period
OnReply = Callable[[Reply], None]


class Rhythm(NamedTuple):
    """Pause from the end of a renewal to the next one: the period plus up to the jitter, drawn from
    the seed.
    """

    period_us: int
    jitter_us: int
    seed: int


@lru_cache(maxsize=4096)
def shared(number: int) -> int:
    """One Python object for equal numbers, so that the processor's cache holds it."""
    return number


class Heartbeat:
    """The renewals of one lease; `schedule()` plans the next one, a pause of the rhythm from now.

    missed: called when a renewal is due that has to be sent as an ordinary request, with `draw` as
        its draw
    composed: returns the request that was sent when the client's wall clock showed the given time,
        and the callback for its reply
    draw: the draw of the planned renewal
    _sure: the server's fast path, found open; `_channel`: the connection to the server
    _out_low_us to _store_span_us: bounds of the delays and of the storage's latency at that time
    _written_us, _end_us: when the last renewal was written, and when its reply arrives
    _sent_us, _next_us: when the next renewal is sent and written (0: it is an ordinary request)

    Size: one object for each lease holds in slots the bounds that a renewal reads, because the fast
    path consists of little else than these reads; parts would be thousands of objects more.
    """

    __slots__ = (
        "_back_low_us",
        "_back_span_us",
        "_bound",
        "_channel",
        "_client",
        "_composed",
        "_ctx",
        "_end_us",
        "_item",
        "_kernel",
        "_missed",
        "_next_us",
        "_offset_us",
        "_out_low_us",
        "_out_span_us",
        "_path",
        "_period_us",
        "_request",
        "_sent_us",
        "_standing",
        "_state",
        "_store_low_us",
        "_store_span_us",
        "_sure",
        "_written_us",
        "cause",
        "draw",
        "order",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        client: Caller,
        request: Request,
        path: tuple[str, ...],
        rhythm: Rhythm,
        missed: Callable[[], None],
        composed: Callable[[int], tuple[Request, OnReply]],
    ) -> None:
        self._client = client
        self._ctx = ctx
        self._kernel = ctx.kernel
        self._standing = ctx.kernel.standing
        self._request = request
        self._path = path
        self._missed = missed
        self._composed = composed
        self._period_us = shared(rhythm.period_us)
        self._bound = shared(rhythm.jitter_us + 1)
        self._state = rhythm.seed
        self._written_us = self._end_us = self._sent_us = self._next_us = NOT_DUE
        self._offset_us = 0
        self._sure: Carrier | None = None
        self._channel: Channel | None = None
        self._out_low_us = self._out_span_us = self._back_low_us = self._back_span_us = 0
        self._store_low_us = self._store_span_us = 0
        self._item: Item | None = None
        self.draw = self.cause = self.order = 0

    def __lt__(self, other: Any) -> bool:
        """A total order of renewals of one instant and one order, the same in every run."""
        return bool(self._request.name < other._request.name)

    def taken(self) -> Item | None:
        """The object after the last fast-path renewal, returned once; None if there has been none
        since.
        """
        item, self._item = self._item, None
        return item

    def schedule(self, alone: bool = True) -> None:
        """Plan the next renewal after the end of the last one, successful or not.

        alone: True if the next renewal changes nothing but the time
        """
        kernel, now_us = self._kernel, self._kernel.now_us
        self._end_us = now_us
        pause_us = self._draw(now_us)
        if not (alone and self._is_open()):
            self._ordinarily(now_us + self._ctx.clock.real_us(pause_us))
            return
        self.cause = kernel.cause
        kernel.beat_at(self._plan(now_us + pause_us), self)
        self._standing.deferred[self.plan] = None

    def _ordinarily(self, sent_us: Virtual) -> None:
        """Plan the next renewal as an ordinary request."""
        self._next_us = NOT_DUE
        self._kernel.call_as_of(self._end_us, sent_us, self._late)

    def _is_open(self) -> bool:
        """True if the fast path is open, and stays open until a state changes."""
        ctx, channel = self._ctx, self._client.transport
        if ctx.state is not State.RUNNING or ctx.clock.drift_ppm or not isinstance(channel, Channel):
            return False
        out, back = channel.out, channel.back
        if not channel.up or out.duplication or out.loss or back.loss:
            return False
        self._channel, server = channel, cast(Any, channel.server)
        opened: Callable[[Request, tuple[str, ...]], Carrier | None] | None = getattr(
            server, "open_lease_path", None
        )
        self._sure = lease_path = None if opened is None else opened(self._request, self._path)
        if lease_path is None:
            return False
        store_low_us, store_high_us = lease_path.latency_us
        if out.high_us + back.high_us + store_high_us >= (self._client.timeout_us or NEVER_US):
            return False
        self._offset_us = shared(ctx.wall_us() - self._kernel.now_us)
        self._out_low_us, self._out_span_us = shared(out.low_us), shared(out.high_us - out.low_us)
        self._back_low_us, self._back_span_us = shared(back.low_us), shared(back.high_us - back.low_us)
        self._store_low_us, self._store_span_us = shared(store_low_us), shared(store_high_us - store_low_us)
        return True

    def _draw(self, end_us: Virtual) -> int:
        """Draw the next renewal; returns the pause before it, from the upper 32 of 64 random bits."""
        self._state = state = (self._state + GAMMA) & MASK
        self.draw = draw = mix(state)
        period_us, bound = self._period_us, self._bound
        return period_us + ((draw >> 32) * bound >> 32) if bound else period_us - end_us % period_us

    def _plan(self, sent_us: Virtual) -> Virtual:
        """Plan a renewal that is sent at `sent_us`; returns when it is written."""
        self._sent_us = sent_us
        pause_us = sent_us - self._end_us
        # Of renewals that are sent at one instant, the one with the earlier end comes first.
        self.order = sent_us << ORDER_BITS | LATER | (LATER - 1 - pause_us if pause_us < LATER else 0)
        self._next_us = next_us = (
            sent_us + self._out_low_us + ((self.draw & 0xFFFF) * self._out_span_us >> 16)
        )
        return next_us

    def beat(self, at_us: Virtual) -> Virtual:
        """The renewal arrives at the server; returns when the next one does, 0 if that is planned
        otherwise.
        """
        if at_us != self._next_us:
            return NOT_DUE  # the renewal continued as a request
        sure = self._sure
        item = None if sure is None else sure.beat(self._sent_us + self._offset_us, at_us)
        if item is None or sure is None:
            self._standing.deferred.pop(self.plan, None)
            self._arrive()
            return NOT_DUE
        self._item, self._written_us = item, at_us
        draw = self.draw
        self._end_us = end_us = (
            at_us
            + self._store_low_us + ((draw >> 32 & 0xFFFF) * self._store_span_us >> 16)
            + self._back_low_us + ((draw >> 16 & 0xFFFF) * self._back_span_us >> 16)
        )  # fmt: skip
        # `_draw` and `_plan` inlined, because this runs millions of times.
        self._state = state = (self._state + GAMMA) & MASK
        self.draw = draw = mix(state)
        period_us, bound = self._period_us, self._bound
        pause_us = period_us + ((draw >> 32) * bound >> 32) if bound else period_us - end_us % period_us
        self._sent_us = sent_us = end_us + pause_us
        self.order = sent_us << ORDER_BITS | LATER | (LATER - 1 - pause_us if pause_us < LATER else 0)
        self._next_us = next_us = sent_us + self._out_low_us + ((draw & 0xFFFF) * self._out_span_us >> 16)
        if sure.join(self, next_us):
            self._next_us = NOT_DUE
            return NOT_DUE
        return next_us

    def state(self) -> dict[str, int]:
        """The values that determine later renewals as long as no state changes, by the names of
        `Beats.columns`.
        """
        return {
            "state": self._state,
            "draw": self.draw,
            "written": self._written_us,
            "end": self._end_us,
            "sent": self._sent_us,
            "offset": self._offset_us,
            "period": self._period_us,
            "bound": self._bound,
            "out_low": self._out_low_us,
            "out_span": self._out_span_us,
            "back_low": self._back_low_us,
            "back_span": self._back_span_us,
            "store_low": self._store_low_us,
            "store_span": self._store_span_us,
        }

    def resume(self, written_us: Virtual, end_us: Virtual, next_us: Virtual, state: int, item: Item) -> None:
        """Return from columnar renewals: the last renewal was written at `written_us` and ended at
        `end_us`; the next one arrives at `next_us`.
        """
        self._written_us, self._end_us, self._item = written_us, end_us, item
        self._state = (state - GAMMA) & MASK
        planned_us = self._plan(end_us + self._draw(end_us))
        assert planned_us == next_us
        self._kernel.beat_at(next_us, self)
        self._standing.deferred[self.plan] = None

    # --- when a state changes ---------------------------------------------------------------------

    def plan(self) -> None:
        """A state changes: continue as an ordinary request, from where the renewal is."""
        next_us, ctx, now_us = self._next_us, self._ctx, self._kernel.now_us
        if not next_us or ctx.state is State.DEAD:
            self._next_us = NOT_DUE
            return
        with caused_by(self._kernel, self.cause):
            if now_us < self._end_us:
                self._answer()
            elif now_us < self._sent_us:
                self._ordinarily(self._sent_us)
            else:
                self._next_us = NOT_DUE
                self._kernel.call_as_of(self._sent_us, next_us, self._call().arrive)

    def _answer(self) -> None:
        """Continue while the reply to the last renewal is under way; the next renewal is drawn
        again when it has arrived.
        """
        item, end_us, written_us = self._item, self._end_us, self._written_us
        assert item is not None and self._sure is not None
        self._item, self._next_us = None, NOT_DUE
        self._state = (self._state - GAMMA) & MASK
        self.draw = draw = mix(self._state)
        # The last renewal was sent one link delay before it was written.
        self._sent_us = written_us - self._out_low_us - ((draw & 0xFFFF) * self._out_span_us >> 16)
        call = self._call()
        replied_us = end_us - self._back_low_us - ((draw >> 16 & 0xFFFF) * self._back_span_us >> 16)
        call.server, call.commits_us = self._sure.server, (written_us, replied_us)
        self._kernel.call_as_of(written_us, end_us, call.deliver, Reply(200, item=item))

    def _arrive(self) -> None:
        """The fast path is closed: the request arrives as an ordinary one now."""
        self._next_us = NOT_DUE
        self._kernel.follow(self.cause)
        self._call().arrive(None)

    def _call(self) -> Call:
        """The ordinary call of the renewal that was sent at `_sent_us`."""
        channel = self._channel
        assert channel is not None
        self._kernel.follow(self.cause)
        request, on_reply = self._composed(self._sent_us + self._offset_us)
        request.draw, request.cause = self.draw, self.cause
        on_reply = self._client.resume(channel, request, on_reply, self._sent_us, self._client.timeout_us)
        return Call(channel, request, on_reply, self._sent_us)

    def _late(self, _: Any) -> None:
        self._ctx.run(self._due)

    def _due(self, _: Any) -> None:
        self._missed()
