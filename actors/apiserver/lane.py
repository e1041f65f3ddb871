"""The hot lane: one field of one object that one client writes again and again (a lease's renewTime).

Turns a new value into the same commit that an ordinary request with that value would make, without building the
request, decoding, defaulting, admitting and validating what this server knows unchanged.

Holds: a lane writes only while nobody but its own client has touched the object since that client's last write
through this server, the server and its storage are healthy, and the client is still allowed; in every other case
it answers None and writes nothing.  What it commits (object, ownership, trace record, cause) is what the
ordinary way commits; `tests/property/test_lane.py` compares the two.

Mirrors  nothing upstream: the ordinary write of pkg/endpoints/handlers/update.go is its meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.kernel import State
from sim.machinery import managed as ownership
from sim.machinery.api import Json, Obj, Request
from sim.machinery.scheme import Resource
from sim.machinery.store import Item, Managed
from sim.machinery.strategies import strategy_of
from sim.units import SECOND

if TYPE_CHECKING:
    from actors.apiserver.server import ApiServer

# Where a value of this field passes every check once its like has passed.
LANES = {("leases", "", "spec", "renewTime"), ("nodes", "status", "status", "conditions")}
MICRO_TIME_LENGTH = 27  # "2022-08-23T00:00:00.000000Z"


class LaneItem(Item):
    """A revision that differs from `base` in one field: history keeps thousands of these per second.

    The object is built when somebody reads it, and kept only while it is the current one (`release`).
    """

    __slots__ = ("_base", "_built", "_field", "_section", "_value")

    def __init__(
        self, prev: Item, rev: int, record: tuple[Managed, ...], path: tuple[str, str], value: str
    ) -> None:
        self.key = prev.key
        self.rev = rev
        self.created = prev.created
        self.managed = record
        self.raw = None
        self._base: Obj = prev._base if isinstance(prev, LaneItem) else prev.obj
        self._section, self._field = path
        self._value = value
        self._built: Obj | None = None

    @property
    def value(self) -> str:
        return self._value

    @property
    def obj(self) -> Obj:  # type: ignore[override]
        built = self._built
        if built is None:
            base = self._base
            built = self._built = {
                **base,
                "metadata": {**base["metadata"], "resourceVersion": str(self.rev)},
                self._section: {**base[self._section], self._field: self._value},
            }
        return built

    def release(self) -> None:
        """Superseded: whoever needs the object holds it, or has it built again."""
        self._built = None


_shared: dict[tuple[str, str, str], Managed] = {}  # newest entry by manager, version and subresource


def _entry_at(entry: Managed, now_s: int) -> Managed:
    """An entry with its time moved; clients of one name that write in one second share it."""
    name = (entry.manager, entry.api_version, entry.subresource)
    known = _shared.get(name)
    if known is not None and known.time_s == now_s and known.fields is entry.fields:
        return known
    if len(_shared) > 1024:
        _shared.clear()
    made = Managed(entry.manager, entry.operation, entry.api_version, now_s, entry.fields, entry.subresource)
    _shared[name] = made
    return made


def offer_lane(server: ApiServer, request: Request, path: tuple[str, ...]) -> Lane | None:
    """A lane for `request`, the ordinary write it stands for, or None where there are none."""
    if (request.resource, request.subresource, *path) not in LANES or request.options:
        return None
    resource = server.scheme.find(request.group, request.version, request.resource)
    return None if resource is None or server.ctx is None else Lane(server, request, resource, path)


class Lane:
    """What `ApiServer.lane` hands out.  `last`: the object as this lane's client wrote it last."""

    __slots__ = ("_entry", "_field", "_key", "_request", "_resource", "_section", "_server", "last")

    def __init__(
        self, server: ApiServer, request: Request, resource: Resource, path: tuple[str, ...]
    ) -> None:
        self._server = server
        self._request = request
        self._resource = resource
        self._section, self._field = path
        self._key = server.scheme.key(resource, request.namespace, request.name)
        self._entry: Managed | None = None
        self.last: Item | None = None
        server.lanes[self._key] = self

    def wrote(self, request: Request, item: Item) -> None:
        """The ordinary way has written the object."""
        mine = request.user == self._request.user and request.manager == self._request.manager
        self.last = item if mine and not request.options else None
        self._entry = None

    def write(self, value: Json) -> Item | None:
        server, item = self._server, self.last
        ctx, storage = server.ctx, server.storage
        if item is None or ctx is None or ctx.state is not State.RUNNING or not storage.prompt:
            return None
        store = storage.store
        if store.get(self._key) is not item or server.busy:
            return None
        request = self._request
        if server.authorizer.refuse(request.user, request) is not None:
            return None
        now_s = ctx.wall_us() // SECOND
        if isinstance(value, str):
            done = self._write_text(item, value, now_s)
        else:
            done = self._write_value(item, value, now_s)
        if done is not None:
            self.last = done
            server.flown += 1
        return done

    def _commit_as(self) -> int:
        """Say who writes; answers the cause."""
        storage, request = self._server.storage, self._request
        storage.writer = (request.user.name, request.verb)
        storage.latency_us(1)  # drawn, though nobody waits: other requests' latencies stay what they were
        return self._server.kernel.cause

    def _write_text(self, item: Item, value: str, now_s: int) -> Item | None:
        """A scalar: nothing but it, the revision and the time of its ownership can change."""
        old = (
            item.value if isinstance(item, LaneItem) else (item.obj.get(self._section) or {}).get(self._field)
        )
        if len(value) != MICRO_TIME_LENGTH or value == old or old is None:
            return None
        record = self._moved(item.managed, now_s)
        if record is None:
            return None
        store = self._server.storage.store
        new = LaneItem(item, store.revision + 1, record, (self._section, self._field), value)
        cause = self._commit_as()
        store.replace(item, new, cause)
        self._server.kernel.cause = cause
        if isinstance(item, LaneItem):
            item.release()
        return new

    def _write_value(self, item: Item, value: Json, now_s: int) -> Item | None:
        """A list or map: ownership is computed as for an ordinary write."""
        obj = item.obj
        section: Obj = obj.get(self._section) or {}
        new = {**obj, "metadata": {**obj["metadata"]}, self._section: {**section, self._field: value}}
        record = self._owned(item, new, now_s)
        if new == obj:
            return None
        cause = self._commit_as()
        done = self._server.storage.store.put(self._key, new, item.rev, record, cause)
        self._server.kernel.cause = cause
        assert isinstance(done, Item)
        return done

    def _moved(self, record: tuple[Managed, ...], now_s: int) -> tuple[Managed, ...] | None:
        """The record with this client's time moved; None if more than the time may change."""
        if len(record) != 1:
            return None
        entry = record[0]
        if entry is not self._entry:
            request = self._request
            owned = entry.fields.get(f"f:{self._section}") or {}
            if (
                entry.manager != request.manager
                or entry.operation != ownership.UPDATE
                or entry.subresource != request.subresource
                or entry.api_version != self._resource.api_version
                or f"f:{self._field}" not in owned
            ):
                return None
            self._entry = entry
        if entry.time_s != now_s:
            entry = self._entry = _entry_at(entry, now_s)
            record = (entry,)
        return record

    def _owned(self, item: Item, new: Obj, now_s: int) -> tuple[Managed, ...]:
        """The record as an ordinary write computes it."""
        request, resource = self._request, self._resource
        writer = ownership.Writer(
            manager=request.manager,
            api_version=resource.api_version,
            time_s=now_s,
            subresource=request.subresource,
        )
        reset = ownership.reset_fields(
            resource.plural, request.subresource, strategy_of(resource.plural).status
        )
        return ownership.on_update(resource.schema, item.managed, item.obj, new, writer, reset)
