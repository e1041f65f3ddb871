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

from sim.client.channel import ChannelLane, HotLane
from sim.kernel import Context, State
from sim.machinery.api import Request, Transport
from sim.machinery.store import Item


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

    _sure: the server's lane, while `_moves` is what the kernel's count was when it last wrote.
    """

    __slots__ = (
        "_client", "_ctx", "_item", "_kernel", "_lane", "_lane_of", "_missed", "_moves", "_offset_us", "_path", "_pause_us", "_request", "_sent_us",
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
        self._sure: HotLane | None = None
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
        lane, sure = self._lane, self._sure
        if lane is None or sure is None or self._moves != self._standing.moves:
            return self._arrive(at_us)
        item = sure.beat(self._sent_us + self._offset_us)
        if item is None:
            return self._arrive(at_us)
        self._item = item
        link = lane.back  # `delay_us` written out, here and below
        low_us = link.low_us
        reply_us = link.delay_us() if link.loss else low_us + int((link.high_us - low_us) * link.draw())
        self._sent_us = sent_us = at_us + self._pause_us(reply_us)
        link = lane.out
        low_us = link.low_us
        delay_us = link.delay_us() if link.loss else low_us + int((link.high_us - low_us) * link.draw())
        return sent_us + delay_us

    def _arrive(self, at_us: int) -> int:
        """As `beat`, looking at everything."""
        ctx, lane = self._ctx, self._lane
        if ctx.state is State.RUNNING and lane is not None:
            self._offset_us = ctx.wall_us() - at_us
            item = lane.write(self._sent_us + self._offset_us)
            if item is not None:
                surely = not ctx.clock.drift_ppm and self._client.transport is self._lane_of
                self._sure = lane.inner if surely else None
                self._moves = self._standing.moves
                self._item = item
                self.schedule(self._pause_us(lane.back.delay_us()))
                return 0
        self._late(None)
        return 0

    def _late(self, _: Any) -> None:
        self._ctx.run(self._miss)

    def _miss(self, _: Any) -> None:
        self._missed()
