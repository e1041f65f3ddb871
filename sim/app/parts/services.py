"""Where a Service of the cluster is reached: at its pods, or at an address outside.

Turns a reference to a Service into a `Location`, as an API server resolves it for webhooks and for
aggregated APIs.  A Service of type ExternalName, and
one for which the user gave an address (`orrery serve --service-address`), are reached outside while
the cluster is served.

Mirrors  kubernetes v1.25 apiserver pkg/util/proxy/proxy.go (ResolveCluster, findServicePort).
"""

from __future__ import annotations

from typing import NamedTuple

from actors.storage import MemoryStore
from sim.api.dialing import refused
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.kernel import Kernel

# The setting of `Outside` with the addresses of Services, by "namespace/name".
ADDRESSES = "addresses"


class Location(NamedTuple):
    """Where a Service is reached.

    host, port: of connections; for messages, if nothing is reached
    is_outside: True for a server outside
    failure: why nothing is reached, "" if something is
    """

    host: str
    port: int
    is_outside: bool = False
    failure: str = ""


class Services:
    """The Services of one cluster."""

    def __init__(self, kernel: Kernel, scheme: Scheme, store: MemoryStore) -> None:
        self._kernel, self._scheme, self._store = kernel, scheme, store

    def locate(self, namespace: str, name: str, port: int) -> Location:
        """Where a Service is reached now."""
        service = self._look("services", namespace, name)
        if service is None:
            return Location(name, port, failure=f'service "{name}" not found')
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            return Location(spec.get("externalName") or name, port, is_outside=True)
        host = spec.get("clusterIP") or name
        if all(each["port"] != port for each in spec.get("ports") or ()):
            return Location(host, port, failure=f'no service port {port} found for service "{name}"')
        address = self.address(namespace, name)
        if address is not None:
            return Location(*address, is_outside=True)
        if not self.ready(namespace, name):
            return Location(host, port, failure=refused(host, port))
        return Location(host, port)

    def ready(self, namespace: str, name: str) -> list[str]:
        """The addresses of the ready endpoints of a Service."""
        return [each["ip"] for each in self._addresses(namespace, name)]

    def machines(self, namespace: str, name: str) -> list[str]:
        """The node of each ready endpoint of a Service, "" for one without a node."""
        return [each.get("nodeName", "") for each in self._addresses(namespace, name)]

    def _addresses(self, namespace: str, name: str) -> list[Obj]:
        endpoints = self._look("endpoints", namespace, name) or {}
        return [each for subset in endpoints.get("subsets") or () for each in subset.get("addresses") or ()]

    def behind(self, namespace: str, name: str, port: int) -> list[tuple[str, int]]:
        """The addresses of the ready endpoints of a Service's port."""
        spec = (self._look("services", namespace, name) or {}).get("spec") or {}
        called = next(
            (each.get("name") or "" for each in spec.get("ports") or () if each["port"] == port), None
        )
        endpoints = self._look("endpoints", namespace, name) or {}
        return [
            (address["ip"], offered["port"])
            for subset in endpoints.get("subsets") or ()
            for offered in subset.get("ports") or ()
            if (offered.get("name") or "") == called
            for address in subset.get("addresses") or ()
        ]

    def address(self, namespace: str, name: str) -> tuple[str, int] | None:
        """The address that the user gave for a Service."""
        result = self._kernel.outside.settings.get(ADDRESSES, {}).get(f"{namespace}/{name}")
        return None if result is None else (result[0], result[1])

    def _look(self, plural: str, namespace: str, name: str) -> Obj | None:
        item = self._store.get(self._scheme.key(plural, namespace, name))
        return None if item is None else item.obj
