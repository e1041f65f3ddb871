"""The in-process transport: requests, replies and watch events cross the simulated network to one API server.

Turns a `Request` into a call of an `Endpoint` one link delay later, and its answer into a callback one link
delay after that; a server's `Watch` into one on the client's side whose events come in order, in batches.

Holds: `on_reply` is called exactly once unless the client dies; events of a watch arrive in the order taken,
each batch not before the link's delay, and at most BACKLOG_MAX (and a batch) wait for a client that does not read;
a watch has at most one useful kernel event pending, a lazy one none;
the owner of a lazy watch sees what the server's watch showed one link delay before it looks.

Mirrors  client-go v1.25 transport, golang.org/x/net/http2 health checks as apimachinery configures them
         (ReadIdleTimeout 30 s, PingTimeout 15 s: a dead connection is found after 45 s).
Differs  what meets a cut link is sent again when that is healed (TCP's retransmissions double their pauses meanwhile, so
         that one may come later, by as long as the link was cut at most);
         a watch holds still when either direction is cut, for it shares its connection with pings;
         the 45 s count from the cut, or from when the server's process stands still (upstream: from the last frame,
         so up to 30 s sooner); a request sent to a server that stands still is given up after 45 s as well (upstream
         sends it on a new connection, whose TLS handshake is given up after 10 s);
         a server that dies while the storage commits resets the connection when the reply would have come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from sim.kernel import Context, State
from sim.machinery.api import Endpoint, Json, Reply, Request, Watch, WatchEvent
from sim.machinery.runs import Beater, Runs
from sim.machinery.store import Item

DEAD_CONNECTION_US = 45_000_000  # apimachinery net/http.go: ReadIdleTimeout 30 s + PingTimeout 15 s
LAZY_MAX = 1000  # events that may wait unread on a lazy watch before its owner is told after all
# Events on their way to a client or unread there: then no more are taken from the server, whose watch cache ends the
# watch as too slow.  Go's HTTP/2 client takes 4 MiB of a stream ahead (transportDefaultStreamFlow).
BACKLOG_MAX = 10_000

REFUSED = "ConnectionRefused"
RESET = "ConnectionReset"
TIMEOUT = "Timeout"

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


class Prompt(Protocol):
    """An API server that may serve a request at the instant it comes (`ApiServer.serve`)."""

    stopped_us: int


class HotLane(Protocol):
    """What an API server may offer for a time in one object that one client moves on again and again.

    `write` commits the time if everything the ordinary way would check is known to pass (object unchanged
    since this client's last write, nothing queued, no hooks); None asks for the ordinary way.
    `beat` does so too, at the instant that it is, for who knows that nothing has changed its state since.
    `join`: whether it takes over what comes next, until something does (`Heartbeat.resume`).
    """

    def write(self, value: int) -> Item | None: ...
    def beat(self, value: int, at_us: int) -> Item | None: ...
    def join(self, beater: Beater, next_us: int) -> bool: ...


class Channel:
    """A connection from the host `source` to the server named `target` among `servers`."""

    def __init__(self, ctx: Context, source: str, servers: Mapping[str, Endpoint], target: str) -> None:
        self.ctx = ctx
        self.target = target
        self.out = ctx.kernel.network.link(source, target)
        self.back = ctx.kernel.network.link(target, source)
        self.watches: dict[int, ChannelWatch] = {}
        self.servers = servers
        self.on_lost: list[Callable[[Channel], None]] = []  # its clients go to another server
        self.unanswered: list[Call] = []  # of a server that stands still
        self.halted: list[Call] = []  # by a cut link
        self._opened = 0
        self._frozen_since_us = -1
        self._cut_since_us = -1 if self.up else ctx.kernel.now_us
        for link in (self.out, self.back):
            link.listeners.append(self._on_link)
        ctx.on_stop(self._close)

    @property
    def up(self) -> bool:
        return self.out.up and self.back.up

    @property
    def server(self) -> Endpoint | None:
        """The server if its process runs: an endpoint that is not in the mapping or says it is not running
        has nobody listening on its port."""
        server = self.servers.get(self.target)
        return server if server is not None and getattr(server, "running", True) else None

    @property
    def frozen(self) -> bool:
        """Whether the server's process stands still: its host takes what is sent, and nobody answers."""
        ctx: Context | None = getattr(self.servers.get(self.target), "ctx", None)
        return ctx is not None and ctx.state is State.PAUSED

    def send(self, request: Request, on_reply: Callable[[Reply], None]) -> None:
        kernel = self.ctx.kernel
        now_us = kernel.now_us
        kernel.call_at(now_us + self.out.delay_us(), Call(self, request, on_reply, now_us).arrive)

    def lane(self, request: Request, path: tuple[str, ...]) -> ChannelLane:
        return ChannelLane(self, request, path)

    def open(self, source: Watch, from_us: int) -> ChannelWatch:
        self._opened += 1
        watch = self.watches[self._opened] = ChannelWatch(self, self._opened, source, from_us)
        return watch

    def _on_link(self) -> None:
        """A link was (or is about to be: no change yet) cut or healed, or the server stands still or goes on."""
        now_us = self.ctx.kernel.now_us
        if not self.frozen:
            self._frozen_since_us = -1
            self.unanswered.clear()
        elif self._frozen_since_us < 0:
            self._frozen_since_us = now_us
            self.ctx.kernel.call_later(DEAD_CONNECTION_US, self._give_up, now_us)
        if not self.up and self._cut_since_us < 0:
            self._cut_since_us = now_us
            for watch in self.watches.values():
                watch.hold()
            self.ctx.kernel.call_later(DEAD_CONNECTION_US, self._give_up, now_us)
        elif self.up and self._cut_since_us >= 0:
            self._cut_since_us = -1
            for watch in self.watches.values():
                watch.release()
            calls, self.halted = self.halted, []
            for call in calls:
                call.go_on()

    def abandon(self, on_reply: Callable[[Reply], None]) -> None:
        """Its client does not wait for this answer any more: nothing is sent again for it."""
        self.halted = [call for call in self.halted if call.on_reply is not on_reply]

    def _give_up(self, since_us: int) -> None:
        if since_us in (self._cut_since_us, self._frozen_since_us):
            self.lose()

    def lose(self) -> None:
        """The connection is found dead."""
        for watch in list(self.watches.values()):
            watch.break_off()
        for tell in self.on_lost:
            tell(self)
        calls, self.unanswered = self.unanswered, []
        for call in calls:
            call.give_up()

    def _close(self) -> None:
        for link in (self.out, self.back):
            link.listeners.remove(self._on_link)
        self.on_lost.clear()
        self.unanswered.clear()
        self.halted.clear()
        for watch in list(self.watches.values()):
            watch.stop()


class Call(msgspec.Struct, eq=False):
    """One request on its way there and back.

    server: has served it at the first and replies at the second of the times `commits_us`
    closed: answered, or given up
    step: what is to be done next, with what, once the link is healed
    """

    channel: Channel
    request: Request
    on_reply: Callable[[Reply], None]
    sent_us: int
    server: Prompt | None = None
    commits_us: tuple[int, int] = (0, 0)
    closed: bool = False
    step: tuple[Callable[[Any], None], Any] | None = None

    def arrive(self, _: Any) -> None:
        channel = self.channel
        if not channel.out.up:
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
            kernel.call_at(sent_us + channel.back.delay_us(), self.deliver, served[0])
        elif channel.server is None:
            self.respond(Reply(0, lost=REFUSED))
        else:
            if channel.frozen:
                channel.unanswered.append(self)
                channel.ctx.kernel.call_at(self.sent_us + DEAD_CONNECTION_US, self._overdue)
            server.handle(self.request, self.respond)

    def respond(self, reply: Reply) -> None:
        if self.closed:  # it comes from a connection that was given up
            if reply.watch is not None:
                reply.watch.stop()
            return
        self.closed = True
        channel = self.channel
        kernel = channel.ctx.kernel
        at_us = kernel.now_us + channel.back.delay_us()
        if reply.watch is not None:
            reply = msgspec.structs.replace(reply, watch=channel.open(reply.watch, at_us))
        kernel.call_at(at_us, self.deliver, reply)

    def deliver(self, reply: Reply) -> None:
        """What is done with a reply is caused by what led to the request, not by what the request wrote."""
        channel = self.channel
        ctx, server = channel.ctx, self.server
        ctx.kernel.cause = self.request.cause
        if server is not None and self.commits_us[0] <= server.stopped_us < self.commits_us[1]:
            reply = Reply(0, lost=RESET)
        if channel.back.up:
            if ctx.state is State.RUNNING:
                self.on_reply(reply)
            else:
                ctx.run(self.on_reply, reply)
            return
        self._halt(self.deliver, reply)

    def _halt(self, step: Callable[[Any], None], what: Any) -> None:
        """The link is cut: it goes on when that is healed, if the connection is not found dead before."""
        channel = self.channel
        kernel = channel.ctx.kernel
        self.step = step, what
        channel.halted.append(self)
        kernel.call_at(max(kernel.now_us, self.sent_us + DEAD_CONNECTION_US), self._lose)

    def go_on(self) -> None:
        """The link is healed: by that, what is read now is known."""
        assert self.step is not None
        (step, what), self.step = self.step, None
        channel, request = self.channel, self.request
        kernel = channel.ctx.kernel
        if request.verb in ("get", "list", "watch"):
            request.cause = kernel.cause or request.cause
        link = channel.out if what is None else channel.back
        kernel.call_at(kernel.now_us + link.delay_us(), step, what)

    def _lose(self, _: Any) -> None:
        """The connection is found dead."""
        if self.step is None or self not in self.channel.halted:
            return  # it went on, or nobody waits for it
        self.channel.halted.remove(self)
        reply = self.step[1]
        if reply is not None and reply.watch is not None:
            reply.watch.stop()
        self._dead(None)

    def _overdue(self, _: Any) -> None:
        if not self.closed and self.channel.frozen:
            self.channel.lose()

    def give_up(self) -> None:
        if not self.closed:
            self.closed = True
            self._dead(None)

    def _dead(self, _: Any) -> None:
        if not self.channel.up:
            self.channel.lose()
        self.channel.ctx.run(self.on_reply, Reply(0, lost=TIMEOUT))


class ChannelWatch:
    """The client's end of a watch: a `Watch` whose events are those of the server's, one link delay later.

    `attach` asks to be told when events have arrived (without `bookmarks`, `beats`: not of bookmarks, and of states in
    which only times of hearing are new, which then come with the next event, or the end), or to be given them (`give`) where nothing else is to be said; `attach_lazy` only when the stream has ended or LAZY_MAX events wait: its owner takes what
    has arrived when somebody reads.
    """

    __slots__ = (
        "_arrived",
        "_channel",
        "_deaf",
        "_due_us",
        "_eager",
        "_ended",
        "_flow",
        "_give",
        "_held",
        "_hushed",
        "_ident",
        "_last_us",
        "_looked_us",
        "_notify",
        "_over",
        "_relaxed",
        "_source",
        "_waiting",
    )

    def __init__(self, channel: Channel, ident: int, source: Watch, from_us: int) -> None:
        self._channel = channel
        self._ident = ident
        self._source: Any = source
        self._last_us = from_us
        self._flow: list[
            tuple[int, Sequence[WatchEvent]]
        ] = []  # (arrival, batch), few; an empty batch: the end
        self._arrived: Sequence[WatchEvent] = []
        self._waiting = 0
        self._notify: Callable[[], None] | None = None
        self._give: Callable[[Sequence[WatchEvent]], None] | None = None
        self._eager = self._deaf = False
        self._due_us = 0
        self._looked_us = -1
        self._held = not channel.up
        self._ended = False
        self._over = False  # nothing more is taken from the server
        self._relaxed = False  # the server's watch tells of its end only
        self._hushed = False  # and of everything but bookmarks
        source.attach(self._on_source)
        self._on_source()
        self._ask_to_give()

    # --- the server's side ----------------------------------------------------------------------------------

    def _on_source(self) -> None:
        if self._over:
            return
        source, full = self._source, True
        while full and self._waiting < BACKLOG_MAX:
            batch = source.take(LAZY_MAX)
            if not batch:
                break
            full = len(batch) == LAZY_MAX  # fewer than asked for: no more for now
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
        """Send a batch on its way; whether there is room for more."""
        self._waiting = waiting = self._waiting + len(batch)
        channel = self._channel
        kernel = channel.ctx.kernel
        at_us = kernel.now_us + channel.back.delay_us()
        if at_us < self._last_us:
            at_us = self._last_us
        self._last_us = at_us
        flow = self._flow
        flow.append((at_us, batch))
        if self._eager:
            due_us = self._due_us
            if (not due_us or due_us > at_us) and not self._held and self._notify is not None:
                self._due_us = at_us
                kernel.call_at(at_us, self._due, at_us)
        elif not batch or waiting >= LAZY_MAX:
            self._schedule(at_us)
        return waiting < BACKLOG_MAX

    # --- on the way -----------------------------------------------------------------------------------------

    def _schedule(self, at_us: int) -> None:
        if self._notify is not None and not self._held and not 0 < self._due_us <= at_us:
            self._due_us = at_us
            self._channel.ctx.kernel.call_at(at_us, self._due, at_us)

    def _due(self, at_us: int) -> None:
        if at_us != self._due_us:
            return  # an earlier one took its place
        self._due_us = 0
        if self._held:
            return
        flow = self._flow
        ctx, give = self._channel.ctx, self._give
        if (
            give is not None and len(flow) == 1 and not self._arrived and ctx.state is State.RUNNING
        ):  # nearly always
            due_us, batch = flow[0]
            if batch and due_us <= at_us and self._waiting < BACKLOG_MAX:
                flow.clear()
                self._waiting -= len(batch)
                give(batch)
                return
        self._collect()
        if self._arrived or self._ended:
            if ctx.state is not State.RUNNING:
                ctx.run(self._tell)
            elif self._notify is not None:
                self._notify()
        self._expect()

    def _expect(self) -> None:
        """What is still on its way is told of too: each thing to who wants it so, else the end, or that there is much."""
        if self._flow and (self._eager or self._over or self._waiting >= LAZY_MAX):
            self._schedule(self._flow[0][0] if self._eager else self._flow[-1][0])

    def _tell(self, _: Any) -> None:
        if self._notify is not None:
            self._notify()

    def _collect(self) -> None:
        """What the link has carried by now has arrived."""
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
        """The link is cut: what has arrived stays, what was on its way waits to be sent again."""
        self._collect()
        if self._relaxed or self._hushed or self._deaf:
            self._look()
        self._held = True
        self._due_us = 0
        if self._ended or (self._eager and self._arrived):
            self._channel.ctx.run(self._tell)

    def release(self) -> None:
        """The link is healed: what waited is sent again."""
        self._held = False
        again_us = self._channel.ctx.kernel.now_us + self._channel.back.delay_us()
        self._last_us = max(self._last_us, again_us)
        self._flow = [(max(at_us, again_us), batch) for at_us, batch in self._flow]
        self._expect()

    def break_off(self) -> None:
        """The connection is found dead: what was on its way is gone, the reader gets an error and the end."""
        if self._deaf and not self._held:
            self._collect()
            self._look()
        self._flow.clear()
        self._shut()
        self._arrive([WatchEvent("ERROR", None, 0, dict(CONNECTION_LOST))])
        self._end()
        self._channel.ctx.run(self._tell)

    def _shut(self) -> None:
        if not self._over:
            self._over = True
            self._source.stop()

    def _end(self) -> None:
        self._ended = True
        self._channel.watches.pop(self._ident, None)

    # --- the client's side ----------------------------------------------------------------------------------

    def attach(
        self,
        notify: Callable[[], None],
        bookmarks: bool = True,
        give: Callable[[Sequence[WatchEvent]], None] | None = None,
        beats: bool = True,
    ) -> None:
        self._notify, self._give, self._eager = notify, give, True
        hush: Callable[[bool], None] | None = getattr(self._source, "hush", None)
        if hush is not None and not self._over and self._hushed is bookmarks:
            self._hushed = not bookmarks
            hush(self._hushed)
        deafen: Callable[[bool], None] | None = getattr(self._source, "deafen", None)
        if deafen is not None and not self._over and self._deaf is beats:
            self._deaf = not beats
            deafen(self._deaf)
        if self._relaxed and not self._over:
            self._relaxed = False
            self._source.attach(self._on_source)
            self._on_source()
        if self._arrived or self._ended:
            self._schedule(self._channel.ctx.kernel.now_us)
        elif self._flow:
            self._schedule(self._flow[0][0])

    def attach_lazy(self, notify: Callable[[], None]) -> None:
        self._notify, self._give, self._eager = notify, None, False
        relax: Callable[[], bool] | None = getattr(self._source, "relax", None)
        self._relaxed = relax is not None and not self._over and relax()
        if self._over or self._waiting >= LAZY_MAX:
            self._schedule(self._last_us)

    def _look(self) -> None:
        """What the server's watch showed one link delay ago, and told nobody, has arrived."""
        source, now_us = self._source, self._channel.ctx.kernel.now_us
        if self._over or self._flow or now_us < self._last_us or now_us == self._looked_us or source.quiet:
            return
        self._looked_us = now_us  # once an instant: nothing new is there
        delay_us = self._channel.back.delay_us()
        full = True
        while full and self._waiting < BACKLOG_MAX:
            batch = source.take(LAZY_MAX, delay_us)
            self._waiting += len(batch)
            self._arrive(batch)
            full = len(batch) == LAZY_MAX

    def take(self, limit: int = 1000) -> Sequence[WatchEvent]:
        if not self._held:
            if self._flow:
                self._collect()
            if self._relaxed:
                self._look()
        arrived, stalled = self._arrived, self._waiting >= BACKLOG_MAX
        if not arrived:
            return []
        taken = arrived
        if len(arrived) > limit:
            taken, self._arrived = arrived[:limit], arrived[limit:]
        else:
            self._arrived = []
        self._waiting -= len(taken)
        if stalled:
            self._on_source()
            self._ask_to_give()
        return taken

    def take_beats(self) -> Sequence[WatchEvent]:
        """What has arrived of beats alone, without a word; nothing while something else is to be told at this instant."""
        if self._held or 0 < self._due_us <= self._channel.ctx.kernel.now_us:
            return []
        self._look()
        return self.take()

    @property
    def ended(self) -> bool:
        """The stream is over and everything that came has been taken."""
        return self._ended and not self._arrived

    def stop(self) -> None:
        self._notify = self._give = None
        self._flow.clear()
        self._arrived = []
        self._shut()
        self._end()


class ChannelLane:
    """A server's hot lane as its client reaches it: open while both links and the same server are up.

    out, back: the links whose delays a request and its reply take; inner: the server's lane, once one is known.
    """

    __slots__ = ("_channel", "_path", "_request", "_server", "back", "inner", "out")

    def __init__(self, channel: Channel, request: Request, path: tuple[str, ...]) -> None:
        self._channel = channel
        self.out, self.back = channel.out, channel.back
        self._request = request
        self._path = path
        self._server: Endpoint | None = None
        self.inner: HotLane | None = None

    def write(self, value: int) -> Item | None:
        """The write arrives now; None if it has to go the ordinary way."""
        if not (self.out.up and self.back.up):
            return None
        channel, inner = self._channel, self.inner
        if inner is not None and channel.servers.get(channel.target) is self._server:
            item = inner.write(value)
            if item is not None:
                return item
        server = channel.server
        if server is None:
            return None
        # The ordinary write that follows teaches a new lane; an old one may be of a server since restarted.
        offer: Callable[[Request, tuple[str, ...]], HotLane | None] | None = getattr(server, "lane", None)
        self._server = server
        self.inner = None if offer is None else offer(self._request, self._path)
        return None
