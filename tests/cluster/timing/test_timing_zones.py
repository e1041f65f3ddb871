"""When failed nodes are found and tainted, in breadth: known cases, numbered in the names of the
tests, and what follows from the facts for other periods, rates, thresholds and sizes of zones.

The expected values are computed from the rules alone (`found`, `disrupted`), not by the loop's
code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, pairwise
from math import ceil
from typing import Any

import pytest

from actors.controllers.nodelifecycle.decide import PassCost
from sim.api.types import Obj
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from tests.cluster.fixed import FixedPhases, seconds
from tests.cluster.seen import pods_on, pods_with

PASS_S = 0.01  # what a pass takes
DIED_S = 95.0


def manager(**flags: Any) -> ClusterPlan:
    """A cluster with these flags of the controller manager, their names with "_" for "-"."""
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return ClusterPlan(controller_manager=ComponentPlan(flags=named))


def found(period: float, grace: float, renew: float, pass_s: float = PASS_S) -> tuple[float, float]:
    """When a node that fails at 95 turns Unknown, and the next pass.

    A renewal that is due at 95 is sent before the power loss.
    """
    passes = (2 + number * (period + pass_s) for number in count())
    renewed = DIED_S // renew * renew
    heard = next(at for at in passes if at > renewed + 0.05)
    unknown = next(at for at in passes if at > heard + grace)
    return unknown, unknown + period + pass_s


class Zones:
    """What states zones come to, with times."""

    def __init__(self, cluster: FixedPhases) -> None:
        self.told: list[tuple[float, str, str]] = []
        trace = cluster.kernel.trace
        trace.listen(trace.kind("zone", "zone", "state"), self._see)

    def _see(self, _: int, at_us: int, __: int, values: Sequence[Any]) -> None:
        self.told.append((at_us / SECOND, values[0], values[1]))

    @property
    def last(self) -> dict[str, str]:
        return {self._name(zone): state for _, zone, state in self.told}

    def at(self, zone: str, at: float) -> str:
        """A zone's state at an instant."""
        return [state for told, name, state in self.told if told <= at and self._name(name) == zone][-1]

    @staticmethod
    def _name(key: str) -> str:
        return key.rpartition(":")[2].strip("\x00")


def gaps(times: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


def taints(cluster: FixedPhases, effect: str) -> list[str]:
    """The unreachable nodes that have such a taint now."""
    key = cluster.names.taint_unreachable
    return [
        node["metadata"]["name"]
        for node in cluster.list("nodes")
        if any((t["key"], t["effect"]) == (key, effect) for t in node["spec"].get("taints") or ())
    ]


# --- when a node is found -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("period", "grace", "lease"),
    [(5, 40, 40), (5, 50, 40), (5, 20, 40), (5, 120, 40), (1, 40, 40), (10, 40, 40), (7, 31, 40), (5, 40, 20), (5, 40, 80), (2, 16, 20)],
)  # fmt: skip
async def test_2_node_is_found_in_the_first_pass_after_its_grace_for_any_periods(
    period: int, grace: int, lease: int
) -> None:
    control = manager(node_monitor_period=f"{period}s", node_monitor_grace_period=f"{grace}s")
    async with FixedPhases({"": 4}, control, flags={"node-lease-duration-seconds": str(lease)}) as cluster:
        await cluster.kill("node-3")
        unknown, tainted = found(period, grace, lease / 4)
        await cluster.run_until(int((tainted + 1) * SECOND))
        assert list(cluster.seen.unknown) == list(cluster.seen.no_execute) == ["node-3"]
        assert abs(cluster.seen.unknown["node-3"] / SECOND - unknown) <= 0.03
        assert -0.01 <= cluster.seen.no_execute["node-3"] / SECOND - tainted <= 0.13


async def test_3_passes_without_duration_tie_with_the_grace_and_are_one_pass_late() -> None:
    """Of 132 and 137 this engine gives 137: silence must last longer than the grace, and passes
    that cost nothing do not drift.  With any cost at all (case 2, and the default) it is the
    earlier pass.
    """
    for cost, unknown in ((PassCost(0, 0), 137.0), (PassCost(1, 0), 132.0), (PassCost(), 132.03)):
        async with FixedPhases({"": 10}, cost=cost) as cluster:
            await cluster.kill("node-3")
            await cluster.run_until("140s")
            assert abs(cluster.seen.unknown["node-3"] / SECOND - unknown) <= 0.05


# --- pods -----------------------------------------------------------------------------------------


async def test_12_a_pod_without_any_toleration_goes_with_the_taint() -> None:
    control = ClusterPlan(
        api_server=ComponentPlan(flags={"disable-admission-plugins": "DefaultTolerationSeconds"})
    )
    async with FixedPhases({"": 10}, control) as cluster:
        cluster.apply(*pods_on(["node-3", "node-4"], 2))
        await cluster.kill("node-3")
        assert not cluster.pod("pod-node-3-0")["spec"].get("tolerations")
        await cluster.run_until("200s")
        tainted_us = cluster.seen.no_execute["node-3"]
        assert list(cluster.seen.deleted) == ["node-3"]
        assert [0 <= at_us - tainted_us <= 0.2 * SECOND for at_us in cluster.seen.deleted["node-3"]] == [
            True
        ] * 2


@pytest.mark.parametrize(("wanted", "tolerated"), [("20", 20), ("0", 0), ("600", 600)])
async def test_11_the_time_that_admission_grants_is_an_option(wanted: str, tolerated: int) -> None:
    control = ClusterPlan(api_server=ComponentPlan(flags={"default-unreachable-toleration-seconds": wanted}))
    async with FixedPhases({"": 4}, control) as cluster:
        cluster.apply(*pods_on(["node-3"], 1))
        await cluster.kill("node-3")
        await cluster.run_until("800s")
        after_us = cluster.seen.deleted["node-3"][0] - cluster.seen.no_execute["node-3"]
        assert tolerated * SECOND <= after_us <= (tolerated + 0.2) * SECOND


async def test_11_first_of_several_matching_tolerations_counts_and_a_foreign_one_never() -> None:
    """Upstream looks no further than the first that tolerates a taint (core/v1/helper
    GetMatchingTolerations).
    """
    async with FixedPhases({"": 4}) as cluster:
        key = cluster.names.taint_unreachable
        one = {"key": key, "operator": "Exists", "effect": "NoExecute"}
        lists: tuple[list[Obj], ...] = (
            [{**one, "tolerationSeconds": 30}, {**one, "tolerationSeconds": 10}, one],
            [
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 45}
            ],  # admission adds nothing
            [{**one, "key": "maintenance", "tolerationSeconds": 5}],  # so admission adds 300 s
            [{**one, "tolerationSeconds": -7}],
        )
        cluster.apply(*pods_with("node-3", lists))
        await cluster.kill("node-3")
        await cluster.run_until("500s")
        tainted_us = cluster.seen.no_execute["node-3"]
        after = [(at_us - tainted_us) / SECOND for at_us in cluster.seen.deleted["node-3"]]
        assert len(after) == 4
        for wanted, came in zip((0, 30, 45, 300), after, strict=True):
            assert wanted <= came <= wanted + 0.2


# --- zones ----------------------------------------------------------------------------------------


def disrupted(size: int, threshold: float) -> int:
    """The least number of dead nodes with which a zone is partly disrupted (its size: never
    partly).
    """
    return max(3, ceil(threshold * size - 1e-9))


SIZES = {"c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8, "i": 9, "j": 10, "k": 11, "t": 20}


@pytest.mark.parametrize("threshold", [0.55, 0.3, 0.75, 1.0])
@pytest.mark.parametrize("short", [0, 1])
async def test_20_zones_are_partly_disrupted_from_three_dead_nodes_and_the_threshold_on(
    short: int, threshold: float
) -> None:
    """short: how many dead nodes are wanting for it, in every zone of a cluster at once."""
    dead = {zone: min(disrupted(size, threshold), size) - short for zone, size in SIZES.items()}
    control = manager(unhealthy_zone_threshold=str(threshold))
    async with FixedPhases({**SIZES, "whole": 2}, control) as cluster:
        zones = Zones(cluster)
        victims = {zone: cluster.nodes_of(zone)[:number] for zone, number in dead.items()}
        await cluster.kill(*(node for nodes in victims.values() for node in nodes))
        await cluster.run_until("170s")
        for zone, size in SIZES.items():
            tainted = [node for node in victims[zone] if node in cluster.seen.no_execute]
            if dead[zone] == size:
                wanted = "FullDisruption"
            else:
                wanted = "Normal" if short else "PartialDisruption"
            assert zones.last[zone] == wanted, zone
            assert bool(tainted) is (wanted != "PartialDisruption"), zone
        assert zones.last["whole"] == "Normal"
        assert sorted(cluster.seen.no_schedule) == sorted(cluster.seen.unknown)
        assert len(cluster.seen.unknown) == sum(dead.values())


@pytest.mark.parametrize(
    ("size", "dead", "state"),
    [
        (20, 10, "Normal"),
        (20, 11, "PartialDisruption"),
        (3, 2, "Normal"),
        (4, 3, "PartialDisruption"),
        (5, 3, "PartialDisruption"),
        (6, 3, "Normal"),
    ],
)
async def test_20_half_of_a_zone_is_tainted_each_ten_seconds_and_more_is_not(
    size: int, dead: int, state: str
) -> None:
    async with FixedPhases({"": size}) as cluster:
        zones = Zones(cluster)
        await cluster.kill(*cluster.nodes_of()[:dead])
        await cluster.run_until("240s")
        assert zones.told[-1][2] == state
        tainted = seconds(cluster.seen.no_execute)
        assert len(tainted) == (dead if state == "Normal" else 0)
        assert all(10 <= gap <= 10.1 for gap in gaps(tainted))
        if tainted:
            assert 5 <= tainted[0] - seconds(cluster.seen.unknown)[-1] <= 5.3  # one pass later


async def test_21_a_large_zone_mostly_down_is_tainted_one_each_hundred_seconds() -> None:
    async with FixedPhases({"": 100}) as cluster:
        zones = Zones(cluster)
        await cluster.kill(*cluster.nodes_of()[:60])
        await cluster.run_until("1080s")
        assert len(cluster.seen.unknown) == 60
        assert zones.told[-1][2] == "PartialDisruption"
        tainted = seconds(cluster.seen.no_execute)
        next_pass = zones.told[-1][0] + 5 + PASS_S
        assert next_pass - 0.02 <= tainted[0] <= next_pass + 0.2
        assert 99.99 <= tainted[1] - tainted[0] <= 100.2
        assert 900 <= tainted[9] - tainted[0] <= 910


@pytest.mark.parametrize(
    ("zone", "flags", "rate"),
    [
        ({"": 6}, {"large_cluster_size_threshold": "5", "secondary_node_eviction_rate": "0.05"}, 0.05),
        ({"": 6}, {"large_cluster_size_threshold": "6", "secondary_node_eviction_rate": "0.05"}, 0),
        ({"": 6}, {"large_cluster_size_threshold": "0", "secondary_node_eviction_rate": "0.5"}, 0.5),
        ({"": 6}, {"large_cluster_size_threshold": "5", "secondary_node_eviction_rate": "0"}, 0),
        # no part of the zone is in the way of this one
        ({"": 20}, {"node_eviction_rate": "0.05"}, 0.05),
        ({"": 20}, {"node_eviction_rate": "0.5"}, 0.5),
    ],
)
async def test_21_the_rates_and_the_size_of_a_large_zone_are_options(
    zone: Mapping[str, int], flags: Mapping[str, str], rate: float
) -> None:
    async with FixedPhases(zone, manager(**flags)) as cluster:
        await cluster.kill(*cluster.nodes_of()[:4])
        await cluster.run_until("230s")
        tainted = seconds(cluster.seen.no_execute)
        if not rate:
            assert not tainted
            return
        assert 137.27 <= tainted[0] <= 137.45
        assert len(tainted) == 4
        assert all(1 / rate <= gap <= 1 / rate + 0.2 for gap in gaps(tainted))


async def test_21_excluded_node_does_not_count_for_its_zone() -> None:
    """Of six nodes three are dead: half.  With a healthy one excluded it is three of five."""
    for aside, state in ((0, "Normal"), (1, "PartialDisruption")):
        async with FixedPhases({"": 6}) as cluster:
            zones = Zones(cluster)
            await cluster.run_until("20s")
            label = {cluster.names.label_node_exclude_disruption: ""}
            for node in cluster.nodes_of()[6 - aside :]:
                body = {"metadata": {"labels": label}}
                reply = cluster.request(
                    "patch", "nodes", "", node, body=body, content_type="application/merge-patch+json"
                )
                assert reply.ok, reply.message
            await cluster.kill(*cluster.nodes_of()[:3])
            await cluster.run_until("150s")
            assert zones.told[-1][2] == state


# --- zones that return, and all zones -------------------------------------------------------------


async def test_19_a_zone_that_recovers_begins_to_taint_ten_seconds_later() -> None:
    """The token bucket that takes the place of none at all starts empty."""
    async with FixedPhases({"": 20}) as cluster:
        zones = Zones(cluster)
        dead = cluster.nodes_of()[:12]
        await cluster.kill(*dead)
        await cluster.run_until("600s")
        assert not cluster.seen.no_execute
        for node in dead[:6]:
            cluster.heal_node(node)
        await cluster.run_until("660s")
        recovered, _, state = zones.told[-1]
        assert state == "Normal" and 600 < recovered < 616
        tainted = seconds(cluster.seen.no_execute)
        assert recovered + 10 <= tainted[0] <= recovered + 10.2
        assert all(10 <= gap <= 10.1 for gap in gaps(tainted))
        assert not set(cluster.seen.no_execute) & set(dead[:6])


async def test_24_loss_of_the_last_zone_removes_taints_and_evicts_no_pod() -> None:
    async with FixedPhases({"a": 3, "b": 3}) as cluster:
        zones = Zones(cluster)
        cluster.apply(*pods_on(cluster.nodes, 1))
        await cluster.kill(*cluster.nodes_of("a"))
        await cluster.run_until("195s")
        assert taints(cluster, "NoExecute") == cluster.nodes_of("a")
        await cluster.kill(*cluster.nodes_of("b"), at="195s")
        await cluster.run_until("245s")
        assert set(zones.last.values()) == {"FullDisruption"}
        assert taints(cluster, "NoExecute") == []
        assert taints(cluster, "NoSchedule") == sorted(cluster.nodes)
        await cluster.run_until("1500s")
        assert not cluster.seen.deleted
        assert taints(cluster, "NoExecute") == []

        cluster.seen.no_execute.clear()
        for node in cluster.nodes_of("b"):
            cluster.heal_node(node)
        await cluster.run_until("1580s")
        left = next(at for at, _, state in zones.told if at > 1500 and state != "FullDisruption")
        tainted = seconds(cluster.seen.no_execute)
        assert sorted(cluster.seen.no_execute) == cluster.nodes_of("a")
        assert left + 10 <= tainted[0] <= left + 10.2
        assert all(10 <= gap <= 10.1 for gap in gaps(tainted))


@pytest.mark.parametrize("zones", [1, 2, 5])
async def test_24_nothing_is_tainted_when_all_zones_go_together(zones: int) -> None:
    async with FixedPhases(dict.fromkeys("abcde"[:zones], 3)) as cluster:
        cluster.apply(*pods_on(cluster.nodes, 1))
        await cluster.kill(*cluster.nodes)
        await cluster.run_until("1000s")
        assert len(cluster.seen.unknown) == 3 * zones
        assert not cluster.seen.no_execute
        assert not cluster.seen.deleted


async def test_23_each_lost_zone_is_tainted_at_its_own_rate() -> None:
    """Two of four zones: two queues, side by side."""
    async with FixedPhases({"a": 4, "b": 6, "c": 3, "d": 3}) as cluster:
        lost = (cluster.nodes_of("a"), cluster.nodes_of("b"))
        await cluster.kill(*lost[0], *lost[1])
        await cluster.run_until("220s")
        for nodes in lost:
            tainted = sorted(cluster.seen.no_execute[node] / SECOND for node in nodes)
            assert all(10 <= gap <= 10.1 for gap in gaps(tainted))
        assert len(cluster.seen.no_execute) == 10
