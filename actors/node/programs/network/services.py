"""Where a packet to a virtual address goes: the rules of kube-proxy, as pure functions.

Turns Services, their EndpointSlices and a destination into the endpoints among which the node of
the client chooses, or into a refusal or silence.

Mirrors  pkg/proxy/{endpoints,service,endpointslicecache,topology}.go, iptables/proxier.go (v1.25).
         Without any endpoint a packet is rejected; a local policy without a local one drops it.
         Pods reach external addresses by the cluster's policy. Hints count if all ready endpoints
         have some and one is for the zone.
Differs  source ranges of load balancers are not applied; endpoints that terminate are not used
         (the feature ProxyTerminatingEndpoints is off in v1.25).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names

AFFINITY_S = 10800  # v1.DefaultClientIPServiceAffinitySeconds
LOCAL = "Local"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address behind a Service's port.

    node: the node on which it runs; zones: those that hints name; pod: its name, "" for no pod
    """

    host: str
    port: int
    node: str = ""
    zones: tuple[str, ...] = ()
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """What happens to a packet with a virtual destination.

    name: namespace, name and port's name of the Service
    endpoints: among which one is chosen; without any the packet is rejected, or dropped
    dropped: True if nothing answers
    affinity_s: how long a client keeps its endpoint; 0: each connection chooses again
    masked: True if the endpoint sees the node's address as the client's
    """

    name: tuple[str, str, str]
    endpoints: tuple[Endpoint, ...] = ()
    dropped: bool = False
    affinity_s: int = 0
    masked: bool = False


def route(
    services: Iterable[Obj],
    slices: Callable[[Obj], Sequence[Obj]],
    host: str,
    port: int,
    protocol: str,
    names: Names,
    *,
    node: str = "",
    zone: str = "",
    node_address: bool = False,
) -> Route | None:
    """Where a packet goes; None if its destination is not virtual.

    slices: the EndpointSlices of a Service; node, zone: those of the client
    node_address: True if the destination is the address of a node, which has node ports
    """
    for service in services:
        if not is_proxied(service, names):
            continue
        spec = service["spec"]
        internal = host in cluster_ips(service)
        external = not internal and host in _external_ips(service)
        for offered in spec.get("ports") or ():
            if (offered.get("protocol") or "TCP") != protocol:
                continue
            by_node_port = node_address and bool(offered.get("nodePort")) and offered["nodePort"] == port
            if not by_node_port and not ((internal or external) and offered["port"] == port):
                continue
            return _route(service, offered, slices(service), names, node, zone, internal=internal)
    return None


def _route(
    service: Obj, offered: Obj, slices: Sequence[Obj], names: Names, node: str, zone: str, *, internal: bool
) -> Route:
    spec, meta = service["spec"], service["metadata"]
    name = (meta["namespace"], meta["name"], offered.get("name") or "")
    family = "IPv6" if ":" in (spec.get("clusterIP") or "") else "IPv4"
    ready = endpoints_of(slices, name[2], offered.get("protocol") or "TCP", family)
    affinity_s = 0
    if spec.get("sessionAffinity") == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        affinity_s = int(config.get("timeoutSeconds") or AFFINITY_S)
    usable = _hinted(service, ready, zone, names)
    if internal and spec.get("internalTrafficPolicy") == LOCAL:
        usable = tuple(endpoint for endpoint in ready if endpoint.node == node)
    masked = not internal and spec.get("externalTrafficPolicy") != LOCAL
    return Route(name, usable, dropped=bool(ready) and not usable, affinity_s=affinity_s, masked=masked)


def _hinted(service: Obj, ready: tuple[Endpoint, ...], zone: str, names: Names) -> tuple[Endpoint, ...]:
    """The endpoints for the client's zone, or all of them."""
    wanted = (service["metadata"].get("annotations") or {}).get(names.annotation_topology_hints) in (
        "Auto",
        "auto",
    )
    if not wanted or not zone or not all(endpoint.zones for endpoint in ready):
        return ready
    return tuple(endpoint for endpoint in ready if zone in endpoint.zones) or ready


def endpoints_of(
    slices: Sequence[Obj], port_name: str, protocol: str = "TCP", family: str = "IPv4"
) -> tuple[Endpoint, ...]:
    """The ready endpoints of one port, each address once, in order of their addresses."""
    found: dict[tuple[str, int], Endpoint] = {}
    for one in slices:
        if one.get("addressType", family) != family:
            continue
        for offered in one.get("ports") or ():
            if (offered.get("name") or "") != port_name or (offered.get("protocol") or "TCP") != protocol:
                continue
            for endpoint in one.get("endpoints") or ():
                if not is_ready(endpoint) or not offered.get("port"):
                    continue
                zones = tuple(hint["name"] for hint in (endpoint.get("hints") or {}).get("forZones") or ())
                host, port = endpoint["addresses"][0], int(offered["port"])
                pod = (endpoint.get("targetRef") or {}).get("name", "")
                found[host, port] = Endpoint(host, port, endpoint.get("nodeName") or "", zones, pod)
    return tuple(found[key] for key in sorted(found))


def is_ready(endpoint: Obj) -> bool:
    """True if an endpoint may be used; no condition counts as ready."""
    ready = (endpoint.get("conditions") or {}).get("ready")
    return ready is None or bool(ready)


def is_proxied(service: Obj, names: Names) -> bool:
    """True if kube-proxy serves a Service (pkg/proxy/util: ShouldSkipService, and its selector)."""
    spec, labels = service["spec"], service["metadata"].get("labels") or {}
    if (
        spec.get("type") == "ExternalName"
        or names.label_proxy_name in labels
        or names.label_headless in labels
    ):
        return False
    return (spec.get("clusterIP") or "") not in ("", "None")


def cluster_ips(service: Obj) -> tuple[str, ...]:
    """The virtual addresses of a Service."""
    spec = service["spec"]
    return tuple(spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else ()))


def addresses_of(service: Obj) -> tuple[str, ...]:
    """All addresses that lead to a Service, each once."""
    return tuple(dict.fromkeys((*cluster_ips(service), *_external_ips(service))))


def node_ports_of(service: Obj) -> tuple[int, ...]:
    """The ports of nodes that lead to a Service, each once."""
    ports = (each.get("nodePort") for each in service["spec"].get("ports") or ())
    return tuple(dict.fromkeys(int(port) for port in ports if port))


def _external_ips(service: Obj) -> tuple[str, ...]:
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    balanced = tuple(one["ip"] for one in ingress if one.get("ip"))
    return (*(service["spec"].get("externalIPs") or ()), *balanced)
