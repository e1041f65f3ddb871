"""The OpenAPI document of the simulated metrics server, for `kubectl explain` and validation.

Turns a naming set into the document of version 2 of the group metrics; the aggregation makes one of
version 3 of it.

Mirrors  k8s.io/metrics v0.25 pkg/apis/metrics/v1beta1/types.go; kubernetes-sigs/metrics-server
         v0.6 pkg/api/generated/openapi.
Differs  it describes neither the documents of discovery nor the other two groups, in which
         the names of metrics are the resources.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sim.api.openapi.documents import reached
from sim.api.openapi.operations import SECURITY, items_of
from sim.api.openapi.order import in_order
from sim.api.openapi.paths import Writer
from sim.api.openapi.schemas import V2, definition_v2
from sim.api.schema.field_schemas import META, QUANTITY, description
from sim.api.schema.kind import Kind
from sim.api.schema.resource import Naming, Resource
from sim.ident import Names

Body = dict[str, Any]

_BASE = "io.k8s.metrics.pkg.apis.metrics.v1beta1."
_DURATION = f"{META}Duration"
_ROWS = (("nodes", "NodeMetrics", False), ("pods", "PodMetrics", True))


@lru_cache(maxsize=2)
def metrics_document(names: Names) -> Body:
    """The document of a metrics server."""
    own = _definitions(names)
    named = {kind.removeprefix(_BASE): kind for kind in own}
    resources = [_resource(names, *row) for row in _ROWS]
    paths = items_of(route for each in resources for route in Writer(each, names, named).routes())
    common = {name: definition_v2(name, names) for name in reached([paths, own])}
    definitions = {**common, **own}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes metrics-server", "version": "v0.6.0"},
        "paths": paths,
        "definitions": {name: in_order(definitions[name]) for name in sorted(definitions)},
        "securityDefinitions": SECURITY,
        "security": [{"BearerToken": []}],
    }


def _resource(names: Names, plural: str, kind: str, namespaced: bool) -> Resource:
    group = names.group("metrics")
    return Resource(
        group=group,
        version="v1beta1",
        plural=plural,
        kind=kind,
        naming=Naming("", f"{kind}List"),
        namespaced=namespaced,
        verbs=("get", "list"),
        subresources=(),
        short_group="metrics",
        upstream_group=names.upstream_group(group),
        api_version=f"{group}/v1beta1",
        group_resource=f"{plural}.{group}",
        prefix="",
        storage_version_hash="",
        behavior=Kind(rows=()),
    )


def _definitions(names: Names) -> Body:
    usage = {
        "description": "The memory usage is the memory working set.",
        "type": "object",
        "additionalProperties": {"$ref": V2 + QUANTITY},
    }
    one = {
        "timestamp": {
            "description": "The end of the time from which the metrics were collected.",
            "$ref": f"{V2}{META}Time",
        },
        "window": {
            "description": "The length of that time: the metrics are of the interval from "
            "timestamp - window to timestamp.",
            "$ref": V2 + _DURATION,
        },
    }
    containers = {
        "description": "Metrics of all containers, collected in the same time window.",
        "type": "array",
        "items": {"$ref": f"{V2}{_BASE}ContainerMetrics"},
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge",
    }
    name = {"description": "The name of the container, as in pod.spec.containers.", "type": "string"}
    return {
        f"{_BASE}ContainerMetrics": {
            "description": "ContainerMetrics sets resource usage metrics of a container.",
            "type": "object",
            "required": ["name", "usage"],
            "properties": {"name": name, "usage": usage},
        },
        **_kind(names, "NodeMetrics", "a node", {**one, "usage": usage}),
        **_kind(names, "PodMetrics", "a pod", {**one, "containers": containers}),
        _DURATION: {"description": "A length of time, as Go prints it: 15s.", "type": "string"},
    }


def _kind(names: Names, kind: str, what: str, fields: Body) -> Body:
    """The definitions of a kind and of its lists."""
    pod = "io.k8s.api.core.v1.Pod"
    head = {
        field: {"description": description(pod, (field,)), "type": "string"}
        for field in ("apiVersion", "kind")
    }
    listed = {
        "items": {
            "description": f"Metrics of {what}s.",
            "type": "array",
            "items": {"$ref": f"{V2}{_BASE}{kind}"},
        },
        "metadata": {"description": description(f"{pod}List", ("metadata",)), "$ref": f"{V2}{META}ListMeta"},
    }
    metadata = {"description": description(pod, ("metadata",)), "$ref": f"{V2}{META}ObjectMeta"}
    gvk = {"group": names.group("metrics"), "version": "v1beta1"}
    return {
        f"{_BASE}{kind}": {
            "description": f"{kind} sets resource usage metrics of {what}.",
            "type": "object",
            "required": list(fields),
            "properties": {**head, "metadata": metadata, **fields},
            "x-kubernetes-group-version-kind": [{**gvk, "kind": kind}],
        },
        f"{_BASE}{kind}List": {
            "description": f"{kind}List is a list of {kind}.",
            "type": "object",
            "required": ["items"],
            "properties": {**head, **listed},
            "x-kubernetes-group-version-kind": [{**gvk, "kind": f"{kind}List"}],
        },
    }
