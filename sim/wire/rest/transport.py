"""Calls of one process to one API server over HTTPS, and the gate by which answers enter.

Turns requests of this kernel's actors into HTTP requests outside of virtual time, and what arrives
into operations: answers, the lines of watches, their ends, and what prevented an answer.  So a
process that runs alone is replayed from its journal without a server.

Holds: every request gets one reply, or "ConnectionRefused" (no connection could be made),
"ConnectionReset" (it was lost) or "Timeout"; nothing is delivered within `send`; a watch ends with
its connection; what the end of an actor leaves behind is cancelled; an answer has at most
ANSWER_MAX bytes, and at most CALLS_MAX calls are open.

Mirrors  client-go v1.25 rest/request.go, rest/transport.go (dial timeout 30 s).
Differs  HTTP/1.1 with a connection for each open request, since watches are most of them and each
         has then its own flow; a dead connection is found by its silence: an answer must begin
         within ANSWER_S (the server ends a request after 60 s), and a watch speaks or ends until
         its own timeout.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import httpx
import trio

from sim.api.crd.served import Latest
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, Reply, Request
from sim.ident import Names
from sim.kernel import Context, Kernel
from sim.units import SECOND
from sim.wire.received_watch import ReceivedWatch
from sim.wire.rest.access import AccessError, Credentials
from sim.wire.rest.addresses import Target, packed, target_of
from sim.wire.rest.answers import KEPT_HEADERS, events_of, reply_of, whole_of
from sim.wire.rest.failures import REFUSED, RESET, reason_of, text_of
from sim.wire.rest.following import Following
from sim.wire.rest.tokens import Account, AccountTokens, account_of

OPERATION = "rest"
DEFINITIONS = "customresourcedefinitions"
ANSWER, OPEN, EVENTS, END, LOST = "answer", "open", "events", "end", "lost"
CALLS_MAX = 10_000
ANSWER_MAX = 1 << 29
DIAL_S, ANSWER_S, WATCH_GRACE_S = 30.0, 75.0, 30.0
WATCH_S = 600  # of a watch that names no timeout: the longest that reflectors ask for
IDLE_S, IDLE_MAX = 90.0, 64  # DefaultTransport: IdleConnTimeout; connections kept without a request
FAREWELL_S = 1.0  # for the ends of idle connections
LOG = logging.getLogger(__name__)


class _Call:
    """A request without a reply so far."""

    __slots__ = ("_cause", "on_reply", "request", "transport")

    def __init__(self, transport: RestTransport, request: Request, on_reply: Callable[[Reply], None]) -> None:
        self.transport = transport
        self.request = request
        self.on_reply = on_reply
        self._cause = transport.ctx.kernel.cause

    def answer(self, reply: Reply) -> None:
        """Deliver the reply, caused by the request."""
        ctx = self.transport.ctx
        ctx.kernel.follow(self._cause)
        ctx.run(self.on_reply, reply)


class RestClients:
    """All calls of one kernel to one API server.

    The scheme gets the custom types from the definitions that pass here.

    nursery: carries them out; None in a replay, which sends nothing
    credentials: None in a replay
    agent: what follows the field manager in the user agent
    own_accounts: True if users that are service accounts send with tokens of their own
    operation: the name at the gate, another one for each server
    following: the clock of a process that follows the time of a served cluster
    """

    def __init__(
        self,
        kernel: Kernel,
        scheme: Scheme,
        nursery: trio.Nursery | None,
        credentials: Credentials | None,
        *,
        agent: str = "",
        own_accounts: bool = False,
        operation: str = OPERATION,
        following: Following | None = None,
    ) -> None:
        self._operation, self._following = operation, following
        self._definitions = scheme.more = Latest()
        self.kernel = kernel
        self._scheme = scheme
        self._nursery = nursery
        self._kind = kernel.kind("connection", "server", "peer", "what", "reason")
        self._calls: dict[int, _Call] = {}
        self._watches: dict[int, tuple[ReceivedWatch, Request, bool]] = {}
        self._scopes: dict[int, trio.CancelScope] = {}
        self._newest = 0
        self._sender: Sender | None = None
        if credentials is not None:
            self._sender = Sender(scheme.names, credentials, agent, own_accounts)
            if following is not None:
                self._sender.follow(kernel)
        kernel.gate.handle(operation, self._enter)
        if nursery is not None and self._sender is not None:
            nursery.start_soon(self._sender.close_at_the_end)

    def transport(self, ctx: Context) -> RestTransport:
        """The transport of one actor's incarnation."""
        return RestTransport(ctx, self)

    # --- in the simulation ------------------------------------------------------------------------

    def send(self, transport: RestTransport, request: Request, on_reply: Callable[[Reply], None]) -> None:
        """Send a request."""
        ctx = transport.ctx
        if len(self._calls) >= CALLS_MAX:
            ctx.kernel.call_later(0, lambda _: ctx.run(on_reply, Reply(0, lost=REFUSED)))
            return
        following = self._following
        self._newest = number = self._newest + 1 if following is None else following.number()
        self._calls[number] = _Call(transport, request, on_reply)
        if self._nursery is not None:
            self._nursery.start_soon(self._carry, number, request)

    def stop(self, number: int) -> None:
        """End a call or a watch without a reader."""
        self._watches.pop(number, None)
        self._calls.pop(number, None)
        scope = self._scopes.pop(number, None)
        if scope is not None:
            scope.cancel()

    def stop_all(self, ctx: Context) -> None:
        """End what belongs to an incarnation."""
        owned = [number for number, call in self._calls.items() if call.transport.ctx is ctx]
        owned += [number for number, (watch, _, _) in self._watches.items() if watch.ctx is ctx]
        for number in owned:
            self.stop(number)

    def _enter(self, payload: Any, done: Callable[[Any], None]) -> None:
        number, what, data = payload
        done(None)
        if what in (EVENTS, END):
            self._take(number, what, data)
            return
        call = self._calls.pop(number, None)
        if call is None:
            return
        if what == ANSWER:
            code, headers, body = data
            reply = reply_of(self._scheme, call.request, code, headers, body)
            if call.request.resource == DEFINITIONS and reply.items is not None:
                whole = not reply.more and "continue" not in call.request.options
                self._definitions.add(reply.items, whole=whole)
            call.answer(reply)
        elif what == LOST:
            self.kernel.record(self._kind, (data[0], number, data[1], data[2]))
            call.answer(Reply(0, lost=data[1]))
        else:
            watch = ReceivedWatch(call.transport.ctx, partial(self.stop, number))
            self._watches[number] = watch, call.request, bool(data)
            call.answer(Reply(200, watch=watch))

    def _take(self, number: int, what: str, data: bytes) -> None:
        """Events of a watch, or its end."""
        watch, request, framed = self._watches.get(number, (None, None, False))
        if watch is None or request is None:  # it was stopped before
            return
        if what == END:
            self.stop(number)
            watch.arrive([], True)
            return
        resource = self._scheme.find(request.group, request.version, request.resource)
        if resource is None:  # its definition is gone
            self.stop(number)
            watch.arrive([], True)
            return
        events = events_of(self._scheme, resource, data, framed=framed)
        if request.resource == DEFINITIONS:
            for event in events:
                self._definitions.take(event)
        watch.arrive(events, False)

    # --- outside ----------------------------------------------------------------------------------

    async def _carry(self, number: int, request: Request) -> None:
        """One request from its beginning to its answer, or to the end of its watch."""
        assert self._sender is not None
        following, last = self._following, ""
        headers = [following.header(number)] if following is not None else []

        def post(what: str, data: Any) -> None:
            nonlocal last
            last = what
            self._post(number, what, data)

        if number in self._calls:  # it was not stopped before it began
            with trio.CancelScope() as self._scopes[number]:
                try:
                    if following is not None:
                        await following.in_order(number, partial(self._sender.prepare, request))
                    await self._sender.carry(request, post, headers)
                except Exception as error:  # the supervisor of calls: any bytes of the server
                    LOG.exception("a request of %s failed", request.resource)
                    post(LOST, [self._sender.server, RESET, f"{type(error).__name__}: {error}"])
            self._scopes.pop(number, None)
        if following is not None:
            following.end(number, last)

    def _post(self, number: int, what: str, data: Any) -> None:
        if self._following is not None:
            self._following.take(self._operation, number, what, data)
            return
        self.kernel.gate.post(self._operation, [number, what, data], _nothing)


def _nothing(_: object) -> None:
    """The result of the operation is not needed."""


class RestTransport:
    """A `Transport` of one actor to one server."""

    def __init__(self, ctx: Context, clients: RestClients) -> None:
        self.ctx = ctx
        self._clients = clients
        ctx.on_stop(partial(clients.stop_all, ctx))

    def send(self, request: Request, on_reply: Callable[[Reply], None]) -> None:
        """Send a request."""
        self._clients.send(self, request, on_reply)


Post = Callable[[str, Any], None]


class Sender:
    """Sends HTTP requests with the credentials of one access, outside of virtual time."""

    def __init__(self, names: Names, credentials: Credentials, agent: str, own_accounts: bool) -> None:
        self._names = names
        self._token_group = names.group("authentication")
        self.server = credentials.access.server
        self._credentials = credentials
        self._agent = agent
        self._tokens = AccountTokens(self._create_token) if own_accounts else None
        # A certificate of the process would win over the token of an account.
        self._anonymous = credentials.anonymous()
        self._http: dict[Credentials, tuple[Any, httpx.AsyncClient]] = {}  # and its TLS
        self._asking = trio.Lock()
        self._logged: set[str] = set()
        self._waits = False  # for answers, without an end

    async def close_at_the_end(self) -> None:
        """Keep idle connections until this task is cancelled."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(FAREWELL_S, shield=True):
                for _, client in self._http.values():
                    await client.aclose()

    def follow(self, kernel: Kernel) -> None:
        """Let tokens age in virtual time, and wait for answers as long as that rests."""
        self._waits = True
        if self._tokens is not None:
            self._tokens = AccountTokens(self._create_token, lambda: kernel.now_us / SECOND)

    async def prepare(self, request: Request) -> None:
        """Get the token that a request needs."""
        account = account_of(self._names, request.user)
        if account is not None and self._tokens is not None:
            with suppress(AccessError):  # which `carry` meets again
                await self._tokens.token(account)

    async def carry(self, request: Request, post: Post, more: Sequence[tuple[str, str]] = ()) -> None:
        """Send a request, and post what arrives.  more: headers"""
        try:
            account = account_of(self._names, request.user) if self._tokens is not None else None
            packs, accepted = self._credentials.access.packed, self._credentials.access.accepted
            sent_as = self._names.media_protobuf if packs else self._names.media_json
            headers = [*await self._headers(account, request.manager, accepted or f"{sent_as}, */*"), *more]
            client = self._client(self._credentials if account is None else self._anonymous)
        except (AccessError, httpx.InvalidURL) as error:
            self._log_once(str(error))
            post(LOST, [self.server, REFUSED, str(error)])
            return
        target = target_of(request)
        if packs:
            target = packed(self._names, target, request.body)
        wait_s = ANSWER_S
        if request.verb == "watch":
            query = request.options.get("timeoutSeconds", "")
            wait_s = (int(query) if query.isdigit() else WATCH_S) + WATCH_GRACE_S
        sent = self._request(client, target, headers, wait_s)
        opened = False
        try:
            response = await client.send(sent, stream=True)
            self._logged.clear()
            try:
                if response.status_code == 401:
                    self._credentials.refuse()
                if request.verb == "watch" and response.status_code == 200:
                    opened = True
                    framed = response.headers.get("content-type", "").startswith(self._names.media_protobuf)
                    post(OPEN, framed)
                    await _events(response, post, framed=framed)
                else:
                    body = await _whole(response)
                    stored = {
                        name: response.headers[name] for name in KEPT_HEADERS if name in response.headers
                    }
                    post(ANSWER, [response.status_code, stored, body])
            finally:
                await response.aclose()
        except (httpx.HTTPError, httpx.StreamError) as error:
            if opened:
                LOG.info("the watch of %s ended: %r", request.resource, error)
            else:
                text = text_of(error)
                self._log_once(text)
                post(LOST, [self.server, reason_of(error), text])
        if opened:
            post(END, b"")

    def _log_once(self, text: str) -> None:
        """Log why there is no answer, once until the server answers again."""
        if text not in self._logged:
            self._logged.add(text)
            LOG.error("no answer from %s: %s", self.server, text)

    def _request(
        self, client: httpx.AsyncClient, target: Target, headers: list[tuple[str, str]], wait_s: float
    ) -> httpx.Request:
        name = self._credentials.access.server_name
        if target.content_type:
            headers = [*headers, ("Content-Type", target.content_type)]
        timeout = httpx.Timeout(None if self._waits else wait_s, connect=DIAL_S, pool=None)
        return client.build_request(
            target.method,
            self.server + target.path,
            headers=headers,
            content=target.body or None,
            timeout=timeout,
            extensions={"sni_hostname": name} if name else None,
        )

    async def _headers(self, account: Account | None, manager: str, accepted: str) -> list[tuple[str, str]]:
        """The headers of a request.

        account: a service account that sends it; None for the process
        accepted: the forms of an answer
        """
        if account is not None and self._tokens is not None:
            own = [("Authorization", f"Bearer {await self._tokens.token(account)}")]
        else:
            if self._credentials.asks:
                async with self._asking:
                    if self._credentials.asks:
                        await trio.to_thread.run_sync(self._credentials.refresh)
            own = self._credentials.headers()
        agent = f"{manager}/{self._agent}" if self._agent else manager
        return [*own, ("Accept", accepted), ("User-Agent", agent)]

    def _client(self, credentials: Credentials) -> httpx.AsyncClient:
        """The client with the present certificates.  Connections of an earlier one end when what
        they carry has ended.
        """
        context = credentials.context()
        new, client = self._http.get(credentials, (None, None))
        if client is None or new is not context:
            limits = httpx.Limits(
                max_connections=None, max_keepalive_connections=IDLE_MAX, keepalive_expiry=IDLE_S
            )
            verify: Any = True if context is None else context
            proxy = self._credentials.access.proxy or None
            client = httpx.AsyncClient(verify=verify, limits=limits, proxy=proxy)
            self._http[credentials] = context, client
        return client

    async def _create_token(self, account: Account, seconds: int) -> tuple[int, Mapping[str, Any]]:
        """Ask for a token of a service account, which is created if it is not there and no pod's;
        returns the code and the body of the answer.
        """
        namespace, name, pod, uid = account
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
        body = {
            "kind": "TokenRequest",
            "apiVersion": f"{self._token_group}/v1",
            "spec": {"expirationSeconds": seconds, **({"boundObjectRef": bound} if pod else {})},
        }
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        ask = partial(self.ask, "POST", f"{accounts}/{name}/token", body, "token-client")
        answer = await ask()
        if answer[0] == HTTPStatus.NOT_FOUND and not pod:
            new = {"metadata": {"name": name, "namespace": namespace}}
            await self.ask("POST", accounts, new, "token-client")
            answer = await ask()
        return answer

    async def ask(
        self, method: str, path: str, body: Obj | None, manager: str, wait_s: float = ANSWER_S
    ) -> tuple[int, Mapping[str, Any]]:
        """Send a request outside of virtual time; returns the code and the body of the answer, 0
        and why for none.  Raises AccessError for unusable credentials.
        """
        headers = await self._headers(None, manager, self._names.media_json)
        try:
            answer = await self._client(self._credentials).request(
                method, self.server + path, json=body, headers=headers, timeout=wait_s
            )
            if answer.status_code == 401:
                self._credentials.refuse()
            return answer.status_code, answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return 0, {"message": text_of(error)}


async def _whole(response: httpx.Response) -> bytes:
    """The body of an answer.  Raises httpx.ReadError if it is too long."""
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > ANSWER_MAX:
            raise httpx.ReadError(f"an answer has more than {ANSWER_MAX} bytes")
        parts.append(part)
    return b"".join(parts)


async def _events(response: httpx.Response, post: Post, *, framed: bool) -> None:
    """The whole lines or frames of a watch, as they arrive."""
    rest = b""
    async for part in response.aiter_bytes():
        rest += part
        size = whole_of(rest, framed=framed)
        if size:
            post(EVENTS, rest[:size])
            rest = rest[size:]
        if len(rest) > ANSWER_MAX:
            raise httpx.ReadError(f"an event has more than {ANSWER_MAX} bytes")
