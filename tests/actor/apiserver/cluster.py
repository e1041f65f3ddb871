"""A small control plane for tests: storage, API server replicas, and requests without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from actors.apiserver.fast.lease_updates import RENEWAL, LeasePath, offer_lease_path
from actors.apiserver.options import ApiServerOptions
from actors.apiserver.server import ApiServer
from actors.storage import Storage
from sim.api.scheme.scheme import Scheme
from sim.api.types import Reply, Request, UserInfo, Watch, WatchEvent
from sim.ident import NAMES
from sim.kernel import Kernel, Supervisor
from sim.kernel.fast import FAST, FastPaths

NAMES_ORCH = NAMES["orch"]
SCHEME = Scheme(NAMES_ORCH)
ADMIN = UserInfo("admin", ("system:masters",))
USER = UserInfo("user", ("system:authenticated",))


class Plane:
    def __init__(
        self, kernel: Kernel, supervisor: Supervisor, replicas: int, options: ApiServerOptions
    ) -> None:
        self.kernel = kernel
        self.supervisor = supervisor
        self.storage = Storage(kernel)
        supervisor.add("storage", self.storage.main)
        self.servers = [
            ApiServer(f"apiserver-{n}", kernel, self.storage, SCHEME, options, address=f"172.16.250.{n + 1}")
            for n in range(replicas)
        ]
        for server in self.servers:
            supervisor.add(server.name, server.main)

    @property
    def server(self) -> ApiServer:
        return self.servers[0]

    async def run(self, duration_us: int) -> None:
        await self.kernel.run_until(self.kernel.now_us + duration_us)

    def send(self, request: Request, server: int = 0) -> list[Reply]:
        replies: list[Reply] = []
        self.servers[server].handle(request, replies.append)
        return replies

    def send_watch(self, options: dict[str, str]) -> list[Reply]:
        return self.send(request("watch", "leases", "default", options=options))

    def send_create(self, name: str, user: UserInfo = ADMIN) -> list[Reply]:
        return self.send(request("create", "leases", "default", body=lease(name), user=user))

    async def ask(
        self, verb: str, resource: str, namespace: str = "default", name: str = "", **kw: Any
    ) -> Reply:
        """Send a request, let it be answered, and give the reply.  `at`: which replica; `wait_us`:
        how long.
        """
        at, wait_us = kw.pop("at", 0), kw.pop("wait_us", 4_000_000)
        replies = self.send(request(verb, resource, namespace, name, **kw), at)
        end_us = self.kernel.now_us + wait_us
        while not replies and self.kernel.now_us < end_us:
            await self.run(10_000)
        assert len(replies) == 1, f"{verb} {resource} {name}: {len(replies)} replies"
        return replies[0]


def request(verb: str, resource: str, namespace: str = "", name: str = "", **kw: Any) -> Request:
    found = SCHEME.resource(resource)
    options = {k: str(v) for k, v in kw.pop("options", {}).items()}
    return Request(
        verb=verb,
        resource=found.plural,
        group=found.group,
        version=found.version,
        namespace=namespace if found.namespaced else "",
        name=name,
        options=options,
        user=kw.pop("user", ADMIN),
        manager=kw.pop("manager", "test"),
        **kw,
    )


class Seen:
    """An attached watch: what came, and when."""

    def __init__(self, kernel: Kernel, watch: Watch | None) -> None:
        assert watch is not None
        self.watch = watch
        self.events: list[tuple[int, WatchEvent]] = []
        self.ended_us: int | None = None
        self._kernel = kernel
        watch.attach(self._notify)

    def _notify(self) -> None:
        self.events += [(self._kernel.now_us, event) for event in self.watch.take()]
        if self.watch.ended and self.ended_us is None:
            self.ended_us = self._kernel.now_us

    @property
    def short(self) -> list[tuple[str, str]]:
        return [(e.type, e.item.obj["metadata"]["name"] if e.item else "") for _, e in self.events]


@asynccontextmanager
async def plane(
    replicas: int = 1, options: ApiServerOptions | None = None, seed: int = 1, fast: FastPaths = FAST
) -> AsyncIterator[Plane]:
    kernel = Kernel(seed, fast=fast)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run)
        yield Plane(kernel, Supervisor(kernel, nursery), replicas, options or ApiServerOptions())
        kernel.stop()
        nursery.cancel_scope.cancel()


def lease(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": SCHEME.resource("leases").api_version,
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": spec or {"holderIdentity": "h"},
    }


def paths_of(server: ApiServer) -> dict[str, LeasePath]:
    """The lease fast paths of a running server."""
    assert server.life is not None
    return server.life.fast.lease_paths


def offer(server: ApiServer, asked: Request) -> LeasePath | None:
    """A new lease fast path of a running server."""
    return offer_lease_path(server, paths_of(server), asked, RENEWAL)


def followed_of(server: ApiServer) -> int:
    """How many requests the write templates of a running server have served."""
    assert server.life is not None
    assert server.life.fast.templates is not None
    return server.life.fast.templates.followed
