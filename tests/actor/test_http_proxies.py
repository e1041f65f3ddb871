"""Proxies of pods and Services over HTTP: what a program of a pod gets, and what its client gets."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio

from actors.node.programs.ends import receive, send
from actors.node.programs.network.http import Request, Response, serve
from actors.node.programs.network.sockets import Connection
from actors.node.programs.network.tasks import Tasks
from actors.node.programs.network.tls import accept
from actors.node.programs.process import Process
from actors.node.programs.waits import Main, Wait
from actors.node.runtime.interpreter import Interpreter
from sim.app.cluster import Cluster
from tests.actor.test_http import PODS, served

pytestmark = [pytest.mark.usefixtures("each_front"), pytest.mark.slow]
SERVICES = "/api/v1/namespaces/default/services"
PAGE = b'<!-- <a href="/x"> --><P class=\'a\'><a href="/next?a=1&amp;b=2">x</a><img src=rel.png></P>'
SHOWN = b'<!-- <a href="/x"> --><p class="a"><a href="%s/next?a=1&amp;b=2">x</a><img src="rel.png"></P>'
LARGE = b"0123456789" * 100_000


def site(process: Process) -> Main:
    """Serve HTTP at port 80, HTTPS at 443; change the protocol at 81, break at 82, stall at 83."""
    tasks = Tasks(process)

    def handle(request: Request) -> Generator[Wait, None, Response]:
        yield from ()
        headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html; charset=utf-8"),)
        if request.path == "/page":
            return Response(200, PAGE, headers)
        if request.path == "/packed":
            return Response(200, gzip.compress(PAGE), (*headers, ("Content-Encoding", "gzip")))
        if request.path == "/large":
            return Response(200, LARGE, (("Access-Control-Allow-Origin", "*"),))
        if request.path.startswith("/moved"):
            return Response(302, b"", (("Location", request.form("to")),))
        lowered = {name.lower(): value for name, value in request.headers}
        seen = [request.method, request.target, lowered, request.body.decode()]
        return Response(201, json.dumps(seen).encode(), (("X-Own", "1"),))

    def plain(connection: Connection) -> Generator[Wait, None, None]:
        yield from serve(connection, handle, lambda: process.now_us)

    def encrypted(connection: Connection) -> Generator[Wait, None, None]:
        if (yield from accept(connection, b"PEM", lambda: process.now_us)):
            yield from plain(connection)

    def upgraded(connection: Connection) -> Generator[Wait, None, None]:
        data = yield from receive(connection)
        if b"Upgrade: odd" in data and b"/ws " in data:
            head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\nhello "
            yield from send(connection, head)
            while data := (yield from receive(connection)):
                yield from send(connection, data.upper())
        else:
            yield from send(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def broken(connection: Connection) -> Generator[Wait, None, None]:
        yield from receive(connection)
        connection.reset()

    ports = {80: plain, 443: encrypted, 81: upgraded, 82: broken}
    for port, each in ports.items():
        tasks.listen(port, each)
    return (yield from tasks.run())


@asynccontextmanager
async def proxying() -> AsyncIterator[tuple[Cluster, httpx.AsyncClient, str]]:
    """A served cluster with pod p behind Service s; time is paused.  Also the pod's address."""
    async with served(nodes=1) as (cluster, client):
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_until("5s")
        cluster.nodes["node-0"].machine.interpreter = Interpreter({"site": site})
        spec = {"containers": [{"name": "c", "image": "i", "command": ["site"]}]}
        pod = {"metadata": {"name": "p", "labels": {"app": "p"}}, "spec": spec}
        await client.post(PODS, json=pod)
        ports = [{"name": "web", "port": 8000, "targetPort": 80}]
        service = {"metadata": {"name": "s"}, "spec": {"selector": {"app": "p"}, "ports": ports}}
        await client.post(SERVICES, json=service)
        await cluster.run_until("30s")
        address = (await client.get(f"{PODS}/p")).json()["status"]["podIP"]
        yield cluster, client, address


async def test_a_program_gets_the_request_and_its_answer_is_passed_on() -> None:
    async with proxying() as (_, client, _):
        headers = {"X-Given": "a", "Connection": "x-hop", "X-Hop": "1", "User-Agent": "me"}
        for begin in (
            f"{PODS}/p",
            f"{PODS}/p:80",
            f"{PODS}/http:p:80",
            f"{SERVICES}/s:web",
            f"{SERVICES}/s:8000",
        ):
            path = f"{begin}/proxy/a%20b/c/"
            found = await client.post(f"{path}?q=1&r", content=b"body", headers=headers)
            assert (found.status_code, found.headers["x-own"]) == (201, "1")
            method, target, seen, body = found.json()
            assert (method, target, body) == ("POST", "/a%20b/c/?q=1&r", "body")
            wanted = {"x-given": "a", "user-agent": "me", "x-forwarded-uri": path, "content-length": "4"}
            assert wanted.items() <= seen.items()
            assert seen["x-forwarded-for"] == "127.0.0.1"
            assert seen["host"] == f"127.0.0.1:{client.base_url.port}"
            assert not {"authorization", "connection"} & set(seen)


async def test_links_and_redirections_lead_through_the_proxy() -> None:
    async with proxying() as (_, client, address):
        base = f"{PODS}/p/proxy"
        for path in ("page", "packed"):
            found = await client.get(f"{base}/{path}")
            assert found.content == SHOWN % base.encode()
        for given, shown in (
            ("/x/", f"{base}/x/"),
            (f"http://{address}:80/x?a=b", f"{base}/x?a=b"),
            ("http://elsewhere/x", "http://elsewhere/x"),
            ("near", "near"),
            (f"{base}/x", f"{base}/x"),
        ):
            found = await client.get(f"{base}/moved", params={"to": given}, follow_redirects=False)
            assert (found.status_code, found.headers["location"]) == (302, shown)


async def test_a_large_answer_is_passed_on_without_the_rights_of_other_origins() -> None:
    async with proxying() as (_, client, _):
        found = await client.get(f"{PODS}/p/proxy/large")
        assert found.content == LARGE
        assert "access-control-allow-origin" not in found.headers
        head = await client.head(f"{PODS}/p/proxy/large")
        assert (head.status_code, head.headers["content-length"]) == (200, str(len(LARGE)))


async def test_tls_is_spoken_if_the_scheme_says_so() -> None:
    async with proxying() as (_, client, _):
        assert (await client.get(f"{PODS}/https:p:443/proxy/x")).status_code == 201
        wrong = await client.get(f"{PODS}/https:p:80/proxy/x")
        text = "error trying to reach service: http: server gave HTTP response to HTTPS client"
        assert (wrong.status_code, wrong.json()["message"]) == (503, text)
        other = await client.get(f"{PODS}/p:443/proxy/x")
        assert (other.status_code, other.text) == (400, "Client sent an HTTP request to an HTTPS server.\n")


async def test_failures_of_programs_are_upstreams() -> None:
    async with proxying() as (cluster, client, address):
        for port, why in (
            ("82", ": read: connection reset by peer"),
            ("99", ":99: connect: connection refused"),
        ):
            found = await client.get(f"{PODS}/p:{port}/proxy/x")
            body = found.json()
            assert (found.status_code, body["reason"]) == (503, "ServiceUnavailable")
            assert body["message"].startswith("error trying to reach service: ")
            assert body["message"].endswith(why)
        cluster.fail_node("node-0", "power-loss")
        cluster.kernel.set_goal(cluster.kernel.now_us + 60_000_000)
        with trio.fail_after(30):
            found = await client.get(f"{PODS}/p/proxy/x")
        late = f"error trying to reach service: dial tcp {address}:80: i/o timeout"
        assert (found.status_code, found.json()["message"]) == (503, late)


async def test_a_program_may_change_the_protocol() -> None:
    async with proxying() as (_, client, _):
        async with await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0) as stream:
            head = (
                f"GET {PODS}/p:81/proxy/ws?a=b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\n"
                "Connection: Upgrade\r\nUpgrade: odd\r\n\r\n"
            )
            await stream.send_all(head.encode())
            answer = b""
            with trio.fail_after(30):
                while not answer.endswith(b"hello "):
                    answer += await stream.receive_some()
                assert answer.startswith(b"HTTP/1.1 101 ")
                await stream.send_all(b"abc")
                assert await stream.receive_some() == b"ABC"
        headers = {"Connection": "Upgrade", "Upgrade": "odd"}
        found = await client.get(f"{PODS}/p:81/proxy/none", headers=headers)
        assert (found.status_code, found.json()["message"]) == (
            500,
            "invalid upgrade response: status code 200",
        )


async def test_a_proxied_request_ends_with_its_client_and_with_the_api_server() -> None:
    async with proxying() as (cluster, client, _):
        [programs] = cluster.nodes["node-0"].machine.programs.values()
        [process] = programs.table.processes
        idle = len(process.ends)
        async with await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0) as stream:
            head = f"GET {PODS}/p/proxy/large HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\n\r\n"
            await stream.send_all(head.encode())
            await stream.receive_some(1)
            assert len(process.ends) == idle + 1
        with trio.fail_after(20):  # the server has to notice the end of the connection
            while len(process.ends) > idle:
                await cluster.run_until(f"{cluster.kernel.now_us + 1000}us")
                await trio.lowlevel.checkpoint()
