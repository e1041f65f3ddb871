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

from typing import TYPE_CHECKING, Any

from actors.apiserver.ports import writer_of
from sim.kernel import State
from sim.machinery import managed as ownership
from sim.machinery.api import Json, Obj, Reply, Request
from sim.machinery.scheme import Resource
from sim.machinery.store import Item, Managed
from sim.machinery.strategies import strategy_of
from sim.units import SECOND

if TYPE_CHECKING:
    from actors.apiserver.server import ApiServer

# Where a value of this field passes every check once its like has passed.
RENEWAL = ("spec", "renewTime")
LANES = {("leases", "", *RENEWAL), ("nodes", "status", "status", "conditions")}
MICRO_TIME_LENGTH = 27  # "2022-08-23T00:00:00.000000Z"


class LaneItem(Item):
    """A revision that differs from `base` in one field: history keeps thousands of these per second.

    The object is built when somebody reads it, and kept only while it is the current one (`release`).
    """

    __slots__ = ("_base", "_built", "_path", "value")

    def __init__(
        self, prev: Item, rev: int, record: tuple[Managed, ...], path: tuple[str, str], value: str
    ) -> None:
        self.key = prev.key
        self.rev = rev
        self.created = prev.created
        self.managed = record
        self.raw = None
        self.cause = 0
        self._base: Obj = prev._base if type(prev) is LaneItem else prev.obj
        self._path = path
        self.value = value
        self._built: Obj | None = None

    @property
    def obj(self) -> Obj:  # type: ignore[override]
        built = self._built
        if built is None:
            built = self._built = self._base.copy()
            metadata = built["metadata"] = built["metadata"].copy()
            metadata["resourceVersion"] = str(self.rev)
            section, field = self._path
            values = built[section] = built[section].copy()
            values[field] = self.value
        return built

    def peek(self, section: str, field: str) -> Any:
        if (section, field) == self._path:
            return self.value
        if (section, field) == ("metadata", "resourceVersion"):
            return str(self.rev)
        return (self._base.get(section) or {}).get(field)

    def release(self) -> None:
        """Superseded: whoever needs the object holds it, or has it built again."""
        self._built = None


class Stamp:
    """A record of one owner whose time moves on: clients of one name that write in one second share it."""

    __slots__ = ("entry", "record")

    def __init__(self, entry: Managed) -> None:
        self.entry = entry
        self.record = (entry,)

    def at(self, now_s: int) -> tuple[Managed, ...]:
        entry = self.entry
        if entry.time_s != now_s:
            self.entry = entry = Managed(
                entry.manager, entry.operation, entry.api_version, now_s, entry.fields, entry.subresource
            )
            self.record = (entry,)
        return self.record


def offer_lane(server: ApiServer, request: Request, path: tuple[str, ...]) -> Lane | None:
    """A lane for `request`, the ordinary write it stands for, or None where there are none."""
    if (request.resource, request.subresource, *path) not in LANES or request.options:
        return None
    resource = server.scheme.find(request.group, request.version, request.resource)
    return None if resource is None or server.ctx is None else Lane(server, request, resource, path)


class Lane:
    """What `ApiServer.lane` hands out.  `last`: the object as this lane's client wrote it last.

    _stamp: the record of `last`, once it is known that only its time moves.
    """

    __slots__ = ("_key", "_path", "_request", "_resource", "_server", "_stamp", "_writer", "last")

    def __init__(
        self, server: ApiServer, request: Request, resource: Resource, path: tuple[str, ...]
    ) -> None:
        self._server = server
        self._request = request
        self._resource = resource
        self._path = (path[0], path[1])
        self._writer = writer_of(request)
        self._key = server.scheme.key(resource, request.namespace, request.name)
        self._stamp: Stamp | None = None
        self.last: Item | None = None
        server.lanes[self._key] = self

    def wrote(self, request: Request, item: Item) -> None:
        """The ordinary way has written the object."""
        mine = request.user == self._request.user and request.manager == self._request.manager
        self.last = item if mine and not request.options else None
        self._stamp = None

    def update(self, request: Request) -> Reply | None:
        """An ordinary update by this lane's client that changes the field alone; None if it is not, or not known to be."""
        item, body, mine = self.last, request.body, self._request
        if item is None or type(body) is not dict or request.options or request.subresource:
            return None
        if request.user is not mine.user or request.manager != mine.manager:
            return None
        old = item.obj
        section, field = self._path
        if body.keys() != old.keys():
            return None
        if any(part is not old[key] and key != section for key, part in body.items()):
            return None
        value = body[section].get(field)
        if type(value) is not str or {**old[section], field: value} != body[section]:
            return None
        done = self._put(value)
        return None if done is None else Reply(200, item=done)

    def write(self, value: Json) -> Item | None:
        done = self._put(value)
        if done is not None:
            # drawn, though nobody waits: other requests' latencies stay what they were
            self._server.storage.latency_us(1)
        return done

    def _put(self, value: Json) -> Item | None:
        server, item = self._server, self.last
        ctx, storage = server.ctx, server.storage
        if item is None or ctx is None or ctx.state is not State.RUNNING or not storage.prompt:
            return None
        request = self._request
        if server.busy or server.authorizer.refuse(request.user, request) is not None:
            return None
        now_s = ctx.wall_us() // SECOND
        done = (
            self._write_text(item, value, now_s)
            if type(value) is str
            else self._write_value(item, value, now_s)
        )
        if done is not None:
            self.last = done
            server.flown += 1
        return done

    def _write_text(self, item: Item, value: str, now_s: int) -> Item | None:
        """A scalar: nothing but it, the revision and the time of its ownership can change."""
        section, field = self._path
        old = item.value if type(item) is LaneItem else (item.obj.get(section) or {}).get(field)
        if len(value) != MICRO_TIME_LENGTH or value == old or old is None:
            return None
        stamp = self._stamp or self._stamp_of(item.managed)
        if stamp is None:
            return None
        storage, kernel = self._server.storage, self._server.kernel
        store, cause = storage.store, kernel.cause
        new = LaneItem(item, store.revision + 1, stamp.at(now_s), self._path, value)
        storage.writer = self._writer
        if not store.replace(item, new, cause):
            return None
        kernel.cause = cause
        if type(item) is LaneItem:
            item.release()
        return new

    def _write_value(self, item: Item, value: Json, now_s: int) -> Item | None:
        """A list or map: ownership is computed as for an ordinary write."""
        section, field = self._path
        storage, kernel = self._server.storage, self._server.kernel
        store, cause = storage.store, kernel.cause
        if store.get(self._key) is not item:
            return None
        obj = item.obj
        new = {**obj, "metadata": {**obj["metadata"]}, section: {**(obj.get(section) or {}), field: value}}
        record = self._owned(item, new, now_s)
        if new == obj:
            return None
        storage.writer = self._writer
        done = store.put(self._key, new, item.rev, record, cause)
        kernel.cause = cause
        assert isinstance(done, Item)
        return done

    def _stamp_of(self, record: tuple[Managed, ...]) -> Stamp | None:
        """What moves the record's time; None if more than this client's time may change."""
        request, entry = self._request, record[0] if len(record) == 1 else None
        section, field = self._path
        if (
            entry is None
            or entry.manager != request.manager
            or entry.operation != ownership.UPDATE
            or entry.subresource != request.subresource
            or entry.api_version != self._resource.api_version
            or f"f:{field}" not in (entry.fields.get(f"f:{section}") or {})
        ):
            return None
        name = (entry.manager, entry.api_version, entry.subresource)
        known = self._server.stamps.get(name)
        if known is None or known.entry.fields is not entry.fields:
            known = self._server.stamps[name] = Stamp(entry)
        self._stamp = known
        return known

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
