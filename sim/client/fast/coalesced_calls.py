"""Coalesced calls: calls that a server is certain to serve take two kernel events and no request.

Turns a call into the server's fast path for it at the instant of its arrival, and the resulting
object into the reply, which arrives after the storage's latency and the delay of the link.

Holds: delays are drawn, and the reply arrives, as for an ordinary call; if anything has changed its
state since the call was sent (`Standing.epoch`), or the fast path is closed, the call continues
from where it is as the ordinary call. A reply that has no effect before the next call of its caller
(`quiet`) takes no event until the caller claims it or a state changes.

Mirrors  nothing upstream: a coalesced call must equal the ordinary call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sim.api.store import Item
from sim.api.types import Reply, Request, Transport
from sim.client.rest.channel import Call, Channel
from sim.client.rest.limiter import TokenBucket
from sim.kernel import NEVER_US, Context, State
from sim.units import Virtual

OnReply = Callable[[Reply], None]
Served = tuple[Item, int]  # the resulting object and the storage's latency
# Serves a call by the server's fast path; None, without any effect, if that cannot serve it.
Serve = Callable[[Any], Served | None]


def no_call(*_: Any) -> Any:
    """Replaces the callbacks of a call while none is under way."""
    raise AssertionError("no call is under way")


class Caller(Protocol):
    """The client as its fast paths use it."""

    bucket: TokenBucket
    timeout_us: int

    @property
    def transport(self) -> Transport:
        """The transport in use."""
        ...

    def call(self, request: Request, on_reply: OnReply, timeout_us: int | None = None) -> None:
        """Send an ordinary request."""
        ...

    def resume(
        self, channel: Channel, request: Request, on_reply: OnReply, sent_us: Virtual, timeout_us: int
    ) -> OnReply:
        """Continue as an ordinary call; returns the callback that receives its reply."""
        ...


class CoalescedCalls:
    """Calls about one object, one at a time.

    asked: a request of this kind, for which a server offers its fast path (`coalesced_path`)
    _epoch: value of `Standing.epoch` when the fast path was found open
    _limit_us: timeout of the call under way
    _quiet: True if the caller does not wait for the reply
    _due: the object in an undelivered quiet reply, and the time and order of its arrival
    """

    __slots__ = (
        "_asked",
        "_bucket",
        "_cause",
        "_channel",
        "_client",
        "_ctx",
        "_draw",
        "_due",
        "_epoch",
        "_kernel",
        "_limit_us",
        "_on_reply",
        "_quiet",
        "_request",
        "_sent_us",
        "_serve",
        "_served_us",
        "_standing",
        "_timeout_us",
        "_way",
    )  # fmt: skip

    def __init__(self, ctx: Context, client: Caller, asked: Request, timeout_us: int) -> None:
        self._ctx = ctx
        self._kernel = ctx.kernel
        self._standing = ctx.kernel.standing
        self._client, self._bucket = client, client.bucket
        self._asked = asked
        self._epoch = -1
        self._channel: Channel | None = None
        self._way: Any = None
        self._timeout_us = timeout_us
        self._cause = self._limit_us = self._draw = 0
        self._sent_us = Virtual(0)
        self._served_us = (0, 0)
        self._quiet = False
        self._due: tuple[Item, Virtual, int] | None = None

    def call(
        self,
        serve: Serve | None,
        request: Callable[[], Request],
        on_reply: OnReply,
        timeout_us: int = 0,
        quiet: bool = False,
    ) -> None:
        """Send a call: by the server's fast path if that is open, or else as an ordinary request.

        serve: None if no fast path can serve the call; the others as in `send`
        """
        if serve is None or not self.send(serve, request, on_reply, timeout_us, quiet):
            self._client.call(request(), on_reply, timeout_us or None)

    def send(
        self,
        serve: Serve,
        request: Callable[[], Request],
        on_reply: OnReply,
        timeout_us: int = 0,
        quiet: bool = False,
    ) -> bool:
        """Call `serve` with the server's fast path at the instant of arrival.

        Returns False if nothing was sent, because the fast path is closed or no token is free.

        serve: returns None, without any effect, if the ordinary `request` has to be carried out
        timeout_us: if other than the client's
        quiet: True if the caller does not wait for the reply before `claim`
        """
        if self._epoch != self._standing.epoch and not self._is_open():
            return False
        if self._bucket.limits and not self._has_token():
            return False
        channel, kernel = self._channel, self._kernel
        assert channel is not None
        self._serve, self._request, self._on_reply, self._quiet = serve, request, on_reply, quiet
        self._cause, self._sent_us = kernel.cause, kernel.now_us
        self._limit_us = limit_us = timeout_us or self._timeout_us or NEVER_US
        self._draw = draw = channel.out.draw(kernel.now_us, self._asked.purpose)
        delay_us = channel.out.delay_us(draw)
        arrive = self._arrive if delay_us < limit_us else self._call(channel).arrive
        kernel.call_at(kernel.now_us + delay_us, arrive)
        return True

    def _has_token(self) -> bool:
        """Take a token for a request, if one is free."""
        return self._bucket.take(self._ctx.now_us())

    def _is_open(self) -> bool:
        """True if the fast path is open, and stays open until a state changes."""
        ctx, channel = self._ctx, self._client.transport
        if ctx.state is not State.RUNNING or ctx.clock.drift_ppm or not isinstance(channel, Channel):
            return False
        server: Any = channel.servers.get(channel.target)
        offer: Callable[[Request], Any] | None = getattr(server, "coalesced_path", None)
        disturbed = not channel.up or channel.out.duplication
        self._way = None if offer is None or disturbed else offer(self._asked)
        if self._way is None:
            return False
        self._channel, self._epoch = channel, self._standing.epoch
        return True

    def _arrive(self, _: Any) -> None:
        channel, kernel = self._channel, self._kernel
        assert channel is not None
        # Not the cause of the state change that made the call an ordinary one.
        kernel.cause = self._cause
        served = None
        if self._epoch == self._standing.epoch:
            self._way.draw = self._draw
            served = self._serve(self._way)
        if served is None:
            self._call(channel).arrive(None)
            return
        item, latency_us = served
        now_us = kernel.now_us
        self._served_us = now_us, now_us + latency_us
        at_us = now_us + latency_us + channel.back.delay_us(self._draw >> 16)
        if at_us - self._sent_us < self._limit_us:
            if self._quiet:
                self._due = item, at_us, kernel.next_order()
                self._standing.deferred[self.plan] = None
            else:
                kernel.call_at(at_us, self._deliver, item)
        else:
            kernel.call_at(at_us, self._served(channel).deliver, Reply(200, item=item))

    def claim(self) -> bool:
        """The caller of a quiet call wants its reply. True: it has arrived, and is not delivered;
        False: it will be delivered.
        """
        self._quiet = False
        due = self._due
        if due is None:
            return False
        self._standing.deferred.pop(self.plan, None)
        if self._has_come(due):
            self._due = None
            self._end()
            return True
        self.plan()
        return False

    def _has_come(self, due: tuple[Item, Virtual, int]) -> bool:
        """True if the reply of a quiet call would have been delivered by now."""
        kernel = self._kernel
        return due[1:] < (kernel.now_us, kernel.order)

    def over(self) -> bool:
        """True if the reply of a quiet call has arrived; it is then not delivered."""
        due = self._due
        return due is not None and self._has_come(due) and self.claim()

    def plan(self) -> None:
        """A state changes: the quiet reply becomes an ordinary event, unless it has arrived."""
        due, kernel = self._due, self._kernel
        if due is not None and not self._has_come(due):
            self._due = None
            item, at_us, order = due
            kernel.call_in(order, at_us, self._deliver, item)

    def _deliver(self, item: Item) -> None:
        reply = Reply(200, item=item)
        self._kernel.cause = self._cause
        if self._epoch == self._standing.epoch:
            on_reply = self._on_reply
            self._end()
            on_reply(reply)
            return
        channel = self._channel
        assert channel is not None
        self._served(channel).deliver(reply)

    def _end(self) -> None:
        """Drop the references of a finished call, because thousands of clients rarely send one."""
        self._serve = self._request = self._on_reply = no_call

    def _served(self, channel: Channel) -> Call:
        """The ordinary call after the server has served it."""
        call = self._call(channel)
        call.server, call.commits_us = self._way.server, self._served_us
        return call

    def _call(self, channel: Channel) -> Call:
        """The ordinary call at its present stage."""
        request = self._request()
        request.cause, request.draw = self._cause, self._draw
        limit_us = self._limit_us if self._limit_us < NEVER_US else 0
        on_reply = self._client.resume(channel, request, self._on_reply, self._sent_us, limit_us)
        return Call(channel, request, on_reply, self._sent_us)
