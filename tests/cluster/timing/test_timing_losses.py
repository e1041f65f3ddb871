"""Parts of zones lost at once, in waves and one zone after the other, in random phases and under
the recordings' network.

Which pass finds which node is up to the phases.  What follows from that is not: the state of each
zone after each pass, with it what is left of the zone's token, and so when which number of its
nodes is tainted.  It is worked out here from the rules (known cases 16 to 23) and from when the
nodes turned Unknown alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from tests.bench.recorded import BOOT_US, LATENCY_US
from tests.cluster.seen import Seen, pods_on
from tests.cluster.timing.test_timing_drawn import state_of

PASS_S, TOKEN_S = 5.0, 10.0
# A taint comes with a tick of 0.1 s and two writes after its token, and these wait for what a pass
# writes just then; a pass is over when the last node's pods are written too.
LATE_S, BUSY_S = 0.6, 1.0
UNTIL_S = 240


@dataclass(frozen=True, slots=True)
class Loss:
    """How many of each zone's nodes there are; at which second, in which zone how many of them lose
    power; pods of each.
    """

    sizes: Mapping[str, int]
    waves: Sequence[tuple[int, Mapping[str, int]]]
    pods: int = 2


LOSSES = {
    "half of one zone beside all of another": Loss({"a": 10, "b": 10, "c": 10}, [(0, {"a": 10, "b": 5})]),
    "most of one zone beside all of another": Loss({"a": 10, "b": 10, "c": 10}, [(0, {"a": 10, "b": 7})]),
    "some of six zones": Loss(
        {"a": 2, "b": 4, "c": 8, "d": 12, "e": 16, "f": 20},
        [(0, {"a": 1, "b": 2, "c": 4, "d": 6, "e": 8, "f": 10})],
        pods=1,
    ),
    "zones one after the other": Loss(
        {"a": 6, "b": 6, "c": 6, "d": 6}, [(0, {"a": 6}), (30, {"b": 6}), (60, {"c": 6})]
    ),
    "a second wave that stops the first": Loss({"a": 12, "b": 10}, [(0, {"a": 4}), (60, {"a": 5})], pods=3),
}

# In the end, where it does not depend on the phases.
TAINTED = {
    "half of one zone beside all of another": 15,
    "some of six zones": 31,
    "zones one after the other": 18,
}


def passes(found: Sequence[float]) -> list[tuple[float, float]]:
    """When each pass began and ended, from the first that found a node on: 5 s after the one
    before, as far as is seen.
    """
    times: list[tuple[float, float]] = []
    for at in sorted(found):
        while times and at > times[-1][1] + 1.5 * PASS_S:  # passes that found no node
            times.append((times[-1][1] + PASS_S, times[-1][1] + PASS_S))
        if times and at < times[-1][1] + 0.9 * PASS_S:
            times[-1] = times[-1][0], max(times[-1][1], at)
        else:
            times.append((at, at))
    while times[-1][1] < UNTIL_S:
        times.append((times[-1][1] + PASS_S, times[-1][1] + PASS_S))
    return times


def follow(
    size: int, found: Sequence[float], rounds: Sequence[tuple[float, float]], tainted: Sequence[float]
) -> None:
    """Compare each taint of a zone with the first instant at which a node waits and the zone has a
    token.

    A pass queues the nodes found by an earlier one, each in turn, and sets the state at its end.
    Where it stops the zone, an available token may have been used before, or not.
    """
    done, token, state = 0, 0.0, "Normal"
    for (begins, ends), (following, _) in pairwise(rounds):
        then = state_of(size, sum(at <= ends for at in found), 0.55)
        stops = then == "PartialDisruption"
        if state != "PartialDisruption":
            while done < sum(at < begins for at in found):
                earliest = max(token, begins)
                if earliest > ends if stops else earliest >= following:
                    break
                if stops and (done == len(tainted) or tainted[done] > ends + BUSY_S):
                    break
                since = tainted[done - 1] if done else 0.0
                latest = ends + BUSY_S if earliest <= ends else earliest + LATE_S
                latest = max(latest, since + TOKEN_S + LATE_S)
                assert earliest <= tainted[done] <= latest, (done, earliest, latest)
                token, done = earliest + TOKEN_S, done + 1
        elif not stops:
            token = ends + TOKEN_S  # a bucket in the place of none begins empty
        state = then
    assert done == len(tainted)


@pytest.mark.parametrize(
    ("name", "seed"), [*((name, 5) for name in LOSSES), ("zones one after the other", 9)]
)
async def test_16_taints_follow_from_when_the_nodes_of_each_zone_turned_unknown(name: str, seed: int) -> None:
    loss = LOSSES[name]
    places = [f"{zone}{number}" for zone, size in loss.sizes.items() for number in range(size)]
    nodes = tuple(
        replace(node, name=place, zone=place[0])
        for node, place in zip(plain_nodes(len(places)), places, strict=True)
    )
    plan = ClusterPlan(nodes=nodes, boot_us=BOOT_US, latency_us=LATENCY_US, scheduler=ComponentPlan(0))
    async with Cluster(plan, seed=seed) as cluster:
        seen = Seen(cluster.names)
        cluster.observe(seen.see)
        await cluster.run_for("15s")
        cluster.apply(*pods_on(places, loss.pods))
        await cluster.run_for("60s")
        start_us = cluster.kernel.now_us
        alive = {zone: [place for place in places if place[0] == zone] for zone in loss.sizes}
        for at_s, lost in loss.waves:
            await cluster.run_until(start_us + at_s * SECOND)
            for zone, count in lost.items():
                for place in alive[zone][:count]:
                    cluster.fail_node(place, "power-loss")
                del alive[zone][:count]
        await cluster.run_until(start_us + UNTIL_S * SECOND)
    found = {name: (at_us - start_us) / SECOND for name, at_us in seen.unknown.items()}
    assert len(found) == sum(count for _, lost in loss.waves for count in lost.values())
    rounds = passes(list(found.values()))
    for zone, size in loss.sizes.items():
        tainted = [at_us for name, at_us in seen.no_execute.items() if name[0] == zone]
        seconds = sorted((at_us - start_us) / SECOND for at_us in tainted)
        follow(size, [at for name, at in found.items() if name[0] == zone], rounds, seconds)
    if name in TAINTED:
        assert len(seen.no_execute) == TAINTED[name]
