"""When a node autoscaler adds or removes nodes.  Pure.

Turns what a scan shows, and what the scans before it have left in `Memory`, into nodes to add or to
remove, and into the memory of the next scan.

- A group of nodes grows if pods that the scheduler could not place fit a new node of it, and
  neither a present node nor one that is on its way has room for them.
- A node goes if its pods requested less than half of it for ten minutes, and all of them may move
  and fit elsewhere.  For ten minutes after nodes were added nothing goes.

Holds: a group has neither fewer nodes than `least` nor more than `most` because of a decision; at
    most one node with pods is removed at a time.

Mirrors  kubernetes/autoscaler cluster-autoscaler 1.25: core/static_autoscaler.go (RunOnce),
         core/scaleup, estimator/binpacking_estimator.go, expander/waste, core/scaledown/
         {eligibility,unneeded,planner}, utils/drain/drain.go, simulator/utilization.
Differs  the expander is least-waste, and ties go to the first group, where upstream's default is
         random; nodes of one pass are compared with the nodes as they are, without the hints of the
         pass before; limits of the whole cluster, and pods below a priority, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from orrery.examples.placing import (
    Place,
    has_local_storage,
    is_bound_to_node,
    node_amounts,
    places_of,
    pod_amounts,
)
from sim.api.objects import (
    annotations_of,
    condition_of,
    controller_of,
    is_deleting,
    is_ready,
    is_terminal,
    labels_of,
    name_of,
)
from sim.api.selectors import from_selector
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import MINUTE, SECOND, parse_time

GROUP = "autoscaling.example.com/group"  # the label with the group of a node
LEAVING = "ToBeDeletedByClusterAutoscaler"  # the taint of a node that is being removed
KEEP = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
EMPTY_MAX = 10  # nodes without pods that one scan removes
LONG_GONE_US = 30 * SECOND  # after its grace period a pod that is being deleted counts as gone
LONG_AGO_US = -(10**15)


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that are alike.  least, most: how many there may be"""

    name: str
    capacity: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    least: int = 0
    most: int = 10

    def node(self, names: Names) -> Obj:
        """A new node of the group."""
        name = f"{self.name}-"
        return {
            "metadata": {
                "generateName": name,
                "name": name,
                "labels": {names.label_hostname: name, **self.labels, GROUP: self.name},
            },
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"capacity": dict(self.capacity), "allocatable": dict(self.capacity)},
        }


@dataclass(frozen=True, slots=True)
class Options:
    """The settings, with upstream's defaults.

    provision_us: how long the cloud takes until a new node exists
    start_max_us: for how long a new node that is not ready counts as one on its way
    """

    scan_us: int = 10 * SECOND
    utilization: float = 0.5
    unneeded_us: int = 10 * MINUTE
    unready_us: int = 20 * MINUTE
    delay_after_add_us: int = 10 * MINUTE
    delay_after_failure_us: int = 3 * MINUTE
    new_pod_us: int = 2 * SECOND
    start_max_us: int = 15 * MINUTE
    provision_us: int = 30 * SECOND


@dataclass(frozen=True, slots=True)
class Memory:
    """What a scan leaves to the next one, and what a crash loses.

    unneeded_us: since when each node is unneeded without a gap, by name
    added_us, failed_us: when nodes were added, and when a removal failed, for the last time
    """

    unneeded_us: Mapping[str, int] = field(default_factory=dict)
    added_us: int = LONG_AGO_US
    failed_us: int = LONG_AGO_US


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scan sees.

    coming: the number of nodes on their way of which there is no object yet, by group
    leaving: the nodes that are being removed
    """

    now_us: int
    nodes: Sequence[Obj]
    pods: Sequence[Obj]
    daemons: Sequence[Obj] = ()
    budgets: Sequence[Obj] = ()
    coming: Mapping[str, int] = field(default_factory=dict)
    leaving: Sequence[str] = ()


class Decision(NamedTuple):
    """What to do.  add: a number of nodes of a group; remove: nodes with the pods to evict"""

    memory: Memory
    add: tuple[Group, int] | None = None
    remove: Sequence[Place] = ()


def decide(
    memory: Memory, seen: Seen, groups: Sequence[Group], names: Names, options: Options | None = None
) -> Decision:
    """The decision of one scan."""
    options = options or Options()
    add = _growth(seen, groups, names, options)
    if add is not None:
        return Decision(Memory(memory.unneeded_us, seen.now_us, memory.failed_us), add)
    unneeded = _unneeded(seen, groups, names, options)
    since = {name_of(one.node): memory.unneeded_us.get(name_of(one.node), seen.now_us) for one in unneeded}
    memory = Memory(since, memory.added_us, memory.failed_us)
    cooling = (
        seen.now_us < memory.added_us + options.delay_after_add_us
        or seen.now_us < memory.failed_us + options.delay_after_failure_us
        or bool(seen.leaving)
    )
    return (
        Decision(memory)
        if cooling
        else Decision(memory, None, _removable(memory, seen, unneeded, groups, names, options))
    )


# --- more nodes -----------------------------------------------------------------------------------


def _growth(seen: Seen, groups: Sequence[Group], names: Names, options: Options) -> tuple[Group, int] | None:
    """The group that grows, and by how many nodes."""
    waiting = [pod for pod in seen.pods if _is_unschedulable(pod)]
    ages_us = [seen.now_us - parse_time(pod["metadata"]["creationTimestamp"]) for pod in waiting]
    if not waiting or max(ages_us) < options.new_pod_us:
        return None
    templates = {group.name: _template(group, seen, names) for group in groups}
    usable = [node for node in seen.nodes if is_ready(node) and name_of(node) not in seen.leaving]
    places = [*places_of(usable, seen.pods).values(), *_upcoming(seen, templates, options)]
    waiting = _without_room(sorted(waiting, key=_weight), places)
    choices = []
    for index, group in enumerate(groups):
        left = group.most - size_of(group, seen)
        fitting = [pod for pod in waiting if templates[group.name].fits(pod)]
        if left > 0 and fitting:
            new = _packed(fitting, templates[group.name])
            choices.append((_waste(new), index, min(len(new), left)))
    if not choices:
        return None
    _, index, count = min(choices)
    return groups[index], count


def _is_unschedulable(pod: Obj) -> bool:
    condition = condition_of(pod, "PodScheduled") or {}
    unscheduled = condition.get("status") == "False" and condition.get("reason") == "Unschedulable"
    return unscheduled and not pod["spec"].get("nodeName") and not is_deleting(pod)


def size_of(group: Group, seen: Seen) -> int:
    """The nodes of a group that exist, or will, without those that are being removed."""
    members = [node for node in seen.nodes if labels_of(node).get(GROUP) == group.name]
    staying = [node for node in members if name_of(node) not in seen.leaving]
    return len(staying) + seen.coming.get(group.name, 0)


def _template(group: Group, seen: Seen, names: Names) -> Place:
    """A new node of a group, with the pods of the DaemonSets that want to be there."""
    node = group.node(names)
    place = Place(node, (), node_amounts(node))
    for daemon in seen.daemons:
        meta, template = daemon["metadata"], daemon["spec"]["template"]
        pod = {"metadata": {"namespace": meta["namespace"], "name": meta["name"]}, "spec": template["spec"]}
        if place.fits(pod):
            place.add(pod)
    return place


def _upcoming(seen: Seen, templates: Mapping[str, Place], options: Options) -> list[Place]:
    """The nodes on their way, as their groups describe them."""
    counts = dict(seen.coming)
    for node in seen.nodes:
        group = labels_of(node).get(GROUP, "")
        age_us = seen.now_us - parse_time(node["metadata"]["creationTimestamp"])
        if group in templates and not is_ready(node) and age_us < options.start_max_us:
            counts[group] = counts.get(group, 0) + 1
    return [templates[group].copy() for group, count in counts.items() for _ in range(count)]


def _weight(pod: Obj) -> tuple[int, int, str]:
    """The order of packing: what needs most comes first."""
    needs = pod_amounts(pod)
    return -needs.get("cpu", 0), -needs.get("memory", 0), name_of(pod)


def _without_room(pods: Iterable[Obj], places: Sequence[Place]) -> list[Obj]:
    """The pods that are left when each place has taken those that fit."""
    left = []
    for pod in pods:
        place = next((one for one in places if one.fits(pod)), None)
        if place is None:
            left.append(pod)
        else:
            place.add(pod)
    return left


def _packed(pods: Sequence[Obj], template: Place) -> list[Place]:
    """New nodes that have room for all pods."""
    new: list[Place] = []
    for pod in pods:
        place = next((one for one in new if one.fits(pod)), None)
        if place is None:
            place = template.copy()
            new.append(place)
        place.add(pod)
    return new


def _waste(places: Sequence[Place]) -> float:
    """The share of processors and memory that stays free on new nodes."""
    free = 0.0
    for name in ("cpu", "memory"):
        whole = sum(node_amounts(one.node).get(name, 0) for one in places)
        free += sum(one.free.get(name, 0) for one in places) / whole if whole else 0.0
    return free


# --- fewer nodes ----------------------------------------------------------------------------------


def utilization(place: Place) -> float:
    """The larger of the shares of processors and memory that pods request."""
    whole, used = node_amounts(place.node), place.used
    return max((used[name] / whole[name] for name in ("cpu", "memory") if whole.get(name)), default=0.0)


def _unneeded(seen: Seen, groups: Sequence[Group], names: Names, options: Options) -> list[Place]:
    """The nodes of groups that are little used, and the pods of which may move elsewhere."""
    known = [group.name for group in groups]
    places = places_of(seen.nodes, [pod for pod in seen.pods if not _is_long_gone(pod, seen.now_us)])
    result = []
    for name, place in places.items():
        in_group = labels_of(place.node).get(GROUP) in known
        kept = annotations_of(place.node).get(KEEP) == "true" or name in seen.leaving
        if not in_group or kept or utilization(place) >= options.utilization:
            continue
        moving = moving_pods(place, names)
        others = [one.copy() for key, one in places.items() if key != name and _is_open(one.node, seen)]
        if any(obstacle(pod, seen.budgets, names) for pod in moving) or _without_room(moving, others):
            continue
        result.append(Place(place.node, moving, place.free))
    return result


def _is_open(node: Obj, seen: Seen) -> bool:
    return is_ready(node) and name_of(node) not in seen.leaving


def _is_long_gone(pod: Obj, now_us: int) -> bool:
    """True for a pod that should have ended long ago, or has ended."""
    if not is_deleting(pod):
        return is_terminal(pod)
    # The timestamp is the end of the grace period.
    return parse_time(pod["metadata"]["deletionTimestamp"]) + LONG_GONE_US < now_us


def moving_pods(place: Place, names: Names) -> list[Obj]:
    """The pods that need another node if this one goes."""
    return [pod for pod in place.pods if not is_bound_to_node(pod, names)]


def obstacle(pod: Obj, budgets: Sequence[Obj], names: Names) -> str:
    """Why a pod keeps its node; "" if it may be moved."""
    safe = annotations_of(pod).get(SAFE)
    guards = [budget for budget in budgets if _guards(budget, pod)]
    if safe != "true":
        if controller_of(pod) is None:
            return "no controller would make it again"
        if pod["metadata"]["namespace"] == names.system_namespace and not guards:
            return "it is of the system and has no budget"
        if has_local_storage(pod):
            return "it has local storage"
        if safe == "false":
            return f"its annotation {SAFE} is false"
    if any((budget.get("status") or {}).get("disruptionsAllowed", 0) < 1 for budget in guards):
        return "its budget allows no disruption"
    return ""


def _guards(budget: Obj, pod: Obj) -> bool:
    same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
    selector = budget["spec"].get("selector")
    return same and selector is not None and from_selector(selector).matches(labels_of(pod))


def _removable(
    memory: Memory,
    seen: Seen,
    unneeded: Sequence[Place],
    groups: Sequence[Group],
    names: Names,
    options: Options,
) -> list[Place]:
    """The nodes to remove now: up to ten that are empty, or one with pods."""
    spare = {group.name: size_of(group, seen) - group.least for group in groups}
    due = []
    for place in unneeded:
        wait_us = options.unneeded_us if is_ready(place.node) else options.unready_us
        if seen.now_us >= memory.unneeded_us[name_of(place.node)] + wait_us:
            due.append(place)
    result: list[Place] = []
    for place in [one for one in due if not one.pods] + [one for one in due if one.pods]:
        group = labels_of(place.node)[GROUP]
        if spare[group] < 1 or len(result) == EMPTY_MAX or (place.pods and result):
            continue
        spare[group] -= 1
        result.append(place)
    return result
