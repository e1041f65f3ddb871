"""Wall time of the zone-outage scenario: 90 nodes, 900 pods, 30 virtual minutes.

python -m tests.bench.zone_outage [--profile]
"""

from __future__ import annotations

from pathlib import Path

import trio

from sim.app.process.garbage import no_collection
from sim.app.run import Result, run_plan
from sim.scenario.compile import load
from tests.bench.timing import best_of, machine, profiled, wants_profile

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "zone-outage.yaml"


def run() -> Result:
    plan = load(SCENARIO)
    return trio.run(lambda: run_plan(plan))


def main() -> None:
    if wants_profile():
        profiled(run)
        return
    results: list[Result] = []
    with no_collection():  # as `orrery run` does
        seconds = best_of(lambda: results.append(run()))
    assert all(result.ok for result in results)
    steps = results[0].steps
    print(machine())
    print(
        f"zone-outage, 30 virtual minutes: {seconds:.2f} s, {steps:,} events, {steps / seconds:,.0f} a second"
    )


if __name__ == "__main__":
    main()
