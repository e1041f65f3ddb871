"""The cluster's DNS as clients reach it: pods behind a Service, by the rules of their node.

Turns a lookup at an instant into an answer, a refusal or silence.

Holds: a server of names answers from what it has learned, also while no API server can be reached;
       one that has started since then has learned nothing, and fails each lookup.

Mirrors  the plugin `kubernetes` of CoreDNS 1.9, which follows the API, and serves without it.
Differs  a server that starts begins to learn at the next request of a client, by one list, and has
         no names before; those that run when a client begins have had the time to learn.
"""

from __future__ import annotations

from random import Random

from actors.node.programs.network.services import Endpoint, Route
from actors.node.proxy.rules import ServiceKey
from actors.node.runtime.containers import Container
from actors.users.requests import Reach
from sim.api.types import UserInfo
from sim.app.parts.ports import BuiltCluster
from sim.app.parts.traffic.proxies import Proxies
from sim.app.parts.traffic.reach import reached
from sim.client import Client
from sim.kernel import Context
from sim.units import SECOND

AGAIN_US = SECOND  # client-go's reflector begins with a back-off of 800 ms


def chosen(way: Route | None, draw: Random) -> Endpoint | Reach:
    """The endpoint of a connection by the rules of a node, or what becomes of it without one."""
    if way is None or way.dropped:
        return Reach.SILENT
    if not way.endpoints:
        return Reach.REFUSES
    return way.endpoints[int(draw.random() * len(way.endpoints))]


class NameServers:
    """The servers of names behind one Service, for the clients of a step."""

    def __init__(
        self, cluster: BuiltCluster, proxies: Proxies, service: ServiceKey, draw: Random, step: str
    ) -> None:
        self._cluster, self._proxies, self._service, self._draw = cluster, proxies, service, draw
        self._learned: dict[str, bool] = {}  # by container, True with the cluster's names
        self._begun = False
        self._process = f"names-{step}"
        cluster.supervisor.add(self._process, self._main)

    def _main(self, ctx: Context) -> None:
        self._ctx = ctx

    def stop(self) -> None:
        """Learn no more names."""
        self._cluster.supervisor.remove(self._process)

    def lookup(self, node: str, name: ServiceKey) -> Reach:
        """What a lookup of a Service's name from a node meets."""
        endpoint = chosen(self._proxies.way(node, self._service), self._draw)
        if isinstance(endpoint, Reach):
            return endpoint
        reach, container = reached(self._cluster, node, endpoint)
        if reach is not Reach.ANSWERS or container is None:
            return reach
        exists = self._cluster.storage.store.get(self._cluster.scheme.key("services", *name)) is not None
        return Reach.ANSWERS if exists and self._learned.get(container.ident) else Reach.REFUSES

    def look(self, node: str) -> None:
        """Let servers that a node's rules lead to learn names, if they have started since."""
        way = self._proxies.way(node, self._service)
        for endpoint in () if way is None else way.endpoints:
            _, container = reached(self._cluster, endpoint.node, endpoint)
            if container is None or container.ident in self._learned:
                continue
            had_time = not self._begun and self._served(endpoint.node)
            self._learned[container.ident] = had_time
            if not had_time:
                self._ctx.spawn(self._learn, endpoint.node, container, name="names")
        self._begun = True

    async def _learn(self, node: str, container: Container) -> None:
        """List Services from a node until an API server answers."""
        cluster, names = self._cluster, self._cluster.names
        user = UserInfo(names.user_proxy, (names.group_authenticated,))
        channels = cluster.connect(self._ctx, host=node)
        client = Client(self._ctx, cluster.scheme, channels, user, agent="names")
        while container.running(cluster.kernel.now_us):
            reply = await client.list("services", revision="0")
            if reply.ok:
                self._learned[container.ident] = True
                return
            await self._ctx.sleep_us(AGAIN_US)

    def _served(self, node: str) -> bool:
        """True if an API server can serve a program on a node."""
        cluster, network = self._cluster, self._cluster.kernel.network
        return any(
            server.running
            and not cluster.faults.values(name, "pause")
            and network.link(node, name).up
            and network.link(name, node).up
            for name, server in cluster.api_servers.items()
        )
