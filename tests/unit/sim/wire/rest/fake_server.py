"""An API server that answers as a test says, and a process that asks it over the REST transport."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from sim.api.scheme.scheme import Scheme
from sim.api.types import Reply, Request, UserInfo
from sim.client import Client
from sim.ident import NAMES
from sim.kernel import NEVER_US, Context, Kernel, Supervisor
from sim.wire.rest.access import Access, Credentials
from sim.wire.rest.exec_plugins import run_plugin
from sim.wire.rest.transport import RestClients

SCHEME = Scheme(NAMES["kubernetes"])
LIMIT_S = 30.0  # real seconds, within which nothing of a test may hang
HOST = "127.0.0.1"
Stream = trio.abc.Stream
Answer = Callable[["Asked", Stream], Awaitable[None]]


class Asked:
    """One request that has arrived.  head: its first lines"""

    def __init__(self, head: str) -> None:
        self.head = head
        self.method, self.path = head.split(" ", 2)[:2]

    def header(self, name: str) -> str:
        """The value of a header; "" without it."""
        found = [line for line in self.head.split("\r\n") if line.lower().startswith(f"{name}: ")]
        return found[0].partition(": ")[2] if found else ""


def answer(code: int, body: object, headers: str = "", kind: str = "application/json") -> bytes:
    """A whole answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {code} x\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    return head.encode() + data


def piece(data: bytes) -> bytes:
    """A piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


OPENED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def pod(name: str, revision: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": str(revision)}}


def event(kind: str, obj: object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def pods(*names: str, revision: int = 10) -> bytes:
    """The answer to a list."""
    items = [pod(name, revision) for name in names]
    return answer(200, {"kind": "PodList", "metadata": {"resourceVersion": str(revision)}, "items": items})


class World:
    """The process that asks."""

    def __init__(self, access: Access, nursery: trio.Nursery) -> None:
        self.asked: list[Asked] = []
        self.nursery = nursery
        self.kernel = Kernel()
        self.kernel.set_goal(NEVER_US)
        self.supervisor = Supervisor(self.kernel, nursery)
        self.credentials = Credentials(access, trio.current_time, run_plugin, trio.current_time)
        self.rest = RestClients(self.kernel, SCHEME, nursery, self.credentials)
        self.contexts: list[Context] = []
        self.actor = self.supervisor.add("asking", self._main)

    async def _main(self, ctx: Context) -> None:
        self.contexts.append(ctx)
        await ctx.forever()

    @property
    def ctx(self) -> Context:
        return self.contexts[-1]

    def client(self, **more: Any) -> Client:
        """A client of the process."""
        return Client(self.ctx, SCHEME, [self.rest.transport(self.ctx)], UserInfo("u"), **more)

    async def ask(self, verb: Any = "list", name: str = "") -> Reply:
        """Send a request for pods, and wait for the one reply."""
        found: list[Reply] = []
        self.rest.transport(self.ctx).send(
            Request(verb=verb, resource="pods", namespace="default", name=name, user=UserInfo("u")),
            found.append,
        )
        await self.until(lambda: found)
        return found[0]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the network has brought it about."""
        while not condition():  # noqa: ASYNC110 - the clocks are real here
            await trio.sleep(0.002)

    async def rests(self) -> None:
        """Wait until no request of the process is left."""
        tasks = len(self.nursery.child_tasks)
        await self.until(lambda: not self.rest._scopes)
        assert len(self.nursery.child_tasks) <= tasks


async def _head(stream: Stream) -> Asked | None:
    data = b""
    while b"\r\n\r\n" not in data:
        part = await stream.receive_some()
        if not part:
            return None
        data += part
    return Asked(data.partition(b"\r\n\r\n")[0].decode())


@asynccontextmanager
async def world(
    reply: Answer, context: ssl.SSLContext | None = None, host: str = HOST, pace: float = 1, **more: Any
) -> AsyncIterator[World]:
    """A server, and a process with a clock of some pace.

    more: of the access
    """
    listeners = await trio.open_tcp_listeners(0, host=host)
    port = listeners[0].socket.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    access = Access(f"http{'s' if context else ''}://{shown}:{port}", **more)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as serving, trio.open_nursery() as nursery:
            made = World(access, nursery)

            async def serve(connection: trio.SocketStream) -> None:
                stream: Stream = connection
                if context is not None:
                    stream = trio.SSLStream(connection, context, server_side=True, https_compatible=True)
                try:
                    while (asked := await _head(stream)) is not None:
                        made.asked.append(asked)
                        await reply(asked, stream)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return
                finally:
                    await trio.aclose_forcefully(stream)

            serving.start_soon(trio.serve_listeners, serve, listeners)
            made.kernel.set_rate(pace)
            nursery.start_soon(made.kernel.run)
            await made.until(lambda: made.contexts)
            yield made
            made.kernel.stop()
            nursery.cancel_scope.cancel()
            serving.cancel_scope.cancel()
