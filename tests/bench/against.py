"""This version beside another checkout: processor time and calls of functions, as ratios.

python -m tests.bench.against CHECKOUT [PAIRS [NODES PODS]]     default: 3 pairs, 200 and 3,000

Both run alternately, each time in a process of its own: the zone outage without its imports, then
nodes that start, their pods that come to run, and an idle hour.  Seconds are the least of the
pairs: others on the machine can only make a run slower.  Calls are those that the profiler counts;
they are the same on every machine, and weigh a call of `dict.get` as much as any other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.bench.timing import machine

HERE = Path(__file__).resolve().parents[2]
# Runs in both checkouts, so it uses only what both have.
CHILD = """
import cProfile, pstats, sys
from time import process_time
import trio
from tests.bench import big, zone_outage
what, counted, nodes, pods = sys.argv[1], sys.argv[2] == "calls", int(sys.argv[3]), int(sys.argv[4])
run = zone_outage.run if what == "zone" else lambda: trio.run(big.measure, nodes, pods, [])
if what == "zone":
    run()
profile, began = cProfile.Profile(), process_time()
profile.runcall(run) if counted else run()
print(f"zone outage: {process_time() - began:.2f} s") if what == "zone" else None
if counted:
    print(f"calls: {pstats.Stats(profile).total_calls}")
"""
LAP = re.compile(r"^(.+): ([\d.]+) s", re.MULTILINE)
CALLS = re.compile(r"^calls: (\d+)", re.MULTILINE)
Figures = dict[str, float]


def measured(checkout: Path, what: str, sizes: tuple[str, str], counted: bool) -> Figures:
    """Seconds of each lap of a run in a checkout, or its calls."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, what, "calls" if counted else "", *sizes],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    if counted:
        return {f"calls, {what}": float(CALLS.findall(done)[0])}
    return {name: float(seconds) for name, seconds in LAP.findall(done)}


def least(runs: list[Figures]) -> Figures:
    """The least of each figure."""
    return {name: min(run[name] for run in runs) for name in runs[0]}


def main(words: list[str]) -> None:
    """Print a row for each figure: the other checkout, this one, and the ratio."""
    other, pairs, *sizes = (*words, *("3", "200", "3000")[len(words) - 1 :])
    print(machine())
    print("| what | there | here | ratio |\n|---|---|---|---|")
    for what in ("zone", "cluster"):
        for counted in (False, True):
            runs: tuple[list[Figures], list[Figures]] = ([], [])
            for _ in range(1 if counted else int(pairs)):
                for found, checkout in zip(runs, (Path(other).resolve(), HERE), strict=True):
                    found.append(measured(checkout, what, (sizes[0], sizes[1]), counted))
            there, here = map(least, runs)
            for name in there:
                shown = [f"{each[name]:,.0f}" if counted else f"{each[name]:.2f} s" for each in (there, here)]
                print(f"| {name} | {shown[0]} | {shown[1]} | {here[name] / there[name]:.2f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
