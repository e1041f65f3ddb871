"""The client's end of a watch: the events of the server's watch, one link delay later.

Turns the batches of a server's `Watch` into batches that arrive in order, through cuts of the link,
and into notifications of the watch's owner; events without a notification are taken when the owner
reads.

Holds: events arrive in the order taken, each batch not before the link's delay; at most BACKLOG_MAX
events (and a batch) wait for a client that does not read; at most one useful kernel event is
pending, for a lazy watch none; the owner of a lazy watch reads what the server's watch showed up to
one link delay ago.

Mirrors  client-go v1.25 rest/watch, golang.org/x/net/http2 as a reader of a stream.
Differs  events wait when either direction is cut, because the watch shares a connection with pings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sim.api.types import Json, Watch, WatchEvent
from sim.api.watch.columnar_renewals import Runs
from sim.api.watch.delivery import WAITING, Delivery
from sim.kernel import Context, State
from sim.kernel.network import Link
from sim.units import NO_REVISION, Virtual

LAZY_MAX = 1000  # events that may wait unread on a lazy watch without a notification
# Limit of events on their way to a client or unread there. Beyond it no more are taken from the
# server, and the server's watch cache ends the watch as too slow. Go's HTTP/2 client buffers 4 MiB
# of a stream (transportDefaultStreamFlow).
BACKLOG_MAX = 10_000

CONNECTION_LOST: Mapping[str, Json] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "an error on the server (unable to decode an event from the watch stream: "
    "http2: client connection lost) has prevented the request from succeeding",
    "reason": "InternalError",
    "code": 500,
}


class WatchChannel(Protocol):
    """The connection (`sim.client.rest.channel.Channel`) as one of its watches uses it.

    still: True while nothing arrives, because the link is cut or the server's process is paused
    """

    ctx: Context

    @property
    def watches(self) -> dict[int, Any]:
        """The open watches of the connection, by number."""
        ...

    @property
    def still(self) -> bool:
        """True while nothing arrives: the link is cut or the server is paused."""
        ...


class ChannelWatch:
    """The client's end of a watch: a `Watch` with the events of the server's, one link delay later.

    `attach` requests notifications by a mode of delivery.  With ON_READ the owner is notified only
    when the stream has ended or LAZY_MAX events wait: it takes events when it is read.
    """

    __slots__ = (
        "_arrived",
        "_back",
        "_channel",
        "_chosen",
        "_delivery",
        "_due_us",
        "_ended",
        "_flow",
        "_give",
        "_held",
        "_ident",
        "_last_us",
        "_looked_us",
        "_notify",
        "_over",
        "_source",
        "_unhandled",
        "_waiting",
    )

    def __init__(
        self, channel: WatchChannel, back: Link, ident: int, source: Watch, from_us: Virtual
    ) -> None:
        """back: the delays of its events"""
        self._channel, self._back = channel, back
        self._ident = ident
        self._source: Any = source
        self._last_us = from_us
        self._flow: list[
            tuple[Virtual, Sequence[WatchEvent]]
        ] = []  # few pairs of arrival and batch; an empty batch marks the end
        self._arrived: Sequence[WatchEvent] = ()
        self._waiting = 0
        self._notify: Callable[[], None] | None = None
        self._give: Callable[[Sequence[WatchEvent]], None] | None = None
        self._delivery = Delivery.ON_READ  # of this watch to its owner
        self._chosen = Delivery.EVERYTHING  # of the server's watch to this one
        self._due_us = Virtual(0)
        self._looked_us = Virtual(-1)
        self._held = channel.still
        self._ended = False
        self._over = False  # nothing more is taken from the server
        # True if no handler receives the events of the watch.
        self._unhandled: Callable[[], bool] | None = None
        if hasattr(source, "look"):
            source.look = self.look
        source.attach(self._on_source)
        self._on_source()
        self._ask_to_give()

    # --- the server's side ------------------------------------------------------------------------

    def _on_source(self) -> None:
        if self._over:
            return
        source, full = self._source, True
        while full and self._waiting < BACKLOG_MAX:
            batch = source.take(LAZY_MAX)
            if not batch:
                break
            full = len(batch) == LAZY_MAX  # fewer than requested: no more for now
            self._push(batch)
        if source.ended and self._waiting < BACKLOG_MAX:
            self._over = True
            self._push([])

    def _ask_to_give(self) -> None:
        give_to: Callable[[Callable[[Sequence[WatchEvent]], bool]], None] | None
        give_to = getattr(self._source, "give_to", None)
        if give_to is not None and not self._over and self._waiting < BACKLOG_MAX:
            give_to(self._push)

    def _push(self, batch: Sequence[WatchEvent]) -> bool:
        """Put a batch on the link; returns True if there is room for more."""
        self._waiting = waiting = self._waiting + len(batch)
        channel = self._channel
        kernel = channel.ctx.kernel
        at_us = kernel.now_us + self._back.delay_at_us(kernel.now_us)
        if at_us < self._last_us:
            at_us = self._last_us
        self._last_us = at_us
        flow = self._flow
        flow.append((at_us, batch))
        if self._delivery is not Delivery.ON_READ:
            due_us = self._due_us
            if (not due_us or due_us > at_us) and not self._held and self._notify is not None:
                self._due_us = at_us
                kernel.call_at(at_us, self._due, at_us)
        elif not batch or waiting >= LAZY_MAX:
            self._schedule(at_us)
        return waiting < BACKLOG_MAX

    # --- on the way -------------------------------------------------------------------------------

    def _schedule(self, at_us: Virtual) -> None:
        if self._notify is not None and not self._held and not 0 < self._due_us <= at_us:
            self._due_us = at_us
            self._channel.ctx.kernel.call_at(at_us, self._due, at_us)

    def _due(self, at_us: Virtual) -> None:
        if at_us != self._due_us:
            return  # an earlier notification replaced this one
        self._due_us = Virtual(0)
        if self._held:
            return
        flow = self._flow
        ctx, give = self._channel.ctx, self._give
        # The usual case:
        if give is not None and len(flow) == 1 and not self._arrived and ctx.state is State.RUNNING:
            due_us, batch = flow[0]
            if batch and due_us <= at_us and self._waiting < BACKLOG_MAX:
                del flow[0]
                self._waiting -= len(batch)
                give(batch)
                return
        self._collect()
        if self._arrived or self._ended:
            if ctx.state is not State.RUNNING and not (self._is_free() and ctx.state is State.SLOW):
                ctx.run(self._tell)
            elif self._notify is not None:
                self._notify()
        self._expect()

    def _is_free(self) -> bool:
        """True if arrived events cost a slow process no time, because no handler receives them."""
        return not self._ended and self._unhandled is not None and self._unhandled()

    def _expect(self) -> None:
        """Schedule the next notification: of each batch for an eager owner, otherwise of the end or
        of a large backlog.
        """
        eager = self._delivery is not Delivery.ON_READ
        if self._flow and (eager or self._over or self._waiting >= LAZY_MAX):
            self._schedule(self._flow[0][0] if eager else self._flow[-1][0])

    def _tell(self, _: Any) -> None:
        if self._notify is not None:
            self._notify()

    def _collect(self) -> None:
        """Move batches that the link has carried by now to the arrived events."""
        flow, now_us = self._flow, self._channel.ctx.kernel.now_us
        while flow and flow[0][0] <= now_us:
            batch = flow.pop(0)[1]
            if not batch:
                self._end()
            else:
                self._arrive(batch)

    def _arrive(self, batch: Sequence[WatchEvent]) -> None:
        arrived = self._arrived
        if not arrived:
            self._arrived = batch
        elif isinstance(arrived, Runs) and isinstance(batch, Runs):
            self._arrived = arrived.plus(batch)
        else:
            self._arrived = [*arrived, *batch]

    def hold(self) -> None:
        """The link is cut or the server is paused: arrived events stay, those on their way wait to
        be sent again.
        """
        self._collect()
        if self._chosen in (Delivery.EVENTS, Delivery.CHANGES):
            self._look()
        self._held = True
        self._due_us = Virtual(0)
        if self._ended or (self._delivery is not Delivery.ON_READ and self._arrived):
            self._channel.ctx.run(self._tell)

    def release(self) -> None:
        """The link is healed and the server runs: waiting events are sent again."""
        self._held = False
        back, now_us = self._back, self._channel.ctx.kernel.now_us
        again_us = now_us + back.delay_at_us(now_us)
        self._last_us = max(self._last_us, again_us)
        self._flow = [(max(at_us, again_us), batch) for at_us, batch in self._flow]
        self._expect()

    def break_off(self) -> None:
        """The connection is found dead: events on their way are lost, and the owner receives an
        error and the end.
        """
        if self._chosen is Delivery.CHANGES and not self._held:
            self._look()
        self._flow.clear()
        self._shut()
        # Otherwise an owner that has not received the watch yet would wait for ever.
        self._held = False
        ctx = self._channel.ctx
        self._arrive([WatchEvent("ERROR", None, NO_REVISION, dict(CONNECTION_LOST), ctx.kernel.cause)])
        self._end()
        ctx.run(self._tell)

    def _shut(self) -> None:
        if not self._over:
            self._over = True
            self._source.stop()

    def _end(self) -> None:
        self._ended = True
        self._channel.watches.pop(self._ident, None)

    # --- the client's side ------------------------------------------------------------------------

    def attach(
        self,
        notify: Callable[[], None],
        delivery: Delivery = Delivery.EVERYTHING,
        give: Callable[[Sequence[WatchEvent]], None] | None = None,
        unhandled: Callable[[], bool] | None = None,
    ) -> None:
        """Notify the owner of events as the mode of delivery says, and of the end of the stream.

        give: takes a batch in place of the notification if nothing else is to be delivered
        unhandled: returns True if no handler receives the events of the watch
        """
        self._notify, self._give, self._delivery = notify, give, delivery
        self._unhandled = unhandled
        if delivery is Delivery.ON_READ:
            self._choose(delivery)
            if self._over or self._waiting >= LAZY_MAX:
                self._schedule(self._last_us)
            return
        before = self._chosen
        if before is not delivery and not self._over:
            if before in WAITING:
                self._look()
            self._choose(delivery)
            if before is Delivery.ON_READ:
                self._source.attach(self._on_source)
                self._on_source()
        if self._arrived or self._ended:
            self._schedule(self._channel.ctx.kernel.now_us)
        elif self._flow:
            self._schedule(self._flow[0][0])

    def _choose(self, delivery: Delivery) -> None:
        """Let the server's watch deliver so, if it can; others deliver everything."""
        choose: Callable[[Delivery], bool] | None = getattr(self._source, "choose", None)
        if choose is not None and not self._over and choose(delivery):
            self._chosen = delivery

    def look(self) -> None:
        """Events are about to travel or to be shown differently: put those shown by now on the
        link.
        """
        if self._chosen in WAITING and not self._held:
            self._look()

    def _look(self) -> None:
        """Put unnotified events on the link, as of the instants at which the server's watch showed
        them, and take what has arrived.

        Events that were shown longer ago than the link's longest delay have arrived, under any
        delay they drew.
        """
        source, channel = self._source, self._channel
        back, now_us = self._back, channel.ctx.kernel.now_us
        self._collect()
        if self._over or now_us == self._looked_us or source.quiet:
            return
        self._looked_us = now_us  # a second look in one instant finds nothing new
        if not back.loss and not self._flow and now_us - back.high_us >= self._last_us:
            full = True
            while full and self._waiting < BACKLOG_MAX:
                batch = source.take(LAZY_MAX, back.high_us)
                self._waiting += len(batch)
                self._arrive(batch)
                full = len(batch) == LAZY_MAX
        next_us: Callable[[], Virtual] | None = getattr(source, "next_us", None)
        while next_us is not None and self._waiting < BACKLOG_MAX and (shown_us := next_us()) <= now_us:
            batch = source.take(LAZY_MAX, now_us - shown_us)
            if batch:
                self._waiting += len(batch)
                self._last_us = at_us = max(self._last_us, shown_us + back.delay_at_us(shown_us))
                self._flow.append((at_us, batch))
        self._collect()
        self._expect()

    def take(self, limit: int = 1000) -> Sequence[WatchEvent]:
        """Take up to `limit` events that have arrived."""
        if not self._held:
            if self._flow:
                self._collect()
            if self._chosen is Delivery.ON_READ:
                self._look()
        arrived, stalled = self._arrived, self._waiting >= BACKLOG_MAX
        if not arrived:
            return []
        taken = arrived
        if len(arrived) > limit:
            taken, self._arrived = arrived[:limit], arrived[limit:]
        else:
            self._arrived = ()
        self._waiting -= len(taken)
        if stalled:
            self._on_source()
            self._ask_to_give()
        return taken

    def take_beats(self) -> Sequence[WatchEvent]:
        """Take arrived heartbeats that caused no notification; none while a notification of other
        events is pending at this instant.
        """
        if self._held or 0 < self._due_us <= self._channel.ctx.kernel.now_us:
            return []
        self._look()
        return self.take()

    @property
    def ended(self) -> bool:
        """True if the stream has ended and all its events have been taken."""
        return self._ended and not self._arrived

    def stop(self) -> None:
        """End the watch on both sides and drop what has not been taken."""
        self._notify = self._give = None
        self._flow.clear()
        self._arrived = ()
        self._shut()
        self._end()
