"""When the example node autoscaler adds and removes nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from orrery.examples.node_autoscaler import GROUP, Decision, Group, Memory, Options, Seen, decide
from orrery.examples.node_autoscaler.decide import KEEP, SAFE, obstacle, utilization
from orrery.examples.placing import places_of
from sim.api.objects import name_of
from sim.api.types import Obj
from sim.ident import NAMES
from sim.units import MINUTE, SECOND, parse_time
from tests.unit.orrery.examples.objects import CREATED, UNSCHEDULABLE, node, pod

NAMES_ = NAMES["kubernetes"]
START_US = parse_time(CREATED)
NOW_US = START_US + 60 * MINUTE
SMALL = Group("small", {"cpu": "4", "memory": "8Gi", "pods": "10"}, most=5)
LARGE = Group("large", {"cpu": "16", "memory": "32Gi", "pods": "10"})
OF_SMALL = {GROUP: "small"}
FAILED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}]}


def member(name: str, **more: Any) -> Obj:
    """A node of the group small."""
    return node(name, labels=OF_SMALL, **more)


def waiting(count: int, cpu: str = "2", **more: Any) -> list[Obj]:
    return [pod(f"w{number}", cpu=cpu, **more) for number in range(count)]


def added(seen: Seen, *groups: Group) -> tuple[str, int] | None:
    """The group that grows, and by how many nodes."""
    add = decide(Memory(), seen, groups or (SMALL,), NAMES_).add
    return None if add is None else (add[0].name, add[1])


def grown(nodes: Sequence[Obj], pods: Sequence[Obj], *groups: Group, **more: Any) -> tuple[str, int] | None:
    return added(Seen(NOW_US, nodes, pods, **more), *groups)


# --- more nodes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "cpu", "nodes"), [(1, "2", 1), (3, "2", 2), (4, "3", 4), (9, "3", 5)])
def test_group_grows_by_the_nodes_that_waiting_pods_need(count: int, cpu: str, nodes: int) -> None:
    assert grown([node("a")], waiting(count, cpu, of={"nodeSelector": OF_SMALL})) == ("small", nodes)


@pytest.mark.parametrize(
    "pods",
    [
        [pod("p", "a")],
        waiting(1, cpu="5"),
        waiting(1, deletionTimestamp="2026-01-01T00:00:00Z"),
        waiting(1, of={"nodeSelector": {"disk": "ssd"}}),
        [{**pod("p"), "status": {}}],  # the scheduler has not tried it yet
        [{**pod("p"), "status": FAILED}],
        [{**pod("p", "a"), "status": UNSCHEDULABLE}],  # a user has bound it
    ],
)
def test_group_does_not_grow_for_pods_that_would_not_run_there(pods: list[Obj]) -> None:
    assert grown([], pods) is None


def test_largest_pods_are_packed_first() -> None:
    pods = [pod("a"), pod("b"), pod("c", cpu="3"), pod("d", cpu="3")]
    assert grown([], pods) == ("small", 2)


def test_node_that_has_become_ready_is_not_on_its_way() -> None:
    assert added(Seen(START_US + MINUTE, [member("small-1")], waiting(3))) == ("small", 1)


def test_room_on_nodes_that_exist_or_come_is_used_first() -> None:
    pods = waiting(3)
    assert grown([node("a")], pods) == ("small", 1)
    assert grown([node("a", ready=False)], pods) == ("small", 2)
    assert grown([node("a")], pods, coming={"small": 1}) is None
    assert grown([node("a"), node("b")], pods, leaving=["b"]) == ("small", 1)


@pytest.mark.parametrize(("age_us", "grows"), [(14 * MINUTE, False), (15 * MINUTE, True)])
def test_node_that_does_not_become_ready_counts_for_a_while(age_us: int, grows: bool) -> None:
    seen = Seen(START_US + age_us, [member("small-1", ready=False)], waiting(2))
    assert (added(seen) is not None) is grows


@pytest.mark.parametrize(("age_us", "grows"), [(SECOND, False), (2 * SECOND, True)])
def test_new_pods_wait_for_others_of_their_kind(age_us: int, grows: bool) -> None:
    assert (added(Seen(START_US + age_us, [], waiting(1))) is not None) is grows


def test_group_has_no_more_nodes_than_its_limit() -> None:
    nodes = [member(f"small-{number}", ready=False) for number in range(3)]
    pods = waiting(20)
    assert grown(nodes, pods, coming={"small": 1}) == ("small", 1)
    assert grown(nodes, pods, coming={"small": 2}) is None
    assert grown(nodes, pods, coming={"small": 2}, leaving=["small-0"]) == ("small", 1)


def test_group_that_wastes_least_grows() -> None:
    assert grown([], waiting(2), SMALL, LARGE) == ("small", 1)
    assert grown([], waiting(5, cpu="3"), SMALL, LARGE) == ("large", 1)
    assert grown([], waiting(1, cpu="8"), SMALL, LARGE) == ("large", 1)


def test_pods_of_daemonsets_take_their_room_on_new_nodes() -> None:
    spec = {"template": {"spec": pod("d", cpu="1")["spec"]}}
    daemon = {"metadata": {"name": "logs", "namespace": "default"}, "spec": spec}
    assert grown([], waiting(2)) == ("small", 1)
    assert grown([], waiting(2), daemons=[daemon]) == ("small", 2)


# --- fewer nodes ----------------------------------------------------------------------------------

MOVABLE = [pod("p", "small-1")]


def scans(
    seconds: Sequence[int],
    nodes: Sequence[Obj],
    pods: Sequence[Obj],
    memory: Memory | None = None,
    **more: Any,
) -> list[str]:
    """The nodes that are removed by the last of several scans."""
    decision = Decision(memory or Memory())
    options = more.pop("options", Options())
    for second in seconds:
        seen = Seen(NOW_US + second * SECOND, nodes, pods, **more)
        decision = decide(decision.memory, seen, [SMALL], NAMES_, options)
    return [name_of(place.node) for place in decision.remove]


@pytest.mark.parametrize(("seconds", "removed"), [([0, 599], []), ([0, 600], ["small-1"]), ([600], [])])
def test_node_goes_when_it_was_unneeded_for_ten_minutes(seconds: list[int], removed: list[str]) -> None:
    assert scans(seconds, [node("a"), member("small-1")], MOVABLE) == removed


def test_node_that_does_not_become_ready_goes_after_twenty_minutes() -> None:
    nodes = [node("a"), member("small-1", ready=False)]
    assert scans([0, 1199], nodes, []) == []
    assert scans([0, 1200], nodes, []) == ["small-1"]


def test_time_begins_again_when_a_node_was_needed() -> None:
    nodes, busy = [node("a"), member("small-1")], [pod("p", "small-1", cpu="2")]
    memory = decide(Memory(), Seen(NOW_US, nodes, MOVABLE), [SMALL], NAMES_).memory
    memory = decide(memory, Seen(NOW_US + MINUTE, nodes, busy), [SMALL], NAMES_).memory
    assert scans([600, 601], nodes, MOVABLE, memory) == []


def test_node_that_is_being_removed_is_no_place_for_pods() -> None:
    nodes = [node("a"), member("small-1")]
    for leaving, unneeded in (([], ["small-1"]), (["a"], [])):
        memory = decide(Memory(), Seen(NOW_US, nodes, MOVABLE, leaving=leaving), [SMALL], NAMES_).memory
        assert [*memory.unneeded_us] == unneeded


@pytest.mark.parametrize(
    ("memory", "removed"),
    [
        (Memory(added_us=NOW_US + SECOND), []),
        (Memory(added_us=NOW_US), ["small-1"]),
        (Memory(failed_us=NOW_US + 421 * SECOND), []),
        (Memory(failed_us=NOW_US + 420 * SECOND), ["small-1"]),
    ],
)
def test_nothing_goes_for_a_while_after_nodes_came_or_a_removal_failed(
    memory: Memory, removed: list[str]
) -> None:
    assert scans([0, 600], [node("a"), member("small-1")], MOVABLE, memory) == removed


@pytest.mark.parametrize(
    ("nodes", "pods"),
    [
        ([node("a"), member("small-1")], [pod("p", "small-1", cpu="2")]),  # half is used
        ([node("a"), node("b")], []),  # of no group
        ([node("a"), member("small-1", annotations={KEEP: "true"})], []),
        ([member("small-1")], MOVABLE),
        ([node("a", ready=False), member("small-1")], MOVABLE),
        ([node("a"), member("small-1")], [*MOVABLE, pod("q", "a", cpu="3500m")]),
        ([node("a"), member("small-1")], [pod("p", "small-1", of={"nodeSelector": OF_SMALL})]),
    ],
)
def test_node_stays_if_it_is_used_or_its_pods_have_no_other_place(nodes: list[Obj], pods: list[Obj]) -> None:
    assert scans([0, 3600], nodes, pods) == []


def test_group_keeps_its_least_number_of_nodes() -> None:
    nodes = [node("a"), member("small-1"), member("small-2")]
    seen = [Seen(NOW_US + second * SECOND, nodes, []) for second in (0, 600)]
    group = Group("small", SMALL.capacity, least=1)
    memory = decide(Memory(), seen[0], [group], NAMES_).memory
    assert [name_of(one.node) for one in decide(memory, seen[1], [group], NAMES_).remove] == ["small-1"]


def test_empty_nodes_go_together_and_others_one_at_a_time() -> None:
    nodes = [node("a"), *(member(f"small-{number}") for number in range(1, 5))]
    daemon = pod("d", "small-4", owner="DaemonSet/logs")
    moving = [pod(f"p{number}", f"small-{number}") for number in (1, 2)]
    assert scans([0, 600], nodes, [*moving, daemon]) == ["small-3", "small-4"]
    assert scans([0, 600], nodes[:3], moving) == ["small-1"]
    assert scans([0, 600], nodes[:3], moving, leaving=["small-1"]) == []
    many = [member(f"small-{number:02}") for number in range(12)]
    assert len(scans([0, 600], many, [])) == 10


def test_pod_that_should_have_ended_long_ago_keeps_no_node() -> None:
    for minutes, removed in ((59, ["small-1"]), (90, [])):
        at = f"2026-01-01T0{minutes // 60}:{minutes % 60:02}:00Z"
        pods = [pod("p", "small-1", cpu="4", deletionTimestamp=at)]
        assert scans([0, 600], [node("a"), member("small-1")], pods) == removed


BUDGET = {
    "metadata": {"name": "b", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}},
}
FULL: Obj = {**BUDGET, "status": {"disruptionsAllowed": 0}}
OPEN: Obj = {**BUDGET, "status": {"disruptionsAllowed": 1}}
WEB = {"labels": {"app": "web"}}
LOCAL = {"volumes": [{"name": "v", "emptyDir": {}}]}


@pytest.mark.parametrize(
    ("more", "budgets", "text"),
    [
        ({}, [], ""),
        ({"owner": ""}, [], "no controller would make it again"),
        ({"of": LOCAL}, [], "it has local storage"),
        ({"annotations": {SAFE: "false"}}, [], f"its annotation {SAFE} is false"),
        ({"owner": "", "of": LOCAL, "annotations": {SAFE: "true"}}, [], ""),
        ({"namespace": "kube-system"}, [], "it is of the system and has no budget"),
        (WEB, [FULL], "its budget allows no disruption"),
        (WEB, [OPEN], ""),
        ({}, [FULL], ""),
        ({**WEB, "namespace": "other"}, [FULL], ""),
        ({**WEB, "annotations": {SAFE: "true"}}, [FULL], "its budget allows no disruption"),
    ],
)
def test_pod_keeps_its_node_for_a_reason(more: dict[str, Any], budgets: list[Obj], text: str) -> None:
    assert obstacle(pod("p", "small-1", **more), budgets, NAMES_) == text


def test_system_pod_with_a_budget_may_move() -> None:
    guard = {**OPEN, "metadata": {"name": "b", "namespace": "kube-system"}}
    assert obstacle(pod("p", "a", namespace="kube-system", **WEB), [guard], NAMES_) == ""


def test_obstacle_of_one_pod_keeps_its_node() -> None:
    nodes, pods = [node("a"), member("small-1")], [*MOVABLE, pod("q", "small-1", cpu="0", **WEB)]
    assert scans([0, 600], nodes, pods, budgets=[FULL]) == []
    assert scans([0, 600], nodes, pods, budgets=[OPEN]) == ["small-1"]


def test_utilization_is_the_larger_share_of_processors_and_memory() -> None:
    memory = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": "6Gi"}}}]}
    places = places_of([node("a")], [pod("p", "a"), pod("q", "a", of=memory)])
    assert utilization(places["a"]) == 0.75
