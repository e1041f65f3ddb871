"""Objects that an API server creates when they are missing.

These are namespaces, its Service with endpoints, priority classes and flow control objects.

Mirrors  kubernetes v1.25 pkg/controlplane/controller.go (bootstrap-controller),
         pkg/registry/scheduling/rest/storage_scheduling.go.
Differs  The objects exist before the first request is served, not within the first seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from ipaddress import IPv4Network

from actors.apiserver.builtin.bootstrap_flows import levels, schemas
from actors.apiserver.builtin.endpoint_keeper import API_PORT, ENDPOINTS, SLICES, kept_endpoints, slice_of
from actors.apiserver.ports import LocalStore
from sim.api.generated_names import new_uid
from sim.api.kinds.strategies import for_create
from sim.api.types import Obj
from sim.api.verbs.call import Registry
from sim.units import format_time

# pkg/apis/scheduling/types.go: SystemCriticalPriority and one thousand above it.
CLUSTER_CRITICAL, NODE_CRITICAL = 2_000_000_000, 2_000_001_000
# Kinds that were added after many runs had been recorded; their uids take no draw.
LATER = ("FlowSchema", "PriorityLevelConfiguration", "Endpoints", "EndpointSlice")


def wanted(registry: Registry, server_address: str) -> Iterator[tuple[str, str, Obj]]:
    """Yield (resource, namespace, object) in the order of creation.

    server_address: the address of the server that creates them
    """
    names = registry.names
    for namespace in (
        names.system_namespace,
        names.public_namespace,
        names.lease_namespace,
        names.default_namespace,
    ):
        yield "namespaces", "", {"metadata": {"name": namespace}}
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
        yield (
            "priorityclasses",
            "",
            {
                "metadata": {"name": name},
                "value": value,
                "description": text,
                "preemptionPolicy": "PreemptLowerPriority",
            },
        )
    address = str(IPv4Network(registry.service_cidr)[1])
    spec = {
        "type": "ClusterIP",
        "clusterIP": address,
        "clusterIPs": [address],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
        "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": API_PORT}],
    }
    labels = {"component": "apiserver", "provider": names.product}
    service = {"metadata": {"name": names.apiserver_service, "labels": labels}, "spec": spec}
    yield "services", names.default_namespace, service
    for level in levels(names):
        yield "prioritylevelconfigurations", "", level
    for schema in schemas(names, registry.wall_us()):
        yield "flowschemas", "", schema
    endpoints = kept_endpoints(None, [server_address], names)
    yield ENDPOINTS, names.default_namespace, endpoints
    yield SLICES, names.default_namespace, slice_of(endpoints, names)


def _bits_of(key: str, count: int) -> int:
    """Return the bits of a uid, derived from the key so that no random draw of a run shifts."""
    return int.from_bytes(sha256(key.encode()).digest()) >> (256 - count)


def bootstrap(registry: Registry, store: LocalStore, server_address: str) -> None:
    """Create the objects that are missing."""
    for plural, namespace, obj in wanted(registry, server_address):
        resource = registry.scheme.resource(plural)
        key = registry.scheme.key(resource, namespace, obj["metadata"]["name"])
        if store.get(key) is not None:
            continue
        metadata = {
            **obj["metadata"],
            **({"namespace": namespace} if namespace else {}),
            "uid": new_uid(partial(_bits_of, key) if resource.kind in LATER else registry.bits),
            "creationTimestamp": format_time(registry.wall_us()),
        }
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj, "metadata": metadata}
        made = for_create(resource, whole, registry.names)
        store.put(key, {**made, "status": obj["status"]} if "status" in obj else made, 0)
