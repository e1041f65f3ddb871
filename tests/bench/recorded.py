"""Repeat on simulated clusters what was recorded on real control planes (`tests/data/measured`).

Turns a seed into the same quantities that a recording has: the failover of a killed leader; 70 node
deaths one after the other, under conditions of their own or under those of the recording; the loss
of one zone of three.

Holds: each run is one cluster, as each recording was; network delays are those of the machine of
the recording.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from tests.cluster.seen import Seen, pods_on

RECORDINGS = Path(__file__).resolve().parents[1] / "data" / "measured"
FAILOVERS, DEATHS, NODES = 207, 70, 240
DEATH_GAP_S = (11.0, 15.0)
BOOT_US = 10 * SECOND
# By the recording itself: over its 183 passes of the node monitor a pass takes 10 ms, and 10 to 11
# ms more in which a node is found (least squares and least absolute deviations agree).  These are
# two writes, four ways of the network; and a NoSchedule taint follows in less than 5 ms at best.
LATENCY_US = (200, 4_000)
# A monitor pass in which nothing is written, and when the recording's first dead node was found.
PASS_US, FIRST_FOUND_US = 5_010_000, 34_060_000


def recording(name: str, column: str) -> list[float]:
    """A column of a recording, without its empty cells."""
    with (RECORDINGS / name).open(encoding="utf-8", newline="") as file:
        return [float(row[column]) for row in csv.DictReader(file) if row[column]]


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


def _deaths(died: dict[str, tuple[int, int]], seen: Seen) -> list[Death]:
    """The fate of nodes, by the times of their deaths and last renewals."""

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


async def deaths(seed: int, count: int = DEATHS) -> list[Death]:
    """One of 240 nodes of one zone loses power each 11 to 15 s, at any phase of its lease and of
    the monitor.
    """
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
    return _deaths(died, seen)


async def same_deaths(seed: int, count: int = DEATHS) -> list[Death]:
    """The recorded deaths again: at the recorded times, each of the node with a last renewal as
    long ago as the recorded one's, in the recorded phase of the monitor's passes, which one more
    death shows beforehand.
    """
    plan = ClusterPlan(nodes=plain_nodes(NODES + 1), boot_us=BOOT_US, latency_us=LATENCY_US)
    conditions = list(
        zip(recording("deaths.csv", "death_s"), recording("deaths.csv", "last_renewal_s"), strict=True)
    )
    died: dict[str, tuple[int, int]] = {}
    async with Cluster(plan, seed=seed) as cluster:
        seen = Seen(cluster.names)
        cluster.observe(seen.see)
        await cluster.run_for("15s")
        *names, scout = cluster.nodes
        cluster.apply(*pods_on(names, 1))
        await cluster.run_for("60s")
        cluster.fail_node(scout, "power-loss")
        await cluster.run_for("60s")
        start_us = cluster.kernel.now_us
        start_us += (seen.unknown[scout] - FIRST_FOUND_US - start_us) % PASS_US
        for death_s, renewed_s in conditions[:count]:
            await cluster.run_until(start_us + int(death_s * SECOND))
            renewed_us = cluster.kernel.now_us + int(renewed_s * SECOND)
            alive = (name for name in names if name not in died)
            name = min(alive, key=lambda name: abs(seen.renewed[name] - renewed_us))
            died[name] = (cluster.kernel.now_us, seen.renewed[name])
            cluster.fail_node(name, "power-loss")
        await cluster.run_for("7m")
    return _deaths(died, seen)


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
    plan = ClusterPlan(nodes=tuple(nodes), boot_us=BOOT_US, latency_us=LATENCY_US)
    async with Cluster(plan, seed=seed) as cluster:
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

    of_dead: Sequence[Sequence[int]] = [seen.deleted.get(name, [0]) for name in dead]
    return Outage(
        since(seen.unknown.values()),
        since(seen.no_execute.values()),
        since(times[0] for times in of_dead),
        max((times[-1] - times[0]) / SECOND for times in of_dead),
        sum(len(times) for name, times in seen.deleted.items() if name not in dead),
    )
