"""Repeat on simulated clusters what was measured on real control planes, and put both side by side.

    python -m tests.bench.measured [SEEDS]        default 10

Prints Markdown tables: the failover of a killed leader, 70 node deaths one after the other, and the loss of one
zone of three.  With the recordings (`../shared/facts/measured-*.csv`) beside the repository, also what share of
runs as long as the recording a two-sample Kolmogorov-Smirnov test cannot tell from it.

Holds: each run is one cluster, as each recording was; the share of one run says more than a test on pooled runs,
whose deaths all share few phases of the monitor pass.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt
from pathlib import Path
from random import Random
from statistics import fmean, stdev

import trio

from sim.app.cluster import Cluster, plain_nodes
from sim.scenario.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from tests.cluster.seen import Seen, pods_on

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "facts"
FAILOVERS, DEATHS, NODES = 207, 70, 240
DEATH_GAP_S = (11.0, 15.0)
BOOT_US = 10 * SECOND
# The recordings come from two cores that ran everything: a write took some 15 ms there (nodes of the lost zone turn
# Unknown 0.1 s apart, each with six writes after it), here with the default network 3 ms.
LATENCY_US = (2_000, 12_000)
QUANTILES = (0.10, 0.25, 0.50, 0.75, 0.90, 0.99)


# --- statistics -----------------------------------------------------------------------------------------------


def quantile(sample: Sequence[float], share: float) -> float:
    """Nearest rank, as the recording's table has it."""
    ordered = sorted(sample)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Kolmogorov-Smirnov: the largest gap between two empirical distributions."""
    a, b = sorted(one), sorted(other)
    i = j = 0
    largest = 0.0
    while i < len(a) and j < len(b):
        at = min(a[i], b[j])
        while i < len(a) and a[i] <= at:
            i += 1
        while j < len(b) and b[j] <= at:
            j += 1
        largest = max(largest, abs(i / len(a) - j / len(b)))
    return largest


def p_value(gap: float, one: int, other: int) -> float:
    """Of such a gap between samples of one distribution (asymptotic, Stephens 1970)."""
    root = sqrt(one * other / (one + other))
    scaled = (root + 0.12 + 0.11 / root) * gap
    if scaled < 0.2:
        return 1.0
    terms = (2.0 * (-1.0) ** (k - 1) * exp(-2 * k * k * scaled * scaled) for k in range(1, 101))
    return min(1.0, max(0.0, sum(terms)))


# --- the three recordings ----------------------------------------------------------------------------------------


async def failovers(seed: int, count: int = FAILOVERS) -> list[float]:
    """Seconds from the death of the leading controller manager until the other holds the lease."""
    plan = ClusterPlan(
        controller_manager=ComponentPlan(2, {"controllers": "nodelifecycle"}),
        scheduler=ComponentPlan(0),
        boot_us=BOOT_US,
        latency_us=LATENCY_US,
    )
    draw = Random(seed)
    took = []
    async with Cluster(plan, seed=seed) as cluster:
        seen = Seen(cluster.names)
        cluster.observe(seen.see)
        await cluster.run_for("30s")
        for _ in range(count):
            await cluster.run_for(int((30 + 10 * draw.random()) * SECOND))
            killed_us, leads = cluster.kernel.now_us, len(seen.leaders)
            actor = cluster.supervisor[cluster.actor_named("controller-manager-leader")]
            actor.crash("killed")
            await cluster.run_for("30s")
            took.append((seen.leaders[leads][0] - killed_us) / SECOND)
            actor.start()
    return took


@dataclass(frozen=True, slots=True)
class Death:
    """Seconds after a node's death; None where the run ended before."""

    renewed: float
    unknown: float
    no_schedule: float
    no_execute: float
    deleted: float | None


async def deaths(seed: int, count: int = DEATHS) -> list[Death]:
    """One of 240 nodes of one zone loses power each 11 to 15 s."""
    plan = ClusterPlan(nodes=plain_nodes(NODES), boot_us=BOOT_US, latency_us=LATENCY_US)
    draw = Random(seed)
    died: dict[str, tuple[int, int]] = {}
    async with Cluster(plan, seed=seed) as cluster:
        seen = Seen(cluster.names)
        cluster.observe(seen.see)
        await cluster.run_for("15s")
        cluster.apply(*pods_on(list(cluster.nodes)[:count], 1))
        await cluster.run_for(60 * SECOND + int(10 * SECOND * draw.random()))
        for name in list(cluster.nodes)[:count]:
            died[name] = (cluster.kernel.now_us, seen.renewed[name])
            cluster.fail_node(name, "power-loss")
            await cluster.run_for(int(draw.uniform(*DEATH_GAP_S) * SECOND))
        await cluster.run_for("7m")

    def after(times: dict[str, int], name: str) -> float:
        return (times[name] - died[name][0]) / SECOND

    return [
        Death(
            (renewed_us - at_us) / SECOND,
            after(seen.unknown, name),
            after(seen.no_schedule, name),
            after(seen.no_execute, name),
            (seen.deleted[name][0] - at_us) / SECOND if name in seen.deleted else None,
        )
        for name, (at_us, renewed_us) in died.items()
    ]


@dataclass(frozen=True, slots=True)
class Outage:
    """Seconds after zone a, 10 nodes of 30 with 5 pods each, lost power."""

    unknown: list[float]
    no_execute: list[float]
    deleted: list[float]  # the first pod of each node
    spread: float  # largest time between first and last deletion of one node's pods
    others: int  # pods deleted in the other zones


async def outage(seed: int) -> Outage:
    nodes = [replace(node, zone="abc"[number // 10]) for number, node in enumerate(plain_nodes(30))]
    dead = [node.name for node in nodes if node.zone == "a"]
    async with Cluster(
        ClusterPlan(nodes=tuple(nodes), boot_us=BOOT_US, latency_us=LATENCY_US), seed=seed
    ) as cluster:
        seen = Seen(cluster.names)
        cluster.observe(seen.see)
        await cluster.run_for("15s")
        cluster.apply(*pods_on(list(cluster.nodes), 5))
        await cluster.run_for(60 * SECOND + int(10 * SECOND * Random(seed).random()))
        start_us = cluster.kernel.now_us
        for name in dead:
            cluster.fail_node(name, "power-loss")
        await cluster.run_for("10m")

    def since(times: Iterable[int]) -> list[float]:
        return sorted((at_us - start_us) / SECOND for at_us in times)

    of_dead = [seen.deleted.get(name, [0]) for name in dead]
    return Outage(
        since(seen.unknown.values()),
        since(seen.no_execute.values()),
        since(times[0] for times in of_dead),
        max((times[-1] - times[0]) / SECOND for times in of_dead),
        sum(len(times) for name, times in seen.deleted.items() if name not in dead),
    )


# --- tables -----------------------------------------------------------------------------------------------------


def recording(name: str, column: str) -> list[float]:
    path = RECORDINGS / name
    if not path.exists():
        print(f"no recording {path.name}: its comparison is left out", file=sys.stderr)
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [float(row[column]) for row in csv.DictReader(file) if row[column]]


def row(name: str, sample: Sequence[float]) -> str:
    cells = [
        min(sample),
        *(quantile(sample, share) for share in QUANTILES),
        max(sample),
        fmean(sample),
        stdev(sample),
    ]
    return f"| {name} | {len(sample)} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |"


def compare(name: str, runs: Sequence[Sequence[float]], real: Sequence[float]) -> list[str]:
    """Both rows, and the tests of each run against the recording."""
    pooled = [value for run in runs for value in run]
    lines = [row(f"{name}: here", pooled)]
    if real:
        lines.insert(0, row(f"{name}: real", real))
        gaps = [distance(run, real) for run in runs]
        passed = sum(p_value(gap, len(run), len(real)) >= 0.05 for gap, run in zip(gaps, runs, strict=True))
        all_gap = distance(pooled, real)
        lines.append(
            f"| … KS | | D of a run {min(gaps):.3f} to {max(gaps):.3f}, p ≥ 0.05 in {passed} of {len(runs)};"
            f" all runs D {all_gap:.3f}, p {p_value(all_gap, len(pooled), len(real)):.2f} | | | | | | | | |"
        )
    return lines


HEAD = [
    "| what | n | min | p10 | p25 | p50 | p75 | p90 | p99 | max | mean | sd |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
]


def death_tables(runs: Sequence[Sequence[Death]]) -> list[str]:
    def of(pick: Callable[[Death], float | None]) -> list[list[float]]:
        return [[value for death in run if (value := pick(death)) is not None] for run in runs]

    def real(column: str) -> list[float]:
        return recording("measured-deaths.csv", column)

    renewed, unknown, tainted = real("last_renewal_s"), real("unknown_after_s"), real("no_execute_after_s")
    silent = [at - before for at, before in zip(unknown, renewed, strict=True)]
    queued = [later - at for at, later in zip(unknown, tainted, strict=False)]
    lines = [*HEAD]
    lines += compare("death → Unknown", of(lambda death: death.unknown), unknown)
    lines += compare("death → NoExecute", of(lambda death: death.no_execute), tainted)
    lines += compare("death → DELETE", of(lambda death: death.deleted), real("pod_delete_after_s"))
    lines += compare("last renewal → Unknown", of(lambda death: death.unknown - death.renewed), silent)
    lines += compare("Unknown → NoExecute", of(lambda death: death.no_execute - death.unknown), queued)
    lines += compare("Unknown → NoSchedule", of(lambda death: death.no_schedule - death.unknown), [])
    late = [death.no_execute - death.unknown > 7 for run in runs for death in run]
    lines.append("")
    lines.append(f"NoExecute waited for a token in {sum(late)} of {len(late)} deaths (real: 15 of 70).")
    return lines


def outage_lines(found: Outage) -> list[str]:
    def shown(times: Sequence[float]) -> str:
        return ", ".join(f"{at:.1f}" for at in times)

    return [
        f"- Ready=Unknown at {shown(found.unknown)}",
        f"- NoExecute at {shown(found.no_execute)}",
        f"- DELETE at {shown(found.deleted)}, a node's five within {found.spread:.2f}; {found.others} in zones b and c",
    ]


async def main(seeds: int) -> None:
    print("### Leader killed\n")
    runs = [await failovers(seed) for seed in range(seeds)]
    print("\n".join([*HEAD, *compare("failover", runs, recording("measured-failover.csv", "takeover_s"))]))
    print("\n### Single nodes\n")
    print("\n".join(death_tables([await deaths(seed) for seed in range(seeds)])))
    print("\n### One zone of three\n")
    for seed in range(min(seeds, 3)):
        print(f"Seed {seed}:\n")
        print("\n".join(outage_lines(await outage(seed))) + "\n")


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 10)
