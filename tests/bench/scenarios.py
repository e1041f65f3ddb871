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
from typing import Any

import trio

from sim.app.process.garbage import no_collection
from sim.app.run import run_plan
from sim.kernel.fast import FAST, PLAIN
from sim.scenario.compile import load

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"
NAMES = sorted(path.stem for path in SCENARIOS.glob("*.yaml"))
# Plain runs of these take longer than they are worth in each run of the tests.
LONG = ("api-overload", "random-night", "watch-herd-jitter", "zone-outage")
HASH_SEEDS = (1, 4_294_967_295)


def of_a_process(
    hash_seed: int, seeds: int, names: Sequence[str], paths: str = "fast"
) -> dict[str, tuple[str, int]]:
    """The trace hash and number of events of each scenario and seed, "NAME SEED", by a process of
    its own.

    paths: "fast" or "plain"
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.scenarios", paths, str(seeds), *names],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        check=True,
        capture_output=True,
        text=True,
    )
    hashes: dict[str, list[Any]] = json.loads(done.stdout)
    return {run: (trace, steps) for run, (trace, steps) in hashes.items()}


async def _hashes(paths: str, seeds: int, names: Sequence[str]) -> dict[str, tuple[str, int]]:
    hashes = {}
    fast = {"fast": FAST, "plain": PLAIN}[paths]
    for name in names:
        plan = load(SCENARIOS / f"{name}.yaml")
        for seed in range(seeds):
            with no_collection():
                result = await run_plan(plan, seed=seed, picture=False, fast=fast)
            hashes[f"{name} {seed}"] = result.trace_sha256, result.steps
    return hashes


def main() -> int:
    if len(sys.argv) > 2:
        print(json.dumps(trio.run(_hashes, sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
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
