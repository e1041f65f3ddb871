"""A time in one object that its client moves on for ever: a lease renewed, one event each.

Turns instants into writes by a server's hot lane, each folded into its arrival at the server, and what meets any
trouble into a call that has the beat sent as an ordinary request.

Holds: link delays are drawn as for a request and its reply; nothing is sent after the client's death; while no
process, link, clock or connection changes its state (`Standing.moves`) none of them is looked at.

Mirrors  nothing upstream: component-helpers apimachinery/lease sends ordinary updates.
Differs  a missed beat goes out one link delay late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sim.client.channel import ChannelLane
from sim.kernel import Context, State
from sim.machinery.api import Request, Transport
from sim.machinery.store import Item

Delay = tuple[int, int, Callable[[], float]]
NO_LINK: Delay = (0, 0, float)


class Sender(Protocol):
    """The client, as its heartbeats see it."""

    @property
    def transport(self) -> Transport: ...


class Heartbeat:
    """`schedule(delay_us)` plans the next beat to be sent after this delay.

    At its arrival the server's hot lane commits the time at which it was sent, and `pause_us(reply_us)`, told how long
    its reply still takes, says how long from now the next beat is sent.  When the lane is not open (link cut, server
    down, object changed by others, process paused) `missed()` is called instead: the beat is due now and has to go as
    an ordinary request.

    _sure: of the server's lane, while `_moves` is what the kernel's count was when it last wrote; `_out`, `_back`: what
    delays are drawn by until then (lowest, span, draw)
    """

    __slots__ = (
        "_back", "_client", "_ctx", "_item", "_kernel", "_lane", "_lane_of", "_missed", "_moves", "_offset_us", "_out", "_path", "_pause_us", "_request", "_sent_us",
        "_standing", "_sure", "cause",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        client: Sender,
        request: Request,
        path: tuple[str, ...],
        calls: tuple[Callable[[int], int], Callable[[], None]],
    ) -> None:
        self._client = client
        self._ctx = ctx
        self._kernel = ctx.kernel
        self._standing = ctx.kernel.standing
        self._request = request
        self._path = path
        self._pause_us, self._missed = calls
        self._lane: ChannelLane | None = None
        self._lane_of: Transport | None = None
        self._sent_us = self._offset_us = 0
        self._moves = -1
        self._sure: Callable[[int, int], Item | None] | None = None
        self._out = self._back = NO_LINK
        self._item: Item | None = None
        self.cause = 0

    def taken(self) -> Item | None:
        """The object as the last beat left it, once; None if no lane has written it since."""
        item, self._item = self._item, None
        return item

    def schedule(self, delay_us: int) -> None:
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
        item = sure(self._sent_us + self._offset_us, at_us)
        if item is None:
            return self._arrive(at_us)
        self._item = item
        low_us, span_us, draw = self._back
        self._sent_us = sent_us = at_us + self._pause_us(low_us + int(span_us * draw()))
        low_us, span_us, draw = self._out
        return sent_us + low_us + int(span_us * draw())

    def _arrive(self, at_us: int) -> int:
        """As `beat`, looking at everything."""
        ctx, lane = self._ctx, self._lane
        if ctx.state is State.RUNNING and lane is not None:
            self._offset_us = ctx.wall_us() - at_us
            item = lane.write(self._sent_us + self._offset_us)
            if item is not None:
                self._item = item
                self.schedule(self._pause_us(lane.back.delay_us()))
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
            self._sure, self._moves = inner.beat, self._standing.moves
            self._out = out.low_us, out.high_us - out.low_us, out.draw
            self._back = back.low_us, back.high_us - back.low_us, back.draw

    def _late(self, _: Any) -> None:
        self._ctx.run(self._miss)

    def _miss(self, _: Any) -> None:
        self._missed()
