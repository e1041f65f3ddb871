"""Group commit: what clients learn of waits until it is on the disk, and the simulation does not.

Turns the commits of a durable store into batches, each of which one write and one sync bring to
the disk on a thread. Replies and events of watches that show a commit are held until its batch is
there, and are then given to the clients in their order.

Holds: nothing is shown that a kill could take back, revisions included; a read is held only if what
it shows is not on the disk yet. After a failure of the disk nothing that is held is ever shown, and
no batch is written.

Mirrors  etcd server/etcdserver/server.go (an entry is applied after it was saved) in the promise to
         clients.
Differs  requests of one client see each other's commits before they are on the disk, since a store
         in memory applies them first; only what leaves the process waits.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from sim.api.types import Reply
from sim.app.daemons.durable import LOG, DurableStore
from sim.units import Revision
from sim.wire.http.gateway import Hold

LOGGER = logging.getLogger(__name__)
SLICE = 64  # records that are made in one go, about 5 ms


class GroupCommit:
    """The batches of one durable store.

    failure: why the disk takes no more; None while it does
    """

    def __init__(self, durable: DurableStore) -> None:
        self.failure: OSError | None = None
        self._durable = durable
        self._held: deque[tuple[Revision, Callable[[], None]]] = deque()
        self._gives = False  # what was held is being given to clients
        self._news = trio.Event()
        self._steps: Iterator[Callable[[], None]] = iter(())  # by which the file is replaced
        self._limiter = trio.CapacityLimiter(1)
        durable.on_commit = self._wake

    def _wake(self) -> None:
        self._news.set()

    def before_news(self, reply: Reply | None) -> Hold | None:
        """What holds news back until they are on the disk; None if they are.

        reply: to a read; None for any other news, which may show all that happened
        """
        need = self._shown(reply)
        return None if self._may_show(need) else partial(self._hold, need)

    def _shown(self, reply: Reply | None) -> Revision:
        """The newest revision that a reply shows."""
        store = self._durable.store
        assert store is not None
        if reply is None or not reply.ok:
            return store.revision
        return Revision(reply.item.rev if reply.item is not None else reply.revision) or store.revision

    def _may_show(self, need: Revision) -> bool:
        # What is being given out has its turn before later news.
        return need <= self._durable.kept and not self._gives

    def _hold(self, need: Revision, tell: Callable[[], None]) -> None:
        if self._may_show(need):
            tell()
        else:
            self._held.append((need, tell))

    def _give(self) -> None:
        """Give clients what is on the disk, in the order in which it was held."""
        self._gives, stored, later = True, self._durable.kept, deque[tuple[Revision, Callable[[], None]]]()
        while self._held:
            need, tell = self._held.popleft()
            if need <= stored:
                tell()
            else:
                later.append((need, tell))
        self._held, self._gives = later, False

    async def run(self, scope: trio.CancelScope) -> None:
        """Write batches; cancel a scope when the disk takes no more."""
        try:
            while True:
                self._news = trio.Event()
                with trio.CancelScope(shield=True):  # what was taken is written
                    wrote = await self._write()
                    shortened = await self._shorten()
                if not wrote and not shortened:
                    await self._news.wait()
                await trio.lowlevel.checkpoint()
        except OSError as error:
            self.failure = error
            scope.cancel()

    async def _write(self) -> bool:
        """Write one batch, if anything waits."""
        durable = self._durable
        changes, revision = durable.batch()
        if not changes:
            return False
        parts = []
        for first in range(0, len(changes), SLICE):
            parts.append(durable.encoded(changes[first : first + SLICE]))
            await trio.lowlevel.checkpoint()
        await self._on_thread(partial(durable.write, b"".join(parts)))
        durable.kept = revision
        self._give()
        return True

    async def _shorten(self) -> bool:
        """Take one step of the replacement of the file, if it is too long."""
        step = next(self._steps, None)
        if step is None:
            if self._durable.is_long:
                self._steps = self._durable.replacement()
                step = next(self._steps, None)
            if step is None:
                return False
        await self._on_thread(step)
        return True

    async def _on_thread(self, step: Callable[[], None]) -> None:
        await trio.to_thread.run_sync(step, limiter=self._limiter)

    def tell_failure(self) -> bool:
        """Log why the disk takes no more; returns False if it does."""
        if self.failure is None:
            return False
        path = self._durable.folder / LOG
        why = f"{path} cannot be written: {self.failure.strerror}"
        LOGGER.critical("%s; what was not acknowledged may be lost", why)
        return True


@asynccontextmanager
async def batches(commits: GroupCommit | None) -> AsyncIterator[None]:
    """Write batches until the body ends, which is cancelled when the disk takes no more."""
    async with trio.open_nursery() as nursery:
        if commits is not None:
            nursery.start_soon(commits.run, nursery.cancel_scope)
        yield
        nursery.cancel_scope.cancel()
