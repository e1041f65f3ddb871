"""EndpointSlice mirroring loop: Endpoints that somebody wrote for a Service without selector, shown as slices too.

Turns such an Endpoints object and the slices that mirror it into creates, updates and deletes of slices.

Holds: nothing is decided on a cache older than this process's own writes; slices of what is not, or no more, to be mirrored go.

Mirrors  kubernetes v1.25 pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go.
"""

from __future__ import annotations

from actors.controllers import endpointslicemirroring_decide as decide
from actors.controllers.endpoint_pods import is_selecting
from actors.controllers.endpointslice import (
    BACKOFF_MAX_US,
    BACKOFF_US,
    MAX_RETRIES,
    RESOURCE,
    SERVICE_INDEX,
)
from actors.controllers.endpointslice_decide import Changes, SliceTracker
from actors.controllers.pod_owners import is_terminating_refusal, key_of, owner_ref
from actors.controllers.shell import Env, run_workers
from sim.client import ItemExponential, MaxOf, SharedBucket, WorkQueue
from sim.machinery.api import Obj

MIRROR_INDEX = "mirrored-" + SERVICE_INDEX


async def start(env: Env) -> None:
    loop = EndpointSliceMirroringLoop(env)
    await env.informers.start_and_sync()
    workers = env.options.mirroring_concurrent_service_endpoint_syncs
    run_workers(env, loop.queue, loop.sync, workers, MAX_RETRIES)


class EndpointSliceMirroringLoop:
    def __init__(self, env: Env) -> None:
        self.env = env
        self.names = env.names
        self.client = env.client("endpointslicemirroring-controller")
        self.recorder = env.recorder("endpoint-slice-mirroring-controller", self.client)
        limiter = MaxOf(ItemExponential(BACKOFF_US, BACKOFF_MAX_US), SharedBucket(10, 100))
        self.queue: WorkQueue = WorkQueue(env.ctx, "endpoint_slice_mirroring", limiter)
        self.endpoints = env.informers["endpoints"]
        self.services = env.informers["services"]
        self.slices = env.informers[RESOURCE]
        self.tracker = SliceTracker()
        self.api_version = env.scheme.resource(RESOURCE).api_version
        self.slices.add_index(MIRROR_INDEX, self._mirror_values, ("metadata", "labels"))
        self.endpoints.on(add=self._written, update=self._rewritten, delete=self._written)
        self.services.on(add=self._served, update=self._served_otherwise, delete=self._served)
        self.slices.on(add=self._slice_changed, update=self._slice_updated, delete=self._slice_deleted)

    # --- handlers -----------------------------------------------------------------------------------------

    def _queue_later(self, key: str) -> None:
        self.queue.add_after_us(key, self.env.options.mirroring_endpointslice_updates_batch_period_us)

    def _written(self, endpoints: Obj) -> None:
        if decide.is_mirrored(endpoints, self.names):
            self._queue_later(key_of(endpoints))

    def _rewritten(self, old: Obj, new: Obj) -> None:
        self._written(new if decide.is_mirrored(new, self.names) else old)

    def _served(self, service: Obj) -> None:
        if not is_selecting(service):
            self._queue_later(key_of(service))

    def _served_otherwise(self, old: Obj, new: Obj) -> None:
        if is_selecting(old) is not is_selecting(new):
            self._queue_later(key_of(new))

    def _mirror_values(self, piece: Obj) -> tuple[str, ...]:
        """Key of the Endpoints object that this slice mirrors."""
        labels = piece["metadata"].get("labels") or {}
        if labels.get(self.names.label_managed_by) != self.names.managed_by_mirroring_controller:
            return ()
        name = labels.get(self.names.label_service_name)
        return (f"{piece['metadata']['namespace']}/{name}",) if name else ()

    def _slice_changed(self, piece: Obj) -> None:
        for key in self._mirror_values(piece):
            if self.tracker.is_news(key, piece):
                self._queue_later(key)

    def _slice_updated(self, old: Obj, new: Obj) -> None:
        before, after = self._mirror_values(old), self._mirror_values(new)
        if before == after:
            self._slice_changed(new)
        else:
            for key in (*before, *after):
                self._queue_later(key)

    def _slice_deleted(self, piece: Obj) -> None:
        for key in self._mirror_values(piece):
            if self.tracker.was_unexpected(key, piece):
                self._queue_later(key)

    # --- sync ---------------------------------------------------------------------------------------------

    async def sync(self, key: str) -> str | None:
        endpoints, service = self.endpoints.get(key), self.services.get(key)
        pieces = sorted(self.slices.by_index(MIRROR_INDEX, key), key=key_of)
        mirrored = endpoints is not None and decide.is_mirrored(endpoints, self.names)
        if endpoints is None or not mirrored or service is None or is_selecting(service):
            self.tracker.forget(key)
            return await self._delete_all(key, pieces)
        if self.tracker.is_stale(key, pieces):
            return "EndpointSlice informer cache is out of date"
        limit = self.env.options.mirroring_max_endpoints_per_subset
        ref = owner_ref(self.env, "endpoints", endpoints)
        changes, skipped = decide.reconcile(decide.wanted_of(endpoints, ref, self.names, limit), pieces)
        if skipped:
            text = (
                f"A max of {limit} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{skipped} addresses were skipped"
            )
            self.recorder.event(endpoints, "Warning", "TooManyAddressesToMirror", text)
        return await self._write(key, changes)

    async def _delete_all(self, key: str, pieces: list[Obj]) -> str | None:
        refused = []
        for piece in pieces:
            reply = await self.client.delete(
                RESOURCE, piece["metadata"]["namespace"], piece["metadata"]["name"]
            )
            if not reply.ok:
                refused.append(reply.message)
        if not refused:
            return None
        return (
            f"error(s) deleting {len(refused)}/{len(pieces)} EndpointSlices for {key} Endpoints, "
            f"including: {refused[0]}"
        )

    async def _write(self, key: str, changes: Changes) -> str | None:
        """Creates, updates, deletes, in this order."""
        for piece in changes.create:
            namespace = piece["metadata"]["namespace"]
            reply = await self.client.create(RESOURCE, namespace, {**piece, "apiVersion": self.api_version})
            if is_terminating_refusal(reply):
                return None
            if not reply.ok:
                return f"failed to create EndpointSlice for Endpoints {key}: {reply.message}"
            self.tracker.written(key, reply.obj)
        for piece in changes.update:
            reply = await self.client.update(RESOURCE, {**piece, "apiVersion": self.api_version})
            if not reply.ok:
                name = piece["metadata"]["name"]
                return f"failed to update {name} EndpointSlice for Endpoints {key}: {reply.message}"
            self.tracker.written(key, reply.obj)
        for piece in changes.delete:
            name = piece["metadata"]["name"]
            reply = await self.client.delete(RESOURCE, piece["metadata"]["namespace"], name)
            if not reply.ok:
                return f"failed to delete {name} EndpointSlice for Endpoints {key}: {reply.message}"
            self.tracker.deleted(key, piece)
        return None
