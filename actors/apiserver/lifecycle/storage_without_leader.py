"""The watch caches of a replica while the storage has no leader.

Turns the loss and the return of the leader into the state of the caches: their own watches are
retried for half a minute, then the caches are closed, and they relist when there is a leader.

Holds: clients' watches on a cache that stays open miss nothing.  A cache that was closed ends its
watches a second later and shows nothing before it is listed.  Watches of a resource without a cache
end with an error at once.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher/cacher.go (startCaching,
         MaxInternalErrorRetryDuration) and pkg/storage/etcd3/watcher.go; client-go
         tools/cache/retry_with_deadline.go.
Differs  All caches of a replica share one state.  A list is answered as soon as there is a leader.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.apiserver.caches.watch_caches import Caches
from actors.apiserver.lifecycle.storage_connection import Reach
from sim.api import status
from sim.api.store import Answer, Get, Unavailable
from sim.kernel import Context
from sim.units import SECOND

RETRY_US = 30 * SECOND  # MaxInternalErrorRetryDuration
CALM_US = 60 * SECOND  # without an error for so long, the next one counts as the first
RESTART_US = SECOND  # wait.Until of startCaching
NO_LEADER = "etcdserver: no leader"


class Patience:
    """Decides how long the same error is retried (RetryWithDeadline)."""

    def __init__(self) -> None:
        self._first_us = self._last_us = -CALM_US

    def bears(self, now_us: int) -> bool:
        """Record an error and return True if the call is to be retried."""
        if now_us - self._last_us >= CALM_US:
            self._first_us = now_us
        self._last_us = now_us
        return now_us - self._first_us <= RETRY_US

    @property
    def ends_us(self) -> int:
        """When retries end if the errors continue."""
        return self._first_us + RETRY_US


class CacheLife:
    """The state of the caches of one incarnation.

    begin: serves a request, by number, that waited for the caches
    synced: False until the first list has arrived
    """

    def __init__(self, ctx: Context, caches: Caches, begin: Callable[[int], None]) -> None:
        self._ctx = ctx
        self._caches = caches
        self._begin = begin
        self._patience = Patience()
        self._led = True
        self._listing = False  # True while the caches wait for a list, which needs a leader
        self._turns = 0
        self.synced = True

    def wait_for_list(self) -> None:
        """Close the caches until `listed` is called."""
        self.synced = False
        self._caches.close()

    def list_first(self, reach: Reach | None, first: Get) -> None:
        """Read from the storage, and again a second after each failure (cacher.go), to fill the
        caches.
        """
        ctx = self._ctx

        def answered(answer: Answer) -> None:
            if not isinstance(answer, Unavailable):
                self.listed()
            else:
                ctx.call_later_us(SECOND, lambda _: self.list_first(reach, first))

        if reach is not None:
            reach.submit(first, ("", ""), lambda: True, lambda answer: ctx.run(answered, answer))

    def listed(self) -> None:
        """Open the caches: the first list has arrived."""
        self.synced = True
        self._listing = True
        self._list()

    def set_led(self, led: bool) -> None:
        """Observe that the storage has lost its leader, or has one again."""
        now_us, caches = self._ctx.now_us(), self._caches
        if led is self._led:
            return
        self._led, self._turns = led, self._turns + 1
        if led:
            self._patience.bears(now_us)  # the last error was just now
            self._list()
            return
        caches.set_led(False, status.internal_error(NO_LEADER))
        if caches.ready:
            if self._patience.bears(now_us):
                self._ctx.call_later_us(
                    self._patience.ends_us - now_us + 1, self._out_of_patience, self._turns
                )
            else:
                self._give_up()

    def _out_of_patience(self, turn: int) -> None:
        if turn == self._turns:
            self._give_up()

    def _give_up(self) -> None:
        self._patience = Patience()
        self._caches.close()
        self._ctx.call_later_us(RESTART_US, self._restart)

    def _restart(self, _: object) -> None:
        self._caches.end_watches()
        self._listing = True
        self._list()

    def _list(self) -> None:
        if self._led:
            self._caches.set_led(True)
        if self._led and self._listing:
            self._listing = False
            for number in self._caches.open_anew():
                self._begin(number)
