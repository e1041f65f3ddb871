"""How much of its processes' time a study of many seeds spends in runs.

python -m tests.bench.study [SEEDS [JOBS]]

Each process is in a run, starts, waits for its next seed, or has none left. The share does not
depend on what else the machine does, as a run that waits for a processor is a run too.
"""

from __future__ import annotations

import sys
from time import perf_counter

from sim.app.checked import checked_plan
from sim.app.reference.shipped import scenarios_folder
from sim.app.study.pool import cores, processes
from sim.app.study.summary import jobs_of
from tests.bench.timing import machine


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:]]
    seeds = numbers[0] if numbers else 100
    jobs = numbers[1] if len(numbers) > 1 else cores()
    plan = checked_plan(scenarios_folder() / "single-node-death.yaml", [])
    work = list(jobs_of(plan, plan.seed, seeds))
    began = perf_counter()
    ran_s = sum(one.wall_s for one in processes(jobs)(work))
    took_s = perf_counter() - began
    print(machine())
    print(f"{seeds} seeds in {took_s:.1f} s; {jobs} processes in runs: {ran_s / took_s / jobs:.1%}")


if __name__ == "__main__":
    main()
