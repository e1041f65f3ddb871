"""A trigger fires when its condition comes to hold, within its window, and again only after it has
ceased to.
"""

from typing import Any

import pytest

from sim.api.store import Change, Item
from sim.check import Observer, Trigger, World
from sim.ident import NAMES
from sim.scenario.schema.common import Matter

NAMES_ = NAMES["orch"]


class Run:
    def __init__(self, given: Any, after: str = "") -> None:
        self.fired = 0
        self.trigger = Trigger(given, NAMES_, after, self._fire)
        self.observer = Observer(World(NAMES_), [self.trigger])
        self.items: dict[str, Item] = {}
        self.rev = 0

    def _fire(self) -> None:
        self.fired += 1

    def pod(self, name: str, phase: str) -> None:
        self.rev += 1
        key, prev = f"//pods/default/{name}", self.items.get(name)
        obj = {"metadata": {"name": name, "namespace": "default"}, "status": {"phase": phase}}
        self.items[name] = item = Item(key, obj, self.rev, self.rev)
        self.observer.see(Change(self.rev, item, prev, False, self.rev))


def test_trigger_fires_each_time_the_condition_begins_to_hold() -> None:
    run = Run("any pods are Failed")
    run.pod("a", "Running")
    assert run.fired == 0
    run.pod("a", "Failed")
    run.pod("b", "Failed")
    assert run.fired == 1
    run.pod("a", "Running")
    run.pod("b", "Running")
    run.pod("b", "Failed")
    assert run.fired == 2


def test_it_waits_for_its_step_and_then_fires_at_once_if_the_condition_holds() -> None:
    run = Run("any pods are Failed", after="chaos")
    run.pod("a", "Failed")
    run.observer.step("other", "crash", 1)
    assert run.fired == 0
    run.observer.step("chaos/1", "crash", 2)
    assert run.fired == 1


def test_the_step_that_it_waits_for_may_be_called_as_a_kind_is() -> None:
    run = Run("any pods are Failed", after="crash")
    run.pod("a", "Failed")
    run.observer.step("stall-1", "stall", 1)
    run.observer.step("other", "crash", 2)
    assert run.fired == 0
    run.observer.step("crash", "stall", 3)
    assert run.fired == 1


def test_something_that_happens_fires_each_time_until_it_is_closed() -> None:
    run = Run(Matter(created="pods"))
    run.pod("a", "Pending")
    run.pod("a", "Running")
    run.pod("b", "Pending")
    assert run.fired == 2
    run.trigger.close()
    run.pod("c", "Pending")
    assert run.fired == 2


def test_a_resource_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no resource 'podds'; did you mean 'pods'"):
        Run("any podds are Failed")
