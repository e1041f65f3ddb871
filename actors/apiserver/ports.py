"""Protocols at the borders of an API server: the storage process, and the server as its parts use
it.

Processes do not import each other, so the API server knows the storage by the first group of
protocols.  `actors.storage` implements them, and any other store that a server reaches without a
socket has to implement them as well.

The second group describes the server (`actors.apiserver.server.ApiServer`) to the parts that it
creates, so that a part does not import the module that imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from actors.apiserver.options import ApiServerOptions
from sim.api.auth.attributes import AccessAttributes, Opinion
from sim.api.auth.chain import UserRules
from sim.api.replica_records import CompactionRecord, MasterLeases
from sim.api.scheme.scheme import Scheme
from sim.api.store import (
    Answer,
    Compacted,
    FutureRevision,
    Item,
    Managed,
    Mismatch,
    Op,
    Page,
    Range,
)
from sim.api.types import Obj, Reply, Request, UserInfo
from sim.api.watch.columnar_renewals import Crowd
from sim.api.watch.feed import Feed
from sim.api.watch.lease_renewals import Line, Renewal
from sim.kernel import Context, Kernel
from sim.units import Revision, Virtual


class LocalStore(Feed, Protocol):
    """A store that answers at once, with the members that watch caches and fast paths use."""

    def revision_at(self, at_us: Virtual) -> Revision:
        """Return the newest revision that was committed by an instant."""
        ...

    def apply(self, op: Op) -> Answer:
        """Carry out an operation and return its answer."""
        ...

    def range(self, op: Range) -> Page | Compacted | FutureRevision:
        """Return a page of the items below a prefix."""
        ...

    def put(
        self,
        key: str,
        obj: dict[str, Any],
        expect: int | None,
        managed: tuple[Managed, ...] = (),
        cause: int = 0,
    ) -> Item | Mismatch:
        """Write an object if its revision is the expected one (None: any revision)."""
        ...

    def pattern(self, item: Item) -> Any:
        """Return the shape of an item, for `cast`."""
        ...

    def cast(
        self, key: str, pattern: Any, flat: list[Any], managed: tuple[Managed, ...] = (), cause: int = 0
    ) -> Item | None:
        """Create a compact item from a shape and its own values; None if the key exists."""
        ...

    def beat(
        self, prev: Item, obj: dict[str, Any], managed: tuple[Managed, ...], cause: int = 0
    ) -> Item | None:
        """Write an object in which only heartbeat times differ; None if that is impossible."""
        ...

    def renew(
        self,
        line: Line,
        prev: Item,
        value: int,
        time_s: int,
        at_us: Virtual,
        cause: int = 0,
        *,
        serial: bool = False,
    ) -> Renewal | None:
        """Write a lease renewal; None if `prev` is not what is stored."""
        ...

    guards: dict[str, Callable[[], None]]

    def before_compact(self, hook: Callable[[Revision], None]) -> Callable[[], None]:
        """Call a hook before each compaction; the result removes it."""
        ...


def writer_of(request: Request) -> tuple[str, str]:
    """Return the user and the verb that trace records name, such as "patch status"."""
    sub = request.subresource
    return request.user.name, f"{request.verb} {sub}" if sub else request.verb


class StorageProcess(Protocol):
    """The storage process as an API server uses it."""

    name: str
    writer: tuple[str, str]

    @property
    def store(self) -> LocalStore:
        """The store, for reads and prompt operations."""
        ...

    @property
    def beats(self) -> Crowd | None:
        """The columnar renewals, or None while there are none."""
        ...

    def crowd(self, prefix: str) -> None:
        """Begin columnar renewals for the leases below a prefix."""
        ...

    @property
    def compaction(self) -> CompactionRecord:
        """The record by which replicas agree on compactions."""
        ...

    @property
    def masters(self) -> MasterLeases:
        """The addresses of the running API servers."""
        ...

    @property
    def prompt(self) -> bool:
        """True while no fault delays or refuses operations."""
        ...

    @property
    def led(self) -> bool:
        """True while the storage has a leader."""
        ...

    def on_leader(self, listener: Callable[[bool], None]) -> Callable[[], None]:
        """Call a listener when the leader is lost or found; the result unsubscribes."""
        ...

    @property
    def write_us(self) -> tuple[int, int]:
        """The shortest and the longest latency of a write."""
        ...

    def latency_us(self, writes: int, draw: int = 0) -> int:
        """Return the latency of a request with this number of writes."""
        ...

    def submit(
        self,
        op: Op,
        writer: tuple[str, str],
        wanted: Callable[[], bool],
        on_answer: Callable[[Answer], None],
    ) -> None:
        """Carry out an operation with the storage's latency and faults."""
        ...

    def compact(self, rev: Revision) -> None:
        """Discard history below a revision."""
        ...

    def expire(self, prefix: str, ttl_us: int) -> None:
        """Delete objects below a prefix a fixed time after their last write."""
        ...


# --- the server as its parts use it ---------------------------------------------------------------


class Authorizer(Protocol):
    """Decides which requests are allowed (`authorization.Authorization`)."""

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Judge one request."""
        ...

    def refusal(self, request: Request) -> Obj | None:
        """Return the Status of a refused request, or None if its user may send it."""
        ...

    def covers(self, user: UserInfo, verb: str, group: str, resource: str, subresource: str = "") -> bool:
        """Return True if the user may use a verb in all namespaces and for all names."""
        ...

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        """List what a user may do in a namespace."""
        ...


class StorageConnection(Protocol):
    """The server's connection to the storage (`lifecycle.storage_connection`).

    cut: no message passes
    lag_us: what it adds to each message
    """

    cut: bool
    lag_us: int

    def submit(
        self,
        op: Op,
        writer: tuple[str, str],
        wanted: Callable[[], bool],
        on_answer: Callable[[Answer], None],
    ) -> None:
        """Send an operation; it is dropped if `wanted` returns False before it arrives."""
        ...


class Server(Protocol):
    """The API server (`actors.apiserver.server.ApiServer`) as its parts see it.

    flown: number of requests served so far
    bounded: True if a request may have to wait or be refused
    reached_at: address and port at which clients reach it
    """

    name: str
    reached_at: tuple[str, int]
    kernel: Kernel
    scheme: Scheme
    options: ApiServerOptions
    storage: StorageProcess
    authorizer: Authorizer
    flown: int
    bounded: bool

    @property
    def tally(self) -> dict[tuple[str, int], int]:
        """Numbers of answers by client and code."""
        ...

    @property
    def ctx(self) -> Context | None:
        """The running incarnation, or None."""
        ...

    @property
    def reach(self) -> StorageConnection | None:
        """The connection to the storage, None while no incarnation runs."""
        ...

    @property
    def prompt(self) -> bool:
        """True while operations may be applied to the store at once."""
        ...

    @property
    def busy(self) -> bool:
        """True if one more write would wait or be refused."""
        ...

    @property
    def in_flight(self) -> int:
        """The number of requests in flight, without watches."""
        ...

    @property
    def watched(self) -> int:
        """The number of open watches."""
        ...

    def handle(self, request: Request, respond: Callable[[Reply], None]) -> None:
        """Serve a request and call `respond` once with the reply."""
        ...

    def start(self, number: int) -> None:
        """Begin to serve a request that has been admitted."""
        ...

    def refuse(self, number: int) -> None:
        """Answer a request with 429."""
        ...

    def rebound(self) -> None:
        """Follow a change of what a request may have to wait for."""
        ...

    def end_audit(self) -> None:
        """Write the events of what ends with the process, which ends in order."""
        ...
