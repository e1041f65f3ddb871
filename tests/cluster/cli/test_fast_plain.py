"""Long scenarios have one trace with and without fast paths, for as long as a plain run pays.

`test_scenarios` has the others, whole.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.scenario.compile import load
from sim.units import SECOND
from tests.bench.fast_plain import SCENARIOS, compare
from tests.bench.scenarios import LONG

# Their first seconds; `python -m tests.bench.fast_plain` runs them whole.
SHORTENED_S = {"zone-outage": 600, "random-night": 900, "api-overload": 400, "watch-herd-jitter": 400}


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_scenario_has_one_trace_fast_and_plain(name: str) -> None:
    plan = load(SCENARIOS / f"{name}.yaml")
    duration_us = min(plan.duration_us, SHORTENED_S[name] * SECOND)
    assert compare(replace(plan, duration_us=duration_us)) == ""


@pytest.mark.slow
def test_status_patches_of_terminating_pods_give_one_trace() -> None:
    plan = load(SCENARIOS / "watch-expiry.yaml")
    assert compare(replace(plan, seed=3)) == ""
