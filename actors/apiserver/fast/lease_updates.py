"""The hot lane: one field of one object that one client writes again and again (a lease's
renewTime).

Turns a new value into the same commit that an ordinary request with that value would make, without
building the request, decoding, defaulting, admitting and validating what this server knows
unchanged.

Holds: a lane writes only while nobody but its own client has touched the object since that client's
last write through this server, the server and its storage are healthy, and the client is still
allowed; in every other case it answers None and writes nothing.  What it commits (object,
ownership, trace record, cause) is what the ordinary way commits; `tests/property/test_lane.py`
compares the two.

Mirrors  nothing upstream: the ordinary write of pkg/endpoints/handlers/update.go is its meaning.
"""

from __future__ import annotations

from actors.apiserver.ports import FastPathServer, writer_of
from sim.api.ownership import managed as ownership
from sim.api.schema.resource import Resource
from sim.api.store import Item
from sim.api.types import Obj, Reply, Request
from sim.api.watch.columnar_renewals import Beater
from sim.api.watch.lease_renewals import Line, Renewal
from sim.kernel import State
from sim.units import SECOND, format_micro_time, parse_time

RENEWAL = ("spec", "renewTime")
# Where a time of this field passes every check once another has passed.
LANES = {("leases", "", *RENEWAL)}
# lanes of one server from which on it pays to go on in columns: numpy takes 0.1 s to load
CROWD = 512


def offer_lane(server: FastPathServer, request: Request, path: tuple[str, ...]) -> Lane | None:
    """A lane for `request`, the ordinary write it stands for, or None where there are none."""
    if (request.resource, request.subresource, *path) not in LANES or request.options:
        return None
    resource = server.scheme.find(request.group, request.version, request.resource)
    if resource is None or resource.custom or server.ctx is None:
        return None
    return Lane(server, request, resource, path)


def find_open_lane(server: FastPathServer, request: Request, path: tuple[str, ...]) -> Lane | None:
    """The lane by which the request's client can renew now; None if there is none, or it is not
    open.
    """
    if request.resource != "leases" or path != RENEWAL or server.bounded:
        return None
    lane = server.lanes.get(server.scheme.key("leases", request.namespace, request.name))
    return lane if lane is not None and lane.is_open(request) else None


class Lane:
    """What `ApiServer.lane` hands out.  `last`: the object as this lane's client wrote it last.

    line: what its renewals share, once it is known that only their time moves; ahead_us: of virtual
        time, the server's clock, None if it drifts; _joined: the storage writes for it, and `last`
        is not the last
    """

    __slots__ = (
        "_joined", "_kernel", "_key", "_path", "_request", "_resource", "_storage", "_writer", "ahead_us", "last", "line",
        "server",
    )  # fmt: skip

    def __init__(
        self, server: FastPathServer, request: Request, resource: Resource, path: tuple[str, ...]
    ) -> None:
        self.server = server
        self._kernel, self._storage = server.kernel, server.storage
        self._request = request
        self._resource = resource
        self._path = (path[0], path[1])
        self._writer = writer_of(request)
        self._key = server.scheme.key(resource, request.namespace, request.name)
        self.line: Line | None = None
        self.ahead_us: int | None = None
        self.last: Item | None = None
        self._joined = False
        server.lanes[self._key] = self
        if len(server.lanes) == CROWD:
            server.storage.crowd(resource.prefix)

    def wrote(self, request: Request, item: Item) -> None:
        """The ordinary way has written the object."""
        self._leave()
        mine = request.user == self._request.user and request.manager == self._request.manager
        self.last = item if mine and not request.options else None
        self.line = None

    def update(self, request: Request) -> Reply | None:
        """Commit an update of the lease by this lane's client that changes the field alone; None:
        it changes more.

        request: one without options and subresource, whose body is an object (`Plans.follow` checks
            that)
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
        """Whether it is by this lane's client."""
        mine = self._request
        return request.user is mine.user and request.manager == mine.manager

    def move(self, old: Obj, new: Obj, value_us: int) -> Item | None:
        """Write the section anew; None if more than the time is another, or that is no such time."""
        field = self._path[1]
        if {**old, field: new.get(field)} != new or format_micro_time(value_us) != new[field]:
            return None
        return self.renew(value_us)

    def write(self, value: int) -> Item | None:
        """Move the time on (microseconds since 1970)."""
        server = self.server
        ctx, request = server.ctx, self._request
        if ctx is None or ctx.state is not State.RUNNING or server.busy or not server.prompt:
            return None
        if server.authorizer.refusal(request) is not None:
            return None
        self.ahead_us = None if ctx.clock.drift_ppm else ctx.wall_us() - self._kernel.now_us
        done = self.renew(value, serial=True)
        if done is not None:
            server.flown += 1
        return done

    @property
    def latency_us(self) -> tuple[int, int]:
        """Between which bounds the storage takes for a write."""
        return self._storage.write_us

    def is_open(self, request: Request) -> bool:
        """True if the next renewal by the request's client passes everything, until something
        moves.

        The server is not bounded (`find_open_lane` checks that), so it is not busy either.
        """
        server, mine = self.server, self._request
        ctx, item = server.ctx, self.last
        if ctx is None or ctx.state is not State.RUNNING or not server.prompt or item is None:
            return False
        if request.user != mine.user or request.manager != mine.manager or ctx.clock.drift_ppm:
            return False
        if server.authorizer.refusal(request) is not None:
            return False
        if self.line is None and self._line_of(item) is None:
            return False
        self.ahead_us = ctx.wall_us() - self._kernel.now_us
        return True

    def beat(self, value: int, at_us: int) -> Item | None:
        """As `write`, for who has written and knows that no process, link or clock has changed its
        state since.
        """
        server, item, line, ahead_us = self.server, self.last, self.line, self.ahead_us
        if (
            server.bounded
            or not isinstance(item, Renewal)
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
        return new

    def join(self, beater: Beater, next_us: int) -> bool:
        """Leave what comes next to the storage, if it takes over."""
        beats = self._storage.beats
        if beats is None:
            return False
        self._joined = beats.join(beater, self, next_us)
        return self._joined

    @property
    def bounded(self) -> bool:
        return self.server.bounded

    def carried(self, count: int) -> None:
        self.server.flown += count

    def left(self, item: Item) -> None:
        self._joined, self.last = False, item

    def _leave(self) -> None:
        """Somebody wants to write here, or to know what was written."""
        if self._joined and self._storage.beats is not None:
            self._storage.beats.leave(self._key)

    def renew(self, value: int, serial: bool = False) -> Item | None:
        """Nothing but the time, the revision and the time of its ownership can change.  serial: as
        of the store's.
        """
        self._leave()
        item, line, ctx = self.last, self.line, self.server.ctx
        assert ctx is not None  # the callers have checked that the server runs
        if item is None:
            return None
        if line is None or not isinstance(item, Renewal):
            line = self._line_of(item)
            old = item.peek(*self._path)
            if line is None or old is None or old == format_micro_time(value):
                return None
        elif value == item.value:
            return None
        kernel, storage = self._kernel, self._storage
        cause, storage.writer = kernel.cause, self._writer
        time_s = ctx.wall_us() // SECOND
        new = storage.store.renew(line, item, value, time_s, kernel.now_us, cause, serial=serial)
        if new is not None:
            kernel.cause = cause
            self.last = new
        return new

    def _line_of(self, item: Item) -> Line | None:
        """What the renewals after `item` share; None if more than the time may change in them."""
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
