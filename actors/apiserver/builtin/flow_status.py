"""The controller that keeps the condition `Dangling` of FlowSchemas.

Turns changes of FlowSchemas and PriorityLevelConfigurations into strategic merge patches of that
condition, which shows whether the priority level that a FlowSchema names exists.

Holds: no request is sent while neither kind changes; replicas that sync at one instant write the
same.

Mirrors  kubernetes v1.25 apiserver pkg/util/flowcontrol/apf_controller.go (syncFlowSchemaStatus,
         digestConfigObjects).
Differs  It reads the storage after the cache lag has passed since a change, and does not resync
         each minute.
"""

from __future__ import annotations

from typing import Any

from actors.apiserver.builtin.bootstrap_flows import CONSUMER, dangling, level_of
from actors.apiserver.builtin.own_requests import own_user
from actors.apiserver.fairness import LEVELS, SCHEMAS
from actors.apiserver.ports import LocalStore, Server
from sim.api.store import Page, Range
from sim.api.types import Obj, Request
from sim.kernel import Context


class Dangling:
    """The controller of one incarnation."""

    def __init__(self, server: Server, store: LocalStore, ctx: Context) -> None:
        self._server = server
        self._store = store
        self._ctx = ctx
        self._planned = False
        for plural in (SCHEMAS, LEVELS):
            ctx.on_stop(store.subscribe(server.scheme.prefix(plural), self._changed))

    def _changed(self, _: object) -> None:
        if not self._planned:
            self._planned = True
            self._ctx.call_later_us(self._server.options.cache_lag_us, self._sync)

    def _sync(self, _: Any) -> None:
        self._planned = False
        levels = {level["metadata"]["name"] for level in self._all(LEVELS)}
        for schema in self._all(SCHEMAS):
            level = level_of(schema)
            wanted = dangling(level, level in levels, self._ctx.wall_us())
            found = (schema.get("status") or {}).get("conditions") or ()
            if not any(
                one.get("type") == "Dangling" and one.get("status") == wanted["status"] for one in found
            ):
                self._write(schema, wanted)

    def _all(self, plural: str) -> list[Obj]:
        page = self._store.range(Range(self._server.scheme.prefix(plural)))
        return [item.obj for item in page.items] if isinstance(page, Page) else []

    def _write(self, schema: Obj, condition: Obj) -> None:
        server, names = self._server, self._server.scheme.names
        resource = server.scheme.resource(SCHEMAS)
        name = schema["metadata"]["name"]
        body = {"status": {"conditions": [condition]}}
        request = Request(
            verb="patch",
            resource=resource.plural,
            group=resource.group,
            version=resource.version,
            subresource="status",
            name=name,
            body=body,
            content_type=names.media_strategic_patch,
            options={"fieldManager": CONSUMER},
            user=own_user(names),
        )
        server.handle(request, lambda _: None)
