"""Group versions that other servers answer: their availability, and the requests that go to them.

Turns the stored APIServices into a table of delegated group versions, checks of their servers into
the condition Available, and a request for one of them into a call of its server.

Holds: while no APIService names a Service, no event is scheduled.  All replicas check; the later
one writes nothing or meets a conflict.  A group version with an unavailable server is answered with
503, and a request for it reaches no server.

Mirrors  kube-aggregator v1.25 pkg/controllers/status/available_controller.go,
         pkg/apiserver/handler_proxy.go.
Differs  It reads the storage after the cache lag has passed since a change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from actors.apiserver.aggregation.openapi import AggregatedOpenApi
from actors.apiserver.aggregation.watches import AggregatedWatches
from actors.apiserver.builtin.own_requests import own_user
from actors.apiserver.metrics.queues import AVAILABILITY, count_retry, count_syncs
from actors.apiserver.ports import LocalStore, Server
from sim.api.aggregation import availability as available
from sim.api.aggregation import delegation, requests
from sim.api.aggregation.delegation import Delegated, Forwarded
from sim.api.openapi.aggregated import Aggregated
from sim.api.store import Change, Page, Range
from sim.api.types import NOT_FOUND, Obj, Reply, Request, UserInfo
from sim.kernel import Context, OutsideAnswer, OutsideRequest
from sim.kernel.measure import count
from sim.kernel.outside import DEADLINE_EXCEEDED, failed
from sim.units import SECOND, format_time

RESYNC_US = 30 * SECOND
RETRY_US, RETRY_MAX_US = 5_000, 30 * SECOND  # NewItemExponentialFailureRateLimiter
DEFAULT_PORT = 443
_DOCUMENTS = "/openapi/v3/"
Respond = Callable[[OutsideAnswer], None]


class ServiceCall(NamedTuple):
    """A request to the server behind a Service.

    target: path and query
    authorities: PEM in base64, as `caBundle` holds them
    verified: False accepts any certificate
    """

    namespace: str
    name: str
    port: int
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    user: UserInfo
    timeout_us: int
    authorities: str = ""
    verified: bool = True


class Backends(Protocol):
    """The servers behind Services; the composition root gives them."""

    def send(self, call: ServiceCall, arrived: Respond) -> None:
        """Send a request; its answer, or the text of the failure, arrives later or at once."""
        ...

    def direct(self, call: ServiceCall) -> OutsideRequest | None:
        """The request to a server outside that a client's connection is passed through to; None if
        `send` gives the answer.
        """
        ...

    def is_outside(self, namespace: str, name: str) -> bool:
        """True if the user gave a Service an address outside."""
        ...

    def url(self, namespace: str, name: str, port: int) -> str:
        """The address to which requests go, for messages."""
        ...


class NoBackends:
    """A cluster without servers behind Services."""

    def send(self, call: ServiceCall, arrived: Respond) -> None:
        """Fail at once."""
        arrived(failed("no server is reached"))

    def direct(self, call: ServiceCall) -> OutsideRequest | None:
        """Always None."""
        return None

    def is_outside(self, namespace: str, name: str) -> bool:
        """Always False."""
        return False

    def url(self, namespace: str, name: str, port: int) -> str:
        """The name of the Service."""
        return f"https://{name}.{namespace}.svc:{port}"


class Aggregator:
    """The aggregation of one replica.

    backends: the servers behind Services
    delegated: by group and version; empty while no incarnation runs
    listed: by name, the APIServices that discovery lists besides what this server serves
    openapi: the documents of the servers behind APIServices
    watches: of simulated clients, on resources of these servers
    """

    def __init__(self, server: Server, backends: Backends) -> None:
        self.backends = backends
        self.delegated: dict[tuple[str, str], Delegated] = {}
        self.listed: dict[str, Delegated] = {}
        self._server = server
        self._ctx: Context | None = None
        self._store: LocalStore | None = None
        self._subscribed = self._ticking = False
        self.openapi = AggregatedOpenApi(self.named, self.send)
        self.watches = AggregatedWatches(self._ask)
        self._checking: dict[str, bool] = {}  # checks that wait for an answer: True to repeat them
        self._failures: dict[str, int] = {}

    def begin(self, ctx: Context, store: LocalStore) -> None:
        """Follow the stored APIServices during one incarnation."""
        self._ctx, self._store = ctx, store
        self.openapi.begin(ctx)
        self.watches.begin(ctx)
        prefix = self._server.scheme.prefix("apiservices")
        ctx.on_stop(store.subscribe(prefix, self._changed))
        ctx.on_stop(self._end)
        page = store.range(Range(prefix))
        for item in page.items if isinstance(page, Page) else ():
            self._take(item.obj)

    def _end(self) -> None:
        self._ctx = self._store = None
        self._subscribed = self._ticking = False
        self.delegated, self.listed = {}, {}
        self._checking, self._failures = {}, {}

    # --- requests ---------------------------------------------------------------------------------

    def find(self, path: str) -> Delegated | None:
        """The APIService of another server that answers a path."""
        if not self.delegated:
            return None
        if path.startswith(_DOCUMENTS):
            name = self.documents.owner(self._server.scheme, path.removeprefix(_DOCUMENTS))
            return None if name is None else self.named(name)
        group_version = delegation.group_version_of(path)
        return None if group_version is None else self.delegated.get(group_version)

    def forward(self, request: Forwarded, respond: Respond) -> None:
        """Pass a request to the server of its group version; its whole answer arrives."""
        self._pass(self.find(request.path), request, respond)

    def send(self, found: Delegated, request: Forwarded, respond: Respond) -> None:
        """Send a request to the server of an APIService; its whole answer arrives."""
        self._pass(found, request, respond)

    def _pass(self, found: Delegated | None, request: Forwarded, respond: Respond) -> None:
        call = self._call_for(found, request)
        if call is None:
            respond(_text(delegation.UNAVAILABLE))
            return

        def arrived(answer: OutsideAnswer) -> None:
            if answer.failure:
                respond(_text(f"{delegation.NOT_REACHED}: {answer.failure}"))
            else:
                respond(answer)

        self.backends.send(call, arrived)

    def direct(self, request: Forwarded) -> OutsideRequest | None:
        """The request to a server outside, to which the connection of a client is passed
        through; None for any other, which `forward` answers.
        """
        call = self._call_for(self.find(request.path), request)
        return None if call is None else self.backends.direct(call)

    def answers(self, request: Request) -> bool:
        """True if another server answers a request of the simulation."""
        return bool(self.delegated) and (request.group, request.version) in self.delegated

    def answer(self, request: Request, refusal: Reply, respond: Callable[[Reply], None]) -> None:
        """Answer a request of the simulation for a resource that is not served here.

        refusal: the answer of this server
        """
        if refusal.code != NOT_FOUND or not self.answers(request):
            respond(refusal)
            return
        if request.verb == "watch":
            self.watches.open(request, respond)
            return

        def arrived(reply: Reply) -> None:
            if request.verb == "list":
                self.watches.listed(request, reply)
            respond(reply)

        self._ask(request, arrived)

    def look(self, namespace: str, name: str) -> None:
        """Let the watches of resources behind a Service look at once: something has changed."""
        for each in list(self.delegated.values()):
            service = each.obj["spec"]["service"]
            if (service["namespace"], service["name"]) == (namespace, name):
                self.watches.look(each.group, each.version)

    def _ask(self, request: Request, respond: Callable[[Reply], None]) -> None:
        """Pass a request of the simulation to the other server."""
        ctx = self._ctx
        assert ctx is not None

        def arrived(got: OutsideAnswer) -> None:
            ctx.run(respond, requests.reply_of(request, got.code, got.headers, got.body))

        self.forward(requests.forwarded(request), arrived)

    def _call_for(self, found: Delegated | None, request: Forwarded) -> ServiceCall | None:
        """The request to the server of a group version; None while it is unavailable."""
        if found is None or not available.is_available(found.obj):
            return None
        spec = found.obj["spec"]
        service = spec["service"]
        namespace, name, port = service["namespace"], service["name"], service.get("port", DEFAULT_PORT)
        service_obj = self._look("services", namespace, name)
        if available.from_objects(service, service_obj, None, outside=True) is not None:
            return None  # it cannot be resolved
        seconds = delegation.DISCOVERY_S if delegation.is_discovery(request.path) else delegation.REQUEST_S
        host = self.backends.url(namespace, name, port).partition("//")[2]
        return ServiceCall(
            namespace,
            name,
            port,
            request.method,
            delegation.passed_target(request),
            delegation.forwarded_headers(request, host),
            request.body,
            request.user,
            seconds * SECOND,
            spec.get("caBundle") or "",
            not spec.get("insecureSkipTLSVerify", False),
        )

    # --- checks -----------------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        if not change.deleted:
            self._take(change.item.obj)
            return
        spec = change.item.obj["spec"]
        self.listed.pop(change.item.obj["metadata"]["name"], None)
        self._drop((spec.get("group") or "", spec["version"]), change.item.obj)

    def _drop(self, key: tuple[str, str], obj: Obj) -> bool:
        """Forget a delegated group version; True if it was known."""
        if self.delegated.pop(key, None) is None:
            return False
        self.openapi.remove(obj["metadata"]["name"])
        return True

    def _take(self, obj: Obj) -> None:
        spec, found = obj["spec"], delegation.delegated_of(obj)
        shown = delegation.listed_for_discovery(obj, self._server.scheme.names.label_automanaged)
        if shown is not None:
            self.listed[obj["metadata"]["name"]] = shown
        else:
            self.listed.pop(obj["metadata"]["name"], None)
        key = spec.get("group") or "", spec["version"]
        if found is None:
            if self._drop(key, obj):
                self._write(obj, available.LOCAL)
            return
        before = self.delegated.get(key)
        self.delegated[key] = found
        self.openapi.take(obj["metadata"]["name"], added=before is None)
        self._follow()
        if before is None or before.obj["spec"] != spec:
            self._plan(obj["metadata"]["name"])

    def _follow(self) -> None:
        """Follow Services and endpoints, and check again from time to time."""
        ctx, store = self._ctx, self._store
        assert ctx is not None
        assert store is not None
        if not self._subscribed:
            self._subscribed = True
            for plural in ("services", "endpoints"):
                prefix = self._server.scheme.prefix(plural)
                ctx.on_stop(store.subscribe(prefix, self._neighbour_changed))
        if not self._ticking:
            self._ticking = True
            ctx.call_later_us(RESYNC_US, self._resync)

    def _resync(self, _: object = None) -> None:
        self._ticking = False
        if self.delegated:
            self._follow()
        for each in list(self.delegated.values()):
            self._check(each.obj["metadata"]["name"])

    def _neighbour_changed(self, change: Change) -> None:
        metadata = change.item.obj["metadata"]
        named = metadata.get("namespace", ""), metadata["name"]
        for each in self.delegated.values():
            service = each.obj["spec"]["service"]
            if (service["namespace"], service["name"]) == named:
                self._plan(each.obj["metadata"]["name"])

    def _plan(self, name: str, delay_us: int = 0) -> None:
        ctx = self._ctx
        if ctx is not None:
            ctx.call_later_us(self._server.options.cache_lag_us + delay_us, self._check, name)

    @property
    def documents(self) -> Aggregated:
        """The OpenAPI documents of the servers behind APIServices."""
        return self.openapi.known

    def named(self, name: str) -> Delegated | None:
        """The delegated APIService of a name."""
        version, _, group = name.partition(".")
        return self.delegated.get((group, version))

    def _check(self, name: str) -> None:
        """Check one APIService now, or again after the check that is under way."""
        found = self.named(name)
        if found is None:
            self._failures.pop(name, None)
            return
        if name in self._checking:
            self._checking[name] = True
            return
        if self._ctx is not None:
            count_syncs(self._ctx.kernel, self._ctx.name, AVAILABILITY)
        spec = found.obj["spec"]
        service = spec["service"]
        namespace, target, port = service["namespace"], service["name"], service.get("port", DEFAULT_PORT)
        look = self._look
        decided = available.from_objects(
            service,
            look("services", namespace, target),
            look("endpoints", namespace, target),
            outside=self.backends.is_outside(namespace, target),
        )
        if decided is not None:
            self._decided(name, decided)
            return
        self._checking[name] = False
        path = available.discovery_path(spec)
        names = self._server.scheme.names
        user = UserInfo(names.user_aggregator, (names.group_masters,))
        call = ServiceCall(
            namespace,
            target,
            port,
            "GET",
            path,
            delegation.user_headers(user),
            b"",
            user,
            available.CHECK_S * SECOND,
            verified=False,
        )
        url = self.backends.url(namespace, target, port) + path
        ctx = self._ctx
        assert ctx is not None

        def take(answer: OutsideAnswer) -> None:
            again = self._checking.pop(name, False)
            failure = answer.failure
            if failure == DEADLINE_EXCEEDED:  # as Go's http.Client words its Timeout
                failure += " (Client.Timeout exceeded while awaiting headers)"
            self._decided(name, available.from_discovery(url, answer.code, failure))
            if again:
                self._plan(name)

        self.backends.send(call, lambda answer: ctx.run(take, answer))

    def _decided(self, name: str, condition: available.Condition) -> None:
        found = self.named(name)
        if found is None:
            return
        if condition.reason == "FailedDiscoveryCheck":
            failures = self._failures[name] = self._failures.get(name, -1) + 1
            if self._ctx is not None:
                count_retry(self._ctx.kernel, self._ctx.name, AVAILABILITY)
            self._plan(name, min(RETRY_US << min(failures, 20), RETRY_MAX_US))
        else:
            self._failures.pop(name, None)
        self._write(found.obj, condition)

    def _look(self, plural: str, namespace: str, name: str) -> Obj | None:
        assert self._store is not None
        item = self._store.get(self._server.scheme.key(plural, namespace, name))
        return None if item is None else item.obj

    def _write(self, obj: Obj, condition: available.Condition) -> None:
        server, ctx = self._server, self._ctx
        if ctx is None:
            return
        item = self._look("apiservices", "", obj["metadata"]["name"])
        made = None
        if item is not None:
            made = available.with_available(item, condition, format_time(ctx.wall_us()))
        if made is None:
            return
        resource, names = server.scheme.resource("apiservices"), server.scheme.names
        name = made["metadata"]["name"]
        if item is not None and condition.status == "False" and available.is_available(item):
            count(ctx.kernel, "aggregator_unavailable_apiservice_total", name, condition.reason)

        def answered(reply: Reply) -> None:
            if not reply.ok and reply.reason != "NotFound":
                self._plan(name, RETRY_US)

        request = Request(
            verb="update",
            resource=resource.plural,
            group=resource.group,
            version=resource.version,
            name=name,
            subresource="status",
            body=made,
            user=own_user(names),
            manager=names.component("apiserver"),
        )
        server.handle(request, answered)


def _text(text: str) -> OutsideAnswer:
    """A refusal in plain text, as Go's http.Error writes it."""
    headers = ("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")
    return OutsideAnswer(503, headers, f"{text}\n".encode())
