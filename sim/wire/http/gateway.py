"""The gateway: passes outside requests into the simulation, and replies and watch events out of it.

A `Request` becomes an operation at the kernel's gate, applied between two events and journalled,
and its `Reply` a value that an outside task waits for. Events of an outside watch are taken inside
the simulation, at the instants at which they become visible, into a bounded backlog that the
client's connection empties in real time.

Holds: every action of a client that affects the simulation (a request, its cancellation, the end of
a watch) is an operation of the journal, so a replay does the same work; an answer waits for virtual
time only if the request itself does. A request of a client that has left is not begun. A watch with
a client that does not read is ended, which is an operation too: a replay has no client, keeps no
backlog, and takes each end from the journal. While the journal cannot be written, requests that
would change something are refused; reads, dry runs and reviews are served.

Mirrors  nothing upstream; a client that does not read loses its watch, as with upstream's watch
         cache.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

import trio
from msgspec.structs import astuple

from sim.api import status
from sim.api.aggregation.delegation import UNAVAILABLE, Delegated, Forwarded
from sim.api.auth.attributes import AccessAttributes, Decision, Opinion
from sim.api.fairness.state import FairnessState
from sim.api.openapi.aggregated import NOTHING, Aggregated
from sim.api.scheme.scheme import Scheme
from sim.api.streams import Stream
from sim.api.types import Reply, Request, UserInfo, Watch, WatchEvent
from sim.kernel import Kernel, OutsideAnswer, OutsideRequest, unheard
from sim.kernel.measure import count
from sim.kernel.meters import Meters
from sim.wire.clients import Clients
from sim.wire.http.measures.begin import begin_counting
from sim.wire.http.streams import Streams, stop_opened
from sim.wire.patience import within
from sim.wire.stack import make_room
from sim.wire.turns import Mark

# Real seconds: --request-timeout. Virtual time may be paused, but sockets do not wait for ever.
REQUEST_TIMEOUT_S = 60
BACKLOG_MAX, BACKLOG_BYTES = 10_000, 64 << 20  # of a watch with a client that does not read
ITEM_BYTES = 1024  # about as much is an object that was not encoded yet
TAKE = 1000
# Called with what lets a client learn of something, once that may be.
Hold = Callable[[Callable[[], None]], None]
COUNT = "count"  # the operation of the gate by which the components begin to count
READS = ("get", "list", "watch")
AT_ONCE = ("get", "list")  # are served without a flight where nothing has to wait
DRY_RUN_ALL = "All"  # metav1.DryRunAll
REVIEWS = (
    "selfsubjectaccessreviews",
    "subjectaccessreviews",
    "localsubjectaccessreviews",
    "selfsubjectrulesreviews",
    "tokenreviews",
)
NOT_KEPT = "the journal of this server cannot be written, so requests that change something are refused"
_READ_PARTS = ("", "status", "scale")
LINE_MAX = 200  # characters of an error's text in a log line
_FIELDS = (
    "verb",
    "resource",
    "group",
    "version",
    "subresource",
    "namespace",
    "name",
    "content_type",
    "repeated",
    "manager",
)
_fields_of = attrgetter(*_FIELDS)

LOG = logging.getLogger(__name__)


class Fairness(Protocol):
    """Priority and fairness of an API server, for clients outside."""

    def uids(self, user: UserInfo, attributes: AccessAttributes) -> tuple[str, str]:
        """The uids of the FlowSchema and of the priority level of a request."""
        ...

    def state(self) -> FairnessState:
        """The present state."""
        ...


class Aggregation(Protocol):
    """Group versions that other servers answer.

    listed: by name, the APIServices that discovery lists besides what the server serves
    """

    listed: dict[str, Delegated]

    @property
    def documents(self) -> Aggregated:
        """The OpenAPI documents of the servers behind APIServices."""
        ...

    def find(self, path: str) -> Delegated | None:
        """The APIService of another server that answers a path."""
        ...

    def forward(self, request: Forwarded, respond: Callable[[OutsideAnswer], None]) -> None:
        """Pass a request to the server of its group version."""
        ...

    def direct(self, request: Forwarded) -> OutsideRequest | None:
        """The request to a server outside that a client's connection is passed through to."""
        ...


class OutsideEndpoint(Protocol):
    """The interface of an API server that the gateway uses."""

    @property
    def running(self) -> bool:
        """True if the process runs."""

    @property
    def ready(self) -> bool:
        """True if it runs and graceful termination has not begun."""
        ...

    @property
    def synced(self) -> bool:
        """True if it has read from the storage since it started."""
        ...

    @property
    def started_us(self) -> int:
        """When its incarnation started, in virtual time."""
        ...

    def rebound(self) -> None:
        """Leave the fast paths, which count nothing, once requests are counted."""
        ...

    @property
    def sees(self) -> Scheme:
        """The resources that it serves now."""
        ...

    @property
    def seats(self) -> Fairness | None:
        """Priority and fairness; None if it is off."""
        ...

    @property
    def aggregator(self) -> Aggregation:
        """The group versions that other servers answer."""
        ...

    def judge(self, user: UserInfo, attributes: AccessAttributes, done: Callable[[Opinion], None]) -> None:
        """Judge a request, with an answer of a service if that is needed."""
        ...

    def serve(self, request: Request) -> tuple[Reply, int] | None:
        """The reply to a request that needs no time, with the latency of it; None if it needs
        `handle`.
        """
        ...

    def handle(
        self,
        request: Request,
        respond: Callable[[Reply], None],
        outside: Callable[[Request, Exception], None] | None = None,
    ) -> None:
        """Handles a request without simulated reply latency.

        outside: called if the server itself fails
        """
        ...

    def forget(self, respond: Callable[[Reply], None]) -> None:
        """The reply is no longer needed."""
        ...


def _is_read(payload: list[Any]) -> bool:
    """True for a packed request that changes nothing: a get or a list."""
    fields = payload[0]
    verb, subresource = fields[_FIELDS.index("verb")], fields[_FIELDS.index("subresource")]
    return verb in ("get", "list") and subresource in _READ_PARTS


def pack(request: Request) -> list[Any]:
    """A request as msgpack-able values."""
    return [_fields_of(request), dict(request.options), request.body, _packed(request.user)]


def unpack(payload: list[Any]) -> Request:
    """A request from such values."""
    fields, options, body, user = payload
    values = dict(zip(_FIELDS, fields, strict=True))
    return Request(**values, options=options, body=body, user=_user(user))


def _packed(user: UserInfo) -> list[Any]:
    extra = {key: list(values) for key, values in user.extra.items()} if user.extra else {}
    return [user.name, list(user.groups), user.uid, extra]


def _user(values: list[Any]) -> UserInfo:
    name, groups, uid, extra = values
    return UserInfo(name, tuple(groups), uid, {key: tuple(each) for key, each in extra.items()})


def _no_server(code: int, text: str) -> OutsideAnswer:
    """An answer in plain text of the server itself, in the place of one from another server."""
    return OutsideAnswer(code, (("Content-Type", "text/plain; charset=utf-8"),), f"{text}\n".encode())


class OutsideWatch:
    """The client's end of a watch.

    backlog_max: bound of events that wait for the client; 0: there is no client, and events are
        dropped
    resource: the plural, for metrics
    """

    def __init__(
        self,
        gateway: Gateway,
        ident: int,
        watch: Watch,
        backlog_max: int,
        resource: str = "",
        mark: Mark | None = None,
    ) -> None:
        self._resource, self._mark = resource, mark
        self._gateway = gateway
        self._ident = ident
        self._watch = watch
        self._backlog_max = backlog_max
        self._events: deque[WatchEvent] = deque()
        self._bytes = 0  # of the events, about
        self._held = 0  # parts of events that the client may not learn of yet
        self._more = trio.Event()
        self._ended = False  # in the simulation
        self._stopped = False  # by the client, or for its backlog

    # --- inside the simulation --------------------------------------------------------------------

    def attach(self) -> None:
        """Starts to take events."""
        self._watch.attach(self._drain)
        self._drain()

    def _drain(self) -> None:
        while True:
            events = self._watch.take(TAKE)
            if self._backlog_max and events:
                if self._mark is not None:
                    self._mark.give(len(events))
                hold = self._gateway.before_news(None)
                if hold is None:
                    self._show(events)
                else:
                    self._held += 1
                    hold(partial(self._show_held, events))
            if len(events) < TAKE:
                break
        if self._watch.ended and not self._ended and self._mark is not None:
            self._mark.give(1)
        self._ended = self._watch.ended
        if self._ended:
            self._more.set()

    def _show_held(self, events: Sequence[WatchEvent]) -> None:
        self._held -= 1
        if self._stopped:
            self._more.set()
        else:
            self._show(events)

    def _show(self, events: Sequence[WatchEvent]) -> None:
        """Let the client have events."""
        self._events.extend(events)
        self._bytes += sum(map(_size_of, events))
        self._gateway.clients.worked()
        self._more.set()
        if len(self._events) > self._backlog_max or (self._bytes > BACKLOG_BYTES and len(self._events) > 1):
            if not self._stopped:
                self._gateway.count_slow_watch(self._resource)
            self.stop()

    def end(self) -> None:
        """Ends the watch inside the simulation."""
        self._watch.stop()
        self._ended = True
        self._more.set()

    # --- outside ----------------------------------------------------------------------------------

    async def take(self) -> Sequence[WatchEvent]:
        """The pending events, once there are any; empty when the watch has ended.

        It reads nothing of the simulation: to ask a watch whether it has ended may end it.
        """
        while not self._events and not self._stopped and (self._held or not self._ended):
            self._more = trio.Event()
            await self._more.wait()
        if self._stopped:
            return []
        events = list(self._events)
        self._events.clear()
        self._bytes = 0
        return events

    def stop(self) -> None:
        """Ends the watch because the client has left or does not read."""
        if not self._stopped:
            self._stopped = True
            self._events.clear()
            self._gateway.stop(self._ident)


def _size_of(event: WatchEvent) -> int:
    """About the bytes of an event."""
    encoded = None if event.item is None else event.item.raw
    return max(map(len, encoded.values()), default=ITEM_BYTES) if encoded else ITEM_BYTES


class Gateway:
    """The gateway of a cluster.

    servers: the API servers by name, in the kernel's order
    backlog_max: bound of events that wait for the client of a watch
    meters: what the components count in, once a client reads metrics
    clients: is informed of what clients do
    """

    def __init__(
        self,
        kernel: Kernel,
        servers: Mapping[str, OutsideEndpoint],
        backlog_max: int = BACKLOG_MAX,
        meters: Meters | None = None,
        clients: Clients | None = None,
    ) -> None:
        assert backlog_max > 0
        make_room()
        self.kernel = kernel
        self.clients = Clients(kernel) if clients is None else clients
        self._backlog_max = backlog_max
        self._servers = servers
        self._meters, self._counting = meters, False
        self._watches: dict[int, OutsideWatch] = {}
        self._opened = 0
        self._asked = 0
        self._sent: dict[int, Request] = {}  # those at the gate; a replay reads its journal
        self._marks: dict[int, Mark] = {}  # of requests at the gate
        self._waiting: dict[int, tuple[OutsideEndpoint, Callable[[Reply], None]]] = {}
        self._streams = Streams(kernel)
        # Called before a client learns of something that happened in the run: all of it, or what
        # the reply to a read shows.
        self.before_news: Callable[[Reply | None], Hold | None] = lambda _: None
        kernel.gate.handle("request", self._request, self._request_unkept, _is_read)
        kernel.gate.handle("request-gone", self._request_gone)
        kernel.gate.handle("watch-stop", self._watch_stop)
        kernel.gate.handle("forward", self._forward, self._forward_unkept)
        kernel.gate.handle("judge", self._judge)
        kernel.gate.handle(COUNT, self._count)

    def wall_us(self) -> int:
        """Unix time of the cluster for outside clients."""
        return self.kernel.epoch_us + self.kernel.outside_now_us()

    def serving(self) -> OutsideEndpoint | None:
        """The first server that is ready, as a load balancer would choose, otherwise one that runs."""
        result = None
        for server in self._servers.values():
            if server.ready:
                return server
            if result is None and server.running:
                result = server
        return result

    def scheme(self, fixed: Scheme) -> Scheme:
        """The resources of the API server that gets the next request; the built-in ones while none
        runs.
        """
        server = self.serving()
        return fixed if server is None else server.sees

    def fairness(self) -> Fairness | None:
        """Priority and fairness of the API server that gets the next request; None if it is off."""
        server = self.serving()
        return None if server is None else server.seats

    def listed(self) -> Sequence[Delegated]:
        """The APIServices that discovery lists besides what the server serves."""
        server = self.serving()
        return () if server is None else tuple(server.aggregator.listed.values())

    def aggregated(self) -> Aggregated:
        """The OpenAPI documents of other servers."""
        server = self.serving()
        return NOTHING if server is None else server.aggregator.documents

    async def judge(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Judge a request for which a service outside has to be asked."""
        with within(REQUEST_TIMEOUT_S):
            payload = [_packed(user), list(astuple(attributes))]
            opinion: Opinion = await self.kernel.gate.submit("judge", payload)
            return opinion
        return Opinion(Decision.NO_OPINION, "", "the request was not judged in time")

    async def forward(self, request: Forwarded) -> OutsideAnswer | OutsideRequest:
        """Pass a request to the server of its group version.

        The result for a server outside is the request to it, since its answer does not affect the
        simulation.
        """
        pairs = [list(pair) for pair in request.headers]
        sent = [request.method, request.path, request.query, pairs, request.body, request.address]
        payload = [sent, _packed(request.user)]
        with within(REQUEST_TIMEOUT_S):
            answer: OutsideAnswer | OutsideRequest = await self.kernel.gate.submit("forward", payload)
            return answer
        return _no_server(504, "the server did not answer in time")

    async def call(
        self, request: Request, seconds: float = REQUEST_TIMEOUT_S, mark: Mark | None = None
    ) -> tuple[Reply, OutsideWatch | None]:
        """Sends a request and waits for its reply. A reply without an answer becomes a Status.

        seconds: how long it waits, in real time
        mark: of a program that follows the time of the cluster
        """
        answered: trio.Event | None = None
        box: list[tuple[Reply, OutsideWatch | None]] = []
        taken = gone = False

        def done(result: tuple[Reply, OutsideWatch | None]) -> None:
            if gone:
                stop_opened(result)
            box.append(result)
            if mark is not None and not gone:
                mark.give(1)
            if answered is not None:
                answered.set()

        self._asked = ident = self._asked + 1
        self.clients.worked()
        self._sent[ident] = request
        if mark is None:
            self.kernel.gate.post("request", [*pack(request), ident], done)
        else:
            self._marks[ident] = mark
            payload = [*pack(request), ident]
            mark.enter(lambda: None if gone else self.kernel.gate.post("request", payload, done))
        try:
            if not box:
                answered = trio.Event()
                with within(seconds):
                    await answered.wait()
            taken = bool(box)
        finally:
            gone = True
            self._sent.pop(ident, None)
            self._marks.pop(ident, None)
            if not box:
                self.kernel.gate.post("request-gone", ident, lambda _: None)
            elif not taken:
                stop_opened(box[0])
        if box:
            self.clients.worked()
            if box[0][1] is not None:
                self.clients.opened()
            return box[0]
        late = status.timeout("request did not complete within the allotted timeout")
        return Reply(504, body=late), None

    def count_slow_watch(self, resource: str) -> None:
        """Counts a watch that is ended since its client does not read."""
        count(self.kernel, "apiserver_terminated_watchers_total", resource)

    def leave(self) -> None:
        """End what the clients of an earlier server have left open: it continues its journal."""
        for ident in list(self._watches):
            self.stop(ident)
        for request in list(self._waiting):
            self.kernel.gate.post("request-gone", request, unheard)
        self._streams.leave()

    def begin_counting(self) -> None:
        """Let the components count for a reader outside, unless they do already.

        The first reader is an operation of the journal, because servers that count do other units
        of work than servers that do not.
        """
        if self.kernel.meters is None and not self._counting:
            self._counting = True
            self.kernel.gate.post(COUNT, None, unheard)

    def stop(self, ident: int) -> None:
        """Ends a watch."""
        self.kernel.gate.post("watch-stop", ident, lambda _: None)

    # --- inside the simulation --------------------------------------------------------------------

    def open(self, stream: Stream, done: Callable[[Any], None]) -> None:
        """Open a stream that no API server gives.  done: of the operation of the gate"""
        self._streams.open(Reply(200, body="", stream=stream), done, has_client=done is not unheard)

    def _request(self, payload: list[Any], done: Callable[[Any], None]) -> None:
        server = self.serving()
        if server is None:
            done((_unavailable(), None))
            return
        *parts, query = payload
        request = self._sent.get(query) or unpack(parts)
        request.authorized = True  # by the chain of the front

        self._asked = max(self._asked, query)  # a server that continues a journal numbers on

        def respond(reply: Reply) -> None:
            self._waiting.pop(query, None)
            hold = self.before_news(reply if request.verb in AT_ONCE else None)
            tell = done if hold is None else partial(_tell_later, hold, done)
            if not reply.code:
                tell((_unavailable(), None))
            elif reply.stream is not None:
                self._streams.open(reply, tell, has_client=done is not unheard)
            elif reply.watch is None:
                tell((reply, None))
            else:
                self._opened = ident = self._opened + 1
                backlog_max = 0 if done is unheard else self._backlog_max
                watch = self._watches[ident] = OutsideWatch(
                    self, ident, reply.watch, backlog_max, request.resource, self._marks.get(query)
                )
                watch.attach()
                tell((reply, watch))

        if request.verb in AT_ONCE:
            try:
                served = server.serve(request)
            except Exception as error:
                _failed(request, error)
                respond(Reply(500, body=status.PANIC))
                return
            if served is not None:
                respond(served[0])
                return
        self._waiting[query] = server, respond
        server.handle(request, respond, _failed)

    def _request_unkept(self, payload: list[Any], done: Callable[[Any], None]) -> None:
        """A request that the journal cannot hold: one that stores nothing is served, any other is
        refused.
        """
        if self._stores_nothing(unpack(payload[:4])):
            self._request(payload, done)
        else:
            done((Reply(500, body=status.internal_error(NOT_KEPT)), None))

    def _stores_nothing(self, request: Request) -> bool:
        """True for a read, a dry run, and a review of access or of a token."""
        server = self.serving()
        if request.verb in READS or request.options.get("dryRun") == DRY_RUN_ALL:
            return True
        if server is None or request.verb != "create" or request.resource not in REVIEWS:
            return False
        resource = server.sees.find(request.group, request.version, request.resource)
        return resource is not None and not resource.custom

    def _judge(self, payload: list[Any], done: Callable[[Any], None]) -> None:
        server = self.serving()
        user, values = payload
        if server is None:
            done(Opinion(Decision.NO_OPINION, "", UNAVAILABLE))
        else:
            server.judge(_user(user), AccessAttributes(*values), done)

    def _forward(self, payload: list[Any], done: Callable[[Any], None]) -> None:
        server = self.serving()
        if server is None:
            done(_no_server(503, UNAVAILABLE))
            return
        (method, path, query, pairs, body, address), user = payload
        headers = tuple((name, value) for name, value in pairs)
        request = Forwarded(method, path, query, headers, body, _user(user), address)
        direct = server.aggregator.direct(request)
        if direct is None:
            server.aggregator.forward(request, done)
        else:
            done(direct)

    def _forward_unkept(self, payload: list[Any], done: Callable[[Any], None]) -> None:
        if payload[0][0] in ("GET", "HEAD"):
            self._forward(payload, done)
        else:
            done(_no_server(500, NOT_KEPT))

    def _request_gone(self, asked: int, done: Callable[[Any], None]) -> None:
        waiting = self._waiting.pop(asked, None)
        if waiting is not None:
            server, respond = waiting
            server.forget(respond)
        done(None)

    def _count(self, _: None, done: Callable[[Any], None]) -> None:
        # A cluster without a reader of metrics needs no package for metrics.
        from sim.wire.http.measures.families import BOUNDS

        rebounds = [each.rebound for each in self._servers.values()]
        begin_counting(self.kernel, rebounds, self._meters or Meters(BOUNDS))
        done(None)

    def _watch_stop(self, ident: int, done: Callable[[Any], None]) -> None:
        watch = self._watches.pop(ident, None)
        if watch is not None:
            watch.end()
        done(None)


def _tell_later(hold: Hold, done: Callable[[Any], None], result: tuple[Reply, Any]) -> None:
    """Give a client its answer when it may learn of it."""
    hold(partial(done, result))


def _failed(request: Request, error: Exception) -> None:
    """Logs an error of the server, and answers with a reference to the log."""
    path = "/".join(filter(None, (request.namespace, request.resource, request.name, request.subresource)))
    LOG.error("%s of %s met an error of the server: %s", request.verb, path, failure_line(error))
    LOG.debug("the error", exc_info=error)


def failure_line(error: Exception) -> str:
    """What an error is and where it was raised, on one line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:LINE_MAX]}{place}"


def _unavailable() -> Reply:
    """No API server runs, or the one that had the request has crashed."""
    body = status.service_unavailable(status.GENERIC[503])
    return Reply(503, body=body, headers={"Retry-After": "1"})
