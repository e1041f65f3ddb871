"""A control plane with fake nodes: leases are renewed, nothing else is done; the node lifecycle
loop is real.

Nodes die by renewing no more.  What happens to nodes and pods is read off the storage, with the
time of commit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio

from actors.apiserver.options import ApiServerOptions
from actors.apiserver.server import ApiServer
from actors.controllers.manager import controller_manager_main
from actors.controllers.nodelifecycle.decide import PassCost
from actors.controllers.nodelifecycle.loop import NodeLifecycle
from actors.controllers.shared.shell import Env
from actors.storage import Storage
from sim.api.objects import condition_of
from sim.api.scheme.scheme import Scheme
from sim.api.store import Change
from sim.api.types import Obj, Reply, UserInfo
from sim.client import Channel, Client
from sim.ident import NAMES
from sim.kernel import Context, Kernel, Supervisor
from sim.options.controllers.manager import ControllerManagerOptions
from sim.units import SECOND, format_micro_time, format_time

NAMES_ORCH = NAMES["orch"]
SCHEME = Scheme(NAMES_ORCH)
RENEW_US = 10 * SECOND
CASE_COST = PassCost(base_us=10_000, node_us=0)  # the cases' convention: "5 s + 0.01 work"
CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class Layout:
    """zones: nodes per zone; jitter: whether renewals have the agent's jitter and a random phase;
    pods: how many each node gets, tolerations: of them, by number; monitor_us: when the controller
        manager starts;
    silent: nodes that never say anything, unreported: those that only renew leases.
    """

    zones: Mapping[str, int] = field(default_factory=lambda: {"": 10})
    jitter: bool = False
    pods: int = 0
    tolerations: Sequence[Sequence[Obj]] = ()
    silent: Sequence[str] = ()
    unreported: Sequence[str] = ()
    monitor_us: int = 2 * SECOND - 3_000  # its informers need about 3 ms
    cost: PassCost = CASE_COST
    options: ControllerManagerOptions = field(
        default_factory=lambda: ControllerManagerOptions(leader_elect=False)
    )


@dataclass(slots=True)
class Seen:
    """Times of commit, in microseconds, by node or pod key."""

    unknown: dict[str, int] = field(default_factory=dict)
    # (node, taint key, effect): first
    taints: dict[tuple[str, str, str], int] = field(default_factory=dict)
    removed: dict[tuple[str, str, str], int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, Obj] = field(default_factory=dict)
    events: list[tuple[int, str, str]] = field(default_factory=list)  # (when, object, reason)
    zones: list[tuple[int, str, str]] = field(default_factory=list)

    def tainted(self, key: str, effect: str) -> dict[str, int]:
        return {node: at for (node, k, e), at in self.taints.items() if (k, e) == (key, effect)}


def _nothing(_: Obj) -> None:
    pass


class Fleet:
    """The fake nodes: one process, one client without a limit."""

    def __init__(self, ctx: Context, client: Client, layout: Layout) -> None:
        self.ctx = ctx
        self.client = client
        self.layout = layout
        self.names: list[str] = []
        self.zone_of: dict[str, str] = {}
        self.dead: dict[str, None] = {}
        self.renewed: dict[str, int] = {}
        self._draw = ctx.stream("phases")

    def start(self) -> None:
        for zone, count in self.layout.zones.items():
            for index in range(count):
                name = f"node-{zone}{index}"
                self.names.append(name)
                self.zone_of[name] = zone
                mute = name in self.layout.silent or name in self.layout.unreported
                then = _nothing if mute else self._report
                self._post("nodes", "", self._node(name, zone), then)
                for pod in range(self.layout.pods):
                    self._post("pods", "default", self._pod(pod, name), self._pod_ready)
                if name in self.layout.silent:
                    continue
                first_us = int(self._draw.random() * RENEW_US) if self.layout.jitter else 0
                self.ctx.call_later_us(first_us, self._create_lease, name)

    def _post(self, resource: str, namespace: str, obj: Obj, then: Callable[[Obj], None]) -> None:
        def on_reply(reply: Reply) -> None:
            assert reply.ok, reply.message
            then(reply.obj)

        request = self.client.request("create", resource, namespace, body=obj)
        self.client.call(request, on_reply)

    def _node(self, name: str, zone: str) -> Obj:
        names = NAMES_ORCH
        labels = (
            {names.label_zone: zone, names.label_hostname: name} if zone else {names.label_hostname: name}
        )
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}

    def _pod(self, number: int, node: str) -> Obj:
        spec: Obj = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        if number < len(self.layout.tolerations):
            spec["tolerations"] = self.layout.tolerations[number]
        meta = {"name": f"pod-{node}-{number}", "namespace": "default"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def _put_status(self, resource: str, obj: Obj, status: Obj) -> None:
        meta = obj["metadata"]
        request = self.client.request(
            "patch",
            resource,
            meta.get("namespace", ""),
            meta["name"],
            body={"status": status},
            content_type="application/strategic-merge-patch+json",
            subresource="status",
        )

        def on_reply(reply: Reply) -> None:
            assert reply.ok, reply.message

        self.client.call(request, on_reply)

    def _report(self, node: Obj) -> None:
        """The one status report of a node that is well."""
        now = format_time(self.ctx.wall_us())
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        conditions = [{"type": kind, "status": "False", "reason": "Fine", **times} for kind in CONDITIONS]
        conditions.append(
            {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated", **times}
        )
        conditions.append({"type": "Ready", "status": "True", "reason": "AgentReady", **times})
        self._put_status("nodes", node, {"conditions": conditions})

    def _pod_ready(self, pod: Obj) -> None:
        now = format_time(self.ctx.wall_us())
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        self._put_status("pods", pod, {"phase": "Running", "conditions": [ready]})

    def _create_lease(self, name: str) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40}
        spec["renewTime"] = format_micro_time(self.ctx.wall_us())
        self.renewed[name] = self.ctx.kernel.now_us
        namespace = NAMES_ORCH.lease_namespace
        lease = {
            "apiVersion": SCHEME.resource("leases").api_version,
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
        self._post("leases", namespace, lease, self._renew_later)

    def _renew_later(self, lease: Obj) -> None:
        gap_us = RENEW_US
        if self.layout.jitter:  # wait.JitterUntil with 0.04, sliding
            gap_us += int(RENEW_US * 0.04 * self._draw.random())
        else:
            gap_us -= self.ctx.kernel.now_us % RENEW_US  # exactly at 0, 10, 20 ...
        self.ctx.call_later_us(gap_us, self._renew, lease)

    def _renew(self, lease: Obj) -> None:
        name = lease["metadata"]["name"]
        if name in self.dead:
            return
        self.renewed[name] = self.ctx.kernel.now_us
        spec = {**lease["spec"], "renewTime": format_micro_time(self.ctx.wall_us())}
        request = self.client.request(
            "update", "leases", NAMES_ORCH.lease_namespace, name, body={**lease, "spec": spec}
        )

        def on_reply(reply: Reply) -> None:
            if reply.ok:
                self._renew_later(reply.obj)
            else:  # no server
                assert reply.lost, reply.message
                self.ctx.call_later_us(SECOND, self._renew, lease)

        self.client.call(request, on_reply)


class Cluster:
    def __init__(self, kernel: Kernel, supervisor: Supervisor, layout: Layout) -> None:
        self.kernel = kernel
        self.supervisor = supervisor
        self.layout = layout
        self.seen = Seen()
        self.fleet: Fleet | None = None
        storage = Storage(kernel)
        supervisor.add("storage", storage.main)
        options = ApiServerOptions(
            disabled_admission=("ServiceAccount",), max_mutating_requests_inflight=5000
        )
        server = ApiServer("apiserver", kernel, storage, SCHEME, options)
        supervisor.add("apiserver", server.main)
        self.store = storage.store
        self._servers = {"apiserver": server}
        self.store.subscribe("//nodes/", self._node_changed)
        self.store.subscribe("//pods/", self._pod_changed)
        self.store.subscribe("//events/", self._event)
        zone_kind = kernel.kind("zone", "zone", "state")
        kernel.trace.listen(zone_kind, lambda _, at, __, values: self.seen.zones.append((at, *values)))
        supervisor.add("nodes", self._nodes_main)
        main = controller_manager_main(
            SCHEME,
            lambda ctx: [Channel(ctx, ctx.name, self._servers, "apiserver")],
            layout.options,
            loops={"nodelifecycle": self._loop},
        )
        self.manager = supervisor.add("controller-manager", main, start=False)
        kernel.call_later(layout.monitor_us, lambda _: self.manager.start())

    def _loop(self, env: Env) -> Awaitable[None]:
        return NodeLifecycle(env, self.layout.cost).run()

    def _nodes_main(self, ctx: Context) -> None:
        transport = Channel(ctx, ctx.name, self._servers, "apiserver")
        user = UserInfo("system:nodes", ("system:masters",))
        self.fleet = Fleet(ctx, Client(ctx, SCHEME, [transport], user, qps=0, agent="nodes"), self.layout)
        self.fleet.start()

    async def run_to(self, at_s: float) -> None:
        await self.kernel.run_until(int(at_s * SECOND))

    async def kill(self, at_s: float, nodes: Sequence[str]) -> None:
        """Run up to the instant of their death."""
        await self.run_to(at_s)
        assert self.fleet is not None
        self.fleet.dead.update(dict.fromkeys(nodes))

    def nodes_of(self, zone: str = "") -> list[str]:
        assert self.fleet is not None
        return [name for name in self.fleet.names if self.fleet.zone_of[name] == zone]

    # --- what happens -----------------------------------------------------------------------------

    def _node_changed(self, change: Change) -> None:
        node, now_us = change.item.obj, self.kernel.now_us
        name = node["metadata"]["name"]
        self.seen.nodes[name] = node
        ready = condition_of(node, "Ready")
        if ready is not None and ready["status"] == "Unknown":
            self.seen.unknown.setdefault(name, now_us)
        have = {(name, t["key"], t["effect"]) for t in node["spec"].get("taints") or ()}
        before = change.prev.obj["spec"].get("taints") or () if change.prev is not None else ()
        for taint in sorted(have):
            self.seen.taints.setdefault(taint, now_us)
        for taint in before:
            entry = (name, taint["key"], taint["effect"])
            if entry not in have:
                self.seen.removed[entry] = now_us

    def _pod_changed(self, change: Change) -> None:
        if "deletionTimestamp" in change.item.obj["metadata"]:
            key = f"{change.item.obj['spec']['nodeName']}/{change.item.obj['metadata']['name']}"
            self.seen.deleted.setdefault(key, self.kernel.now_us)

    def _event(self, change: Change) -> None:
        event: dict[str, Any] = change.item.obj
        if change.prev is None:
            self.seen.events.append((self.kernel.now_us, event["involvedObject"]["name"], event["reason"]))


@asynccontextmanager
async def cluster(layout: Layout | None = None, seed: int = 0) -> AsyncIterator[Cluster]:
    async with trio.open_nursery() as nursery:
        kernel = Kernel(seed)
        supervisor = Supervisor(kernel, nursery)
        nursery.start_soon(kernel.run)
        yield Cluster(kernel, supervisor, layout or Layout())
        kernel.stop()
        nursery.cancel_scope.cancel()
