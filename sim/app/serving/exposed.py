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
from collections.abc import MutableMapping
from functools import partial
from ipaddress import ip_address

import trio

from actors.node.node import Node
from actors.node.server.exchange import Port
from sim.app.agents.requests import AgentDoors
from sim.app.cluster import Cluster
from sim.app.options import files_of
from sim.app.serving.agent_ports import listeners_of, serve_agent
from sim.app.serving.front import outside_us
from sim.errors import InputError
from sim.options.base import BEGIN_PEM
from sim.options.node.agent import NodeAgentOptions
from sim.scenario.read.option_file import OptionFiles
from sim.wire.authority import Authority
from sim.wire.suites import restrict
from sim.wire.tls import Pair, server_context

NODES_MAX = 200  # each has three listeners
LOOPBACK = "127.0.0.1"
Urls = MutableMapping[str, dict[str, str]]


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
        options, result = cluster.options.nodes[name], urls.setdefault(name, {})
        trusted = _authorities(options, authority)
        files = files_of(next(each for each in cluster.plan.nodes if each.name == name))
        for port, host, _ in listeners_of(options):
            is_main = port is Port.MAIN
            context = _context(node, options, files, authority, trusted) if is_main else None
            result[port.value] = await serve_agent(
                nursery,
                partial(doors.open, name),
                (port, _near(host), 0),
                cluster.names.group_domain,
                (context, trusted),
                outside_us,
            )


def _near(address: str) -> str:
    """An address of the loopback: the given one, if it is one of IPv4."""
    parsed = ip_address(address)
    return address if parsed.version == 4 and parsed.is_loopback else LOOPBACK


def _authorities(options: NodeAgentOptions, authority: Authority) -> bytes:
    """The authorities of clients, PEM; b"" if no certificate is asked for."""
    entry = options.client_ca_file
    return entry.encode() if BEGIN_PEM in entry else authority.pem if entry else b""


def _context(
    node: Node, options: NodeAgentOptions, files: OptionFiles, authority: Authority, trusted: bytes
) -> ssl.SSLContext:
    """TLS as the options say.  Raises InputError."""
    certificate = files.of("tls-cert-file", options.tls_cert_file)
    if certificate.path:
        key = files.of("tls-private-key-file", options.tls_private_key_file)
        pair = Pair(certificate.data(), key.data())
    else:
        issuer = authority if options.rotate_server_certificates else Authority(f"{node.name}-ca")
        pair = issuer.server((node.name, "localhost", LOOPBACK))
    try:
        context = server_context(pair, trusted)
    except ssl.SSLError as error:
        raise certificate.error(f"the certificate cannot be used: {error}") from None
    restrict(context, options)
    return context
