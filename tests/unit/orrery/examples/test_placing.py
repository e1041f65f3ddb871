"""Whether a pod has room on a node, as the examples estimate it."""

from __future__ import annotations

import pytest

from orrery.examples.placing import accepts, node_amounts, places_of
from tests.unit.orrery.examples.objects import node, pod


@pytest.mark.parametrize(
    ("effect", "accepted"), [("NoSchedule", False), ("NoExecute", False), ("PreferNoSchedule", True)]
)
def test_taint_refuses_pods_unless_it_is_a_preference(effect: str, accepted: bool) -> None:
    tainted = {**node("a"), "spec": {"taints": [{"key": "k", "effect": effect}]}}
    assert accepts(tainted, pod("p")) is accepted


@pytest.mark.parametrize(("phase", "free"), [("Running", 3000), ("Succeeded", 4000), ("Failed", 4000)])
def test_pod_that_has_ended_takes_no_room(phase: str, free: int) -> None:
    (place,) = places_of([node("a")], [{**pod("p", "a"), "status": {"phase": phase}}]).values()
    assert place.free["cpu"] == free


def test_resource_that_a_node_does_not_have_is_no_room() -> None:
    (place,) = places_of([node("a")], []).values()
    gpu = {"name": "c", "image": "i", "resources": {"requests": {"example.com/gpu": "1"}}}
    assert place.fits(pod("p"))
    assert not place.fits(pod("p", of={"containers": [gpu]}))


def test_node_without_allocatable_amounts_has_its_capacity() -> None:
    assert node_amounts({"status": {"capacity": {"cpu": "500m", "pods": "3"}}}) == {"cpu": 500, "pods": 3}
