"""Accessors and path copies over plain JSON objects, and the few things everybody asks of a pod or node.

Turns an object into what it says (name, labels, owner, a condition), or into a changed object that shares
every untouched part with the old one.

Holds: nothing here changes an argument.  A change that changes nothing returns the object itself, so callers can
ask `new is old`.  `metadata` may be missing; what is missing reads as "" or empty.

Mirrors  apimachinery v1.25 pkg/apis/meta/v1/{controller_ref,helpers}.go,
         kubernetes pkg/api/v1/pod/util.go, pkg/controller/controller_utils.go (IsPodActive).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

Obj = dict[str, Any]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


# --- metadata ---------------------------------------------------------------------------------------------


def metadata_of(obj: Obj) -> Mapping[str, Any]:
    return obj.get("metadata") or _NOTHING


def name_of(obj: Obj) -> str:
    return str(metadata_of(obj).get("name") or "")


def uid_of(obj: Obj) -> str:
    return str(metadata_of(obj).get("uid") or "")


def key_of(obj: Obj) -> str:
    """ "namespace/name", or "name" where there is no namespace: the key of informers and work queues."""
    meta = metadata_of(obj)
    namespace = meta.get("namespace")
    name = str(meta.get("name") or "")
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str, str]:
    """Namespace ("" for cluster scope) and name of a key."""
    namespace, slash, name = key.partition("/")
    return (namespace, name) if slash else ("", namespace)


def labels_of(obj: Obj) -> Mapping[str, str]:
    return metadata_of(obj).get("labels") or _NOTHING


def annotations_of(obj: Obj) -> Mapping[str, str]:
    return metadata_of(obj).get("annotations") or _NOTHING


def revision_of(obj: Obj) -> str:
    """The resource version as the object has it: decimal text, "" if it was never stored."""
    return str(metadata_of(obj).get("resourceVersion") or "")


def is_deleting(obj: Obj) -> bool:
    return metadata_of(obj).get("deletionTimestamp") is not None


def controller_of(obj: Obj) -> Mapping[str, Any] | None:
    """The one owner reference that controls the object."""
    for owner in metadata_of(obj).get("ownerReferences") or ():
        if owner.get("controller"):
            return owner  # type: ignore[no-any-return]
    return None


# --- reading below a path ---------------------------------------------------------------------------------


def spec_of(obj: Obj) -> Mapping[str, Any]:
    return obj.get("spec") or _NOTHING


def status_of(obj: Obj) -> Mapping[str, Any]:
    return obj.get("status") or _NOTHING


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


# --- conditions -------------------------------------------------------------------------------------------


def condition(obj: Obj, type: str) -> Mapping[str, Any] | None:
    """The status condition of that type."""
    for found in (obj.get("status") or _NOTHING).get("conditions") or ():
        if found["type"] == type:
            return found  # type: ignore[no-any-return]
    return None


def condition_status(obj: Obj, type: str) -> str:
    """ "True", "False" or "Unknown"; "" where there is no such condition."""
    found = condition(obj, type)
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
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Obj) -> bool:
    """Neither ended nor being deleted: what a workload controller counts."""
    return not is_terminal(pod) and not is_deleting(pod)


def is_available(pod: Obj, min_ready_us: int, now_us: int, ready_since_us: int) -> bool:
    """Ready for at least the given time.  The caller parses the transition time of the Ready condition."""
    return is_ready(pod) and (min_ready_us == 0 or ready_since_us + min_ready_us <= now_us)
