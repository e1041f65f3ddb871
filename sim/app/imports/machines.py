"""Node objects as groups of equal nodes, for the section `cluster.nodes` of a scenario.

Nodes are equal if they agree in labels, taints, region and capacity; the memory and disk of
machines of one type vary by a few kibibytes, so that amounts within one percent count as equal.  A
group deals its nodes to its zones in turn, so that nodes which are spread unevenly make several
groups.  Nodes keep their names, unless a scenario cannot have them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sim.app.imports.parts import Value
from sim.dataclass import dataclass
from sim.ident import NAMES
from sim.patterns import pattern
from sim.units import quantity_milli, quantity_value

_UPSTREAM = NAMES["kubernetes"]
_ZONE = pattern(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_PROCESS = pattern(r"(apiserver|controller-manager|scheduler)-\d+$|csi-|(storage|admin)$")
_NAME_MAX = 63
_MACHINES_HAVE = ("cpu", "memory", "pods", "ephemeral-storage")
_NEARLY = ("memory", "ephemeral-storage")
_TOLERANCE = 0.01
_EVICTION_HARD = 100 << 20  # memory that the default of eviction-hard takes off allocatable
_KIBI = 1 << 10


@dataclass(frozen=True, slots=True)
class _Node:
    """What is read of a Node."""

    name: str
    zone: str
    region: str
    capacity: Mapping[str, str]
    reserved: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    cordoned: bool

    @property
    def kind(self) -> tuple[Any, ...]:
        """Equal for nodes of one group, but for amounts that vary a little."""
        exact = {key: value for key, value in self.capacity.items() if key not in _NEARLY}
        return (
            self.region, sorted(exact.items()), sorted(self.labels.items()),
            [sorted(taint.items()) for taint in self.taints],
        )  # fmt: skip


class Machines(NamedTuple):
    """The nodes of a cluster.

    groups: of the field `cluster.nodes`
    steps: those that cordon some of the nodes
    names: the name of each node in the scenario, by that of its object
    """

    groups: list[Value]
    steps: list[Value]
    notes: list[str]
    names: Mapping[str, str]


def node_groups(objects: Sequence[Value]) -> Machines:
    """The nodes of Node objects."""
    own = _own_labels(objects)
    nodes = [_read(obj, own) for obj in sorted(objects, key=lambda each: _natural(each["metadata"]["name"]))]
    groups: list[Value] = []
    renamed: dict[str, str] = {}
    prefixes: dict[str, None] = {}
    for alike in _alike(nodes):
        for members, zones in _dealt(alike):
            prefix = _prefix(members, zones, prefixes)
            group = _group(members, zones, prefix)
            names, made = [node.name for node in members], _names(prefix, len(members), zones)
            if names != made and all(map(_can_be_named, names)):
                del group["prefix"]
                group["names"] = made = names
            groups.append(group)
            renamed.update(zip(names, made, strict=True))
    return Machines(groups, _cordons(nodes, renamed), _notes(nodes, renamed, own), renamed)


def _can_be_named(name: str) -> bool:
    """True if a scenario can have a node of this name: a short one that no process has."""
    return len(name) <= _NAME_MAX and bool(_ZONE.fullmatch(name)) and not _PROCESS.match(name)


def _read(obj: Value, own: Sequence[str]) -> _Node:
    names = _UPSTREAM
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    made = (
        names.label_hostname, names.label_zone, names.label_region, names.label_os, names.label_arch,
        names.label_beta_os, names.label_beta_arch, names.label_beta_zone, names.label_beta_region, *own,
    )  # fmt: skip
    capacity = status.get("capacity") or {}
    return _Node(
        name=str(metadata["name"]),
        zone=_zone(labels.get(names.label_zone) or labels.get(names.label_beta_zone) or ""),
        region=labels.get(names.label_region) or labels.get(names.label_beta_region) or "",
        capacity={key: str(value) for key, value in capacity.items() if _has(key, str(value))},
        reserved=_reserved(capacity, status.get("allocatable") or {}),
        labels={key: value for key, value in labels.items() if key not in made},
        taints=[_taint(each) for each in spec.get("taints") or () if not _is_lifecycle(each)],
        cordoned=bool(spec.get("unschedulable")),
    )


def _zone(text: str) -> str:
    """The zone as a scenario writes it."""
    return text if not text or _ZONE.fullmatch(text) else re.sub("[^a-z0-9.-]", "-", text.lower()).strip("-.")


def _has(resource: str, amount: str) -> bool:
    known = resource in _MACHINES_HAVE or resource.startswith("hugepages-") or "/" in resource
    return known and quantity_value(amount) > 0


def _reserved(capacity: Mapping[str, Any], allocatable: Mapping[str, Any]) -> str:
    """The flag kube-reserved by which the node has this much less for pods."""
    parts = []
    for resource, usual in (("cpu", 0), ("memory", _EVICTION_HARD)):
        if resource not in capacity or resource not in allocatable:
            continue
        scale = 1000 if resource == "cpu" else 1
        less = _amount(capacity[resource], scale) - _amount(allocatable[resource], scale) - usual
        if less > 0:
            parts.append(f"{resource}={less}m" if resource == "cpu" else f"{resource}={less // _KIBI}Ki")
    return ",".join(parts)


def _amount(text: Any, scale: int) -> int:
    return quantity_milli(str(text)) if scale == 1000 else quantity_value(str(text))


def _taint(given: Mapping[str, str]) -> dict[str, str]:
    return {key: given[key] for key in ("key", "value", "effect") if given.get(key)}


def _is_lifecycle(taint: Mapping[str, str]) -> bool:
    """True for taints that the control plane puts on nodes and takes away."""
    names = _UPSTREAM
    return taint.get("key") in (
        names.taint_not_ready, names.taint_unreachable, names.taint_unschedulable, names.taint_memory_pressure,
        names.taint_disk_pressure, names.taint_pid_pressure, names.taint_network_unavailable,
        names.taint_uninitialized, names.taint_shutdown,
    )  # fmt: skip


def _own_labels(objects: Sequence[Value]) -> list[str]:
    """The labels that have another value on each of several nodes, such as an instance's id."""
    values: dict[str, list[str]] = {}
    for obj in objects:
        for key, value in (obj["metadata"].get("labels") or {}).items():
            values.setdefault(key, []).append(value)
    if len(objects) < 3:
        return [_UPSTREAM.label_hostname]
    return sorted(
        key
        for key, found in values.items()
        if len(found) == len(objects) and max(Counter(found).values()) == 1
    )


def _alike(nodes: Sequence[_Node]) -> list[list[_Node]]:
    """The nodes in lists of those that are equal, in the order of their first names."""
    lists: list[list[_Node]] = []
    for node in nodes:
        for found in lists:
            if found[0].kind == node.kind and _near(found[0], node):
                found.append(node)
                break
        else:
            lists.append([node])
    return lists


def _near(first: _Node, second: _Node) -> bool:
    for resource in _NEARLY:
        one, other = (quantity_value(each.capacity.get(resource, "0")) for each in (first, second))
        if abs(one - other) > _TOLERANCE * max(one, other):
            return False
    return True


def _dealt(nodes: Sequence[_Node]) -> list[tuple[list[_Node], list[str]]]:
    """Equal nodes as groups that have as many nodes in each of their zones."""
    by_zone: dict[str, list[_Node]] = {}
    for node in nodes:
        by_zone.setdefault(node.zone, []).append(node)
    groups: list[tuple[list[_Node], list[str]]] = []
    if nowhere := by_zone.pop("", []):
        groups.append((nowhere, []))
    while by_zone:
        zones = sorted(by_zone)
        each = min(len(found) for found in by_zone.values())
        groups.append(([by_zone[zone][index] for index in range(each) for zone in zones], zones))
        by_zone = {zone: found[each:] for zone, found in by_zone.items() if len(found) > each}
    return groups


def _prefix(nodes: Sequence[_Node], zones: Sequence[str], taken: dict[str, None]) -> str:
    """A prefix for the names of a group: that of the nodes' own names if it gives the same ones,
    else their role or type, else "node".
    """
    first = nodes[0]
    own = first.name.removesuffix("-0").removesuffix(f"-{first.zone}")
    names = [node.name for node in nodes]
    if own not in taken and _names(own, len(nodes), zones) == names and all(map(_can_be_named, names)):
        taken[own] = None
        return own
    roles = [
        key.removeprefix(_UPSTREAM.label_node_role_prefix)
        for key in first.labels
        if key.startswith(_UPSTREAM.label_node_role_prefix)
    ]
    words = [*roles, first.labels.get(_UPSTREAM.label_instance_type, ""), "node"]
    wanted = next(word for word in (_zone(each) for each in words) if word and _ZONE.fullmatch(word))
    prefix, number = wanted, 2
    while prefix in taken:
        prefix, number = f"{wanted}-{number}", number + 1
    taken[prefix] = None
    return prefix


def _names(prefix: str, count: int, zones: Sequence[str]) -> list[str]:
    """The names that a scenario gives to the nodes of a group."""
    if not zones:
        return [f"{prefix}-{index}" for index in range(count)]
    return [f"{prefix}-{zones[index % len(zones)]}-{index // len(zones)}" for index in range(count)]


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A key by which node-2 comes before node-10."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def _group(nodes: Sequence[_Node], zones: Sequence[str], prefix: str) -> Value:
    first = nodes[0]
    least = {
        resource: min((each.capacity[resource] for each in nodes), key=quantity_value)
        for resource in _NEARLY
        if resource in first.capacity
    }
    group: Value = {"count": len(nodes), "prefix": prefix, "capacity": {**first.capacity, **least}}
    if zones:
        group["zones"] = [*zones]
    if first.region:
        group["region"] = first.region
    if first.labels:
        group["labels"] = {**first.labels}
    if first.taints:
        group["taints"] = [{**taint} for taint in first.taints]
    if first.reserved:
        group["flags"] = {"kube-reserved": first.reserved}
    return group


def _cordons(nodes: Sequence[_Node], renamed: Mapping[str, str]) -> list[Value]:
    closed = [renamed[node.name] for node in nodes if node.cordoned]
    return [{"at": "1s", "name": "cordoned", "cordon": {"nodes": {"name": closed}}}] if closed else []


def _notes(nodes: Sequence[_Node], renamed: Mapping[str, str], own: Sequence[str]) -> list[str]:
    notes = []
    other = [node.name for node in nodes if renamed[node.name] != node.name]
    if other:
        first = other[0]
        notes.append(f"nodes have new names ({len(other)} of {len(nodes)}): {first} is {renamed[first]}")
    if dropped := [key for key in own if key != _UPSTREAM.label_hostname]:
        notes.append(f"labels that name a single node are left out: {', '.join(dropped)}")
    if any(node.cordoned for node in nodes):
        notes.append("nodes that were cordoned are cordoned by the step `cordoned`")
    return notes
