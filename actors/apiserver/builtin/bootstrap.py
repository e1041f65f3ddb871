"""Objects that an API server creates at its start if they are missing.

These are namespaces, its Service with endpoints, priority classes, flow control objects, the
ConfigMap with the authorities of clients and the APIServices of its own group versions;
`bootstrap_roles` adds the roles and bindings.

Holds: the objects have the form and the field owners that requests would give them.

Mirrors  kubernetes v1.25 pkg/controlplane/controller.go (bootstrap-controller),
         pkg/registry/scheduling/rest/storage_scheduling.go, cmd/kube-apiserver/app/aggregator.go
         (apiServicesToRegister).
Differs  An APIService that is changed or deleted stays so, and decides nothing about its group.
         The objects exist before the first request is served, not within the first seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from ipaddress import IPv4Network
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from actors.apiserver.builtin import bootstrap_flows as flows
from actors.apiserver.builtin.client_authorities import config_map
from actors.apiserver.builtin.endpoint_keeper import (
    API_PORT,
    ENDPOINTS,
    SLICES,
    kept_endpoints,
    ports_of,
    slice_of,
)
from actors.apiserver.fairness import LEVELS, SCHEMAS
from actors.apiserver.ports import LocalStore
from sim.api.generated_names import new_uid
from sim.api.kinds.apiregistration.api_service import local
from sim.api.kinds.strategies import for_create
from sim.api.objects import name_of, with_metadata
from sim.api.ownership import managed as ownership
from sim.api.ownership.differences import changed_fields
from sim.api.ownership.managed import UPDATE
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.store import Managed
from sim.api.types import Obj
from sim.api.verbs.call import Registry
from sim.ident import Names
from sim.units import SECOND, format_time

# pkg/apis/scheduling/types.go: SystemCriticalPriority and one thousand above it.
CLUSTER_CRITICAL, NODE_CRITICAL = 2_000_000_000, 2_000_001_000
# The kinds with uids that are drawn. All others were added after many runs had been recorded; their
# uids are derived from key and revision, so that no random draw of a run shifts.
DRAWN = ("Namespace", "PriorityClass", "Service")
NO_TRUST: Mapping[str, str] = MappingProxyType({})


class Wanted(NamedTuple):
    """An object to be created.

    manager: the field manager; "" for the server's own
    allocated: fields of the spec that the server fills in, so that they have no owner
    status: applied after the creation by the manager of flow control's status
    added: True for an object that not every cluster has; its uid is derived
    """

    plural: str
    obj: Obj
    manager: str = ""
    allocated: Obj | None = None
    status: Obj | None = None
    added: bool = False


def wanted(
    names: Names, service_cidr: str, server: tuple[str, int], trust: Mapping[str, str], now_us: int
) -> Iterator[Wanted]:
    """Yield the objects in the order of creation.

    server: address and port of the server that creates them; port 0: without Endpoints
    trust: how the server authenticates clients
    """
    for namespace in namespaces(names):
        yield Wanted("namespaces", namespace)
    for name, value, text in (
        (
            names.priority_class_node_critical,
            NODE_CRITICAL,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            names.priority_class_cluster_critical,
            CLUSTER_CRITICAL,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ):
        made = {"metadata": {"name": name}, "value": value, "description": text}
        yield Wanted("priorityclasses", {**made, "preemptionPolicy": "PreemptLowerPriority"})
    address, port = server
    yield own_service(names, service_cidr, port or API_PORT)
    for level in flows.levels(names):
        yield Wanted(LEVELS, level, flows.PRODUCER)
    for schema in flows.schemas(names):
        status = {"conditions": [flows.dangling(flows.level_of(schema), True, now_us)]}
        yield Wanted(SCHEMAS, schema, flows.PRODUCER, status=status)
    if port:
        endpoints = kept_endpoints(None, [address], names, ports=ports_of(port))
        yield Wanted(ENDPOINTS, endpoints)
        yield Wanted(SLICES, slice_of(endpoints, names))
    published = config_map(None, trust, names, now_us)
    if published is not None:
        yield Wanted("configmaps", published)


def namespaces(names: Names) -> list[Obj]:
    """Return the namespaces that exist in every cluster."""
    found = (names.system_namespace, names.public_namespace, names.lease_namespace, names.default_namespace)
    return [{"metadata": {"name": name}} for name in found]


def own_service(names: Names, service_cidr: str, port: int) -> Wanted:
    """Return the Service of the API servers.  port: at which they are reached"""
    address = str(IPv4Network(service_cidr)[1])
    spec = {
        "type": "ClusterIP",
        "clusterIP": address,
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
        "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
    }
    metadata = {
        "name": names.apiserver_service,
        "namespace": names.default_namespace,
        "labels": {"component": "apiserver", "provider": names.product},
    }
    allocated = {"clusterIPs": [address], "ipFamilies": ["IPv4"]}
    return Wanted("services", {"metadata": metadata, "spec": spec}, allocated=allocated)


def api_services(scheme: Scheme) -> Iterator[Wanted]:
    """Yield the APIServices of the group versions that are served, by name."""
    served = sorted({(r.short_group, r.version) for r in scheme.resources})
    made = (local(group, version, scheme.names) for group, version in served)
    for obj in sorted((obj for obj in made if obj is not None), key=name_of):
        yield Wanted("apiservices", obj)


def derived_uid(key: str, revision: int) -> str:
    """Return the uid of an object that is created under a storage key at a revision."""
    return new_uid(partial(_bits_of, f"{key} {revision}"))


def _bits_of(text: str, count: int) -> int:
    return int.from_bytes(sha256(text.encode()).digest()) >> (256 - count)


def prepared(resource: Resource, registry: Registry, obj: Obj) -> Obj:
    """Return a new object as the steps before its admission leave it."""
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    whole = registry.rules.defaults(resource, whole, "")
    return resource.behavior.strategy.fill_named(whole, registry.names)


def bootstrap(
    registry: Registry,
    store: LocalStore,
    server: tuple[str, int],
    trust: Mapping[str, str] = NO_TRUST,
    added: Sequence[tuple[str, Obj]] = (),
) -> None:
    """Create the objects that are missing.

    added: further objects, each with its plural
    """
    names, now_us = registry.names, registry.wall_us()
    fixed = wanted(names, registry.service_cidr, server, trust, now_us)
    more = [Wanted(plural, obj, added=True) for plural, obj in added]
    for each in chain(fixed, api_services(registry.scheme), more):
        resource = registry.scheme.resource(each.plural)
        metadata = each.obj["metadata"]
        key = registry.scheme.key(resource, metadata.get("namespace", ""), metadata["name"])
        if store.get(key) is None:
            obj, owners = _created(registry, resource, each, key, store.revision)
            store.put(key, obj, 0, owners)


def _created(
    registry: Registry, resource: Resource, each: Wanted, key: str, revision: int
) -> tuple[Obj, tuple[Managed, ...]]:
    """Return the object to store, and its field owners.

    revision: of the store before the creation
    """
    now_us = registry.wall_us()
    obj = prepared(resource, registry, each.obj)
    manager = each.manager or registry.names.component("apiserver")
    writer = ownership.Writer(manager, resource.api_version, now_us // SECOND, tracks=registry.tracks)
    reset = ownership.reset_fields(resource.rule, "", resource.behavior.strategy.status)
    owners = ownership.on_create(resource.schema, obj, writer, reset)
    drawn = resource.kind in DRAWN and not each.added
    uid = new_uid(registry.bits) if drawn else derived_uid(key, revision)
    obj = with_metadata(obj, uid=uid, creationTimestamp=format_time(now_us))
    if each.allocated is not None:
        obj = {**obj, "spec": {**obj["spec"], **each.allocated}}
    obj = for_create(resource, obj, registry.names)
    if each.status is not None:
        fields, _ = changed_fields(resource.schema, {}, {"status": each.status})
        patched = Managed(flows.CONSUMER, UPDATE, resource.api_version, writer.time_s, fields, "status")
        obj, owners = {**obj, "status": each.status}, (patched, *owners)
    return obj, owners
