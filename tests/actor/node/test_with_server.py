"""Node agents on the real client, network and API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from actors.apiserver.server import ApiServer
from actors.node.agent import node_agent_main
from actors.node.clients import NodeClients
from actors.node.node import Node
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import NodeSpec
from actors.storage import Storage
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, UserInfo
from sim.client.client import Client
from sim.client.rest.channel import Channel
from sim.ident import NAMES
from sim.kernel.actor import Context, Supervisor
from sim.kernel.kernel import Kernel
from sim.kernel.network import Rule
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND

NAMES_USED = NAMES["orch"]


class Rig:
    """One API server and some nodes.

    `node(i)`, `pod(name)` and `lease(i)` read the store.
    """

    def __init__(self, kernel: Kernel, nursery: trio.Nursery, count: int) -> None:
        self.kernel = kernel
        self.supervisor = Supervisor(kernel, nursery)
        self.scheme = Scheme(NAMES_USED)
        self.storage = Storage(kernel)
        self.supervisor.add("storage", self.storage.main)
        self.server = ApiServer("api", kernel, self.storage, self.scheme)
        self.supervisor.add("api", self.server.main)
        clients = NodeClients(self.scheme, NAMES_USED, self.transports)
        options = parse_node_agent({})
        self.nodes = []
        for number in range(count):
            machine = Machine(NodeSpec(f"n{number}", pod_cidr=f"10.1.{number}.0/24"))
            main = node_agent_main(machine, clients, options, NAMES_USED)
            self.nodes.append(Node(kernel, machine, self.supervisor.add(machine.spec.name, main)))

    def transports(self, ctx: Context) -> list[Channel]:
        return [Channel(ctx, ctx.name, {"api": self.server}, "api")]

    def held(self, plural: str, namespace: str, name: str) -> Obj:
        item = self.storage.store.get(self.scheme.key(self.scheme.resource(plural), namespace, name))
        assert item is not None
        return item.obj

    def pods(self) -> list[Obj]:
        prefix = self.scheme.prefix(self.scheme.resource("pods"), "")
        return [item.obj for key, item in self.storage.store.bucket(prefix).items.items()]

    def do(self, *work: Any) -> None:
        """Run `async fn(client)` as a user."""

        async def main(ctx: Context) -> None:
            user = UserInfo("admin", (NAMES_USED.group_masters, NAMES_USED.group_authenticated))
            client = Client(ctx, self.scheme, self.transports(ctx), user, qps=0, burst=0, agent="user")
            for step in work:
                await step(client)

        self.supervisor.add(f"user-{len(self.supervisor.actors)}", main)


def bound(name: str, node: str) -> Obj:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "img:1"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


async def make_pods(client: Client) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    assert (await client.create("serviceaccounts", "default", account)).ok
    for number in range(6):
        assert (await client.create("pods", "default", bound(f"p{number}", f"n{number % 3}"))).ok


async def delete_pods(client: Client) -> None:
    for number in range(6):
        assert (await client.delete("pods", "default", f"p{number}")).ok


@asynccontextmanager
async def running_rig(count: int = 3) -> AsyncIterator[tuple[Kernel, Rig]]:
    kernel = Kernel(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run)
        rig = Rig(kernel, nursery, count)
        await kernel.run_until(15 * SECOND)
        yield kernel, rig
        kernel.stop()
        nursery.cancel_scope.cancel()


def condition(obj: Obj, type_: str) -> str:
    return next(str(c["status"]) for c in obj["status"]["conditions"] if c["type"] == type_)


async def test_pods_start_and_end_through_the_real_api() -> None:
    async with running_rig() as (kernel, rig):
        assert all(condition(rig.held("nodes", "", f"n{i}"), "Ready") == "True" for i in range(3))
        rig.do(make_pods)
        await kernel.run_until(20 * SECOND)
        assert len(rig.pods()) == 6 and all(condition(pod, "Ready") == "True" for pod in rig.pods())
        assert {pod["status"]["podIP"].rsplit(".", 1)[0] for pod in rig.pods()} == {
            "10.1.0",
            "10.1.1",
            "10.1.2",
        }
        rig.do(delete_pods)
        await kernel.run_until(26 * SECOND)
        assert rig.pods() == []
        assert all(node.machine.pods == {} for node in rig.nodes)


async def test_quiet_node_needs_one_event_per_renewal_and_few_others() -> None:
    async with running_rig() as (kernel, rig):
        rig.do(make_pods)
        await kernel.run_until(400 * SECOND)
        steps = kernel.steps
        await kernel.run_until(1000 * SECOND)
        # 59 renewals, 2 reports of about 10 events, 10 bookmarks of 2 events, per node
        assert (kernel.steps - steps) / 3 < 59 + 20 + 25
        renewed = rig.held("leases.coordination." + NAMES_USED.group_domain, NAMES_USED.lease_namespace, "n0")
        assert renewed["spec"]["renewTime"] > "2026-01-01T00:16:2"


async def test_node_is_ready_within_eleven_seconds_of_its_network() -> None:
    async with running_rig() as (kernel, rig):
        kernel.network.impose(Rule("cut", frozenset({"n0"}), None, cut=True))
        await kernel.run_until(100 * SECOND)

        async def mark_unknown(client: Client) -> None:
            node = (await client.get("nodes", "", "n0")).obj
            conditions = [{**c, "status": "Unknown"} for c in node["status"]["conditions"]]
            changed = {**node, "status": {**node["status"], "conditions": conditions}}
            assert (await client.update("nodes", changed, subresource="status")).ok

        rig.do(mark_unknown)
        await kernel.run_until(130 * SECOND)
        assert condition(rig.held("nodes", "", "n0"), "Ready") == "Unknown"
        kernel.network.lift("cut")
        await kernel.run_until(141 * SECOND)
        assert condition(rig.held("nodes", "", "n0"), "Ready") == "True"


async def test_cut_off_agent_registers_when_link_heals_without_giving_up_an_attempt() -> None:
    """Heartbeats are given up after 10 s; the registration waits as long as its connection is held."""
    async with running_rig(1) as (kernel, rig):
        # otherwise the pauses after those given up at 10, 20, 31 and 41 s
        for cut_s in (21, 31, 42):
            node, began_us = rig.nodes[0], kernel.now_us
            machine = node.machine
            node.crash_agent()
            kernel.network.impose(Rule("cut", frozenset({"n0"}), frozenset({"api"}), cut=True))
            node.start_agent()
            await kernel.run_until(began_us + cut_s * SECOND)
            assert machine.agent is not None and not machine.agent.node_loop.registered
            kernel.network.lift("cut")
            await kernel.run_until(kernel.now_us + 10_000)
            assert machine.agent.node_loop.registered
            await kernel.run_until(kernel.now_us + 30 * SECOND)
