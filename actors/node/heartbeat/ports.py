"""The node agent as the parts of its heartbeat see it."""

from __future__ import annotations

from typing import Protocol

from actors.node.heartbeat.node_status import Health
from actors.node.requests import Api
from actors.node.runtime.ports import Agent
from sim.klog import Klog


class HeartbeatAgent(Agent, Protocol):
    """The agent with what only the node loop and the view of the runtime use.

    heartbeats: the client for the status
    log: None if no one keeps it
    """

    log: Klog | None

    heartbeats: Api

    def health(self) -> Health:
        """What the node's conditions are computed from."""
        ...

    def knows_node(self) -> bool:
        """True if the agent knows the stored state of the node without a read."""
        ...

    def node_registered(self) -> None:
        """The Node object is stored now."""
        ...

    def tidy(self) -> None:
        """Release memory that is no longer used."""
        ...

    def runtime_silent(self) -> None:
        """Calls that change nothing get no answer from the runtime from now on."""
        ...

    def runtime_answered(self) -> None:
        """Calls that change nothing are answered by the runtime again."""
        ...

    def runtime_up(self) -> None:
        """The runtime is ready for the first time."""
        ...

    def runtime_checked(self) -> None:
        """The errors of the runtime may have changed."""
        ...
