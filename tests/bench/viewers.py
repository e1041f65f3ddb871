"""Browsers and watches at once on a served cluster: how late each learns, and what they cost.

python -m tests.bench.viewers [--nodes 1000] [--viewers 100] [--watches 100] [--pace 5]
    [--seconds 60]
python -m tests.bench.viewers --cost [--nodes 90]

Half of the viewers follow `/orrery/v1/changes` as server-sent events, half as a WebSocket; the
watches follow ConfigMaps. Twice a second a mark is set and a ConfigMap is created, while a
Deployment is rolled; printed is how long after the request each client has it (all clients are
tasks of one process, so that their own work counts too), and the server's memory. One more viewer
never reads.

--cost compares the processor time and the calls of functions of a cluster at the fastest pace
without the log of changes and with it, and finds what the messages for a viewer cost beside.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from itertools import chain
from time import perf_counter, process_time
from typing import Any, NamedTuple

import httpx
import trio

from sim.app.cluster import Cluster
from sim.app.control.changes import RATE, Changes
from sim.app.control.session import Control
from sim.scenario.plan.plan import Plan
from sim.statistics import quantile
from tests.bench.serving import Server, served
from tests.bench.timing import machine

MAPS = "/api/v1/namespaces/default/configmaps"
CHANGES = "/orrery/v1/changes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
EVERY_S, SETTLED_S = 0.5, 30.0
PROBE = re.compile(rb'"(?:mark|probe)-(\d+)"')
LONGEST = 24  # bytes of such a name
UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\nOrigin: https://{host}\r\n"
UPGRADE += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
Connect = Callable[[], Awaitable[trio.abc.Stream]]


class Figures(NamedTuple):
    """Seconds from a request to each client that learns of it, and how many never did."""

    viewers: list[float]
    watches: list[float]
    missed: int


class Follower:
    """A client that follows a path; seen: the real time at which it met each probe."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.seen: dict[int, float] = {}
        self.begun, self.met = trio.Event(), trio.Event()

    async def ask(self, path: str, host: str, token: str, *, upgraded: bool) -> None:
        """Send the request."""
        more = UPGRADE.format(host=host) if upgraded else ""
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        await self.stream.send_all(head.encode())

    async def follow(self) -> None:
        """Read to the end."""
        rest = b""
        while data := await self.stream.receive_some(1 << 16):
            if not self.begun.is_set():
                assert data.split()[1] in (b"200", b"101"), data[:200]
                self.begun.set()
            rest += bytes(data)
            now_s = perf_counter()
            for found in PROBE.finditer(rest):
                self.seen.setdefault(int(found[1]), now_s)
            self.met.set()
            self.met = trio.Event()
            rest = rest[-LONGEST:]


async def follow_all(
    client: httpx.AsyncClient, connect: Connect, token: str, viewers: int, watches: int, probes: int
) -> Figures:
    """Follow with so many clients and a viewer that does not read, and find the times of probes."""
    host = client.base_url.netloc.decode()
    followers: list[Follower] = []
    for number in range(viewers + watches + 1):
        follower = Follower(await connect())
        path = CHANGES if number <= viewers else f"{MAPS}?watch=1"
        await follower.ask(path, host, token, upgraded=number <= viewers and number % 2 == 1)
        followers.append(follower)
    sent: dict[int, float] = {}
    async with trio.open_nursery() as nursery:
        for follower in followers[1:]:
            nursery.start_soon(follower.follow)
        for follower in followers[1:]:
            await follower.begun.wait()
        for number in range(probes):
            sent[number] = perf_counter()
            await asked(client, "POST", "/orrery/v1/marks", {"name": f"mark-{number}"})
            await asked(client, "POST", MAPS, {"metadata": {"name": f"probe-{number}"}})
            await trio.sleep(EVERY_S)
        with trio.move_on_after(SETTLED_S):
            for follower in followers[1:]:
                while len(follower.seen) < probes:
                    await follower.met.wait()
        nursery.cancel_scope.cancel()
    late = [[at_s - sent[number] for number, at_s in one.seen.items()] for one in followers[1:]]
    with trio.move_on_after(1):
        for follower in followers:
            await trio.aclose_forcefully(follower.stream)
    missed = sum(probes - len(one) for one in late)
    of_viewers, of_watches = (sorted(chain(*part)) for part in (late[:viewers], late[viewers:]))
    return Figures(of_viewers, of_watches, missed)


async def asked(client: httpx.AsyncClient, method: str, path: str, body: Any) -> Any:
    """The answer to a request that must succeed."""
    answer = await client.request(method, path, content=json.dumps(body), timeout=60)
    assert answer.status_code < 300, answer.text
    return answer.json()


# --- a whole server -------------------------------------------------------------------------------


def deployment(turn: int, replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    container = {"name": "c", "image": "web:1", "env": [{"name": "TURN", "value": str(turn)}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


async def measured(server: Server, nodes: int, viewers: int, watches: int, seconds: float) -> None:
    """Follow a server of its own process, and print the figures."""
    context = ssl._create_unverified_context()

    async def connect() -> trio.abc.Stream:
        stream = trio.SSLStream(
            await trio.open_tcp_stream("127.0.0.1", server.port), context, https_compatible=True
        )
        await stream.do_handshake()
        return stream

    headers = server.headers({"Content-Type": "application/json"})
    base = f"https://127.0.0.1:{server.port}"
    memory = [server.memory_mib()]

    async def rolled(client: httpx.AsyncClient) -> None:
        turn = 0
        while True:
            await trio.sleep(5)
            turn += 1
            await asked(client, "PUT", f"{DEPLOYMENTS}/web", deployment(turn, nodes))
            memory.append(server.memory_mib())

    async with (
        httpx.AsyncClient(verify=False, headers=headers, base_url=base) as client,
        trio.open_nursery() as nursery,
    ):
        await asked(client, "POST", DEPLOYMENTS, deployment(0, nodes))
        nursery.start_soon(rolled, client)
        worked_s, began_s = server.worked_s(), perf_counter()
        token = headers["Authorization"].removeprefix("Bearer ")
        figures = await follow_all(client, connect, token, viewers, watches, int(seconds / EVERY_S))
        share = (server.worked_s() - worked_s) / (perf_counter() - began_s)
        nursery.cancel_scope.cancel()
    for what, late in (("viewers", figures.viewers), ("watches", figures.watches)):
        times = ", ".join(f"{1000 * quantile(late, of):.0f}" for of in (0.5, 0.99, 1.0))
        print(f"{what}: p50, p99, longest {times} ms of {len(late)}")
    print(f"never learned of {figures.missed}; the server used {share:.0%} of a processor")
    print("memory: " + ", ".join(f"{each:.0f}" for each in memory) + " MiB")


# --- the cost for the simulation ------------------------------------------------------------------


def cost(nodes: int) -> None:
    """Print what the log of changes costs a cluster at the fastest pace, and what a viewer does.

    The nodes come and pods start, or they idle for a while after that.
    """
    trio.run(one_cost, 3, 600, True, False)  # so that all is imported
    for virtual_s in (30, 600):
        for counted in (True, False):
            without, log = (trio.run(one_cost, nodes, virtual_s, way, counted) for way in (False, True))
            what = "calls" if counted else "seconds"
            print(
                f"{nodes} nodes, {virtual_s} s: {without:.4g} {what}, with the log {log / without - 1:+.1%}"
            )
    trio.run(one_cost, nodes, 30, True, False, True)


async def one_cost(nodes: int, virtual_s: int, logged: bool, counted: bool, viewed: bool = False) -> float:
    """Processor seconds, or calls of functions, of a cluster that starts pods, or idles if the time
    is long.
    """
    async with Cluster(nodes=nodes, naming="kubernetes") as cluster:
        control = Control(cluster, Plan("", "", 0, 0, cluster.plan, (), (), ()), [])
        changes = Changes(control) if logged else None
        cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", **deployment(0, 3 * nodes)})
        if virtual_s > 60:
            await cluster.run_for("60s")
        with ExitStack() as stack:
            profile = stack.enter_context(cProfile.Profile()) if counted else None
            began_s = process_time()
            await cluster.run_for(f"{virtual_s}s")
            took_s = process_time() - began_s
        if viewed and changes is not None:
            await view(changes, took_s)
    if profile is None:
        return took_s
    return float(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


async def view(changes: Changes, took_s: float) -> None:
    """Print what the messages for a viewer of a start cost that took so long."""
    rows, count = changes.end, max(1, int(took_s * RATE))
    began_s = process_time()
    for number in range(count):
        changes._shown = (-1, 0.0, b"")
        changes._head()
        changes._judgements()
        changes._between(rows * number // count, rows * (number + 1) // count)
    spent_s = process_time() - began_s
    print(f"a viewer: {count} messages with {rows} rows, {spent_s / took_s:.1%} of the time")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--viewers", type=int, default=100)
    parser.add_argument("--watches", type=int, default=100)
    parser.add_argument("--pace", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cost", action="store_true")
    given = parser.parse_args(arguments)
    print(machine())
    if given.cost:
        cost(given.nodes)
        return
    with served("--nodes", str(given.nodes), "--pace", f"{given.pace:g}", "--naming", "kubernetes") as server:
        trio.run(measured, server, given.nodes, given.viewers, given.watches, given.seconds)


if __name__ == "__main__":
    main()
