"""The EndpointSlices that one controller manages, found by the key of the object that they
describe.

Turns slice events into keys to sync, and planned creates, updates and deletes into requests.

Holds: events that show this process's own writes queue no key; a cache that is older than these
       writes is recognized as stale.

Mirrors  kubernetes v1.25 pkg/controller/endpointslice and endpointslicemirroring:
         onEndpointSliceAdd, -Update, -Delete, finalize.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from actors.controllers.endpointslice.decide import Changes, SliceTracker
from actors.controllers.shared.pod_owners import is_terminating_refusal
from actors.controllers.shared.shell import Env
from sim.api.objects import key_of
from sim.api.types import Obj
from sim.client import Client, ItemExponential, MaxOf, SharedBucket, WorkQueue
from sim.dataclass import dataclass
from sim.kernel.measure import count
from sim.units import SECOND

RESOURCE = "endpointslices"
MAX_RETRIES = 15  # endpointslice_controller.go and endpointslicemirroring_controller.go: maxRetries
BACKOFF_US, BACKOFF_MAX_US = 1 * SECOND, 100 * SECOND  # defaultSyncBackOff, maxSyncBackOff of both


def slice_queue(env: Env, name: str) -> WorkQueue:
    """A work queue with the retry delays that both slice controllers use."""
    limiter = MaxOf(ItemExponential(BACKOFF_US, BACKOFF_MAX_US), SharedBucket(10, 100))
    return WorkQueue(env.ctx, name, limiter)


@dataclass(slots=True)
class Written:
    """Result of sending changes, up to the first failed request.

    error: text of the failed request
    stored: (slice as sent, slice as stored) for each create and update
    deleted: names of deleted slices
    dropped: True if a create was rejected because the namespace is being deleted
    """

    error: str | None = None
    stored: list[tuple[Obj, Obj]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    dropped: bool = False


class OwnSlices:
    """The slices that one controller manages.

    manager: value of the managed-by label on these slices
    what: kind of the described object, for error messages
    queue_later: called with a key when another client has changed slices of the key
    """

    def __init__(
        self, env: Env, client: Client, manager: str, what: str, queue_later: Callable[[str], None]
    ) -> None:
        self._client = client
        self._manager = manager
        self._what = what
        kind = "endpoint_slice" if what == "Service" else "endpoint_slice_mirroring"
        self._changes, self._kernel = f"{kind}_controller_changes", env.ctx.kernel
        self._queue_later = queue_later
        self._labels = env.names.label_managed_by, env.names.label_service_name
        self._slices = env.informers[RESOURCE]
        self._tracker = SliceTracker()
        self._api_version = env.scheme.resource(RESOURCE).api_version
        self._index = f"slices of {manager}"
        self._slices.add_index(self._index, self._keys_of, ("metadata", "labels"))
        self._slices.on(add=self._changed, update=self._updated, delete=self._deleted)

    def _keys_of(self, piece: Obj) -> tuple[str, ...]:
        """The key of the object that the slice describes; empty if another controller manages the
        slice.
        """
        managed_by, shows = self._labels
        labels = piece["metadata"].get("labels") or {}
        name = labels.get(shows)
        if labels.get(managed_by) != self._manager or not name:
            return ()
        return (f"{piece['metadata']['namespace']}/{name}",)

    def of(self, key: str) -> list[Obj]:
        """The slices of a key in the cache, ordered by name."""
        return sorted(self._slices.by_index(self._index, key), key=key_of)

    def is_stale(self, key: str, pieces: list[Obj]) -> bool:
        """True if these slices, read from the cache, are older than this process's own writes."""
        return self._tracker.is_stale(key, pieces)

    def forget(self, key: str) -> None:
        """Drop the record of own writes for a key."""
        self._tracker.forget(key)

    # --- handlers ---------------------------------------------------------------------------------

    def _changed(self, piece: Obj) -> None:
        for key in self._keys_of(piece):
            if self._tracker.is_news(key, piece):
                self._queue_later(key)

    def _updated(self, old: Obj, new: Obj) -> None:
        before, after = self._keys_of(old), self._keys_of(new)
        if before == after:
            self._changed(new)
        else:
            for key in (*before, *after):
                self._queue_later(key)

    def _deleted(self, piece: Obj) -> None:
        for key in self._keys_of(piece):
            if self._tracker.was_unexpected(key, piece):
                self._queue_later(key)

    # --- writes -----------------------------------------------------------------------------------

    async def write(self, key: str, changes: Changes) -> Written:
        """Send creates, updates and deletes in this order, until one fails."""
        done = Written()
        for piece in changes.create:
            namespace = piece["metadata"]["namespace"]
            reply = await self._client.create(RESOURCE, namespace, {**piece, "apiVersion": self._api_version})
            if is_terminating_refusal(reply):
                done.dropped = True
                return done
            if not reply.ok:
                done.error = f"failed to create EndpointSlice for {self._what} {key}: {reply.message}"
                return done
            count(self._kernel, self._changes, "create")
            self._note(key, piece, reply.obj, done)
        for piece in changes.update:
            reply = await self._client.update(RESOURCE, {**piece, "apiVersion": self._api_version})
            if not reply.ok:
                name = piece["metadata"]["name"]
                done.error = f"failed to update {name} EndpointSlice for {self._what} {key}: {reply.message}"
                return done
            count(self._kernel, self._changes, "update")
            self._note(key, piece, reply.obj, done)
        for piece in changes.delete:
            refused = await self.delete(key, piece)
            if refused:
                done.error = f"failed to delete {refused}"
                return done
            done.deleted.append(piece["metadata"]["name"])
        return done

    def _note(self, key: str, sent: Obj, stored: Obj, done: Written) -> None:
        self._tracker.written(key, stored)
        done.stored.append((sent, stored))

    async def delete(self, key: str, piece: Obj) -> str:
        """Delete a slice; returns "" or an error text that begins with the slice's name."""
        namespace, name = piece["metadata"]["namespace"], piece["metadata"]["name"]
        reply = await self._client.delete(RESOURCE, namespace, name)
        if not reply.ok:
            return f"{name} EndpointSlice for {self._what} {key}: {reply.message}"
        count(self._kernel, self._changes, "delete")
        self._tracker.deleted(key, piece)
        return ""
