"""The slices that one loop writes, among all that there are.

Turns what becomes of them into keys to be looked at again, and slices to create, update and delete into requests.

Holds: what this process wrote itself is no news to it; it knows when its cache is older than that.

Mirrors  kubernetes v1.25 pkg/controller/endpointslice and endpointslicemirroring: onEndpointSliceAdd, -Update, -Delete, finalize.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from actors.controllers.endpointslice_decide import Changes, SliceTracker
from actors.controllers.pod_owners import is_terminating_refusal
from actors.controllers.shell import Env
from sim.client import Client, ItemExponential, MaxOf, SharedBucket, WorkQueue
from sim.machinery.api import Obj
from sim.machinery.objects import key_of
from sim.units import SECOND

RESOURCE = "endpointslices"
MAX_RETRIES = 15  # endpointslice_controller.go and endpointslicemirroring_controller.go: maxRetries
BACKOFF_US, BACKOFF_MAX_US = 1 * SECOND, 100 * SECOND  # defaultSyncBackOff, maxSyncBackOff of both


def slice_queue(env: Env, name: str) -> WorkQueue:
    """As both loops have it."""
    limiter = MaxOf(ItemExponential(BACKOFF_US, BACKOFF_MAX_US), SharedBucket(10, 100))
    return WorkQueue(env.ctx, name, limiter)


@dataclass(slots=True)
class Written:
    """What came of changes, up to the first that failed.

    stored: what was sent, and what is stored then; deleted: names
    dropped: the namespace is ending, nothing is created there any more
    """

    error: str | None = None
    stored: list[tuple[Obj, Obj]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    dropped: bool = False


class OwnSlices:
    """By the key of what they show.

    manager: what their label says of who writes them; what: the kind of what they show, in messages
    queue_later: called with the key whose slices others have changed
    """

    def __init__(
        self, env: Env, client: Client, manager: str, what: str, queue_later: Callable[[str], None]
    ) -> None:
        self._client = client
        self._manager = manager
        self._what = what
        self._queue_later = queue_later
        self._labels = env.names.label_managed_by, env.names.label_service_name
        self._slices = env.informers[RESOURCE]
        self._tracker = SliceTracker()
        self._api_version = env.scheme.resource(RESOURCE).api_version
        self._index = f"slices of {manager}"
        self._slices.add_index(self._index, self._keys_of, ("metadata", "labels"))
        self._slices.on(add=self._changed, update=self._updated, delete=self._deleted)

    def _keys_of(self, piece: Obj) -> tuple[str, ...]:
        """The key of what this slice shows, if it is one of ours."""
        managed_by, shows = self._labels
        labels = piece["metadata"].get("labels") or {}
        name = labels.get(shows)
        if labels.get(managed_by) != self._manager or not name:
            return ()
        return (f"{piece['metadata']['namespace']}/{name}",)

    def of(self, key: str) -> list[Obj]:
        """By name."""
        return sorted(self._slices.by_index(self._index, key), key=key_of)

    def is_stale(self, key: str, pieces: list[Obj]) -> bool:
        """Whether these, from the cache, are older than what this process wrote."""
        return self._tracker.is_stale(key, pieces)

    def forget(self, key: str) -> None:
        self._tracker.forget(key)

    # --- handlers -----------------------------------------------------------------------------------------

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

    # --- writes -------------------------------------------------------------------------------------------

    async def write(self, key: str, changes: Changes) -> Written:
        """Creates, updates, deletes, in this order, up to the first that fails."""
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
            self._note(key, piece, reply.obj, done)
        for piece in changes.update:
            reply = await self._client.update(RESOURCE, {**piece, "apiVersion": self._api_version})
            if not reply.ok:
                name = piece["metadata"]["name"]
                done.error = f"failed to update {name} EndpointSlice for {self._what} {key}: {reply.message}"
                return done
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
        """What was not deleted and why; "": it is."""
        namespace, name = piece["metadata"]["namespace"], piece["metadata"]["name"]
        reply = await self._client.delete(RESOURCE, namespace, name)
        if not reply.ok:
            return f"{name} EndpointSlice for {self._what} {key}: {reply.message}"
        self._tracker.deleted(key, piece)
        return ""
