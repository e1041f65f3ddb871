"""Zones that change their state while their failed nodes wait, and nodes with changing taints, with
the consequences for pods.

Fixed phases as in the known cases: nodes that fail at 95 are Unknown at 132.3, and the first of a
zone has its NoExecute taint at 137.3, others 10 s apart. A zone's rate is set only when its state
changes, its bucket holds one token, and a bucket that replaces an empty one, or none, starts empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from sim.api.types import Obj
from sim.units import SECOND, format_time
from tests.cluster.fixed import FixedPhases
from tests.cluster.seen import pods_on, pods_with
from tests.cluster.timing.test_timing_node_faults import NOT_READY, UNREACHABLE, NodeLog
from tests.cluster.timing.test_timing_waiting_nodes import MERGE, label, waiting
from tests.cluster.timing.test_timing_zones import Zones, gaps, manager, taints

LARGE_FROM_5 = {"large_cluster_size_threshold": "5", "secondary_node_eviction_rate": "0.05"}


def tainted(cluster: FixedPhases, nodes: Iterable[str]) -> list[float]:
    return sorted(cluster.seen.no_execute[name] / SECOND for name in nodes if name in cluster.seen.no_execute)


def regularly(times: Sequence[float], first: float, period: float) -> bool:
    """One about when it is due, within 0.4 s, the others in turn: a tick and the writes come on top
    of each period.
    """
    return 0 <= times[0] - first <= 0.4 and all(period - 0.01 <= gap <= period + 0.2 for gap in gaps(times))


def remove(cluster: FixedPhases, nodes: Iterable[str]) -> None:
    for name in nodes:
        cluster.fail_node(name, "power-loss")
        assert cluster.request("delete", "nodes", "", name).ok


def join(cluster: FixedPhases, count: int = 1, zone: str = "") -> None:
    for number in range(count):
        cluster.add_node(replace(cluster.plan.nodes[0], name=f"late-{number}", zone=zone))


# --- which nodes are one zone ---------------------------------------------------------------------


async def test_nodes_of_one_zone_name_in_two_regions_are_two_zones() -> None:
    """Four of six: as one zone it would be partly disrupted, with no node tainted."""
    async with FixedPhases({"a": 6}) as cluster:
        await cluster.run_until("20s")
        nodes = cluster.nodes_of("a")
        for number, name in enumerate(nodes):
            label(cluster, name, {cluster.names.label_region: "north" if number < 4 else "south"})
        await cluster.kill(*nodes[:4])
        await cluster.run_until("200s")
        assert regularly(tainted(cluster, nodes), 137.27, 10)
        assert len(cluster.seen.no_execute) == 4


async def test_beta_label_defines_a_nodes_zone_before_the_other_label() -> None:
    async with FixedPhases({"a": 7}) as cluster:
        await cluster.run_until("20s")
        zones, nodes = Zones(cluster), cluster.nodes_of("a")
        for name in nodes[:4]:
            label(cluster, name, {cluster.names.label_beta_zone: "b"})
        await cluster.kill(*nodes[:4])
        await cluster.run_until("200s")
        assert zones.last["b"] == "FullDisruption"
        assert regularly(tainted(cluster, nodes[:4]), 137.27, 10)


async def test_nodes_without_labels_are_a_zone_beside_the_others() -> None:
    async with FixedPhases({"": 4, "a": 4}) as cluster:
        zones = Zones(cluster)
        await cluster.kill(*cluster.nodes_of(""))
        await cluster.run_until("200s")
        assert zones.last == {"": "FullDisruption", "a": "Normal"}
        assert len(cluster.seen.no_execute) == 4 and regularly(tainted(cluster, cluster.nodes), 137.27, 10)


# --- states that change midway --------------------------------------------------------------------


async def test_zone_with_more_losses_stops_and_resumes_ten_seconds_after_recovery() -> None:
    """8 of 20 and, 40 s later, 12 of 20; the later ones are found at 172.34."""
    async with FixedPhases({"": 20}) as cluster:
        zones, nodes = Zones(cluster), cluster.nodes_of()
        await cluster.kill(*nodes[:8])
        await cluster.kill(*nodes[8:12], at="135s")
        await cluster.run_until("600s")
        assert len(tainted(cluster, nodes)) == 4 and regularly(tainted(cluster, nodes), 137.27, 10)
        stopped, _, state = zones.told[-1]
        assert state == "PartialDisruption" and 172.34 <= stopped <= 173.4
        for name in waiting(cluster, nodes[:12])[:2]:
            cluster.heal_node(name)
        await cluster.run_until("700s")
        recovered, _, state = zones.told[-1]
        assert state == "Normal"
        assert len(tainted(cluster, nodes)) == 10
        assert regularly(tainted(cluster, nodes)[4:], recovered + 10, 10)


async def test_large_zone_with_more_losses_resumes_a_hundred_seconds_after() -> None:
    async with FixedPhases({"": 60}) as cluster:
        zones, nodes = Zones(cluster), cluster.nodes_of()
        await cluster.kill(*nodes[:20])
        await cluster.kill(*nodes[20:40], at="135s")
        await cluster.run_until("500s")
        slowed, _, state = zones.told[-1]
        times = tainted(cluster, nodes)
        before = [at for at in times if at <= slowed]
        assert state == "PartialDisruption"
        assert len(before) >= 3 and regularly(before, before[0], 10)
        assert len(times) - len(before) == 3 and regularly(times[len(before) :], slowed + 100, 100)


async def test_a_large_zone_that_loses_all_is_tainted_at_the_full_rate_ten_seconds_after() -> None:
    async with FixedPhases({"a": 60, "b": 3}) as cluster:
        zones, nodes = Zones(cluster), cluster.nodes_of("a")
        await cluster.kill(*nodes[:40])
        await cluster.kill(*nodes[40:], at="265s")
        await cluster.run_until("400s")
        lost = next(at for at, _, state in zones.told if state == "FullDisruption")
        times = tainted(cluster, nodes)
        assert [gap > 99 for gap in gaps([at for at in times if at <= lost])] == [True]
        assert regularly([at for at in times if at > lost], lost + 10, 10)


async def test_lost_zone_with_nodes_that_return_in_turn_stops_and_resumes() -> None:
    """8 of 10 left: partly disrupted; 4 of 10: normal."""
    async with FixedPhases({"a": 10, "b": 10}) as cluster:
        zones, nodes = Zones(cluster), cluster.nodes_of("a")
        await cluster.kill(*nodes)
        await cluster.run_until("160s")
        assert len(tainted(cluster, nodes)) == 3
        some = waiting(cluster, nodes)[:2]
        for name in some:
            cluster.heal_node(name)
        await cluster.run_until("300s")
        stopped, _, state = zones.told[-1]
        assert state == "PartialDisruption" and tainted(cluster, nodes)[-1] <= stopped
        known = len(tainted(cluster, nodes))
        left = [name for name in waiting(cluster, nodes) if name not in some]
        for name in left[:4]:
            cluster.heal_node(name)
        await cluster.run_until("400s")
        recovered, _, state = zones.told[-1]
        assert state == "Normal"
        assert sorted(cluster.seen.no_execute) == sorted({*nodes} - {*some, *left[:4]})
        assert regularly(tainted(cluster, nodes)[known:], recovered + 10, 10)


async def test_lost_zone_that_is_normal_again_resumes_without_a_break() -> None:
    """The rate is the same, so nothing is changed."""
    async with FixedPhases({"a": 7, "b": 3}) as cluster:
        zones, nodes = Zones(cluster), cluster.nodes_of("a")
        await cluster.kill(*nodes)
        await cluster.run_until("139s")
        for name in waiting(cluster, nodes)[:4]:
            cluster.heal_node(name)
        await cluster.run_until("200s")
        assert [state for _, zone, state in zones.told if zone.endswith("a")][1:] == [
            "FullDisruption",
            "Normal",
        ]
        assert len(tainted(cluster, nodes)) == 3 and regularly(tainted(cluster, nodes), 137.27, 10)


async def test_one_returned_node_of_all_restarts_the_other_zones_and_stops_its_own() -> None:
    async with FixedPhases({"a": 3, "b": 3, "c": 5}) as cluster:
        zones = Zones(cluster)
        await cluster.kill(*cluster.nodes)
        await cluster.run_until("600s")
        assert not cluster.seen.no_execute
        cluster.heal_node("node-c0")
        await cluster.run_until("700s")
        assert zones.last == {"a": "FullDisruption", "b": "FullDisruption", "c": "PartialDisruption"}
        back = next(at for at, _, state in zones.told if at > 600 and state == "PartialDisruption")
        for zone in "ab":
            times = tainted(cluster, cluster.nodes_of(zone))
            assert len(times) == 3 and regularly(times, back + 10, 10)
        assert not tainted(cluster, cluster.nodes_of("c"))


async def test_a_new_healthy_zone_beside_dark_ones_sets_none_of_them_going() -> None:
    """Quirk kept: their states do not change, and so their limiters stay as they were when all was
    dark.
    """
    async with FixedPhases({"a": 3, "b": 3}) as cluster:
        zones = Zones(cluster)
        await cluster.kill(*cluster.nodes)
        await cluster.run_until("300s")
        join(cluster, zone="c")
        await cluster.run_until("900s")
        assert zones.last == {"a": "FullDisruption", "b": "FullDisruption", "c": "Normal"}
        assert not cluster.seen.no_execute


async def test_secondary_rate_of_exactly_one_does_not_return_after_a_full_outage() -> None:
    flags = {"large_cluster_size_threshold": "5", "secondary_node_eviction_rate": "1"}
    async with FixedPhases({"": 8}, manager(**flags)) as cluster:
        zones, nodes = Zones(cluster), cluster.nodes_of()
        await cluster.kill(*nodes[:5])
        await cluster.run_until("160s")
        assert len(tainted(cluster, nodes)) == 5 and regularly(tainted(cluster, nodes), 137.27, 1)
        await cluster.kill(*nodes[5:], at="165s")
        await cluster.run_until("300s")
        assert zones.told[-1][2] == "FullDisruption" and taints(cluster, "NoExecute") == []
        cluster.seen.no_execute.clear()
        cluster.heal_node(nodes[0])
        await cluster.run_until("500s")
        assert zones.told[-1][2] == "PartialDisruption" and not cluster.seen.no_execute


# --- members that change --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dead", "change", "before", "after"),
    [
        (11, join, "PartialDisruption", "Normal"),  # 55 %, then 11 of 21
        (
            10,
            lambda cluster: remove(cluster, cluster.nodes_of()[18:]),
            "Normal",
            "PartialDisruption",
        ),  # 10 of 18
        (
            12,
            lambda cluster: remove(cluster, cluster.nodes_of()[:4]),
            "PartialDisruption",
            "Normal",
        ),  # 8 of 16
    ],
)
async def test_nodes_that_come_or_go_change_the_share(
    dead: int, change: Callable[[FixedPhases], None], before: str, after: str
) -> None:
    """A removed node's turn is spent on nothing, so that the first taint comes as many turns later."""
    async with FixedPhases({"": 20}) as cluster:
        zones, nodes = Zones(cluster), cluster.nodes_of()
        await cluster.kill(*nodes[:dead])
        await cluster.run_until("160s")
        assert zones.told[-1][2] == before
        known = len(tainted(cluster, nodes))
        assert known == (3 if before == "Normal" else 0)
        change(cluster)
        await cluster.run_until("260s")
        at, _, state = zones.told[-1]
        assert state == after and 160 < at <= 171
        if after == "PartialDisruption":
            assert len(tainted(cluster, nodes)) == known
        else:
            gone = sum(cluster.get("nodes", name) is None for name in nodes[:dead])
            assert regularly(tainted(cluster, nodes), at + 10 * (1 + gone), 10)


@pytest.mark.parametrize(
    ("size", "change", "rate"),
    [
        # 4 of 5, and not large any more
        (7, lambda cluster: remove(cluster, cluster.nodes_of()[5:]), 0.05),
        (6, join, 0),  # 4 of 7, and large by now
    ],
)
async def test_zone_with_a_changed_size_keeps_its_rate_while_it_keeps_its_state(
    size: int, change: Callable[[FixedPhases], None], rate: float
) -> None:
    flags = {**LARGE_FROM_5, "large_cluster_size_threshold": "6"}
    async with FixedPhases({"": size}, manager(**flags)) as cluster:
        zones, nodes = Zones(cluster), cluster.nodes_of()
        await cluster.kill(*nodes[:4])
        await cluster.run_until("150s")
        change(cluster)
        await cluster.run_until("300s")
        assert zones.told[-1][2] == "PartialDisruption"
        times = tainted(cluster, nodes)
        assert (len(times) == 4 and regularly(times, 137.27, 20)) if rate else not times


async def test_a_partly_disrupted_zone_takes_over_the_token_of_a_rate_of_nothing() -> None:
    flags = {**LARGE_FROM_5, "node_eviction_rate": "0"}
    async with FixedPhases({"": 8}, manager(**flags)) as cluster:
        await cluster.kill(*cluster.nodes_of()[:5])
        await cluster.run_until("260s")
        times = tainted(cluster, cluster.nodes)
        assert len(times) == 5 and regularly(times, 137.27, 20)


@pytest.mark.parametrize("first", [0, 5])
async def test_a_turn_that_comes_to_a_node_that_is_ready_again_is_spent_on_it(first: int) -> None:
    """Turns 12.5 s apart: that at 149.8 comes before the pass at 152.3 that takes two healthy ones
    out of the queue.
    """
    async with FixedPhases({"": 20}, manager(node_eviction_rate="0.08")) as cluster:
        nodes = cluster.nodes_of()[first : first + 4]
        await cluster.kill(*nodes)
        await cluster.run_until("148s")
        well, fine, dead = waiting(cluster, nodes)
        for name in (well, fine):
            say_ready(cluster, name)
        await cluster.run_until("175s")
        (at,) = tainted(cluster, [well, fine, dead])
        assert dead in cluster.seen.no_execute
        if not (149.8 <= at <= 150.1):
            assert 162.3 <= at <= 162.7


def say_ready(cluster: FixedPhases, name: str) -> None:
    node = cluster.get("nodes", name)
    assert node is not None
    now = format_time(cluster.kernel.epoch_us + cluster.kernel.now_us)
    conditions = [
        {**each, "status": "True", "lastHeartbeatTime": now} if each["type"] == "Ready" else each
        for each in node["status"]["conditions"]
    ]
    body = {"status": {"conditions": conditions}}
    reply = cluster.request("patch", "nodes", "", name, body=body, content_type=MERGE, subresource="status")
    assert reply.ok, reply.message


@pytest.mark.parametrize(("missing", "state"), [(6, "Normal"), (7, "PartialDisruption")])
async def test_nodes_that_never_spoke_count_as_not_ready_long_before_their_grace_is_over(
    missing: int, state: str
) -> None:
    """Beside five healthy ones: 6 of 11 are 54.5 %, 7 of 12 58 %."""
    async with FixedPhases({"b": 5}) as cluster:
        zones = Zones(cluster)
        await cluster.run_until("100s")
        labels = {cluster.names.label_zone: "b"}
        cluster.apply(
            *(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"mute-{number}", "labels": labels}}
                for number in range(missing)
            )
        )
        await cluster.run_until("110s")
        assert zones.last["b"] == state
        await cluster.run_until("180s")
        # their grace over, the first is tainted in the very pass that says Unknown, where the zone
        # has a rate
        unknown, times = cluster.seen.unknown["mute-0"] / SECOND, tainted(cluster, cluster.seen.unknown)
        assert 160 < unknown <= 165.3
        assert 0 <= times[0] - unknown <= 0.3 if state == "Normal" else not times


# --- pods -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("not_ready", "unreachable", "since", "stay"),
    [
        (200, 600, NOT_READY, 200),
        (600, 30, NOT_READY, 600),  # a timer that runs is kept
        (None, 30, UNREACHABLE, 30),
        (300, None, "", 0),  # the timer ends when nothing is left that limits the stay
    ],
)
async def test_a_stay_is_what_the_first_of_two_taints_gave_until_nothing_limits_it(
    not_ready: int | None, unreachable: int | None, since: str, stay: int
) -> None:
    """A node says that it is not ready, and then nothing more; the taints change places 50 s after
    the first came.
    """
    async with FixedPhases({"": 10}) as cluster:
        log, names = NodeLog(cluster), cluster.names
        limits: Mapping[str, int | None] = {
            names.taint_not_ready: not_ready,
            names.taint_unreachable: unreachable,
        }
        tolerations: list[Obj] = [
            {"key": key, "operator": "Exists", "effect": "NoExecute"}
            | ({} if limit is None else {"tolerationSeconds": limit})
            for key, limit in limits.items()
        ]
        cluster.apply(*pods_with("node-3", [tolerations]))
        await cluster.run_until("95s")
        cluster.nodes["node-3"].hang_runtime()
        await cluster.run_until("150s")
        cluster.fail_node("node-3", "power-loss")
        await cluster.run_until("1000s")
        assert (
            log.came["node-3", UNREACHABLE, "NoExecute"][0]
            > log.came["node-3", NOT_READY, "NoExecute"][0] + 45
        )
        deleted = [at_us / SECOND for at_us in cluster.seen.deleted.get("node-3", ())]
        if since:
            (at,) = deleted
            assert stay <= at - log.came["node-3", since, "NoExecute"][0] <= stay + 0.2
        else:
            assert not deleted


async def test_an_out_of_service_taint_evicts_and_frees_nothing() -> None:
    """It is a taint without tolerations as any other: its other effects are off in v1.25."""
    async with FixedPhases({"": 4}) as cluster:
        cluster.apply(*pods_on(["node-3"], 2))
        await cluster.kill("node-3")
        await cluster.run_until("200s")
        node = cluster.get("nodes", "node-3")
        assert node is not None
        key = cluster.names.taint_unreachable.rpartition("/")[0] + "/out-of-service"
        added = [*node["spec"]["taints"], {"key": key, "value": "nodeshutdown", "effect": "NoExecute"}]
        body = {"spec": {"taints": added}}
        assert cluster.request("patch", "nodes", "", "node-3", body=body, content_type=MERGE).ok
        await cluster.run_until("600s")
        assert all(200 <= at_us / SECOND <= 200.2 for at_us in cluster.seen.deleted["node-3"])
        assert len(cluster.seen.deleted["node-3"]) == len(cluster.list("pods", "default")) == 2


async def test_timers_of_a_removed_nodes_pods_run_out_before_the_collector_comes() -> None:
    async with FixedPhases({"": 4}) as cluster:
        key = cluster.names.taint_unreachable
        one: Obj = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 270}
        cluster.apply(*pods_with("node-3", [[one]]))
        await cluster.kill("node-3")
        await cluster.run_until("140s")
        (since,) = tainted(cluster, ["node-3"])
        await cluster.run_until(int((since + 250) * SECOND))
        assert cluster.request("delete", "nodes", "", "node-3").ok
        await cluster.run_until(int((since + 289) * SECOND))
        (deleted_us,) = cluster.seen.deleted["node-3"]
        assert 270 <= deleted_us / SECOND - since <= 270.2
        assert len(cluster.list("pods", "default")) == 1
        await cluster.run_until(int((since + 331) * SECOND))
        assert not cluster.list("pods", "default")


async def test_a_new_leader_takes_all_taints_off_and_gives_them_out_again_one_by_one() -> None:
    async with FixedPhases({"": 20}) as cluster:
        log, dead = NodeLog(cluster), cluster.nodes_of()[:5]
        cluster.apply(*pods_on(dead, 1))
        await cluster.kill(*dead)
        await cluster.run_until("250s")
        assert len(cluster.seen.no_execute) == 5
        cluster.supervisor["controller-manager-0"].crash("killed")
        await cluster.run_until("252s")
        cluster.supervisor["controller-manager-0"].start()
        await cluster.run_until("800s")
        off = sorted(log.went[name, UNREACHABLE, "NoExecute"][0] for name in dead)
        again = sorted(log.came[name, UNREACHABLE, "NoExecute"][-1] for name in dead)
        assert off[-1] - off[0] <= 1.5
        # in no order of names
        assert off != [log.went[name, UNREACHABLE, "NoExecute"][0] for name in dead]
        # The first write may need a retry, a tenth to two tenths of a second later.
        assert 0 <= again[0] - off[-1] <= 0.5 and all(9.7 <= gap <= 10.2 for gap in gaps(again))
        deleted = sorted(at_us / SECOND for name in dead for at_us in cluster.seen.deleted[name])
        assert all(300 <= at - since <= 300.2 for at, since in zip(deleted, again, strict=True))


@pytest.mark.parametrize(("dead", "state"), [(10, "FullDisruption"), (7, "PartialDisruption")])
async def test_a_new_leader_that_finds_zones_down_stops_before_it_has_tainted_anybody(
    dead: int, state: str
) -> None:
    """Its first pass queues all of them, and each zone has a token then; the pass is over a tick
    before one is taken.
    """
    async with FixedPhases({"a": 5, "b": 5} if dead == 10 else {"": 10}) as cluster:
        zones = Zones(cluster)
        await cluster.kill(*cluster.nodes_of("a"), *cluster.nodes_of("b"), *cluster.nodes_of("")[:dead])
        await cluster.run_until("200s")
        assert len(cluster.seen.unknown) == dead and not cluster.seen.no_execute
        cluster.supervisor["controller-manager-0"].crash("killed")
        await cluster.run_until("202s")
        cluster.supervisor["controller-manager-0"].start()
        await cluster.run_until("500s")
        assert set(zones.last.values()) == {state}
        assert not cluster.seen.no_execute
