"""Which pods the example descheduler evicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from orrery.examples.descheduler import Policy, plan
from orrery.examples.descheduler.decide import is_evictable
from sim.api.objects import name_of
from sim.api.types import Obj
from sim.ident import NAMES
from tests.unit.orrery.examples.objects import node, pod

NAMES_ = NAMES["kubernetes"]
DUPLICATES, BALANCE = Policy(balances=False), Policy(removes_duplicates=False)
TOLERANT = {"tolerations": [{"key": "own", "operator": "Exists"}]}


def evicted(nodes: Sequence[Obj], pods: Sequence[Obj], policy: Policy, refused: str = "") -> list[str]:
    """The names of the pods that are evicted, if the API refuses one of them."""
    steps, names = plan(nodes, pods, policy, NAMES_), []
    granted = None
    while True:
        try:
            eviction = next(steps) if granted is None else steps.send(granted)
        except StopIteration:
            return names
        names.append(name_of(eviction.pod))
        granted = names[-1] != refused


def full(count: int, on: str = "a", **more: Any) -> list[Obj]:
    return [pod(f"p{number}", on, **more) for number in range(count)]


@pytest.mark.parametrize(
    ("pods", "names"),
    [
        (full(2), ["p1"]),
        (full(3), ["p2"]),  # two nodes keep two and one
        ([*full(2), pod("q", "b")], []),
        ([*full(1), pod("q", "a", owner="ReplicaSet/other")], []),
        ([*full(1), pod("q", "a", of={"containers": [{"name": "c", "image": "r/web:2"}]})], []),
        (full(2, of={"nodeSelector": {"disk": "ssd"}}), []),
    ],
)
def test_pods_above_the_average_of_a_node_are_duplicates(pods: list[Obj], names: list[str]) -> None:
    assert evicted([node("a"), node("b")], pods, DUPLICATES) == names


@pytest.mark.parametrize(
    ("other", "more", "names"),
    [
        (node("b", taint="own"), {}, []),
        (node("b", taint="own"), {"of": TOLERANT}, ["p1"]),
        (node("b", ready=False), {}, []),
        ({**node("b"), "spec": {"unschedulable": True}}, {}, []),
    ],
)
def test_node_that_would_not_take_them_makes_no_duplicates(
    other: Obj, more: dict[str, Any], names: list[str]
) -> None:
    assert evicted([node("a"), other], full(2, **more), DUPLICATES) == names


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, True),
        ({"owner": ""}, False),
        ({"owner": "DaemonSet/logs"}, False),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
        ({"of": {"volumes": [{"name": "v", "emptyDir": {}}]}}, False),
        ({"of": {"volumes": [{"name": "v", "configMap": {"name": "m"}}]}}, True),
        ({"of": {"priority": 2_000_000_000}}, False),
    ],
)
def test_pod_without_another_place_to_go_is_not_evictable(more: dict[str, Any], expected: bool) -> None:
    assert is_evictable(pod("p", "a", **more), NAMES_) is expected


def test_overutilized_node_gives_pods_until_it_is_at_its_target() -> None:
    assert evicted([node("a"), node("b")], full(3), BALANCE) == ["p0"]
    assert evicted([node("a"), node("b")], full(2), BALANCE) == []


def test_refused_eviction_is_made_up_for_by_another_pod() -> None:
    assert evicted([node("a"), node("b")], full(4), BALANCE, refused="p0") == ["p0", "p1", "p2"]


def test_no_more_is_moved_than_underutilized_nodes_have_room_for() -> None:
    nodes = [node("a", cpu=8), node("b", cpu=2)]
    assert evicted(nodes, full(8), BALANCE) == ["p0"]


@pytest.mark.parametrize(
    ("nodes", "pods"),
    [
        ([node("a"), node("b")], [*full(4), pod("q", "b")]),  # b uses 25 %
        ([node("a"), {**node("b"), "spec": {"unschedulable": True}}], full(4)),
        ([node("a"), node("b", taint="own")], full(4)),
        ([node("a"), node("b")], full(4, owner="")),
    ],
)
def test_nothing_is_moved_without_an_underutilized_node_that_takes_it(
    nodes: list[Obj], pods: list[Obj]
) -> None:
    assert evicted(nodes, pods, BALANCE) == []


def test_least_important_pods_are_moved_first() -> None:
    best_effort = {"containers": [{"name": "c", "image": "r/web:1"}]}
    pods = [pod("a0", "a", of={"priority": 5}), *full(4)[1:], pod("z", "a", of=best_effort)]
    assert evicted([node("a"), node("b")], pods, BALANCE) == ["z", "p1", "p2"]


def test_pass_keeps_to_its_limit_for_each_node_and_evicts_a_pod_once() -> None:
    policy = Policy(per_node_max=1)
    assert evicted([node("a"), node("b")], full(4), policy) == ["p2"]
    assert evicted([node("a"), node("b")], full(4), Policy(removes_duplicates=False, low_nodes_min=1)) == []
    assert evicted([node("a"), node("b")], full(4), Policy()) == ["p2", "p3"]
