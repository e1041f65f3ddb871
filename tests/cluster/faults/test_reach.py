"""An API server that is cut off from the storage, or reaches it over a slow line, while its replica
does not.

What must hold (`actors.apiserver.lifecycle.storage_connection`): it answers from its frozen caches;
requests that need the storage wait until the line is healed or the request's minute is over; the
replica is not affected.
"""

from __future__ import annotations

import pytest

from sim.api.types import Reply, Request
from sim.app.cluster import Cluster
from sim.kernel import Rule
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import MS, SECOND
from tests.cluster.timing.api.test_timing_api import label, pod
from tests.cluster.timing.api.test_timing_watches import stream
from tests.cluster.timing.test_timing_plane import bare

CUT_OFF, OTHER = "apiserver-0", "apiserver-1"


def disturb(
    cluster: Cluster, source: str = CUT_OFF, target: str = "storage", latency_us: int = 0, both: bool = True
) -> None:
    """Cut the line, or slow it down."""
    slow = latency_us or None
    rule = Rule(
        "line",
        frozenset([source]),
        frozenset([target]),
        cut=slow is None,
        low_us=slow,
        high_us=slow,
        both_ways=both,
    )
    cluster.kernel.network.impose(rule)


class Asked:
    """One request about pods, and when it was answered."""

    def __init__(self, cluster: Cluster, verb: str, server: str, name: str = "", **options: str) -> None:
        self._cluster, self._began_us = cluster, cluster.kernel.now_us
        self.reply: Reply | None = None
        self.took = 0.0
        request = Request(
            verb=verb,
            resource="pods",
            namespace="" if verb == "list" else "default",
            name="" if verb == "create" else name,
            body=pod(name) if verb == "create" else None,
            options=options,
            user=cluster.admin_user,
        )
        cluster.kernel.call_later(0, lambda _: cluster.api_servers[server].handle(request, self._told))

    def _told(self, reply: Reply) -> None:
        self.reply, self.took = reply, (self._cluster.kernel.now_us - self._began_us) / SECOND

    @property
    def code(self) -> int:
        return -1 if self.reply is None else self.reply.code

    @property
    def names(self) -> list[str]:
        assert self.reply is not None and self.reply.items is not None
        return [item.obj["metadata"]["name"] for item in self.reply.items]


def stored(cluster: Cluster) -> list[str]:
    return [obj["metadata"]["name"] for obj in cluster.list("pods")]


async def test_caches_answer_and_all_else_waits_for_the_line_or_for_its_minute() -> None:
    async with Cluster(bare(2), seed=1) as cluster:
        cluster.apply(pod("old"))
        await cluster.run_for("5s")
        disturb(cluster)
        made = Asked(cluster, "create", OTHER, "new")
        await cluster.run_for("1s")
        stale = Asked(cluster, "list", CUT_OFF, resourceVersion="0")
        fresh = Asked(cluster, "list", CUT_OFF)
        lost = Asked(cluster, "create", CUT_OFF, "lost")
        await cluster.run_for("49s")
        late = Asked(cluster, "create", CUT_OFF, "late")
        await cluster.run_for("20s")
        assert made.code == 201 and (stale.code, stale.names) == (200, ["old"])
        assert (fresh.code, lost.code) == (504, 504)
        assert (fresh.took, lost.took) == (60, 34)  # a write has less time
        assert late.code == -1 and stored(cluster) == ["new", "old"]
        cluster.kernel.network.lift("line")
        await cluster.run_for("1s")
        assert late.code == 201 and 20 <= late.took <= 20.01
        assert stored(cluster) == ["late", "new", "old"]  # no request waited for another
        after = Asked(cluster, "list", CUT_OFF, resourceVersion="0")
        await cluster.run_for("1s")
        assert after.names == ["late", "new", "old"] and after.took < 0.01


async def test_when_only_answers_are_lost_what_was_written_stays() -> None:
    async with Cluster(bare(2), seed=1) as cluster:
        await cluster.run_for("5s")
        disturb(cluster, "storage", CUT_OFF, both=False)
        asked = Asked(cluster, "create", CUT_OFF, "made")
        await cluster.run_for("1s")
        assert stored(cluster) == ["made"]
        shown = Asked(cluster, "list", CUT_OFF, resourceVersion="0")
        await cluster.run_for("60s")
        assert (asked.code, asked.took, shown.names) == (504, 34, [])


async def test_nothing_is_written_over_a_dead_connection_because_its_replies_are_lost() -> None:
    async with Cluster(bare(2), seed=1) as cluster:
        await cluster.run_for("5s")
        disturb(cluster, "storage", CUT_OFF, both=False)
        await cluster.run_for("39s")
        Asked(cluster, "create", CUT_OFF, "made")
        await cluster.run_for("2s")
        late = Asked(cluster, "create", CUT_OFF, "late")
        await cluster.run_for("30s")
        assert stored(cluster) == ["made"]
        cluster.kernel.network.lift("line")
        await cluster.run_for("1s")
        assert stored(cluster) == ["late", "made"] and late.code == 201


async def test_a_slow_line_is_crossed_there_and_back_and_watches_come_so_much_later() -> None:
    async with Cluster(bare(2), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("5s")
        disturb(cluster, latency_us=100 * MS)
        read, other = (Asked(cluster, "get", server, "a") for server in (CUT_OFF, OTHER))
        seen = await stream(cluster, "pods", resourceVersion="0")
        await cluster.run_for("1s")
        label(cluster, "pods", "default", "a", "1")
        await cluster.run_for("1s")
        assert (read.code, other.code) == (200, 200)
        assert 0.2 <= read.took <= 0.203 and other.took < 0.001
        assert [round(at, 2) for at, kind in seen.told if kind == "MODIFIED"] == [1.1]
        cluster.kernel.network.lift("line")
        again = Asked(cluster, "get", CUT_OFF, "a")
        await cluster.run_for("1s")
        assert again.took < 0.001


@pytest.mark.parametrize("minutes", [1, 14])
async def test_watch_continues_unless_its_missed_history_is_compacted(minutes: int) -> None:
    """The other server compacts each five minutes, to where it was five minutes before."""
    async with Cluster(bare(2), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("11m")
        watch = await stream(cluster, "pods", resourceVersion="0")
        await cluster.run_for("1s")
        disturb(cluster)
        for minute in range(minutes):
            label(cluster, "pods", "default", "a", str(minute))
            await cluster.run_for("1m")
        assert watch.ended is None and [kind for _, kind in watch.told] == ["ADDED"]
        cluster.kernel.network.lift("line")
        await cluster.run_for("1s")
        assert (watch.ended is None) is (minutes == 1)
        assert len(watch.told) == (2 if minutes == 1 else 1)


async def test_paused_server_gets_no_progress_of_the_storage() -> None:
    """Every ten minutes it sends progress to all watches that are reachable. What is shown outlives
    history.
    """
    async with Cluster(bare(2), seed=1) as cluster:
        cluster.apply(pod("old"))
        await cluster.run_for("5s")
        cluster.faults.impose("diverge", CUT_OFF, "frozen", True)
        cluster.apply(pod("new"))
        await cluster.run_for("16m")
        shown = Asked(cluster, "list", CUT_OFF, resourceVersion="0")
        await cluster.run_for("1s")
        assert shown.names == ["old"]


async def test_clients_of_a_cut_off_server_time_out_and_those_of_its_replica_do_not() -> None:
    """Agents keep their connections, so that the leases of those at the cut-off server stay as they
    are.  Healed, a heartbeat that was made from an old read does not make a node ready: the next
    pass does, within 10.4 s.
    """
    plan = ClusterPlan(
        nodes=Cluster(nodes=6).plan.nodes, api_server=ComponentPlan(2), controller_manager=ComponentPlan(2)
    )
    async with Cluster(plan, seed=3) as cluster:
        await cluster.run_for("3m")
        disturb(cluster)
        await cluster.run_for("3m")
        given_up = {obj["metadata"]["name"] for obj in cluster.list("nodes") if not is_ready(obj)}
        assert 0 < len(given_up) < 6
        cluster.kernel.network.lift("line")
        await cluster.run_for("100ms")
        assert not all(is_ready(obj) for obj in cluster.list("nodes"))
        await cluster.run_for("10400ms")
        assert all(is_ready(obj) for obj in cluster.list("nodes"))


def is_ready(node: dict[str, object]) -> bool:
    status = node["status"]
    assert isinstance(status, dict)
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status["conditions"])
