"""Sends the calls of a simulation to servers outside, over HTTPS.

Turns an `OutsideRequest` into one HTTP/1.1 request, and the server's answer, or what prevented one,
into an operation at the gate of the kernel.  A failure has the words of Go's client.

Holds: each call posts one result, for any address and any bytes of the server; one that is
cancelled posts the deadline.  One deadline bounds the whole exchange: the look-up of the name,
the connection, the request, the head and the body.  An answer is read up to its limit, and is
inflated up to it.  Connections are kept open and shared by calls with the same certificates, until
their server closes them, or for IDLE_S.

Mirrors  golang net/http client.go, transport.go at go1.19 (Accept-Encoding, kept connections).
Differs  no redirect is followed here; a request is sent again only if it is a GET and the server
         closed a kept connection before it answered.
"""

from __future__ import annotations

import logging
import ssl
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from math import inf
from types import MappingProxyType
from typing import NamedTuple

import trio

from sim.kernel import Gate, OutsideAnswer, OutsideRequest
from sim.kernel.outside import ANSWERED, DEADLINE_EXCEEDED, failed
from sim.wire.outside.answers import AnswerReader
from sim.wire.outside.connections import (
    UNREADABLE_ROOTS,
    Connection,
    NotReached,
    asked,
    connect,
    head_of,
    url_of,
)
from sim.wire.outside.receiver import Receiver
from sim.wire.patience import ran_s, within
from sim.wire.tls import client_context

CONTEXTS_MAX, IDLE_MAX = 64, 64  # sets of certificates, connections that are kept open
IDLE_S = 90.0  # DefaultTransport.IdleConnTimeout
_OF_TRANSFER = ("Content-Length", "Transfer-Encoding")
_BODILESS = ("GET", "HEAD", "DELETE", "OPTIONS")
LOG = logging.getLogger(__name__)


class _Certificates(NamedTuple):
    """What the context of a connection is made of."""

    authorities: bytes
    verified: bool
    client_pair: bytes
    receiver: str


class _Shared(NamedTuple):
    """What calls over one connection have in common."""

    scheme: str
    host: str
    connect_to: tuple[str, int] | None
    certificates: _Certificates


class Exchanger:
    """Carries exchanges out, and keeps connections and contexts for the next ones.

    receivers: services by the names that requests give
    idle_max: connections that are kept open; 0 for an exchanger that is never closed
    """

    def __init__(
        self, receivers: Mapping[str, Receiver] = MappingProxyType({}), idle_max: int = IDLE_MAX
    ) -> None:
        self._receivers = receivers
        self._idle_max = idle_max
        self._contexts: OrderedDict[_Certificates, ssl.SSLContext | None] = OrderedDict()
        self._idle: OrderedDict[Connection, _Shared] = OrderedDict()

    @property
    def kept(self) -> int:
        """How many connections are kept open."""
        return len(self._idle)

    def close(self) -> None:
        """Close the kept connections."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def exchange(self, request: OutsideRequest, limit_s: float = inf) -> OutsideAnswer:
        """Send a request and read its answer, or find why there is none.

        limit_s: real seconds for all of it, of those in which this process ran
        """
        answer = failed(DEADLINE_EXCEEDED)
        began_s = ran_s()
        with within(limit_s):
            try:
                answer = await self._exchange(request)
            except NotReached as error:
                answer = failed(str(error))
            except Exception as error:  # the supervisor of calls
                LOG.exception("a call of %s failed", request.url)
                answer = failed(f"{type(error).__name__}: {error}")
        used = 0.0 if limit_s == inf else min(1.0, (ran_s() - began_s) / limit_s)
        return answer._replace(took_us=int(used * request.timeout_us))

    async def _exchange(self, request: OutsideRequest) -> OutsideAnswer:
        url = url_of(request)
        receiver = self._receivers.get(request.receiver)
        more: Iterable[tuple[str, str]] = receiver.headers.items() if receiver is not None else ()
        entry = {name.lower() for name, _ in request.headers}
        decodes = request.method != "HEAD" and not entry & {"accept-encoding", "range"}
        if decodes:
            more = (*more, ("Accept-Encoding", "gzip"))
        has_length = bool(request.body) or request.method not in _BODILESS
        pieces = head_of(request, url, more, length=has_length), request.body
        certificates = _Certificates(
            request.authorities, request.verified, request.client_pair, request.receiver
        )
        shared = _Shared(url.scheme, url.host, request.connect_to, certificates)
        while True:
            connection = self._kept(shared)
            again = connection is not None and request.method == "GET"
            if connection is None:
                connection = await connect(request, self._context(url.scheme, certificates))
            reader = AnswerReader(request.method, request.answer_max, decodes=decodes)
            keeps = False
            connection.is_used = False
            try:
                head, body, failure = await asked(connection, reader, pieces)
                keeps = head is not None and head.keeps and not failure and not reader.rest
                again = again and not connection.is_used
            finally:
                self._put(connection, shared, keeps=keeps)
            if head is not None:
                pairs = tuple(pair for pair in head.headers if pair[0] not in _OF_TRANSFER)
                return OutsideAnswer(head.code, () if failure else pairs, b"" if failure else body, failure)
            if not again:
                return failed(failure)

    def _context(self, scheme: str, certificates: _Certificates) -> ssl.SSLContext | None:
        """How a connection is secured.  Raises NotReached."""
        if scheme == "http":
            return None
        if certificates not in self._contexts:
            named = self._receivers.get(certificates.receiver)
            context = named.context if named is not None else None
            if context is None:
                authorities, verified, client_pair, _ = certificates
                try:
                    context = client_context(authorities, client_pair, verified=verified)
                except (OSError, ValueError):
                    raise NotReached(UNREADABLE_ROOTS) from None
            self._contexts[certificates] = context
            if len(self._contexts) > CONTEXTS_MAX:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(certificates)
        return self._contexts[certificates]

    def _kept(self, shared: _Shared) -> Connection | None:
        """A kept connection that still works."""
        for connection in [each for each, of in self._idle.items() if of == shared]:
            del self._idle[connection]
            connection.resting.cancel()
            if connection.is_idle:
                return connection
            connection.close()
        return None

    def _put(self, connection: Connection, shared: _Shared, *, keeps: bool) -> None:
        """Keep a connection for the next call, or close it."""
        if not keeps:
            connection.close()
            return
        self._idle[connection] = shared
        if len(self._idle) > self._idle_max:
            self._idle.popitem(last=False)[0].close()
        if connection in self._idle:
            scope = connection.resting = trio.CancelScope()
            trio.lowlevel.spawn_system_task(self._rest, connection, scope, name="a kept connection")

    async def _rest(self, connection: Connection, resting: trio.CancelScope) -> None:
        """Close a kept connection with its server, or after IDLE_S (persistConn.readLoop)."""
        with resting, trio.move_on_after(IDLE_S):
            await trio.lowlevel.checkpoint_if_cancelled()  # it may have been taken again
            await connection.wait_readable()
        if not resting.cancelled_caught and self._idle.pop(connection, None) is not None:
            connection.close()


class OutsideSender:
    """The sender of one kernel.  `run` is its task.

    receivers: services by the names that requests give
    is_still: returns True while virtual time does not pass, and so no deadline of a call
    """

    def __init__(
        self,
        gate: Gate,
        receivers: Mapping[str, Receiver] = MappingProxyType({}),
        is_still: Callable[[], bool] = lambda: False,
    ) -> None:
        self._gate, self._is_still = gate, is_still
        self._exchanger = Exchanger(receivers)
        self._nursery: trio.Nursery | None = None
        self._scopes: dict[int, trio.CancelScope] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send until it is cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            self._exchanger.close()

    def send(self, number: int, request: OutsideRequest, limit_s: float) -> None:
        """Begin a call; the result is given up after the limit, in real seconds."""
        if self._nursery is None:
            self._post(number, failed(DEADLINE_EXCEEDED))
            return
        self._scopes[number] = trio.CancelScope()
        self._nursery.start_soon(self._carry_out, number, request, limit_s)

    def cancel(self, number: int) -> None:
        """End a call: its result is no longer of use."""
        scope = self._scopes.get(number)
        if scope is not None:
            scope.cancel()

    async def _carry_out(self, number: int, request: OutsideRequest, limit_s: float) -> None:
        answer = failed(DEADLINE_EXCEEDED)
        try:
            with self._scopes[number]:
                answer = await self._exchanger.exchange(request, limit_s)
        finally:
            del self._scopes[number]
            self._post(number, answer)

    def _post(self, number: int, answer: OutsideAnswer) -> None:
        pairs = [list(pair) for pair in answer.headers]
        payload = [number, answer.code, pairs, answer.body, answer.failure, answer.took_us, self._is_still()]
        self._gate.post(ANSWERED, payload, lambda _: None)
