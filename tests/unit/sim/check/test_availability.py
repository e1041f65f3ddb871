"""Availability of pods: two counts over commits and machines, and what is missing in a window."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sim.api.store import Change, Item
from sim.check.availability import AvailablePods, Loss, loss
from sim.series import Series


def pod(name: str, node: str, ready: bool, at_us: int, *, ends: bool = False, gone: bool = False) -> Change:
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if ends:
        metadata["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    obj = {"metadata": metadata, "spec": {"nodeName": node}, "status": status}
    return Change(1, Item(f"//pods/default/{name}", obj, 1, 1), None, gone, at_us)


def test_pods_of_a_dead_machine_are_available_only_for_the_control_plane() -> None:
    pods = AvailablePods()
    pods.pod(pod("a", "n1", True, 1))
    pods.pod(pod("b", "n2", True, 2))
    pods.machine("n1", False, 10)
    assert pods.truth.points == [(1, 1), (2, 2), (10, 1)]
    assert pods.seen.points == [(1, 1), (2, 2)]
    pods.pod(pod("a", "n1", False, 20))
    assert (pods.truth.points[-1], pods.seen.points[-1]) == ((10, 1), (20, 1))
    pods.pod(pod("a", "n1", True, 30))
    pods.machine("n1", True, 40)
    assert (pods.truth.points[-1], pods.seen.points[-1]) == ((40, 2), (30, 2))


def test_pod_that_is_being_deleted_or_gone_is_not_available() -> None:
    pods = AvailablePods()
    pods.pod(pod("a", "n1", True, 1))
    pods.pod(pod("a", "n1", True, 5, ends=True))
    assert pods.seen.points == [(1, 1), (5, 0)]
    pods.pod(pod("b", "n1", True, 6))
    pods.pod(pod("b", "n1", True, 7, gone=True))
    assert pods.truth.points[-1] == (7, 0)


def test_machine_that_fails_twice_counts_once() -> None:
    pods = AvailablePods()
    pods.pod(pod("a", "n1", True, 1))
    pods.machine("n1", False, 2)
    pods.machine("n1", False, 3)
    pods.machine("n1", True, 4)
    assert pods.truth.points == [(1, 1), (2, 0), (4, 1)]


def steps(*points: tuple[int, int]) -> Series:
    found = Series()
    for at_us, value in points:
        found.put(at_us, value)
    return found


def test_loss_counts_time_below_lowest_value_and_missing_pods() -> None:
    available = steps((0, 4), (10, 2), (15, 1), (20, 4))
    assert loss(available, 3, 0, 30) == Loss(below_us=10, lowest=1, missing_us=5 * 1 + 5 * 2)
    assert loss(available, 3, 12, 17) == Loss(below_us=5, lowest=1, missing_us=3 * 1 + 2 * 2)
    assert loss(available, 3, 20, 30) == Loss(0, 4, 0)


def test_loss_follows_a_bound_that_changes() -> None:
    available, wanted = steps((0, 2)), steps((0, 2), (10, 4), (20, 1))
    assert loss(available, wanted, 0, 30) == Loss(below_us=10, lowest=2, missing_us=20)


VALUES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=8).map(
    lambda rows: sorted(rows, key=lambda row: row[0])
)


@given(VALUES, VALUES, st.integers(0, 20), st.integers(1, 20))
def test_loss_equals_a_sum_over_every_instant(
    there: list[tuple[int, int]], wanted: list[tuple[int, int]], from_us: int, length_us: int
) -> None:
    def value(rows: list[tuple[int, int]], at_us: int) -> int:
        return next((number for when, number in reversed(rows) if when <= at_us), 0)

    instants = range(from_us, from_us + length_us)
    pairs = [(value(there, at_us), value(wanted, at_us)) for at_us in instants]
    expected = Loss(
        below_us=sum(live < bound for live, bound in pairs),
        lowest=min(live for live, _ in pairs),
        missing_us=sum(max(0, bound - live) for live, bound in pairs),
    )
    assert loss(steps(*there), steps(*wanted), from_us, from_us + length_us) == expected
