"""What an API server needs of the storage process, as protocols: processes do not import each other.

`actors.storage` fits them; so must any other store that is to be reached without a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from sim.api.store import (
    Answer,
    Change,
    Compacted,
    FutureRevision,
    Item,
    Managed,
    Mismatch,
    Op,
    Page,
    Planned,
    Range,
)
from sim.api.types import Request
from sim.api.watch.columnar_renewals import Crowd
from sim.api.watch.lease_renewals import Line, Renewal


class LocalStore(Protocol):
    """A store that answers at once, with what a watch cache and a hot lane read of it."""

    @property
    def revision(self) -> int: ...
    @property
    def floor(self) -> int: ...
    def revision_at(self, at_us: int) -> int: ...
    def apply(self, op: Op) -> Answer: ...
    def get(self, key: str) -> Item | None: ...
    def get_at(self, key: str, rev: int) -> Item | None: ...
    def range(self, op: Range) -> Page | Compacted | FutureRevision: ...
    def events(self, after: int, prefix: str, limit: int = 0) -> Sequence[Change] | Compacted: ...
    def stretches(self, after: int, prefix: str) -> Iterable[Sequence[Change]] | Compacted: ...
    def changed_since(self, after: int, prefix: str) -> bool: ...
    def put(
        self,
        key: str,
        obj: dict[str, Any],
        expect: int | None,
        managed: tuple[Managed, ...] = (),
        cause: int = 0,
    ) -> Item | Mismatch: ...
    def mould(self, item: Item) -> Any: ...
    def cast(
        self, key: str, mould: Any, flat: list[Any], managed: tuple[Managed, ...] = (), cause: int = 0
    ) -> Item | None: ...
    def beat(
        self, prev: Item, obj: dict[str, Any], managed: tuple[Managed, ...], cause: int = 0
    ) -> Item | None: ...
    def renew(
        self,
        line: Line,
        prev: Item,
        value: int,
        time_s: int,
        at_us: int,
        cause: int = 0,
        *,
        serial: bool = False,
    ) -> Renewal | None: ...

    guards: dict[str, Planned]

    def subscribe(self, prefix: str, on_change: Callable[[Change], None]) -> Callable[[], None]: ...
    def before_compact(self, hook: Callable[[int], None]) -> Callable[[], None]: ...


class Compaction(Protocol):
    """The record by which replicas agree on one compaction per interval."""

    version: int

    def settle(self, seen: int) -> bool: ...


class Masters(Protocol):
    """The keys by which replicas know each other's addresses."""

    @property
    def holders(self) -> Mapping[str, tuple[str, int]]: ...
    def renew(self, address: str, holder: str, until_us: int) -> None: ...
    def remove(self, address: str) -> None: ...
    def alive(self, now_us: int) -> list[str]: ...


def writer_of(request: Request) -> tuple[str, str]:
    """Who writes, and by which verb: "patch status", "create binding"."""
    sub = request.subresource
    return request.user.name, f"{request.verb} {sub}" if sub else request.verb


class StorageProcess(Protocol):
    """The storage as its clients reach it."""

    name: str
    writer: tuple[str, str]

    @property
    def store(self) -> LocalStore: ...
    @property
    def beats(self) -> Crowd | None: ...
    def crowd(self, prefix: str) -> None: ...
    @property
    def compaction(self) -> Compaction: ...
    @property
    def masters(self) -> Masters: ...
    @property
    def prompt(self) -> bool: ...
    @property
    def led(self) -> bool: ...
    def on_leader(self, listener: Callable[[bool], None]) -> Callable[[], None]: ...
    @property
    def write_us(self) -> tuple[int, int]: ...
    def latency_us(self, writes: int, lot: int = 0) -> int: ...
    def submit(
        self,
        op: Op,
        writer: tuple[str, str],
        wanted: Callable[[], bool],
        on_answer: Callable[[Answer], None],
    ) -> None: ...
    def compact(self, rev: int) -> None: ...
    def expire(self, prefix: str, ttl_us: int) -> None: ...
