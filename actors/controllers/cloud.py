"""Where the loops for nodes in a cloud learn what the cloud knows of a node's instance.

Holds: a cloud is asked about a node and answers by the state of its instance or by the words of its failure; it draws nothing.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/cloud.go: InstancesV2 (InstanceExists, InstanceShutdown).
Differs  the cloud is handed to the process; of what else a provider offers (load balancers, routes, zones) there is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sim.machinery.api import Obj


class State(Enum):
    """Of an instance."""

    RUNNING = "running"
    STOPPED = "stopped"
    GONE = "gone"  # or never heard of


@dataclass(frozen=True, slots=True)
class Instance:
    """cause: the trace record by which it is in that state (0: it always was)."""

    state: State
    cause: int = 0


class Cloud(Protocol):
    """The instances behind nodes."""

    @property
    def call_us(self) -> int:
        """How long it takes to answer a question."""
        ...

    def instance(self, node: Obj) -> Instance | str:
        """What is known of a node's instance, or why that cannot be told."""
        ...
