"""The servers of nodes' agents on ports of this machine, for clients outside (`--expose-agents`).

Turns the nodes that a cluster has into listeners: of each agent the server with TLS, that for
reads and that for its health, as far as its options have them.

Holds: only addresses of the loopback are listened at; every request enters at the gate, so that a
replay repeats it; a port stays open while its agent does not run, and answers 503.

Mirrors  kubernetes v1.25 cmd/kubelet/app/server.go (InitializeTLS, startKubelet).
Differs  the ports are free ones of this machine, since all nodes share it; a certificate that no
         option names is made at the start, by an authority of the agent's own, or by that of the
         cluster with `rotate-server-certificates`.
"""

from __future__ import annotations

import ssl
from collections.abc import MutableMapping, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import trio

from actors.node.node import Node
from actors.node.server.exchange import Port
from sim.app.agents.requests import AgentDoors
from sim.app.cluster import Cluster
from sim.app.serving.front import outside_us
from sim.errors import InputError
from sim.files import read_bounded
from sim.options.base import BEGIN_PEM
from sim.options.node.agent import NodeAgentOptions
from sim.options.node.servers import CIPHER_SUITES, TLS_VERSIONS
from sim.wire.authority import Authority
from sim.wire.http.app import Application
from sim.wire.http.certificates import CertificateReader
from sim.wire.http.fronts.server import serve_at
from sim.wire.http.remote.agents import AgentFront
from sim.wire.tls import Pair, server_context

NODES_MAX = 200  # each has three listeners
CONNECTIONS_MAX = 1000  # of one server
LOOPBACK = "127.0.0.1"
Urls = MutableMapping[str, dict[str, str]]
_VERSIONS = dict(
    zip(
        TLS_VERSIONS,
        (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        strict=True,
    )
)


async def expose_agents(
    cluster: Cluster, doors: AgentDoors, authority: Authority, nursery: trio.Nursery, urls: Urls
) -> None:
    """Serve the agents of all present nodes until the nursery ends.  Raises InputError.

    urls: by node and "main", "read-only" or "healthz"; filled here
    """
    if len(cluster.nodes) > NODES_MAX:
        problem = f"{len(cluster.nodes)} nodes are too many to expose their agents"
        raise InputError(problem, "--expose-agents", f"at most {NODES_MAX}")
    for name, node in cluster.nodes.items():
        options, found = cluster.options.nodes[name], urls.setdefault(name, {})
        for port, host in _listeners_of(options):
            context, reader, scheme = None, None, "http"
            if port is Port.MAIN:
                trusted = _authorities(options, authority)
                context = _context(node, options, authority, trusted)
                reader = CertificateReader([trusted]) if trusted else None
                scheme = "https"
            front = AgentFront(
                partial(doors.open, name, port), cluster.names.group_domain, reader, outside_us
            )
            listeners = await trio.open_tcp_listeners(0, host=host)
            await nursery.start(partial(serve_at, Application(front), listeners, context, CONNECTIONS_MAX))
            found[port.value] = f"{scheme}://{host}:{listeners[0].socket.getsockname()[1]}"


def _listeners_of(options: NodeAgentOptions) -> Sequence[tuple[Port, str]]:
    """The servers that an agent has, each with the address to listen at."""
    found = []
    if options.listens:
        found.append((Port.MAIN, _near(options.address)))
        if options.read_only_port:
            found.append((Port.READ_ONLY, _near(options.address)))
    if options.healthz_port:
        found.append((Port.HEALTHZ, _near(options.healthz_bind_address)))
    return found


def _near(address: str) -> str:
    """An address of the loopback: the given one, if it is one of IPv4."""
    parsed = ip_address(address)
    return address if parsed.version == 4 and parsed.is_loopback else LOOPBACK


def _authorities(options: NodeAgentOptions, authority: Authority) -> bytes:
    """The authorities of clients, PEM; b"" if no certificate is asked for."""
    given = options.client_ca_file
    return given.encode() if BEGIN_PEM in given else authority.pem if given else b""


def _context(node: Node, options: NodeAgentOptions, authority: Authority, trusted: bytes) -> ssl.SSLContext:
    """TLS as the options say.  Raises InputError."""
    if options.tls_cert_file:
        files = options.tls_cert_file, options.tls_private_key_file
        pair = Pair(*(read_bounded(Path(file)) for file in files))
    else:
        issuer = authority if options.rotate_server_certificates else Authority(f"{node.name}-ca")
        pair = issuer.server((node.name, "localhost", LOOPBACK))
    try:
        context = server_context(pair, trusted)
    except ssl.SSLError as error:
        raise InputError(f"the certificate cannot be used: {error}", options.tls_cert_file) from None
    if options.tls_min_version:
        context.minimum_version = _VERSIONS[options.tls_min_version]
    if names := [openssl_name(suite) for suite in options.tls_cipher_suites if "_WITH_" in suite]:
        context.set_ciphers(":".join(names))
    return context


def openssl_name(suite: str) -> str:
    """The name of a cipher suite of TLS 1.2 in OpenSSL."""
    assert suite in CIPHER_SUITES
    exchange, _, rest = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = rest.removesuffix("_SHA256") if "POLY1305" in rest else rest
    cipher = (
        cipher.replace("AES_", "AES")
        .replace("_CBC_", "_")
        .replace("3DES_EDE", "DES_CBC3")
        .replace("RC4_128", "RC4")
    )
    return ("" if exchange == "RSA" else f"{exchange}_").replace("_", "-") + cipher.replace("_", "-")
