"""Reflector: lists and watches one resource, restarting as needed, and reports every change in
order.

Turns list replies and watch events into calls of a sink, through errors, restarts and lost history.

Holds: after each relist the sink receives a state no older than before, except that a server
restart or another server may answer revision "0" only for the very first list; at most one list or
watch is open at a time.

Mirrors  client-go v1.25 tools/cache/reflector.go (ListAndWatch, watchHandler,
         relistResourceVersion), tools/pager/pager.go, apimachinery util/wait (BackoffUntil,
         NewExponentialBackoffManager).
Differs  callbacks instead of goroutines; no other deviation is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from random import Random
from typing import Any, Protocol

from sim.api.schema.resource import Resource
from sim.api.store import Item
from sim.api.types import GATEWAY_TIMEOUT, TOO_MANY_REQUESTS, Reply, Watch, WatchEvent
from sim.api.watch.delivery import Delivery
from sim.client.client import Client, list_options
from sim.client.rest.channel import REFUSED
from sim.client.rest.channel_watch import ChannelWatch
from sim.kernel import Context
from sim.transitions import Transitions
from sim.units import NO_REVISION

BACKOFF_US = (
    # reflector.go NewNamedReflector: 800 ms doubling to 30 s, each x (1..2), reset after 2 min
    800_000
)
BACKOFF_MAX_US = 30_000_000
BACKOFF_RESET_US = 120_000_000
WATCH_MIN_S = 300  # minWatchTimeout: each watch asks for 300..600 s
SHORT_WATCH_US = 1_000_000
PAGE_SIZE = 500  # pager.go defaultPageSize
BATCH = 1000  # events taken from a watch at once; fewer means that no more have arrived


class Backoff:
    """Exponential pauses that start again at the shortest after a period without failures."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next_us = BACKOFF_US
        self._last_us = -BACKOFF_RESET_US - 1

    def step(self, now_us: int) -> int:
        """The pause before the next try, and double the pause after it."""
        if now_us - self._last_us > BACKOFF_RESET_US:
            self._next_us = BACKOFF_US
        self._last_us = now_us
        base_us = self._next_us
        self._next_us = min(base_us * 2, BACKOFF_MAX_US)
        return int(base_us * (1 + self._random.random()))


class Sink(Protocol):
    """Receiver of what a reflector lists and watches."""

    def replace(self, items: Sequence[Item]) -> None:
        """Replace the known state by a complete list."""
        ...

    def apply(self, event: WatchEvent) -> None:
        """Apply one event and notify handlers."""
        ...

    def absorb(self, events: Sequence[WatchEvent]) -> None:
        """Take events as `apply` does, while no handler needs a notification."""

    def is_unhandled(self) -> bool:
        """True while there are no handlers."""
        ...

    @property
    def delivery(self) -> Delivery:
        """What it needs to be notified of as it arrives."""
        ...


class ReflectorState(Enum):
    """The states of a reflector.

    OPENING: a watch is requested
    RELISTING, REOPENING: it waits before the next list or the next watch
    """

    NEW = "new"
    LISTING = "listing"
    OPENING = "opening"
    WATCHING = "watching"
    RELISTING = "relisting"
    REOPENING = "reopening"
    STOPPED = "stopped"


NEW, LISTING, OPENING, WATCHING, RELISTING, REOPENING, STOPPED = ReflectorState
UNSERVED = "the resource is no longer served"
TRANSITIONS = Transitions(
    NEW,
    {
        NEW: {LISTING: "the informer is started", STOPPED: UNSERVED},
        LISTING: {
            OPENING: "the last page of the list is received",
            RELISTING: "the list has failed",
            STOPPED: UNSERVED,
        },
        OPENING: {
            WATCHING: "the watch is open",
            REOPENING: "the server is down, or has too many requests",
            RELISTING: "the watch is refused for another reason",
            STOPPED: UNSERVED,
        },
        WATCHING: {
            OPENING: "the watch has ended without an error",
            REOPENING: "it has ended because of too many requests",
            RELISTING: "it has ended with another error, or at once without an event",
            STOPPED: UNSERVED,
        },
        RELISTING: {LISTING: "the back-off is over", STOPPED: UNSERVED},
        REOPENING: {OPENING: "the back-off is over", STOPPED: UNSERVED},
        STOPPED: {},
    },
)


class Listing:
    """A list that is under way.

    revision: the revision that it asks for
    limit: the size of its pages
    items: the items received so far
    """

    __slots__ = ("items", "limit", "revision")

    def __init__(self, revision: str, limit: int) -> None:
        self.revision = revision
        self.limit = limit
        self.items: list[Item] = []


class OpenWatch:
    """A watch that is open.

    seen: the number of events received
    is_taking: True while events are applied; handlers may read the store during that time
    """

    __slots__ = ("is_taking", "seen", "stream")

    def __init__(self, stream: Watch) -> None:
        self.stream = stream
        self.seen = 0
        self.is_taking = False


class Reflector:
    """Lists and watches one resource for one sink.

    selection: namespace and selectors, by the names of the parameters of `list_options`
    """

    def __init__(
        self, ctx: Context, client: Client, resource: str | Resource, sink: Sink, selection: Selection
    ) -> None:
        self._ctx = ctx
        self._client = client
        self._asked = resource
        self._resource = resource if isinstance(resource, str) else resource.group_resource
        self._state: ReflectorState = TRANSITIONS.start
        self._sink = sink
        self.selection = selection
        self._random = ctx.stream(f"reflector/{self._resource}/{selection.text}")
        self._backoff = Backoff(self._random)
        self._connect_backoff = Backoff(self._random)
        self._revision = NO_REVISION  # of the last list or event received (0: none)
        # The server no longer has, or does not know yet, that revision: list the newest state.
        self._revision_bad = False
        self._paged = False
        self._listing = Listing("", PAGE_SIZE)
        self._watch: OpenWatch | None = None
        self._asked_us = 0  # when the last list or watch was requested

    def start(self) -> bool:
        """Begin with the first list; returns False if it has begun, or was stopped, before."""
        if self._state is not NEW:
            return False
        self._list("")
        return True

    def stop(self) -> None:
        """Send no more requests: the resource is no longer served."""
        if self._state is not STOPPED:
            self._move(STOPPED)
        if self._watch is not None:
            self._close()

    def _move(self, state: ReflectorState) -> None:
        self._state = TRANSITIONS.move(self._state, state)

    def _close(self) -> None:
        """End the open watch on both sides."""
        watch, self._watch = self._watch, None
        assert watch is not None
        watch.stream.stop()

    # --- list -------------------------------------------------------------------------------------

    def _list(self, more: str) -> None:
        """Begin a list, or continue a paged one from the token `more`."""
        if self._state is STOPPED:
            return
        revision = "" if self._revision_bad else str(self._revision)
        if more:
            self._ask(self._listing.limit, more, revision)
            return
        self._move(LISTING)
        # a list at a known revision is served from the cache and never paged
        self._begin(revision, PAGE_SIZE if self._paged or revision in ("", "0") else 0)

    def _begin(self, revision: str, limit: int) -> None:
        self._listing = Listing(revision, limit)
        self._ask(limit, "", revision)

    def _ask(self, limit: int, more: str, revision: str) -> None:
        selection = self.selection
        options = list_options(
            selection.labels, selection.fields, None if more or not revision else revision, limit, more
        )
        request = self._client.request("list", self._asked, selection.namespace, options=options)
        self._asked_us = self._ctx.now_us()
        self._client.call(request, lambda reply: self._listed(reply, more))

    def _listed(self, reply: Reply, more: str) -> None:
        if self._state is STOPPED:
            return
        if not reply.ok:
            self._list_failed(reply, more)
            return
        assert reply.items is not None
        listing = self._listing
        listing.items += reply.items
        if reply.more:
            if listing.revision == "0":
                self._paged = True
            self._list(reply.more)
            return
        self._revision_bad = False
        self._revision = reply.revision
        self._listing = Listing("", PAGE_SIZE)  # the items are the sink's from now on
        self._sink.replace(listing.items)
        self._open()

    def _list_failed(self, reply: Reply, more: str) -> None:
        unavailable = is_unavailable(reply)
        if more and is_expired(reply):  # the pager falls back to one complete list
            self._listing.items = []
            self._ask(0, "", self._listing.revision)
        elif unavailable and not self._revision_bad:
            self._revision_bad = True
            # the pager falls back in the same way, if the list at a revision was
            self._begin("", self._listing.limit)
        else:
            self._revision_bad = self._revision_bad or unavailable
            self._failed(reply)

    def _failed(self, reply: Reply) -> None:
        """List again, caused by what kept the server from a good reply, if that is known."""
        self._again(reply.reason, self._ctx.silence(self._ctx.name, self._asked_us))

    def _again(self, why: str, cause: int = 0) -> None:
        """List again after a pause."""
        self._move(RELISTING)
        self._ctx.decided("relist", self._resource, {"why": why}, cause)
        wait_us = self._backoff.step(self._ctx.now_us())
        self._ctx.call_later_us(wait_us, lambda _: self._list(""))

    # --- watch ------------------------------------------------------------------------------------

    def _open(self, _: Any = None) -> None:
        if self._state is STOPPED:
            return
        assert self._watch is None, "a second watch is opened"
        self._move(OPENING)
        selection = self.selection
        timeout_s = int(WATCH_MIN_S * (1 + self._random.random()))
        options: Mapping[str, str] = {
            **list_options(selection.labels, selection.fields, str(self._revision)),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
        }
        request = self._client.request("watch", self._asked, selection.namespace, options=options)
        self._asked_us = self._ctx.now_us()
        self._client.call(request, self._opened)

    def _opened(self, reply: Reply) -> None:
        if self._state is STOPPED:
            if reply.watch is not None:
                reply.watch.stop()
        elif reply.watch is not None:
            self._move(WATCHING)
            self._watch = OpenWatch(reply.watch)
            self.tune()
        elif reply.lost == REFUSED or reply.code == TOO_MANY_REQUESTS:
            self._open_later()
        else:
            self._failed(reply)

    def tune(self) -> None:
        """Choose the delivery that the sink needs now: events as they arrive, or when it is read."""
        watch = None if self._watch is None else self._watch.stream
        # Bookmarks matter only when the next watch is opened.
        if isinstance(watch, ChannelWatch):
            delivery = self._sink.delivery
            if delivery is Delivery.ON_READ:
                watch.attach(self._on_watch, delivery)
            else:
                watch.attach(self._on_watch, delivery, self._take_in, self._sink.is_unhandled)
        elif watch is not None:
            watch.attach(self._on_watch)

    def pull(self) -> None:
        """Take the events that have arrived."""
        watch = self._watch
        if watch is None:
            return
        stream, full = watch.stream, True
        while full and (events := stream.take(BATCH)):
            full = len(events) == BATCH
            self._take_in(events)

    def pull_beats(self) -> None:
        """Take the heartbeats that arrived without a notification."""
        watch = self._watch
        if watch is None or watch.is_taking or not isinstance(watch.stream, ChannelWatch):
            return
        if beats := watch.stream.take_beats():
            self._take_in(beats)

    def _take_in(self, events: Sequence[WatchEvent]) -> None:
        """Pass events to the sink; an error is always the last of them."""
        watch, sink = self._watch, self._sink
        assert watch is not None
        watch.seen += len(events)
        if sink.delivery is Delivery.ON_READ and events[-1].type != "ERROR":
            sink.absorb(events)
            self._revision = events[-1].revision
            return
        kernel = self._ctx.kernel
        cause = kernel.cause
        watch.is_taking = True
        for event in events:
            kind = event.type
            kernel.cause = event.cause or cause  # `follow`, of each event of a run
            if kind == "ERROR":
                self._close()
                self._broken(event)
                return
            self._revision = event.revision
            if kind != "BOOKMARK":
                sink.apply(event)
        kernel.follow(cause)
        watch.is_taking = False

    def _broken(self, event: WatchEvent) -> None:
        """Handle the error that ended the watch; a list after an expired watch too is at least as
        new as what the sink has.
        """
        if isinstance(event.status, dict) and event.status.get("code") == TOO_MANY_REQUESTS:
            self._open_later()
        else:
            # A server with a later history was chosen because of a fault, if one is active.
            moved = 0 if event.cause else self._ctx.silence(self._ctx.name, self._asked_us)
            self._again(str((event.status or {}).get("reason", "")), moved)

    def _open_later(self) -> None:
        """After a pause, open a watch from the last revision received."""
        self._move(REOPENING)
        self._ctx.call_later_us(self._connect_backoff.step(self._ctx.now_us()), self._open)

    def _on_watch(self) -> None:
        self.pull()
        watch = self._watch
        if watch is None or not watch.stream.ended:
            return
        self._watch = None
        if not watch.seen and self._ctx.now_us() - self._asked_us < SHORT_WATCH_US:
            self._again("very short watch")
        else:
            self._open()


class Selection:
    """The part of a resource that is watched: namespace, label and field selectors."""

    def __init__(self, namespace: str = "", labels: str = "", fields: str = "") -> None:
        self.namespace = namespace
        self.labels = labels
        self.fields = fields
        self.text = f"{namespace}/{labels}/{fields}"


def is_unavailable(reply: Reply) -> bool:
    """The server cannot list at this revision: it is compacted, or not known yet."""
    return is_expired(reply) or too_large(reply)


def is_expired(reply: Reply) -> bool:
    """True if the requested revision is too old."""
    return reply.reason in ("Expired", "Gone")


def too_large(reply: Reply) -> bool:
    """The server does not know this revision yet."""
    if reply.code != GATEWAY_TIMEOUT or not isinstance(reply.body, dict):
        return False
    causes = (reply.body.get("details") or {}).get("causes") or []
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes)
