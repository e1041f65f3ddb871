"""A served cluster with options of authentication, and clients with certificates."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import trio

from sim.api.auth.keys import SigningKey
from sim.api.types import UserInfo
from sim.app.cluster import Cluster
from sim.app.serving.front import make_front
from sim.app.serving.identities import Files
from sim.ident import NAMES
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.wire.authority import Authority
from sim.wire.http.app import Application
from sim.wire.http.fronts.server import serve
from sim.wire.tls import Pair, server_context

N = NAMES["kubernetes"]
ROOT = {"root": UserInfo("admin", (N.group_masters,))}
CORE = "/api/v1/namespaces/default"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
DAY = timedelta(days=1)


def key(number: int = 0) -> SigningKey:
    """One of several keys, made once."""
    return _key(number)


@cache
def _key(_: int) -> SigningKey:
    return SigningKey.new()


def certificates(name: str = "ca", since: timedelta = timedelta()) -> Authority:
    """An authority with certificates that became valid so long ago."""
    return Authority(name, datetime.now(UTC) - since)


@dataclass
class World:
    """A cluster that is served over TLS, with clients of different identities."""

    cluster: Cluster
    port: int
    authority: Authority
    folder: Path
    open: list[httpx.AsyncClient] = field(default_factory=list)

    @property
    def base(self) -> str:
        """The address of the server."""
        return f"https://127.0.0.1:{self.port}"

    def client(self, token: str = "", pair: Pair | None = None) -> httpx.AsyncClient:
        """A client with a token, a certificate, or nothing."""
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        if pair is not None:
            file = self.folder / f"{len(self.open)}.pem"
            file.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(file)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        made = httpx.AsyncClient(base_url=self.base, headers=headers, verify=context)
        self.open.append(made)
        return made

    @property
    def root(self) -> httpx.AsyncClient:
        """The administrator."""
        return self.client("root")

    async def who(self, client: httpx.AsyncClient, headers: Any = ()) -> str:
        """The user of a request as the refusal to impersonate another user names it; admin if the
        request is allowed; the code if authorization does not refuse it.
        """
        wanted = [*headers, ("Impersonate-User", "another")]
        found = await client.get(f"{CORE}/configmaps", headers=wanted)
        if found.status_code != 403:
            return "admin" if found.status_code == 200 else str(found.status_code)
        message = str(found.json()["message"])
        if not message.startswith('users "another" is forbidden'):
            return "admin"  # the sender may impersonate a user without the right to read
        return message.split('User "')[1].split('"')[0]

    async def review(self, token: str, audiences: Sequence[str] = ()) -> dict[str, Any]:
        """The status of a TokenReview."""
        spec = {"token": token, "audiences": list(audiences)}
        found = await self.root.post(REVIEWS, json={"spec": spec})
        assert found.status_code == 201, found.text
        status: dict[str, Any] = found.json()["status"]
        return status

    async def account(self, name: str = "a") -> None:
        """Make a service account."""
        await self.root.post(f"{CORE}/serviceaccounts", json={"metadata": {"name": name}})

    async def token(self, name: str = "a", **spec: Any) -> str:
        """A token of a service account."""
        found = await self.root.post(f"{CORE}/serviceaccounts/{name}/token", json={"spec": spec})
        assert found.status_code == 201, found.text
        return str(found.json()["status"]["token"])


@asynccontextmanager
async def world(
    folder: Path, flags: dict[str, Any] | None = None, extra_authorities: bytes = b""
) -> AsyncIterator[World]:
    """A world with an API server with these options; time does not advance.

    extra_authorities: PEM, of options that name files
    """
    plan = ClusterPlan(naming="kubernetes", nodes=(), api_server=ComponentPlan(flags=flags or {}))
    authority = certificates()
    context = server_context(authority.server(("127.0.0.1",)), authority.pem + extra_authorities)
    async with Cluster(plan) as cluster, trio.open_nursery() as nursery:
        cluster.kernel.set_rate(0)
        files = Files.read(cluster.options.authentication, key())
        front = make_front(cluster, ROOT, "127.0.0.1:6443", files, (authority.pem,))
        port = await nursery.start(serve, Application(front.answer), "127.0.0.1", 0, context, None)
        made = World(cluster, port, authority, folder)
        try:
            yield made
        finally:
            for client in made.open:
                await client.aclose()
            nursery.cancel_scope.cancel()
