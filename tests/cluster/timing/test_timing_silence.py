"""What counts as a sign of life of a node, on whole clusters: known cases 28 and 29 in breadth.

The node in question is an object without an agent; what it says is said here, through the API.
"""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.types import Obj
from sim.scenario.plan.plan import ClusterPlan
from sim.units import SECOND, format_micro_time, format_time
from tests.cluster.fixed import FixedPhases
from tests.cluster.timing.api.test_timing_api import PATCH
from tests.cluster.timing.test_timing_node_faults import NodeLog
from tests.cluster.timing.test_timing_zones import manager

PASS = 5.01
MINUTE = 60 * SECOND


class Ghost:
    """A node of which only what is said here is known."""

    def __init__(self, cluster: FixedPhases) -> None:
        self.cluster = cluster
        self.log = NodeLog(cluster)

    @property
    def wall_us(self) -> int:
        return self.cluster.kernel.epoch_us + self.cluster.kernel.now_us

    def ask(self, verb: str, resource: str, name: str, **more: Any) -> Obj:
        namespace = self.cluster.names.lease_namespace if resource == "leases" else ""
        reply = self.cluster.request(verb, resource, namespace, name, **more)
        assert reply.ok, reply.message
        obj: Obj = reply.body if reply.obj is None else reply.obj
        return obj

    def appear(self) -> None:
        self.ask(
            "create", "nodes", "", body={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ghost"}}
        )

    def report(self, status: str = "True", shift_us: int = 0, **more: Any) -> None:
        """Post a status, as of now by a clock that may be wrong."""
        now = format_time(self.wall_us + shift_us)
        ready = {"type": "Ready", "status": status, "reason": "x", "lastHeartbeatTime": now, **more}
        ready.setdefault("lastTransitionTime", now)
        body = {"status": {"conditions": [ready]}}
        self.ask("patch", "nodes", "ghost", subresource="status", body=body, content_type=PATCH)

    def renew(self, shift_us: int = 0, text: str = "") -> None:
        """Write the lease, as of now by a clock that may be wrong, or with this very time."""
        names = self.cluster.names
        spec = {"renewTime": text or format_micro_time(self.wall_us + shift_us), "holderIdentity": "ghost"}
        if self.cluster.get("leases", "ghost", names.lease_namespace) is None:
            api_version = self.cluster.scheme.resource("leases").api_version
            body = {"apiVersion": api_version, "kind": "Lease", "metadata": {"name": "ghost"}, "spec": spec}
            self.ask("create", "leases", "", body=body)
        else:
            self.ask("patch", "leases", "ghost", body={"spec": spec}, content_type=PATCH)

    def unknown(self) -> list[float]:
        return self.log.ready.get(("ghost", "Unknown"), [])


def ghosts(control: ClusterPlan | None = None) -> FixedPhases:
    return FixedPhases({"": 3}, control or ClusterPlan())


def passes_after(at: float) -> float:
    """The first pass after an instant, when nothing is written in passes."""
    return 2 + (int((at - 2) / PASS) + 1) * PASS


@pytest.mark.parametrize(("grace", "period"), [(60, 5), (20, 5), (120, 5), (60, 1), (30, 10)])
async def test_28_a_node_that_never_speaks_has_its_startup_grace(grace: int, period: int) -> None:
    control = manager(node_startup_grace_period=f"{grace}s", node_monitor_period=f"{period}s")
    async with ghosts(control) as cluster:
        ghost = Ghost(cluster)
        await cluster.run_until("10s")
        ghost.appear()
        await cluster.run_until((grace + 40) * SECOND)
        (unknown,) = ghost.unknown()
        assert grace < unknown - 10 <= grace + period + 0.1


async def test_28_node_that_reported_once_has_forty_seconds_from_the_observing_pass() -> None:
    async with ghosts() as cluster:
        ghost = Ghost(cluster)
        await cluster.run_until("10s")
        ghost.appear()
        await cluster.run_until("33s")
        ghost.report()
        await cluster.run_until("120s")
        (unknown,) = ghost.unknown()
        heard = passes_after(33)
        assert 40 < unknown - heard <= 40 + PASS
        condition = cluster.list("nodes")[0]["status"]["conditions"][0]
        assert (condition["status"], condition["reason"]) == ("Unknown", "NodeStatusUnknown")


@pytest.mark.parametrize(("every", "dies"), [(10, False), (34, False), (75, True)])
async def test_29_status_alone_keeps_a_node_alive_if_it_comes_often_enough(every: int, dies: bool) -> None:
    async with ghosts() as cluster:
        ghost = Ghost(cluster)
        ghost.appear()
        for _ in range(450 // every):
            ghost.report()
            await cluster.run_for(every * SECOND)
        assert len(ghost.unknown()) == (450 // every if dies else 0)


async def test_29_a_lease_keeps_a_node_that_spoke_once_alive_and_its_end_is_its_death() -> None:
    async with ghosts() as cluster:
        ghost = Ghost(cluster)
        ghost.appear()
        ghost.report()
        for _ in range(30):
            ghost.renew()
            await cluster.run_for("10s")
        assert not ghost.unknown()
        last = cluster.kernel.now_us / SECOND - 10
        await cluster.run_for("60s")
        (unknown,) = ghost.unknown()
        assert 40 < unknown - last <= 40 + 2 * PASS


@pytest.mark.parametrize("shift", [-86_400, 0, 86_400])
async def test_29_the_nodes_clock_may_be_wrong_if_it_is_always_so(shift: int) -> None:
    async with ghosts() as cluster:
        ghost = Ghost(cluster)
        ghost.appear()
        for _ in range(20):
            ghost.renew(shift * SECOND)
            ghost.report(shift_us=shift * SECOND)
            await cluster.run_for("10s")
        assert not ghost.unknown()


async def test_29_leases_of_a_clock_that_was_set_back_are_no_signs_of_life() -> None:
    """Only a time after the one seen before is one, by the node's own clock."""
    async with ghosts() as cluster:
        ghost = Ghost(cluster)
        ghost.appear()
        ghost.report()
        ghost.renew(3600 * SECOND)
        await cluster.run_until("10s")
        for _ in range(12):
            ghost.renew()
            await cluster.run_for("10s")
        (unknown,) = ghost.unknown()
        assert 40 < unknown - 2 <= 40 + PASS + 0.1


async def test_29_a_lease_that_is_written_without_a_new_time_is_no_sign_of_life() -> None:
    async with ghosts() as cluster:
        ghost = Ghost(cluster)
        ghost.appear()
        ghost.report()
        text = format_micro_time(ghost.wall_us)
        for number in range(12):
            ghost.renew(text=text)
            body = {"spec": {"leaseDurationSeconds": 40 + number}}
            ghost.ask("patch", "leases", "ghost", body=body, content_type=PATCH)
            await cluster.run_for("10s")
        (unknown,) = ghost.unknown()
        assert 40 < unknown <= 40 + 2 * PASS


async def test_29_status_with_an_older_heartbeat_counts_as_a_report() -> None:
    async with ghosts() as cluster:
        ghost = Ghost(cluster)
        ghost.appear()
        for number in range(20):
            ghost.report(shift_us=-number * 3600 * SECOND)
            await cluster.run_for("10s")
        assert not ghost.unknown()


async def test_29_status_with_the_same_heartbeat_is_no_report_and_is_overwritten() -> None:
    async with ghosts() as cluster:
        ghost = Ghost(cluster)
        ghost.appear()
        beat = format_time(ghost.wall_us)
        for number in range(6):
            ghost.report(lastHeartbeatTime=beat, message=f"turn {number}", lastTransitionTime=beat)
            await cluster.run_for("10s")
        first, second = ghost.unknown()
        assert 40 < first <= 50
        assert 50 < second <= 50 + PASS + 0.1  # what was said at 50


async def test_2_taint_removed_from_a_dead_node_returns() -> None:
    """NoSchedule at once, NoExecute by the queue: in the next pass but one at most."""
    async with ghosts() as cluster:
        ghost = Ghost(cluster)
        ghost.appear()
        ghost.report()
        await cluster.run_until("100s")
        key = cluster.names.taint_unreachable.rpartition("/")[2]
        assert len(ghost.log.came["ghost", key, "NoExecute"]) == 1
        ghost.ask("patch", "nodes", "ghost", body={"spec": {"taints": None}}, content_type=PATCH)
        await cluster.run_until("130s")
        soon, late = (
            ghost.log.came["ghost", key, "NoSchedule"][1],
            ghost.log.came["ghost", key, "NoExecute"][1],
        )
        assert 0 <= soon - 100 <= 0.1
        assert 0 <= late - 100 <= 2 * PASS + 0.2


async def test_28_node_recreated_under_an_old_name_has_its_startup_grace_again() -> None:
    async with ghosts() as cluster:
        ghost = Ghost(cluster)
        ghost.appear()
        ghost.report()
        await cluster.run_until("30s")
        ghost.ask("delete", "nodes", "ghost")
        await cluster.run_until("40s")
        ghost.appear()
        await cluster.run_until("130s")
        (unknown,) = ghost.unknown()
        assert 60 < unknown - 40 <= 60 + PASS + 0.1
