"""The client's end of a watch on a server in another process.

Turns batches of events, which enter by the gate, into a `Watch` that an actor reads.

Holds: an actor that does not read its watch delays no other actor and loses the watch at
BACKLOG_MAX events; an actor that is paused or slow is notified when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sim.api.types import WatchEvent
from sim.kernel import Context

BACKLOG_MAX = 10_000  # events received on one watch and not taken


class ReceivedWatch:
    """The client's end of a watch.  close: ends it on the other side; it may be called twice"""

    __slots__ = ("_arrived", "_close", "_ended", "_notify", "_telling", "ctx")

    def __init__(self, ctx: Context, close: Callable[[], None]) -> None:
        self.ctx = ctx
        self._close = close
        self._arrived: list[WatchEvent] = []
        self._notify: Callable[[], None] | None = None
        self._telling = False
        self._ended = False

    def arrive(self, events: list[WatchEvent], ended: bool) -> None:
        """Adds events from the server."""
        self._arrived += events
        if ended:
            self._ended = True
        elif len(self._arrived) > BACKLOG_MAX:
            self._close()
            self._ended = True
        self._plan()

    def _plan(self) -> None:
        if self._notify is not None and not self._telling:
            self._telling = True
            self.ctx.run(self._tell)

    def _tell(self, _: Any) -> None:
        self._telling = False
        if self._notify is not None:
            self._notify()

    def attach(self, notify: Callable[[], None]) -> None:
        """Starts notifications."""
        self._notify = notify
        if self._arrived or self._ended:
            self.ctx.kernel.call_later(0, lambda _: self._plan())

    def take(self, limit: int = 1000) -> Sequence[WatchEvent]:
        """The received events, at most `limit`."""
        taken, self._arrived = self._arrived[:limit], self._arrived[limit:]
        return taken

    @property
    def ended(self) -> bool:
        """True once the stream has ended and all events were taken."""
        return self._ended and not self._arrived

    def stop(self) -> None:
        """Ends the watch because its owner needs no more events."""
        self._notify = None
        self._arrived = []
        self._ended = True
        self._close()
