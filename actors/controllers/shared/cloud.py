"""Interface of a cloud provider: instances of nodes, load balancers of services, routes to pods.

Holds: the cloud answers at once, with a value or with the error of the call; what a call takes is
waited for by the caller (`call_us`); it draws no random numbers.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/cloud.go: InstancesV2 (InstanceExists,
         InstanceShutdown), LoadBalancer, Routes;
         pkg/controller/nodeipam/ipam/adapter.go (the alias ranges of an instance).
Differs  the process gets the cloud as an argument; zones are not offered.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from sim.api.types import Obj
from sim.dataclass import dataclass

# The services of a cloud, each of which can fail or be slow alone.
INSTANCES, LOAD_BALANCERS, ROUTES = "instances", "load-balancers", "routes"


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


@dataclass(frozen=True, slots=True)
class Refused:
    """The error of a call, and the id of the trace record that explains it (0: none)."""

    text: str
    cause: int = 0


@dataclass(frozen=True, slots=True)
class Balancer:
    """A load balancer: its addresses as in the status of the Service."""

    ingress: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """A route to the pods of a node."""

    name: str
    node: str
    cidr: str


class Cloud(Protocol):
    """What the controllers use of a cloud."""

    def call_us(self, service: str) -> int:
        """Duration of one call to a service of the cloud."""
        ...

    def instance(self, node: Obj) -> Instance | str:
        """The instance of a node, or the error text of the call."""
        ...

    def pod_ranges(self, node: Obj) -> Sequence[str] | str:
        """The ranges of pod addresses that the instance of a node has, or the error text."""
        ...

    def balancer(self, cluster: str, service: Obj) -> Balancer | Refused | None:
        """The load balancer of a service; None if there is none."""
        ...

    def ensure_balancer(self, cluster: str, service: Obj, nodes: Sequence[str]) -> Balancer | Refused:
        """Create the load balancer of a service, or change it to what the service is now."""
        ...

    def update_balancer(self, cluster: str, service: Obj, nodes: Sequence[str]) -> Refused | None:
        """Change the nodes behind a load balancer."""
        ...

    def delete_balancer(self, cluster: str, service: Obj) -> Refused | None:
        """Delete the load balancer of a service, if there is one."""
        ...

    def routes(self, cluster: str) -> Sequence[Route] | Refused:
        """The routes of a cluster."""
        ...

    def create_route(self, cluster: str, hint: str, node: str, cidr: str) -> Refused | None:
        """Create a route.  hint: a part of its name"""
        ...

    def delete_route(self, cluster: str, route: Route) -> Refused | None:
        """Delete a route."""
        ...
