"""Probes and hooks by the network, of containers with simulated programs.

Turns a probe or a hook into the steps by which the agent of the node connects to what listens, and
their end into "" or what went wrong.

Mirrors  pkg/probe/{http,tcp,grpc}: codes from 200 to 399 succeed, a redirection to another host is
         not followed and succeeds, and the texts of failures; pkg/kubelet/lifecycle/handlers.go:
         runHTTPHandler: any answer counts (v1.25).
Differs  gRPC is a greeting that only programs here understand
         (`actors.node.programs.network.grpc`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from actors.node.programs.network.client import NotAnswered, Place, get
from actors.node.programs.network.dialer import NotDialled, dialled
from actors.node.programs.network.fabric import Network
from actors.node.programs.network.grpc import SERVING, UNKNOWN, check
from actors.node.programs.network.sockets import Address
from actors.node.programs.waits import Wait
from actors.node.runtime.probe_answers import port_of
from sim.api.types import Obj
from sim.units import SECOND, go_quote

Steps = Generator[Wait, None, str]
MINOR_VERSION = "1.25"
RETRY_US = SECOND  # grpc backoff.go: the first delay between attempts to connect


def network_probe(
    network: Network, container: Obj, probe: Obj, ip: str, agent: str, now_us: Callable[[], int]
) -> Steps | None:
    """The steps of a probe; None for one that does not connect.

    network: of the node; container: its spec; ip: of the pod; agent: how the prober names itself
    """
    until_us = now_us() + int(probe.get("timeoutSeconds") or 1) * SECOND
    for handler, make in (("httpGet", _http), ("tcpSocket", _tcp), ("grpc", _grpc)):
        if handler in probe:
            given = probe[handler]
            port = port_of(container, given.get("port"))
            if port is None:
                return None
            where = Address(given.get("host") or ip, port)
            return make(network, given, where, agent, now_us, until_us)
    return None


def connects(container: Obj, probe: Obj) -> bool:
    """True for a probe that connects to a port that is known."""
    handler = next((probe[name] for name in ("httpGet", "tcpSocket", "grpc") if name in probe), None)
    return handler is not None and port_of(container, handler.get("port")) is not None


def _http(
    network: Network, given: Obj, where: Address, agent: str, now_us: Callable[[], int], until_us: int
) -> Steps:
    path = str(given.get("path") or "/")
    encrypted = str(given.get("scheme") or "HTTP").upper() == "HTTPS"
    place = Place(where.host, where.port, path if path.startswith("/") else f"/{path}", encrypted)
    headers = [(one["name"], str(one.get("value") or "")) for one in given.get("httpHeaders") or ()]
    stated = {name.lower() for name, _ in headers}
    own = (("User-Agent", f"{agent}/{MINOR_VERSION}"), ("Accept", "*/*"), ("Connection", "close"))
    headers += [pair for pair in own if pair[0].lower() not in stated]
    try:
        found = yield from get(
            network, place, tuple(headers), now_us, until_us, lambda led: led.host == place.host
        )
    except NotAnswered as error:
        return str(error)
    return "" if 200 <= found.code < 400 else f"HTTP probe failed with statuscode: {found.code}"


def _tcp(
    network: Network, given: Obj, where: Address, agent: str, now_us: Callable[[], int], until_us: int
) -> Steps:
    del given, agent
    try:
        connection = yield from dialled(network, where, now_us, until_us, None)
    except NotDialled as error:
        return str(error)
    connection.close()
    return ""


def _grpc(
    network: Network, given: Obj, where: Address, agent: str, now_us: Callable[[], int], until_us: int
) -> Steps:
    del agent
    shown, limit = go_quote(str(where)), f"{(until_us - now_us()) // SECOND}s"
    while now_us() < until_us:
        found = yield from _checked(network, where, str(given.get("service") or ""), now_us, until_us)
        if found == SERVING:
            return ""
        if found == UNKNOWN:
            return "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"
        if found:
            return f"service unhealthy (responded with {go_quote(found)})"
        next_us = min(until_us, now_us() + RETRY_US)
        while now_us() < next_us:
            yield Wait(until_us=next_us)
    return f"timeout: failed to connect service {shown} within {limit}: context deadline exceeded"


def _checked(
    network: Network, where: Address, service: str, now_us: Callable[[], int], until_us: int
) -> Generator[Wait, None, str]:
    """The word of the server of gRPC at an address; "" without one."""
    try:
        connection = yield from dialled(network, where, now_us, until_us, None)
    except NotDialled:
        return ""
    try:
        return (yield from check(connection, service, now_us, until_us))
    finally:
        connection.close()


def network_hook(
    network: Network, container: Obj, given: Obj, ip: str, now_us: Callable[[], int]
) -> Steps | None:
    """The steps of a hook by HTTP; None for a port that is not known.

    Quirk: the scheme and the headers of a hook are ignored, and a path has two slashes.
    """
    port = port_of(container, given.get("port") or 80)
    if port is None:
        return None
    place = Place(given.get("host") or ip, port, f"/{given.get('path') or ''}")

    def steps() -> Steps:
        try:
            yield from get(network, place, (("User-Agent", "Go-http-client/1.1"),), now_us)
        except NotAnswered as error:
            return str(error)
        return ""

    return steps()
