"""Python's cyclic collector has nothing to do while a cluster runs (see
`sim.app.cluster.no_collection`).
"""

from __future__ import annotations

import gc
import ssl
from collections import Counter
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
import trio

from actors.node.pods.status_manager import Entry
from sim.app.cluster import Cluster
from sim.app.run import run_plan
from sim.kernel import Kernel
from sim.scenario.plan.plan import ClusterPlan, Plan
from sim.units import SECOND
from sim.wire.authority import Authority
from sim.wire.http.fronts.connection import Connection
from sim.wire.tls import server_context
from tests.actor.test_http import MAPS, N, served
from tests.bench.big import deployment
from tests.cluster.scenario import run, step


async def test_a_running_cluster_leaves_no_cycles_behind() -> None:
    async with Cluster(nodes=10, seed=1) as cluster:
        await cluster.run_for("30s")
        cluster.apply(deployment("web", 30))
        await cluster.run_for("1m")
        gc.collect()
        gc.disable()
        try:
            steps = cluster.kernel.steps
            await cluster.run_for("20m")
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = Counter(type(found).__qualname__ for found in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert cluster.kernel.steps - steps > 1000
        assert left == {}


@pytest.mark.usefixtures("each_front")
async def test_served_requests_leave_no_reference_cycles() -> None:
    """Of every kind: written, read, not found, refused in each part of the server, not acceptable."""

    async def ask(
        stream: trio.SocketStream, method: str, path: str, body: bytes = b"", more: str = ""
    ) -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: x",
            "Authorization: Bearer root",
            f"Content-Length: {len(body)}",
        ]
        await stream.send_all("\r\n".join([*lines, *more.splitlines(), "", ""]).encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += await stream.receive_some(65536)
        head, _, begun = answer.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(begun) < size:
            begun += await stream.receive_some(65536)
        return answer.split(b" ")[1]

    async def one_of_each(stream: trio.SocketStream, name: str) -> list[bytes]:
        body = b'{"metadata":{"name":"%b"}}' % name.encode()
        return [
            await ask(stream, "POST", MAPS, body),
            await ask(stream, "GET", f"{MAPS}/{name}"),
            await ask(stream, "PUT", f"{MAPS}/{name}", body),
            await ask(stream, "PATCH", f"{MAPS}/{name}", b"{}", f"Content-Type: {N.media_merge_patch}"),
            await ask(stream, "POST", MAPS, body),
            await ask(stream, "POST", MAPS, b"{"),
            await ask(stream, "POST", MAPS, b"- [", f"Content-Type: {N.media_yaml}"),
            await ask(stream, "POST", MAPS, b"k8s\0\xff", f"Content-Type: {N.media_protobuf}"),
            await ask(stream, "POST", MAPS, b'{"metadata":{"name":"%"}}'),
            await ask(stream, "DELETE", f"{MAPS}/{name}"),
            await ask(stream, "GET", f"{MAPS}/{name}"),
            await ask(stream, "GET", "/nothing"),
            await ask(stream, "GET", MAPS, more="Accept: text/csv"),
        ]

    async with served() as (_, client):
        assert client.base_url.port is not None
        stream = await trio.open_tcp_stream("127.0.0.1", client.base_url.port)
        codes = b"201 200 200 200 409 400 400 400 422 200 404 404 406".split()
        assert await one_of_each(stream, "a") == codes
        gc.collect()
        gc.disable()
        try:
            for turn in range(5):
                assert await one_of_each(stream, f"b{turn}") == codes
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = Counter(type(found).__qualname__ for found in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        await stream.aclose()
    assert left == {}


AUTHORIZED = b"Host: x\r\nAuthorization: Bearer root\r\n"
LONG = b"Content-Length: 20000\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET %b HTTP/1.1\r\n%b\r\n" % (MAPS.encode(), AUTHORIZED),
        b"GET %b?watch=1 HTTP/1.1\r\n%b\r\n" % (MAPS.encode(), AUTHORIZED),
        b"POST %b HTTP/1.1\r\n%b%b" % (MAPS.encode(), AUTHORIZED, LONG),  # and no body
        b"POST %b HTTP/1.1\r\n%b%b%b" % (MAPS.encode(), AUTHORIZED, LONG, b"[" * 20000),
        b"\0\r\n\r\n",
    ],
    ids=["nothing", "request", "watch", "half_a_request", "long_refused_body", "no_http"],
)
@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.usefixtures("each_front")
async def test_ended_connection_leaves_no_reference_cycles(
    is_tls: bool, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve, ended = Connection.serve, trio.Event()

    async def serve_and_note(connection: Connection) -> None:
        await serve(connection)
        ended.set()

    monkeypatch.setattr(Connection, "serve", serve_and_note)
    authority = Authority("ca")
    context = server_context(authority.server(("127.0.0.1",)), authority.pem) if is_tls else None

    async def connect_and_leave(port: int) -> None:
        transport = await trio.open_tcp_stream("127.0.0.1", port)
        stream: Any = transport
        if is_tls:
            stream = trio.SSLStream(transport, ssl._create_unverified_context(), https_compatible=True)
            await stream.do_handshake()
        await stream.send_all(sent)
        if sent and not sent.endswith(LONG):
            assert await stream.receive_some(65536)
        transport.socket.close()
        if is_tls:
            vars(stream).clear()  # a stream of Trio refers to itself
        await ended.wait()

    async with served(context=context) as (_, client):
        port = client.base_url.port
        assert port is not None
        await connect_and_leave(port)
        gc.collect()
        gc.disable()
        try:
            ended = trio.Event()
            await connect_and_leave(port)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = Counter(type(found).__qualname__ for found in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert left == {}


async def test_of_the_status_of_a_pod_at_rest_a_node_keeps_what_the_api_holds_and_no_more() -> None:
    async with Cluster(nodes=3, seed=1) as cluster:
        await cluster.run_for("30s")
        cluster.apply(deployment("web", 30))
        await cluster.run_for("12m")
        gc.collect()
        pods = cluster.list("pods")
        assert sum(pod["status"]["phase"] == "Running" for pod in pods) == 30
        # of these pods: what an earlier test left alive may hold others'
        uids = [pod["metadata"]["uid"] for pod in pods]
        assert not [found for found in gc.get_objects() if type(found) is Entry and found.uid in uids]


async def test_a_collection_after_a_run_frees_its_cluster() -> None:
    kernels: list[ref[Kernel]] = []

    async def watch(cluster: Cluster) -> None:
        kernels.append(ref(cluster.kernel))

    plan = Plan("short", "", 1, 60 * SECOND, ClusterPlan(), (), (), ())
    result = await run_plan(plan, watch=watch)
    assert result.steps > 100
    gc.collect()
    assert [kernel() for kernel in kernels] == [None]


async def test_so_does_one_after_a_run_in_which_a_lease_was_written_by_another_way(tmp_path: Path) -> None:
    def kernels() -> int:
        gc.collect()
        return sum(type(found) is Kernel for found in gc.get_objects())

    timeline = [
        step("fail", {"nodes": {"zone": "a"}, "how": "power-loss"}),
        {"when": "any nodes have Ready=Unknown", "delay": "5s", "name": "back", "heal": {"step": "it"}},
    ]
    before = kernels()
    await run(tmp_path, timeline, [])
    assert kernels() == before
