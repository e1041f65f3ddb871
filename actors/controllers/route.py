"""Route controller: makes a route in the cloud for each pod CIDR of a node.

Each `route-reconciliation-period` it compares the routes of the cloud with the pod CIDRs of nodes,
and shows in the condition NetworkUnavailable whether a node has all of its routes.

Holds: routes outside of the cluster's networks are left alone; at most 200 calls of the cloud are
       under way; a pass begins one period after the begin of the last one, or at once if that took
       longer; a pass without a list of routes changes nothing.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/controllers/route/route_controller.go,
         cmd/kube-controller-manager/app/core.go (startRouteController).
Differs  the simulated cloud has no blackhole routes; nodes are gone through in the order of their
         names, upstream's order is that of a map.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from actors.controllers.shared.cloud import ROUTES, Cloud, Refused, Route
from actors.controllers.shared.network_condition import network_patch
from actors.controllers.shared.shell import BACKOFF_US, Env
from sim.api.types import Obj
from sim.options.controllers.networks import Network, network
from sim.units import format_duration

NAME = "route"
CLIENT, COMPONENT = "route-controller", "route_controller"
CALLS_MAX = 200  # maxConcurrentRouteOperations
CREATED = (True, "RouteCreated", "RouteController created a route")
NOT_CREATED = (False, "NoRouteCreated", "RouteController failed to create a route")

Wanted = Mapping[str, tuple[str, ...]]  # pod CIDRs by the name of the node
Call = Callable[[], Awaitable[None]]


class Difference(NamedTuple):
    """What the cloud lacks, (node, CIDR), and what it has too much."""

    missing: list[tuple[str, str]]
    surplus: list[Route]


def compare(wanted: Wanted, routes: Iterable[Route], clusters: Sequence[Network]) -> Difference:
    """Compare the routes of the cloud with the pod CIDRs of nodes."""
    held = {(route.node, route.cidr): route for route in routes}
    pairs = {(node, cidr): None for node, cidrs in wanted.items() for cidr in cidrs}
    surplus = [
        route for pair, route in held.items() if pair not in pairs and _inside(network(route.cidr), clusters)
    ]
    return Difference([pair for pair in pairs if pair not in held], surplus)


def _inside(one: Network, clusters: Sequence[Network]) -> bool:
    """True if a network lies in one of the cluster's."""
    return any(
        one.version == cluster.version and one.network_address in cluster and one.broadcast_address in cluster
        for cluster in clusters
    )


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    assert env.cloud is not None  # the manager starts this loop only if there is a cloud provider
    await RouteController(env, env.cloud).run()


class RouteController:
    """Shell of the controller: passes over routes and nodes."""

    def __init__(self, env: Env, cloud: Cloud) -> None:
        self._env = env
        self._ctx = env.ctx
        self._cloud = cloud
        self._cluster = env.options.cluster_name
        self._clusters = env.options.cluster_networks
        self._client = env.client(CLIENT)
        self._recorder = env.recorder(COMPONENT, self._client)
        self._nodes = env.informers["nodes"]
        self._failed = env.ctx.kernel.kind("sync-error", "queue", "key", "error")

    async def run(self) -> None:
        """Run passes until the process ends."""
        period_us = self._env.options.route_reconciliation_period_us
        await self._env.informers.start_and_sync()
        while True:
            due_us = self._ctx.now_us() + period_us
            await self._run_pass()
            await self._ctx.sleep_us(max(0, due_us - self._ctx.now_us()))

    async def _run_pass(self) -> None:
        await self._call()
        routes = self._cloud.routes(self._cluster)
        if isinstance(routes, Refused):
            self._fail("", routes)
            return
        nodes = sorted(self._nodes.list(), key=lambda node: str(node["metadata"]["name"]))
        wanted = {node["metadata"]["name"]: tuple(node["spec"].get("podCIDRs") or ()) for node in nodes}
        difference = compare(wanted, routes, self._clusters)
        lacking: dict[str, None] = {name: None for name, cidrs in wanted.items() if not cidrs}
        uids = {node["metadata"]["name"]: str(node["metadata"]["uid"]) for node in nodes}
        calls: deque[Call] = deque()
        for name, cidr in difference.missing:
            calls.append(self._creating(name, uids[name], cidr, lacking))
        calls.extend(self._deleting(route) for route in difference.surplus)
        await self._all(calls)
        await self._all(deque(self._telling(node, node["metadata"]["name"] not in lacking) for node in nodes))

    async def _all(self, calls: deque[Call]) -> None:
        async def work() -> None:
            while calls:
                await calls.popleft()()

        await self._ctx.gather(*[work] * min(CALLS_MAX, len(calls)))

    def _creating(self, name: str, uid: str, cidr: str, lacking: dict[str, None]) -> Call:
        async def create() -> None:
            begun_us = self._ctx.now_us()
            await self._call()
            refused = self._cloud.create_route(self._cluster, uid, name, cidr)
            if refused is None:
                return
            lacking[name] = None
            self._fail(name, refused)
            taken = format_duration(self._ctx.now_us() - begun_us)
            about = {"kind": "Node", "name": name, "uid": name}  # upstream's uid is the name
            text = f"Could not create route {uid} {cidr} for node {name} after {taken}: {refused.text}"
            self._recorder.event(about, "Warning", "FailedToCreateRoute", text)

        return create

    def _deleting(self, route: Route) -> Call:
        async def delete() -> None:
            await self._call()
            refused = self._cloud.delete_route(self._cluster, route)
            if refused is not None:
                self._fail(route.node, refused)

        return delete

    def _telling(self, node: Obj, created: bool) -> Call:
        async def tell() -> None:
            for pause_us in (0, *BACKOFF_US):
                if pause_us:
                    await self._ctx.sleep_us(pause_us)
                outcome = CREATED if created else NOT_CREATED
                patch = network_patch(node, *outcome, self._ctx.wall_us())
                if patch is None:
                    return
                name = node["metadata"]["name"]
                reply = await self._client.patch("nodes", "", name, patch, subresource="status")
                if reply.reason != "Conflict":
                    return

        return tell

    async def _call(self) -> None:
        duration_us = self._cloud.call_us(ROUTES)
        if duration_us:
            await self._ctx.sleep_us(duration_us)

    def _fail(self, name: str, refused: Refused) -> None:
        """Record a failed call; what led to it explains the work from here on."""
        if refused.cause:
            self._ctx.kernel.follow(refused.cause)
        self._ctx.record(self._failed, (NAME, name, refused.text))
