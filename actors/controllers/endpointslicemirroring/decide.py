"""Decisions of the EndpointSlice mirroring controller.  Pure.

Turns an Endpoints object and the slices that mirror it into slices to create, update and delete.

Holds: there is one slice for each set of ports and address family, of at most `limit` addresses,
       ready ones first.

Mirrors  kubernetes v1.25
         pkg/controller/endpointslicemirroring/{reconciler.go,reconciler_helpers.go,utils.go},
         pkg/api/v1/endpoints/util.go (RepackSubsets).
Differs  addresses are in the order of IP and pod, slices are processed by name (upstream: map
         order); addresses that are no IPs, for which upstream records an event InvalidIPAddress,
         are rejected by the API server here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from actors.controllers.endpointslice.decide import Changes, identity, normal_ports, ports_key
from actors.controllers.shared.endpoint_pods import is_ipv6
from sim.api.types import Obj

if TYPE_CHECKING:
    from sim.ident import Names

TRUE = "true"


class Wanted(NamedTuple):
    """The properties of the slices of an Endpoints object.

    labels, annotations: copied from the Endpoints object
    own_labels: labels that the controller sets itself
    limit: most addresses in a slice
    """

    endpoints: Obj
    ref: Obj
    labels: dict[str, str]
    annotations: dict[str, str]
    own_labels: dict[str, str]
    limit: int

    def slice_of(self, family: str, ports: list[Obj], endpoints: list[Obj], name: str) -> Obj:
        """A slice.

        name: name of the slice to replace, "" to let the server generate one
        """
        meta = self.endpoints["metadata"]
        metadata: Obj = {"name": name} if name else {"generateName": f"{meta['name']}-"}
        metadata |= {"namespace": meta["namespace"], "labels": {**self.labels, **self.own_labels}}
        if self.annotations:
            metadata["annotations"] = self.annotations
        metadata["ownerReferences"] = [self.ref]
        return {
            "kind": "EndpointSlice",
            "metadata": metadata,
            "addressType": family,
            "endpoints": endpoints,
            "ports": ports or None,
        }

    def is_like(self, piece: Obj) -> bool:
        """True if a slice has the present labels and annotations."""
        meta = piece["metadata"]
        labels = {k: v for k, v in (meta.get("labels") or {}).items() if k not in self.own_labels}
        return labels == self.labels and (meta.get("annotations") or {}) == self.annotations


def is_mirrored(endpoints: Obj, names: Names) -> bool:
    """True unless the object is labelled to be skipped or is the record of an election."""
    meta = endpoints["metadata"]
    skipped = (meta.get("labels") or {}).get(names.label_skip_mirror) == TRUE
    return not skipped and names.annotation_leader not in (meta.get("annotations") or {})


def wanted_of(endpoints: Obj, ref: Obj, names: Names, limit: int) -> Wanted:
    """The properties of the slices of an Endpoints object."""
    meta = endpoints["metadata"]
    excluded = (names.annotation_last_change_trigger_time, names.annotation_last_applied)
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in excluded}
    own = {
        names.label_service_name: meta["name"],
        names.label_managed_by: names.managed_by_mirroring_controller,
    }
    return Wanted(endpoints, ref, dict(meta.get("labels") or {}), annotations, own, limit)


Address = tuple[str, str]  # (IP, uid of the target)
Readiness = dict[Address, bool]
# (ports, [(address, True if it is ready)])
Subset = tuple[list[Obj], list[tuple[Obj, bool]]]


def repacked(subsets: Sequence[Obj]) -> list[Subset]:
    """Merge subsets with equal addresses.

    An address that is both ready and not ready at a port is not ready there.
    """
    addresses: dict[Address, Obj] = {}
    by_port: dict[str, tuple[Obj | None, Readiness]] = {}
    for subset in subsets:
        for port in subset.get("ports") or (None,):
            _, readiness = by_port.setdefault(repr(port), (port, {}))
            for kind in ("addresses", "notReadyAddresses"):
                for address in subset.get(kind) or ():
                    key = address["ip"], (address.get("targetRef") or {}).get("uid", "")
                    addresses.setdefault(key, address)
                    readiness[key] = kind == "addresses" and readiness.get(key, True)
    together: dict[tuple[tuple[Address, bool], ...], list[Obj]] = {}
    for port, readiness in by_port.values():
        ports = together.setdefault(tuple(sorted(readiness.items())), [])
        if port is not None:
            ports.append(port)
    return [
        (ports, sorted(((addresses[key], ready) for key, ready in members), key=lambda member: not member[1]))
        for members, ports in together.items()
    ]


def endpoint_of(address: Obj, ready: bool) -> Obj:
    """The endpoint of an address."""
    endpoint: Obj = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
    for part in ("hostname", "targetRef", "nodeName"):
        if address.get(part):
            endpoint[part] = address[part]
    return endpoint


Pool = dict[tuple[tuple[str, ...], str], Obj]
Groups = dict[tuple[str, str], tuple[list[Obj], Pool]]


def groups_of(endpoints: Obj, limit: int) -> tuple[Groups, int]:
    """(endpoints by ports and family, number of skipped addresses)."""
    groups: Groups = {}
    skipped = 0
    for ports, members in repacked(endpoints.get("subsets") or ()):
        made = normal_ports({"ports": ports})
        skipped += max(0, len(members) - limit)
        for address, ready in members[:limit]:
            family = "IPv6" if is_ipv6(address["ip"]) else "IPv4"
            endpoint = endpoint_of(address, ready)
            groups.setdefault((ports_key(made), family), (made, {}))[1][identity(endpoint)] = endpoint
    return groups, skipped


def reconcile(wanted: Wanted, existing: Sequence[Obj]) -> tuple[Changes, int]:
    """(changes, number of skipped addresses)."""
    groups, skipped = groups_of(wanted.endpoints, wanted.limit)
    changes = Changes()
    there: dict[tuple[str, str], list[Obj]] = {}
    for piece in existing:
        there.setdefault((ports_key(normal_ports(piece)), piece["addressType"]), []).append(piece)
    for key, (ports, pool) in groups.items():
        pieces = there.pop(key, [])
        first = pieces[0] if pieces else None
        changes.delete += pieces[1:]
        if first is not None and _shows(first, pool) and wanted.is_like(first):
            continue
        name = "" if first is None else first["metadata"]["name"]
        made = wanted.slice_of(key[1], ports, [*pool.values()][: wanted.limit], name)
        (changes.update if name else changes.create).append(made)
    for pieces in there.values():
        changes.delete += pieces
    _recycle(changes)
    return changes, skipped


def _shows(piece: Obj, pool: Pool) -> bool:
    """True if a slice has exactly these endpoints in their present state."""
    shown = {identity(endpoint): endpoint for endpoint in piece.get("endpoints") or ()}
    return shown.keys() == pool.keys() and all(
        _state(endpoint) == _state(shown[key]) for key, endpoint in pool.items()
    )


def _state(endpoint: Obj) -> tuple[object, ...]:
    """The parts of an endpoint that can change while it is the same endpoint."""
    return (
        (endpoint.get("conditions") or {}).get("ready"),
        endpoint.get("nodeName"),
        endpoint.get("targetRef"),
    )


def _recycle(changes: Changes) -> None:
    """Turn a slice to delete into one of its family to create, to save a write."""
    left: list[Obj] = []
    for old in changes.delete:
        made = next((piece for piece in changes.create if piece["addressType"] == old["addressType"]), None)
        if made is None:
            left.append(old)
            continue
        changes.create.remove(made)
        metadata = {k: v for k, v in made["metadata"].items() if k != "generateName"}
        changes.update.append({**made, "metadata": {**metadata, "name": old["metadata"]["name"]}})
    changes.delete = left
