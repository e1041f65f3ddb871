"""A real etcd behind the interface of a store, for the contract of stores.

The storage process over etcd, with a link that asks etcd at once and reads its watch until it shows
what was written.  Revisions are counted from the beginning of a test, as one etcd serves them all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from actors.storage.etcd.keys import Keys
from actors.storage.etcd.process import EtcdStorage
from actors.storage.etcd.values import JSON, Values
from sim.api.scheme.scheme import Scheme
from sim.api.store import Answer, Op
from sim.ident import NAMES
from sim.kernel import Kernel
from sim.units import Revision, Virtual
from sim.wire.etcd.link import ANSWER, NEWS
from sim.wire.etcd.messages import EVERY_KEY, Line, decode, encode
from tests.cluster.daemons.running import etcd

OF_REVISION = ("revision", "mod_revision", "create_revision", "start_revision", "compact_revision")


class _AtOnce(Kernel):
    """A kernel that does what is due at once, and nothing later."""

    def call_later(self, delay_us: int, fn: Callable[[Any], None], arg: Any = None) -> None:
        if not delay_us:
            fn(arg)


def shifted(value: Any, by: int) -> Any:
    """A message with its revisions moved; 0 stays."""
    if isinstance(value, list):
        return [shifted(each, by) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: (int(each) + by if int(each) else 0) if name in OF_REVISION else shifted(each, by)
        for name, each in value.items()
    }


class EtcdStore:
    """The store.  Reads of its history are those of the mirror."""

    def __init__(self, url: str, prefix: str) -> None:
        self._stack = ExitStack()
        self._http = self._stack.enter_context(httpx.Client(base_url=url, timeout=30))
        self._first = 0
        self._first = int(self._ask("kv/range", encode({"key": EVERY_KEY}))[0]["header"]["revision"])
        kernel = _AtOnce(1)
        kernel.now_us = Virtual(7)
        scheme = Scheme(NAMES["kubernetes"])
        self._storage = EtcdStorage(kernel, Keys(scheme, prefix), Values(scheme, JSON))
        self._storage.link = self  # type: ignore[assignment]
        self._storage.main(_NoContext())  # type: ignore[arg-type]
        self._lines = self._watch()

    def close(self) -> None:
        """End the watch."""
        self._stack.close()

    def _ask(self, path: str, body: bytes) -> tuple[Any, int]:
        sent = shifted(msgspec.json.decode(body), self._first)
        answer = self._http.post(f"/v3/{path}", json=sent)
        return shifted(answer.json(), -self._first), answer.status_code

    def _watch(self) -> Iterator[bytes]:
        create = {"key": EVERY_KEY, "range_end": EVERY_KEY, "start_revision": self._first + 1}
        stream = self._http.stream("POST", "/v3/watch", content=encode({"create_request": create}))
        return self._stack.enter_context(stream).iter_lines()

    def send(self, number: int, path: str, body: bytes) -> None:
        """Answer a request of the storage, after the watch has shown what it has written."""
        answer, code = self._ask(path, body)
        if answer.get("succeeded"):
            self._follow(answer["header"]["revision"])
        self._storage.enter([ANSWER, number, code, msgspec.json.encode(answer)])

    def _follow(self, rev: int) -> None:
        while self._storage.store.revision < rev:
            line = shifted(msgspec.json.decode(next(self._lines)), -self._first)
            news = decode(Line, msgspec.json.encode(line)).result
            assert news is not None
            events = [msgspec.to_builtins(event, builtin_types=(bytes,)) for event in news.events]
            self._storage.enter([NEWS, events])

    def apply(self, op: Op) -> Answer:
        """Carry out an operation."""
        answers: list[Answer] = []
        self._storage.submit(op, ("", ""), lambda: True, answers.append)
        (answer,) = answers
        return answer

    def compact(self, rev: Revision) -> None:
        """Compact etcd and the mirror."""
        self._ask("kv/compaction", encode({"revision": rev}))
        self._storage.store.compact(rev)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage.store, name)


class _NoContext:
    """The process of a storage that nothing stops."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None

    def call_later_us(self, delay_us: int, fn: Callable[[Any], None], arg: Any = None) -> None:
        if not delay_us:
            fn(arg)


@contextmanager
def etcd_of_tests() -> Iterator[str]:
    """An etcd for many stores; yields its URL."""
    with tempfile.TemporaryDirectory() as folder, etcd(Path(folder)) as (_, url):
        yield url
