"""The scenarios hold whatever the seed, and a seed gives one run.

For the zone outage 100 times under several PYTHONHASHSEED values: python -m tests.bench.repeat.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from sim.app.run import Result, run_plan
from sim.scenario.compile import load

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
# Each takes about 0.2 s a run; the zone outage, with 990 pods made, takes twenty times that.
SMALL = ("leader-failover", "memory-pressure", "single-node-death", "watch-expiry")
SEEDS = range(10)
# ORRERY_ZONE_SEEDS=10 for all ten: about a minute.
ZONE_SEEDS = range(int(os.environ.get("ORRERY_ZONE_SEEDS", "3")))


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


@pytest.mark.parametrize("name", SMALL)
async def test_the_same_seed_gives_the_same_trace(name: str) -> None:
    first, second = await run(name, 3), await run(name, 3)
    assert first.trace_sha256 == second.trace_sha256
    assert first.steps == second.steps


async def run_alone(scenario: str, seed: int, hash_seed: int) -> dict[str, Any]:
    """By the command, in a process of its own."""
    arguments = ["run", str(SCENARIOS / f"{scenario}.yaml"), "--seed", str(seed), "--json"]
    done = await trio.run_process(
        [sys.executable, "-m", "sim.app.cli", *arguments],
        capture_stdout=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.slow
async def test_the_zone_outage_holds_whatever_the_seed_and_does_not_depend_on_the_hash_seed() -> None:
    """Two at a time: a run takes seconds."""
    results: dict[tuple[int, int], dict[str, Any]] = {}
    limiter = trio.CapacityLimiter(2)

    async def one(seed: int, hash_seed: int) -> None:
        async with limiter:
            results[seed, hash_seed] = await run_alone("zone-outage", seed, hash_seed)

    async with trio.open_nursery() as nursery:
        for seed in ZONE_SEEDS:
            nursery.start_soon(one, seed, seed)
        nursery.start_soon(one, 0, 4_294_967_295)
    failures = {
        (seed, verdict["name"]): (verdict["measured"], verdict["wanted"])
        for (seed, _), result in results.items()
        for verdict in result["expectations"]
        if not verdict["ok"]
    }
    assert not failures
    assert results[0, 0]["trace_sha256"] == results[0, 4_294_967_295]["trace_sha256"]
    assert len({result["trace_sha256"] for result in results.values()}) == len(ZONE_SEEDS)
