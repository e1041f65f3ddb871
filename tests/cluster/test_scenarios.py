"""The scenarios hold whatever the seed, and a seed gives one run.

For the zone outage 100 times under several PYTHONHASHSEED values: python -m tests.bench.repeat.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.run import Result, run_plan
from sim.scenario.compile import load

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
# Each takes about 0.2 s a run; the zone outage, with 990 pods made, takes twenty times that.
SMALL = ("leader-failover", "single-node-death", "watch-expiry")
SEEDS = range(10)


async def run(name: str, seed: int) -> Result:
    return await run_plan(load(SCENARIOS / f"{name}.yaml"), seed=seed)


def failed(result: Result) -> list[str]:
    return [
        f"{verdict.name}: {verdict.measured}, wanted {verdict.wanted}"
        for verdict in result.verdicts
        if not verdict.ok
    ]


@pytest.mark.parametrize("name", SMALL)
async def test_a_scenario_holds_under_ten_seeds(name: str) -> None:
    results = [await run(name, seed) for seed in SEEDS]
    assert [failed(result) for result in results] == [[]] * len(SEEDS)
    assert len({result.trace_sha256 for result in results}) == len(SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_the_zone_outage_holds_under_ten_seeds(seed: int) -> None:
    assert failed(await run("zone-outage", seed)) == []


@pytest.mark.parametrize("name", SMALL)
async def test_the_same_seed_gives_the_same_trace(name: str) -> None:
    first, second = await run(name, 3), await run(name, 3)
    assert first.trace_sha256 == second.trace_sha256
    assert first.steps == second.steps


@pytest.mark.slow
async def test_the_same_seed_gives_the_same_zone_outage() -> None:
    first, second = await run("zone-outage", 7), await run("zone-outage", 7)
    assert first.trace_sha256 == second.trace_sha256
