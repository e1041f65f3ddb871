"""What the network between pods reads of a cluster.

Turns the machines and the stored objects at an instant into the answers that `Fabric` asks for.

Holds: nothing is read, and the network's code is not imported, before a program needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from ipaddress import ip_address, ip_network
from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.node.heartbeat.node_status import host_addresses
from sim.kernel import Kernel, OutsideAnswer, OutsideRequest

if TYPE_CHECKING:
    from actors.node.node import Node
    from actors.node.programs.network.fabric import Fabric, Wakes
    from actors.node.programs.network.forwarded import Ask
    from actors.node.programs.network.http import Request, Response
    from actors.node.programs.network.policies import Party
    from actors.node.programs.network.sockets import Address
    from actors.node.proxy.process import Written
    from actors.node.runtime.containers import PodRuntime
    from actors.storage import MemoryStore
    from sim.api.scheme.scheme import Scheme
    from sim.api.store import Item
    from sim.api.types import Obj
    from sim.app.dialling.policies import Enforcement
    from sim.app.dialling.service_index import ServiceIndex
    from sim.ident import Names
    from sim.options.node.agent import NodeAgentOptions
    from sim.scenario.plan.plan import ForwardPlan


class PodNetwork:
    """The network between the pods of a cluster, seen from its objects and machines.

    nodes, agents: the nodes and the options of their agents
    forwards: image -> the real server behind its containers
    enforces: True if NetworkPolicies have an effect
    written: the rules of the nodes that have a proxy
    """

    def __init__(
        self,
        kernel: Kernel,
        names: Names,
        scheme: Scheme,
        store: MemoryStore,
        nodes: Mapping[str, Node],
        agents: Mapping[str, NodeAgentOptions],
        forwards: Mapping[str, ForwardPlan] = MappingProxyType({}),
        *,
        enforces: bool = False,
    ) -> None:
        self.names = names
        self._kernel, self._scheme, self._store = kernel, scheme, store
        self._nodes, self._agents, self._forwards = nodes, agents, forwards
        self._enforces = enforces
        self.written: Mapping[str, Written] = MappingProxyType({})
        self._fabric: Fabric | None = None
        self._homes: dict[str, str] = {}

    def fabric(self) -> Fabric:
        """The network; made at the first call."""
        if self._fabric is None:
            from actors.node.programs.network.fabric import Fabric

            domains = [options.cluster_domain for options in self._agents.values() if options.cluster_domain]
            self._fabric = Fabric(self._kernel, self, domains[0] if domains else "cluster.local")
        return self._fabric

    # --- objects ----------------------------------------------------------------------------------

    def _items(self, plural: str) -> list[Item]:
        bucket = self._store.bucket(self._scheme.resource(plural).prefix)
        return [bucket.items[key] for key in sorted(bucket.items)]

    def _all(self, plural: str) -> list[Obj]:
        return [item.obj for item in self._items(plural)]

    def _one(self, plural: str, namespace: str, name: str) -> Obj | None:
        item = self._store.get(self._scheme.key(plural, namespace, name))
        return None if item is None else item.obj

    def services(self) -> Sequence[Obj]:
        """See `Cluster`."""
        return self._all("services")

    @cached_property
    def _index(self) -> ServiceIndex:
        from sim.app.dialling.service_index import ServiceIndex

        services, slices = (self._scheme.resource(plural).prefix for plural in ("services", "endpointslices"))
        return ServiceIndex(self._store, services, slices, self.names.label_service_name)

    def services_at(self, host: str, port: int, *, node_address: bool) -> Sequence[Obj]:
        """See `Cluster`."""
        return self._index.services(host, port, node_address=node_address)

    def service(self, namespace: str, name: str) -> Obj | None:
        """See `Cluster`."""
        return self._one("services", namespace, name)

    def slices(self, service: Obj, node: str = "") -> Sequence[Obj]:
        """See `Cluster`."""
        written = self.written.get(node)
        if written is None:
            return self._index.slices(service)
        meta = service["metadata"]
        return () if written.rules is None else written.rules.slices_of((meta["namespace"], meta["name"]))

    def has_namespace(self, name: str) -> bool:
        """See `Cluster`."""
        return self._one("namespaces", "", name) is not None

    def zone(self, node: str) -> str:
        """See `Cluster`."""
        result = self._one("nodes", "", node)
        labels = (result or {}).get("metadata", {}).get("labels") or {}
        return str(labels.get(self.names.label_zone) or "")

    def is_pod_range(self, host: str) -> bool:
        """See `Cluster`."""
        ranges = [(node.get("spec") or {}).get("podCIDR") for node in self._all("nodes")]
        return any(ip_address(host) in ip_network(one, strict=False) for one in ranges if one)

    @cached_property
    def _enforcement(self) -> Enforcement | None:
        if not self._enforces:
            return None
        from sim.app.dialling.policies import Enforcement

        def labels(namespace: str) -> Mapping[str, str]:
            result = self._one("namespaces", "", namespace) or {"metadata": {}}
            return result["metadata"].get("labels") or {}

        return Enforcement(self._kernel, partial(self._items, "networkpolicies"), self._party, labels)

    def passes(self, direction: str, source: str, target: Address, protocol: str) -> bool:
        """See `Cluster`."""
        current = self._enforcement
        return current is None or current.passes(direction, source, target, protocol)

    def _party(self, host: str) -> Party:
        """What policies see of an address."""
        from actors.node.programs.network.policies import Party
        from sim.app.dialling.policies import dns_pod

        if self.serves_names(host):
            return Party(host, "", dns_pod(self.names.system_namespace))
        node = self._nodes.get(self.node_of(host))
        if node is None:
            return Party(host)
        is_node = host in host_addresses(node.machine, self._agents[node.name])
        pod = None if is_node else self._pod(node, host)
        result = None if pod is None else self._one("pods", *pod.key.split("/"))
        return Party(host, node.name, result)

    # --- machines ---------------------------------------------------------------------------------

    def node_of(self, host: str) -> str:
        """See `Cluster`."""
        home = self._homes.get(host)
        if home is not None and home in self._nodes and self._has(self._nodes[home], host):
            return home
        for name, node in self._nodes.items():
            if self._has(node, host):
                self._homes[host] = name
                return name
        return ""

    def _has(self, node: Node, host: str) -> bool:
        return (
            host in host_addresses(node.machine, self._agents[node.name]) or self._pod(node, host) is not None
        )

    def _pod(self, node: Node, host: str) -> PodRuntime | None:
        return next((pod for pod in node.machine.pods.values() if pod.ready and pod.ip == host), None)

    def has_programs(self, host: str) -> bool:
        """True if a simulated program of the pod with an address listens."""
        result = None if self._fabric is None else self._fabric.networks.get(host)
        return result is not None and bool(result.ports) and bool(self.node_of(host))

    def node_address(self, node: str) -> str:
        """See `Cluster`."""
        return host_addresses(self._nodes[node].machine, self._agents[node])[0]

    def is_up(self, node: str) -> bool:
        """See `Cluster`."""
        return node not in self._nodes or self._nodes[node].machine.powered

    def serves_names(self, host: str) -> bool:
        """See `Cluster`."""
        return any(host in options.cluster_dns for options in self._agents.values())

    def forward(self, host: str) -> Ask | None:
        """See `Cluster`."""
        address = self.real_address(host)
        return None if address is None else partial(self._ask_outside, address)

    def stands_in(self, host: str, port: int) -> bool:
        """True if what answers at a pod's port is not simulated, or no machine has the address."""
        from actors.node.programs.network.fabric import Wakes

        if not self.node_of(host):
            return True
        result = self.fabric().networks.get(host)
        listens = result is not None and result.listener(port) is not None
        return not listens and self.wake(host, port) is Wakes.ANSWERS

    def real_address(self, host: str) -> str | None:
        """HOST:PORT of the real server behind a pod; None without one.

        While the cluster is served, a running container of a pod may be real.
        """
        if not self._forwards or not self._kernel.outside.is_open:
            return None
        node = self._nodes.get(self.node_of(host))
        pod = None if node is None else self._pod(node, host)
        if node is None or pod is None or node.machine.agent is None:
            return None
        worker = node.machine.agent.workers.get(pod.uid)
        for spec in worker.pod["spec"]["containers"] if worker is not None else ():
            result = self._forwards.get(spec.get("image") or "")
            container = pod.newest(spec["name"])
            if result is not None and container is not None and container.running(self._kernel.now_us):
                return result.address
        return None

    def _ask_outside(
        self, address: str, request: Request, respond: Callable[[Response | None], None]
    ) -> None:
        from actors.node.programs.network.forwarded import passed
        from actors.node.programs.network.http import Response

        host, _, port = address.rpartition(":")
        named = next((value for name, value in request.headers if name.lower() == "host"), address)
        headers = tuple(pair for pair in passed(request.headers) if pair[0].lower() != "host")
        sent = OutsideRequest(
            request.method,
            f"http://{named}{request.target}",
            headers,
            request.body,
            (host.strip("[]"), int(port)),
        )

        def arrived(answer: OutsideAnswer) -> None:
            entry = None if answer.failure else Response(answer.code, answer.body, answer.headers)
            respond(entry)

        self._kernel.outside.call(sent, arrived)

    def wake(self, host: str, port: int) -> Wakes:
        """See `Cluster`."""
        from actors.node.pods.launch import wake
        from actors.node.programs.network.fabric import Wakes

        node = self._nodes.get(self.node_of(host))
        pod = None if node is None else self._pod(node, host)
        if node is None or pod is None or node.machine.agent is None:
            return Wakes.NOTHING
        worker = node.machine.agent.workers.get(pod.uid)
        return Wakes.NOTHING if worker is None else wake(worker, port)
