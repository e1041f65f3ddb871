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
        self._stopped = False
        self._sink = sink
        self._selection = selection
        self._random = ctx.stream(f"reflector/{self._resource}/{selection.text}")
        self._backoff = Backoff(self._random)
        self._connect_backoff = Backoff(self._random)
        self._revision = 0  # of the last list or event received (0: none)
        # The server no longer has, or does not know yet, that revision: list the newest state.
        self._revision_bad = False
        self._paged = False
        self._items: list[Item] = []
        self._list_revision = ""
        self._limit = PAGE_SIZE
        self._watch: Watch | None = None
        self._asked_us = 0  # when the last list or watch was requested
        self._watched_since_us = 0
        self._seen = 0
        self._taking = False  # events are being applied; handlers may read the store now

    def start(self) -> None:
        """Begin with the first list."""
        self._list("")

    def stop(self) -> None:
        """Send no more requests: the resource is no longer served."""
        self._stopped = True
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()

    # --- list -------------------------------------------------------------------------------------

    def _list(self, more: str) -> None:
        """Begin a list, or continue a paged one from the token `more`."""
        if self._stopped:
            return
        revision = "" if self._revision_bad else str(self._revision)
        if not more:
            # a list at a known revision is served from the cache and never paged
            self._limit = PAGE_SIZE if self._paged or revision in ("", "0") else 0
            self._begin(revision)
        else:
            self._ask(self._limit, more, revision)

    def _begin(self, revision: str) -> None:
        self._items = []
        self._list_revision = revision
        self._ask(self._limit, "", revision)

    def _ask(self, limit: int, more: str, revision: str) -> None:
        selection = self._selection
        options = list_options(
            selection.labels, selection.fields, None if more or not revision else revision, limit, more
        )
        request = self._client.request("list", self._asked, selection.namespace, options=options)
        self._asked_us = self._ctx.now_us()
        self._client.call(request, lambda reply: self._listed(reply, more))

    def _listed(self, reply: Reply, more: str) -> None:
        if self._stopped:
            return
        if not reply.ok:
            self._list_failed(reply, more)
            return
        assert reply.items is not None
        self._items += reply.items
        if reply.more:
            if self._list_revision == "0":
                self._paged = True
            self._list(reply.more)
            return
        self._revision_bad = False
        self._revision = reply.revision
        items, self._items = self._items, []
        self._sink.replace(items)
        self._open()

    def _list_failed(self, reply: Reply, more: str) -> None:
        unavailable = is_unavailable(reply)
        if more and is_expired(reply):  # the pager falls back to one complete list
            self._items = []
            self._ask(0, "", self._list_revision)
        elif unavailable and not self._revision_bad:
            self._revision_bad = True
            self._begin("")  # the pager falls back in the same way, if the list at a revision was
        else:
            self._revision_bad = self._revision_bad or unavailable
            self._failed(reply)

    def _failed(self, reply: Reply) -> None:
        """List again, caused by what kept the server from a good reply, if that is known."""
        self._again(reply.reason, self._ctx.silence(self._ctx.name, self._asked_us))

    def _again(self, why: str, cause: int = 0) -> None:
        """List again after a pause."""
        self._ctx.decided("relist", self._resource, {"why": why}, cause)
        wait_us = self._backoff.step(self._ctx.now_us())
        self._ctx.call_later_us(wait_us, lambda _: self._list(""))

    # --- watch ------------------------------------------------------------------------------------

    def _open(self, _: Any = None) -> None:
        if self._stopped:
            return
        selection = self._selection
        timeout_s = int(WATCH_MIN_S * (1 + self._random.random()))
        options: Mapping[str, str] = {
            **list_options(selection.labels, selection.fields, str(self._revision)),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
        }
        request = self._client.request("watch", self._asked, selection.namespace, options=options)
        self._asked_us = self._watched_since_us = self._ctx.now_us()
        self._client.call(request, self._opened)

    def _opened(self, reply: Reply) -> None:
        if self._stopped:
            if reply.watch is not None:
                reply.watch.stop()
        elif reply.watch is not None:
            self._watch = reply.watch
            self._seen = 0
            self.tune()
        elif reply.lost == REFUSED or reply.code == TOO_MANY_REQUESTS:
            self._open_later()
        else:
            self._failed(reply)

    def tune(self) -> None:
        """Choose the delivery that the sink needs now: events as they arrive, or when it is read."""
        watch = self._watch
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
        full = True
        while full and (events := watch.take(BATCH)):
            full = len(events) == BATCH
            self._take_in(events)

    def pull_beats(self) -> None:
        """Take the heartbeats that arrived without a notification."""
        watch = self._watch
        if isinstance(watch, ChannelWatch) and not self._taking and (beats := watch.take_beats()):
            self._take_in(beats)

    def _take_in(self, events: Sequence[WatchEvent]) -> None:
        """Pass events to the sink; an error is always the last of them."""
        self._seen += len(events)
        sink = self._sink
        if sink.delivery is Delivery.ON_READ and events[-1].type != "ERROR":
            sink.absorb(events)
            self._revision = events[-1].revision
            return
        kernel = self._ctx.kernel
        cause = kernel.cause
        self._taking = True
        for event in events:
            kind = event.type
            if kind == "ERROR":
                kernel.follow(event.cause or cause)
                self._taking = False
                watch, self._watch = self._watch, None
                assert watch is not None
                watch.stop()
                self._broken(event)
                return
            kernel.follow(event.cause or cause)
            self._revision = event.revision
            if kind != "BOOKMARK":
                sink.apply(event)
        kernel.follow(cause)
        self._taking = False

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
        self._ctx.call_later_us(self._connect_backoff.step(self._ctx.now_us()), self._open)

    def _on_watch(self) -> None:
        self.pull()
        watch = self._watch
        if watch is None or not watch.ended:
            return
        self._watch = None
        if not self._seen and self._ctx.now_us() - self._watched_since_us < SHORT_WATCH_US:
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
