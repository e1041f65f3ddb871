"""The filters and scores that look at one node alone, in upstream's order and integer arithmetic.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/{nodeunschedulable,nodename,tainttoleration,
         nodeaffinity,nodeports,noderesources,imagelocality}.
Differs  volume plugins let every node pass: volumes are stored, nothing is attached.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from actors.scheduler.cluster import NodeInfo, Taint
from actors.scheduler.match import holds
from actors.scheduler.pods import Port, Template, Toleration

IMAGE_LOW = 23 << 20  # ImageLocality: minThreshold
IMAGE_HIGH = 1000 << 20  # maxContainerThreshold, for each container
LOADS_MAX = 4_096  # whose score is remembered


class Status(NamedTuple):
    """Why a node does not do.  unresolvable: no preemption could change it."""

    plugin: str
    reasons: tuple[str, ...]
    unresolvable: bool = False


UNSCHEDULABLE = Status("NodeUnschedulable", ("node(s) were unschedulable",), True)
NODE_AFFINITY = Status("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), True)
AFFINITY_CONFLICT = Status("NodeAffinity", ("pod affinity terms conflict",), True)
PORTS = Status("NodePorts", ("node(s) didn't have free ports for the requested pod ports",))


@lru_cache(maxsize=1024)
def _untolerated(taint: Taint) -> Status:
    return Status("TaintToleration", (f"node(s) had untolerated taint {{{taint[0]}: {taint[1]}}}",), True)


@lru_cache(maxsize=1024)
def _insufficient(reasons: tuple[str, ...]) -> Status:
    return Status("NodeResourcesFit", reasons)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    key, value, effect = taint
    for want_key, operator, want_value, want_effect in tolerations:
        if want_effect and want_effect != effect:
            continue
        if want_key and want_key != key:
            continue
        if operator == "Exists" or (operator == "Equal" and want_value == value):
            return True
    return False


def matches_node(template: Template, node: NodeInfo) -> bool:
    """Node selector and required node affinity."""
    if not holds(template.node_selector, node.labels):
        return False
    if template.required is None:
        return True
    return any(not term.empty and term.holds(node.name, node.labels) for term in template.required)


def static_status(template: Template, node: NodeInfo, unschedulable_taint: str) -> Status | None:
    """Filters that look at the node's own properties only."""
    if node.unschedulable and not tolerates(template.tolerations, (unschedulable_taint, "", "NoSchedule")):
        return UNSCHEDULABLE
    for taint in node.taints:
        if taint[2] != "PreferNoSchedule" and not tolerates(template.tolerations, taint):
            return _untolerated(taint)
    return None if matches_node(template, node) else NODE_AFFINITY


def pods_status(template: Template, node: NodeInfo) -> Status | None:
    """Filters that look at the ports and resources taken on the node."""
    if template.ports and any(_taken(port, node) for port in template.ports):
        return PORTS
    short: list[str] = []
    if len(node.pods) + 1 > node.pods_max:
        short.append("Too many pods")
    want = template.request
    if not want.nothing:
        have, taken = node.allocatable, node.requested
        if want.cpu > have.cpu - taken.cpu:
            short.append("Insufficient cpu")
        if want.memory > have.memory - taken.memory:
            short.append("Insufficient memory")
        if want.ephemeral > have.ephemeral - taken.ephemeral:
            short.append("Insufficient ephemeral-storage")
        for name, amount in want.scalars.items():
            if amount > have.scalars.get(name, 0) - taken.scalars.get(name, 0):
                short.append(f"Insufficient {name}")
    return _insufficient(tuple(short)) if short else None


def _taken(port: Port, node: NodeInfo) -> bool:
    address, protocol, number = port
    if port in node.ports or ("0.0.0.0", protocol, number) in node.ports:
        return True
    return address == "0.0.0.0" and any(p == protocol and n == number for _, p, n in node.ports)


def admits(template: Template, node: NodeInfo) -> bool:
    """Whether a node that came or changed can be worth another try (preCheckForNode)."""
    return (
        matches_node(template, node)
        and pods_status(template, node) is None
        and all(t[2] != "NoSchedule" or tolerates(template.tolerations, t) for t in node.taints)
    )


# --- scores -----------------------------------------------------------------------------------------------


def preferred_weight(template: Template, node: NodeInfo) -> int:
    """NodeAffinity, before normalisation."""
    return sum(weight for weight, term in template.preferred if term.holds(node.name, node.labels))


def intolerable(template: Template, node: NodeInfo) -> int:
    """TaintToleration, before normalisation: PreferNoSchedule taints that are not tolerated."""
    if not node.taints:
        return 0
    mild = [t for t in template.tolerations if t[3] in ("", "PreferNoSchedule")]
    return sum(t[2] == "PreferNoSchedule" and not tolerates(mild, t) for t in node.taints)


def image_score(template: Template, node: NodeInfo, nodes_count: int) -> int:
    """ImageLocality."""
    if not node.images:
        return 0
    total = 0
    for name in template.images:
        held = node.images.get(name)
        if held is not None:
            total += int(float(held[0]) * (held[1] / nodes_count))
    high = IMAGE_HIGH * len(template.images)
    total = min(max(total, IMAGE_LOW), high)
    return 100 * (total - IMAGE_LOW) // (high - IMAGE_LOW)


def resource_score(template: Template, node: NodeInfo) -> int:
    """NodeResourcesFit (LeastAllocated over cpu and memory) plus NodeResourcesBalancedAllocation."""
    have = node.allocatable
    total, count = 0, 0
    for capacity, taken, wanted in (
        (have.cpu, node.scoring.cpu, template.scoring.cpu - template.unscored_cpu),
        (have.memory, node.scoring.memory, template.scoring.memory),
    ):
        if capacity:
            left = capacity - taken - wanted
            total += left * 100 // capacity if left > 0 else 0
            count += 1
    least = total // count if count else 0
    # Quirk: balance looks at what pods really ask for, without the defaults for those that ask nothing.
    spread = 0.0
    if have.cpu and have.memory:
        asked = template.request.cpu - template.unscored_cpu
        cpu = min((node.requested.cpu + asked) / have.cpu, 1.0)
        memory = min((node.requested.memory + template.request.memory) / have.memory, 1.0)
        spread = abs((cpu - memory) / 2)
    return least + int((1 - spread) * 100)


def known_score(template: Template, node: NodeInfo) -> int:
    """`resource_score`, which many nodes of one make and load have in common."""
    have, taken, counted = node.allocatable, node.requested, node.scoring
    load = (have.cpu, have.memory, taken.cpu, taken.memory, counted.cpu, counted.memory)
    known = template.asks.scores
    score = known.get(load)
    if score is None:
        if len(known) >= LOADS_MAX:
            known.clear()
        score = known[load] = resource_score(template, node)
    return score


def room_on(template: Template, node: NodeInfo) -> Status | int:
    """`pods_status`, or the score where that lets the node pass: worked out once for all classes that ask the same."""
    room: Status | int | None = node.rooms.get(template.asks)
    if room is None:
        room = pods_status(template, node) or known_score(template, node)
        node.rooms[template.asks] = room
    return room
