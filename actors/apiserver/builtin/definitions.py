"""The CustomResourceDefinitions that one replica serves besides the fixed kinds.

Turns commits of definitions into `Served`, once the replica's watch caches show them.

Holds: a commit takes effect at the instant from which a list from the cache shows it.  Watches of a
resource that is no longer served, or is served differently, end.  Reads change no state, so that
discovery may be read from outside a simulation at any time.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/customresource_handler.go
         (updateCustomResourceDefinition, removeDeadStorage).
"""

from __future__ import annotations

from collections import deque

from actors.apiserver.caches.watch_caches import Caches
from actors.apiserver.metrics.queues import DISCOVERY, OPENAPI, OPENAPI_V3, count_syncs
from actors.apiserver.ports import LocalStore
from sim.api.crd.served import CustomResource, Served
from sim.api.kinds.apiextensions.custom_resource_definition.lifecycle import ESTABLISHED, is_true
from sim.api.scheme.scheme import Scheme
from sim.api.store import Change, Page, Range
from sim.api.types import Obj
from sim.api.watch.cache_watch import CacheWatch
from sim.api.watch.horizon import NEVER_US
from sim.kernel import Context
from sim.units import SECOND

DEFINITIONS = "customresourcedefinitions"
LOCAL = "k8s_internal_local_delegation_chain_0000000002"  # the APIService of definitions
DRAIN_US = 1 * SECOND  # tearDown: time for requests that still use the old storage


class Definitions:
    """The custom resources of one incarnation of a replica (`Scheme.more`)."""

    def __init__(self, ctx: Context, store: LocalStore, caches: Caches, scheme: Scheme) -> None:
        self._caches, self._kernel, self._name = caches, ctx.kernel, ctx.name
        resource = scheme.resource(DEFINITIONS)
        self._cache = caches.of(resource)
        page = store.range(Range(resource.prefix))
        assert isinstance(page, Page)
        self._found: dict[str, Obj] = {item.key: item.obj for item in page.items}
        self._pending: deque[Change] = deque()
        self.served = Served(self._sorted())
        ctx.on_stop(store.subscribe(resource.prefix, self._changed))
        caches.horizon.moved.append(self._moved)

    def _sorted(self) -> list[Obj]:
        return [self._found[key] for key in sorted(self._found)]

    def _changed(self, change: Change) -> None:
        self._pending.append(change)
        self._schedule_for(change)

    def _schedule_for(self, change: Change) -> None:
        due_us = self._caches.horizon.due_us(change.at_us)
        if due_us < NEVER_US:
            self._caches.timers.call_at(max(due_us, self._caches.timers.now_us()), self._apply_visible)

    def _moved(self) -> None:
        """Schedule the pending changes again: the lag of the caches has changed."""
        for change in self._pending:
            self._schedule_for(change)

    def _apply_visible(self, _: object) -> None:
        """Apply the changes that the cache shows by now."""
        revision = self._cache.revision()
        before, seen = self.served, False
        while self._pending and self._pending[0].rev <= revision:
            change = self._pending.popleft()
            seen = True
            self._count(change)
            if change.deleted:
                self._found.pop(change.item.key, None)
            else:
                self._found[change.item.key] = change.item.obj
        if seen:
            self.served = Served(self._sorted())
            self._renew(before)

    def _count(self, change: Change) -> None:
        """Count the documents that a change renews (apiextensions pkg/controller/openapi)."""
        meters = self._kernel.meters
        if meters is None:
            return
        count_syncs(self._kernel, self._name, DISCOVERY, OPENAPI, OPENAPI_V3)
        before, after = self._found.get(change.item.key), None if change.deleted else change.item.obj
        was = before is not None and is_true(before, ESTABLISHED)
        now = after is not None and is_true(after, ESTABLISHED)
        reason = "update" if was and now else "add" if now else "remove"
        known = after or before
        if known is None or not (was or now):
            return
        if was and now and before is not None and after is not None and before["spec"] == after["spec"]:
            return
        name, spec = known["metadata"]["name"], known["spec"]
        meters.count("apiextensions_openapi_v2_regeneration_count", (name, reason))
        meters.count("aggregator_openapi_v2_regeneration_count", (LOCAL, "update"))
        meters.count("aggregator_openapi_v2_regeneration_duration", ("update",), 0)
        for version in spec["versions"]:
            if version["served"]:
                labels = spec["group"], version["name"], name, reason
                meters.count("apiextensions_openapi_v3_regeneration_count", labels)

    def _renew(self, before: Served) -> None:
        """Restart the caches of resources that are removed or served differently.

        Upstream replaces their storage, so that the new window is empty; watches of the old one
        end a moment later (tearDown).
        """
        timers = self._caches.timers
        for resource in before.resources:
            after = self.served.find(resource.group, resource.version, resource.plural)
            if after is None or _is_other(resource, after):
                cache = self._caches.of(resource)
                cache.restart()
                timers.call_at(timers.now_us() + DRAIN_US, _end, cache.watches())


def _end(watches: list[CacheWatch]) -> None:
    for watch in watches:
        watch.end()


def _is_other(old: CustomResource, new: CustomResource) -> bool:
    """Return True if more than the conditions of a definition has changed."""
    if old is new:
        return False
    before, after = old.definition, new.definition
    names = [(definition.get("status") or {}).get("acceptedNames") for definition in (before, after)]
    return names[0] != names[1] or before["spec"] != after["spec"]
