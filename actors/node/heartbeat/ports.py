"""What the node loop uses of the node agent."""

from __future__ import annotations

from typing import Protocol

from actors.node.heartbeat.node_status import Health
from actors.node.requests import Api
from actors.node.runtime.ports import Host
from actors.node.runtime.profile import NodeSpec
from sim.ident import Names


class RuntimeState(Protocol):
    """The container runtime."""

    def texts_change(self) -> bool:
        """True while the texts of the runtime's errors change as time passes."""
        ...


class Owner(Host, Protocol):
    """What the node loop uses of the node agent.

    api: the rate-limited client, for the registration; heartbeats: the client for the status
    """

    spec: NodeSpec
    names: Names
    api: Api
    heartbeats: Api
    host_ip: str

    @property
    def runtime(self) -> RuntimeState:
        """The container runtime."""
        ...

    def health(self) -> Health:
        """What the node's conditions are computed from."""
        ...

    def knows_node(self) -> bool:
        """True if the agent knows the stored state of the node without a read."""
        ...

    def node_registered(self) -> None:
        """The Node object is stored now."""
        ...

    def node_event(self, reason: str, text: str = "", type_: str = "Normal") -> None:
        """Record an event about the node."""
        ...

    def tidy(self) -> None:
        """Release memory that is no longer used."""
        ...
