"""The identity of an API server, and what it says about its storage: a lease, and StorageVersions.

While the gate APIServerIdentity is on, a server renews a lease of its own and deletes those of
servers that are gone. With StorageVersionAPI too, it registers in which versions it stores each
resource, and refuses writes to a resource until that is done.

Holds: an incarnation has an identity of its own.

Mirrors  kubernetes v1.25 pkg/controlplane/instance.go (start-kube-apiserver-identity-lease-*),
         pkg/controlplane/controller/apiserverleasegc/gc_controller.go, component-helpers
         apimachinery/lease/controller.go, kube-aggregator pkg/apiserver/apiserver.go
         (built-in-resources-storage-version-updater), apiserver
         pkg/storageversion/{manager,updater}.go, pkg/endpoints/filters/storageversion.go.
Differs  a failed renewal is repeated by the next one. Without
         runtime-config=internal.apiserver.k8s.io/v1alpha1 writes are refused for ever; upstream's
         server ends after 30 s.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.apiserver.builtin.own_requests import own_user, write
from actors.apiserver.ports import LocalStore, Server
from sim.api.generated_names import new_uid
from sim.api.kinds.apiserverinternal.encodings import Encoding, encodings, registered
from sim.api.objects import labels_of
from sim.api.refusals import Refusal
from sim.api.status import GENERIC
from sim.api.store import Page, Range
from sim.api.types import Obj, Reply, Request, Verb
from sim.kernel import Context
from sim.options.features.gates import IDENTITY, STORAGE_VERSIONS
from sim.units import MINUTE, MS, SECOND, format_micro_time, format_time, parse_time

JITTER = 0.04
LOOK_US = 100 * MS
REGISTER_US = 10 * MINUTE
TRIES, PAUSE_US = 3, 1 * SECOND
LEASES, VERSIONS = "leases", "storageversions"
READS = ("get", "list", "watch")


def is_expired(lease: Obj, now_us: int) -> bool:
    """True if a lease of a server has ended; one without its times has."""
    spec = lease.get("spec") or {}
    renewed, lasts_s = spec.get("renewTime"), spec.get("leaseDurationSeconds")
    return not renewed or lasts_s is None or parse_time(renewed) + lasts_s * SECOND < now_us


class Identity:
    """The lease of one incarnation of a server, and its StorageVersions."""

    def __init__(
        self, server: Server, store: LocalStore, ctx: Context, completed: Callable[[], None]
    ) -> None:
        self._server, self._store, self._ctx = server, store, ctx
        self._names = server.scheme.names
        self._random = ctx.stream("identity")
        self._lease_s = server.options.identity_lease_s
        self._renew_us = server.options.identity_renew_s * SECOND
        component = self._names.component("apiserver")
        self.name = f"{component}-{new_uid(self._random.getrandbits)}"
        self._labels = {self._names.label_component: component}
        self.barrier = Barrier(self.server, completed) if STORAGE_VERSIONS in server.options.gates else None
        self._renew()
        self._collect()
        if self.barrier is not None:
            ctx.call_later_us(0, self._await_lease)

    # --- leases -----------------------------------------------------------------------------------

    def _stored(self, plural: str, name: str) -> Obj | None:
        namespace = self._names.system_namespace if plural == LEASES else ""
        item = self._store.get(self._server.scheme.key(plural, namespace, name))
        return None if item is None else item.obj

    def _renew(self, _: object = None) -> None:
        self._ctx.call_later_us(int(self._renew_us * (1 + JITTER * self._random.random())), self._renew)
        found = self._stored(LEASES, self.name)
        made = found or {
            "metadata": {"name": self.name, "namespace": self._names.system_namespace},
            "spec": {"holderIdentity": self.name, "leaseDurationSeconds": self._lease_s},
        }
        metadata = {**made["metadata"], "labels": {**labels_of(made), **self._labels}}
        spec = {**made["spec"], "renewTime": format_micro_time(self._ctx.wall_us())}
        verb: Verb = "create" if found is None else "update"
        write(self._server, verb, LEASES, {**made, "metadata": metadata, "spec": spec}, _ignored)

    def _collect(self, _: object = None) -> None:
        """Delete the leases of servers that are gone."""
        self._ctx.call_later_us(self._lease_s * SECOND, self._collect)
        prefix = f"{self._server.scheme.prefix(LEASES)}{self._names.system_namespace}/"
        page = self._store.range(Range(prefix))
        for item in page.items if isinstance(page, Page) else ():
            of_server = self._labels.items() <= labels_of(item.obj).items()
            if of_server and is_expired(item.obj, self._ctx.wall_us()):
                write(self._server, "delete", LEASES, item.obj, _ignored)

    # --- storage versions -------------------------------------------------------------------------

    def _await_lease(self, _: object = None) -> None:
        if self._stored(LEASES, self.name) is None:
            self._ctx.call_later_us(LOOK_US, self._await_lease)
        else:
            self._register()

    def _register(self, _: object = None) -> None:
        assert self.barrier is not None
        self._ctx.call_later_us(REGISTER_US, self._register)
        _Round(self, [*self.barrier.encodings]).go_on()

    def register_one(self, encoding: Encoding, done: Callable[[Reply], None]) -> None:
        """Write what this server stores of one resource; `done` gets the reply that decides."""
        name, server = encoding.name, self._server
        if server.scheme.find(self._names.group("internal.apiserver"), "v1alpha1", VERSIONS) is None:
            text = GENERIC[404]
            done(
                Reply(
                    404,
                    body={"message": f"{text} (post {VERSIONS}.{self._names.group('internal.apiserver')})"},
                )
            )
            return
        found = self._stored(VERSIONS, name)

        def write_status(reply: Reply) -> None:
            if not reply.ok:
                done(reply)
                return
            now = format_time(self._ctx.wall_us())
            new = registered(reply.obj, self.name, encoding, now)
            if new is reply.obj:
                done(reply)
            else:
                write(server, "update", VERSIONS, new, done, subresource="status")

        if found is not None:
            write_status(Reply(200, body=found))
        else:
            write(server, "create", VERSIONS, {"metadata": {"name": name}, "spec": {}}, write_status)

    def later(self, delay_us: int, call: Callable[[object], None]) -> None:
        """Call after a time, unless the server ends before."""
        self._ctx.call_later_us(delay_us, call)

    @property
    def server(self) -> Server:
        """The server itself."""
        return self._server


class _Round:
    """One registration of all resources, one after the other."""

    def __init__(self, identity: Identity, left: list[Encoding]) -> None:
        self._identity, self._left = identity, left
        self._tries, self._failed = 0, False

    def go_on(self, _: object = None) -> None:
        barrier = self._identity.barrier
        if barrier is None:
            return
        if self._left:
            self._identity.register_one(self._left[0], self._answered)
        elif not self._failed:
            barrier.complete()

    def _answered(self, reply: Reply) -> None:
        barrier = self._identity.barrier
        assert barrier is not None
        if not reply.ok and reply.reason in ("AlreadyExists", "Conflict"):
            self._identity.later(PAUSE_US, self.go_on)
            return
        if not reply.ok:
            self._tries += 1
            if self._tries < TRIES:
                self._identity.later(PAUSE_US, self.go_on)
                return
        encoding = self._left.pop(0)
        self._tries, self._failed = 0, self._failed or not reply.ok
        barrier.note(encoding, "" if reply.ok else reply.message)
        self._identity.later(PAUSE_US if not reply.ok else 0, self.go_on)


class Barrier:
    """Which resources cannot be written yet.

    encodings: those that this server registers
    """

    def __init__(self, server: Server, completed: Callable[[], None]) -> None:
        scheme, self._done = server.scheme, completed
        served = {(each.group, each.plural) for each in scheme.resources}
        self._names = scheme.names
        self.encodings = [each for each in encodings(scheme.names) if (each.group, each.plural) in served]
        self._pending = {(each.group, each.plural): "" for each in self.encodings}
        self._pending[self._names.group("events"), "events"] = ""
        self._shown = {(each.group, each.plural): each.shown for each in self.encodings}
        self.completed = False

    def note(self, encoding: Encoding, error: str) -> None:
        """A resource was registered, or not."""
        keys = [(encoding.group, encoding.plural)]
        if encoding.plural == "events":
            keys.append((self._names.group("events"), "events"))
        for key in keys:
            if error:
                self._pending[key] = error
            else:
                self._pending.pop(key, None)

    def complete(self) -> None:
        """All resources are registered: from now on nothing is refused."""
        if not self.completed:
            self.completed = True
            self._done()

    def check(self, request: Request) -> None:
        """Raises the refusal of a write to a resource that is not registered yet."""
        key = (request.group, request.resource)
        if self.completed or request.verb in READS or key not in self._pending or self._passes(request):
            return
        text = (
            "wait for storage version registration to complete for resource: "
            f"{self._shown.get(key, f'{key[1]}.{key[0]}')}, last seen error: {self._pending[key] or '<nil>'}"
        )
        raise Refusal(503, "ServiceUnavailable", text)

    def _passes(self, request: Request) -> bool:
        """True for the writes that registration itself needs."""
        names = self._names
        if (request.group, request.resource) == (names.group("internal.apiserver"), VERSIONS):
            return True
        if (request.group, request.resource) == (names.group("coordination"), LEASES):
            return request.namespace == names.system_namespace
        made = (request.group, request.resource, request.verb) == ("", "namespaces", "create")
        return made and request.user == own_user(names)


def begin_identity(
    server: Server, store: LocalStore, ctx: Context, completed: Callable[[], None]
) -> Callable[[Request], None] | None:
    """Give an incarnation its identity; returns what refuses writes until it is registered.

    completed: called once it is
    """
    if IDENTITY not in server.options.gates:
        return None
    barrier = Identity(server, store, ctx, completed).barrier
    return None if barrier is None else barrier.check


def _ignored(_: Reply) -> None:
    """The next renewal repeats what has failed."""
