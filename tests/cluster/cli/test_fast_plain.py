"""Every scenario file gives one trace with and without fast paths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sim.scenario.compile import load
from sim.units import SECOND
from tests.bench.fast_plain import SCENARIOS, compare

# Plain runs of these take longer than they are worth here; `python -m tests.bench.fast_plain` runs
# them whole.
SHORTENED_S = {"zone-outage": 600, "random-night": 900, "api-overload": 400, "watch-herd-jitter": 400}


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [pytest.param(file, id=file.stem) for file in sorted(SCENARIOS.glob("*.yaml"))],
)
def test_scenario_has_one_trace_fast_and_plain(file: Path) -> None:
    plan = load(file)
    if file.stem in SHORTENED_S:
        plan = replace(plan, duration_us=min(plan.duration_us, SHORTENED_S[file.stem] * SECOND))
    assert compare(plan) == ""


@pytest.mark.slow
def test_status_patches_of_terminating_pods_give_one_trace() -> None:
    plan = load(SCENARIOS / "watch-expiry.yaml")
    assert compare(replace(plan, seed=3)) == ""
