"""The machine that is simulated under a node agent that runs alone.

Turns the options of an agent into a plan, a machine with the addresses of the user's machine, and
the network between its pods.

Holds: two machines with different names have different ranges of pods, as long as the API gives
them none; pods of one machine reach each other, and no others.

Mirrors  component-helpers v1.25 node/util/hostname.go (GetHostname); kubernetes v1.25
         pkg/kubelet/nodestatus/setters.go (NodeAddress: the address by which the machine reaches
         others).
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from actors.node.node import Node
from actors.node.runtime.machine import Machine
from actors.storage import MemoryStore
from sim.api.scheme.scheme import Scheme
from sim.app.options import node_agent_options
from sim.app.parts.given import node_spec
from sim.app.parts.pod_network import PodNetwork
from sim.errors import InputError
from sim.ident import Names
from sim.kernel import Kernel
from sim.options.base import raw_option
from sim.options.node.agent import NodeAgentOptions
from sim.options.node.alone import MachineSettings
from sim.options.node.configuration import with_configuration
from sim.scenario.plan.plan import NodePlan
from sim.scenario.schema.sections import Runtime

ANYWHERE = "192.0.2.1"  # of no machine (RFC 5737): nothing is sent to it


def plan_of(
    names: Names, settings: MachineSettings, values: Mapping[str, object]
) -> tuple[NodePlan, NodeAgentOptions]:
    """The node that the options describe, and the options themselves.  Raises InputError.

    values: raw ones of the agent, with the content of the files that they name
    """
    flags, places = with_configuration(values, names, places={name: f"--{name}" for name in values})
    # Upstream's agent has no folder of manifests unless one is named; a scenario's machine has one.
    flags = {"pod-manifest-path": "", **flags}
    name = str(raw_option(flags, "hostname-override") or socket.gethostname()).strip().lower()
    if not name:
        raise InputError("empty hostname is invalid", "--hostname-override")
    zone, region = settings.machine_zone, settings.machine_region
    plan = NodePlan(name, zone, region, settings.machine, {}, (), Runtime(), flags, "", places)
    return plan, node_agent_options(plan, names)


def machine_of(names: Names, plan: NodePlan, server: str) -> Machine:
    """The machine of a plan.  server: the address of the API server, "" without one"""
    digest = hashlib.md5(plan.name.encode(), usedforsecurity=False).digest()
    spec = node_spec(names, plan, 1)
    return Machine(
        replace(
            spec, address=address_towards(server), pod_cidr=f"10.{128 + digest[0] % 128}.{digest[1]}.0/24"
        )
    )


def address_towards(server: str) -> str:
    """The address of this machine from which a server is reached; without one that of its way out."""
    url = urlsplit(server)
    target = (url.hostname or ANYWHERE, url.port or 443)
    try:
        family, *_, address = socket.getaddrinfo(*target, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def connect_pods(
    kernel: Kernel, scheme: Scheme, nodes: Mapping[str, Node], machine: Machine, options: NodeAgentOptions
) -> MemoryStore:
    """Let the pods of a machine reach each other; returns what their network knows of the cluster.

    nodes: the machine's own node, once it is there
    """
    store = MemoryStore(lambda: kernel.now_us)
    agents: dict[str, Any] = {machine.spec.name: options}
    machine.fabric = PodNetwork(kernel, scheme.names, scheme, store, nodes, agents).fabric
    return store
