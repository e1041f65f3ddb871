"""The cloud in which a cluster's nodes are instances.

Turns the faults of nodes and of the cloud into the answers of the cloud.

Holds: a machine that lost its power without an action of the cloud runs, as far as the cloud knows;
    one that was shut down from inside is stopped; a name that is no node of the plan has no
    instance; load balancers and routes outlive the processes that had them made.

Mirrors  the answers of v1.25's providers (staging/src/k8s.io/legacy-cloud-providers):
         InstanceExistsByProviderID, InstanceShutdownByProviderID; by the name of the node if it has
         no provider id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from actors.cloud.networks import CloudError, Networks, balancer_name
from actors.controllers.shared.cloud import (
    INSTANCES,
    LOAD_BALANCERS,
    ROUTES,
    Balancer,
    Instance,
    Refused,
    Route,
    State,
)
from sim.faults.shared.processes import DELETED, STOPPED
from sim.faults.surroundings.cloud import CALL, OUTAGE, QUOTA
from sim.faults.surroundings.cloud import CLOUD as TARGET
from sim.options.cloud import CLOUD, CloudSettings, provider_id

if TYPE_CHECKING:
    from actors.node.node import Node
    from sim.api.types import Obj
    from sim.faults.shared.ledger import Ledger

T = TypeVar("T")
SILENT = "the cloud does not answer"


class SimulatedCloud:
    """The cloud of one cluster."""

    def __init__(self, faults: Ledger, nodes: Mapping[str, Node], settings: CloudSettings) -> None:
        self._faults = faults
        self._nodes = nodes
        self._settings = settings
        self.networks = Networks(settings.addresses)

    def call_us(self, service: str) -> int:
        """The time of a call."""
        values = self._faults.values(TARGET, CALL)
        added_us = sum(int(by_us) for services, by_us in values if service in services)
        return self._settings.call_us + added_us

    def _outage(self, service: str) -> int:
        """The trace record of an outage of a service; 0 if it answers."""
        for services in self._faults.values(TARGET, OUTAGE):
            if service in services:
                return self._faults.record(TARGET, OUTAGE, services)
        return 0

    def _answer(self, service: str, work: Callable[[], T]) -> T | Refused:
        cause = self._outage(service)
        if cause:
            return Refused(SILENT, cause)
        try:
            return work()
        except CloudError as problem:
            limits = self._faults.values(TARGET, QUOTA)
            return Refused(str(problem), self._faults.record(TARGET, QUOTA, limits[0]) if limits else 0)

    # --- instances ---

    def instance(self, node: Obj) -> Instance | str:
        """The instance of a node, or the error that the cloud answers."""
        faults, name = self._faults, node["metadata"]["name"]
        if self._outage(INSTANCES):
            return SILENT
        current = node["spec"].get("providerID") or provider_id(name)
        if not current.startswith(f"{CLOUD}://"):
            return f"{current} is no instance of {CLOUD}"
        name = current.removeprefix(f"{CLOUD}://")
        one = self._nodes.get(name)
        if one is None:
            return Instance(State.GONE)
        if cause := faults.record(name, "instance", DELETED):
            return Instance(State.GONE, cause)
        if cause := faults.record(name, "instance", STOPPED):
            return Instance(State.STOPPED, cause)
        if not one.machine.powered and (cause := faults.record(name, "shutdown", True)):
            return Instance(State.STOPPED, cause)
        return Instance(State.RUNNING)

    def pod_ranges(self, node: Obj) -> Sequence[str] | str:
        """The range of pod addresses that an instance has in the cloud's network."""
        result = self.instance(node)
        if isinstance(result, str):
            return result
        name = (node["spec"].get("providerID") or provider_id(node["metadata"]["name"])).removeprefix(
            f"{CLOUD}://"
        )
        one = self._nodes.get(name)
        return f"{name} is no instance of {CLOUD}" if one is None else (one.machine.spec.pod_cidr or "",)

    # --- load balancers ---

    def balancer(self, cluster: str, service: Obj) -> Balancer | Refused | None:
        """The load balancer of a service; None if there is none."""

        def find() -> Balancer | None:
            entry = self.networks.balancers.get((cluster, balancer_name(service)))
            return None if entry is None else Balancer((entry.address,))

        return self._answer(LOAD_BALANCERS, find)

    def ensure_balancer(self, cluster: str, service: Obj, nodes: Sequence[str]) -> Balancer | Refused:
        """Create the load balancer of a service, or change it to what the service is now."""
        own = () if self._settings.quota is None else (self._settings.quota,)
        quota = min((*own, *self._faults.values(TARGET, QUOTA)), default=None)

        def ensure() -> Balancer:
            return Balancer((self.networks.ensure(cluster, service, tuple(nodes), quota),))

        return self._answer(LOAD_BALANCERS, ensure)

    def update_balancer(self, cluster: str, service: Obj, nodes: Sequence[str]) -> Refused | None:
        """Change the nodes behind a load balancer."""
        return self._answer(LOAD_BALANCERS, lambda: self.networks.update(cluster, service, tuple(nodes)))

    def delete_balancer(self, cluster: str, service: Obj) -> Refused | None:
        """Delete the load balancer of a service, if there is one."""
        return self._answer(LOAD_BALANCERS, lambda: self.networks.delete(cluster, service))

    # --- routes ---

    def routes(self, cluster: str) -> Sequence[Route] | Refused:
        """The routes of a cluster."""

        def find() -> list[Route]:
            result = self.networks.routes.items()
            return [Route(name, node, cidr) for name, (owner, node, cidr) in result if owner == cluster]

        return self._answer(ROUTES, find)

    def create_route(self, cluster: str, hint: str, node: str, cidr: str) -> Refused | None:
        """Create a route."""
        return self._answer(ROUTES, lambda: self.networks.create_route(cluster, hint, node, cidr))

    def delete_route(self, cluster: str, route: Route) -> Refused | None:
        """Delete a route."""

        def delete() -> None:
            self.networks.routes.pop(route.name, None)

        return self._answer(ROUTES, delete)
