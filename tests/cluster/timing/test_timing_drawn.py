"""Zones, thresholds and rates drawn at random, and taints as the rules of known cases 16 to 24 want
them.

What is wanted is worked out here from the rules alone: the state of each zone, whether all are
lost, the rate of each.
"""

from __future__ import annotations

from math import ceil
from random import Random

import pytest

from sim.units import SECOND
from tests.cluster.fixed import FixedPhases, seconds
from tests.cluster.seen import pods_on
from tests.cluster.timing.test_timing_node_faults import UNREACHABLE, NodeLog
from tests.cluster.timing.test_timing_zones import PASS_S, Zones, gaps, manager

UNTIL_S = 420


def state_of(size: int, dead: int, threshold: float) -> str:
    if dead == size:
        return "FullDisruption"
    partly = dead >= 3 and dead >= ceil(threshold * size - 1e-9)
    return "PartialDisruption" if partly else "Normal"


@pytest.mark.parametrize("seed", [*range(8), 34, 58, 75])
async def test_16_taints_come_at_the_rate_of_each_zones_state_under_drawn_settings(seed: int) -> None:
    draw = Random(seed)
    sizes = {zone: draw.randint(1, 14) for zone in "abcd"[: draw.randint(1, 4)]}
    dead = {zone: draw.choice([size, draw.randint(0, size)]) for zone, size in sizes.items()}
    threshold = draw.choice([0.2, 0.55, 0.55, 0.8])
    rate, secondary = draw.choice([0.1, 0.1, 0.05, 0.3]), draw.choice([0.01, 0.04])
    large = draw.choice([50, 6])
    control = manager(
        unhealthy_zone_threshold=str(threshold),
        node_eviction_rate=str(rate),
        secondary_node_eviction_rate=str(secondary),
        large_cluster_size_threshold=str(large),
    )
    async with FixedPhases(sizes, control) as cluster:
        zones = Zones(cluster)
        victims = {zone: cluster.nodes_of(zone)[:number] for zone, number in dead.items()}
        await cluster.kill(*(node for nodes in victims.values() for node in nodes))
        await cluster.run_until(f"{UNTIL_S}s")
        states = {zone: state_of(size, dead[zone], threshold) for zone, size in sizes.items()}
        assert zones.last == states
        lost = set(states.values()) == {"FullDisruption"}
        found = max(seconds(cluster.seen.unknown), default=0.0)
        for zone, size in sizes.items():
            tainted = sorted(
                cluster.seen.no_execute[node] / SECOND
                for node in victims[zone]
                if node in cluster.seen.no_execute
            )
            wanted = rate
            if states[zone] == "PartialDisruption":
                wanted = secondary if size > large else 0.0
            if lost or not wanted or not dead[zone]:
                assert not tainted, (zone, states)
                continue
            assert 5 <= tainted[0] - found <= 5 + PASS_S + 0.3
            assert all(1 / wanted - 0.001 <= gap <= 1 / wanted + 0.3 for gap in gaps(tainted))
            assert len(tainted) >= min(dead[zone], int((UNTIL_S - tainted[0]) * wanted * 0.98))


@pytest.mark.parametrize("seed", [1, 2, 4, 11])
async def test_16_while_nodes_come_and_go_no_zone_is_tainted_faster_than_its_state_allows(seed: int) -> None:
    """Half an hour of cuts and deaths of parts of zones, now and then of everything."""
    draw = Random(seed)
    sizes = {zone: draw.randint(2, 9) for zone in "abc"[: draw.randint(1, 3)]}
    async with FixedPhases(sizes) as cluster:
        zones, log = Zones(cluster), NodeLog(cluster)
        cluster.apply(*pods_on(cluster.nodes, 1))
        await cluster.run_until("60s")
        away: set[str] = set()
        while cluster.kernel.now_us < 1800 * SECOND:
            some = [node for zone in sizes for node in cluster.nodes_of(zone) if draw.random() < 0.5]
            for node in cluster.nodes if draw.random() < 0.15 else some:
                if node in away and draw.random() < 0.6:
                    away.discard(node)
                    cluster.heal_node(node)
                elif node not in away:
                    away.add(node)
                    cluster.fail_node(node, draw.choice(["network-cut", "power-loss"]))
            await cluster.run_for(int(draw.uniform(5, 150) * SECOND))
        for node in sorted(away):
            cluster.heal_node(node)
        healed = cluster.kernel.now_us / SECOND
        await cluster.run_for("90s")

        tainted = {
            zone: sorted(
                at
                for (node, key, effect), times in log.came.items()
                if node in cluster.nodes_of(zone) and (key, effect) == (UNREACHABLE, "NoExecute")
                for at in times
            )
            for zone in sizes
        }
        assert any(tainted.values())
        for zone, times in tainted.items():
            assert all(gap >= 9.99 for gap in gaps(times))
            for at in times:
                # as of a second before: the write may have waited for the client's tokens
                states = {known: zones.at(known, at - 1) for known in sizes}
                assert states[zone] != "PartialDisruption", (zone, at)
                assert set(states.values()) != {"FullDisruption"}, at
        assert zones.last == dict.fromkeys(sizes, "Normal")
        assert all(log.ready[node, "True"][-1] <= healed + 30 for node in cluster.nodes)
        assert [node["spec"].get("taints") for node in cluster.list("nodes")] == [None] * len(cluster.nodes)
