"""The ledger of active faults: faults of one target begin and end in any order."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sim.faults.shared.cluster import Target
from sim.faults.shared.ledger import Aspect, Ledger
from sim.kernel import Kernel


class Recorder:
    """A cluster with one aspect, of which the state is the list of the values in force."""

    def __init__(self) -> None:
        self.states: dict[str, list[Any]] = {}
        self.attributed: list[tuple[str, int]] = []
        aspects = {
            "heat": Aspect("heat", self._settle("heat"), group="weather", attribute=self._attribute),
            "wind": Aspect("wind", self._settle("wind"), group="weather", attribute=self._attribute),
            "calm": Aspect("calm", self._settle("calm")),
        }
        self.kernel = Kernel(seed=1)
        self.ledger = Ledger(cast(Target, SimpleNamespace(kernel=self.kernel)), aspects)

    def _settle(self, aspect: str) -> Any:
        def settle(ledger: Ledger, target: str) -> None:
            self.states[target] = ledger.values(target, aspect)

        return settle

    def _attribute(self, _: Ledger, target: str, record: int) -> None:
        self.attributed.append((target, record))

    def impose(self, step: str, aspect: str, value: Any, record: int) -> None:
        """A fault of node-0 begins by a trace record."""
        self.kernel.cause = record
        self.ledger.impose(step, "node-0", aspect, value)


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_end_of_a_fault_leaves_the_others_in_any_order(order: tuple[str, ...]) -> None:
    cluster = Recorder()
    for number, step in enumerate("abc"):
        cluster.impose(step, "heat", step, number + 1)
    left = ["a", "b", "c"]
    for step in order:
        cluster.ledger.lift(step)
        left.remove(step)
        assert cluster.states["node-0"] == left
    assert cluster.ledger.targets("heat") == []


def test_heal_of_one_aspect_leaves_the_others_and_returns_finished_steps() -> None:
    cluster = Recorder()
    cluster.impose("both", "heat", 1, 1)
    cluster.impose("both", "calm", 1, 1)
    cluster.impose("one", "heat", 2, 2)
    assert cluster.ledger.heal("node-0", "heat") == ["one"]
    assert cluster.ledger.values("node-0", "calm") == [1]
    assert cluster.ledger.heal("node-0") == ["both"]


def test_heal_of_a_node_ends_faults_of_its_resources() -> None:
    cluster = Recorder()
    cluster.ledger.impose("full", "node-0/memory", "calm", 1)
    cluster.ledger.impose("other", "node-01", "calm", 1)
    assert cluster.ledger.heal("node-0") == ["full"]
    assert cluster.ledger.targets("calm") == ["node-01"]


def test_state_is_attributed_to_the_next_fault_of_the_group_when_its_cause_ends() -> None:
    cluster = Recorder()
    cluster.impose("first", "heat", 1, 11)
    cluster.impose("second", "wind", 1, 12)
    cluster.impose("third", "heat", 1, 13)
    cluster.ledger.lift("third")
    assert cluster.attributed == []
    cluster.ledger.lift("first")
    assert cluster.attributed == [("node-0", 12)]
    cluster.ledger.lift("second")
    assert cluster.attributed == [("node-0", 12)]


def test_record_is_that_of_the_first_equal_value_in_force() -> None:
    cluster = Recorder()
    cluster.impose("a", "heat", "deleted", 5)
    cluster.impose("b", "heat", "deleted", 6)
    assert cluster.ledger.record("node-0", "heat", "deleted") == 5
    cluster.ledger.lift("a")
    assert cluster.ledger.record("node-0", "heat", "deleted") == 6
    assert cluster.ledger.record("node-0", "heat", "stopped") == 0
