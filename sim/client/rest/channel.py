"""The in-process transport: requests, replies and watch events cross the simulated network to one
API server.

Turns a `Request` into a call of an `Endpoint` one link delay later, and its answer into a callback
one link delay after that; a server's `Watch` into one on the client's side (`channel_watch`).

Holds: `on_reply` is called exactly once unless the client's process crashes. While only replies are
lost, requests arrive until the connection is found dead or the server's process has crashed,
because a new connection needs messages both ways. What was sent to a server that crashed during a
cut is reset when the link is healed. A duplicated request is carried out twice; the second copy
arrives after the first and is caused by the fault, and the first of the two replies counts.

Mirrors  client-go v1.25 transport, golang.org/x/net/http2 health checks as apimachinery configures
         them (ReadIdleTimeout 30 s, PingTimeout 15 s: a dead connection is found after 45 s).
Differs  a message that meets a cut link is sent again when the link is healed (TCP doubles the
         pauses between retransmissions, so a message may arrive later, at most by the length of the
         cut); the 45 s count from the cut, or from when the server's process was paused (upstream:
         from the last frame, up to 30 s sooner), and for what is sent after them from its sending;
         a request to a paused server times out after 45 s too (upstream sends it on a new
         connection with a TLS handshake timeout of 10 s); a server that crashes while the storage
         commits resets the connection when the reply would have arrived; TCP hides duplicated
         segments, so requests are duplicated here, as by a proxy that sends them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sim.api.types import Endpoint, Reply, Request, Watch
from sim.client.rest.channel_watch import ChannelWatch
from sim.kernel import Context, State
from sim.units import Virtual

DEAD_CONNECTION_US = 45_000_000  # apimachinery net/http.go: ReadIdleTimeout 30 s + PingTimeout 15 s
COPY = 128  # purpose bit of the second copy of a duplicated request, which has its own draw
REFUSED = "ConnectionRefused"
RESET = "ConnectionReset"
TIMEOUT = "Timeout"


class Channel:
    """A connection from the host `source` to the server named `target` among `servers`."""

    def __init__(self, ctx: Context, source: str, servers: Mapping[str, Endpoint], target: str) -> None:
        self.ctx = ctx
        self.target = target
        self.out = ctx.kernel.network.link(source, target)
        self.back = ctx.kernel.network.link(target, source)
        self.watches: dict[int, ChannelWatch] = {}
        self.servers = servers
        # Called when clients are to use another server.
        self.on_lost: list[Callable[[Channel], None]] = []
        # Thousands of channels have no such calls: they share the empty tuple.
        self.unanswered: tuple[Call, ...] = ()  # sent to a paused server
        self.halted: tuple[Call, ...] = ()  # stopped by a cut link
        self.served: tuple[Call, ...] = ()  # being handled by the server
        self._opened = 0
        # The server has crashed while the link was cut, which the client does not know yet.
        self._gone = False
        self._settle(connected=self.up)
        self._frozen_since_us = Virtual(-1)
        self.cut_since_us = Virtual(-1) if self.up else ctx.kernel.now_us
        self._still = self.still
        for link in (self.out, self.back):
            link.listeners.append(self._on_link)
        ctx.on_stop(self._close)

    @property
    def up(self) -> bool:
        """True if the link carries messages in both directions."""
        return self.out.up and self.back.up

    @property
    def server(self) -> Endpoint | None:
        """The server if its process runs; None if no process listens on the port (the endpoint is
        not in the mapping, or is not running).
        """
        server = self.servers.get(self.target)
        return server if server is not None and getattr(server, "running", True) else None

    @property
    def frozen(self) -> bool:
        """True while the server's process is paused: its host accepts messages, but they get no
        reply.
        """
        ctx: Context | None = getattr(self.servers.get(self.target), "ctx", None)
        return ctx is not None and ctx.state is State.PAUSED

    @property
    def still(self) -> bool:
        """True while watch events do not arrive: the link is cut, or the server's process is
        paused.
        """
        return not self.up or self.frozen

    def send(self, request: Request, on_reply: Callable[[Reply], None]) -> None:
        """Send a request now; `on_reply` is called when its reply arrives."""
        kernel = self.ctx.kernel
        now_us = kernel.now_us
        out, draw = self.out, request.draw
        if not draw:
            draw = request.draw = out.draw(now_us, request.purpose)
        if out.duplication and out.duplicates(draw):
            self._send_twice(request, on_reply)
            return
        kernel.call_at(now_us + out.delay_us(draw), Call(self, request, on_reply, now_us).arrive)

    def _send_twice(self, request: Request, on_reply: Callable[[Reply], None]) -> None:
        kernel, out, copies = self.ctx.kernel, self.out, Copies()
        at_us = now_us = kernel.now_us
        draw = out.draw(now_us, request.purpose | COPY)
        second = msgspec.structs.replace(request, cause=out.duplicated_by or request.cause, draw=draw)
        for each in (request, second):
            at_us += out.delay_us(each.draw)
            kernel.call_at(at_us, Call(self, each, on_reply, now_us, copies=copies).arrive)

    def open(self, source: Watch, from_us: Virtual, resource: str) -> ChannelWatch:
        """The client's end of a watch, from which events arrive from `from_us` on."""
        self._opened += 1
        back = self.ctx.kernel.network.watch_link(self.back, resource)
        watch = self.watches[self._opened] = ChannelWatch(self, back, self._opened, source, from_us)
        return watch

    def _on_link(self) -> None:
        """The link is cut or healed (or about to be: nothing has changed yet), or the server is
        paused, resumes or crashes.
        """
        now_us = self.ctx.kernel.now_us
        connected = self.up or (self._connected and self.server is not None)
        if self._connected and not connected:
            # Otherwise it crashed before the cut, which the client knows.
            self._gone = self.cut_since_us >= 0
        self._settle(connected)
        if not self.frozen:
            self._frozen_since_us = Virtual(-1)
            self.unanswered = ()
        elif self._frozen_since_us < 0:
            self._frozen_since_us = now_us
            self.ctx.kernel.call_later(DEAD_CONNECTION_US, self._give_up, now_us)
        for watch in list(self.watches.values()):
            watch.look()
        still = self.still
        if still is not self._still:
            self._still = still
            for watch in list(self.watches.values()):  # a watch that ends here removes itself
                (watch.hold if still else watch.release)()
        if not self.up and self.cut_since_us < 0:
            self.cut_since_us = now_us
            self.ctx.kernel.call_later(DEAD_CONNECTION_US, self._give_up, now_us)
        elif self.up and self.cut_since_us >= 0:
            self.cut_since_us = Virtual(-1)
            reset, self._gone = self._gone, False
            calls, self.halted = self.halted, ()
            for call in calls:
                call.go_on(reset)

    def _settle(self, connected: bool) -> None:
        """Set whether there is a connection (it outlives the start of a cut for a while), and
        whether messages to the server arrive.
        """
        self._connected = connected
        self.passes = connected and self.out.up

    def abandon(self, on_reply: Callable[[Reply], None]) -> None:
        """The client no longer waits for this reply: the request is not sent again, and the server
        is notified.
        """
        self.halted = tuple([call for call in self.halted if call.on_reply is not on_reply])
        for call in self.served:
            if call.on_reply is on_reply:
                kernel = self.ctx.kernel
                kernel.call_at(kernel.now_us + self.out.delay_at_us(kernel.now_us), call.cancel)

    def _give_up(self, since_us: Virtual) -> None:
        if since_us in (self.cut_since_us, self._frozen_since_us):
            self.lose()

    def lose(self) -> None:
        """The connection is found dead; a new one needs messages both ways."""
        self._settle(self.up)
        self._gone = False
        for watch in list(self.watches.values()):
            watch.break_off()
        for tell in self.on_lost:
            tell(self)
        calls, self.served, self.unanswered = (*self.unanswered, *self.served), (), ()
        for call in calls:
            call.give_up()

    def part(self) -> None:
        """The server accepts no more requests here (GOAWAY); those under way continue."""
        for tell in self.on_lost:
            tell(self)

    def _close(self) -> None:
        for link in (self.out, self.back):
            link.listeners.remove(self._on_link)
        self.on_lost.clear()
        self.unanswered = self.halted = self.served = ()
        for watch in list(self.watches.values()):
            watch.stop()


class Copies(msgspec.Struct, eq=False):
    """State that the two copies of one request share."""

    answered: bool = False


class Call(msgspec.Struct, eq=False):
    """One request on its way to the server and back.

    server, commits_us: the server that served it at the first of the two times and replies at the
        second one
    closed: True once it is answered or has timed out
    step: the function to call, and its argument, when the link is healed
    copies: shared state of a duplicated request
    """

    channel: Channel
    request: Request
    on_reply: Callable[[Reply], None]
    sent_us: Virtual
    server: Any = None
    commits_us: tuple[int, int] = (0, 0)
    closed: bool = False
    step: tuple[Callable[[Any], None], Any] | None = None
    copies: Copies | None = None

    def arrive(self, _: Any) -> None:
        """The request arrives at the server."""
        channel = self.channel
        if not channel.passes:
            self._halt(self.arrive, None)
            return
        server: Any = channel.servers.get(channel.target)
        serve: Callable[[Request], tuple[Reply, int] | None] | None = getattr(server, "serve", None)
        served = None if serve is None else serve(self.request)
        if served is not None:  # the reply is known; it is sent after the storage's latency
            kernel = channel.ctx.kernel
            now_us = kernel.now_us
            sent_us = now_us + served[1]
            self.server, self.commits_us = server, (now_us, sent_us)
            kernel.call_at(sent_us + channel.back.delay_us(self.request.draw >> 16), self.deliver, served[0])
        elif channel.server is None:
            self.respond(Reply(0, lost=REFUSED))
        else:
            if channel.frozen:
                channel.unanswered = (*channel.unanswered, self)
                channel.ctx.kernel.call_at(self.sent_us + DEAD_CONNECTION_US, self._overdue)
            channel.served = (*channel.served, self)
            server.handle(self.request, self.respond)

    def cancel(self, _: Any) -> None:
        """The server learns that the client no longer waits (RST_STREAM)."""
        channel = self.channel
        server: Any = channel.servers.get(channel.target)
        forget: Callable[[Callable[[Reply], None]], None] | None = getattr(server, "forget", None)
        if forget is not None and channel.passes and self in channel.served:
            self._leave()
            forget(self.respond)

    def _leave(self) -> None:
        """Remove the call from those that the server handles."""
        channel = self.channel
        channel.served = tuple([call for call in channel.served if call is not self])

    def respond(self, reply: Reply) -> None:
        """The server sends its reply."""
        self._leave()
        if self.closed:  # the connection of this reply was given up
            if reply.watch is not None:
                reply.watch.stop()
            return
        self.closed = True
        channel = self.channel
        kernel = channel.ctx.kernel
        at_us = kernel.now_us + channel.back.delay_us(self.request.draw >> 16)
        if reply.watch is not None:
            reply = msgspec.structs.replace(
                reply, watch=channel.open(reply.watch, at_us, self.request.resource)
            )
        kernel.call_at(at_us, self.deliver, reply)

    def deliver(self, reply: Reply) -> None:
        """Deliver a reply; the cause of what follows is the cause of the request, not the write
        that the request made.
        """
        channel = self.channel
        ctx, server = channel.ctx, self.server
        ctx.kernel.cause = self.request.cause
        if server is not None and self.commits_us[0] <= server.stopped_us < self.commits_us[1]:
            reply = Reply(0, lost=RESET)
        if channel.back.up:
            if self._is_second(reply):
                return
            if reply.headers and reply.headers.get("Connection") == "close":
                channel.part()
            if ctx.state is State.RUNNING:
                self.on_reply(reply)
            else:
                ctx.run(self.on_reply, reply)
            return
        self._halt(self.deliver, reply)

    def _is_second(self, reply: Reply) -> bool:
        """True if the other copy has been answered: this reply is then not delivered."""
        copies = self.copies
        if copies is None:
            return False
        second, copies.answered = copies.answered, True
        if second and reply.watch is not None:
            reply.watch.stop()
        return second

    def _halt(self, step: Callable[[Any], None], what: Any) -> None:
        """The link is cut: continue when it is healed, unless the connection is found dead before."""
        channel = self.channel
        kernel = channel.ctx.kernel
        self.step = step, what
        channel.halted = (*channel.halted, self)
        found_us = channel.cut_since_us + DEAD_CONNECTION_US
        # A later request would need a new connection, which cannot be made.
        dead_us = found_us if self.sent_us < found_us else self.sent_us + DEAD_CONNECTION_US
        kernel.call_at(max(kernel.now_us, dead_us), self._lose)

    def go_on(self, reset: bool) -> None:
        """The link is healed, which is the cause of what is read now.

        reset: True if the server has crashed during the cut, so that its successor does not know
            the connection
        """
        assert self.step is not None
        (step, what), self.step = self.step, None
        channel, request = self.channel, self.request
        kernel = channel.ctx.kernel
        if request.verb in ("get", "list", "watch"):
            request.cause = kernel.cause or request.cause
        if reset and what is None:
            there_us = channel.out.delay_us(request.draw)
            back_us = channel.back.delay_us(request.draw >> 16)
            kernel.call_at(kernel.now_us + there_us + back_us, self.deliver, Reply(0, lost=RESET))
            return
        if what is None:
            delay_us = channel.out.delay_us(request.draw)
        else:
            delay_us = channel.back.delay_us(request.draw >> 16)
        kernel.call_at(kernel.now_us + delay_us, step, what)

    def _lose(self, _: Any) -> None:
        """The connection is found dead."""
        if self.step is None or self not in self.channel.halted:
            return  # the call has continued, or was abandoned
        channel = self.channel
        channel.halted = tuple([call for call in channel.halted if call is not self])
        reply = self.step[1]
        if reply is not None and reply.watch is not None:
            reply.watch.stop()
        self._dead(None)

    def _overdue(self, _: Any) -> None:
        if not self.closed and self.channel.frozen:
            self.channel.lose()

    def give_up(self) -> None:
        """End the call with a timeout."""
        if not self.closed:
            self.closed = True
            self._dead(None)

    def _dead(self, _: Any) -> None:
        if not self.channel.up:
            self.channel.lose()
        reply = Reply(0, lost=TIMEOUT)
        if not self._is_second(reply):
            self.channel.ctx.run(self.on_reply, reply)
