"""The rules of a node's proxy: what it has learned of Services, and what it has written last.

Turns Services and EndpointSlices as they arrive into a table of rules, and a table and a Service
into the endpoints that a client on the node may reach. A table is a value: one that is written
later does not change it.

Mirrors  pkg/proxy/endpointslicecache.go, service.go (v1.25): an update that changes nothing of what
         rules are made of asks for no write.
Differs  the rules of all ports of a Service are found by the Service, and not by its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from actors.node.programs.network.services import Endpoint, Route, cluster_ips, is_proxied, route
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names

ServiceKey = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class Rules:
    """A table of rules.

    services: by namespace and name; slices: those of each Service
    endpoints: the number of addresses in all slices, by which the cost of writing is computed
    """

    services: Mapping[ServiceKey, Obj] = field(default_factory=dict)
    slices: Mapping[ServiceKey, Mapping[str, Obj]] = field(default_factory=dict)
    endpoints: int = 0

    def slices_of(self, key: ServiceKey) -> tuple[Obj, ...]:
        """The EndpointSlices of a Service."""
        return tuple(self.slices.get(key, {}).values())

    def to(self, key: ServiceKey, port: str, names: Names, *, node: str, zone: str) -> Route | None:
        """Where a connection from the node to a Service's address goes; None without a rule for it.

        port: its name or number, "" for the first
        """
        service = self.services.get(key)
        if service is None or (offered := port_of(service, port)) is None:
            return None
        slices = self.slices_of(key)
        host, protocol = cluster_ips(service)[0], offered.get("protocol") or "TCP"
        return route(
            [service], lambda _: slices, host, int(offered["port"]), protocol, names, node=node, zone=zone
        )

    def from_outside(self, key: ServiceKey, port: str, names: Names, *, node: str) -> Route | None:
        """Where a connection from outside to a port of the node goes; None without a node port."""
        service = self.services.get(key)
        if service is None or (offered := port_of(service, port)) is None or not offered.get("nodePort"):
            return None
        slices = self.slices_of(key)
        number, protocol = int(offered["nodePort"]), offered.get("protocol") or "TCP"
        way = route([service], lambda _: slices, "", number, protocol, names, node=node, node_address=True)
        if way is None or service["spec"].get("externalTrafficPolicy") != "Local":
            return way
        near: tuple[Endpoint, ...] = tuple(one for one in way.endpoints if one.node == node)
        return Route(way.name, near, dropped=bool(way.endpoints) and not near, affinity_s=way.affinity_s)


def port_of(service: Obj, port: str) -> Obj | None:
    """A port of a Service by its name or number; the first for ""."""
    ports: list[Obj] = service["spec"].get("ports") or []
    if not port:
        return ports[0] if ports else None
    return next((one for one in ports if port in (one.get("name"), str(one["port"]))), None)


class Learned:
    """What a proxy has learned from its watches."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._services: dict[ServiceKey, Obj] = {}
        self._slices: dict[ServiceKey, dict[str, Obj]] = {}
        self._endpoints = 0

    def service(self, obj: Obj, *, deleted: bool = False) -> bool:
        """Take a Service; True if its rules have changed."""
        meta = obj["metadata"]
        key = meta["namespace"], meta["name"]
        before = self._services.pop(key, None)
        if deleted or not is_proxied(obj, self._names):
            return before is not None
        self._services[key] = obj
        return before is None or _of_service(before) != _of_service(obj)

    def slice(self, obj: Obj, *, deleted: bool = False) -> bool:
        """Take an EndpointSlice; True if the rules of its Service have changed."""
        meta = obj["metadata"]
        service = (meta.get("labels") or {}).get(self._names.label_service_name, "")
        slices = self._slices.setdefault((meta["namespace"], service), {})
        before = slices.pop(meta["name"], None)
        self._endpoints -= _count(before)
        if deleted:
            return before is not None
        slices[meta["name"]] = obj
        self._endpoints += _count(obj)
        return before is None or _of_slice(before) != _of_slice(obj)

    def rules(self) -> Rules:
        """The rules of what has been learned so far."""
        slices = {key: dict(slices) for key, slices in self._slices.items() if slices}
        return Rules(dict(self._services), slices, self._endpoints)


def _of_service(obj: Obj) -> tuple[object, object, object]:
    return obj["spec"], obj.get("status"), obj["metadata"].get("annotations")


def _of_slice(obj: Obj) -> tuple[object, object, object]:
    return obj.get("addressType"), obj.get("ports"), obj.get("endpoints")


def _count(obj: Obj | None) -> int:
    return 0 if obj is None else len(obj.get("endpoints") or ()) * len(obj.get("ports") or ())
