"""Zones, thresholds and rates drawn at random, and taints as the rules of known cases 16 to 24 want them.

What is wanted is worked out here from the rules alone: the state of each zone, whether all are lost, the rate of each.
"""

from __future__ import annotations

from math import ceil
from random import Random

import pytest

from sim.units import SECOND
from tests.cluster.fixed import FixedPhases, seconds
from tests.cluster.test_timing_zones import PASS_S, Zones, gaps, manager

UNTIL_S = 420


def state_of(size: int, dead: int, threshold: float) -> str:
    if dead == size:
        return "FullDisruption"
    partly = dead >= 3 and dead >= ceil(threshold * size - 1e-9)
    return "PartialDisruption" if partly else "Normal"


@pytest.mark.parametrize("seed", [*range(10), 34, 58, 75])
async def test_16_taints_come_at_the_rate_of_each_zones_state_whatever_the_settings(seed: int) -> None:
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
