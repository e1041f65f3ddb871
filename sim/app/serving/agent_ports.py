"""The listeners of one agent: the server with TLS, that for reads and that for its health.

Turns the options of an agent, and the way to its servers, into sockets.

Holds: every request goes the way that it is given, so that it enters at the gate of the simulation;
a port stays open while its agent does not run, and answers 503.

Mirrors  kubernetes v1.25 cmd/kubelet/app/server.go (InitializeTLS, startKubelet).
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from actors.node.server.exchange import Port
from sim.options.node.agent import NodeAgentOptions
from sim.units import Wall
from sim.wire.http.app import Application
from sim.wire.http.certificates import CertificateReader
from sim.wire.http.fronts.server import serve_at
from sim.wire.http.remote.agents import AgentFront
from sim.wire.http.streams import OutsideStream

CONNECTIONS_MAX = 1000  # of one server
Connect = Callable[[Port], Awaitable[OutsideStream | str]]


def listeners_of(options: NodeAgentOptions) -> Sequence[tuple[Port, str, int]]:
    """The servers that an agent has, each with its address and port."""
    result = []
    if options.listens:
        result.append((Port.MAIN, options.address, options.port))
        if options.read_only_port:
            result.append((Port.READ_ONLY, options.address, options.read_only_port))
    if options.healthz_port:
        result.append((Port.HEALTHZ, options.healthz_bind_address, options.healthz_port))
    return result


async def serve_agent(
    nursery: trio.Nursery,
    connect: Connect,
    listener: tuple[Port, str, int],
    domain: str,
    tls: tuple[ssl.SSLContext | None, bytes],
    outside_us: Callable[[], Wall],
) -> str:
    """Serve one server of an agent until the nursery ends; returns its URL.  Raises OSError.

    connect: to the agent, or why that is not possible
    listener: which server, and where it listens; 0 stands for a free port
    domain: with which the names of protocols end
    tls: of the main server: its context, and the authorities of clients, b"" for none
    """
    port, host, number = listener
    context, trusted = tls if port is Port.MAIN else (None, b"")
    reader = CertificateReader([trusted]) if trusted else None
    front = AgentFront(partial(connect, port), domain, reader, outside_us)
    listeners = await trio.open_tcp_listeners(number, host=host)
    await nursery.start(partial(serve_at, Application(front.answer), listeners, context, CONNECTIONS_MAX))
    shown = f"[{host}]" if ":" in host else host
    return f"{'http' if context is None else 'https'}://{shown}:{listeners[0].socket.getsockname()[1]}"
