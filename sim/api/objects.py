"""Accessors and path copies over plain JSON objects, and the few things everybody asks of a pod or node.

Turns an object into what it says (name, labels, owner, a condition), or into a changed object that shares
every untouched part with the old one.

Holds: nothing here changes an argument.  A change that changes nothing returns the object itself, so callers can
ask `new is old`.  What an object of the API always has is taken to be there; what it may lack reads as "" or empty.

Mirrors  apimachinery v1.25 pkg/apis/meta/v1/{controller_ref,helpers}.go,
         kubernetes pkg/api/v1/pod/util.go, pkg/controller/controller_utils.go (IsPodActive).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sim.ident import Names

Obj = dict[str, Any]

TERMINAL = ("Succeeded", "Failed")  # phases that a pod never leaves

_NOTHING: Mapping[str, Any] = MappingProxyType({})


# --- metadata ---------------------------------------------------------------------------------------------


def metadata_of(obj: Obj) -> Mapping[str, Any]:
    return obj.get("metadata") or _NOTHING


def name_of(obj: Obj) -> str:
    return str(metadata_of(obj).get("name") or "")


def uid_of(obj: Obj) -> str:
    return str(obj["metadata"]["uid"])


def key_of(obj: Obj) -> str:
    """ "namespace/name", or "name" where there is no namespace: the key of informers and work queues."""
    meta = obj["metadata"]
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def split_key(key: str) -> tuple[str, str]:
    """Namespace ("" for cluster scope) and name of a key."""
    namespace, slash, name = key.partition("/")
    return (namespace, name) if slash else ("", namespace)


def labels_of(obj: Obj) -> Mapping[str, str]:
    return metadata_of(obj).get("labels") or _NOTHING


def zone_key(labels: Mapping[str, str], names: Names) -> str:
    """Region and zone of a node as one key; no labels, no zone: "".

    A beta label that is there wins, were it empty (component-helpers node/topology GetZoneKey).
    """
    region = labels.get(names.label_beta_region, labels.get(names.label_region, ""))
    zone = labels.get(names.label_beta_zone, labels.get(names.label_zone, ""))
    # the zero byte keeps ("a:", "b") apart from ("a", ":b"), as upstream
    return f"{region}:\0:{zone}" if region or zone else ""


def annotations_of(obj: Obj) -> Mapping[str, str]:
    return metadata_of(obj).get("annotations") or _NOTHING


def revision_of(obj: Obj) -> str:
    return str(obj["metadata"]["resourceVersion"])


def is_deleting(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def controller_of(obj: Obj) -> Obj | None:
    """The one owner reference that controls the object."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner  # type: ignore[no-any-return]
    return None


# --- reading below a path ---------------------------------------------------------------------------------


def spec_of(obj: Obj) -> Mapping[str, Any]:
    return obj.get("spec") or _NOTHING


def status_of(obj: Obj) -> Mapping[str, Any]:
    return obj.get("status") or _NOTHING


def replicas_of(owner: Obj) -> int:
    """How many pods a workload asks for."""
    return int(owner["spec"].get("replicas", 1))


def get_in(obj: Any, path: Sequence[str], default: Any = None) -> Any:
    """The value below map keys; the default where one of them is missing or null."""
    for field in path:
        if not isinstance(obj, dict):
            return default
        obj = obj.get(field)
        if obj is None:
            return default
    return obj


# --- path copies ------------------------------------------------------------------------------------------


def replace_in(obj: Obj, path: Sequence[str], value: Any) -> Obj:
    """The object with `value` at the path; maps on the way are made where missing."""
    field, rest = path[0], path[1:]
    if not rest:
        return obj if field in obj and obj[field] is value else {**obj, field: value}
    below = obj.get(field)
    changed = replace_in(below if below is not None else {}, rest, value)
    return obj if changed is below else {**obj, field: changed}


def remove_in(obj: Obj, path: Sequence[str]) -> Obj:
    """The object without what is at the path; maps on the way stay, empty or not."""
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


# --- conditions -------------------------------------------------------------------------------------------


def condition_of(obj: Obj, type: str) -> Obj | None:
    """The status condition of that type."""
    for found in (obj.get("status") or _NOTHING).get("conditions") or ():
        if found["type"] == type:
            return found  # type: ignore[no-any-return]
    return None


def condition_status(obj: Obj, type: str) -> str:
    """ "True", "False" or "Unknown"; "" where there is no such condition."""
    found = condition_of(obj, type)
    return str(found["status"]) if found is not None else ""


def with_condition(obj: Obj, new: Mapping[str, Any]) -> Obj:
    """The object with the condition in place of the one of its type, or appended.

    `lastTransitionTime` of the old one is kept while the status is the same, as every upstream helper does.
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


# --- pods and nodes ---------------------------------------------------------------------------------------


def is_ready(pod: Obj) -> bool:
    """The Ready condition is True (of a pod or a node)."""
    return condition_status(pod, "Ready") == "True"


def phase_of(obj: Obj) -> str:
    return str((obj.get("status") or _NOTHING).get("phase") or "")


def is_terminal(pod: Obj) -> bool:
    """Its containers have ended for good."""
    return phase_of(pod) in TERMINAL


def is_active(pod: Obj) -> bool:
    """Neither ended nor being deleted: what a workload controller counts (IsPodActive)."""
    return "deletionTimestamp" not in pod["metadata"] and not is_terminal(pod)
