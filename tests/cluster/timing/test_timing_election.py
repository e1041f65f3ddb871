"""Leaders by time on whole clusters: known cases, numbered in the names of the tests, and what
follows from the facts for other periods and numbers of candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from typing import Any

import pytest

from sim.api.store import Change
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.kernel import Rule
from sim.kernel.actor import Actor
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import MS, SECOND
from tests.cluster.timing.api.test_timing_api import pod

MANAGER, SCHEDULER = "controller-manager", "scheduler"
JITTER = 2.2  # the longest wait between two tries at a lease held by another, in retry periods


@dataclass(frozen=True, slots=True)
class Periods:
    lease: float = 15
    deadline: float = 10
    retry: float = 2

    def flags(self) -> dict[str, str]:
        return {
            "leader-elect-lease-duration": f"{self.lease}s",
            "leader-elect-renew-deadline": f"{self.deadline}s",
            "leader-elect-retry-period": f"{self.retry}s",
        }


DEFAULTS = Periods()
OTHERS = (
    DEFAULTS,
    Periods(60, 40, 5),
    Periods(137, 107, 26),
    Periods(4, 3, 1),
    Periods(20, 10, 8),
    Periods(15, 14, 1),
)


def candidates(part: str, count: int = 2, periods: Periods = DEFAULTS) -> ClusterPlan:
    """A cluster without nodes that has some candidates of one part and nothing of the other."""
    flags = {**periods.flags(), **({"controllers": "nodelifecycle"} if part == MANAGER else {})}
    plan = ComponentPlan(count, flags)
    if part == MANAGER:
        return ClusterPlan(controller_manager=plan, scheduler=ComponentPlan(0))
    return ClusterPlan(controller_manager=ComponentPlan(0), scheduler=plan)


@dataclass(slots=True)
class Leadership:
    """The writes of a lease, and when processes ended, in seconds."""

    cluster: Cluster
    part: str
    wrote: list[tuple[float, Obj]] = field(default_factory=list)
    taken: list[tuple[float, str]] = field(
        default_factory=list
    )  # the successive holders; the first is the first leader
    ended: list[tuple[float, str]] = field(default_factory=list)
    lost: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        cluster = self.cluster
        cluster.observe(self._see)
        trace = cluster.kernel.trace
        trace.listen(trace.kind("actor", "what", "name", "reason"), self._end)
        trace.listen(trace.kind("decision", "actor", "what", "target", "why"), self._lose)

    def _see(self, change: Change) -> None:
        key = change.item.key.split("/")
        if "leases" in key and key[-1] == self.cluster.names.component(self.part):
            at, spec = change.at_us / SECOND, change.item.obj["spec"]
            self.wrote.append((at, spec))
            holder = spec["holderIdentity"]
            if holder and (not self.taken or self.taken[-1][1] != holder):
                self.taken.append((at, holder))

    def _end(self, _: int, at_us: int, __: int, values: Sequence[Any]) -> None:
        if values[0] in ("exit", "crash"):
            self.ended.append((at_us / SECOND, values[1]))

    def _lose(self, _: int, at_us: int, __: int, values: Sequence[Any]) -> None:
        if values[1] == "lost-lease":
            self.lost.append((at_us / SECOND, values[0]))

    @property
    def leader(self) -> str:
        return self.cluster.actor_named(f"{self.part}-leader")

    @property
    def spec(self) -> Obj:
        return self.wrote[-1][1]

    @property
    def holder(self) -> str:
        return str(self.spec["holderIdentity"])

    @property
    def renewed(self) -> float:
        return max(at for at, spec in self.wrote if spec["holderIdentity"])

    async def until_taken(self, number: int, limit: str = "600s") -> float:
        """Run until the lease has passed on so often; when it did."""
        assert await self.cluster.run_while(lambda: len(self.taken) <= number, limit, SECOND // 10)
        return self.taken[number][0]


def ends_for_good(actor: Actor) -> None:
    """Send SIGTERM to a process, without a restart two seconds later."""
    actor.barred = True
    actor.terminate()


def starts_again(actor: Actor) -> None:
    actor.barred = False
    actor.start()


# --- 40: a leader crashes -------------------------------------------------------------------------


@pytest.mark.parametrize("periods", OTHERS)
@pytest.mark.parametrize("part", [MANAGER, SCHEDULER])
async def test_40_a_standby_leads_a_lease_and_two_tries_after_a_crash_at_most(
    part: str, periods: Periods
) -> None:
    """13.0 to 23.8 s by default: a lease less one retry period, to a lease and two of the longest
    waits.
    """
    draw = Random(7)
    async with Cluster(candidates(part, 2, periods), seed=1) as cluster:
        lease = Leadership(cluster, part)
        await cluster.run_for("30s")
        for number in range(1, 9):
            await cluster.run_for(int((1 + 3 * draw.random()) * periods.lease * SECOND))
            crashed, actor = cluster.kernel.now_us / SECOND, cluster.supervisor[lease.leader]
            actor.crash("killed")
            took = await lease.until_taken(number) - crashed
            assert periods.lease - periods.retry - 0.01 <= took <= periods.lease + 2 * JITTER * periods.retry
            assert lease.spec["leaseTransitions"] == number
            assert lease.spec["leaseDurationSeconds"] == periods.lease
            actor.start()


@pytest.mark.parametrize(("standbys", "mean"), [(2, 16.5), (4, 15.9)])
async def test_40_more_standbys_follow_sooner(standbys: int, mean: float) -> None:
    draw, took = Random(9), []
    async with Cluster(candidates(MANAGER, standbys + 1), seed=2) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("20s")
        for number in range(1, 61):
            await cluster.run_for(int((10 + 10 * draw.random()) * SECOND))
            crashed, actor = cluster.kernel.now_us / SECOND, cluster.supervisor[lease.leader]
            actor.crash("killed")
            took.append(await lease.until_taken(number) - crashed)
            actor.start()
    assert min(took) >= 13.0 and max(took) <= 23.8
    assert abs(fmean(took) - mean) <= 0.5  # of sixty: more than two standard errors


# --- 42: a leader is asked to go ------------------------------------------------------------------


@pytest.mark.parametrize("periods", OTHERS)
async def test_42_a_scheduler_that_ends_in_peace_gives_its_lease_up(periods: Periods) -> None:
    """The standby leads 4.4 s after at most, its longest wait between two tries, 1.7 s on average."""
    draw, took, count = Random(5), [], 120 if periods == DEFAULTS else 6
    async with Cluster(candidates(SCHEDULER, 2, periods), seed=1) as cluster:
        lease = Leadership(cluster, SCHEDULER)
        await cluster.run_for("30s")
        for number in range(1, count + 1):
            await cluster.run_for(int((3 + 3 * draw.random()) * periods.retry * SECOND))
            before, leader, writes = cluster.kernel.now_us / SECOND, lease.leader, len(lease.wrote)
            ends_for_good(cluster.supervisor[leader])
            taken = await lease.until_taken(number)
            at, released = next(held for held in lease.wrote[writes:] if not held[1]["holderIdentity"])
            assert at - before <= 0.05
            assert released["leaseDurationSeconds"] == 1
            assert released["leaseTransitions"] == number - 1
            assert lease.spec["leaseTransitions"] == number
            assert lease.ended[-1][1] == leader and lease.ended[-1][0] <= before + 0.05
            took.append(taken - before)
            starts_again(cluster.supervisor[leader])
    assert max(took) <= JITTER * periods.retry + 0.02
    if count > 100:
        assert abs(fmean(took) - 1.7) <= 0.3  # of 120: three standard errors


@pytest.mark.parametrize("periods", [DEFAULTS, Periods(60, 40, 5), Periods(4, 3, 1)])
async def test_42_a_controller_manager_that_ends_in_peace_is_followed_as_one_that_crashed(
    periods: Periods,
) -> None:
    draw = Random(6)
    async with Cluster(candidates(MANAGER, 2, periods), seed=1) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("30s")
        for number in range(1, 9):
            await cluster.run_for(int((1 + 2 * draw.random()) * periods.lease * SECOND))
            stopped, leader = cluster.kernel.now_us / SECOND, lease.leader
            ends_for_good(cluster.supervisor[leader])
            assert lease.ended[-1] == (stopped, leader)
            took = await lease.until_taken(number) - stopped
            assert periods.lease - periods.retry - 0.01 <= took <= periods.lease + 2 * JITTER * periods.retry
            assert all(spec["holderIdentity"] for _, spec in lease.wrote)
            starts_again(cluster.supervisor[leader])


async def test_42_a_standby_that_ends_in_peace_leaves_the_lease_alone() -> None:
    async with Cluster(candidates(SCHEDULER), seed=1) as cluster:
        lease = Leadership(cluster, SCHEDULER)
        await cluster.run_for("30s")
        leader = lease.leader
        (standby,) = {f"{SCHEDULER}-0", f"{SCHEDULER}-1"} - {leader}
        ends_for_good(cluster.supervisor[standby])
        await cluster.run_for("30s")
        assert [name for _, name in lease.ended] == [standby]
        assert lease.leader == leader and len(lease.taken) == 1


async def test_42_a_scheduler_places_no_pod_while_it_gives_its_lease_up() -> None:
    """Answers take 100 ms to come, a try to place a pod takes one."""
    placed: list[int] = []
    plan = ClusterPlan(nodes=plain_nodes(2), latency_us=(50 * MS, 50 * MS))
    async with Cluster(plan, seed=1) as cluster:
        trace = cluster.kernel.trace
        kind = trace.kind("schedule", "pod", "node", "message")
        trace.listen(kind, lambda _, at_us, __, values: placed.append(at_us))
        lease = Leadership(cluster, SCHEDULER)
        await cluster.run_for("30s")
        for number in range(150):
            assert cluster.request("create", "pods", "default", body=pod(f"pod-{number}")).ok
        assert await cluster.run_while(lambda: len(placed) < 10, "1s", MS)
        leader, asked_us = cluster.supervisor[lease.leader], cluster.kernel.now_us
        ends_for_good(leader)
        await cluster.run_for("10s")
        assert lease.holder == ""
        assert [round(at - asked_us / SECOND, 1) for at, _ in lease.ended] == [0.1]
        assert max(placed) <= asked_us


# --- 43: a leader is cut off ----------------------------------------------------------------------


@pytest.mark.parametrize("periods", OTHERS)
@pytest.mark.parametrize("part", [MANAGER, SCHEDULER])
@pytest.mark.parametrize("both_ways", [True, False])
async def test_43_a_leader_that_loses_the_api_stops_before_anybody_follows(
    part: str, periods: Periods, both_ways: bool
) -> None:
    """10 to 12.1 s after its requests begin to fail; the other leads a lease after the last renewal
    at the earliest.

    both_ways: True if it receives no replies either.
    """
    draw = Random(8)
    async with Cluster(candidates(part, 2, periods), seed=1) as cluster:
        lease = Leadership(cluster, part)
        await cluster.run_for("30s")
        network = cluster.kernel.network
        for number in range(1, 4):
            await cluster.run_for(int((1 + 2 * draw.random()) * periods.lease * SECOND))
            failed, leader = cluster.kernel.now_us / SECOND, lease.leader
            renewed = lease.renewed
            network.impose(Rule("cut", frozenset({leader}), None, cut=True, both_ways=both_ways))
            taken = await lease.until_taken(number)
            (stopped,) = [at for at, name in lease.lost if name == leader and at > failed]
            assert periods.deadline <= stopped - failed <= periods.deadline + periods.retry + 0.1
            assert taken >= renewed + periods.lease
            assert taken >= failed + periods.lease - periods.retry - 0.1
            assert stopped < taken
            network.lift("cut")
            # The process that lost starts again and becomes the standby.
            await cluster.run_for("10s")
            assert lease.taken[-1][0] == taken
            if part == MANAGER:  # it makes no announcement, so its process ends at once
                assert (stopped, leader) in lease.ended


async def test_43_server_that_returns_within_the_deadline_keeps_its_leader() -> None:
    async with Cluster(candidates(MANAGER), seed=1) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("31s")
        cluster.supervisor["apiserver-0"].crash("killed")
        await cluster.run_for("9s")
        cluster.supervisor["apiserver-0"].start()
        await cluster.run_for("60s")
        assert len(lease.taken) == 1 and not lease.lost
        assert cluster.kernel.now_us / SECOND - lease.renewed <= 2.1


async def test_43_the_death_of_all_servers_stops_every_leader_and_one_leads_again_after() -> None:
    async with Cluster(candidates(MANAGER), seed=1) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("31s")
        failed, leader = cluster.kernel.now_us / SECOND, lease.leader
        cluster.supervisor["apiserver-0"].crash("killed")
        await cluster.run_for("60s")
        ((stopped, name),) = lease.lost
        assert name == leader and 10 <= stopped - failed <= 12.1
        cluster.supervisor["apiserver-0"].start()
        await cluster.run_for("30s")
        # The standby observed the lease a minute ago; the process that lost it started again.
        assert len(lease.taken) == 2
        assert lease.spec["leaseTransitions"] == 1
