"""Conditions in words: "all nodes in zone a have Ready=Unknown".

    [all | each | any | no | at least N | at most N | exactly N] RESOURCE [in zone Z[,Z] | in
        namespace N | named N[,N] | on node N[,N] | labelled K=V | owned by NAME] ... (have | has |
        are | is) PREDICATE [and PREDICATE] ...    |    exist

    PREDICATE: TYPE=STATUS             a condition of the status       Ready=Unknown
               taint KEY[:EFFECT]      a taint of a node               taint unreachable:NoExecute
               Running, Pending, ...   the phase                       Running
               ready, terminating, bound, cordoned                     as kubectl shows them
               a.b.c=VALUE             a field; also != >= <=          status.readyReplicas=3
                                       (>=, <= by quantity)            status.capacity.memory>=16Gi
               held                    a lease with a holder
               led                     a lease with a holder that renewed it within its duration
               not PREDICATE

    [HOW MANY] (programs | containers) of pods [WHICH] [are running]     see `monitors.programs`
    [HOW MANY] requests to services [WHICH] are (answered | failing)     see `monitors.requests`
    the cluster is [not] steady [for DURATION]     see `monitors.quiet`

Without a quantifier a condition is about all objects; where something must never hold (`unsaid`),
about any.

Turns such text into a `Condition`: the quantifier, the selected objects, and the predicate for
each. Invalid text is a ValueError that quotes what is not understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.check.monitors.led import led_resource
from sim.check.monitors.quiet import steady_text
from sim.check.monitors.requests import REQUESTS
from sim.check.predicate import Test, has_part, parse_predicates
from sim.check.world import World
from sim.dataclass import dataclass
from sim.errors import suggestion
from sim.ident import NAMES, Names
from sim.patterns import pattern

Select = Callable[[World, str, Obj], bool]

_QUANTIFIER = pattern(r"^(all|each|every|any|some|no|(?:at least|at most|exactly) \d+)\s+", re.IGNORECASE)
_QUANTIFIERS = "all, each, any, no, at least 2, at most 2, exactly 2"
_VERB = pattern(r"\s+(?:(?:have|has|are|is)\s+(?P<what>.+)|(?P<exist>exists?))$")
_FILTER = pattern(r"\s+(in zone|in namespace|named|on node|labelled|owned by)\s+(\S+)")
_PROGRAMS = pattern(r"^(?P<many>.*?)(?P<what>programs|containers) of pods\b")
_REQUESTS = pattern(r"^(?P<many>.*?)requests to services\b")
_LED = pattern(r"\bled\b")
# Resources with objects that belong to a node by their names, besides those that are bound to one
# (see `World.node_of`).
_OF_NODES = ("nodes", "leases", "events")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, parsed.

    text: the condition as written
    quantifier, number: how many objects must fulfil the predicate (see `holds`)
    select, test: which objects are meant, and the predicate
    where: the selection from which `select` was built
    """

    text: str
    resource: str
    quantifier: str
    number: int
    select: Select
    test: Test
    where: Mapping[str, Any]

    @property
    def each(self) -> bool:
        """True if each object is measured by itself."""
        return self.quantifier == "each"

    def holds(self, selected: int, true: int) -> bool:
        """True if the condition holds for these numbers of objects."""
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


def parse_condition(text: str, names: Names, unsaid: str = "all") -> Condition:
    """Parse a condition; raises ValueError with what is not understood.

    unsaid: the quantifier of a condition without one
    """
    rest = " ".join(text.split())
    if (steady := steady_text(rest)) is not None:
        pseudo, target = steady
        return Condition(text, pseudo, "any", 0, _any, lambda obj: obj["steady"] is target, {})
    rest, runs = _programs(rest)
    rest, answered = _requests(rest)
    quantifier, number = unsaid, 0
    result = _QUANTIFIER.match(rest)
    if result:
        quantifier = {"every": "all", "some": "any"}.get(result[1].lower(), result[1].lower())
        head, _, tail = quantifier.rpartition(" ")
        if tail.isdigit():
            quantifier, number = head, int(tail)
        rest = rest[result.end() :]
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
        key, value = _FILTER_KEYS[item[1]], item[2]
        if key in where and key != "label":
            raise ValueError(f"'{item[1]}' is given twice; give alternatives as {where[key]},{value}")
        where[key] = f"{where[key]},{value}" if key in where else value
    rubbish = _FILTER.sub("", left).strip()
    if rubbish:
        raise ValueError(f"{rubbish!r} is not understood; filters are {', '.join(sorted(_FILTER_KEYS))}")
    check_resource(resource, names)
    check_where(resource, where, names)
    if (quantifier, number) == ("at least", 0):
        raise ValueError("at least 0 is always true; write at least 1, or no")
    test = parse_predicates(what, resource, names) if what else _true
    select = selector(where, names)
    if answered is not None:
        return Condition(
            text,
            REQUESTS,
            quantifier,
            number,
            _of(resource, select),
            lambda obj: obj["answered"] is answered,
            where,
        )
    if quantifier == "all" and not what:
        quantifier, number = "at least", 1
    if runs:
        return Condition(text, runs, quantifier, number, _of("pods", select), _true, where)
    if resource == "leases" and what and _LED.search(what):
        led = led_resource(where.get("namespace", ""))
        return Condition(text, led, quantifier, number, _of(resource, select), test, where)
    return Condition(text, resource, quantifier, number, select, test, where)


def _programs(rest: str) -> tuple[str, str]:
    """A condition about programs of pods as one about pods, and which; "" for another one.

    Raises ValueError if it asks more of them than that they run.
    """
    match = _PROGRAMS.match(rest)
    if match is None:
        return rest, ""
    verb = _VERB.search(rest)
    if verb is not None and verb["what"] not in (None, "running"):
        raise ValueError(
            f"{match['what']} of pods are running, or there are none; nothing else is known of them"
        )
    end = len(rest) if verb is None else verb.start()
    return f"{match['many'] or ''}pods{rest[match.end() : end]} exist", match["what"]


def _requests(rest: str) -> tuple[str, bool | None]:
    """A condition about requests to Services as one about Services, and whether they are answered;
    None for another one.

    Raises ValueError if it asks something else of them.
    """
    match = _REQUESTS.match(rest)
    if match is None:
        return rest, None
    verb = _VERB.search(rest)
    what = None if verb is None else verb["what"]
    if verb is None or what not in ("answered", "failing"):
        raise ValueError("requests to services are answered, or failing; nothing else is known of them")
    return f"{match['many'] or ''}services{rest[match.end() : verb.start()]} exist", what == "answered"


def _of(resource: str, select: Select) -> Select:
    """A selection of objects that are seen under the name of another resource."""
    return lambda world, _, obj: select(world, resource, obj)


@lru_cache(maxsize=8)
def _plurals(names: Names) -> tuple[str, ...]:
    return tuple(dict.fromkeys(resource.plural for resource in Scheme(names).resources))


def check_resource(plural: str, names: Names) -> None:
    """Raise ValueError if there is no such resource."""
    plurals = _plurals(names)
    if plural not in plurals:
        near = suggestion(plural, plurals)
        raise ValueError("; ".join(filter(None, (f"there is no resource {plural!r}", near))))


def check_where(resource: str, where: Mapping[str, Any], names: Names) -> None:
    """Raise ValueError if a selection key does not apply to objects of the resource, so that it
    would never select any.
    """
    if resource == "events":
        for key in ("owner", "label"):
            if key in where:
                raise ValueError(
                    f"an event has no {key}; it is selected by name and namespace (of its object) and node"
                )
    if "namespace" in where and not _namespaced(resource, names):
        raise ValueError(f"{resource} are in no namespace")
    if resource in _OF_NODES or has_part(resource, "spec.nodeName", names):
        return
    for key, relation in (("zone", "in no zone"), ("node", "on no node")):
        if key in where:
            remedy = "only pods, nodes, their leases and events can be selected so"
            raise ValueError(f"{resource} are {relation}; {remedy}")


def quantified(text: str) -> bool:
    """True if a condition has a quantifier."""
    return _QUANTIFIER.match(text.strip()) is not None


@lru_cache(maxsize=64)
def _namespaced(plural: str, names: Names) -> bool:
    return any(one.namespaced for one in Scheme(names).resources if one.plural == plural)


_FILTER_KEYS = {
    "in zone": "zone",
    "in namespace": "namespace",
    "named": "name",
    "on node": "node",
    "labelled": "label",
    "owned by": "owner",
}


def in_words(where: Mapping[str, Any]) -> str:
    """A selection as conditions write it: "in zone a labelled app=web"."""
    words = {key: word for word, key in _FILTER_KEYS.items()}
    return " ".join(f"{words[key]} {','.join(texts_of(value))}" for key, value in where.items())


def selector(where: Mapping[str, Any], names: Names) -> Select:
    """The predicate of a selection: every key must match; a value is a text, a comma list or a list
    of globs.

    Names of the other set of identifiers are accepted too.
    """
    checks: list[Select] = []
    ours = _ours(names)
    for key, value in where.items():
        target = texts_of(value)
        if not target or ("" in target and key in ("name", "namespace", "owner")):
            raise ValueError(f"{key}: {value!r} selects nothing")
        if key not in _SELECTORS:
            raise ValueError(f"{key!r} is no selector of objects; known are {', '.join(_SELECTORS)}")
        entry = [*target, *(ours[one] for one in target if one in ours)]
        checks.append(_SELECTORS[key](entry, ours))
    if not checks:
        return _any
    if len(checks) == 1:
        return checks[0]
    return lambda world, resource, obj: all(check(world, resource, obj) for check in checks)


@lru_cache(maxsize=8)
def _ours(names: Names) -> Mapping[str, str]:
    """Maps names of the other set of identifiers to those of this one."""
    here = vars(names)
    either = [pair for other in NAMES.values() for pair in vars(other).items()]
    return {theirs: here[key] for key, theirs in either if isinstance(theirs, str) and theirs != here[key]}


def texts_of(value: Any) -> list[str]:
    """The alternatives of a filter, of which any may match.  ValueError if there are none."""
    if value is None or isinstance(value, dict):
        raise ValueError(f"{value!r} selects nothing; give a text or a list of texts")
    return (
        [str(item) for item in value]
        if isinstance(value, list)
        else [one.strip() for one in str(value).split(",")]
    )


def misplaced(resource: str, where: Mapping[str, Any], zones: Mapping[str, str]) -> str:
    """Why a selection cannot match, if its node or zone does not exist; "" if it can.  zones: by
    node name.
    """
    entry = {
        "zone": tuple(dict.fromkeys(zones.values())),
        "node": tuple(zones),
        "name": tuple(zones) if resource == "nodes" else (),
    }
    for key, names in entry.items():
        for target in texts_of(where[key]) if key in where and names else ():
            if not any(fnmatchcase(name, target) for name in names):
                what = "zone" if key == "zone" else "node"
                few = ", ".join(name or '""' for name in names[:3]) + (" …" if len(names) > 3 else "")
                return f"there is no {what} {target!r} (there are {few})"
    return ""


def _any(world: World, resource: str, obj: Obj) -> bool:
    return True


def _true(obj: Obj) -> bool:
    return True


def _matches(value: str, wanted: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in wanted)


def _by_name(wanted: Sequence[str], _: Mapping[str, str]) -> Select:
    """Objects by their name; events also by the name of the object that they concern."""

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
        return any(_matches(owner, wanted) for owner in world.owners(obj))

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
