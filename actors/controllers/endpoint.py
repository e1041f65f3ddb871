"""Endpoints controller: writes the addresses of a Service's pods into one Endpoints object.

Turns a Service and the pods that it selects into subsets: addresses that share the same ports,
split into ready and not ready ones.

Holds: an Endpoints object has at most 1000 addresses; a sync that finds no difference sends no
       write. (A truncated object is compared before truncation, so every sync writes it, as
       upstream.)

Mirrors  kubernetes v1.25 pkg/controller/endpoint/endpoints_controller.go,
         pkg/api/v1/endpoints/util.go.
Differs  ports are in the order of the Service, subsets in the order of their ports (upstream
         orders both by an internal hash); a subset that truncation leaves without addresses is
         dropped (upstream sends it and the API server rejects it).
Quirk    the current Endpoints object is read from the informer, and an update of it queues no key.
         If pods change and change back while the informer lags behind this controller's own
         write, the sync sees no difference, and the Endpoints stay wrong until a pod or the
         Service changes, or until a resync (kubernetes issues 125638 and 127429, fixed in v1.31).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from operator import itemgetter
from typing import TYPE_CHECKING

from actors.controllers.shared.endpoint_pods import (
    LastInputs,
    ServicePods,
    TriggerTimes,
    belongs,
    find_port,
    host_name,
    is_headless,
    is_ipv6,
    is_selecting,
    pod_ips,
    publishes_unready,
    target_ref,
    trigger_us,
)
from actors.controllers.shared.pod_owners import is_terminating_refusal
from actors.controllers.shared.shell import Env, run_workers
from sim.api.objects import is_ready, key_of, revision_of
from sim.api.types import Obj
from sim.dataclass import dataclass

if TYPE_CHECKING:
    from sim.ident import Names

RESOURCE = "endpoints"
_BY_ADDRESS = itemgetter(0, 1)
MAX_RETRIES = 15  # endpoints_controller.go: maxRetries
MAX_CAPACITY = 1000  # endpoints_controller.go: maxCapacity
TRUNCATED = "truncated"


async def start(env: Env) -> None:
    """Run the Endpoints controller until its process ends."""
    loop = EndpointLoop(env)
    await env.informers.start_and_sync()
    loop.queue_orphans()
    loop.watcher.attribute_causes()
    run_workers(env, loop.queue, loop.sync, env.options.concurrent_endpoint_syncs, MAX_RETRIES)


# --- pure decisions -------------------------------------------------------------------------------


def address_of(pod: Obj, service: Obj) -> Obj | None:
    """The pod's address in the Service's first family; None if it has none there."""
    spec = service["spec"]
    ips = pod_ips(pod)
    families = spec.get("ipFamilies") or ()
    cluster_ip = spec.get("clusterIP", "")
    if families:
        wants_v6 = families[0] == "IPv6"
    else:
        wants_v6 = is_ipv6(cluster_ip if cluster_ip not in ("", "None") else ips[0])
    ip = next((ip for ip in ips if is_ipv6(ip) == wants_v6), None)
    if ip is None:
        return None
    address: Obj = {"ip": ip}
    hostname = host_name(pod, service)
    if hostname:
        address["hostname"] = hostname
    # Quirk: an address without a node gets an empty nodeName, which validation rejects.
    address["nodeName"] = pod["spec"].get("nodeName", "")
    address["targetRef"] = target_ref(pod)
    return address


def ports_of(pod: Obj, service: Obj) -> list[Obj]:
    """The Service's ports as endpoint ports of this pod; a named port that the pod lacks is left
    out.
    """
    ports = []
    for port in service["spec"].get("ports") or ():
        number = find_port(pod, port)
        if number is not None:
            made = {"name": port.get("name"), "port": number, "protocol": port.get("protocol", "TCP")}
            made["appProtocol"] = port.get("appProtocol")
            ports.append({k: v for k, v in made.items() if v})
    return ports


@dataclass(frozen=True, slots=True)
class PodView:
    """What a pod contributes to the Endpoints of one Service.

    trigger_us: last change of the pod's readiness, 0 if unknown
    ports_key: text that is equal for pods with equal ports
    place: (IP, uid, endpoint address), sortable by the first two; None if the pod is not an
    endpoint
    ready: True if the address goes to `addresses`, False if to `notReadyAddresses`
    """

    name: str
    trigger_us: int
    ports_key: str = ""
    ports: Sequence[Obj] = ()
    place: tuple[str, str, Obj] | None = None
    ready: bool = False


def view_of(pod: Obj, service: Obj) -> PodView:
    """Compute a pod's contribution to the Endpoints of a Service."""
    name, changed_us = pod["metadata"]["name"], trigger_us(pod)
    unready = publishes_unready(service)
    address = address_of(pod, service) if belongs(pod, unready) else None
    ports = ports_of(pod, service)
    spec = service["spec"]
    portless = not spec.get("ports") and spec.get("clusterIP") == "None"
    if address is None or not (ports or portless):
        return PodView(name, changed_us)
    place = (address["ip"], pod["metadata"]["uid"], address)
    return PodView(name, changed_us, repr(ports), ports, place, unready or is_ready(pod))


def subsets_of(views: Sequence[PodView]) -> list[Obj]:
    """Group addresses into subsets: ports that are offered by the same addresses share a subset."""
    groups: dict[str, tuple[Sequence[Obj], list[tuple[str, str, Obj]], list[tuple[str, str, Obj]]]] = {}
    for view in views:
        if view.place is not None:
            group = groups.get(view.ports_key)
            if group is None:
                group = groups[view.ports_key] = (view.ports, [], [])
            (group[1] if view.ready else group[2]).append(view.place)
    # port -> (port, keys of groups offering it)
    offered: dict[str, tuple[Obj | None, list[str]]] = {}
    for key, (ports, _, _) in groups.items():
        for port in ports or (None,):
            offered.setdefault(repr(port), (port, []))[1].append(key)
    together: dict[tuple[str, ...], list[Obj]] = {}
    for port, keys in offered.values():
        together.setdefault(tuple(keys), []).extend(() if port is None else (port,))
    subsets = []
    for offering, shared in sorted(together.items(), key=lambda entry: repr(entry[1])):
        subset: Obj = {}
        ready = [place for key in offering for place in groups[key][1]]
        not_ready = [place for key in offering for place in groups[key][2]]
        for name, places in (("addresses", ready), ("notReadyAddresses", not_ready)):
            if places:
                places.sort(key=_BY_ADDRESS)
                subset[name] = [place[2] for place in places]
        if shared:
            subset["ports"] = shared
        subsets.append(subset)
    return subsets


def address_count(subsets: Sequence[Obj], *fields: str) -> int:
    """The number of addresses in the given fields of all subsets."""
    return sum(len(subset.get(field) or ()) for subset in subsets for field in fields)


def truncate(subsets: list[Obj]) -> tuple[list[Obj], bool]:
    """Keep at most 1000 addresses, ready ones first, and share the room in proportion to subset
    size.

    Returns the subsets and True if addresses were dropped. Each share is rounded up.
    """
    if address_count(subsets, "addresses", "notReadyAddresses") <= MAX_CAPACITY:
        return subsets, False
    ready = address_count(subsets, "addresses")
    left = [dict(subset) for subset in subsets]
    if ready >= MAX_CAPACITY:
        for subset in left:
            subset.pop("notReadyAddresses", None)
        _share(left, "addresses", MAX_CAPACITY)
    else:
        _share(left, "notReadyAddresses", MAX_CAPACITY - ready)
    return [subset for subset in left if subset.get("addresses") or subset.get("notReadyAddresses")], True


def _share(subsets: Sequence[Obj], field: str, room: int) -> None:
    total, left = address_count(subsets, field), room
    for subset in subsets:
        addresses = subset.get(field) or []
        kept = min(ceil(len(addresses) / total * room), left)
        left -= kept
        if kept:
            subset[field] = addresses[:kept]
        else:
            subset.pop(field, None)


def is_up_to_date(stored: Obj, service: Obj, subsets: list[Obj], names: Names) -> bool:
    """True if the stored object needs no write: equal labels and subsets, and not over capacity."""
    meta = stored["metadata"]
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != names.label_headless}
    if labels != (service["metadata"].get("labels") or {}) or (stored.get("subsets") or []) != subsets:
        return False
    over = address_count(stored.get("subsets") or (), "addresses", "notReadyAddresses") > MAX_CAPACITY
    return not over and names.annotation_over_capacity not in (meta.get("annotations") or {})


def wanted_endpoints(
    stored: Obj | None, service: Obj, subsets: list[Obj], trigger: str | None, names: Names
) -> Obj:
    """Compose the Endpoints object to write, keeping metadata that other writers have set.

    trigger: value of the last-change-trigger-time annotation; None removes the annotation
    """
    meta = dict(stored["metadata"]) if stored is not None else {}
    meta["name"], meta["namespace"] = service["metadata"]["name"], service["metadata"]["namespace"]
    labels = dict(service["metadata"].get("labels") or {})
    labels.pop(names.label_headless, None)
    if is_headless(service):
        labels[names.label_headless] = ""
    annotations = dict(meta.get("annotations") or {})
    annotations.pop(names.annotation_last_change_trigger_time, None)
    if trigger is not None:
        annotations[names.annotation_last_change_trigger_time] = trigger
    subsets, truncated = truncate(subsets)
    annotations.pop(names.annotation_over_capacity, None)
    if truncated:
        annotations[names.annotation_over_capacity] = TRUNCATED
    for part, values in (("labels", labels), ("annotations", annotations)):
        meta.pop(part, None)
        if values:
            meta[part] = values
    made: Obj = {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta}
    if subsets:
        made["subsets"] = subsets
    return made


# --- shell ----------------------------------------------------------------------------------------


class EndpointLoop:
    """Shell of the controller: informer handlers that queue Services, and the sync of one Service."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.names = env.names
        self.client = env.client("endpoint-controller")
        self.recorder = env.recorder("endpoint-controller", self.client)
        self.queue = env.queue("endpoint")
        self.services = env.informers["services"]
        self.endpoints = env.informers[RESOURCE]
        self.triggers = TriggerTimes()
        self.last_inputs = LastInputs()
        batch_us = env.options.endpoint_updates_batch_period_us
        self.watcher = ServicePods(self.services, env.informers["pods"], self.queue, batch_us)
        self.services.on(add=self._changed, update=lambda old, new: self._changed(new), delete=self._changed)
        self.endpoints.on(delete=self._changed)

    def _changed(self, obj: Obj) -> None:
        self.queue.add(key_of(obj))

    def queue_orphans(self) -> None:
        """Queue Endpoints without a Service: the Service may have been deleted while no loop ran."""
        for obj in self.endpoints.list():
            # Endpoints with a Service are queued by the Service, with the cause of its last change.
            served = self.services.get(key_of(obj)) is not None
            if not served and self.names.annotation_leader not in (obj["metadata"].get("annotations") or {}):
                self.queue.add(key_of(obj))

    async def sync(self, key: str) -> str | None:
        """Bring the Endpoints of one Service up to date; returns an error text or None."""
        namespace, _, name = key.partition("/")
        service = self.services.get(key)
        if service is None:
            self.triggers.forget(key)
            self.watcher.forget(key)
            self.last_inputs.forget(key)
            reply = await self.client.delete(RESOURCE, namespace, name)
            return None if reply.ok or reply.reason == "NotFound" else reply.message
        if not is_selecting(service):
            return None
        views = self.watcher.views(service, view_of)
        trigger = self.triggers.compute(service, {v.name: v.trigger_us for v in views if v.trigger_us})
        placed = [view for view in views if view.place is not None]
        stored = self.endpoints.get(key)
        if stored is not None and self.last_inputs.unchanged(key, service, placed, revision_of(stored)):
            return None
        subsets = subsets_of(placed)
        if stored is not None and is_up_to_date(stored, service, subsets, self.names):
            self.last_inputs.record(key, service, placed, revision_of(stored))
            return None
        wanted = wanted_endpoints(stored, service, subsets, trigger, self.names)
        if stored is None:
            reply = await self.client.create(RESOURCE, namespace, wanted)
            what = ("FailedToCreateEndpoint", f"Failed to create endpoint for service {namespace}/{name}")
        else:
            reply = await self.client.update(RESOURCE, wanted)
            what = ("FailedToUpdateEndpoint", f"Failed to update endpoint {namespace}/{name}")
        if reply.ok and is_up_to_date(reply.obj, service, subsets, self.names):
            self.last_inputs.record(key, service, placed, revision_of(reply.obj))
        if reply.ok or (stored is None and is_terminating_refusal(reply)):
            return None
        self.recorder.event(wanted, "Warning", what[0], f"{what[1]}: {reply.message}")
        return reply.message
