"""The API client of a process: verbs become requests, limited in rate, sent to a server that
answers.

Turns `get`, `list`, `create` ... into a `Request`, waits for a token, sends it over the first
transport that does not refuse it, retries where upstream's REST client does, and returns the
`Reply`; failures are values.

Holds: one token bucket per client, served in order of requests; a watch takes a token only when it
is sent again; a reply (possibly "Timeout") arrives exactly once; a timeout counts from the first
sending, not from the wait for a token, and covers all tries together.

Mirrors  client-go v1.25 rest/{request,with_retry}.go, util/flowcontrol.
Differs  one client may know several servers, and uses one until it refuses, resets or is found dead
         (upstream leaves the choice to a load balancer).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.types import (
    EMPTY,
    INTERNAL_SERVER_ERROR,
    TOO_MANY_REQUESTS,
    Json,
    Obj,
    Reply,
    Request,
    Transport,
    UserInfo,
    Verb,
)
from sim.client.fast.coalesced_calls import CoalescedCalls
from sim.client.fast.lease_renewal import Heartbeat, Rhythm
from sim.client.fast.read_modify_write import Exchange
from sim.client.rest.channel import REFUSED, RESET, TIMEOUT, Channel
from sim.client.rest.limiter import TokenBucket
from sim.kernel import NEVER_US, Context, Future
from sim.units import Virtual

RETRIES_MAX = 10  # rest.Request maxRetries
RESET_RETRY_US = 1_000_000  # with_retry.go: a GET on a reset connection waits one second

# What becomes of the objects that a deleted object owns; "": what its kind does by default.
Propagation = Literal["Foreground", "Background", "Orphan", ""]
PATCH_TYPES: Mapping[str, str] = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}

OnReply = Callable[[Reply], None]


def retry_after_us(reply: Reply, verb: Verb) -> int | None:
    """The pause before upstream's client sends this request again; None if the reply is final."""
    if reply.lost:
        return RESET_RETRY_US if reply.lost == RESET and verb in ("get", "list", "watch") else None
    if reply.code != TOO_MANY_REQUESTS and reply.code < INTERNAL_SERVER_ERROR:
        return None
    wait = reply.headers.get("Retry-After", "")
    return int(wait) * 1_000_000 if wait.isdigit() else None


DEFAULT_QPS = 5  # client-go rest: DefaultQPS, of a configuration that names no rate


class Client:
    """Sends the requests of one user of one process.

    transports: connections to API servers, in order of preference
    agent: the user agent; its part before "/" is the field manager
    timeout_us: timeout of a request, 0 for none (a transport still detects a dead connection)
    """

    def __init__(
        self,
        ctx: Context,
        scheme: Scheme,
        transports: Sequence[Transport],
        user: UserInfo,
        *,
        qps: float = DEFAULT_QPS,
        burst: int = 10,
        agent: str = "",
        timeout_us: int = 0,
    ) -> None:
        self.ctx = ctx
        self.scheme = scheme
        self.user = user
        self.manager = agent.partition("/")[0] or "unknown"
        self.bucket = TokenBucket(qps, burst)
        self.timeout_us = timeout_us
        self._transports = tuple(transports)
        self._at = 0  # index of the transport in use
        assert self._transports, "a client needs a transport"
        for transport in self._transports:
            if isinstance(transport, Channel):
                transport.on_lost.append(self.leave)

    # --- requests ---------------------------------------------------------------------------------

    def request(
        self,
        verb: Verb,
        resource: str | Resource,
        namespace: str = "",
        name: str = "",
        *,
        subresource: str = "",
        options: Mapping[str, str] = EMPTY,
        body: Json = None,
        content_type: str = "application/json",
        purpose: int = 0,
    ) -> Request:
        """A request of this client's user. Its fields are passed one by one, because passing them
        in a dict takes five times as long.
        """
        known = self.scheme.resource(resource)
        return Request(
            verb=verb,
            resource=known.plural,
            group=known.group,
            version=known.version,
            subresource=subresource,
            namespace=namespace,
            name=name,
            options=options,
            body=body,
            content_type=content_type,
            user=self.user,
            manager=self.manager,
            cause=self.ctx.kernel.cause,
            purpose=purpose,
        )

    def call(self, request: Request, on_reply: OnReply, timeout_us: int | None = None) -> None:
        """Send a request when the bucket allows; `on_reply` is called once, after this call
        returns.
        """
        if timeout_us is None:
            timeout_us = self.timeout_us
        transport = self._transports[self._at]
        attempt = _Attempt(self, request, on_reply, timeout_us, transport)
        watch = request.verb == "watch"
        wait_us = 0 if watch else self.bucket.reserve(self.ctx.now_us())
        if wait_us:
            self.ctx.call_later_us(wait_us, attempt.send)
        elif timeout_us and not watch:
            attempt.send(None)
        else:  # as `send`, for the usual case
            transport.send(request, attempt.judge)

    async def ask(self, request: Request, timeout_us: int | None = None) -> Reply:
        """Send a request and wait for its reply."""
        answer = self.ctx.future(f"{request.verb} {request.resource}")
        self.call(request, answer.set, timeout_us)
        reply = await answer.wait()
        assert isinstance(reply, Reply)
        return reply

    def answer(self, request: Request) -> Future:
        """Like `ask`, but returns a future, for sending several requests before waiting."""
        future = self.ctx.future(f"{request.verb} {request.resource}")
        self.call(request, future.set)
        return future

    async def get(
        self, resource: str | Resource, namespace: str, name: str, revision: str | None = None
    ) -> Reply:
        """Read one object; `revision`: "0" accepts the server's cache, None reads the newest."""
        options = EMPTY if revision is None else {"resourceVersion": revision}
        return await self.ask(self.request("get", resource, namespace, name, options=options))

    async def list(
        self,
        resource: str | Resource,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        revision: str | None = None,
        limit: int = 0,
        more: str = "",
    ) -> Reply:
        """List a resource; `more`: the continue token of a paged list."""
        options = list_options(label_selector, field_selector, revision, limit, more)
        return await self.ask(self.request("list", resource, namespace, options=options))

    async def create(
        self, resource: str | Resource, namespace: str, obj: Obj, name: str = "", subresource: str = ""
    ) -> Reply:
        """Create an object or a subresource of one."""
        return await self.ask(
            self.request("create", resource, namespace, name, body=obj, subresource=subresource)
        )

    async def update(self, resource: str | Resource, obj: Obj, subresource: str = "") -> Reply:
        """Update an object; its `resourceVersion`, if set, makes the write conditional."""
        meta = obj["metadata"]
        namespace = meta.get("namespace", "")
        return await self.ask(
            self.request("update", resource, namespace, meta["name"], body=obj, subresource=subresource)
        )

    async def patch(
        self,
        resource: str | Resource,
        namespace: str,
        name: str,
        patch: Json,
        kind: str = "strategic",
        subresource: str = "",
        options: Mapping[str, str] = EMPTY,
    ) -> Reply:
        """Patch an object.  kind: kind of the patch, a key of `PATCH_TYPES`."""
        return await self.ask(
            self.request(
                "patch",
                resource,
                namespace,
                name,
                body=patch,
                content_type=PATCH_TYPES[kind],
                subresource=subresource,
                options=options,
            )
        )

    async def delete(
        self,
        resource: str | Resource,
        namespace: str,
        name: str,
        grace_s: int | None = None,
        uid: str = "",
        revision: str = "",
        policy: Propagation = "",
    ) -> Reply:
        """Delete an object; `uid` and `revision` are preconditions, `policy` the propagation
        policy.
        """
        body = delete_options(grace_s, uid, revision, policy)
        return await self.ask(self.request("delete", resource, namespace, name, body=body))

    async def delete_collection(
        self,
        resource: str | Resource,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        policy: Propagation = "",
    ) -> Reply:
        """Delete all objects that the selectors match."""
        options = list_options(label_selector, field_selector)
        body = delete_options(policy=policy)
        return await self.ask(
            self.request("deletecollection", resource, namespace, options=options, body=body)
        )

    def heartbeat(
        self,
        resource: str | Resource,
        namespace: str,
        name: str,
        path: tuple[str, ...],
        rhythm: Rhythm,
        missed: Callable[[], None],
        composed: Callable[[int], tuple[Request, OnReply]],
    ) -> Heartbeat:
        """Renewals of a time in one object, again and again, without rate limit (see `Heartbeat`)."""
        request = self.request("update", resource, namespace, name)
        return Heartbeat(self.ctx, self, request, path, rhythm, missed, composed)

    def coalesced_calls(
        self, resource: str, name: str = "", namespace: str = "", verb: Verb = "get", purpose: int = 0
    ) -> CoalescedCalls:
        """Coalesced calls about one object, or about objects one after the other.

        purpose: keys the draws of these calls and of the ordinary requests that they must equal
        """
        asked = self.request(verb, resource, namespace, name, purpose=purpose)
        return CoalescedCalls(self.ctx, self, asked, self.timeout_us)

    def exchanges(self, resource: str, name: str = "", namespace: str = "", purpose: int = 0) -> Exchange:
        """Like `coalesced_calls`, for read-modify-writes."""
        asked = self.request("get", resource, namespace, name, purpose=purpose)
        return Exchange(self.ctx, self, asked, self.timeout_us)

    def resume(
        self, channel: Channel, request: Request, on_reply: OnReply, sent_us: Virtual, timeout_us: int
    ) -> OnReply:
        """Continue a coalesced call as an ordinary request, which was sent at `sent_us` over this
        channel with a token; returns the callback for its reply.
        """
        attempt = _Attempt(self, request, on_reply, timeout_us, channel)
        return attempt.awaited(sent_us + timeout_us) if timeout_us else attempt.judge

    # --- transports -------------------------------------------------------------------------------

    @property
    def transport(self) -> Transport:
        """The transport in use."""
        return self._transports[self._at]

    @property
    def transport_count(self) -> int:
        """The number of API servers that the client knows."""
        return len(self._transports)

    def leave(self, transport: Transport) -> None:
        """Use the next server from now on, because connections to this one fail."""
        if self._transports[self._at] is transport:
            self._at = (self._at + 1) % len(self._transports)
            self.ctx.kernel.standing.moved()


class _Attempt(msgspec.Struct, eq=False):
    """One request until its final reply.  answered: number of the last try that has a result."""

    client: Client
    request: Request
    on_reply: OnReply
    timeout_us: int
    transport: Transport
    tries: int = 0
    refusals: int = 0
    answered: int = -1
    until_us: Virtual = Virtual(0)

    def _again(self, _: Any) -> None:
        """Send the request again when the bucket allows, unless that is after the timeout."""
        ctx = self.client.ctx
        left_us = self.until_us - ctx.kernel.now_us if self.until_us else NEVER_US
        wait_us = self.client.bucket.reserve(ctx.now_us(), left_us) if left_us > 0 else -1
        self.request.draw = 0  # its draw belongs to the earlier sending
        if wait_us < 0:
            self.on_reply(Reply(0, lost=TIMEOUT))
        elif wait_us:
            ctx.call_later_us(wait_us, self.send)
        else:
            self.send(None)

    def send(self, _: Any) -> None:
        client = self.client
        transport = self.transport = client.transport
        if not self.timeout_us or self.request.verb == "watch":
            # Without a timeout this is the only reply to the try.
            transport.send(self.request, self.judge)
            return
        ctx = client.ctx
        until_us = self.until_us or ctx.kernel.now_us + ctx.clock.real_us(self.timeout_us)
        transport.send(self.request, self.awaited(until_us))

    def awaited(self, until_us: Virtual) -> OnReply:
        """The callback for the reply to this try; a timeout at `until_us` counts as a reply, and
        the first reply counts.
        """
        self.until_us = until_us
        this, ctx, transport = self.tries, self.client.ctx, self.transport

        def answered(reply: Reply) -> None:
            if self.answered < this:
                self.answered = this
                self.judge(reply)
            elif reply.watch is not None:
                reply.watch.stop()  # the timeout came first

        def late(_: Any) -> None:
            if self.answered < this:
                if isinstance(transport, Channel):
                    transport.abandon(answered)
                ctx.run(answered, Reply(0, lost=TIMEOUT))

        if until_us < NEVER_US:  # a call that is never due would keep the request for ever
            ctx.kernel.call_at(until_us, late)
        return answered

    def judge(self, reply: Reply) -> None:
        if 200 <= reply.code < 300:
            self.on_reply(reply)
            return
        client = self.client
        if reply.lost in (REFUSED, RESET):
            client.leave(self.transport)
            self.refusals += 1
            if reply.lost == REFUSED and self.refusals < client.transport_count:
                self.tries += 1
                self.request.draw = 0
                self.send(None)  # nothing was sent: try the next server
                return
        wait_us = retry_after_us(reply, self.request.verb)
        if wait_us is None or self.tries >= RETRIES_MAX + self.refusals:
            self.on_reply(reply)
            return
        self.tries += 1
        client.ctx.call_later_us(wait_us, self._again)


# --- options --------------------------------------------------------------------------------------


def list_options(
    label_selector: str = "",
    field_selector: str = "",
    revision: str | None = None,
    limit: int = 0,
    more: str = "",
) -> Mapping[str, str]:
    """Query parameters of a list."""
    options: dict[str, str] = {}
    if label_selector:
        options["labelSelector"] = label_selector
    if field_selector:
        options["fieldSelector"] = field_selector
    if revision is not None:
        options["resourceVersion"] = revision
    if limit:
        options["limit"] = str(limit)
    if more:
        options["continue"] = more
    return options


def delete_options(
    grace_s: int | None = None, uid: str = "", revision: str = "", policy: Propagation = ""
) -> Json:
    """A DeleteOptions body, None if it would be empty."""
    body: dict[str, Json] = {}
    if grace_s is not None:
        body["gracePeriodSeconds"] = grace_s
    preconditions = {k: v for k, v in (("uid", uid), ("resourceVersion", revision)) if v}
    if preconditions:
        body["preconditions"] = preconditions
    if policy:
        body["propagationPolicy"] = policy
    return {"kind": "DeleteOptions", "apiVersion": "v1", **body} if body else None
