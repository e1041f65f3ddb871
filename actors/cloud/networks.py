"""What the simulated cloud keeps besides instances: load balancers of services, and routes.

Holds: a load balancer keeps its address as long as it exists; addresses are handed out in order
       and not twice; a quota limits how many load balancers there may be, and takes none away.

Mirrors  the behaviour that kubernetes v1.25 staging/src/k8s.io/cloud-provider/cloud.go requires of
         LoadBalancer and Routes (DefaultLoadBalancerName).
Differs  load balancers carry no traffic.
"""

from __future__ import annotations

from ipaddress import IPv4Network

from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.options.cloud import ADDRESSES

NAME_MAX = 32


class CloudError(Exception):
    """The text of the cloud's answer to a call that it refuses."""


@dataclass(slots=True)
class LoadBalancer:
    """One load balancer.  owner: the cluster; ports: as (protocol, port)"""

    owner: str
    address: str
    ports: tuple[tuple[str, int], ...]
    nodes: tuple[str, ...]


def balancer_name(service: Obj) -> str:
    """The name of a service's load balancer."""
    return ("a" + str(service["metadata"]["uid"]).replace("-", ""))[:NAME_MAX]


class Networks:
    """Load balancers by (cluster, name), and routes by name."""

    def __init__(self, addresses: str = ADDRESSES) -> None:
        self._addresses = IPv4Network(addresses)
        self.balancers: dict[tuple[str, str], LoadBalancer] = {}
        self.routes: dict[str, tuple[str, str, str]] = {}  # name -> cluster, node, CIDR
        self._handed_out = 0

    def ensure(self, cluster: str, service: Obj, nodes: tuple[str, ...], quota: int | None) -> str:
        """Make or change the load balancer of a service; its address.  Raises CloudError."""
        key = cluster, balancer_name(service)
        spec = service["spec"]
        ports = tuple((port.get("protocol", "TCP"), port["port"]) for port in spec.get("ports") or ())
        known = self.balancers.get(key)
        if known is not None:
            known.ports, known.nodes = ports, nodes
            return known.address
        if quota is not None and len(self.balancers) >= quota:
            raise CloudError(f"quota of load balancers exceeded: limit {quota}")
        address = spec.get("loadBalancerIP") or self._next_address()
        if any(one.address == address for one in self.balancers.values()):
            raise CloudError(f"address {address} is in use")
        self.balancers[key] = LoadBalancer(cluster, address, ports, nodes)
        return str(address)

    def _next_address(self) -> str:
        if self._handed_out + 2 >= self._addresses.num_addresses:
            raise CloudError(f"no address is left in {self._addresses}")
        self._handed_out += 1
        return str(self._addresses[self._handed_out])

    def update(self, cluster: str, service: Obj, nodes: tuple[str, ...]) -> None:
        """Change the nodes behind a load balancer.  Raises CloudError."""
        known = self.balancers.get((cluster, balancer_name(service)))
        if known is None:
            raise CloudError("load balancer not found")
        known.nodes = nodes

    def delete(self, cluster: str, service: Obj) -> None:
        """Delete the load balancer of a service, if there is one."""
        self.balancers.pop((cluster, balancer_name(service)), None)

    def create_route(self, cluster: str, hint: str, node: str, cidr: str) -> None:
        """Create a route, by a name that differs for each CIDR of a node."""
        family = "-v6" if ":" in cidr else ""
        self.routes[f"{cluster}-{hint}{family}"] = cluster, node, cidr
