"""Services by their addresses and node ports, and EndpointSlices by their Service.

Turns the commits of both resources into what one packet needs, without a pass over all objects.

Holds: it has what the storage holds at each instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from actors.node.programs.network.services import addresses_of, node_ports_of
from actors.storage import MemoryStore
from sim.api.store import Change, Item
from sim.api.types import Obj

Name = tuple[str, str]


class ServiceIndex:
    """The index of one store."""

    def __init__(self, store: MemoryStore, services: str, slices: str, label: str) -> None:
        """services, slices: prefixes of the keys; label: names the Service of a slice"""
        self._label = label
        self._services: dict[str | int, dict[str, Obj]] = {}  # by address and by node port
        self._slices: dict[Name, dict[str, Obj]] = {}
        self._follow(store, services, self._add_service, self._drop_service)
        self._follow(store, slices, self._add_slice, self._drop_slice)

    def _follow(
        self, store: MemoryStore, prefix: str, add: Callable[[Item], None], drop: Callable[[Item], None]
    ) -> None:
        """Take over what a resource has, and its changes from now on."""

        def changed(change: Change) -> None:
            if change.prev is not None:
                drop(change.prev)
            if not change.deleted:
                add(change.item)

        bucket = store.bucket(prefix)
        for key in sorted(bucket.items):
            add(bucket.items[key])
        store.subscribe(prefix, changed)

    def services(self, host: str, port: int, *, node_address: bool) -> Sequence[Obj]:
        """The Services that may have an address, or a node port, in the order of their names."""
        found = dict(self._services.get(host, {}))
        if node_address:
            found |= self._services.get(port, {})
        return [found[key] for key in sorted(found)]

    def slices(self, service: Obj) -> Sequence[Obj]:
        """The EndpointSlices of a Service, in the order of their names."""
        meta = service["metadata"]
        found = self._slices.get((meta["namespace"], meta["name"]), {})
        return [found[key] for key in sorted(found)]

    # --- changes ----------------------------------------------------------------------------------

    def _places(self, item: Item) -> Iterator[str | int]:
        yield from addresses_of(item.obj)
        yield from node_ports_of(item.obj)

    def _add_service(self, item: Item) -> None:
        for place in self._places(item):
            self._services.setdefault(place, {})[item.key] = item.obj

    def _drop_service(self, item: Item) -> None:
        for place in self._places(item):
            held = self._services.get(place, {})
            held.pop(item.key, None)
            if not held:
                self._services.pop(place, None)

    def _name(self, item: Item) -> Name | None:
        meta = item.obj["metadata"]
        name = (meta.get("labels") or {}).get(self._label)
        return None if name is None else (meta["namespace"], name)

    def _add_slice(self, item: Item) -> None:
        name = self._name(item)
        if name is not None:
            self._slices.setdefault(name, {})[item.key] = item.obj

    def _drop_slice(self, item: Item) -> None:
        name = self._name(item)
        if name is not None:
            held = self._slices.get(name, {})
            held.pop(item.key, None)
            if not held:
                self._slices.pop(name, None)
