"""A time in one object that its client moves on for ever: a lease renewed, one kernel event each.

Turns the end of one renewal into the next: an ordinary request a pause later, or, while nothing
moves (`Standing.moves`), a write by the server's hot lane at the instant at which that request
would arrive.

Holds: each renewal takes one draw of 64 bits, of which the pause before it, its delays and the
storage's latency come; the ordinary request that stands for it has the same draw, so it is sent,
arrives and is answered at the same instants.  As soon as something moves, or the lane is not open,
the renewal goes on from where it is as that request: planned, on its way there or on its way back.
Numbers that are the same for all renewals are one object (thousands of them are more than a
processor's cache holds: each object that one touches costs as much as several steps).

Mirrors  nothing upstream: component-helpers apimachinery/lease sends ordinary updates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, cast

from sim.api.store import Item
from sim.api.types import Reply, Request, Transport
from sim.client.rest.channel import Call, Channel, HotLane
from sim.kernel import NEVER_US, Context, State
from sim.kernel.dice import GAMMA, MASK, mix
from sim.kernel.order import LATER, ORDER_BITS

ALIGNED = -1  # in the place of a jitter: renewals at whole multiples of the period
OnReply = Callable[[Reply], None]


class Rhythm(NamedTuple):
    """From the end of a renewal to the next: the period, stretched by up to the jitter, drawn from
    the seed.
    """

    period_us: int
    jitter_us: int
    seed: int


@lru_cache(maxsize=4096)
def shared(number: int) -> int:
    """One object for equal numbers: what thousands hold stays at hand for the processor."""
    return number


class Sender(Protocol):
    """The client, as its heartbeats see it."""

    timeout_us: int

    @property
    def transport(self) -> Transport: ...
    def resume(
        self, channel: Channel, request: Request, on_reply: OnReply, sent_us: int, timeout_us: int
    ) -> OnReply: ...


class Heartbeat:
    """`schedule()` plans the next renewal, to be sent a pause of the rhythm from now.

    missed: called when a renewal is due that has to be sent as an ordinary request, with `lot` as
        its lot
    composed: the request that was sent when the own wall clock showed this time, and who hears of
        its reply
    lot: the draw of the renewal that is planned
    _sure: the lane of the server, and `_channel` the way to it, found open; `_out_low_us` to
    `_store_span_us`: what the delays and the storage's latency were then
    _written_us, _end_us: when the last renewal was written, and when its reply arrives; _sent_us,
        _next_us: when the next is sent and written (0: it is planned as an ordinary request)
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
        "lot",
        "order",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        client: Sender,
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
        self._written_us = self._end_us = self._sent_us = self._next_us = self._offset_us = 0
        self._sure: HotLane | None = None
        self._channel: Channel | None = None
        self._out_low_us = self._out_span_us = self._back_low_us = self._back_span_us = 0
        self._store_low_us = self._store_span_us = 0
        self._item: Item | None = None
        self.lot = self.cause = self.order = 0

    def __lt__(self, other: Any) -> bool:
        """Which of two of one instant and one order comes first: the same one in every run."""
        return bool(self._request.name < other._request.name)

    def taken(self) -> Item | None:
        """The object as the last renewal by the lane left it, once; None if no lane has written it
        since.
        """
        item, self._item = self._item, None
        return item

    def schedule(self, alone: bool = True) -> None:
        """The last renewal is over, in whatever way.  alone: nothing but the time is to be changed
        by the next.
        """
        kernel, now_us = self._kernel, self._kernel.now_us
        self._end_us = now_us
        pause_us = self._draw(now_us)
        if not (alone and self._is_open()):
            self._ordinarily(now_us + self._ctx.clock.real_us(pause_us))
            return
        self.cause = kernel.cause
        kernel.beat_at(self._plan(now_us + pause_us), self)
        self._standing.put_off[self] = None

    def _ordinarily(self, sent_us: int) -> None:
        """Plan the next renewal as a request."""
        self._next_us = 0
        self._kernel.call_as_of(self._end_us, sent_us, self._late)

    def _is_open(self) -> bool:
        """Look at everything: nothing is in the way of the lane, nor will be until something moves."""
        ctx, channel = self._ctx, self._client.transport
        if ctx.state is not State.RUNNING or ctx.clock.drift_ppm or not isinstance(channel, Channel):
            return False
        out, back = channel.out, channel.back
        if not channel.up or out.duplication or out.loss or back.loss:
            return False
        self._channel, server = channel, cast(Any, channel.server)
        opened: Callable[[Request, tuple[str, ...]], HotLane | None] | None = getattr(
            server, "open_lane", None
        )
        self._sure = lane = None if opened is None else opened(self._request, self._path)
        if lane is None:
            return False
        store_low_us, store_high_us = lane.latency_us
        if out.high_us + back.high_us + store_high_us >= (self._client.timeout_us or NEVER_US):
            return False
        self._offset_us = shared(ctx.wall_us() - self._kernel.now_us)
        self._out_low_us, self._out_span_us = shared(out.low_us), shared(out.high_us - out.low_us)
        self._back_low_us, self._back_span_us = shared(back.low_us), shared(back.high_us - back.low_us)
        self._store_low_us, self._store_span_us = shared(store_low_us), shared(store_high_us - store_low_us)
        return True

    def _draw(self, end_us: int) -> int:
        """Draw the next renewal; how long from the end of the last to its sending: by the upper 32
        of 64 random bits.
        """
        self._state = state = (self._state + GAMMA) & MASK
        self.lot = lot = mix(state)
        period_us, bound = self._period_us, self._bound
        return period_us + ((lot >> 32) * bound >> 32) if bound else period_us - end_us % period_us

    def _plan(self, sent_us: int) -> int:
        """The next renewal is sent then: when it is written."""
        self._sent_us = sent_us
        pause_us = sent_us - self._end_us
        # Of those that are sent at one instant the one that was over first is first.
        self.order = sent_us << ORDER_BITS | LATER | (LATER - 1 - pause_us if pause_us < LATER else 0)
        self._next_us = next_us = sent_us + self._out_low_us + ((self.lot & 0xFFFF) * self._out_span_us >> 16)
        return next_us

    def beat(self, at_us: int) -> int:
        """A renewal arrives at the server: when the next one does, 0 if that is planned otherwise."""
        if at_us != self._next_us:
            return 0  # it went on as a request
        sure = self._sure
        item = None if sure is None else sure.beat(self._sent_us + self._offset_us, at_us)
        if item is None or sure is None:
            self._standing.put_off.pop(self, None)
            self._arrive()
            return 0
        self._item, self._written_us = item, at_us
        lot = self.lot
        self._end_us = end_us = (
            at_us
            + self._store_low_us + ((lot >> 32 & 0xFFFF) * self._store_span_us >> 16)
            + self._back_low_us + ((lot >> 16 & 0xFFFF) * self._back_span_us >> 16)
        )  # fmt: skip
        # `_draw` and `_plan` written out: this happens by the million.
        self._state = state = (self._state + GAMMA) & MASK
        self.lot = lot = mix(state)
        period_us, bound = self._period_us, self._bound
        pause_us = period_us + ((lot >> 32) * bound >> 32) if bound else period_us - end_us % period_us
        self._sent_us = sent_us = end_us + pause_us
        self.order = sent_us << ORDER_BITS | LATER | (LATER - 1 - pause_us if pause_us < LATER else 0)
        self._next_us = next_us = sent_us + self._out_low_us + ((lot & 0xFFFF) * self._out_span_us >> 16)
        if sure.join(self, next_us):
            self._next_us = 0
            return 0
        return next_us

    def state(self) -> dict[str, int]:
        """What the coming renewals depend on, while nothing changes its state: by the names of
        `Beats.columns`.
        """
        return {
            "state": self._state,
            "lot": self.lot,
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

    def resume(self, written_us: int, end_us: int, next_us: int, state: int, item: Item) -> None:
        """Renew by itself again: the last renewal was written and is over at the first two times,
        the next arrives then.
        """
        self._written_us, self._end_us, self._item = written_us, end_us, item
        self._state = (state - GAMMA) & MASK
        planned_us = self._plan(end_us + self._draw(end_us))
        assert planned_us == next_us
        self._kernel.beat_at(next_us, self)
        self._standing.put_off[self] = None

    # --- when something moves ---------------------------------------------------------------------

    def plan(self) -> None:
        """Something moves: go on as an ordinary request, from where the renewal is."""
        next_us, ctx, now_us = self._next_us, self._ctx, self._kernel.now_us
        if not next_us or ctx.state is State.DEAD:
            self._next_us = 0
            return
        before = self._kernel.cause
        self._kernel.cause = self.cause
        if now_us < self._end_us:
            self._answer()
        elif now_us < self._sent_us:
            self._ordinarily(self._sent_us)
        else:
            self._next_us = 0
            self._kernel.call_as_of(self._sent_us, next_us, self._call().arrive)
        self._kernel.cause = before

    def _answer(self) -> None:
        """The reply to the last renewal is under way; the next is drawn again when it has come."""
        item, end_us, written_us = self._item, self._end_us, self._written_us
        assert item is not None and self._sure is not None
        self._item, self._next_us = None, 0
        self._state = (self._state - GAMMA) & MASK
        self.lot = lot = mix(self._state)
        # The last one was sent a delay before it was written.
        self._sent_us = written_us - self._out_low_us - ((lot & 0xFFFF) * self._out_span_us >> 16)
        call = self._call()
        replied_us = end_us - self._back_low_us - ((lot >> 16 & 0xFFFF) * self._back_span_us >> 16)
        call.server, call.commits_us = self._sure.server, (written_us, replied_us)
        self._kernel.call_as_of(written_us, end_us, call.deliver, Reply(200, item=item))

    def _arrive(self) -> None:
        """The lane is not open: the request arrives now."""
        self._next_us = 0
        self._kernel.cause = self.cause
        self._call().arrive(None)

    def _call(self) -> Call:
        """The ordinary call of the renewal that was sent at `_sent_us`."""
        channel = self._channel
        assert channel is not None
        self._kernel.cause = self.cause
        request, on_reply = self._composed(self._sent_us + self._offset_us)
        request.lot, request.cause = self.lot, self.cause
        on_reply = self._client.resume(channel, request, on_reply, self._sent_us, self._client.timeout_us)
        return Call(channel, request, on_reply, self._sent_us)

    def _late(self, _: Any) -> None:
        self._ctx.run(self._due)

    def _due(self, _: Any) -> None:
        self._missed()
