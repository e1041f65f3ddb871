"""The same actors over every transport: channels, TCP, Unix sockets, WebSocket, REST over HTTPS.

A small cluster (controller manager, scheduler, two node agents, an administrator) does the same
work over each, and the final contents of the storage are compared. Over sockets the clock is
stepped by hand: a unit of work of the simulation, then all work of the sockets.
"""

from __future__ import annotations

import re
import socket
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sim.api.scheme.scheme import Scheme
from sim.api.store import Change
from sim.api.types import Obj, Reply, Request, Transport
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.app.serving.serve import served
from sim.kernel import NEVER_US, Context
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from sim.wire.rest.access import Access, Credentials, Source
from sim.wire.rest.exec_plugins import run_plugin
from sim.wire.rest.transport import RestClients
from sim.wire.sockets import address_of, listen
from sim.wire.sockets_client import SocketClients
from sim.wire.sockets_server import SocketServer

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        },
    },
}
LOCAL = "127.0.0.1"
VOLUME = re.compile(r"(api-access-)[a-z0-9]{5}")
GENERATED = re.compile(r"-[0-9a-f]{8,10}(-[bcdfghjklmnpqrstvwxz2456789]{5})?$")


class SteppedCluster(Cluster):
    """A cluster with a clock that waits for the work of sockets."""

    async def run_until(self, at: str | int) -> None:
        assert isinstance(at, int)
        self.kernel.set_rate(0)
        while self.kernel.now_us < at:
            self.kernel.step()
            await wait_all_tasks_blocked()


class SocketCluster(SteppedCluster):
    """A cluster with actors that reach its API server over a socket at `url`."""

    def __init__(self, url: str, nursery: trio.Nursery, **more: Any) -> None:
        super().__init__(**more)
        self._url = url
        self._clients = SocketClients(self.kernel, nursery)
        self.name = "apiserver-0"

    def connect(self, ctx: Context) -> list[Transport]:  # type: ignore[override]
        return [self._clients.transport(ctx, self._url)]

    def handle(self, request: Request, respond: Callable[[Reply], None]) -> None:
        """As endpoint: the first API server, once it exists."""
        self.api_servers[self.name].handle(request, respond)


class RestCluster(SteppedCluster):
    """A cluster with actors that reach its API server with an access."""

    def __init__(self, access: Access, nursery: trio.Nursery, **more: Any) -> None:
        super().__init__(**more)
        credentials = Credentials(access, trio.current_time, run_plugin, trio.current_time)
        self._rest = RestClients(self.kernel, Scheme(self.names), nursery, credentials)

    def connect(self, ctx: Context) -> list[Transport]:  # type: ignore[override]
        return [self._rest.transport(ctx)]


@dataclass
class History:
    """What became of every object, names without their generated parts."""

    specs: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    phases: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    last: dict[str, Obj] = field(default_factory=dict)
    reasons: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    writers: set[str] = field(default_factory=set)

    def see(self, change: Change) -> None:
        obj, key = change.item.obj, change.item.key
        kind = key.split("/")[2]
        if kind == "events":
            involved = obj["involvedObject"]["kind"]
            self.reasons[involved].add(obj["reason"])
            return
        if kind not in ("deployments", "replicasets", "pods", "nodes"):
            return
        self.writers |= {f"{kind}: {entry.manager} {entry.subresource}" for entry in change.item.managed}
        self.last[key] = obj
        told = "deleted" if change.deleted else str((obj.get("status") or {}).get("phase", "there"))
        told += " (ending)" if "deletionTimestamp" in obj["metadata"] and not change.deleted else ""
        spec = {k: v for k, v in (obj.get("spec") or {}).items() if k not in ("nodeName", "volumes")}
        for seen, new in ((self.phases[key], told), (self.specs[key], spec)):
            if not seen or seen[-1] != new:
                seen.append(new)

    def summary(self) -> dict[str, Any]:
        """Of each object, modulo its name and where and when it was: specs, phases, the end."""
        objects = sorted(
            (
                GENERATED.sub("", key),
                VOLUME.sub(r"\1", repr(self.specs[key])),
                self.phases[key],
                repr(self._end(key)),
            )
            for key in self.last
        )
        reasons = {kind: sorted(self.reasons[kind]) for kind in sorted(self.reasons)}
        return {"objects": objects, "events": reasons, "writers": sorted(self.writers)}

    def _end(self, key: str) -> Any:
        status = self.last[key].get("status") or {}
        conditions = sorted(
            (c["type"], c["status"], c.get("reason", "")) for c in status.get("conditions", ())
        )
        counts = {k: v for k, v in status.items() if isinstance(v, int)}
        containers = [(c["name"], c["ready"], c["restartCount"]) for c in status.get("containerStatuses", ())]
        return conditions, counts, containers


async def life(cluster: Cluster) -> History:
    """Nodes come up, a Deployment is made, scaled up and down."""
    history = History()
    cluster.observe(history.see)
    await cluster.run_until(10 * SECOND)
    cluster.apply(DEPLOYMENT)
    await cluster.run_until(25 * SECOND)
    cluster.apply({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 5}})
    await cluster.run_until(40 * SECOND)
    cluster.apply({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 1}})
    await cluster.run_until(80 * SECOND)
    assert [pod["status"]["phase"] for pod in cluster.list("pods")] == ["Running"]
    return history


async def over_channels() -> dict[str, Any]:
    async with Cluster(nodes=2, seed=5) as cluster:
        return (await life(cluster)).summary()


async def over_sockets(url: str) -> dict[str, Any]:
    listeners = await listen(url)
    scheme = url.partition(":")[0]
    async with trio.open_nursery() as nursery:
        cluster = SocketCluster(address_of(listeners[0], scheme), nursery, nodes=2, seed=5)
        server = SocketServer(cluster.kernel, cluster)
        async with cluster:
            nursery.start_soon(lambda: server.serve(listeners, websockets=scheme == "ws"))
            history = await life(cluster)
            assert len(server.peers) == 1  # all actors of a process share a connection
        nursery.cancel_scope.cancel()
    return history.summary()


async def over_https() -> dict[str, Any]:
    with socket.socket() as free:
        free.bind((LOCAL, 0))
        where = free.getsockname()
    access = Access(f"https://{LOCAL}:{where[1]}", verified=False, token=Source(b"anybody"))
    async with trio.open_nursery() as nursery:
        cluster = RestCluster(access, nursery, nodes=2, seed=5)
        async with cluster, served(cluster, where=where, tokens={"anybody": cluster.admin_user}):
            history = await life(cluster)
        nursery.cancel_scope.cancel()
    return history.summary()


async def life_apart(plane: Cluster, others: Cluster) -> History:
    """Both clocks keep pace with the real one, by themselves."""
    history = History()
    plane.observe(history.see)
    for cluster in (plane, others):
        cluster.kernel.set_rate(20)
        cluster.kernel.set_goal(NEVER_US)

    async def until(true: Callable[[], object]) -> None:
        with trio.fail_after(10):
            while not true():  # noqa: ASYNC110 - the clocks are real here
                await trio.sleep(0.01)

    def running() -> int:
        return [pod.get("status", {}).get("phase") for pod in plane.list("pods")].count("Running")

    await until(lambda: plane.counts()["ready"] == 2)
    plane.apply(DEPLOYMENT)
    await until(lambda: running() == 3)
    plane.apply({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 1}})
    await until(lambda: len(plane.list("pods")) == 1)
    return history


@pytest.mark.slow
async def test_controllers_scheduler_and_nodes_run_on_an_own_kernel_with_real_clocks() -> None:
    listeners = await listen("tcp://127.0.0.1:0")
    none = ComponentPlan(replicas=0)
    async with trio.open_nursery() as nursery:
        plane = Cluster(ClusterPlan(controller_manager=none, scheduler=none))
        others = SocketCluster(
            address_of(listeners[0]), nursery, plan=ClusterPlan(nodes=plain_nodes(2), api_server=none)
        )
        async with plane:
            server = SocketServer(plane.kernel, plane.api_servers["apiserver-0"])
            nursery.start_soon(server.serve, listeners)
            async with others:
                history = await life_apart(plane, others)
        nursery.cancel_scope.cancel()
    phases = sorted(history.phases[key] for key in history.phases if key.startswith("//pods/"))
    gone = ["Pending", "Running", "Running (ending)", "deleted"]
    assert phases == [["Pending", "Running"], gone, gone]
    assert {"Scheduled", "Pulled", "Created", "Started", "Killing"} <= history.reasons["Pod"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["tcp", "unix", "ws", "https"])
async def test_a_cluster_lives_the_same_over_channels_and_over_sockets(scheme: str, tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/api" if scheme == "unix" else f"{scheme}://127.0.0.1:0"
    ours = await over_https() if scheme == "https" else await over_sockets(url)
    reference = await over_channels()
    assert len(reference["objects"]) > 8 and "Killing" in reference["events"]["Pod"]
    assert ours == reference
