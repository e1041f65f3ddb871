"""What the parts of this folder use of the node agent that owns them."""

from __future__ import annotations

from typing import Protocol

from actors.node.runtime.machine import Machine
from sim.kernel.actor import Context
from sim.options.node_agent import NodeAgentOptions


class Host(Protocol):
    """The process and the machine that a part of the agent works with."""

    ctx: Context
    machine: Machine
    options: NodeAgentOptions

    @property
    def now_us(self) -> int:
        """The kernel's time."""
        ...


class RuntimeState(Protocol):
    """Whether the container runtime answers."""

    @property
    def silent(self) -> bool:
        """True while calls that change nothing get no answer."""
        ...


class RuntimeHost(Host, Protocol):
    """A host with a container runtime, which can stop answering."""

    @property
    def runtime(self) -> RuntimeState:
        """What the agent knows of the runtime."""
        ...

    def node_event(self, reason: str, text: str = "", type_: str = "Normal") -> None:
        """Record an event about the node."""
        ...

    def consider_pressure(self) -> None:
        """Plan again what depends on the use of memory, disks and process numbers."""
        ...
