"""Objects that the pods of others need and the files do not hold: they are added, empty.

Without them the API server would refuse the pods (service accounts, priority classes, namespaces),
or their containers would wait (ConfigMaps, Secrets).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sim.app.imports.parts import Value
from sim.ident import NAMES

UPSTREAM = NAMES["kubernetes"]
BUILT_IN_NAMESPACES = (
    UPSTREAM.default_namespace,
    f"{UPSTREAM.short}-system",
    f"{UPSTREAM.short}-public",
    f"{UPSTREAM.short}-node-lease",
)
_BUILT_IN = (
    UPSTREAM.priority_class_node_critical,
    UPSTREAM.priority_class_cluster_critical,
    UPSTREAM.default_service_account,
    UPSTREAM.config_map_root_ca,
)
_ORDER = ("Namespace", "PriorityClass", "ServiceAccount", "ConfigMap", "Secret")
_Need = tuple[str, str, str, str]
"""Kind, namespace, name and key of an object that a pod needs; the key may be empty."""


def missing_objects(found: Sequence[Value], served: Sequence[Value], notes: list[str]) -> list[Value]:
    """The objects to add, each noted.

    found: the manifests
    served: the objects as the server had them; their pods name the values of priority classes
    """
    have = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in found}
    keys: dict[tuple[str, str, str], list[str]] = {}
    for obj in found:
        for kind, namespace, name, key in _needs(obj):
            if (kind, namespace, name) not in have and name not in _BUILT_IN:
                of = keys.setdefault((kind, namespace, name), [])
                if key and key not in of:
                    of.append(key)
    order = sorted(keys, key=lambda each: _ORDER.index(each[0]))
    if order:
        shown = ", ".join(f"{kind} {place + '/' if place else ''}{name}" for kind, place, name in order)
        notes.append(f"added, because objects need them and the files do not hold them: {shown}")
    return [_made(*each, keys[each], served) for each in order]


def _made(kind: str, namespace: str, name: str, keys: Sequence[str], served: Sequence[Value]) -> Value:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    if kind == "PriorityClass":
        version = UPSTREAM.api_version("scheduling", "v1")
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "value": _priority(name, served)}
    data = {"data": dict.fromkeys(keys, "")} if keys else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **data}


def _priority(name: str, served: Sequence[Value]) -> int:
    """The value of a priority class, from a pod that has it; 0 if there is none."""
    specs = [each.get("spec") or {} for each in served if each["kind"] == "Pod"]
    return next(
        (int(spec.get("priority") or 0) for spec in specs if spec.get("priorityClassName") == name), 0
    )


def _needs(obj: Value) -> Iterator[_Need]:
    namespace = obj["metadata"].get("namespace", "")
    if namespace and namespace not in BUILT_IN_NAMESPACES:
        yield "Namespace", "", namespace, ""
    pod = pod_spec(obj)
    if pod.get("priorityClassName"):
        yield "PriorityClass", "", pod["priorityClassName"], ""
    if pod.get("serviceAccountName"):
        yield "ServiceAccount", namespace, pod["serviceAccountName"], ""
    for volume in pod.get("volumes") or ():
        projected = (volume.get("projected") or {}).get("sources") or ()
        for source in (volume, *projected):
            yield from _source(source, namespace)
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        yield from _environment(container, namespace)


def _source(source: Mapping[str, Any], namespace: str) -> Iterator[_Need]:
    """What one volume, or one source of a projected volume, needs."""
    for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        given = source.get(field) or {}
        name = given.get("name") or given.get("secretName")
        if name and not given.get("optional"):
            yield kind, namespace, name, ""
            for item in given.get("items") or ():
                yield kind, namespace, name, item["key"]


def _environment(container: Mapping[str, Any], namespace: str) -> Iterator[_Need]:
    given = [
        *(each.get("valueFrom") or {} for each in container.get("env") or ()),
        *(container.get("envFrom") or ()),
    ]
    fields = (
        ("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"), ("configMapRef", "ConfigMap"),
        ("secretRef", "Secret"),
    )  # fmt: skip
    for each in given:
        for field, kind in fields:
            reference = each.get(field) or {}
            if reference.get("name") and not reference.get("optional"):
                yield kind, namespace, reference["name"], reference.get("key", "")


def pod_spec(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec of the pods of an object; empty if it has none."""
    spec: Mapping[str, Any] = obj.get("spec") or {}
    if obj["kind"] == "Pod":
        return spec
    if obj["kind"] == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    template = spec.get("template")
    return (template.get("spec") or {}) if isinstance(template, dict) else {}
