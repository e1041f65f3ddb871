"""Coalesced calls of a client that reads an object and then writes only new times into it.

A node agent's read of its node becomes a read of the watch cache, and its write of new heartbeat
times the commit that the patch would make.  A leader's read of its lease becomes a read of the
store, and its renewal a write by the lease fast path (`lease_updates`).

Holds: the results, writes and random draws are those of the ordinary requests (the write templates
and the lease fast path guarantee that).  In every other case the result is None and nothing is
written or drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from actors.apiserver.fast import node_heartbeats as beats
from actors.apiserver.fast.base import CallPath, FastState
from actors.apiserver.fast.coalesced_pod_calls import EventCallPath, PodCallPath
from actors.apiserver.ports import Server
from actors.apiserver.rules import Reads
from sim.api.ownership.managed import UPDATE
from sim.api.store import Item, Managed
from sim.api.types import Obj, Request
from sim.kernel import State
from sim.units import SECOND


def offer_coalesced_path(
    server: Server, fast: FastState, request: Request
) -> NodeCallPath | LeaseCallPath | PodCallPath | EventCallPath | None:
    """The coalesced calls for `request` and the writes that follow it; None if this server cannot
    serve
    them now.
    """
    if fast.ctx.state is not State.RUNNING or not server.prompt:
        return None
    resource = server.scheme.find(request.group, request.version, request.resource)
    if resource is None or not _allowed(server, request, resource.rule):
        return None
    if not resource.group and resource.rule in ("pods", "events"):
        return (
            PodCallPath(server, fast, request)
            if resource.rule == "pods"
            else EventCallPath(server, fast, request)
        )
    if resource.rule == "leases" and request.name:
        return LeaseCallPath(server, fast, request)
    if resource.rule != "nodes" or not request.name or not server.options.has_cache(resource):
        return None
    return NodeCallPath(server, fast, request)


def _allowed(server: Server, asked: Request, rule: str) -> bool:
    """True if the client may send all requests that a fast path for its resource replaces.

    A change of rights advances the epoch (`Standing.epoch`), so the client is not judged again
    while
    its fast path is valid.
    """
    authorizer, user = server.authorizer, asked.user
    needed = {
        "pods": (("get", ""), ("patch", "status")),
        "events": (("create", ""),),
        "leases": (("get", ""), ("update", "")),
        "nodes": (("get", ""), ("patch", "status")),
    }.get(rule, ())
    if rule in ("pods", "events"):  # one fast path serves objects of every name
        return all(authorizer.covers(user, verb, asked.group, asked.resource, sub) for verb, sub in needed)
    return all(authorizer.refusal(replace(asked, verb=verb, subresource=sub)) is None for verb, sub in needed)


class LeaseCallPath(CallPath):
    """The coalesced calls of a leader on its lease."""

    __slots__ = ("_key",)

    def __init__(self, server: Server, fast: FastState, asked: Request) -> None:
        super().__init__(server, fast, asked)
        self._key = server.scheme.key("leases", asked.namespace, asked.name)

    def look(self) -> tuple[Item, int] | None:
        """Return the stored lease, and the storage's latency."""
        server = self.server
        item = server.storage.store.get(self._key) if self._open() else None
        if item is None:
            return None
        return self._answer(item, 0)

    def renew(self, held: Item, spec: Obj, time_us: int) -> tuple[Item, int] | None:
        """Write `spec`; None if it differs from the one in `held` in more than the renewal time."""
        lease_path = self._fast.lease_paths.get(self._key)
        if (
            lease_path is None
            or lease_path.last is not held
            or not lease_path.serves(self._asked)
            or not self._open()
        ):
            return None
        done = lease_path.move(held.obj["spec"], spec, time_us)
        if done is None:
            return None
        return self._answer(done, 1)


class NodeCallPath(CallPath):
    """The coalesced calls of a node agent on its node.

    _last: the node as it was last written here, None after a write that failed
    _reads: what admission read for that write
    _owner: the client's entry in the record of ownership
    _whole: True if the last heartbeat named all conditions, in the stored order
    """

    __slots__ = ("_cache", "_key", "_last", "_owner", "_reads", "_whole")

    def __init__(self, server: Server, fast: FastState, asked: Request) -> None:
        super().__init__(server, fast, asked)
        self._cache = fast.caches.of(server.scheme.resource("nodes"))
        self._key = f"{self._cache.prefix}/{asked.name}"
        self._last: Item | None = None
        self._owner: Managed | None = None
        self._reads: Reads = Reads()
        self._whole = False

    def look(self) -> tuple[Item, int] | None:
        """Return the node as the watch cache shows it, and the storage's latency."""
        if not self._fast.caches.ready or not self._open():
            return None
        item = self._cache.get(self._key)
        if item is None:
            return None
        return self._answer(item, 0)

    def beat(self, held: Item, sent: Sequence[Obj]) -> tuple[Item, int] | None:
        """Write new heartbeat times of conditions of `held`."""
        templates, node = self._fast.templates, held.obj
        status = node["status"]
        if not sent or templates is None or not self._open():
            return None
        before: Sequence[Obj] = status["conditions"]
        if self._last is held and templates.holds(self._reads):
            conditions = beats.whole(before, sent) if self._whole else beats.with_new_times(before, sent)
        else:
            self._last = None
            conditions = beats.with_new_times(before, sent)
            reads = (
                None
                if conditions is None
                else templates.with_new_times_before(held, self._asked.manager, sent)
            )
            if reads is None:
                return None
            self._reads = reads
            self._whole = [*map(beats.type_of, before)] == [*map(beats.type_of, sent)]
        if conditions is None:
            return None
        status = {**status, "conditions": conditions}
        return self._commit(held, {**node, "metadata": {**node["metadata"]}, "status": status})

    def _commit(self, held: Item, obj: Obj) -> tuple[Item, int] | None:
        server = self.server
        storage = server.storage
        storage.writer = self._asked.user.name, "patch status"
        record = self._record(held, self._fast.ctx.wall_us() // SECOND)
        done = storage.store.beat(held, obj, record, server.kernel.cause)
        if done is None:
            self._last = None
            return None
        self._last = done
        return self._answer(done, 1)

    def _record(self, held: Item, now_s: int) -> tuple[Managed, ...]:
        """Return the record of ownership after the write."""
        record, owner = held.managed, self._owner
        if self._last is held and record and record[-1] is owner and now_s >= owner.time_s:
            self._owner = owner = Managed(
                owner.manager, UPDATE, owner.api_version, now_s, owner.fields, owner.subresource
            )
            return (*record[:-1], owner)  # the latest entry is the last
        moved = beats.moved(
            record, self._asked.manager, self.server.scheme.resource("nodes").api_version, now_s
        )
        assert moved is not None  # the client had an entry when the template was learned
        self._owner = moved[-1] if moved and moved[-1] not in record else None
        return moved
