"""Run every scenario repeatedly: a seed gives one trace, under any PYTHONHASHSEED.

python -m tests.bench.scenarios [SEEDS]          default 10: seeds 0 to 9, each twice under each of
two hash seeds
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import trio

from sim.app.run import Result, run_plan
from sim.scenario.compile import load

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"
NAMES = sorted(path.stem for path in SCENARIOS.glob("*.yaml"))
HASH_SEEDS = (1, 4_294_967_295)


def of_a_process(hash_seed: int, seeds: int, names: Sequence[str]) -> dict[str, str]:
    """The trace hash (and number of events) of each scenario and seed, "NAME SEED", by a process of
    its own.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.scenarios", "child", str(seeds), *names],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        check=True,
        capture_output=True,
        text=True,
    )
    hashes: dict[str, str] = json.loads(done.stdout)
    return hashes


def told(result: Result) -> str:
    """What has to be the same: the trace, and how many events made it."""
    return f"{result.trace_sha256} by {result.steps}"


async def _hashes(seeds: int, names: Sequence[str]) -> dict[str, str]:
    hashes = {}
    for name in names:
        plan = load(SCENARIOS / f"{name}.yaml")
        for seed in range(seeds):
            result = await run_plan(plan, seed=seed, picture=False)
            hashes[f"{name} {seed}"] = told(result)
    return hashes


def main() -> int:
    if len(sys.argv) > 2:
        print(json.dumps(trio.run(_hashes, int(sys.argv[2]), sys.argv[3:])))
        return 0
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with ThreadPoolExecutor(2) as two:
        runs = list(two.map(lambda hash_seed: of_a_process(hash_seed, seeds, NAMES), HASH_SEEDS * 2))
    differing = [run for run in runs[0] if len({hashes[run] for hashes in runs}) > 1]
    for run in differing:
        print(f"{run}: {[hashes[run] for hashes in runs]}")
    print(f"{len(runs[0])} runs, each {len(runs)} times: {len(differing)} not the same each time")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
