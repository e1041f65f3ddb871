"""The condition that the cluster is steady, over commits and steps."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.store import Change, Item
from sim.check import Observer, Trigger, World, parse_condition
from sim.check.writes import Unrest
from sim.units import SECOND
from tests.unit.sim.check.test_expect import NAMES_, Run

STEADY = "the cluster is steady for 1m"


def written(*specs: dict[str, Any]) -> Run:
    """A pod is written at 10, 20 and 30 s, and a step comes at 200 s."""
    run = Run(*specs)
    for at_s in (10, 20, 30):
        run.pod(at_s, "p", f"n{at_s}")
    run.checker.step("dark", "fail", 200_000_000)
    return run


def test_cluster_is_steady_a_time_after_the_last_write() -> None:
    verdict = written({"when": STEADY, "within": ["0s", "2m"]}).verdict(400)
    assert (verdict.ok, verdict.measured_s) == (True, (90.0,))


def test_step_ends_a_steady_time() -> None:
    spec = {"when": STEADY, "within": ["59s", "61s"], "after": "dark"}
    verdict = written(spec).verdict(400)
    assert (verdict.ok, verdict.measured_s) == (True, (60.0,))
    assert not written({"always": STEADY, "after": "2m"}).verdict(400).ok


def test_cluster_that_does_not_become_steady_says_what_changes() -> None:
    run = Run({"eventually": STEADY})
    for at_s in range(10, 200, 10):
        run.pod(at_s, "p", f"n{at_s}")
    verdict = run.verdict(200)
    assert not verdict.ok
    assert "still changes: pods/default/p (" in verdict.measured


@pytest.mark.parametrize(("end_s", "ok"), [(89, False), (90, True)])
def test_steadiness_at_the_end_needs_no_further_commit(end_s: int, ok: bool) -> None:
    run = Run({"eventually": STEADY})
    run.pod(30, "p")
    assert run.verdict(end_s).ok is ok


def test_writes_since_an_instant_are_listed_by_frequency_and_then_by_name() -> None:
    unrest = Unrest()
    for rev, (name, at_s) in enumerate((("b", 10), ("c", 11), ("c", 12), ("a", 13)), 1):
        item = Item(f"//pods/default/{name}", {"metadata": {"name": name}}, rev, rev)
        unrest.add(Change(rev, item, None, False, at_s * SECOND))
    assert unrest.words(10 * SECOND) == (
        "pods/default/c (it is created; 2 times, last at 0m12s), "
        "pods/default/a (it is created; once, at 0m13s), "
        "pods/default/b (it is created; once, at 0m10s)"
    )
    assert "pods/default/b" not in unrest.words(10 * SECOND + 1)


def test_trigger_fires_when_the_cluster_is_steady() -> None:
    fired: list[int] = []
    observer = Observer(World(NAMES_), [Trigger(STEADY, NAMES_, "", lambda: fired.append(1))])
    assert "pods" in observer.resources and "leases" not in observer.resources
    observer.advance(59_000_000)
    assert fired == []
    observer.advance(61_000_000)
    observer.advance(70_000_000)
    assert fired == [1]


def test_wrong_time_of_steadiness_is_refused() -> None:
    with pytest.raises(ValueError, match="'soon' is no duration, write it as the cluster is steady for 2m"):
        parse_condition("the cluster is steady for soon", NAMES_)
