"""EndpointSlice controller: writes a Service's endpoints into slices of at most 100 endpoints.

Turns a Service, the pods that it selects and its present slices into creates, updates and deletes
of slices.

Holds: a sync acts only on a cache that shows this process's own writes; endpoints on unknown
       nodes are left out and the key is retried, while the other endpoints are written.

Mirrors  kubernetes v1.25 pkg/controller/endpointslice/{endpointslice_controller.go,reconciler.go}.
Differs  zone shares are computed when a Service enables topology hints, from the nodes at that
         time (upstream computes them on each node event).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from actors.controllers.endpointslice import decide
from actors.controllers.endpointslice.own_slices import MAX_RETRIES, OwnSlices, slice_queue
from actors.controllers.endpointslice.topology_hints import (
    Counts,
    Shares,
    hints_enabled,
    is_overloaded,
    shares_of,
)
from actors.controllers.shared.endpoint_pods import LastInputs, ServicePods, TriggerTimes, is_selecting
from actors.controllers.shared.metering import endpoint_changes
from actors.controllers.shared.pod_owners import owner_ref
from actors.controllers.shared.shell import Env, aggregate, run_workers
from sim.api.objects import is_deleting, is_ready, key_of, revision_of
from sim.api.types import Obj
from sim.client import unmoved
from sim.kernel.measure import count, observe
from sim.options.features.gates import TERMINATING_CONDITION, TOPOLOGY_HINTS, enabled
from sim.units import SECOND

PREFIX = "endpoint_slice_controller_"
STALE = "EndpointSlice informer cache is out of date"
SYNC_DELAY_US = 1 * SECOND  # endpointSliceChangeMinSyncDelay
Revisions = dict[str, str]  # slice name -> resource version


async def start(env: Env) -> None:
    """Run the EndpointSlice controller until its process ends."""
    loop = EndpointSliceLoop(env)
    await env.informers.start_and_sync()
    loop.watcher.attribute_causes()
    run_workers(env, loop.queue, loop.sync, env.options.concurrent_service_endpoint_syncs, MAX_RETRIES)


class EndpointSliceLoop:
    """Shell of the controller: informer handlers that queue Services, and the sync of one Service."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.names = env.names
        self.client = env.client("endpointslice-controller")
        self.recorder = env.recorder("endpoint-slice-controller", self.client)
        self.queue = slice_queue(env, "endpointslice")
        self.batch_us = env.options.endpointslice_updates_batch_period_us
        self.services = env.informers["services"]
        manager = self.names.managed_by_endpointslice_controller
        self.slices = OwnSlices(env, self.client, manager, "Service", self._queue_later)
        self.nodes = env.informers["nodes"]
        self.triggers = TriggerTimes()
        self.last_inputs = LastInputs()
        self._node_epoch = 0  # grows when a node is added or deleted or its labels change
        self._shares: Shares | None = None  # None: to be recomputed from the nodes
        states = enabled(env.options.feature_gates, TERMINATING_CONDITION)
        self._view = partial(decide.view_of, states=states)
        self._gives_hints = enabled(env.options.feature_gates, TOPOLOGY_HINTS)
        self._hinted: dict[str, dict[str, Counts]] = {}  # Service key -> address family -> counts
        self.watcher = ServicePods(self.services, env.informers["pods"], self.queue, self.batch_us)
        self.nodes.on(self._node_set_changed, self._node_changed, self._node_set_changed, beat=unmoved)
        self.services.on(add=self._changed, update=lambda old, new: self._changed(new), delete=self._changed)

    # --- handlers ---------------------------------------------------------------------------------

    def _changed(self, service: Obj) -> None:
        self.queue.add(key_of(service))

    def _node_set_changed(self, _: Obj) -> None:
        self._node_epoch += 1
        self._redistribute()

    def _node_changed(self, old: Obj, new: Obj) -> None:
        if old["metadata"].get("labels") is not new["metadata"].get("labels"):
            self._node_epoch += 1
        if is_ready(old) is not is_ready(new):
            self._redistribute()

    def _redistribute(self) -> None:
        """Recompute zone shares and queue each Service with hints that overload a zone now."""
        self._shares = None
        for key, by_family in self._hinted.items():
            if any(is_overloaded(counts, self._shares_now()) for counts in by_family.values()):
                self.queue.add(key)

    def _shares_now(self) -> Shares:
        if self._shares is None:
            self._shares = shares_of(self.nodes.objects.values(), self.names)
        return self._shares

    def _queue_later(self, key: str) -> None:
        self.queue.add_after_us(key, max(SYNC_DELAY_US, self.batch_us))

    # --- sync -------------------------------------------------------------------------------------

    async def sync(self, key: str) -> str | None:
        """Bring the slices of one Service up to date; returns an error text or None."""
        error = await self._sync(key)
        result = "stale" if error == STALE else "success" if error is None else "error"
        count(self.env.ctx.kernel, f"{PREFIX}syncs", result)
        return error

    async def _sync(self, key: str) -> str | None:
        service = self.services.get(key)
        if service is None:
            self.triggers.forget(key)
            self.slices.forget(key)
            self.watcher.forget(key)
            self.last_inputs.forget(key)
            self._hinted.pop(key, None)
            return None
        if not is_selecting(service):
            return None
        views = self.watcher.views(service, self._view)
        pieces = [piece for piece in self.slices.of(key) if not is_deleting(piece)]
        if self.slices.is_stale(key, pieces):
            return STALE
        trigger = self.triggers.compute(service, {v.name: v.trigger_us for v in views if v.trigger_us})
        placed = [view for view in views if view.endpoints]
        hinted = self._gives_hints and hints_enabled(service, self.names)
        shares = self._shares_now() if hinted else None
        node_epoch, left = (
            self._node_epoch,
            {piece["metadata"]["name"]: revision_of(piece) for piece in pieces},
        )
        if self.last_inputs.unchanged(key, service, placed, (node_epoch, left, shares)):
            return None
        error = await self._reconcile(service, placed, pieces, trigger, left, shares)
        if error is None:
            self.last_inputs.record(key, service, placed, (node_epoch, left, shares))
        if error is not None:
            text = f"Error updating Endpoint Slices for Service {key}: {error}"
            self.recorder.event(service, "Warning", "FailedToUpdateEndpointSlices", text)
        return error

    async def _reconcile(
        self,
        service: Obj,
        views: Sequence[decide.PodView],
        pieces: Sequence[Obj],
        trigger: str | None,
        left: Revisions,
        shares: Shares | None,
    ) -> str | None:
        """Reconcile the slices of each address family; returns an error text or None.

        left: revisions of the slices, updated in place to those after the writes
        shares: zone shares for topology hints; None if the Service has hints disabled
        """
        names = self.names
        wanted = decide.Wanted(
            service,
            owner_ref(self.env, "services", service),
            decide.slice_labels(service, names),
            trigger,
            names.annotation_last_change_trigger_time,
            self.env.options.max_endpoints_per_slice,
            (names.label_headless, names.label_service_name, names.label_managed_by),
        )
        families = decide.families_of(service)
        self.nodes.pull()
        nodes = decide.Nodes(self._node_epoch, self._labels_of)
        errors: list[str] = []
        for family in families:
            groups, missing = decide.desired_groups(service, views, family, nodes, names.label_zone)
            own = [piece for piece in pieces if piece["addressType"] == family]
            changes = decide.reconcile(wanted, groups, own, family, shares)
            self._note_hints(key_of(service), family, changes.hinted)
            self._measure(changes, own, hinted=shares is not None)
            refused = await self._write(service, changes, left)
            errors += missing if refused is None else [*missing, refused]
        for piece in pieces:
            if piece["addressType"] not in families:
                unwanted = await self.slices.delete(key_of(service), piece)
                if unwanted:
                    errors.append(f"error deleting {unwanted}")
                else:
                    left.pop(piece["metadata"]["name"], None)
        return aggregate(errors)

    def _measure(self, changes: decide.Changes, pieces: Sequence[Obj], *, hinted: bool) -> None:
        """Count the changes of one address family for metrics."""
        kernel = self.env.ctx.kernel
        if kernel.meters is None:
            return
        written = [*changes.create, *changes.update]
        moved = endpoint_changes(pieces, written, changes.delete)
        observe(kernel, f"{PREFIX}endpoints_added_per_sync", moved.added)
        observe(kernel, f"{PREFIX}endpoints_removed_per_sync", moved.removed)
        topology = "Auto" if hinted else "Disabled"
        changed = len(written) + len(changes.delete)
        observe(kernel, f"{PREFIX}endpointslices_changed_per_sync", changed, topology)

    def _note_hints(self, key: str, family: str, counts: Counts) -> None:
        if counts:
            self._hinted.setdefault(key, {})[family] = counts
        elif key in self._hinted:
            self._hinted[key].pop(family, None)

    def _labels_of(self, node: str) -> Obj | None:
        """Labels of a node in the cache; None if the node is unknown.

        A revision with nothing but new heartbeat times has the same labels, so it is not read.
        """
        known = self.nodes.item(node)
        return None if known is None else known.peek("metadata", "labels") or {}

    async def _write(self, service: Obj, changes: decide.Changes, left: Revisions) -> str | None:
        """Send the changes; returns an error text or None.

        A Service being deleted gets no new slice.
        """
        if is_deleting(service):
            changes.create = []
        done = await self.slices.write(key_of(service), changes)
        for sent, stored in done.stored:
            same = stored.get("endpoints") == sent.get("endpoints")
            left[stored["metadata"]["name"]] = revision_of(stored) if same else ""
        for name in done.deleted:
            left.pop(name, None)
        if done.dropped:
            left[""] = ""  # equals no real set of slices, so the next sync does not skip its work
        return done.error
