"""The controller of CustomResourceDefinitions: names, conditions, and deletion of their objects.

Turns changes of definitions into writes of their status, in the order of `lifecycle` in
`sim.api.kinds.apiextensions.custom_resource_definition`.  The deletion of a definition deletes all
of its objects and then removes the finalizer.

Holds: no work is scheduled while no definition changes.  All replicas decide the same; the later
one writes nothing or meets a conflict.  A failed write is retried with growing delays.  After a
crash the next incarnation continues from the stored state.

Mirrors  apiextensions-apiserver v1.25 pkg/controller/{status,establish,apiapproval,finalizer}.
Differs  - It reads the storage after the cache lag has passed since a change.
         - With several replicas a definition is established 5 s after its names are accepted, as
           upstream does when their number is configured (`--apiserver-count`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from actors.apiserver.metrics.queues import (
    APPROVAL,
    ESTABLISHING,
    FINALIZING,
    NAMING,
    count_retry,
    count_syncs,
)
from actors.apiserver.ports import LocalStore, Server
from sim.api.crd import strategy as custom_kinds
from sim.api.kinds.apiextensions.custom_resource_definition import lifecycle as life
from sim.api.refusals import Refusal, Steps
from sim.api.schema.resource import CUSTOM, Resource
from sim.api.store import Answer, Change, Item, Page, Range
from sim.api.types import CONFLICT, NOT_FOUND, Obj, Reply, Request, UserInfo
from sim.api.verbs.call import Call, Registry
from sim.api.verbs.delete import DeleteOptions, delete_object
from sim.kernel import Context
from sim.units import SECOND, format_time

PLURAL = "customresourcedefinitions"
# customresource_handler.go: queueIfNotEstablished, with more than one server
ESTABLISH_US = 5 * SECOND
POLL_US, POLLED_US = 5 * SECOND, 60 * SECOND  # crd_finalizer.go: deleteInstances
RETRY_US, RETRY_MAX_US = 5_000, 1000 * SECOND  # workqueue's default: doubled with each failure


class DefinitionKeeper:
    """The controller of one incarnation."""

    def __init__(self, server: Server, store: LocalStore, registry: Registry, ctx: Context) -> None:
        self._server = server
        self._store = store
        self._registry = registry
        self._ctx = ctx
        self._resource = server.scheme.resource(PLURAL)
        names = server.scheme.names
        self._finalizer = names.finalizer_crd_cleanup
        self._user = UserInfo(names.user_apiserver, (names.group_masters, names.group_authenticated))
        # keys to sync, in this order; names are accepted one at a time
        self._due: dict[str, None] = {}
        self._busy = False
        self._failures: dict[str, int] = {}
        self._going: dict[str, int] = {}  # definitions that delete their objects, with the deadline
        ctx.on_stop(store.subscribe(self._resource.prefix, self._changed))
        for item in self._all():
            self._plan(item.obj["metadata"]["name"])

    def _all(self) -> list[Item]:
        page = self._store.range(Range(self._resource.prefix))
        return page.items if isinstance(page, Page) else []

    def _get(self, name: str) -> Obj | None:
        item = self._store.get(self._server.scheme.key(self._resource, "", name))
        return None if item is None else item.obj

    def _changed(self, change: Change) -> None:
        self._plan(change.item.key.rpartition("/")[2])

    def _plan(self, name: str) -> None:
        self._ctx.call_later_us(self._server.options.cache_lag_us, self._arrived, name)

    def _arrived(self, name: str) -> None:
        count_syncs(self._ctx.kernel, self._ctx.name, NAMING, APPROVAL)
        self._due[name] = None
        self._next()

    def _next(self, _: object = None) -> None:
        """Sync the due definitions until one needs a write."""
        while self._due and not self._busy and self._ctx.alive:
            name = next(iter(self._due))
            del self._due[name]
            self._look(name)

    def _now(self) -> str:
        return format_time(self._registry.wall_us())

    def _look(self, name: str) -> None:
        obj, now = self._get(name), self._now()
        if obj is None:
            self._failures.pop(name, None)
            self._reconsider(name)
            return
        if life.is_going(obj, self._finalizer) and name not in self._going:
            self._going[name] = 0
            count_syncs(self._ctx.kernel, self._ctx.name, FINALIZING)
            self._finalize(obj)
        made = life.named(obj, self._of_group(name), now)
        if made is not None:
            self._busy = True
            self._write(made, self._named)
            return
        made = life.approved(obj, now)
        if made is not None:
            self._write(made, lambda _: None)
        elif life.established(obj, now) is not None:
            count_syncs(self._ctx.kernel, self._ctx.name, ESTABLISHING)
            wait = ESTABLISH_US if self._server.options.replicas > 1 else 0
            self._ctx.call_later_us(wait, self._establish, name)

    def _of_group(self, name: str) -> list[Obj]:
        group = name.partition(".")[2]
        return [item.obj for item in self._all() if item.obj["metadata"]["name"].partition(".")[2] == group]

    def _reconsider(self, name: str) -> None:
        """Sync the other definitions of the group, since names may have become free."""
        for obj in self._of_group(name):
            if (other := obj["metadata"]["name"]) != name:
                self._due[other] = None

    def _named(self, obj: Obj | None) -> None:
        self._busy = False
        if obj is not None:
            self._reconsider(obj["metadata"]["name"])
        # Not called from here: refusals arrive at once, so calls would nest.
        self._ctx.call_later_us(0, self._next)

    def _establish(self, name: str) -> None:
        obj = self._get(name)
        made = None if obj is None else life.established(obj, self._now())
        if made is not None:
            self._write(made, lambda _: None)

    # --- writes -----------------------------------------------------------------------------------

    def _write(self, obj: Obj, then: Callable[[Obj | None], None]) -> None:
        """PUT to /status; `then` is called with the written object, or None if nothing was written."""
        resource, names = self._resource, self._server.scheme.names
        name = obj["metadata"]["name"]

        def answered(reply: Reply) -> None:
            if reply.ok:
                self._failures.pop(name, None)
            elif reply.code not in (NOT_FOUND, CONFLICT):
                self._retry(name)
            elif self._ctx.alive:
                self._plan(name)  # another writer changed it, possibly after the last sync
            then(reply.obj if reply.ok else None)

        request = Request(
            verb="update",
            resource=resource.plural,
            group=resource.group,
            version=resource.version,
            subresource="status",
            name=name,
            body=obj,
            user=self._user,
            manager=names.component("apiserver"),
        )
        self._server.handle(request, answered)

    def _retry(self, name: str) -> None:
        failures = self._failures.get(name, 0)
        self._failures[name] = failures + 1
        if self._ctx.alive:
            count_retry(self._ctx.kernel, self._ctx.name, NAMING)
            delay_us = min(RETRY_US << min(failures, 20), RETRY_MAX_US)
            self._ctx.call_later_us(delay_us, self._arrived, name)

    # --- deletion of a definition
    # -------------------------------------------------------------------

    def _finalize(self, obj: Obj) -> None:
        name = obj["metadata"]["name"]

        def said(written: Obj | None) -> None:
            if written is None:
                del self._going[name]
            else:
                self._empty(written)

        self._write(life.with_condition(obj, life.TERMINATING, life.IN_PROGRESS, self._now()), said)

    def _empty(self, obj: Obj) -> None:
        """Delete all objects of a definition."""
        name = obj["metadata"]["name"]
        if not life.is_true(obj, life.ESTABLISHED):
            self._end(life.released(obj, self._finalizer, life.NEVER, self._now()))
            return
        self._going[name] = self._ctx.now_us() + POLLED_US
        resource = instances(self._resource, obj["spec"])
        self._drive(self._deletions(resource), lambda: self._poll(name), None)

    def _found(self, resource: Resource) -> list[Item]:
        page = self._store.range(Range(resource.prefix))
        return page.items if isinstance(page, Page) else []

    def _deletions(self, resource: Resource) -> Steps:
        for item in self._found(resource):
            metadata = item.obj["metadata"]
            request = Request(
                verb="delete",
                resource=resource.plural,
                group=resource.group,
                version=resource.version,
                namespace=metadata.get("namespace", ""),
                name=metadata["name"],
                user=self._user,
                cause=self._server.kernel.cause,
            )
            try:
                yield from delete_object(Call(request, resource, self._registry), DeleteOptions())
            except Refusal:
                continue  # it is gone, or a later pass deletes it
        return Reply(200)

    def _drive(self, steps: Steps, done: Callable[[], None], answer: Answer) -> None:
        """Carry out deletions, at once on a prompt storage, otherwise operation by operation."""
        server, writer = self._server, (self._user.name, "delete")
        storage, reach = server.storage, server.reach
        while True:
            try:
                op = steps.send(answer)
            except StopIteration:
                done()
                return
            if reach is not None and not server.prompt:
                reach.submit(op, writer, lambda: True, lambda result: self._resume(steps, done, result))
                return
            storage.writer = writer
            answer = storage.store.apply(op)

    def _resume(self, steps: Steps, done: Callable[[], None], answer: Answer) -> None:
        if self._ctx.alive:
            self._ctx.run(lambda result: self._drive(steps, done, result), answer)

    def _poll(self, name: str) -> None:
        obj = self._get(name)
        if obj is None or not life.is_going(obj, self._finalizer):  # released by another replica
            del self._going[name]
        elif not self._found(instances(self._resource, obj["spec"])):
            self._end(life.released(obj, self._finalizer, life.COMPLETED, self._now()))
        elif self._ctx.now_us() >= self._going[name]:
            self._end(life.with_condition(obj, life.TERMINATING, life.UNDONE, self._now()))
        else:
            self._ctx.call_later_us(POLL_US, self._poll, name)

    def _end(self, obj: Obj) -> None:
        """Write the result and sync again, since changes during the deletion were not seen."""
        name = obj["metadata"]["name"]

        def ended(written: Obj | None) -> None:
            del self._going[name]
            if written is not None and self._ctx.alive:
                self._plan(name)

        self._write(obj, ended)


def instances(definitions: Resource, spec: Obj) -> Resource:
    """Return the resource of a definition's objects, whether or not they are served."""
    group, plural = spec["group"], spec["names"]["plural"]
    return replace(
        definitions,
        group=group,
        version="",
        plural=plural,
        kind=spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
        subresources=(),
        short_group=group,
        upstream_group=group,
        api_version=group,
        group_resource=f"{plural}.{group}",
        prefix=f"/{group}/{plural}/",
        rule=CUSTOM,
        behavior=custom_kinds.CUSTOM,
    )
