"""Calls that a server is known to serve at once and in one way: two kernel events each, and no
request.

Turns "do that" into the server's short way for it at the instant of arrival, and the object that
comes of it into the reply one link delay and the storage's latency later.

Holds: delays are drawn, and the reply comes, as for an ordinary call; one whose way has been
disturbed since it was sent (`Standing.moves`) or is not open goes on, from where it is, as the
ordinary call that it stands for.  A reply that makes no difference unless its caller has more to
send (`quiet`) is no event before the caller asks or something moves.

Mirrors  nothing upstream: the ordinary calls are its meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sim.api.store import Item
from sim.api.types import Reply, Request, Transport
from sim.client.rest.channel import Call, Channel
from sim.client.rest.limiter import TokenBucket
from sim.kernel import NEVER_US, Context, State

OnReply = Callable[[Reply], None]
Served = tuple[Item, int]  # what came of it, and the storage's latency


def nobody(*_: Any) -> Any:
    raise AssertionError("no call is under way")


class Caller(Protocol):
    """The client, as its folded calls see it."""

    bucket: TokenBucket

    @property
    def transport(self) -> Transport: ...
    def resume(
        self, channel: Channel, request: Request, on_reply: OnReply, sent_us: int, timeout_us: int
    ) -> OnReply: ...


class FoldedCalls:
    """Calls about one object, one at a time.  `asked`: one such request, by which a server offers
    its `short_way`.

    _moves: the kernel's count when nothing was in the way; _limit_us: after which the call under
        way is given up
    _quiet: nobody waits for the reply; _due: what is in it, if it is put off, until `_due_us`
    """

    __slots__ = (
        "_asked", "_bucket", "_cause", "_channel", "_client", "_ctx", "_due", "_due_order", "_due_us", "_kernel", "_limit_us", "_lot", "_moves",
        "_on_reply", "_quiet", "_request", "_sent_us", "_serve", "_served_us", "_standing", "_timeout_us", "_way",
    )  # fmt: skip

    def __init__(self, ctx: Context, client: Caller, asked: Request, timeout_us: int) -> None:
        self._ctx = ctx
        self._kernel = ctx.kernel
        self._standing = ctx.kernel.standing
        self._client, self._bucket = client, client.bucket
        self._asked = asked
        self._moves = -1
        self._channel: Channel | None = None
        self._way: Any = None
        self._timeout_us = timeout_us
        self._cause = self._sent_us = self._limit_us = self._lot = 0
        self._served_us = (0, 0)
        self._quiet = False
        self._due: Item | None = None
        self._due_us = self._due_order = 0

    def send(
        self,
        serve: Callable[[Any], Served | None],
        request: Callable[[], Request],
        on_reply: OnReply,
        timeout_us: int = 0,
        quiet: bool = False,
    ) -> bool:
        """At its arrival let the server's short way `serve`; False: nothing was sent, it has to be
        an ordinary call.

        serve: answers None, having done nothing, where the ordinary `request` has to be carried out
            after all
        timeout_us: if other than the client's
        quiet: nobody waits for the reply, until `claim`
        """
        if self._moves != self._standing.moves and not self._is_open():
            return False
        if self._bucket.limits and not self._has_token():
            return False
        channel, kernel = self._channel, self._kernel
        assert channel is not None
        self._serve, self._request, self._on_reply, self._quiet = serve, request, on_reply, quiet
        self._cause, self._sent_us = kernel.cause, kernel.now_us
        self._limit_us = limit_us = timeout_us or self._timeout_us or NEVER_US
        self._lot = lot = channel.out.lot(kernel.now_us, self._asked.purpose)
        delay_us = channel.out.delay_us(lot)
        arrive = self._arrive if delay_us < limit_us else self._call(channel).arrive
        kernel.call_at(kernel.now_us + delay_us, arrive)
        return True

    def _has_token(self) -> bool:
        """Take one for a request, if there is nothing to wait for."""
        return self._bucket.take(self._ctx.now_us())

    def _is_open(self) -> bool:
        """Nothing is in the way, nor will be until something moves."""
        ctx, channel = self._ctx, self._client.transport
        if ctx.state is not State.RUNNING or ctx.clock.drift_ppm or not isinstance(channel, Channel):
            return False
        server: Any = channel.servers.get(channel.target)
        offer: Callable[[Request], Any] | None = getattr(server, "short_way", None)
        disturbed = not channel.up or channel.out.duplication
        self._way = None if offer is None or disturbed else offer(self._asked)
        if self._way is None:
            return False
        self._channel, self._moves = channel, self._standing.moves
        return True

    def _arrive(self, _: Any) -> None:
        channel, kernel = self._channel, self._kernel
        assert channel is not None
        kernel.cause = self._cause  # whatever led to going on step by step
        served = None
        if self._moves == self._standing.moves:
            self._way.lot = self._lot
            served = self._serve(self._way)
        if served is None:
            self._call(channel).arrive(None)
            return
        item, latency_us = served
        now_us = kernel.now_us
        self._served_us = now_us, now_us + latency_us
        at_us = now_us + latency_us + channel.back.delay_us(self._lot >> 16)
        if at_us - self._sent_us < self._limit_us:
            if self._quiet:
                self._due, self._due_us, self._due_order = item, at_us, kernel.next_order()
                self._standing.put_off[self] = None
            else:
                kernel.call_at(at_us, self._deliver, item)
        else:
            kernel.call_at(at_us, self._served(channel).deliver, Reply(200, item=item))

    def claim(self) -> bool:
        """The reply of a quiet call is wanted after all.  True: it has come, and is not told; else
        it will be.
        """
        self._quiet = False
        if self._due is None:
            return False
        self._standing.put_off.pop(self, None)
        if self._has_come():
            self._due = None
            self._end()
            return True
        self.plan()
        return False

    def _has_come(self) -> bool:
        """Whether the reply of a quiet call would have been delivered by now."""
        kernel = self._kernel
        return (self._due_us, self._due_order) < (kernel.now_us, kernel.order)

    def over(self) -> bool:
        """Whether the reply of a quiet call has come; then it is not told."""
        return self._due is not None and self._has_come() and self.claim()

    def plan(self) -> None:
        """Something moves: the reply comes as any other, unless it has come already."""
        item, kernel = self._due, self._kernel
        if item is not None and not self._has_come():
            self._due = None
            kernel.call_in(self._due_order, self._due_us, self._deliver, item)

    def _deliver(self, item: Item) -> None:
        reply = Reply(200, item=item)
        self._kernel.cause = self._cause
        if self._moves == self._standing.moves:
            on_reply = self._on_reply
            self._end()
            on_reply(reply)
            return
        channel = self._channel
        assert channel is not None
        self._served(channel).deliver(reply)

    def _end(self) -> None:
        """Hold on to nothing of a call that is over: thousands of clients say little."""
        self._serve = self._request = self._on_reply = nobody

    def _served(self, channel: Channel) -> Call:
        """As `_call`, once the server has done what it has to."""
        call = self._call(channel)
        call.server, call.commits_us = self._way.server, self._served_us
        return call

    def _call(self, channel: Channel) -> Call:
        """The ordinary call that has come so far."""
        request = self._request()
        request.cause, request.lot = self._cause, self._lot
        limit_us = self._limit_us if self._limit_us < NEVER_US else 0
        on_reply = self._client.resume(channel, request, self._on_reply, self._sent_us, limit_us)
        return Call(channel, request, on_reply, self._sent_us)
