"""A program that keeps an API busy: it creates, scales or lists objects at a rate.

Turns a `LoadSpec` into requests at random instants (a Poisson process). Each request is a task: a
slow request does not delay the next one, and a failed one is counted and not retried.

Holds: at most `FLYING_MAX` requests are in flight, further ones are dropped and counted; random
       draws come from the load's own stream; after `stop` no request starts, and the objects that
       the load has created stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log
from random import Random
from typing import Any

from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.types import Reply
from sim.client import Client
from sim.dataclass import dataclass
from sim.kernel import Context

Obj = Mapping[str, Any]
FLYING_MAX = 1_000
UNKNOWN = Reply(404)  # for a kind without a definition


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """One of create (a template; names get a number), scale (resource, namespace, name, low, high),
    list_of.

    user: that sends the requests, "" for the administrator
    groups: of the user; () for those that come with its name
    clients: number of programs, each with its own connections, which send in turn
    """

    mean_gap_us: int
    create: Obj | None = None
    lifetime_us: int | None = None
    scale: tuple[str, str, str, int, int] | None = None
    list_of: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    clients: int = 1


class Load:
    """One load, running until `stop`."""

    def __init__(
        self,
        ctx: Context,
        clients: Sequence[Client],
        scheme: Scheme,
        name: str,
        spec: LoadSpec,
        forbidden: Callable[[str, Reply], None],
    ) -> None:
        """forbidden: called for the first request that the user may not send"""
        self.name = name
        self._forbidden: Callable[[str, Reply], None] | None = forbidden
        self.sent = self.failed = self.dropped = 0
        self._ctx = ctx
        self._clients = clients
        self._scheme = scheme
        self._spec = spec
        self._random: Random = ctx.kernel.stream(f"load/{name}")
        self._in_flight = 0
        self._stopped = False
        self._kind = ctx.kernel.kind("load", "name", "sent", "failed", "dropped")
        self._plan()

    def stop(self) -> None:
        """Stop the load and record its counts."""
        if not self._stopped:
            self._stopped = True
            self._ctx.record(self._kind, (self.name, self.sent, self.failed, self.dropped))

    def _plan(self) -> None:
        gap_us = 1 + int(-self._spec.mean_gap_us * log(1.0 - self._random.random()))
        self._ctx.call_later_us(gap_us, self._next)

    def _next(self, _: object) -> None:
        if self._stopped:
            return
        self._plan()
        if self._in_flight >= FLYING_MAX:
            self.dropped += 1
            return
        self.sent += 1
        self._in_flight += 1
        self._ctx.spawn(self._run, self.sent, name="load")

    async def _run(self, number: int) -> None:
        reply = await self._send(number)
        self._in_flight -= 1
        self.failed += not reply.ok
        if reply.reason == "Forbidden" and self._forbidden is not None:
            self._forbidden(self.name, reply)
            self._forbidden = None

    async def _send(self, number: int) -> Reply:
        spec, client = self._spec, self._client(number)
        if spec.create is not None:
            return await self._create(client, spec.create, number)
        if spec.scale is not None:
            resource, namespace, name, low, high = spec.scale
            patch = {"spec": {"replicas": self._random.randint(low, high)}}
            if self._scheme.named(resource) is None:
                return UNKNOWN
            return await client.patch(resource, namespace, name, patch, kind="merge", subresource="scale")
        return UNKNOWN if self._scheme.named(spec.list_of) is None else await client.list(spec.list_of)

    def _client(self, number: int) -> Client:
        """The program that sends the request of this number."""
        return self._clients[number % len(self._clients)]

    async def _create(self, client: Client, template: Obj, number: int) -> Reply:
        resource = self._scheme.by_kind(template["apiVersion"], template["kind"])
        if resource is None:
            return UNKNOWN
        meta = {**template["metadata"], "name": f"{template['metadata']['name']}-{number}"}
        namespace = ""
        if resource.namespaced:
            namespace = meta["namespace"] = str(meta.get("namespace", "default"))
        reply = await client.create(resource, namespace, {**template, "metadata": meta})
        if reply.ok and self._spec.lifetime_us is not None:
            entry = client, resource, namespace, meta["name"]
            self._ctx.call_later_us(self._spec.lifetime_us, self._expire, entry)
        return reply

    def _expire(self, entry: tuple[Client, Resource, str, str]) -> None:
        self._ctx.spawn(self._delete, *entry, name="load")

    async def _delete(self, client: Client, resource: Resource, namespace: str, name: str) -> None:
        reply = await client.delete(resource, namespace, name)
        self.failed += not reply.ok
