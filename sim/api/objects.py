"""Accessors and path copies over plain JSON objects, and common predicates of pods and nodes.

An accessor reads a name, a label, an owner or a condition of an object. A path copy is a changed
object that shares every unchanged part with the old one.

Holds: no function changes an argument. A change without an effect returns the object itself, so
callers can test `new is old`. Fields that an API object always has are read without a check; an
optional one that is absent reads as "" or empty.

Mirrors  apimachinery v1.25 pkg/apis/meta/v1/{controller_ref,helpers}.go, kubernetes
         pkg/api/v1/pod/util.go, pkg/controller/controller_utils.go (IsPodActive).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sim.api.types import Obj
from sim.ident import Names

TERMINAL = ("Succeeded", "Failed")  # phases that a pod never leaves

_NOTHING: Mapping[str, Any] = MappingProxyType({})


# --- metadata -------------------------------------------------------------------------------------


def metadata_of(obj: Obj) -> Mapping[str, Any]:
    """The metadata."""
    return obj.get("metadata") or _NOTHING


def name_of(obj: Obj) -> str:
    """The name."""
    return str(metadata_of(obj).get("name") or "")


def uid_of(obj: Obj) -> str:
    """The UID."""
    return str(obj["metadata"]["uid"])


def key_of(obj: Obj) -> str:
    """The key of informers and work queues: namespace/name, or the name without a namespace."""
    meta = obj["metadata"]
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def split_key(key: str) -> tuple[str, str]:
    """Namespace ("" for cluster scope) and name of a key."""
    namespace, slash, name = key.partition("/")
    return (namespace, name) if slash else ("", namespace)


def labels_of(obj: Obj) -> Mapping[str, str]:
    """The labels."""
    return metadata_of(obj).get("labels") or _NOTHING


def zone_key(labels: Mapping[str, str], names: Names) -> str:
    """Region and zone of a node as one key, "" without such labels.

    A beta label takes precedence, even an empty one (component-helpers node/topology GetZoneKey).
    """
    region = labels.get(names.label_beta_region, labels.get(names.label_region, ""))
    zone = labels.get(names.label_beta_zone, labels.get(names.label_zone, ""))
    # The zero byte separates ("a:", "b") from ("a", ":b"), as upstream.
    return f"{region}:\0:{zone}" if region or zone else ""


def annotations_of(obj: Obj) -> Mapping[str, str]:
    """The annotations."""
    return metadata_of(obj).get("annotations") or _NOTHING


def revision_of(obj: Obj) -> str:
    """The resourceVersion."""
    return str(obj["metadata"]["resourceVersion"])


def is_deleting(obj: Obj) -> bool:
    """True if the object has a deletion timestamp."""
    return "deletionTimestamp" in obj["metadata"]


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference that controls the object; None if there is none."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner  # type: ignore[no-any-return]
    return None


# --- reading below a path -------------------------------------------------------------------------


def spec_of(obj: Obj) -> Mapping[str, Any]:
    """The spec."""
    return obj.get("spec") or _NOTHING


def status_of(obj: Obj) -> Mapping[str, Any]:
    """The status."""
    return obj.get("status") or _NOTHING


def replicas_of(owner: Obj) -> int:
    """The number of pods that a workload wants."""
    return int(owner["spec"].get("replicas", 1))


def get_in(obj: Any, path: Sequence[str], default: Any = None) -> Any:
    """The value below map keys; the default if one of them is absent or null."""
    for field in path:
        if not isinstance(obj, dict):
            return default
        obj = obj.get(field)
        if obj is None:
            return default
    return obj


# --- path copies ----------------------------------------------------------------------------------


def replace_in(obj: Obj, path: Sequence[str], value: Any) -> Obj:
    """The object with `value` at the path; absent maps on the path are created."""
    field, rest = path[0], path[1:]
    if not rest:
        return obj if field in obj and obj[field] is value else {**obj, field: value}
    below = obj.get(field)
    changed = replace_in(below if below is not None else {}, rest, value)
    return obj if changed is below else {**obj, field: changed}


def remove_in(obj: Obj, path: Sequence[str]) -> Obj:
    """The object without the field at the path; maps on the path stay, even if empty."""
    field, rest = path[0], path[1:]
    if field not in obj:
        return obj
    if not rest:
        return {k: v for k, v in obj.items() if k != field}
    below = obj[field]
    if not isinstance(below, dict):
        return obj
    changed = remove_in(below, rest)
    return obj if changed is below else {**obj, field: changed}


def with_field(obj: Obj, name: str, value: Any) -> Obj:
    """The object with a top-level field set to `value`, or without the field if the value is None."""
    if value is None:
        return {k: v for k, v in obj.items() if k != name} if name in obj else obj
    return obj if name in obj and obj[name] is value else {**obj, name: value}


def with_metadata(obj: Obj, **fields: Any) -> Obj:
    """The object with these metadata fields set, or removed where None."""
    metadata = {**obj["metadata"], **fields}
    for name, value in fields.items():
        if value is None:
            del metadata[name]
    return {**obj, "metadata": metadata}


# --- conditions -----------------------------------------------------------------------------------


def condition_of(obj: Obj, type: str) -> Obj | None:
    """The status condition of a type; None if there is none."""
    for found in (obj.get("status") or _NOTHING).get("conditions") or ():
        if found["type"] == type:
            return found  # type: ignore[no-any-return]
    return None


def condition_status(obj: Obj, type: str) -> str:
    """The status of a condition: True, False or Unknown; "" if there is no such condition."""
    for found in (obj.get("status") or _NOTHING).get("conditions") or ():
        if found["type"] == type:
            return found["status"]  # type: ignore[no-any-return]
    return ""


def with_condition(obj: Obj, new: Mapping[str, Any]) -> Obj:
    """The object with the condition in place of the one of its type, or appended.

    `lastTransitionTime` of the old one is kept while the status is the same, as in every upstream
    helper.
    """
    conditions = (obj.get("status") or _NOTHING).get("conditions") or []
    for i, old in enumerate(conditions):
        if old["type"] == new["type"]:
            if old["status"] == new["status"] and "lastTransitionTime" in old:
                new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
            if old == new:
                return obj
            return replace_in(
                obj, ("status", "conditions"), [*conditions[:i], dict(new), *conditions[i + 1 :]]
            )
    return replace_in(obj, ("status", "conditions"), [*conditions, dict(new)])


# --- pods and nodes -------------------------------------------------------------------------------


def is_ready(pod: Obj) -> bool:
    """True if the Ready condition of a pod or a node is True."""
    return condition_status(pod, "Ready") == "True"


def phase_of(obj: Obj) -> str:
    """The phase in the status."""
    return str((obj.get("status") or _NOTHING).get("phase") or "")


def is_terminal(pod: Obj) -> bool:
    """True if the pod's containers have ended for good."""
    return (pod.get("status") or _NOTHING).get("phase") in TERMINAL


def is_active(pod: Obj) -> bool:
    """True if the pod has not ended and is not being deleted: a workload controller counts it
    (IsPodActive).
    """
    return (
        "deletionTimestamp" not in pod["metadata"]
        and (pod.get("status") or _NOTHING).get("phase") not in TERMINAL
    )
