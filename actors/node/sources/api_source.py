"""List and watch of the few objects that a node needs, as callbacks: the agent's API source.

Turns a watch on one resource and field selector into `on_set` (a whole set, after each list) and
`on_event` (one change); `on_break` reports that no watch is open.

Holds: after `on_set`, each change is reported once and in order, or a new `on_set` follows.
Changes of heartbeat times alone are not reported, because the agent itself makes them.

Mirrors  client-go tools/cache/reflector.go: the first list takes what the server's cache holds, a
         later one nothing older than what was seen (relistResourceVersion), and one for which the
         cache is too far behind reads the storage; a watch starts at the list's revision; back-off
         0.8 s doubling to 30 s with jitter 1, reset after 2 min without a failure; a refused or
         throttled watch is opened again without a list, after a back-off of its own; one that ended
         without an error at once (v1.25).
Differs  no timeoutSeconds is sent, so a watch lasts as long as the server keeps it; the node's own
         watch requests no bookmarks, because its status writes keep its revision fresh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.node.requests import Api
from sim.api.store import HeartbeatItem, Item
from sim.api.types import TOO_MANY_REQUESTS, Reply, Watch, WatchEvent
from sim.api.watch.delivery import Delivery
from sim.client.cache.reflector import is_unavailable
from sim.client.rest.channel_watch import ChannelWatch
from sim.kernel.actor import Context
from sim.kernel.causes import caused_by
from sim.kernel.draws.dice import Dice
from sim.units import MINUTE, MS, SECOND

BACKOFF_US = 800 * MS
BACKOFF_MAX_US = 30 * SECOND
BACKOFF_RESET_US = 2 * MINUTE
BATCH = 1000  # events taken from a watch at once; fewer than this empty it
SHORT_WATCH_US = 1 * SECOND
NO_BACKOFF = (BACKOFF_US, 0)


class Source:
    """One reflector.

    live: True while a watch is open, or is opened again after one that ended without an error: then
        what the handlers got is current
    _revision: of the newest list or event
    _revision_unavailable: True if no list can be had at that revision, so that the next one reads
        the storage
    _failure_backoff: delay and time of the last failure of a list or watch
    _refusal_backoff: likewise of watches that the server refused
    _got_events: True if the present watch has delivered anything
    """

    __slots__ = (
        "_api", "_ctx", "_dice", "_failure_backoff", "_got_events", "_on_break", "_on_event", "_on_set",
        "_opened_us", "_refusal_backoff", "_resource", "_revision", "_revision_unavailable", "_selector",
        "_watch", "live",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        api: Api,
        resource: str,
        selector: str,
        dice: Dice,
        handlers: tuple[Callable[[list[Item]], None], Callable[[str, Item], None], Callable[[], None]],
    ) -> None:
        self._ctx = ctx
        self._api = api
        self._resource = resource
        self._selector = selector
        self._dice = dice
        self._on_set, self._on_event, self._on_break = handlers
        self._revision = "0"
        self._revision_unavailable = False
        self._watch: Watch | None = None
        self._failure_backoff = NO_BACKOFF
        self._refusal_backoff = NO_BACKOFF
        self._opened_us = 0
        self._got_events = False
        self.live = False
        ctx.on_stop(self._stop)
        ctx.on_hindrance(self._hindered)

    def start(self) -> None:
        """Send the first list."""
        self._list()

    def _stop(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    def _list(self, _: object = None) -> None:
        revision = "" if self._revision_unavailable else self._revision
        self._api.list(self._resource, self._selector, revision, self._listed)

    def _listed(self, reply: Reply) -> None:
        if not reply.ok:
            was_bad, self._revision_unavailable = (
                self._revision_unavailable,
                self._revision_unavailable or is_unavailable(reply),
            )
            if self._revision_unavailable and not was_bad:
                self._list()
            else:
                self._relist_later()
            return
        self._revision_unavailable = False
        self._revision = str(reply.revision)
        self._on_set([*(reply.items or ())])
        self._open()

    def _open(self, _: object = None) -> None:
        self._opened_us = self._ctx.now_us()
        bookmarks = self._resource == "pods"
        self._api.watch(self._resource, self._selector, self._revision, bookmarks, self._opened)

    def _opened(self, reply: Reply) -> None:
        if reply.watch is None:
            self._break()
            if reply.lost == "ConnectionRefused" or reply.code == TOO_MANY_REQUESTS:
                self._refusal_backoff = self._retry_later(self._refusal_backoff, self._open)
            else:
                self._relist_later()
            return
        self._watch = reply.watch
        self._got_events = False
        self.live = True
        self._attach()

    def _attach(self) -> None:
        """Receive what the watch brings, but no heartbeats alone: those are the agent's own, and it
        knows them.

        A paused or slow agent receives each heartbeat by itself, for each one takes a slow process
        time.
        """
        watch = self._watch
        if isinstance(watch, ChannelWatch):  # a bookmark is wanted when the next watch is opened
            delivery = Delivery.CHANGES if self._ctx.runs_freely else Delivery.EVENTS
            watch.attach(self._drain, delivery, self._take_in)
        elif watch is not None:
            watch.attach(self._drain)

    def _hindered(self) -> None:
        watch = self._watch
        if isinstance(watch, ChannelWatch):
            if not self._ctx.runs_freely:
                self._take_in(watch.take_beats())
            self._attach()

    def _drain(self) -> None:
        watch = self._watch
        if watch is None:
            return
        full = True
        while full and (events := watch.take(BATCH)):
            full = len(events) == BATCH
            self._take_in(events)
        if watch.ended and self._watch is watch:
            self._watch = None
            watch.stop()
            if self._got_events or self._ctx.now_us() - self._opened_us >= SHORT_WATCH_US:
                self._open()
            else:
                self._break()
                self._relist_later()

    def _take_in(self, events: Sequence[WatchEvent]) -> None:
        """Report events of the watch; an error event is the last one."""
        kernel, on_event = self._ctx.kernel, self._on_event
        for event in events:
            if event.type == "ERROR":
                self._close()
                self._relist_later()
                return
            self._got_events = True
            self._revision = str(event.revision)
            if event.item is not None and type(event.item) is not HeartbeatItem:
                with caused_by(kernel, event.cause):
                    on_event(event.type, event.item)

    def _close(self) -> None:
        watch, self._watch = self._watch, None
        self._break()
        if watch is not None:
            watch.stop()

    def _break(self) -> None:
        self.live = False
        self._on_break()

    def _relist_later(self) -> None:
        """List again after a back-off."""
        self._failure_backoff = self._retry_later(self._failure_backoff, self._list)

    def _retry_later(self, backoff: tuple[int, int], action: Callable[[object], None]) -> tuple[int, int]:
        """Run `action` after the delay; returns the next delay and the present time.

        backoff: the delay, and when it was last used
        """
        delay_us, last_us = backoff
        now_us = self._ctx.now_us()
        if now_us - last_us > BACKOFF_RESET_US:
            delay_us = BACKOFF_US
        self._ctx.call_later_us(self._dice.jitter_us(delay_us, 100), action)
        return min(2 * delay_us, BACKOFF_MAX_US), now_us
