"""Predicates about one object in words: `parse_predicates("status.replicas>=3", "deployments",
names)` is a test of objects.

Turns a predicate (see `sim.check.condition`) into a function of an object. A state or field that no
object of the resource can have, or a value that the field's type excludes, is a ValueError, because
the predicate could never be true, and the run would not show why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sim.api.objects import condition_status, is_ready
from sim.api.schema.field_schemas import OPEN_TYPES, SchemaNode
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.errors import suggestion, suggestion_or_all
from sim.ident import NAMES, TAINT_EFFECTS, Names
from sim.patterns import pattern
from sim.units import NANO, quantity_nano

Test = Callable[[Obj], bool]

# Phases that objects have here, core/v1 types.go; a node's phase is deprecated and never set.
PHASES: Mapping[str, tuple[str, ...]] = {
    "pods": ("Pending", "Running", "Succeeded", "Failed", "Unknown"),
    "namespaces": ("Active", "Terminating"),
    "persistentvolumeclaims": ("Pending", "Bound", "Lost"),
    "persistentvolumes": ("Available", "Bound", "Released", "Failed"),
}
# Conditions that objects have here. Custom controllers may set others, so others are accepted
# unless they look misspelt.
CONDITIONS: Mapping[str, tuple[str, ...]] = {
    "nodes": ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
    "pods": ("Ready", "Initialized", "ContainersReady", "PodScheduled", "DisruptionTarget"),
    "deployments": ("Available", "Progressing", "ReplicaFailure"),
    "replicasets": ("ReplicaFailure",),
    "replicationcontrollers": ("ReplicaFailure",),
    "jobs": ("Complete", "Failed", "Suspended", "FailureTarget"),
    "poddisruptionbudgets": ("DisruptionAllowed",),
    "horizontalpodautoscalers": ("AbleToScale", "ScalingActive", "ScalingLimited"),
    "customresourcedefinitions": ("Established", "NamesAccepted"),
    "apiservices": ("Available",),
    "namespaces": ("NamespaceContentRemaining", "NamespaceFinalizersRemaining", "NamespaceDeletionContentFailure",
                   "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure"),
}  # fmt: skip
STATUSES = ("True", "False", "Unknown")
_FIELD = pattern(
    r"^(?P<path>[A-Za-z][\w/\-]*(?:\.[\w/\-]+|\[[^\]\s]+\])*)\s*(?P<op>=|!=|>=|<=)\s*(?P<value>.+)$"
)
# A condition of any name: readiness gates have names with a domain, or names like the conditions of
# other kinds.
_NAMED_CONDITION = pattern(r"^condition (?P<kind>[^\s=!<>]+)\s*(?P<op>=|!=|>=|<=)\s*(?P<value>\S+)$")
_OTHER_COMPARISON = pattern(r"^[\w.\[\]/-]+\s*(==|[<>](?!=))")
_PART = pattern(r"(?<=\[)[^\]]+|[^.\[\]]+")  # a name in brackets may have dots
# type of a map's value (a label, an annotation): a string that may also look like a number
TEXT = "text"
_ORDERED = ("integer", "number", "quantity", "int-or-string")


def parse_predicates(text: str, resource: str, names: Names) -> Test:
    """The conjunction of predicates about objects of a resource: "ready and not terminating".
    Raises ValueError with the error.
    """
    tests = [parse_predicate(part, resource, names) for part in re.split(r"\s+and\s+", text)]
    if len(tests) == 1:
        return tests[0]
    return lambda obj: all(test(obj) for test in tests)


def parse_predicate(text: str, resource: str, names: Names) -> Test:
    """The test of one predicate about objects of a resource."""
    if text.startswith("not "):
        inner = parse_predicate(text[4:].lstrip(), resource, names)
        return lambda obj: not inner(obj)
    if text.startswith("taint "):
        _check_part(resource, "spec.taints", text, names)
        return _taint(text[6:], names)
    if (named := _NAMED_CONDITION.match(text)) is not None:
        _check_part(resource, "status.conditions", text, names)
        return _status_condition(named["kind"], named["op"], named["value"])
    if text in _STATES:
        _check_part(resource, _STATED_BY[text], text, names)
        if text == "ready":
            _check_condition(resource, "Ready", text, names)
        return _STATES[text]
    if any(text in phases for phases in PHASES.values()):
        _check_part(resource, "status.phase", text, names)
        _check_phase(resource, text)
        return lambda obj: (obj.get("status") or {}).get("phase") == text
    field = _FIELD.match(text)
    if field is None or _OTHER_COMPARISON.match(text):
        raise ValueError(f"{text!r} is not a predicate; {_remedy(text)}")
    if field["path"][0].isupper() and "." not in field["path"]:
        _check_part(resource, "status.conditions", text, names)
        condition = _status_condition(field["path"], field["op"], field["value"])
        _check_condition(resource, field["path"], text, names)
        return condition
    if field["value"] in STATUSES and "/" in field["path"] and has_part(resource, "status.conditions", names):
        _check_meant(resource, field["path"], text, names)
    return _field(resource, names, field["path"], field["op"], field["value"])


def _remedy(text: str) -> str:
    if _OTHER_COMPARISON.match(text):
        return "a field is compared by =, !=, >= and <="
    conditions = dict.fromkeys(kind for kinds in CONDITIONS.values() for kind in kinds)
    phases = dict.fromkeys(phase for phases in PHASES.values() for phase in phases)
    entry = (*_STATES, *phases, *(f"{kind}=True" for kind in conditions))
    near = suggestion(text, [one for one in entry if one.partition("=")[0].lower() == text.lower()] or entry)
    return near or "write e.g. Ready=Unknown, taint unreachable:NoExecute, Running or status.replicas=3"


# --- fields that objects of a resource can have
# ----------------------------------------------------


@lru_cache(maxsize=64)
def schemas(plural: str, names: Names) -> tuple[SchemaNode, ...]:
    """The schemas of a resource's objects, one for each group and version."""
    return tuple(resource.schema for resource in Scheme(names).resources if resource.plural == plural)


def has_part(resource: str, path: str, names: Names) -> bool:
    """True if objects of a resource can have this field."""
    for schema in schemas(resource, names):
        at: SchemaNode | None = schema
        for part in path.split("."):
            at = None if at is None else at.properties.get(part)
        if at is not None:
            return True
    return False


def _check_part(resource: str, path: str, text: str, names: Names) -> None:
    """Raise ValueError if objects of a resource have no field of which the predicate could be
    true.
    """
    if not has_part(resource, path, names):
        raise ValueError(f"{text!r} is true of no {resource}: they have no {path}")


def _check_phase(resource: str, phase: str) -> None:
    """Raise ValueError if objects of a resource never have this phase."""
    phases = PHASES.get(resource, ())
    if phase in phases:
        return
    if phase == "Terminating":
        remedy = "write terminating for those with a deletionTimestamp"
    elif not phases:
        remedy = f"no phase of {resource} is ever set"
    else:
        remedy = f"their phases are {', '.join(phases)}"
    raise ValueError(f"{phase!r} is true of no {resource}; {remedy}")


def _check_condition(resource: str, kind: str, text: str, names: Names) -> None:
    """Raise ValueError if a condition belongs to other resources only, or looks misspelt."""
    ours, entry = (
        CONDITIONS.get(resource, ()),
        dict.fromkeys(one for kinds in CONDITIONS.values() for one in kinds),
    )
    if kind in ours:
        return
    if kind not in entry:
        if near := suggestion(kind, entry, similarity_min=0.8):
            raise ValueError(f"{kind!r} is no known condition; {near}")
        return
    remedy = f"their conditions are {', '.join(ours)}" if ours else "no component sets conditions on them"
    if kind == "Ready" and has_part(resource, "status.readyReplicas", names):
        remedy += "; write e.g. status.readyReplicas>=3"
    elif resource == "pods":
        remedy += f"; of one that a readiness gate names so, write condition {text}"
    raise ValueError(f"no {resource} have the condition {kind} of {text!r}; {remedy}")


def _check_meant(resource: str, path: str, text: str, names: Names) -> None:
    """Raise ValueError with a remedy if this is not a field but may be a condition with a domain."""
    try:
        _type_at(resource, names, path)
    except ValueError as error:
        raise ValueError(f"{error}; of a condition write condition {text}") from None


# --- conditions of the status, taints -------------------------------------------------------------


def _status_condition(kind: str, op: str, value: str) -> Test:
    if op not in ("=", "!="):
        raise ValueError(f"the condition {kind} can be compared by = and != only")
    if value not in STATUSES:
        raise ValueError(f"the condition {kind} is True, False or Unknown, never {value!r}")
    return lambda obj: (condition_status(obj, kind) == value) == (op == "=")


def _taint(text: str, names: Names) -> Test:
    key, _, effect = text.partition(":")
    if not key:
        raise ValueError(f"'taint {text}' names no key; write e.g. taint unreachable:NoExecute")
    if effect and effect not in TAINT_EFFECTS:
        raise ValueError(f"{effect!r} is no effect of a taint; {suggestion_or_all(effect, TAINT_EFFECTS)}")
    full = _taint_key(key, names)

    def check(obj: Obj) -> bool:
        taints = (obj.get("spec") or {}).get("taints") or ()
        return any(t["key"] == full and effect in ("", t["effect"]) for t in taints)

    return check


def _taint_key(key: str, names: Names) -> str:
    """The key of a taint given by a short name or by a name of either set of identifiers; other
    keys are returned unchanged.
    """
    short: dict[str, str] = {}
    whole: dict[str, str] = {}
    for attribute in (one for one in dir(names) if one.startswith("taint_")):
        full = short[attribute.removeprefix("taint_").replace("_", "-")] = getattr(names, attribute)
        whole |= {getattr(either, attribute): full for either in NAMES.values()}
    entry = short | whole
    near = "" if key in entry or "/" in key else suggestion(key, short, similarity_min=0.8)
    if near:
        raise ValueError(f"{key!r} is no known taint; {near}")
    return entry.get(key, key)


# --- fields ---------------------------------------------------------------------------------------


def _field(resource: str, names: Names, path: str, op: str, value: str) -> Test:
    """Compare a field by its type; a missing number is 0, and a missing boolean is false."""
    kind = _type_at(resource, names, path)
    parts = _PART.findall(path)
    if op in (">=", "<="):
        if kind not in ("", TEXT, *_ORDERED):
            raise ValueError(f"{path} is a {kind}; {op} compares numbers and quantities")
        limit = _limit(value, f"which {op} compares")

        def ordered(obj: Obj) -> bool:
            number = _nano(_at(obj, parts))
            return number is not None and (number >= limit if op == ">=" else number <= limit)

        return ordered
    if kind in ("integer", "number", "quantity"):
        amount = _limit(value, f"which {path} is")
        return lambda obj: (_nano(_at(obj, parts)) == amount) == (op == "=")
    if path == "status.phase":
        _check_phase(resource, value)
    if kind == "boolean" and value not in ("true", "false"):
        raise ValueError(f"{path} is true or false, never {value!r}")
    absent = {"boolean": ("false",), "": ("0", "false"), "int-or-string": ("0",)}.get(kind, ())

    def equal(obj: Obj) -> bool:
        at = _at(obj, parts)
        shown = str(at).lower() if isinstance(at, bool) else str(at)
        return (value in absent if at is None else shown == value) == (op == "=")

    return equal


def _limit(value: str, which: str) -> int:
    try:
        return quantity_nano(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number or quantity, {which}") from None


def _at(obj: Obj, parts: Sequence[str]) -> Any:
    """The value at a path; None if it is missing."""
    at: Any = obj
    for part in parts:
        if isinstance(at, dict):
            at = at.get(part)
        elif isinstance(at, list) and part.isdigit() and int(part) < len(at):
            at = at[int(part)]
        else:
            return None
    return at


def _nano(value: Any) -> int | None:
    """A number or quantity in nano units, 0 for a missing one; None if it is neither."""
    if value is None or isinstance(value, int):
        return (value or 0) * NANO
    try:
        return quantity_nano(value) if isinstance(value, str | float) else None
    except ValueError:
        return None


def _type_at(resource: str, names: Names, path: str) -> str:
    """The type of the value at a path into objects of a resource; "" if it may be any type."""
    problems = []
    for schema in schemas(resource, names):
        try:
            return _type_in(schema, path)
        except ValueError as error:
            problems.append(str(error))
    raise ValueError(problems[0])


def _type_in(schema: SchemaNode, path: str) -> str:
    at: SchemaNode | None = schema
    where, free = "an object", False
    for part in _PART.findall(path):
        if at is None or at.type in OPEN_TYPES:
            return ""
        free = at.type == "map"
        if at.type == "array":
            if not part.isdigit():
                raise ValueError(f"{where} is a list; write {where}[0] for its first item")
            at, where = at.items, f"{where}[{part}]"
            continue
        if at.type == "map":
            at = at.values
        elif part in at.properties:
            at = at.properties[part]
        else:
            near = suggestion(part, at.properties)
            raise ValueError("; ".join(filter(None, (f"{where} has no field {part!r}", near))))
        where = part if where == "an object" else f"{where}.{part}"
    if at is None or at.type in OPEN_TYPES:
        return ""
    if at.type in ("object", "map", "array"):
        raise ValueError(f"{where} is no single value")
    return TEXT if free and at.type == "string" else at.type


# The field that decides each state.
_STATED_BY = {
    "ready": "status.conditions",
    "terminating": "metadata.deletionTimestamp",
    "bound": "spec.nodeName",
    "cordoned": "spec.unschedulable",
    "held": "spec.holderIdentity",
    "led": "spec.holderIdentity",
}
_STATES: dict[str, Test] = {
    "ready": is_ready,
    "terminating": lambda obj: "deletionTimestamp" in obj["metadata"],
    "bound": lambda obj: bool((obj.get("spec") or {}).get("nodeName")),
    "cordoned": lambda obj: bool((obj.get("spec") or {}).get("unschedulable")),
    "held": lambda obj: bool((obj.get("spec") or {}).get("holderIdentity")),
    "led": lambda obj: bool(obj.get("led")),  # as `sim.check.monitors.led` shows leases
}
