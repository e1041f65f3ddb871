"""Agents of nodes in other processes, as an API server that runs alone reaches them."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from sim.wire.authority import Authority
from sim.wire.tls import server_context
from tests.cluster.daemons.running import api_server, client_of, config_of

LOCAL = "127.0.0.1"
PODS = "/api/v1/namespaces/default/pods"
NODE = "worker"
AUTHORITY = Authority("agents-ca")
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


class Agent:
    """The server of an agent, which answers a request on each connection.

    asked: the first lines of the requests, with the common names of the clients' certificates
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        context = server_context(AUTHORITY.server((LOCAL,)), AUTHORITY.pem)
        context.set_alpn_protocols(["http/1.1"])
        self._listener = context.wrap_socket(socket.create_server((LOCAL, 0)), server_side=True)
        self.port = self._listener.getsockname()[1]

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except ssl.SSLError:
                continue
            except OSError:
                return
            with connection:
                self._answer(connection)

    def _answer(self, connection: Any) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(4096)
        line = head.decode().splitlines()[0]
        certificate = connection.getpeercert() or {"subject": ()}
        subject = {key: value for part in certificate["subject"] for key, value in part}
        self.asked.append((line, subject.get("commonName", "")))
        if b"Upgrade: SPDY/3.1" in head or b"upgrade: SPDY/3.1" in head:
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n")
            connection.sendall(connection.recv(4096).upper())
        elif "/gone/" in line:
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone")
        else:
            text = b"a line\n"
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def agent() -> Iterator[Agent]:
    made = Agent()
    thread = Thread(target=made.serve)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join()


def register(client: httpx.Client, port: int) -> None:
    """A node with an agent, and two pods there."""
    node: dict[str, Any] = client.post("/api/v1/nodes", json={"metadata": {"name": NODE}}).json()
    node["status"] = {
        "addresses": [
            {"type": "InternalIP", "address": "192.0.2.9"},
            {"type": "ExternalIP", "address": LOCAL},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    assert client.put(f"/api/v1/nodes/{NODE}/status", json=node).status_code == 200
    assert client.post("/api/v1/namespaces/default/serviceaccounts", json={"metadata": {"name": "default"}})
    for name in ("web", "gone"):
        spec = {"nodeName": NODE, "containers": [{"name": "c", "image": "nginx"}]}
        made = client.post(PODS, json={"metadata": {"name": name}, "spec": spec})
        assert made.status_code == 201, made.text


def upgraded(url: str, path: str, sent: bytes) -> bytes:
    """The answer of an agent over a connection with another protocol."""
    host, _, port = url.removeprefix("https://").partition(":")
    context = ssl._create_unverified_context()
    with socket.create_connection((host, int(port))) as raw, context.wrap_socket(raw) as connection:
        lines = [f"POST {path} HTTP/1.1", "Host: x", "Authorization: Bearer admin"]
        lines += [f"{name}: {value}" for name, value in UPGRADE.items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(4096)
        assert head.startswith(b"HTTP/1.1 101"), head
        connection.sendall(sent)
        return connection.recv(4096)


@pytest.mark.slow
def test_logs_commands_and_pages_of_agents_pass_through(tmp_path: Path) -> None:
    pair = AUTHORITY.client("kube-apiserver-kubelet-client", ("system:masters",))
    for name, content in (("ca", AUTHORITY.pem), ("crt", pair.certificate), ("key", pair.key)):
        (tmp_path / name).write_bytes(content)
    words = (
        f"--kubelet-certificate-authority={tmp_path / 'ca'}",
        f"--kubelet-client-certificate={tmp_path / 'crt'}",
        f"--kubelet-client-key={tmp_path / 'key'}",
        "--kubelet-preferred-address-types=Hostname,ExternalIP,InternalIP",
    )
    with agent() as served, api_server(tmp_path, *words) as (_, url):
        with client_of(config_of(tmp_path, url, "admin")) as client:
            register(client, served.port)
            log = client.get(f"{PODS}/web/log", params={"tailLines": "3"})
            assert (log.status_code, log.text) == (200, "a line\n")
            gone = client.get(f"{PODS}/gone/log")
            assert (gone.status_code, gone.json()["details"]) == (404, {"name": "gone", "kind": "pods/log"})
            path = f"{PODS}/web/exec?command=ls&command=-l&stdout=true"
            assert upgraded(url, path, b"bytes") == b"BYTES"
            page = client.get(f"/api/v1/nodes/{NODE}/proxy/metrics?x=1")
            assert (page.status_code, page.text) == (200, "a line\n")
        user = "kube-apiserver-kubelet-client"
        assert served.asked == [
            ("GET /containerLogs/default/web/c?tailLines=3 HTTP/1.1", user),
            ("GET /containerLogs/default/gone/c HTTP/1.1", user),
            ("POST /exec/default/web/c?command=ls&command=-l&output=1 HTTP/1.1", user),
            ("GET /metrics?x=1 HTTP/1.1", user),
        ]


@pytest.mark.slow
def test_an_agent_that_is_away_is_named_with_its_address(tmp_path: Path) -> None:
    with (
        api_server(tmp_path, "--kubelet-preferred-address-types=ExternalIP") as (_, url),
        client_of(config_of(tmp_path, url, "admin")) as client,
    ):
        with socket.create_server((LOCAL, 0)) as taken:
            port = taken.getsockname()[1]
        register(client, port)
        answer = client.get(f"{PODS}/web/log")
        assert answer.status_code == 500
        assert f"dial tcp {LOCAL}:{port}: connect: connection refused" in answer.text
        proxied = client.get(f"/api/v1/nodes/{NODE}/proxy/metrics")
        assert proxied.status_code == 503
