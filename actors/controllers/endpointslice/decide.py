"""Decisions of the EndpointSlice controller: pods' endpoints packed into slices.  Pure.

Turns a Service, its pods and its present slices into slices to create, update and delete.

Holds: a slice has one address family, one set of ports and at most `limit` endpoints; an endpoint
       stays in its slice; as few slices as possible are written, and none is emptied only to pack
       better.

Mirrors  kubernetes v1.25 pkg/controller/endpointslice/{reconciler.go,utils.go}.
Differs  endpoints are packed in the order of their pods' arrival, and slices are processed by name
         (upstream: map order).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from actors.controllers.endpointslice.topology_hints import Counts, Shares, hinted, unhinted, without_hints
from actors.controllers.shared.endpoint_pods import (
    belongs,
    find_port,
    host_name,
    is_headless,
    is_ipv6,
    pod_ips,
    publishes_unready,
    target_ref,
    trigger_us,
)
from sim.api.objects import is_deleting, is_ready, key_of
from sim.api.types import Obj
from sim.dataclass import dataclass

if TYPE_CHECKING:
    from sim.ident import Names


class Nodes(NamedTuple):
    """The nodes in the cache.

    epoch: changes when a node is added or deleted or its labels change
    labels_of: returns the labels of a node by name, None for an unknown node
    """

    epoch: int
    labels_of: Callable[[str], Mapping[str, str] | None]


@dataclass(slots=True)
class Changes:
    """Slices to write.

    hinted: zone -> number of endpoints with a hint for it
    """

    create: list[Obj] = field(default_factory=list)
    update: list[Obj] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)
    hinted: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The properties of a Service's slices.

    ref: controller reference to the Service
    trigger: value of the last-change-trigger-time annotation, None to remove it
    limit: most endpoints in a slice
    reserved: keys of labels that the controller sets itself
    """

    service: Obj
    ref: Obj
    labels: dict[str, str]
    trigger: str | None
    trigger_annotation: str
    limit: int
    reserved: tuple[str, ...] = ()

    def owns(self, piece: Obj) -> bool:
        """True if the slice belongs to this Service, not to a former one of the same name."""
        refs = piece["metadata"].get("ownerReferences") or ()
        return any(
            all(ref.get(part) == self.ref[part] for part in ("uid", "kind", "apiVersion")) for ref in refs
        )

    def is_relabelled(self, piece: Obj) -> bool:
        """True if the Service's labels have changed, not counting the reserved ones."""
        labels = piece["metadata"].get("labels") or {}
        return any(
            labels.get(key) != self.labels.get(key)
            for key in {**labels, **self.labels}
            if key not in self.reserved
        )

    def new_slice(self, family: str, ports: list[Obj]) -> Obj:
        """A slice without endpoints."""
        meta = self.service["metadata"]
        return {
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": f"{meta['name']}-",
                "namespace": meta["namespace"],
                "labels": self.labels,
                "ownerReferences": [self.ref],
            },
            "addressType": family,
            "endpoints": None,  # None for empty lists, here and below, as decoded from protobuf
            "ports": ports or None,
        }

    def stamped(self, piece: Obj) -> Obj:
        """The slice with the present labels and the trigger time of this sync."""
        meta = {**piece["metadata"], "labels": self.labels}
        annotations = dict(meta.pop("annotations", None) or {})
        annotations.pop(self.trigger_annotation, None)
        if self.trigger is not None:
            annotations[self.trigger_annotation] = self.trigger
        if annotations:
            meta["annotations"] = annotations
        return {**piece, "metadata": meta}


def slice_labels(service: Obj, names: Names) -> dict[str, str]:
    """The labels of a Service's slices."""
    labels = dict(service["metadata"].get("labels") or {})
    labels.pop(names.label_headless, None)
    if is_headless(service):
        labels[names.label_headless] = ""
    labels[names.label_service_name] = service["metadata"]["name"]
    labels[names.label_managed_by] = names.managed_by_endpointslice_controller
    return labels


def families_of(service: Obj) -> list[str]:
    """The address families of a Service's slices."""
    families = service["spec"].get("ipFamilies")
    if families:
        return list(families)
    cluster_ip = service["spec"].get("clusterIP", "")
    if cluster_ip not in ("", "None"):
        return ["IPv6" if is_ipv6(cluster_ip) else "IPv4"]
    return ["IPv4", "IPv6"]


def ports_of(pod: Obj, service: Obj) -> list[Obj]:
    """The Service's ports as endpoint ports of this pod; a named port that the pod lacks is left
    out.
    """
    ports = []
    for port in service["spec"].get("ports") or ():
        number = find_port(pod, port)
        if number is None:
            continue
        made = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
        if port.get("appProtocol"):
            made["appProtocol"] = port["appProtocol"]
        ports.append(made)
    return ports


def endpoint_of(pod: Obj, service: Obj, addresses: list[str], states: bool = True) -> Obj:
    """The endpoint of a pod without its zone.

    states: True if EndpointSliceTerminatingCondition is on
    """
    deleting, ready = is_deleting(pod), is_ready(pod)
    endpoint: Obj = {
        "addresses": addresses,
        "conditions": {
            "ready": publishes_unready(service) or (ready and not deleting),
            "serving": ready,
            "terminating": deleting,
        },
    }
    if not states:
        endpoint["conditions"] = {"ready": endpoint["conditions"]["ready"]}
    hostname = host_name(pod, service)
    if hostname:
        endpoint["hostname"] = hostname
    endpoint["targetRef"] = target_ref(pod)
    if pod["spec"].get("nodeName"):
        endpoint["nodeName"] = pod["spec"]["nodeName"]
    return endpoint


Identity = tuple[tuple[str, ...], str]
Pool = dict[Identity, Obj]
Groups = dict[str, tuple[list[Obj], Pool]]


def identity(endpoint: Obj) -> Identity:
    """The key by which two endpoints are the same, even if their conditions or pods differ.

    Quirk: so two pods with one address are one endpoint.
    """
    addresses = endpoint["addresses"]
    return tuple(sorted(addresses) if len(addresses) > 1 else addresses), endpoint.get("hostname") or ""


@dataclass(slots=True)
class PodView:
    """A pod's endpoints in a Service, by address family.

    zoned: family -> (node epoch, endpoint with its zone), a memo of `desired_groups`
    """

    name: str
    trigger_us: int
    node: str = ""
    ports_key: str = ""
    ports: list[Obj] = field(default_factory=list)
    endpoints: dict[str, tuple[Identity, Obj]] = field(default_factory=dict)
    zoned: dict[str, tuple[int, Obj]] = field(default_factory=dict)

    def endpoint(self, family: str, labels: Mapping[str, str] | None, zone_label: str) -> Obj:
        """The endpoint of a family with the zone from its node's labels."""
        endpoint = self.endpoints[family][1]
        zone = labels.get(zone_label) if labels else None
        return {**endpoint, "zone": zone} if zone else endpoint


def view_of(pod: Obj, service: Obj, states: bool = True) -> PodView:
    """Compute a pod's endpoints in a Service; `states` as for `endpoint_of`."""
    view = PodView(pod["metadata"]["name"], trigger_us(pod))
    if belongs(pod, states or publishes_unready(service)):
        view.node = pod["spec"].get("nodeName", "")
        view.ports = ports_of(pod, service)
        view.ports_key = ports_key(view.ports)
        for family in ("IPv4", "IPv6"):
            addresses = [ip for ip in pod_ips(pod) if is_ipv6(ip) == (family == "IPv6")]
            if addresses:
                endpoint = endpoint_of(pod, service, addresses, states)
                view.endpoints[family] = (identity(endpoint), endpoint)
    return view


def desired_groups(
    service: Obj, views: Sequence[PodView], family: str, nodes: Nodes, zone_label: str
) -> tuple[Groups, list[str]]:
    """(endpoints by resolved ports, errors for pods on unknown nodes).

    A pod's ports get a group even if the pod has no address of the family or an unknown node.
    """
    groups: Groups = {}
    errors: list[str] = []
    unready = publishes_unready(service)
    for view in views:
        if not view.endpoints:
            continue
        group = groups.get(view.ports_key)
        if group is None:
            group = groups[view.ports_key] = (view.ports, {})
        known = view.zoned.get(family)
        if known is not None and known[0] == nodes.epoch:
            group[1][view.endpoints[family][0]] = known[1]
            continue
        labels = nodes.labels_of(view.node) if view.node else None
        if labels is None and not unready:
            errors.append(
                f"skipping Pod {view.name} for Service {key_of(service)}: Node {view.node} Not Found"
            )
            continue
        made = view.endpoints.get(family)
        if made is not None:
            endpoint = group[1][made[0]] = view.endpoint(family, labels, zone_label)
            view.zoned[family] = nodes.epoch, endpoint
    return groups, errors


def ports_key(ports: Sequence[Obj]) -> str:
    """Text that is equal for equal ports in any order."""
    return repr(sorted(map(repr, ports)))


def normal_ports(piece: Obj) -> list[Obj]:
    """Ports of a stored slice in the form of `ports_of`."""
    normal = []
    for port in piece.get("ports") or ():
        made = {"name": port.get("name", ""), "port": port["port"], "protocol": port.get("protocol", "TCP")}
        if port.get("appProtocol"):
            made["appProtocol"] = port["appProtocol"]
        normal.append(made)
    return normal


def reconcile(
    wanted: Wanted, groups: Groups, existing: Sequence[Obj], family: str, shares: Shares | None = None
) -> Changes:
    """Changes to the slices of one address family; slices of a former Service are deleted.

    shares: zone shares for topology hints, None for no hints
    """
    changes = Changes(delete=[piece for piece in existing if not wanted.owns(piece)])
    by_ports: dict[str, list[Obj]] = {}
    for piece in filter(wanted.owns, existing):
        by_ports.setdefault(ports_key(normal_ports(piece)), []).append(piece)
    for key, (ports, pool) in groups.items():
        _pack(wanted, by_ports.pop(key, []), ports, dict(pool), family, changes)
    for pieces in by_ports.values():
        changes.delete += pieces
    if len(existing) == len(changes.delete) and not changes.create:
        # A Service without endpoints has one empty slice.
        placeholder = wanted.new_slice(family, [])
        if len(changes.delete) == 1 and _is_placeholder(changes.delete[0], wanted):
            changes.delete.clear()
        else:
            changes.create.append(wanted.stamped(placeholder))
    _hint(wanted, changes, existing, shares)
    _recycle(wanted, changes)
    return changes


def _hint(wanted: Wanted, changes: Changes, existing: Sequence[Obj], shares: Shares | None) -> None:
    """Set or remove the topology hints of all endpoints."""
    touched = {piece["metadata"]["name"] for piece in (*changes.update, *changes.delete)}
    unchanged = [piece for piece in existing if piece["metadata"]["name"] not in touched]
    written = [*changes.create, *changes.update]
    found = unhinted(written, unchanged) if shares is None else hinted(written, unchanged, shares)
    count = len(changes.create)
    changes.create, changes.update = found.written[:count], found.written[count:]
    changes.update += map(wanted.stamped, found.more)
    changes.hinted = found.counts


def _is_placeholder(piece: Obj, wanted: Wanted) -> bool:
    meta = piece["metadata"]
    empty = not piece.get("endpoints") and not piece.get("ports")
    return empty and meta.get("labels") == wanted.labels and meta.get("ownerReferences") == [wanted.ref]


def _pack(
    wanted: Wanted, existing: list[Obj], ports: list[Obj], pool: Pool, family: str, changes: Changes
) -> None:
    """Pack one group of endpoints with equal ports.

    pool: endpoints of the group; those not in a slice yet are packed
    """
    touched: list[Obj] = []
    untouched: list[Obj] = []
    for piece in existing:
        old = piece.get("endpoints") or []
        now = [pool.pop(key) for key in map(identity, old) if key in pool]
        if old and not now:
            changes.delete.append(piece)
        elif now != without_hints(old):
            touched.append({**piece, "endpoints": now})
        elif wanted.is_relabelled(piece):
            touched.append(piece)
        else:
            untouched.append(piece)
    rest = list(pool.values())
    if rest:
        touched.sort(key=lambda piece: len(piece.get("endpoints") or ()), reverse=True)
        for index, piece in enumerate(touched):
            known = piece.get("endpoints") or []
            room = wanted.limit - len(known)
            if room > 0 and rest:
                touched[index] = {**piece, "endpoints": known + rest[:room]}
                rest = rest[room:]
    while rest:
        fit = _best_fit(untouched, len(rest), wanted.limit) if len(rest) < wanted.limit else None
        if fit is not None:
            untouched.remove(fit)
            touched.append({**fit, "endpoints": [*(fit.get("endpoints") or ()), *rest]})
            rest = []
        else:
            made = wanted.new_slice(family, ports)
            changes.create.append(wanted.stamped({**made, "endpoints": rest[: wanted.limit]}))
            rest = rest[wanted.limit :]
    changes.update += [wanted.stamped(piece) for piece in touched]


def _best_fit(pieces: Sequence[Obj], count: int, limit: int) -> Obj | None:
    """The slice that the endpoints fill best."""
    fits = [piece for piece in pieces if len(piece.get("endpoints") or ()) + count <= limit]
    return max(fits, key=lambda piece: len(piece.get("endpoints") or ()), default=None)


def _recycle(wanted: Wanted, changes: Changes) -> None:
    """Turn a slice to delete into one to create, to save a write (Quirk: only its name is kept)."""
    left: list[Obj] = []
    for old in changes.delete:
        if changes.create and wanted.owns(old):
            made = changes.create.pop()
            meta = {**made["metadata"], "name": old["metadata"]["name"]}
            changes.update.append({**made, "metadata": meta})
        else:
            left.append(old)
    changes.delete = left


class SliceTracker:
    """Generations of the slices that this process wrote, by which a stale cache is recognized.

    Bound: the entries of a Service are dropped with it, or when the cache shows their deletion.
    """

    def __init__(self) -> None:
        self._generations: dict[str, dict[str, int]] = {}

    _DELETED = -1

    def written(self, service: str, piece: Obj) -> None:
        """Record a slice as stored after a write."""
        meta = piece["metadata"]
        self._generations.setdefault(service, {})[meta["uid"]] = meta.get("generation", 0)

    def deleted(self, service: str, piece: Obj) -> None:
        """Record the delete of a slice."""
        self._generations.setdefault(service, {})[piece["metadata"]["uid"]] = self._DELETED

    def forget(self, service: str) -> None:
        """Drop the entries of a Service."""
        self._generations.pop(service, None)

    def is_news(self, service: str, piece: Obj) -> bool:
        """True if the slice differs from what this process wrote."""
        meta = piece["metadata"]
        known = self._generations.get(service, {}).get(meta["uid"])
        return known is None or meta.get("generation", 0) > known

    def was_unexpected(self, service: str, piece: Obj) -> bool:
        """True if a deleted slice was known and this process did not delete it; forgets the slice."""
        known = self._generations.get(service, {}).pop(piece["metadata"]["uid"], None)
        return known is not None and known != self._DELETED

    def is_stale(self, service: str, pieces: Sequence[Obj]) -> bool:
        """True if the cached slices are older than this process's own writes."""
        known = self._generations.get(service)
        if not known:
            return False
        seen = {piece["metadata"]["uid"]: piece["metadata"].get("generation", 0) for piece in pieces}
        for uid, generation in known.items():
            if generation == self._DELETED:
                if uid in seen:
                    return True
            elif seen.get(uid, -1) < generation:
                return True
        return False
