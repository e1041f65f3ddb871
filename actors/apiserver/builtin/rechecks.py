"""Objects that a running API server creates again, or corrects, at its next check.

Each check has a period. It is planned for the next multiple of its period when one of its objects
is deleted or changed, so that a cluster in which nothing happens costs no event.

Holds: a check that finds everything in order writes nothing; a check that fails is repeated at the
next multiple of its period.

Mirrors  kubernetes v1.25 pkg/controlplane/controller.go (RunKubernetesNamespaces,
         UpdateKubernetesService), pkg/registry/flowcontrol/rest/storage_flowcontrol.go (ensure).
Differs  A check reads the storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from actors.apiserver.builtin import bootstrap_flows as flows
from actors.apiserver.builtin.bootstrap import namespaces, own_service
from actors.apiserver.builtin.endpoint_keeper import API_PORT
from actors.apiserver.builtin.own_requests import write
from actors.apiserver.fairness import LEVELS, SCHEMAS
from actors.apiserver.ports import LocalStore, Server
from sim.api.objects import name_of
from sim.api.store import Change, Page, Range
from sim.api.types import Obj, Reply, Verb
from sim.kernel import Context
from sim.units import MINUTE, SECOND

NAMESPACES_US = MINUTE  # SystemNamespacesInterval
SERVICE_US = 10 * SECOND  # EndpointInterval
FLOWS_US = MINUTE  # storage_flowcontrol.go: ensureAPFBootstrapConfiguration

# One write of a check: (verb, resource, object, field manager or "").
Write = tuple[Verb, str, Obj, str]


class Check:
    """One check of one incarnation of a server.

    plan: returns the writes that put everything in order
    """

    def __init__(
        self, server: Server, ctx: Context, period_us: int, plan: Callable[[], Iterator[Write]]
    ) -> None:
        self._server = server
        self._ctx = ctx
        self._period_us = period_us
        self._plan = plan
        self._began_us = server.kernel.now_us
        self._planned = False

    def need(self) -> None:
        """Plan the check for the next multiple of its period."""
        if not self._planned and self._ctx.alive:
            self._planned = True
            since_us = self._server.kernel.now_us - self._began_us
            self._ctx.call_later_us(self._period_us - since_us % self._period_us, self.run)

    def run(self, _: object = None) -> None:
        """Check now."""
        self._planned = False
        storage, reach = self._server.storage, self._server.reach
        if not storage.led or reach is None or reach.cut:
            self.need()
            return
        for verb, plural, obj, manager in [*self._plan()]:
            options = {"fieldManager": manager} if manager else {}
            write(self._server, verb, plural, obj, self._answered, options)

    def _answered(self, reply: Reply) -> None:
        """Take the reply to a write; a write that conflicts is not repeated, since the other change
        plans a
        check.
        """
        if not reply.ok and reply.reason not in ("AlreadyExists", "Conflict", "NotFound"):
            self.need()


class Rechecks:
    """The checks of one incarnation of a server."""

    def __init__(self, server: Server, store: LocalStore, ctx: Context) -> None:
        self._server = server
        self._store = store
        self._ctx = ctx
        scheme, names = server.scheme, server.scheme.names
        self._on_delete(scheme.prefix("namespaces"), Check(server, ctx, NAMESPACES_US, self._namespaces))
        services = scheme.prefix("services", names.default_namespace)
        self._on_delete(services, Check(server, ctx, SERVICE_US, self._service))
        levels_and_schemas = Check(server, ctx, FLOWS_US, self._flows)
        for plural in (LEVELS, SCHEMAS):
            prefix = scheme.prefix(plural)
            ctx.on_stop(store.subscribe(prefix, lambda _: levels_and_schemas.need()))
        levels_and_schemas.run()  # corrects what changed while no server ran

    def _on_delete(self, prefix: str, check: Check) -> None:
        def changed(change: Change) -> None:
            if change.deleted:
                check.need()

        self._ctx.on_stop(self._store.subscribe(prefix, changed))

    def _found(self, plural: str, expected: Obj) -> Obj | None:
        scheme, metadata = self._server.scheme, expected["metadata"]
        item = self._store.get(scheme.key(plural, metadata.get("namespace", ""), metadata["name"]))
        return None if item is None else item.obj

    def _namespaces(self) -> Iterator[Write]:
        for expected in namespaces(self._server.scheme.names):
            if self._found("namespaces", expected) is None:
                yield "create", "namespaces", expected, ""

    def _service(self) -> Iterator[Write]:
        server = self._server
        expected = own_service(
            server.scheme.names, server.options.service_cidr, server.reached_at[1] or API_PORT
        ).obj
        if self._found("services", expected) is None:
            yield "create", "services", expected, ""

    def _flows(self) -> Iterator[Write]:
        names = self._server.scheme.names
        kinds = ((LEVELS, flows.levels(names)), (SCHEMAS, flows.schemas(names)))
        for mandatory in (False, True):
            for plural, wanted in kinds:
                chosen = [obj for obj in wanted if (name_of(obj) in flows.MANDATORY) is mandatory]
                yield from self._kept(plural, chosen)
        for plural, wanted in reversed(kinds):
            known = [name_of(obj) for obj in wanted]
            for found in self._all(plural):
                if flows.is_unwanted(found, known, names):
                    yield "delete", plural, found, ""

    def _kept(self, plural: str, wanted: Sequence[Obj]) -> Iterator[Write]:
        for expected in wanted:
            found = self._found(plural, expected)
            if found is None:
                yield "create", plural, expected, flows.PRODUCER
                continue
            corrected = flows.ensured(found, expected, self._server.scheme.names)
            if corrected is not None:
                yield "update", plural, corrected, flows.PRODUCER

    def _all(self, plural: str) -> list[Obj]:
        page = self._store.range(Range(self._server.scheme.prefix(plural)))
        return [item.obj for item in page.items] if isinstance(page, Page) else []
