"""A time in one object that its client moves on for ever: a lease renewed, one event each.

Turns instants into writes by a server's hot lane, each folded into its arrival at the server, and what meets any
trouble into a call that has the beat sent as an ordinary request.

Holds: link delays are distributed as for a request and its reply, though drawn by the beat itself while nothing is in
the way; nothing is sent after the client's death; while no process, link, clock or connection changes its state
(`Standing.moves`) none of them is looked at; numbers that are the same for all beats are one object (thousands of beats
are more than a processor's cache holds: each object that one touches costs as much as several steps).

Mirrors  nothing upstream: component-helpers apimachinery/lease sends ordinary updates.
Differs  a missed beat goes out one link delay late.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from sim.api.store import Item
from sim.api.types import Request, Transport
from sim.client.rest.channel import ChannelLane, HotLane
from sim.kernel import Context, State
from sim.kernel.dice import GAMMA, MASK, mix

ALIGNED = -1  # in the place of a jitter: beats at whole multiples of the period


class Rhythm(NamedTuple):
    """From the end of a beat to the next: the period, stretched by up to the jitter, drawn from the seed."""

    period_us: int
    jitter_us: int
    seed: int


@lru_cache(maxsize=4096)
def shared(number: int) -> int:
    """One object for equal numbers: what thousands hold stays at hand for the processor."""
    return number


class Sender(Protocol):
    """The client, as its heartbeats see it."""

    @property
    def transport(self) -> Transport: ...


class Heartbeat:
    """`schedule()` plans the next beat, to be sent a pause of the rhythm from now.

    At its arrival the server's hot lane commits the time at which it was sent, and the next one is planned for a pause
    after the end of its reply.  When the lane is not open (link cut, server down, object changed by others, process
    paused) `missed()` is called instead: the beat is due now and has to go as an ordinary request.

    _sure: the server's lane, while `_moves` is what the kernel's count was when it last wrote; `_out_low_us` to
    `_back_span_us`: what the links' delays were then
    """

    __slots__ = (
        "_back_low_us", "_back_span_us", "_bound", "_client", "_ctx", "_item", "_kernel", "_lane", "_lane_of", "_missed", "_moves", "_offset_us",
        "_out_low_us", "_out_span_us", "_path", "_period_us", "_request", "_sent_us", "_standing", "_state", "_sure", "cause", "order",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        client: Sender,
        request: Request,
        path: tuple[str, ...],
        rhythm: Rhythm,
        missed: Callable[[], None],
    ) -> None:
        self._client = client
        self._ctx = ctx
        self._kernel = ctx.kernel
        self._standing = ctx.kernel.standing
        self._request = request
        self._path = path
        self._missed = missed
        self._period_us = shared(rhythm.period_us)
        self._bound = shared(rhythm.jitter_us + 1)
        self._state = rhythm.seed
        self._lane: ChannelLane | None = None
        self._lane_of: Transport | None = None
        self._sent_us = self._offset_us = 0
        self._moves = -1
        self._sure: HotLane | None = None
        self._out_low_us = self._out_span_us = self._back_low_us = self._back_span_us = 0
        self._item: Item | None = None
        self.cause = 0
        self.order = ctx.kernel.beat_order()

    def taken(self) -> Item | None:
        """The object as the last beat left it, once; None if no lane has written it since."""
        item, self._item = self._item, None
        return item

    def schedule(self) -> None:
        self._plan(self._pause_us(self._kernel.now_us))

    def _pause_us(self, end_us: int) -> int:
        """Draw how long from the end of a beat to the next: by the upper 32 of 64 random bits."""
        self._state = state = (self._state + GAMMA) & MASK
        period_us, bound = self._period_us, self._bound
        return period_us + ((mix(state) >> 32) * bound >> 32) if bound else period_us - end_us % period_us

    def _plan(self, delay_us: int) -> None:
        client, kernel = self._client, self._kernel
        transport = client.transport
        if transport is not self._lane_of:
            offer: Callable[[Request, tuple[str, ...]], ChannelLane] | None = getattr(transport, "lane", None)
            self._lane_of = transport
            self._lane = None if offer is None else offer(self._request, self._path)
        sent_us = kernel.now_us + self._ctx.clock.real_us(delay_us)
        if self._lane is None:
            kernel.call_at(sent_us, self._late)
        else:
            self._sent_us = sent_us
            self.cause = kernel.cause
            kernel.beat_at(sent_us + self._lane.out.delay_us(), self)

    def beat(self, at_us: int) -> int:
        """It has arrived: when the next one will, 0 if that is planned otherwise."""
        sure = self._sure
        if sure is None or self._moves != self._standing.moves:
            return self._arrive(at_us)
        item = sure.beat(self._sent_us + self._offset_us, at_us)
        if item is None:
            return self._arrive(at_us)
        self._item = item
        # One draw for three: 16 bits for the delay of the reply, 16 for that of the next beat, 32 for the pause between.
        self._state = state = (self._state + GAMMA) & MASK
        bits = mix(state)
        end_us = at_us + self._back_low_us + ((bits & 0xFFFF) * self._back_span_us >> 16)
        # `_pause_us` written out: this happens by the million.
        period_us, bound = self._period_us, self._bound
        end_us += period_us + ((bits >> 32) * bound >> 32) if bound else period_us - end_us % period_us
        self._sent_us = end_us
        next_us = end_us + self._out_low_us + ((bits >> 16 & 0xFFFF) * self._out_span_us >> 16)
        return 0 if sure.join(self, next_us) else next_us

    def state(self) -> dict[str, int]:
        """What the coming beats depend on, while nothing changes its state: by the names of `Beats.columns`."""
        return {
            "state": self._state,
            "sent": self._sent_us,
            "offset": self._offset_us,
            "period": self._period_us,
            "bound": self._bound,
            "out_low": self._out_low_us,
            "out_span": self._out_span_us,
            "back_low": self._back_low_us,
            "back_span": self._back_span_us,
            "order": self.order,
        }

    def resume(self, next_us: int, sent_us: int, state: int, item: Item) -> None:
        """Beat by itself again, from this state on."""
        self._sent_us, self._state, self._item = sent_us, state, item
        self._kernel.beat_at(next_us, self)

    def _arrive(self, at_us: int) -> int:
        """As `beat`, looking at everything."""
        ctx, lane = self._ctx, self._lane
        if ctx.state is State.RUNNING and lane is not None:
            self._offset_us = shared(ctx.wall_us() - at_us)
            item = lane.write(self._sent_us + self._offset_us)
            if item is not None:
                self._item = item
                reply_us = lane.back.delay_us()
                self._plan(reply_us + self._pause_us(at_us + reply_us))
                self._sure = None
                if not ctx.clock.drift_ppm and self._client.transport is self._lane_of:
                    self._trust(lane)
                return 0
        self._late(None)
        return 0

    def _trust(self, lane: ChannelLane) -> None:
        """Beat by this lane, without a look at anything, until something changes its state."""
        out, back, inner = lane.out, lane.back, lane.inner
        if inner is not None and not (out.loss or back.loss):
            self._sure, self._moves = inner, self._standing.moves
            self._out_low_us, self._out_span_us = shared(out.low_us), shared(out.high_us - out.low_us)
            self._back_low_us, self._back_span_us = shared(back.low_us), shared(back.high_us - back.low_us)

    def _late(self, _: Any) -> None:
        self._ctx.run(self._miss)

    def _miss(self, _: Any) -> None:
        self._missed()
