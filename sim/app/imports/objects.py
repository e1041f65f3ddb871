"""API objects as a server returns them, as the manifests that a user would have written.

Turns objects into manifests without what the server, its controllers and its defaults made, and
notes about those that a scenario cannot have.

A default is recognized by its effect: a field is removed if the manifest without it gets the same
defaults.  So there is no second list of defaults here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.app.imports.made import left_out, without_made
from sim.app.imports.parts import Value, note_groups
from sim.app.imports.references import UPSTREAM, missing_objects
from sim.app.imports.volumes import with_volumes
from sim.errors import InputError
from sim.patterns import pattern
from sim.scenario.manifests import soundness
from sim.scenario.plan.own_kinds import Planned
from sim.scenario.read.source import Document, parts_of

_FIELD = pattern(r'"([^"]+)"')
_RANKS = {
    "CustomResourceDefinition": 0, "Namespace": 1, "PriorityClass": 2, "StorageClass": 2, "RuntimeClass": 2,
    "ClusterRole": 2, "ServiceAccount": 3, "ConfigMap": 4, "Secret": 4, "PersistentVolume": 4, "PersistentVolumeClaim": 4,
    "HorizontalPodAutoscaler": 6, "MutatingWebhookConfiguration": 7, "ValidatingWebhookConfiguration": 7,
}  # fmt: skip
_RANK = 5
_EMPTY_ALLOWED = ("resources", "securityContext", "annotations", "labels", "affinity")


def manifests(
    objects: Sequence[Value], nodes: Mapping[str, str] | None = None
) -> tuple[list[Value], list[str]]:
    """The manifests of objects, in the order in which they can be created, and notes.

    nodes: the name in the scenario of each node, if the objects are those of a whole cluster; pods
        then keep their nodes, and an object stays if the controller of it is not among them
    """
    found: list[Value] = []
    pairs: list[tuple[str, str]] = []
    notes: list[str] = []
    planned = Planned()
    seen: dict[tuple[str, ...], None] = {}
    is_there = None if nodes is None else _presence(objects)
    for obj in sorted(with_volumes(objects, notes), key=_rank):
        if reason := left_out(obj, UPSTREAM, is_there):
            pairs.append((reason, obj["kind"]))
            continue
        try:
            manifest = _manifest(_placed(obj, nodes or {}), planned, notes)
        except InputError as error:
            notes.append(f"left out {_shown(obj)}: {error.message}")
            continue
        key = (manifest["apiVersion"], manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])  # fmt: skip
        if key in seen:
            notes.append(f"left out {_shown(obj)}: it is in the files twice")
            continue
        seen[key] = None
        found.append(manifest)
    return sorted([*missing_objects(found, objects, notes), *found], key=_rank), [*note_groups(pairs), *notes]


def _rank(obj: Value) -> int:
    return _RANKS.get(obj["kind"], _RANK)


def _presence(objects: Sequence[Value]) -> Callable[[str, str, str], bool]:
    """A function that returns True if kind, namespace and name are those of one of the objects."""
    there = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): None
        for each in objects
    }
    return lambda kind, namespace, name: (kind, namespace, name) in there


def _placed(obj: Value, nodes: Mapping[str, str]) -> Value:
    """A pod on its node in the scenario, or on none if the node is missing; else the object itself."""
    spec = obj.get("spec")
    if obj["kind"] != "Pod" or not isinstance(spec, dict) or "nodeName" not in spec:
        return obj
    rest = {key: value for key, value in spec.items() if key != "nodeName"}
    node = nodes.get(spec["nodeName"])
    return {**obj, "spec": {**rest, "nodeName": node} if node else rest}


def _shown(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata") or {}
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{obj['kind']} {place}{metadata.get('name', '')}"


def _manifest(obj: Value, planned: Planned, notes: list[str]) -> Value:
    """The manifest of one object.  Raises InputError if a scenario cannot have it."""
    scheme = Scheme(UPSTREAM).beside(planned)
    resource = scheme.by_kind(obj["apiVersion"], obj["kind"])
    if resource is None or "create" not in resource.verbs:
        raise InputError(f"there is no kind {obj['kind']} in {obj['apiVersion']}")
    bare = without_made(obj, UPSTREAM)
    if obj["kind"] == "Secret" and any((bare.get("data") or {}).values()):
        bare["data"] = dict.fromkeys(bare["data"], "")
        notes.append(f"{_shown(obj)}: its values are left empty")
    bare = _without_unknown(resource, bare, notes)
    manifest = _without_defaults(resource, bare)
    new = soundness.completed(resource, _typed(resource, manifest), UPSTREAM)
    soundness.check(resource, new, UPSTREAM, Document("", manifest), ())
    planned.add(scheme, manifest)
    return manifest


def _typed(resource: Resource, manifest: Value) -> Value:
    try:
        return soundness.typed(resource, manifest)[0]
    except soundness.Unsound as error:
        raise InputError(str(error)) from None


def _without_unknown(resource: Resource, manifest: Value, notes: list[str]) -> Value:
    """The manifest without fields that v1.25 does not know, each noted."""
    try:
        _, problems = soundness.typed(resource, manifest)
    except soundness.Unsound as error:
        raise InputError(str(error)) from None
    for problem in problems:
        field = _FIELD.search(problem)
        parts = parts_of(field[1]) if field else []
        if parts and _has(manifest, parts):
            manifest = without(manifest, parts)
            notes.append(f"{_shown(manifest)}: {field and field[1]} is unknown in v1.25 and left out")
    return manifest


def _has(value: Any, path: Sequence[str | int]) -> bool:
    """True if there is a part at a path."""
    if not path:
        return True
    first, *rest = path
    if isinstance(value, dict):
        return first in value and _has(value[first], rest)
    return (
        isinstance(value, list) and isinstance(first, int) and first < len(value) and _has(value[first], rest)
    )


def without(value: Any, path: Sequence[str | int]) -> Any:
    """A copy of a value without the part at a path."""
    first, *rest = path
    if isinstance(value, list):
        assert isinstance(first, int)
        return [without(item, rest) if index == first else item for index, item in enumerate(value)]
    if not rest:
        return {key: item for key, item in value.items() if key != first}
    return {key: without(item, rest) if key == first else item for key, item in value.items()}


def _without_defaults(resource: Resource, manifest: Value) -> Value:
    """The manifest without the fields that defaulting fills in with the same values."""
    manifest = _without_empty(manifest)
    wanted = soundness.completed(resource, _typed(resource, manifest), UPSTREAM)
    if "spec" not in manifest:
        return manifest
    for path in list(_paths(manifest["spec"], ("spec",))):
        if not _has(manifest, path):
            continue  # a part of what was removed
        shorter = without(manifest, path)
        try:
            same = soundness.completed(resource, _typed(resource, shorter), UPSTREAM) == wanted
        except InputError:
            continue
        if same:
            manifest = shorter
    return manifest


def _paths(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """The paths of the fields of mappings, each before those inside it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from _paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*path, index))


def _without_empty(value: Any, key: str = "") -> Any:
    """The value without nulls, and without empty mappings that mean nothing."""
    if isinstance(value, dict):
        made = {name: _without_empty(item, name) for name, item in value.items() if item is not None}
        return {name: item for name, item in made.items() if item != {} or name not in _EMPTY_ALLOWED}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value
