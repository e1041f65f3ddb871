"""Each planted bug fails its story, which holds without it, and so does its scenario."""

from __future__ import annotations

import pytest

from sim.app.hunt.judging import judge
from sim.scenario.compile import load
from tests.planted.catalogue import PLANTED
from tests.planted.planting import Planted

EACH = pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
pytestmark = pytest.mark.slow


@EACH
def test_story_fails_with_the_planted_bug(bug: Planted) -> None:
    with bug.plant():
        assert judge(bug.candidate(bug.story)).failed


@EACH
def test_story_holds_without_the_planted_bug(bug: Planted) -> None:
    assert judge(bug.candidate(bug.story)).failed == ()


@EACH
def test_scenario_without_faults_holds_with_the_planted_bug(bug: Planted) -> None:
    with bug.plant():
        assert judge(bug.candidate("[]")).failed == ()


@EACH
def test_scenario_of_a_planted_bug_says_what_a_hunt_may_vary(bug: Planted) -> None:
    plan = load(bug.path)
    assert plan.hunt is not None
    assert plan.name == bug.name.replace("_", "-")
