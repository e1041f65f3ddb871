"""EndpointSlice mirroring controller: copies Endpoints of a Service without selector into slices.

Turns an Endpoints object that a user wrote and the slices that mirror it into creates, updates and
deletes of slices.

Holds: a sync acts only on a cache that shows this process's own writes; slices of Endpoints that
       are not to be mirrored are deleted; Endpoints being deleted get no new slice.

Mirrors  kubernetes v1.25
         pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go.
"""

from __future__ import annotations

from actors.controllers.endpointslice.decide import Changes
from actors.controllers.endpointslice.own_slices import MAX_RETRIES, OwnSlices, slice_queue
from actors.controllers.endpointslicemirroring import decide
from actors.controllers.shared.endpoint_pods import is_selecting
from actors.controllers.shared.metering import endpoint_changes
from actors.controllers.shared.pod_owners import owner_ref
from actors.controllers.shared.shell import Env, run_workers
from sim.api.objects import is_deleting, key_of
from sim.api.types import Obj
from sim.kernel.measure import observe
from sim.units import SECOND


async def start(env: Env) -> None:
    """Run the EndpointSlice mirroring controller until its process ends."""
    loop = EndpointSliceMirroringLoop(env)
    await env.informers.start_and_sync()
    workers = env.options.mirroring_concurrent_service_endpoint_syncs
    run_workers(env, loop.queue, loop.sync, workers, MAX_RETRIES)


PREFIX = "endpoint_slice_mirroring_controller_"


class EndpointSliceMirroringLoop:
    """Shell of the controller: handlers, queue, and the sync of one Endpoints object."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.names = env.names
        self.client = env.client("endpointslicemirroring-controller")
        self.recorder = env.recorder("endpoint-slice-mirroring-controller", self.client)
        self.queue = slice_queue(env, "endpoint_slice_mirroring")
        self.endpoints = env.informers["endpoints"]
        self.services = env.informers["services"]
        manager = self.names.managed_by_mirroring_controller
        self.slices = OwnSlices(env, self.client, manager, "Endpoints", self._queue_later)
        self.endpoints.on(
            add=self._endpoints_changed, update=self._endpoints_updated, delete=self._endpoints_changed
        )
        self.services.on(
            add=self._service_changed, update=self._service_updated, delete=self._service_changed
        )

    # --- handlers ---------------------------------------------------------------------------------

    def _queue_later(self, key: str) -> None:
        self.queue.add_after_us(key, self.env.options.mirroring_endpointslice_updates_batch_period_us)

    def _endpoints_changed(self, endpoints: Obj) -> None:
        if decide.is_mirrored(endpoints, self.names):
            self._queue_later(key_of(endpoints))

    def _endpoints_updated(self, old: Obj, new: Obj) -> None:
        self._endpoints_changed(new if decide.is_mirrored(new, self.names) else old)

    def _service_changed(self, service: Obj) -> None:
        if not is_selecting(service):
            self._queue_later(key_of(service))

    def _service_updated(self, old: Obj, new: Obj) -> None:
        if is_selecting(old) is not is_selecting(new):
            self._queue_later(key_of(new))

    # --- sync -------------------------------------------------------------------------------------

    async def sync(self, key: str) -> str | None:
        """Bring the slices of one Endpoints object up to date; returns an error text or None."""
        begun_us = self.env.ctx.now_us()
        error = await self._sync(key)
        took_us = self.env.ctx.now_us() - begun_us
        observe(self.env.ctx.kernel, f"{PREFIX}endpoints_sync_duration", took_us / SECOND)
        return error

    async def _sync(self, key: str) -> str | None:
        endpoints, service = self.endpoints.get(key), self.services.get(key)
        pieces = self.slices.of(key)
        mirrored = endpoints is not None and decide.is_mirrored(endpoints, self.names)
        if endpoints is None or not mirrored or service is None or is_selecting(service):
            self.slices.forget(key)
            return await self._delete_all(key, pieces)
        if self.slices.is_stale(key, pieces):
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
        self._measure(changes, pieces, skipped)
        if is_deleting(endpoints):
            changes.create = []  # the garbage collector would delete them again
        return (await self.slices.write(key, changes)).error

    def _measure(self, changes: Changes, pieces: list[Obj], skipped: int) -> None:
        """Count the changes for metrics."""
        kernel = self.env.ctx.kernel
        if kernel.meters is None:
            return
        moved = endpoint_changes(pieces, [*changes.create, *changes.update], changes.delete)
        observe(kernel, f"{PREFIX}addresses_skipped_per_sync", skipped)
        observe(kernel, f"{PREFIX}endpoints_added_per_sync", moved.added)
        observe(kernel, f"{PREFIX}endpoints_updated_per_sync", moved.updated)
        observe(kernel, f"{PREFIX}endpoints_removed_per_sync", moved.removed)

    async def _delete_all(self, key: str, pieces: list[Obj]) -> str | None:
        refused = [why for piece in pieces if (why := await self.slices.delete(key, piece))]
        if not refused:
            return None
        return (
            f"error(s) deleting {len(refused)}/{len(pieces)} EndpointSlices for {key} Endpoints, "
            f"including: {refused[0]}"
        )
