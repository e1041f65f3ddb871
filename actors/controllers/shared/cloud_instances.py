"""Interface of a cloud provider: the state of the instance behind a node.

Holds: the cloud answers at once, with an instance or with an error text; it draws no random
numbers.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/cloud.go: InstancesV2 (InstanceExists,
         InstanceShutdown).
Differs  the process gets the cloud as an argument; load balancers, routes and zones are not
         offered.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sim.api.types import Obj


class State(Enum):
    """State of an instance."""

    RUNNING = "running"
    STOPPED = "stopped"
    GONE = "gone"  # deleted, or never existed


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance and the id of the trace record that led to its state (0: its initial state)."""

    state: State
    cause: int = 0


class Cloud(Protocol):
    """The instances behind nodes."""

    @property
    def call_us(self) -> int:
        """Duration of one call to the cloud."""
        ...

    def instance(self, node: Obj) -> Instance | str:
        """The instance of a node, or the error text of the call."""
        ...
