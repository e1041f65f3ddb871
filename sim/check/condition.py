"""Conditions in words: "all nodes in zone a have Ready=Unknown".

    [all | each | any | no | at least N | at most N | exactly N] RESOURCE
        [in zone Z[,Z] | in namespace N | named N[,N] | on node N[,N] | labelled K=V | owned by NAME] ...
        (have | has | are | is) PREDICATE [and PREDICATE] ...    |    exist

    PREDICATE: TYPE=STATUS             a condition of the status       Ready=Unknown
               taint KEY[:EFFECT]      a taint of a node               taint unreachable:NoExecute
               Running, Pending, ...   the phase                       Running
               ready, terminating, bound, cordoned                     as kubectl shows them
               a.b.c=VALUE             a field; also != >= <=, which   status.readyReplicas=3
                                       compare quantities              status.allocatable.memory>=16Gi
               held                    a lease with a holder
               not PREDICATE

Turns such text into a `Condition`: how many objects, which ones, and what must be true of each.  Bad text is a
ValueError that says what is not understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from sim.check.world import Obj, World
from sim.errors import suggestion, suggestion_or_all
from sim.ident import NAMES, TAINT_EFFECTS, Names
from sim.machinery.objects import condition_status, is_ready
from sim.machinery.schema import OPEN_TYPES, SchemaNode
from sim.machinery.scheme import Scheme
from sim.units import NANO, quantity_nano

Select = Callable[[World, str, Obj], bool]
Test = Callable[[Obj], bool]

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Active", "Terminating", "Bound")
# Conditions that objects have here: any other may be given by whoever makes custom ones, unless it looks misspelt.
CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Initialized",
              "ContainersReady", "PodScheduled", "DisruptionTarget", "Available", "Progressing", "ReplicaFailure",
              "Complete", "Failed", "Suspended", "Established", "NamesAccepted", "DisruptionAllowed", "ScalingActive",
              "AbleToScale", "ScalingLimited")  # fmt: skip
_QUANTIFIER = re.compile(r"^(all|each|every|any|some|no|(?:at least|at most|exactly) \d+)\s+", re.IGNORECASE)
_QUANTIFIERS = "all, each, any, no, at least 2, at most 2, exactly 2"
_VERB = re.compile(r"\s+(?:(?:have|has|are|is)\s+(?P<what>.+)|(?P<exist>exists?))$")
_FILTER = re.compile(r"\s+(in zone|in namespace|named|on node|labelled|owned by)\s+(\S+)")
_FIELD = re.compile(
    r"^(?P<path>[A-Za-z][\w/\-]*(?:\.[\w/\-]+|\[\d+\])*)\s*(?P<op>=|!=|>=|<=)\s*(?P<value>.+)$"
)
_PART = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class Condition:
    """text as written; `holds(selected, true)` decides from the two counts; where: what `select` was made from."""

    text: str
    resource: str
    quantifier: str
    number: int
    select: Select
    test: Test
    where: Mapping[str, Any]

    @property
    def each(self) -> bool:
        return self.quantifier == "each"

    def holds(self, selected: int, true: int) -> bool:
        quantifier, number = self.quantifier, self.number
        if quantifier in ("all", "each"):
            return selected > 0 and true == selected
        if quantifier == "any":
            return true > 0
        if quantifier == "no":
            return true == 0
        if quantifier == "at least":
            return true >= number
        if quantifier == "at most":
            return true <= number
        return true == number


def parse_condition(text: str, names: Names) -> Condition:
    """Read a condition.  Raises ValueError with what is not understood."""
    rest = " ".join(text.split())
    quantifier, number = "all", 0
    found = _QUANTIFIER.match(rest)
    if found:
        quantifier = {"every": "all", "some": "any"}.get(found[1].lower(), found[1].lower())
        head, _, tail = quantifier.rpartition(" ")
        if tail.isdigit():
            quantifier, number = head, int(tail)
        rest = rest[found.end() :]
    verb = _VERB.search(rest)
    if verb is None:
        raise ValueError(
            f"{text!r} has no 'have', 'are' or 'exist'; write e.g. 'all nodes in zone a have Ready=Unknown'"
        )
    head, what = rest[: verb.start()], verb["what"]
    resource = head.split(" ", 1)[0].lower()
    if not resource.endswith("s"):
        raise ValueError(
            f"{resource!r} is not a resource; write the plural, e.g. 'pods', and before it nothing or one of {_QUANTIFIERS}"
        )
    where: dict[str, str] = {}
    left = head[len(resource) :]
    for item in _FILTER.finditer(left):
        where[_FILTER_KEYS[item[1]]] = item[2]
    rubbish = _FILTER.sub("", left).strip()
    if rubbish:
        raise ValueError(f"{rubbish!r} is not understood; filters are {', '.join(sorted(_FILTER_KEYS))}")
    check_resource(resource, names)
    parts = re.split(r"\s+and\s+", what) if what else []
    test = _all_of([parse_predicate(part, resource, names) for part in parts]) if parts else _true
    if quantifier == "all" and not what:
        quantifier, number = "at least", 1
    return Condition(text, resource, quantifier, number, selector(where, names), test, where)


@lru_cache(maxsize=8)
def _plurals(names: Names) -> tuple[str, ...]:
    return tuple(dict.fromkeys(resource.plural for resource in Scheme(names).resources))


def check_resource(plural: str, names: Names) -> None:
    """ValueError if there is no such resource."""
    plurals = _plurals(names)
    if plural not in plurals:
        near = suggestion(plural, plurals)
        raise ValueError("; ".join(filter(None, (f"there is no resource {plural!r}", near))))


_FILTER_KEYS = {
    "in zone": "zone",
    "in namespace": "namespace",
    "named": "name",
    "on node": "node",
    "labelled": "label",
    "owned by": "owner",
}


def selector(where: Mapping[str, Any], names: Names) -> Select:
    """Which objects: every given key must agree; values are a text, a comma list or a list of globs.

    What the other set of identifiers calls otherwise may be called so.
    """
    checks: list[Select] = []
    ours = _ours(names)
    for key, value in where.items():
        wanted = _wanted(value)
        if key not in _SELECTORS:
            raise ValueError(
                f"{key!r} is not something objects are told apart by; known are {', '.join(_SELECTORS)}"
            )
        known = [*wanted, *(ours[one] for one in wanted if one in ours)]
        checks.append(_SELECTORS[key](known, ours))
    if not checks:
        return _any
    if len(checks) == 1:
        return checks[0]
    return lambda world, resource, obj: all(check(world, resource, obj) for check in checks)


@lru_cache(maxsize=8)
def _ours(names: Names) -> Mapping[str, str]:
    """What the other set of identifiers calls otherwise, and what it is here."""
    here = vars(names)
    either = [pair for other in NAMES.values() for pair in vars(other).items()]
    return {theirs: here[key] for key, theirs in either if isinstance(theirs, str) and theirs != here[key]}


def _wanted(value: Any) -> list[str]:
    if value is None or isinstance(value, dict):
        raise ValueError(f"{value!r} selects nothing; give a text or a list of texts")
    return [str(item) for item in value] if isinstance(value, list) else str(value).split(",")


def misplaced(resource: str, where: Mapping[str, Any], zones: Mapping[str, str]) -> str:
    """What is wrong with a selection whose node or zone does not exist; "" if nothing.  zones: by the name of the node."""
    known = {
        "zone": tuple(dict.fromkeys(zones.values())),
        "node": tuple(zones),
        "name": tuple(zones) if resource == "nodes" else (),
    }
    for key, names in known.items():
        for wanted in _wanted(where[key]) if key in where and names else ():
            if not any(fnmatchcase(name, wanted) for name in names):
                what = "zone" if key == "zone" else "node"
                few = ", ".join(name or '""' for name in names[:3]) + (" …" if len(names) > 3 else "")
                return f"there is no {what} {wanted!r} (there are {few})"
    return ""


def _any(world: World, resource: str, obj: Obj) -> bool:
    return True


def _true(obj: Obj) -> bool:
    return True


def _matches(value: str, wanted: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in wanted)


def _by_name(wanted: Sequence[str], _: Mapping[str, str]) -> Select:
    """Objects by their name; events also by the name of what they are about."""

    def check(world: World, resource: str, obj: Obj) -> bool:
        if _matches(obj["metadata"]["name"], wanted):
            return True
        return resource == "events" and _matches(obj["involvedObject"].get("name", ""), wanted)

    return check


def _by_label(wanted: Sequence[str], ours: Mapping[str, str]) -> Select:
    pairs = [pair.partition("=")[::2] for pair in wanted]
    for pair, (key, _) in zip(wanted, pairs, strict=True):
        if "=" not in pair or not key or key.endswith("!"):
            raise ValueError(f"the label {pair!r} is not KEY=VALUE")

    def check(world: World, resource: str, obj: Obj) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(value in (labels.get(key), labels.get(ours.get(key, key))) for key, value in pairs)

    return check


def _by_owner(wanted: Sequence[str], _: Mapping[str, str]) -> Select:
    def check(world: World, resource: str, obj: Obj) -> bool:
        owners = obj["metadata"].get("ownerReferences") or ()
        return any(_matches(owner["name"], wanted) for owner in owners)

    return check


_SELECTORS: dict[str, Callable[[Sequence[str], Mapping[str, str]], Select]] = {
    "zone": lambda wanted, _: lambda world, resource, obj: world.zone_of(resource, obj) in wanted,
    "namespace": lambda wanted, _: (
        lambda world, resource, obj: _matches(obj["metadata"].get("namespace", ""), wanted)
    ),
    "name": _by_name,
    "node": lambda wanted, _: lambda world, resource, obj: _matches(world.node_of(resource, obj), wanted),
    "label": _by_label,
    "owner": _by_owner,
}


# --- predicates ---------------------------------------------------------------------------------------------


def _all_of(tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    return lambda obj: all(test(obj) for test in tests)


def parse_predicate(text: str, resource: str, names: Names) -> Test:
    """One thing that may be true of an object of a resource."""
    if text.startswith("not "):
        inner = parse_predicate(text[4:], resource, names)
        return lambda obj: not inner(obj)
    if text.startswith("taint "):
        _check_part(resource, "spec.taints", text, names)
        return _taint(text[6:], names)
    if text in _STATES:
        _check_part(resource, _STATED_BY[text], text, names)
        return _STATES[text]
    if text in PHASES:
        _check_part(resource, "status.phase", text, names)
        return lambda obj: (obj.get("status") or {}).get("phase") == text
    field = _FIELD.match(text)
    if field is None:
        known = (*_STATES, *PHASES, *(f"{kind}=True" for kind in CONDITIONS))
        near = suggestion(
            text, [one for one in known if one.partition("=")[0].lower() == text.lower()] or known
        )
        example = "write e.g. Ready=Unknown, taint unreachable:NoExecute, Running or status.replicas=3"
        raise ValueError(f"{text!r} is not a predicate; {near or example}")
    if field["path"][0].isupper() and "." not in field["path"]:
        _check_part(resource, "status.conditions", text, names)
        return _status_condition(field["path"], field["op"], field["value"])
    problems = [_misspelt(schema, field["path"]) for schema in _schemas(resource, names)]
    if all(problems):
        raise ValueError(problems[0])
    return _field(field["path"], field["op"], field["value"])


@lru_cache(maxsize=64)
def _schemas(plural: str, names: Names) -> tuple[SchemaNode, ...]:
    return tuple(resource.schema for resource in Scheme(names).resources if resource.plural == plural)


def _check_part(resource: str, path: str, text: str, names: Names) -> None:
    """ValueError if objects of a resource have no such part, by which alone the predicate could be true of them."""
    for schema in _schemas(resource, names):
        at: SchemaNode | None = schema
        for part in path.split("."):
            at = None if at is None else at.properties.get(part)
        if at is not None:
            return
    raise ValueError(f"{text!r} is true of no {resource}: they have no {path}")


def _misspelt(schema: SchemaNode, path: str) -> str:
    """What is wrong with a path into objects of this form; "" if nothing."""
    at: SchemaNode | None = schema
    where = "an object"
    for part in _PART.findall(path):
        if at is None or at.type in OPEN_TYPES:
            return ""
        if at.type == "array":
            if not part.isdigit():
                return f"{where} is a list; write {where}[0] for its first item"
            at, where = at.items, f"{where}[{part}]"
            continue
        if at.type == "map":
            at = at.values
        elif part in at.properties:
            at = at.properties[part]
        else:
            near = suggestion(part, at.properties)
            return "; ".join(filter(None, (f"{where} has no field {part!r}", near)))
        where = part if where == "an object" else f"{where}.{part}"
    return f"{where} is no single value" if at is not None and at.type in ("object", "map", "array") else ""


def _status_condition(kind: str, op: str, value: str) -> Test:
    if op not in ("=", "!="):
        raise ValueError(f"the condition {kind} can be compared by = and != only")
    if value not in ("True", "False", "Unknown"):
        raise ValueError(f"the condition {kind} is True, False or Unknown, never {value!r}")
    near = "" if kind in CONDITIONS else suggestion(kind, CONDITIONS, likeness=0.8)
    if near:
        raise ValueError(f"{kind!r} is no condition that is known; {near}")
    return lambda obj: (condition_status(obj, kind) == value) == (op == "=")


def _taint(text: str, names: Names) -> Test:
    key, _, effect = text.partition(":")
    if effect and effect not in TAINT_EFFECTS:
        raise ValueError(f"{effect!r} is no effect of a taint; {suggestion_or_all(effect, TAINT_EFFECTS)}")
    full = _taint_key(key, names)

    def check(obj: Obj) -> bool:
        taints = (obj.get("spec") or {}).get("taints") or ()
        return any(t["key"] == full and effect in ("", t["effect"]) for t in taints)

    return check


def _taint_key(key: str, names: Names) -> str:
    """The key of a taint that is named shortly, or by either set of identifiers; any other is somebody's own."""
    short: dict[str, str] = {}
    whole: dict[str, str] = {}
    for attribute in (one for one in dir(names) if one.startswith("taint_")):
        full = short[attribute.removeprefix("taint_").replace("_", "-")] = getattr(names, attribute)
        whole |= {getattr(either, attribute): full for either in NAMES.values()}
    known = short | whole
    near = "" if key in known or "/" in key else suggestion(key, short, likeness=0.8)
    if near:
        raise ValueError(f"{key!r} is no taint that is known; {near}")
    return known.get(key, key)


def _field(path: str, op: str, value: str) -> Test:
    parts = _PART.findall(path)

    def check(obj: Obj) -> bool:
        at: Any = obj
        for part in parts:
            if isinstance(at, dict):
                at = at.get(part)
            elif isinstance(at, list) and part.isdigit() and int(part) < len(at):
                at = at[int(part)]
            else:
                at = None
                break
        if op in (">=", "<="):
            number = _nano(at)
            return number is not None and (number >= limit if op == ">=" else number <= limit)
        shown = str(at).lower() if isinstance(at, bool) else "" if at is None else str(at)
        return (shown == value or (at is None and value == "0")) == (op == "=")

    limit = 0
    if op in (">=", "<="):
        try:
            limit = quantity_nano(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a number or quantity, which {op} compares") from None
    return check


def _nano(value: Any) -> int | None:
    """A number or quantity in nano units, an absent one as 0; None if it is none."""
    if value is None or isinstance(value, int):
        return (value or 0) * NANO
    try:
        return quantity_nano(value) if isinstance(value, str | float) else None
    except ValueError:
        return None


# Of each state the part of an object that says it.
_STATED_BY = {
    "ready": "status.conditions",
    "terminating": "metadata.deletionTimestamp",
    "bound": "spec.nodeName",
    "cordoned": "spec.unschedulable",
    "held": "spec.holderIdentity",
}
_STATES: dict[str, Test] = {
    "ready": is_ready,
    "terminating": lambda obj: "deletionTimestamp" in obj["metadata"],
    "bound": lambda obj: bool((obj.get("spec") or {}).get("nodeName")),
    "cordoned": lambda obj: bool((obj.get("spec") or {}).get("unschedulable")),
    "held": lambda obj: bool((obj.get("spec") or {}).get("holderIdentity")),
}
