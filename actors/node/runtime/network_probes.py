"""Probes by HTTP and TCP of containers with simulated programs: they connect to what listens.

Turns a probe and its container into a program that ends with 0 if the probe succeeds, and prints
why it does not.

Mirrors  pkg/probe/{http,tcp}: codes from 200 to 399 succeed, and the texts of failures; golang
         net/dial.go (v1.25).
Differs  a probe connects from within the pod; a redirection is not followed; HTTPS and gRPC are
         answered by the container's behaviour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.node.programs.ends import send
from actors.node.programs.network.http import HttpError, Request, exchange
from actors.node.programs.network.sockets import Address, SocketError
from actors.node.programs.network.tasks import dial, drop
from actors.node.programs.process import Process
from actors.node.programs.waits import Main
from actors.node.runtime.probe_answers import port_of
from sim.api.types import Obj

Program = Callable[[Process], Main]


def network_probe(container: Obj, probe: Obj, ip: str) -> Program | None:
    """The program of a probe; None for one that does not connect here.  container: its spec"""
    for handler, make in (("httpGet", _http), ("tcpSocket", _tcp)):
        if handler in probe:
            given = probe[handler]
            port = port_of(container, given.get("port"))
            if port is None or str(given.get("scheme") or "HTTP") != "HTTP":
                return None
            return make(given, Address(given.get("host") or ip, port))
    return None


def late_text(container: Obj, probe: Obj, ip: str) -> str:
    """The output of a probe that has taken too long."""
    if "httpGet" in probe:
        given = probe["httpGet"]
        where = Address(given.get("host") or ip, port_of(container, given.get("port")) or 0)
        return f'Get "{_url(given, where)}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    given = probe["tcpSocket"]
    return f"dial tcp {Address(given.get('host') or ip, port_of(container, given.get('port')) or 0)}: i/o timeout"


def _url(given: Obj, where: Address) -> str:
    path = str(given.get("path") or "/")
    return f"http://{where}{path if path.startswith('/') else f'/{path}'}"


def _fail(process: Process, text: str) -> Main:
    yield from send(process.ends[1], text.encode())
    return 1


def _http(given: Obj, where: Address) -> Program:
    headers: dict[str, Any] = {"Host": str(where), "Accept": "*/*", "Connection": "close"}
    for one in given.get("httpHeaders") or ():
        headers[one["name"]] = one.get("value") or ""
    url = _url(given, where)

    def main(process: Process) -> Main:
        try:
            connection = yield from dial(process, where.host, where.port)
        except SocketError as error:
            text = f'Get "{url}": dial tcp {where}: connect: {error.text.lower()}'
            return (yield from _fail(process, text))
        try:
            request = Request("GET", url.removeprefix(f"http://{where}"), tuple(headers.items()))
            response = yield from exchange(connection, request, lambda: process.now_us)
        except (SocketError, HttpError):
            return (yield from _fail(process, f'Get "{url}": EOF'))
        drop(process, connection)
        if 200 <= response.code < 400:
            return 0
        return (yield from _fail(process, f"HTTP probe failed with statuscode: {response.code}"))

    return main


def _tcp(_: Obj, where: Address) -> Program:
    def main(process: Process) -> Main:
        try:
            connection = yield from dial(process, where.host, where.port)
        except SocketError as error:
            return (yield from _fail(process, f"dial tcp {where}: connect: {error.text.lower()}"))
        drop(process, connection)
        return 0

    return main
