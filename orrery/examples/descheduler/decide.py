"""Which pods a descheduler evicts.  Pure.

Turns nodes, pods and a policy into a plan: a generator that yields one eviction after another and
is sent whether the API server granted it, since a refused eviction frees nothing.

- RemoveDuplicates: pods of one owner with the same images share a node although other nodes would
  accept them.  Each node keeps as many as the nodes that accept such pods would have on average.
- LowNodeUtilization: pods of nodes above the target thresholds are evicted, as long as nodes below
  the low thresholds have room for them.

Holds: nothing is evicted that has no other place to go: a pod of a DaemonSet, a mirror pod, one
    without an owner or with local storage, or a system-critical one.

Mirrors  kubernetes-sigs/descheduler v0.25 pkg/framework/plugins: removeduplicates, nodeutilization
         (LowNodeUtilization), defaultevictor; pkg/descheduler/node: ReadyNodes.
Differs  owners and nodes are looked at in the order of their names, where upstream's is random; the
         evictor's options are those of its defaults.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import field
from math import ceil
from typing import NamedTuple

from actors.node.pod_spec import CRITICAL_PRIORITY, priority_of
from orrery.examples.placing import (
    PODS,
    Amounts,
    Place,
    accepts,
    has_local_storage,
    is_bound_to_node,
    node_amounts,
    places_of,
    pod_amounts,
)
from sim.api.objects import is_deleting, is_ready, name_of, uid_of
from sim.api.scheduling import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    qos_class,
    taint_of,
    tolerates,
    tolerations_of,
)
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import MINUTE

QOS_ORDER = (BEST_EFFORT, BURSTABLE, GUARANTEED)  # evicted in this order
WHOLE = 100.0  # the threshold of a resource that the policy does not name


def _percent(value: float) -> Mapping[str, float]:
    return {"cpu": value, "memory": value, PODS: value}


@dataclass(frozen=True, slots=True)
class Policy:
    """What the descheduler does.

    interval_us: the time between two passes
    low, target: percent of each resource, below which a node is underutilized (in all of them), and
        above which it is overutilized (in one of them)
    low_nodes_min: nothing is moved unless more nodes than this are underutilized
    per_node_max: pods of one node that a pass evicts at most; None: no limit
    removes_duplicates, balances: the strategies
    """

    interval_us: int = 5 * MINUTE
    low: Mapping[str, float] = field(default_factory=lambda: _percent(20))
    target: Mapping[str, float] = field(default_factory=lambda: _percent(50))
    low_nodes_min: int = 0
    per_node_max: int | None = None
    removes_duplicates: bool = True
    balances: bool = True


class Eviction(NamedTuple):
    """A pod to evict from its node.  strategy: the reason"""

    pod: Obj
    node: str
    strategy: str


Plan = Generator[Eviction, bool, None]


def plan(nodes: Sequence[Obj], pods: Sequence[Obj], policy: Policy, names: Names) -> Plan:
    """The evictions of one pass; each is sent True if it was granted."""
    ready = sorted((node for node in nodes if is_ready(node)), key=name_of)
    counts: dict[str, int] = {}  # granted evictions by node
    gone: dict[str, None] = {}  # uids of evicted pods

    def limited(steps: Plan) -> Plan:
        """The steps of a strategy within the limit of each node."""
        eviction = next(steps, None)
        while eviction is not None:
            granted = False
            if policy.per_node_max is None or counts.get(eviction.node, 0) < policy.per_node_max:
                granted = yield eviction
            if granted:
                counts[eviction.node] = counts.get(eviction.node, 0) + 1
                gone[uid_of(eviction.pod)] = None
            try:
                eviction = steps.send(granted)
            except StopIteration:
                return

    if policy.removes_duplicates:
        yield from limited(_duplicates(ready, pods, names))
    if policy.balances:
        left = [pod for pod in pods if uid_of(pod) not in gone]
        yield from limited(_unbalanced(ready, left, policy, names))


def is_evictable(pod: Obj, names: Names) -> bool:
    """True if the descheduler may evict the pod."""
    if is_deleting(pod) or is_bound_to_node(pod, names) or has_local_storage(pod):
        return False
    return bool(pod["metadata"].get("ownerReferences")) and priority_of(pod) < CRITICAL_PRIORITY


# --- RemoveDuplicates -----------------------------------------------------------------------------


def _duplicates(nodes: Sequence[Obj], pods: Sequence[Obj], names: Names) -> Plan:
    alike: dict[tuple[object, ...], dict[str, list[Obj]]] = {}  # pods by owner and images, by node
    for name, place in places_of(nodes, pods).items():
        for pod in sorted(place.pods, key=name_of):
            if is_evictable(pod, names):
                for owner in pod["metadata"]["ownerReferences"]:
                    alike.setdefault(_likeness(pod, owner), {}).setdefault(name, []).append(pod)
    yielded: dict[str, None] = {}  # a pod of several owners is evicted once
    for _, by_node in sorted(alike.items()):
        sample = next(iter(by_node.values()))[0]
        targets = sum(accepts(node, sample) for node in nodes)
        whole = sum(map(len, by_node.values()))
        average = ceil(whole / targets) if targets else whole
        for name, on_node in by_node.items():
            for pod in on_node[average:]:
                if uid_of(pod) not in yielded:
                    yielded[uid_of(pod)] = None
                    yield Eviction(pod, name, "RemoveDuplicates")


def _likeness(pod: Obj, owner: Obj) -> tuple[object, ...]:
    images = sorted(container["image"] for container in pod["spec"]["containers"])
    return pod["metadata"]["namespace"], owner["kind"], owner["name"], tuple(images)


# --- LowNodeUtilization ---------------------------------------------------------------------------


def _unbalanced(nodes: Sequence[Obj], pods: Sequence[Obj], policy: Policy, names: Names) -> Plan:
    resources = [*dict.fromkeys(("cpu", "memory", PODS, *policy.low))]
    low: list[Place] = []
    high: list[Place] = []
    for place in places_of(nodes, pods).values():
        closed = place.node["spec"].get("unschedulable")
        if not closed and not _above(place.used, _limits(place.node, policy.low, resources)):
            low.append(place)
        elif _above(place.used, _limits(place.node, policy.target, resources)):
            high.append(place)
    if not high or len(low) <= policy.low_nodes_min:
        return
    # What may be moved: up to the target of the nodes that have room.
    budget = dict.fromkeys(resources, 0)
    for place in low:
        limits, used = _limits(place.node, policy.target, resources), place.used
        budget = {name: budget[name] + limits[name] - used.get(name, 0) for name in resources}
    for place in sorted(high, key=lambda one: -sum(one.used.get(name, 0) for name in resources)):
        used, limits = place.used, _limits(place.node, policy.target, resources)
        movable = sorted((pod for pod in place.pods if is_evictable(pod, names)), key=_importance)
        for pod in movable:
            if not _above(used, limits) or min(budget.values()) <= 0:
                break
            if not any(_tolerates_all(pod, one.node) for one in low):
                continue
            if (yield Eviction(pod, name_of(place.node), "LowNodeUtilization")):
                needs = pod_amounts(pod)
                used = {name: amount - needs.get(name, 0) for name, amount in used.items()}
                budget = {name: amount - needs.get(name, 0) for name, amount in budget.items()}


def _limits(node: Obj, percent: Mapping[str, float], resources: Iterable[str]) -> Amounts:
    whole = node_amounts(node)
    return {name: int(percent.get(name, WHOLE) * whole.get(name, 0) * 0.01) for name in resources}


def _above(used: Amounts, limits: Amounts) -> bool:
    """True if one of the resources is used above its limit."""
    return any(used.get(name, 0) > limit for name, limit in limits.items())


def _importance(pod: Obj) -> tuple[int, int, str]:
    """The order of eviction: by priority, then by class of service."""
    return priority_of(pod), QOS_ORDER.index(qos_class(pod["spec"])), name_of(pod)


def _tolerates_all(pod: Obj, node: Obj) -> bool:
    tolerations = tolerations_of(pod["spec"])
    return all(tolerates(tolerations, taint_of(taint)) for taint in node["spec"].get("taints") or ())
