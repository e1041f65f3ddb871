"""Processes with clients on the real API server, storage and network, on the virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from actors.apiserver.options import ApiServerOptions
from sim.api.types import Endpoint, Reply, Request
from sim.client import Channel, Client
from sim.kernel import Context, Kernel, Rule, Supervisor
from sim.units import SECOND
from tests.actor.apiserver.cluster import ADMIN, SCHEME, Plane, plane

OPTIONS = ApiServerOptions(disabled_admission=("ServiceAccount",))


class Tap:
    """An API server that records requests.  `alter`: may change a reply on its way out."""

    def __init__(self, server: Any, kernel: Kernel) -> None:
        self.name = server.name
        self.kernel = kernel
        self.asked: list[tuple[int, Request]] = []
        self.alter: Callable[[Request, Reply], Reply] = lambda _, reply: reply
        self._server = server

    @property
    def running(self) -> bool:
        return bool(self._server.running)

    def open_lease_path(self, request: Request, path: tuple[str, ...]) -> Any:
        return self._server.open_lease_path(request, path)

    def handle(self, request: Request, respond: Callable[[Reply], None]) -> None:
        self.asked.append((self.kernel.now_us, request))
        self._server.handle(request, lambda reply: respond(self.alter(request, reply)))

    def told(self, *names: str, verbs: Sequence[str] = ("list", "watch")) -> list[tuple[str, ...]]:
        """Verb and these options ("" if not given) of what was asked so far."""
        return [
            (request.verb, *(request.options.get(name, "") for name in names))
            for _, request in self.asked
            if request.verb in verbs
        ]


class Rig:
    def __init__(self, control: Plane) -> None:
        self.plane = control
        self.kernel = control.kernel
        self.supervisor: Supervisor = control.supervisor
        self.taps: dict[str, Endpoint] = {
            server.name: Tap(server, control.kernel) for server in control.servers
        }
        self.ended: dict[str, Any] = {}

    @property
    def tap(self) -> Tap:
        tap = self.taps["apiserver-0"]
        assert isinstance(tap, Tap)
        return tap

    def client(self, ctx: Context, **more: Any) -> Client:
        channels = [Channel(ctx, ctx.name, self.taps, name) for name in self.taps]
        more.setdefault("qps", 0)
        return Client(ctx, SCHEME, channels, more.pop("user", ADMIN), **more)

    def actor(self, name: str, main: Callable[[Context], Any]) -> None:
        self.supervisor.add(name, main)
        self.kernel.kick()

    async def run(self, seconds: float) -> None:
        await self.plane.run(int(seconds * SECOND))

    async def run_to(self, at_s: float) -> None:
        await self.kernel.run_until(int(at_s * SECOND))

    def cut(self, host: str) -> None:
        self.kernel.network.impose(Rule(f"cut {host}", frozenset({host}), None, cut=True))

    def heal(self, host: str) -> None:
        self.kernel.network.lift(f"cut {host}")

    def crash(self, server: str = "apiserver-0") -> None:
        self.supervisor[server].crash()

    def start(self, server: str = "apiserver-0") -> None:
        self.supervisor[server].start()


@asynccontextmanager
async def rig(replicas: int = 1, options: ApiServerOptions = OPTIONS, seed: int = 1) -> AsyncIterator[Rig]:
    async with plane(replicas, options, seed) as control:
        await control.run(SECOND)
        yield Rig(control)
