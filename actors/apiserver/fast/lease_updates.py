"""The lease fast path: writes of one field of one object by one client (the renewTime of a lease).

A new time becomes the commit that an ordinary request with that time would make, without building
the request, decoding, defaulting, admission and validation of what is unchanged.

Holds: this path writes only if no other client has written the object since its own client's last
write through this server, the server and its storage are healthy, and the client is still allowed.
In every other case it returns None and writes nothing.  What it commits (object, ownership, trace
record, cause) is what the ordinary path commits; `tests/property/test_lease_renewals.py` compares
the two.

Mirrors  nothing upstream: it is equal to the ordinary write of pkg/endpoints/handlers/update.go.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace

from actors.apiserver.ports import Server, writer_of
from sim.api.ownership import managed as ownership
from sim.api.schema.resource import Resource
from sim.api.store import Item
from sim.api.types import Obj, Reply, Request
from sim.api.watch.columnar_renewals import Beater
from sim.api.watch.lease_renewals import Line, Renewal
from sim.kernel import Context, State
from sim.units import SECOND, Virtual, format_micro_time, parse_time

RENEWAL = ("spec", "renewTime")
# Fields in which every time is valid if another one was.
LEASE_FIELDS = {("leases", "", *RENEWAL)}
# The number of lease fast paths of one server from which columnar renewals are worth the 0.1 s that
# loading numpy takes.
CROWD = 512

LeasePaths: TypeAlias = "dict[str, LeasePath]"  # of one server, by storage key


def offer_lease_path(
    server: Server, lease_paths: LeasePaths, request: Request, path: tuple[str, ...]
) -> LeasePath | None:
    """The fast path for the ordinary write `request`; None if there is none for this field."""
    if (request.resource, request.subresource, *path) not in LEASE_FIELDS or request.options:
        return None
    resource = server.scheme.find(request.group, request.version, request.resource)
    ctx = server.ctx
    if resource is None or resource.custom or ctx is None:
        return None
    key = server.scheme.key(resource, request.namespace, request.name)
    lease_paths[key] = lease_path = LeasePath(server, ctx, request, resource, path, key)
    if len(lease_paths) == CROWD:
        server.storage.crowd(resource.prefix)
    return lease_path


def find_lease_path(
    server: Server, lease_paths: LeasePaths, request: Request, path: tuple[str, ...]
) -> LeasePath | None:
    """The fast path by which the request's client can renew now; None if there is no open one."""
    if request.resource != "leases" or path != RENEWAL or server.bounded:
        return None
    lease_path = lease_paths.get(server.scheme.key("leases", request.namespace, request.name))
    return lease_path if lease_path is not None and lease_path.is_open(request) else None


def follow_write(server: Server, lease_paths: LeasePaths, request: Request, reply: Reply) -> None:
    """Let the fast path of an object follow an ordinary write of it.

    The first update of an elector starts its fast path.
    """
    if (item := reply.item) is None:
        return
    if request.verb == "update" and request.resource == "leases" and item.key not in lease_paths:
        if server.kernel.fast.leases:
            offer_lease_path(server, lease_paths, replace(request, body=None), RENEWAL)
    if item.key in lease_paths and server.storage.store.get(item.key) is item:
        lease_paths[item.key].wrote(request, item)


class LeasePath:
    """The lease fast path of one client and one object.

    last: the object as this client wrote it last; None if another client has written it since
    line: what successive renewals have in common; None while it is unknown
    ahead_us: the server's clock minus virtual time; None if the clock drifts
    _joined: True while the storage renews the lease in columns; `last` is out of date then
    """

    __slots__ = (
        "_counted", "_ctx", "_joined", "_kernel", "_key", "_path", "_request", "_resource", "_storage", "_writer", "ahead_us", "last", "line",
        "server",
    )  # fmt: skip

    def __init__(
        self,
        server: Server,
        ctx: Context,
        request: Request,
        resource: Resource,
        path: tuple[str, ...],
        key: str,
    ) -> None:
        self.server = server
        self._ctx = ctx
        self._kernel, self._storage = server.kernel, server.storage
        self._request = request
        self._resource = resource
        self._path = (path[0], path[1])
        self._writer = writer_of(request)
        self._counted = request.manager, 200
        self._key = key
        self.line: Line | None = None
        self.ahead_us: int | None = None
        self.last: Item | None = None
        self._joined = False

    def wrote(self, request: Request, item: Item) -> None:
        """Record that the ordinary path has written the object."""
        self._leave()
        mine = request.user == self._request.user and request.manager == self._request.manager
        self.last = item if mine and not request.options else None
        self.line = None

    def update(self, request: Request) -> Reply | None:
        """Commit an update by this client that changes only the field; None if it changes more.

        request: has no options and no subresource, and its body is an object
            (`WriteTemplates.follow` checks that)
        """
        self._leave()
        item, body = self.last, request.body
        if item is None or not self.serves(request):
            return None
        old = item.obj
        section = self._path[0]
        if body.keys() != old.keys():
            return None
        if any(part is not old[key] and key != section for key, part in body.items()):
            return None
        try:
            value_us = parse_time(str(body[section].get(self._path[1])))
        except ValueError:
            return None
        done = self.move(old[section], body[section], value_us)
        return None if done is None else Reply(200, item=done)

    def serves(self, request: Request) -> bool:
        """True if the request is by this path's client."""
        mine = self._request
        return request.user is mine.user and request.manager == mine.manager

    def move(self, old: Obj, new: Obj, value_us: int) -> Item | None:
        """Write a section in which only the time is new; None if it differs in more, or its time
        does not have the API's format.
        """
        field = self._path[1]
        if {**old, field: new.get(field)} != new or format_micro_time(value_us) != new[field]:
            return None
        return self.renew(value_us)

    def write(self, value: int) -> Item | None:
        """Write a new time, in microseconds since 1970."""
        server = self.server
        ctx, request = self._ctx, self._request
        if ctx.state is not State.RUNNING or server.busy or not server.prompt:
            return None
        if server.authorizer.refusal(request) is not None:
            return None
        self.ahead_us = None if ctx.clock.drift_ppm else ctx.wall_us() - self._kernel.now_us
        done = self.renew(value, serial=True)
        if done is not None:
            server.flown += 1
            server.tally[self._counted] += 1
        return done

    @property
    def latency_us(self) -> tuple[int, int]:
        """The shortest and the longest latency of a write by the storage."""
        return self._storage.write_us

    def is_open(self, request: Request) -> bool:
        """True if the next renewal by the request's client passes all checks until the epoch
        changes.

        The server is not bounded (`find_lease_path` checks that), so it is not busy either.
        """
        server, mine = self.server, self._request
        ctx, item = self._ctx, self.last
        if ctx.state is not State.RUNNING or not server.prompt or item is None:
            return False
        if request.user != mine.user or request.manager != mine.manager or ctx.clock.drift_ppm:
            return False
        if server.authorizer.refusal(request) is not None:
            return False
        if self.line is None and self._line_of(item) is None:
            return False
        self.ahead_us = ctx.wall_us() - self._kernel.now_us
        return True

    def beat(self, value: int, at_us: Virtual) -> Item | None:
        """As `write`, for a client that has written and knows that the epoch has not changed since."""
        server, item, line, ahead_us = self.server, self.last, self.line, self.ahead_us
        if (
            server.bounded
            or type(item) is not Renewal
            or line is None
            or ahead_us is None
            or item.value == value
        ):
            return self.write(value)
        storage = self._storage
        storage.writer = self._writer
        time_s = (at_us + ahead_us) // SECOND
        new = storage.store.renew(line, item, value, time_s, at_us, self._kernel.cause, serial=True)
        if new is not None:
            self.last = new
            server.flown += 1
            server.tally[self._counted] += 1
        return new

    def join(self, beater: Beater, next_us: Virtual) -> bool:
        """Hand the next renewals over to the columnar renewals of the storage; False if these
        refuse.
        """
        beats = self._storage.beats
        if beats is None:
            return False
        self._joined = beats.join(beater, self, next_us)
        return self._joined

    @property
    def bounded(self) -> bool:
        """True if a request may have to wait or be refused."""
        return self.server.bounded

    def carried(self, count: int) -> None:
        """Count renewals that were made in columns."""
        self.server.flown += count
        self.server.tally[self._counted] += count

    def left(self, item: Item) -> None:
        """End the columnar renewals of the lease; `item` is their last write."""
        self._joined, self.last = False, item

    def _leave(self) -> None:
        """Leave the columnar renewals, because `last` is about to be read or written."""
        if self._joined and self._storage.beats is not None:
            self._storage.beats.leave(self._key)

    def renew(self, value: int, serial: bool = False) -> Item | None:
        """Commit a new time; nothing else changes but the revision and the time of the ownership.

        serial: passed on to the store's `renew`
        """
        self._leave()
        item, line = self.last, self.line
        if item is None:
            return None
        if line is None or not isinstance(item, Renewal):
            line = self._line_of(item)
            # The client owns the time, so there is one.
            if line is None or item.peek(*self._path) == format_micro_time(value):
                return None
        elif value == item.value:
            return None
        kernel, storage = self._kernel, self._storage
        cause, storage.writer = kernel.cause, self._writer
        time_s = self._ctx.wall_us() // SECOND
        new = storage.store.renew(line, item, value, time_s, kernel.now_us, cause, serial=serial)
        if new is not None:
            kernel.follow(cause)
            self.last = new
        return new

    def _line_of(self, item: Item) -> Line | None:
        """What the renewals after `item` have in common; None if more than the time may change in
        them.
        """
        request = self._request
        owner = item.managed[0] if len(item.managed) == 1 else None
        section, field = self._path
        if (
            owner is None
            or owner.manager != request.manager
            or owner.operation != ownership.UPDATE
            or owner.subresource != request.subresource
            or owner.api_version != self._resource.api_version
            or f"f:{field}" not in (owner.fields.get(f"f:{section}") or {})
        ):
            return None
        self.line = Line(item, self._path, owner)
        return self.line
