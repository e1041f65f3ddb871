"""The parts of a cluster that an API server that runs alone has.

Turns its options into a cluster of one API server with its storage, which reaches agents of nodes
over HTTPS.
"""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from actors.apiserver.server import ApiServer
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.daemons.apiserver.agents import OutsideAgents
from sim.errors import InputError
from sim.files import read_bounded
from sim.kernel import NoJournal
from sim.options.apiserver.alone import ReachFlags
from sim.options.groups.listening import ListenFlags
from sim.options.groups.serving import EVERYWHERE
from sim.scenario.plan.plan import ClusterPlan
from sim.units import Wall

PROBE = ("192.0.2.1", 9)  # an address of no machine: the route to it shows the own one


class Reach(NamedTuple):
    """How a server is reached, and reaches agents.

    address, port: in the endpoints of the Service of the API servers; port 0: it is not there
    host: in documents for clients
    authorities, client_pair: for connections to agents, PEM
    """

    address: str
    port: int
    host: str
    address_types: tuple[str, ...]
    authorities: bytes
    client_pair: bytes


def reach_of(flags: ReachFlags, listen: ListenFlags, short: str) -> Reach:
    """The addresses and files that options give.  Raises InputError."""
    address = flags.advertise_address or own_address(listen.bind_address)

    def content(name: str, path: str) -> bytes:
        return read_bounded(Path(path), place=f"--{short}let-{name}") if path else b""

    pair = content("client-certificate", flags.agent_client_certificate)
    if pair:
        pair += b"\n" + content("client-key", flags.agent_client_key)
    return Reach(
        address,
        0 if flags.endpoint_reconciler == "none" else listen.secure_port,
        flags.external_hostname or address,
        flags.agent_address_types,
        content("certificate-authority", flags.agent_authority),
        pair,
    )


def own_address(bind: str) -> str:
    """The address by which others reach a server (apimachinery util/net: ResolveBindAddress).

    Raises InputError.
    """
    if bind not in EVERYWHERE and not bind.startswith("127."):
        return bind
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(PROBE)
            return str(probe.getsockname()[0])
    except OSError:
        raise InputError(
            "Unable to find suitable network address.error='no default routes found'",
            "--advertise-address",
            "Try to set the AdvertiseAddress directly or provide a valid BindAddress to fix this.",
        ) from None


class ServerAlone(Cluster):
    """A cluster of one API server."""

    def __init__(self, plan: ClusterPlan, reach: Reach, seed: int, epoch_us: Wall) -> None:
        self.reach = reach
        super().__init__(plan, seed=seed, epoch_us=epoch_us)
        self.kernel.gate.journal = NoJournal()

    def api_server(self, index: int) -> ApiServer:
        """The server, as the options say that it is reached."""
        server, reach = super().api_server(index), self.reach
        agents = OutsideAgents(self._node, reach.address_types, reach.authorities, reach.client_pair)
        server.reached_at = reach.address, reach.port
        server.around = replace(
            server.around,
            log=agents.log,
            stream=agents.stream,
            dial=agents.dial,
            agent_listens=None,
            client_address=None,
        )
        return server

    async def ready(self) -> None:
        """Wait until the storage has the objects of the start, here at once."""

    @property
    def server(self) -> ApiServer:
        """The only server."""
        (result,) = self.api_servers.values()
        return result

    def _node(self, name: str) -> Obj | None:
        item = self.storage.store.get(self.scheme.key("nodes", "", name))
        return None if item is None else item.obj
