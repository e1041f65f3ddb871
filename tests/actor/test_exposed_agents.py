"""The servers of nodes' agents on real sockets: pages, TLS, streams, hostile clients, a replay."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import trio
from trio_websocket import (
    ConnectionRejected,
    WebSocketConnection,
    wrap_client_stream,
)

from actors.node.server import sessions
from sim.api.types import UserInfo
from sim.app.agents.requests import AgentDoors
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.app.serving.serve import served
from sim.errors import InputError, first_of
from sim.options.groups.tls import CIPHER_SUITES
from sim.scenario.plan.plan import ClusterPlan
from sim.wire.authority import Authority
from sim.wire.http.gateway import Gateway
from sim.wire.suites import openssl_name
from sim.wire.tls import Pair, client_context
from tests.actor.test_http_agents import PROGRAMS
from tests.actor.test_http_exec import V4, messages

pytestmark = pytest.mark.slow
EXEC = "/exec/default/p/c?command=echo&input=1&output=1&error=1"


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def with_certificate(pair: Pair) -> ssl.SSLContext:
    """TLS with a client certificate."""
    return client_context(client_pair=pair.certificate + pair.key, verified=False)


async def connected(url: str, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    """TLS to a server, without its handshake."""
    parts = urlsplit(url)
    stream = await trio.open_tcp_stream(str(parts.hostname), parts.port or 0)
    return trio.SSLStream(stream, context, server_hostname="x", https_compatible=True)


async def received(stream: trio.SSLStream[trio.SocketStream]) -> bytes:
    """What has come; b"" at any end."""
    try:
        return bytes(await stream.receive_some())
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return b""


@asynccontextmanager
async def socket_of(url: str, path: str) -> AsyncIterator[WebSocketConnection]:
    """A WebSocket of v4 channels."""
    async with await connected(url, unverified()) as stream, trio.open_nursery() as nursery:
        yield await wrap_client_stream(nursery, stream, "x", path, subprotocols=[V4])
        nursery.cancel_scope.cancel()


async def held_open(
    url: str, task_status: trio.TaskStatus[WebSocketConnection] = trio.TASK_STATUS_IGNORED
) -> None:
    """Hold a stream until the end of the test."""
    try:
        async with socket_of(url, EXEC) as socket:
            task_status.started(socket)
            await trio.sleep_forever()
    except BaseExceptionGroup as group:
        raise first_of(group) from None


async def keep_running(cluster: Cluster) -> None:
    while True:
        await cluster.run_for("100ms")


@asynccontextmanager
async def exposed(**flags: Any) -> AsyncIterator[tuple[Cluster, dict[str, str]]]:
    """A served cluster with pod p, and the URLs of its node's agent.  flags: of the agent"""
    plan = ClusterPlan(naming="kubernetes", nodes=(replace(plain_nodes(1)[0], flags=flags),))
    async with Cluster(plan) as cluster:
        urls: dict[str, dict[str, str]] = {}
        async with served(cluster, agents=urls, tokens={"known": UserInfo("adam", ("h",))}):
            await cluster.run_until("5s")
            cluster.nodes["node-0"].machine.interpreter = PROGRAMS
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 1},
            }
            cluster.apply(pod)
            await cluster.run_until("30s")
            yield cluster, urls["node-0"]


def client(url: str, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, **{"verify": False, **options})


async def test_three_servers_have_their_pages_on_ports_of_the_loopback() -> None:
    async with exposed() as (_, urls):
        assert {urlsplit(url).hostname for url in urls.values()} == {"127.0.0.1"}
        async with (
            client(urls["main"]) as main,
            client(urls["read-only"]) as reads,
            client(urls["healthz"]) as well,
        ):
            assert (await main.get("/runningpods/")).json()["items"][0]["metadata"]["name"] == "p"
            assert (await reads.get("/pods")).json()["items"][0]["metadata"]["name"] == "p"
            assert (await reads.get("/runningpods/")).text == "Debug endpoints are disabled.\n"
            assert (await well.get("/healthz")).text == "ok"
            assert (await well.get("/pods")).status_code == 404
            moved = await main.get("/logs")
            assert (moved.status_code, moved.headers["location"]) == (301, "logs/")


@pytest.mark.parametrize(
    ("flags", "known"),
    [
        ({"enable-server": False}, ["healthz"]),
        ({"read-only-port": 0}, ["main", "healthz"]),
        ({"healthz-port": 0}, ["main", "read-only"]),
    ],
)
async def test_options_of_ports_close_them(flags: dict[str, Any], known: list[str]) -> None:
    async with exposed(**flags) as (_, urls):
        assert list(urls) == known


async def test_addresses_of_options_are_used_within_the_loopback() -> None:
    async with exposed(address="127.0.0.2", **{"healthz-bind-address": "127.0.0.3"}) as (_, urls):
        hosts = {name: urlsplit(url).hostname for name, url in urls.items()}
        assert hosts == {"main": "127.0.0.2", "read-only": "127.0.0.2", "healthz": "127.0.0.3"}
    async with exposed(address="10.1.2.3") as (_, urls):
        assert urlsplit(urls["main"]).hostname == "127.0.0.1"


async def test_commands_stream_over_the_port_and_end_with_their_container() -> None:
    async with exposed() as (cluster, urls), socket_of(urls["main"], EXEC) as socket:
        await socket.send_message(b"\x00hi")
        while (await socket.get_message()) != b"\x01hi":
            pass
        assert cluster.nodes["node-0"].end_container("default", "p", "c", 1)
        await cluster.run_for("1s")
        last = (await messages(socket))[-1]
        assert isinstance(last, bytes)
        assert b"exit code 137" in last


async def test_an_agent_that_does_not_run_answers_503_and_ends_its_streams() -> None:
    async with exposed() as (cluster, urls), client(urls["main"]) as main:
        async with socket_of(urls["main"], EXEC) as socket:
            cluster.nodes["node-0"].crash_agent()
            await cluster.run_for("1s")
            await messages(socket)
        dead = await main.get("/healthz")
        assert (dead.status_code, dead.text) == (503, "the agent of node-0 does not run\n")
        cluster.nodes["node-0"].start_agent()
        await cluster.run_for("5s")
        assert (await main.get("/healthz")).text == "ok"


async def test_certificates_and_tokens_of_clients_are_users() -> None:
    authority = Authority("clients")
    pair = authority.client("eve", ("g",))
    flags = {
        "authorization-mode": "Webhook",
        "anonymous-auth": False,
        "authentication-token-webhook": True,
        "client-ca-file": authority.pem.decode(),
    }
    async with exposed(**flags) as (cluster, urls), trio.open_nursery() as nursery:
        nursery.start_soon(keep_running, cluster)
        async with client(urls["main"]) as main:
            nobody = await main.get("/pods")
            assert (nobody.status_code, nobody.text) == (401, "Unauthorized")
            unknown = await main.get("/pods", headers={"Authorization": "Bearer x"})
            assert unknown.status_code == 401
            known = await main.get("/stats/summary", headers={"Authorization": "Bearer known"})
            about = "(user=adam, verb=get, resource=nodes, subresource=stats)"
            assert (known.status_code, known.text) == (403, f"Forbidden {about}")
        async with client(urls["main"], verify=with_certificate(pair)) as main:
            found = await main.get("/pods")
            about = "(user=eve, verb=get, resource=nodes, subresource=proxy)"
            assert (found.status_code, found.text) == (403, f"Forbidden {about}")
        nursery.cancel_scope.cancel()


async def test_options_of_tls_choose_certificate_version_and_suites(tmp_path: Path) -> None:
    pair = Authority("mine").server(("agent.example",))
    for name, data in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (tmp_path / name).write_bytes(data)
    files = {"tls-cert-file": str(tmp_path / "tls.crt"), "tls-private-key-file": str(tmp_path / "tls.key")}
    async with exposed(**files, **{"tls-min-version": "VersionTLS13"}) as (_, urls):
        context = unverified()
        async with await connected(urls["main"], context) as stream:
            await stream.do_handshake()
            assert stream.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(pair.certificate.decode())
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        async with await connected(urls["main"], context) as stream:
            with pytest.raises(trio.BrokenResourceError):
                await stream.do_handshake()
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    async with exposed(**{"tls-cipher-suites": suite}) as (_, urls):
        context = unverified()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        async with await connected(urls["main"], context) as stream:
            await stream.do_handshake()
            assert stream.cipher()[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    with pytest.raises(InputError, match="absent"):
        async with exposed(**{**files, "tls-cert-file": str(tmp_path / "absent")}):
            pass


@pytest.mark.parametrize("suite", [each for each in CIPHER_SUITES if "_WITH_" in each and "GCM" in each])
def test_cipher_suites_have_names_that_openssl_knows(suite: str) -> None:
    unverified().set_ciphers(openssl_name(suite))


async def test_too_many_streams_are_refused_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    async with exposed() as (_, urls), trio.open_nursery() as nursery:
        first = None
        for _ in range(3):
            socket = await nursery.start(held_open, urls["main"])
            first = first or socket
        with pytest.raises(ConnectionRejected) as refused:
            await nursery.start(held_open, urls["main"])
        assert refused.value.status_code == 429
        assert first is not None
        await first.send_message(b"\x00hi")
        while (await first.get_message()) != b"\x01hi":
            pass
        nursery.cancel_scope.cancel()


async def test_a_half_open_stream_ends_after_the_idle_time_and_leaves_no_process() -> None:
    head = f"POST {EXEC} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
    async with (
        exposed(**{"streaming-connection-idle-timeout": "2m"}) as (cluster, urls),
        await connected(urls["main"], unverified()) as stream,
        client(urls["main"]) as main,
    ):
        await stream.send_all(head.encode())
        assert b"101" in await stream.receive_some()
        await cluster.run_for("3m")  # it neither reads nor writes nor ends
        machine = cluster.nodes["node-0"].machine
        assert not sessions.sessions_of(machine.agent).peers
        [programs] = machine.programs.values()
        assert len(programs.table.processes) == 1  # the container's own
        assert (await main.get("/healthz")).text == "ok"


async def test_large_frames_heads_and_bodies_end_alone() -> None:
    async with exposed() as (cluster, urls), client(urls["main"]) as main:
        async with await connected(urls["main"], unverified()) as stream:
            head = f"POST {EXEC} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
            await stream.send_all(head.encode())
            assert b"101" in await stream.receive_some()
            await stream.send_all(b"\x80\x03\x00\x01\x00\xff\xff\xff" + b"x" * 65536)
            with trio.fail_after(30):
                while await received(stream):
                    pass
        async with await connected(urls["main"], unverified()) as stream:
            await stream.send_all(b"GET /pods HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000)
            assert b" 431 " in await received(stream)
        large = await main.put("/debug/flags/v", content=b"1" * (4 << 20))
        assert large.status_code in (413, 503)
        assert (await main.get("/healthz")).text == "ok"
        await cluster.run_for("2s")
        assert not sessions.sessions_of(cluster.nodes["node-0"].machine.agent).peers


async def test_a_replay_repeats_the_requests_of_clients_of_agents() -> None:
    plan = ClusterPlan(naming="kubernetes", nodes=plain_nodes(1))
    async with Cluster(plan) as cluster:
        urls: dict[str, dict[str, str]] = {}
        async with served(cluster, agents=urls):
            await cluster.run_until("20s")
            async with client(urls["node-0"]["main"]) as main:
                assert (await main.post("/run/default/x/c?cmd=ls")).status_code == 404
            await cluster.run_until("30s")
            journal = cluster.kernel.gate.journal
            assert isinstance(journal, list)
            names = [one.name for one in journal]
            assert names.count("agent-connect") == 1
            assert "stream-put" in names
            first = cluster.kernel.trace.sha256()
    async with Cluster(plan, replay=list(journal)) as cluster:
        AgentDoors(Gateway(cluster.kernel, cluster.api_servers), cluster.nodes)
        await cluster.run_until("30s")
        assert cluster.kernel.trace.sha256() == first
