"""The APIServices of custom resources: one for each group version that a definition serves.

Turns changes of definitions and of APIServices into creates, updates and deletes of the APIServices
that are managed here, which a label marks.

Holds: an APIService without the label is never changed.  While no definition changes, nothing is
scheduled.  All replicas do the same; the later one writes nothing or meets a conflict.

Mirrors  kubernetes v1.25 pkg/controlplane/controller/crdregistration/
         crdregistration_controller.go; kube-aggregator pkg/controllers/autoregister/
         autoregister_controller.go (checkAPIService).
Differs  It reads the storage after the cache lag has passed since a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from actors.apiserver.builtin.own_requests import write
from actors.apiserver.ports import LocalStore, Server
from sim.api.aggregation.delegation import DEFINITION_PRIORITY
from sim.api.store import Change, Page, Range
from sim.api.types import Obj, Reply, Verb
from sim.ident import Names
from sim.kernel import Context
from sim.units import SECOND

DEFINITIONS, SERVICES = "customresourcedefinitions", "apiservices"
MANAGED, VERSION_PRIORITY = "true", 100
RETRY_US, RETRY_MAX_US = 5_000, 1000 * SECOND  # workqueue's default: doubled with each failure

# One write: the verb, and the object.
Write = tuple[Verb, Obj]


# --- decisions ------------------------------------------------------------------------------------


def group_versions(definition: Obj) -> Iterator[tuple[str, str]]:
    """The group versions that a definition serves."""
    spec = definition["spec"]
    for version in spec.get("versions") or ():
        if version.get("served"):
            yield spec["group"], version["name"]


def wanted(definitions: Sequence[Obj], group: str, version: str, names: Names) -> Obj | None:
    """The APIService of a group version; None if no definition serves it."""
    if all((group, version) not in group_versions(each) for each in definitions):
        return None
    spec = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": DEFINITION_PRIORITY,
        "versionPriority": VERSION_PRIORITY,
    }
    metadata = {"name": f"{version}.{group}", "labels": {names.label_automanaged: MANAGED}}
    return {
        "apiVersion": names.api_version("apiregistration", "v1"),
        "kind": "APIService",
        "metadata": metadata,
        "spec": spec,
    }


def decide(desired: Obj | None, current: Obj | None, names: Names) -> Write | None:
    """The write that brings an APIService to what is desired; None if there is nothing to do."""
    if current is None:
        return None if desired is None else ("create", desired)
    labels = current["metadata"].get("labels") or {}
    if labels.get(names.label_automanaged) != MANAGED:
        return None
    if desired is None:
        return "delete", current
    if current["spec"] == desired["spec"]:
        return None
    return "update", {**current, "spec": desired["spec"]}


# --- shell ----------------------------------------------------------------------------------------


class DefinitionServices:
    """The controller of one incarnation of a server."""

    def __init__(self, server: Server, store: LocalStore, ctx: Context) -> None:
        self._server, self._store, self._ctx = server, store, ctx
        self._failures: dict[str, int] = {}
        scheme = server.scheme
        for plural in (DEFINITIONS, SERVICES):
            ctx.on_stop(store.subscribe(scheme.prefix(plural), self._changed))
        for definition in self._all(DEFINITIONS):
            self._plan_definition(definition)
        for service in self._all(SERVICES):
            if self._is_managed(service):
                self._plan(service["metadata"]["name"])

    def _is_managed(self, obj: Obj) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return labels.get(self._server.scheme.names.label_automanaged) == MANAGED

    def _all(self, plural: str) -> list[Obj]:
        page = self._store.range(Range(self._server.scheme.prefix(plural)))
        return [item.obj for item in page.items] if isinstance(page, Page) else []

    def _changed(self, change: Change) -> None:
        for item in (change.item, change.prev):
            if item is None:
                continue
            obj = item.obj
            if obj["kind"] == "APIService":
                if self._is_managed(obj):
                    self._plan(obj["metadata"]["name"])
            elif change.prev is None or change.deleted or change.prev.obj["spec"] != change.item.obj["spec"]:
                self._plan_definition(obj)

    def _plan_definition(self, definition: Obj) -> None:
        for group, version in group_versions(definition):
            self._plan(f"{version}.{group}")

    def _plan(self, name: str, delay_us: int = 0) -> None:
        if self._ctx.alive:
            self._ctx.call_later_us(self._server.options.cache_lag_us + delay_us, self._sync, name)

    def _sync(self, name: str) -> None:
        scheme = self._server.scheme
        version, _, group = name.partition(".")
        item = self._store.get(scheme.key(SERVICES, "", name))
        desired = wanted(self._all(DEFINITIONS), group, version, scheme.names)
        found = decide(desired, None if item is None else item.obj, scheme.names)
        if found is not None:
            verb, obj = found

            def answered(reply: Reply) -> None:
                if reply.ok or reply.reason in ("AlreadyExists", "Conflict", "NotFound"):
                    self._failures.pop(name, None)
                    return
                failures = self._failures[name] = self._failures.get(name, -1) + 1
                self._plan(name, min(RETRY_US << min(failures, 20), RETRY_MAX_US))

            write(self._server, verb, SERVICES, obj, answered)
