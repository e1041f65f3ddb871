"""The link of a storage process to a real etcd: what it sends, and the gate by which answers enter.

Turns requests of the kernel into requests outside of virtual time, and answers, messages of the
watch and its interruptions into operations of the gate.

Holds: after an interruption the watch continues after the last revision that was posted; if that
has been compacted the state of all keys is posted in its place; an etcd that is not the one of the
start ends the process (`lost`), as nothing that it says continues what is known.

Mirrors  etcd v3.4 clientv3/watch.go (resume after the last revision); kubernetes v1.25 apiserver
         pkg/storage/storagebackend/factory/etcd3.go (dial timeout 20 s, keepalive 30 s and 10 s).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import msgspec
import trio

from sim.kernel import Kernel
from sim.kernel.gate import unheard
from sim.wire.etcd.client import EtcdClient, EtcdError
from sim.wire.etcd.messages import (
    EVERY_KEY,
    Event,
    Found,
    News,
    after_prefix,
    decode,
    encode,
    problem_of,
    range_of,
)

LOG = logging.getLogger(__name__)
OPERATION = "etcd"
ANSWER, NEWS, PROGRESS, STATE, LINK = "answer", "news", "progress", "state", "link"
OK = 200
DIAL_S, AGAIN_S, SILENCE_S, CHECK_S = 20.0, 0.5, 30.0, 10.0
PAGE, PAGE_MIN = 500, 1
TOO_LARGE = 8  # gRPC: ResourceExhausted
Rows = list[tuple[bytes, bytes, int, int]]


class EtcdLink:
    """The link to one etcd.

    root: prefix of the keys of objects
    lost: called with the reason when the etcd is not the one of the start
    """

    def __init__(
        self,
        kernel: Kernel,
        client: EtcdClient,
        nursery: trio.Nursery,
        root: str,
        lost: Callable[[str], None],
    ) -> None:
        self._kernel, self._client, self._nursery = kernel, client, nursery
        self._root, self._lost = root.encode(), lost
        self._rev = self._cluster = 0
        self._linked = True

    def send(self, number: int, path: str, body: bytes) -> None:
        """Send a request."""
        self._nursery.start_soon(self._carry, number, path, body)

    async def _carry(self, number: int, path: str, body: bytes) -> None:
        try:
            code, answer = await self._client.call(path, body)
        except EtcdError as error:
            code, answer = 0, str(error).encode()
        self._post(ANSWER, number, code, answer)

    def _post(self, what: str, *data: Any) -> None:
        self._kernel.gate.post(OPERATION, [what, *data], unheard)

    # --- the state --------------------------------------------------------------------------------

    async def first(self) -> None:
        """Post the state at the start, for which it waits 20 s.  Raises EtcdError."""
        error = EtcdError("no server answers")
        with trio.move_on_after(DIAL_S):
            while True:
                try:
                    self._post(STATE, *await self.read())
                    return
                except EtcdError as problem:
                    error = problem
                await trio.sleep(AGAIN_S)
        raise error

    async def read(self) -> tuple[Rows, int]:
        """All keys below the root, with the revision at which they are read.  Raises EtcdError."""
        rows: Rows = []
        key, end, rev, limit = self._root, after_prefix(self._root), 0, PAGE
        while True:
            body = range_of(key, end, limit=limit, revision=rev)
            code, answer = await self._client.call("kv/range", encode(body))
            if code != OK:
                problem = problem_of(answer)
                if problem.code == TOO_LARGE and limit > PAGE_MIN:
                    limit //= 2  # the gateway has a limit of its own for a message
                    continue
                raise EtcdError(problem.error or f"code {code}")
            result = decode(Found, answer)
            rev = rev or result.header.revision
            self._cluster = self._cluster or result.header.cluster_id
            rows += [(kv.key, kv.value, kv.mod_revision, kv.create_revision) for kv in result.kvs]
            if not result.more:
                self._rev = rev
                return rows, rev
            key = result.kvs[-1].key + b"\0"

    # --- the watch --------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Post what the watch says, for ever."""
        while True:
            try:
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._check, scope)
                        await self._listen()
            except* EtcdError as group:
                self._interrupted(group.exceptions[0])
            await trio.sleep(AGAIN_S)

    def _interrupted(self, error: BaseException) -> None:
        if self._linked:
            LOG.warning("the watch of etcd is interrupted: %s", error)
            self._linked = False
            self._post(LINK, False)

    async def _listen(self) -> None:
        events: list[Event] = []
        async with aclosing(self._client.watch(self._rev + 1)) as messages:
            async for news in messages:
                self._check_identity(news)
                if news.canceled:
                    if not news.compact_revision:
                        raise EtcdError(news.cancel_reason or "the watch is refused")
                    self._post(STATE, *await self.read())
                    return
                if not self._linked:
                    self._linked = True
                    self._post(LINK, True)
                events += news.events
                if news.fragment:
                    continue
                if events:
                    self._rev = events[-1].kv.mod_revision
                    self._post(NEWS, [self._plain(event) for event in events])
                    events = []
                elif not news.created and news.header.revision > self._rev:
                    self._rev = news.header.revision
                    self._post(PROGRESS, self._rev)

    def _plain(self, event: Event) -> Any:
        """An event for the gate: without the value, if another program has the key."""
        kv = event.kv
        if not kv.key.startswith(self._root):
            kv = msgspec.structs.replace(kv, value=b"")
        whole = msgspec.structs.replace(event, kv=kv)
        return msgspec.to_builtins(whole, builtin_types=(bytes,))

    def _check_identity(self, news: News) -> None:
        header = news.header
        if self._cluster and header.cluster_id != self._cluster:
            self._lost("the etcd is another cluster than at the start")
        elif news.created and header.revision < self._rev:
            self._lost(f"the etcd has gone back from revision {self._rev} to {header.revision}")

    async def _check(self, scope: trio.CancelScope) -> None:
        """End a watch that is silent although etcd has gone on, or does not answer."""
        while True:
            await trio.sleep(SILENCE_S)
            before = self._rev
            code, answer = 0, b""
            with trio.move_on_after(CHECK_S):
                try:
                    code, answer = await self._client.call("kv/range", encode(range_of(EVERY_KEY, limit=1)))
                except EtcdError:
                    pass
            await trio.sleep(1)
            if code != OK or (before == self._rev and decode(Found, answer).header.revision > before):
                self._interrupted(EtcdError("it does not answer"))
                scope.cancel()
