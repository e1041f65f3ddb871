"""What follows from the facts beside the known cases, about nodes and the pods on them, on whole
clusters.

"Fixed phases" as in the known cases: leases renewed at 0, 10, 20 … s, passes over the nodes at
2.00, 7.01, 12.02 … s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from sim.api.store import Change
from sim.api.types import Obj
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND, parse_time
from tests.cluster.fixed import FixedPhases, seconds, workload
from tests.cluster.seen import pods_on
from tests.cluster.timing.node.test_node_timing_agent import PodTimes
from tests.cluster.timing.test_timing_zones import Zones, gaps, manager

Taint = tuple[str, str]  # the last part of its key, and its effect
NOT_READY, UNREACHABLE = "not-ready", "unreachable"


@dataclass(slots=True)
class NodeLog:
    """When nodes' taints came and went, and when their Ready status changed, in seconds."""

    cluster: FixedPhases
    came: dict[tuple[str, *Taint], list[float]] = field(default_factory=dict)
    went: dict[tuple[str, *Taint], list[float]] = field(default_factory=dict)
    ready: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster.observe(self._see)

    def _see(self, change: Change) -> None:
        if not change.item.key.startswith("//nodes/") or change.deleted:
            return
        name, at = change.item.obj["metadata"]["name"], change.at_us / SECOND
        before = change.prev.obj if change.prev is not None else {}
        old, new = self._taints(before), self._taints(change.item.obj)
        for taint in new:
            if taint not in old:
                self.came.setdefault((name, *taint), []).append(at)
        for taint in old:
            if taint not in new:
                self.went.setdefault((name, *taint), []).append(at)
        status = self._ready(change.item.obj)
        if status and status != self._ready(before):
            self.ready.setdefault((name, status), []).append(at)

    @staticmethod
    def _taints(node: Mapping[str, Any]) -> list[Taint]:
        found = (node.get("spec") or {}).get("taints") or ()
        return [(taint["key"].rpartition("/")[2], taint["effect"]) for taint in found]

    @staticmethod
    def _ready(node: Mapping[str, Any]) -> str:
        conditions = (node.get("status") or {}).get("conditions") or ()
        return next((each["status"] for each in conditions if each["type"] == "Ready"), "")


def cut_off(cluster: FixedPhases, *nodes: str) -> None:
    for name in nodes:
        cluster.fail_node(name, "network-cut")


def events(cluster: FixedPhases, reason: str, kind: str = "Pod") -> dict[str, int]:
    """How often each object had this event."""
    told: Counter[str] = Counter()
    for event in cluster.list("events"):
        if event["reason"] == reason and event["involvedObject"]["kind"] == kind:
            told[event["involvedObject"]["name"]] += event.get("count") or 1
    return dict(told)


def ready_of(pod: Obj) -> str:
    return str(next(each["status"] for each in pod["status"]["conditions"] if each["type"] == "Ready"))


# --- what becomes of a dead node's pods -----------------------------------------------------------


async def test_pods_of_a_silent_node_turn_unready_in_its_pass_and_keep_their_phase() -> None:
    async with FixedPhases({"": 4}) as cluster:
        times = PodTimes(cluster)
        cluster.apply(*pods_on(["node-3"], 5), *pods_on(["node-0"], 1))
        await cluster.kill("node-3")
        await cluster.run_until("140s")
        unknown = cluster.seen.unknown["node-3"] / SECOND
        gone = {f"pod-node-3-{number}" for number in range(5)}
        assert set(times.unready) == gone
        assert all(unknown <= at <= unknown + 0.3 for at in times.unready.values())
        assert {cluster.pod(name)["status"]["phase"] for name in sorted(gone)} == {"Running"}
        assert events(cluster, "NodeNotReady") == dict.fromkeys(gone, 1)


async def test_14_node_that_returns_before_its_pods_go_keeps_them() -> None:
    """Status within 10.4 s; NoSchedule off at once, NoExecute in the next pass; timers are
    cancelled.
    """
    async with FixedPhases({"": 4}) as cluster:
        log, times = NodeLog(cluster), PodTimes(cluster)
        cluster.apply(*pods_on(["node-3"], 2))
        await cluster.run_until("95s")
        cut_off(cluster, "node-3")
        await cluster.run_until("250s")
        tainted = log.came["node-3", UNREACHABLE, "NoExecute"]
        assert len(tainted) == 1 and set(times.unready) == {"pod-node-3-0", "pod-node-3-1"}
        cluster.heal_node("node-3")
        await cluster.run_until("1000s")
        back = log.ready["node-3", "True"][-1]
        assert 250 < back <= 260.5
        assert 0 <= log.went["node-3", UNREACHABLE, "NoSchedule"][0] - back <= 0.2
        assert 0 <= log.went["node-3", UNREACHABLE, "NoExecute"][0] - back <= 5.2
        assert not cluster.seen.deleted and not times.gone
        assert set(events(cluster, "TaintManagerEviction")) == {"pod-node-3-0", "pod-node-3-1"}
        assert [ready_of(pod) for pod in cluster.list("pods")] == ["True", "True"]
        assert log.came["node-3", UNREACHABLE, "NoExecute"] == tainted


@pytest.mark.parametrize("grace", [0, 5, 60])
async def test_7_an_evicted_pod_has_its_own_grace_period(grace: int) -> None:
    async with FixedPhases({"": 4}) as cluster:
        (pod,) = pods_on(["node-3"], 1)
        cluster.apply({**pod, "spec": {**pod["spec"], "terminationGracePeriodSeconds": grace}})
        await cluster.kill("node-3")
        await cluster.run_until("438s")
        if not grace:  # nothing is left to wait for
            assert cluster.get("pods", "pod-node-3-0") is None
            return
        (deleted_us,) = cluster.seen.deleted["node-3"]
        due_us = parse_time(cluster.pod("pod-node-3-0")["metadata"]["deletionTimestamp"])
        assert due_us - cluster.kernel.epoch_us == deleted_us // SECOND * SECOND + grace * SECOND
        assert "node-3" in cluster.seen.deleted


async def test_7_a_budget_does_not_hold_up_the_eviction_from_a_dead_node() -> None:
    async with FixedPhases({"": 4}) as cluster:
        budget: Obj = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "all", "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        }
        cluster.apply(budget, workload("ReplicaSet", "web", 8))
        await cluster.run_until("90s")
        there = [pod for pod in cluster.list("pods") if pod["spec"]["nodeName"] == "node-3"]
        assert there
        await cluster.kill("node-3")
        await cluster.run_until("440s")
        tainted = cluster.seen.no_execute["node-3"] / SECOND
        deleted = [at / SECOND for at in cluster.seen.deleted["node-3"]]
        assert len(deleted) == len(there)
        assert all(300 <= at - tainted <= 300.2 for at in deleted)


async def test_11_a_pod_bound_to_a_tainted_node_has_its_time_from_then_on() -> None:
    async with FixedPhases({"": 4}) as cluster:
        await cluster.kill("node-3")
        await cluster.run_until("200s")
        (pod,) = pods_on(["node-3"], 1)
        tolerates = {"key": cluster.names.taint_unreachable, "operator": "Exists", "effect": "NoExecute"}
        short = {**pod["spec"], "tolerations": [{**tolerates, "tolerationSeconds": 60}]}
        bound_us = cluster.kernel.now_us
        cluster.apply(pod, {**pod, "metadata": {**pod["metadata"], "name": "short"}, "spec": short})
        await cluster.run_until("510s")
        first, second = cluster.seen.deleted["node-3"]
        assert 60 <= (first - bound_us) / SECOND <= 60.3
        assert 300 <= (second - bound_us) / SECOND <= 300.3


async def test_11_toleration_added_in_time_cancels_eviction_and_a_shorter_one_does_not() -> None:
    async with FixedPhases({"": 4}) as cluster:
        cluster.apply(*pods_on(["node-3"], 2))
        await cluster.kill("node-3")
        await cluster.run_until("200s")
        tolerates = {"key": cluster.names.taint_unreachable, "operator": "Exists", "effect": "NoExecute"}
        for name, more in (
            ("pod-node-3-0", tolerates),
            ("pod-node-3-1", {**tolerates, "tolerationSeconds": 5}),
        ):
            pod = cluster.pod(name)
            wanted = [*pod["spec"]["tolerations"], more]
            body = {**pod, "spec": {**pod["spec"], "tolerations": wanted}}
            assert cluster.request("update", "pods", "default", name, body=body).ok
        await cluster.run_until("1000s")
        # the first toleration that fits counts, so that the default of 300 s is the least in both
        tainted = cluster.seen.no_execute["node-3"]
        assert [300 <= (at - tainted) / SECOND <= 300.2 for at in cluster.seen.deleted["node-3"]] == [
            True
        ] * 2


# --- another leader -------------------------------------------------------------------------------


async def test_new_leader_restarts_the_times_of_eviction() -> None:
    """It takes the taints it finds off, taints again at the zone's rate, and each pod has its 300 s
    from then on.
    """
    control = ClusterPlan(controller_manager=ComponentPlan(2))
    async with FixedPhases({"": 20}, control) as cluster:
        log = NodeLog(cluster)
        dead = cluster.nodes_of()[3:6]
        cluster.apply(*pods_on(dead, 1))
        await cluster.kill(*dead)
        await cluster.run_until("300s")
        assert sorted(cluster.seen.no_execute) == dead
        leader = cluster.actor_named("controller-manager-leader")
        cluster.supervisor[leader].crash("killed")
        await cluster.run_until("700s")
        took_over = [at_us / SECOND for at_us, _ in cluster.seen.leaders][-1]
        assert 313 <= took_over <= 323.8
        again = sorted(log.came[node, UNREACHABLE, "NoExecute"][-1] for node in dead)
        for node in dead:
            came, (went,) = log.came[node, UNREACHABLE, "NoExecute"], log.went[node, UNREACHABLE, "NoExecute"]
            assert len(came) == 2
            assert took_over <= went <= took_over + 1  # its informers list first, 20 a second
            assert came[0] < went < came[1]
        assert all(10 <= gap <= 10.1 for gap in gaps(again))
        deleted = sorted(at / SECOND for times in cluster.seen.deleted.values() for at in times)
        assert len(deleted) == 3
        for tainted, at in zip(again, deleted, strict=True):
            assert 300 <= at - tainted <= 300.2


async def test_a_new_leader_gives_a_silent_node_forty_seconds_more() -> None:
    control = ClusterPlan(controller_manager=ComponentPlan(2))
    async with FixedPhases({"": 4}, control) as cluster:
        await cluster.run_until("95s")
        cluster.fail_node("node-3", "power-loss")
        leader = cluster.actor_named("controller-manager-leader")
        cluster.supervisor[leader].crash("killed")
        await cluster.run_until("200s")
        took_over = [at_us / SECOND for at_us, _ in cluster.seen.leaders][-1]
        assert 40 <= cluster.seen.unknown["node-3"] / SECOND - took_over <= 45.5


# --- nodes that are removed -----------------------------------------------------------------------


@pytest.mark.parametrize("removed", [200, 205, 213])
async def test_pods_of_a_removed_node_go_forty_to_eighty_seconds_after_it(removed: int) -> None:
    async with FixedPhases({"": 4}) as cluster:
        times = PodTimes(cluster)
        cluster.apply(*pods_on(["node-3"], 2))
        await cluster.kill("node-3")
        await cluster.run_until(removed * SECOND)
        assert cluster.request("delete", "nodes", "", "node-3").ok
        await cluster.run_until("300s")
        assert len(times.gone) == 2
        assert all(40 <= at - removed <= 80.5 for at in times.gone.values())


async def test_8_stateful_pod_moves_when_its_node_is_deleted_or_by_forced_deletion() -> None:
    async with FixedPhases({"": 3}) as cluster:
        cluster.apply(workload("StatefulSet", "web", 3))
        await cluster.run_until("90s")
        one, two = cluster.pod("web-1"), cluster.pod("web-2")
        assert one["spec"]["nodeName"] != two["spec"]["nodeName"]
        await cluster.kill(one["spec"]["nodeName"], two["spec"]["nodeName"])
        await cluster.run_until("600s")
        options = {"gracePeriodSeconds": "0"}
        assert cluster.request("delete", "pods", "default", "web-1", options=options).ok
        await cluster.run_for("5s")
        assert cluster.pod("web-1")["metadata"]["uid"] != one["metadata"]["uid"]
        assert cluster.pod("web-1")["status"]["phase"] == "Running"
        assert cluster.pod("web-2")["metadata"]["uid"] == two["metadata"]["uid"]
        assert cluster.request("delete", "nodes", "", two["spec"]["nodeName"]).ok
        await cluster.run_for("86s")
        assert cluster.pod("web-2")["metadata"]["uid"] != two["metadata"]["uid"]
        assert cluster.pod("web-2")["status"]["phase"] == "Running"


async def test_8_stateful_pod_is_recreated_when_its_node_returns() -> None:
    async with FixedPhases({"": 3}) as cluster:
        cluster.apply(workload("StatefulSet", "web", 3))
        await cluster.run_until("90s")
        old = cluster.pod("web-1")
        await cluster.kill(old["spec"]["nodeName"])
        await cluster.run_until("1000s")
        assert cluster.pod("web-1")["metadata"]["uid"] == old["metadata"]["uid"]
        cluster.heal_node(old["spec"]["nodeName"])
        await cluster.run_until("1060s")
        assert cluster.pod("web-1")["metadata"]["uid"] != old["metadata"]["uid"]
        assert cluster.pod("web-1")["status"]["phase"] == "Running"


# --- a node that speaks but is not well -----------------------------------------------------------


async def test_node_without_runtime_is_tainted_not_ready_and_then_unreachable_at_once() -> None:
    """The swap is made in the pass that sees it and takes no token; the pods' times run on."""
    async with FixedPhases({"": 10}) as cluster:
        log = NodeLog(cluster)
        cluster.apply(*pods_on(["node-3"], 2))
        await cluster.run_until("95s")
        cluster.nodes["node-3"].hang_runtime()
        await cluster.run_until("200s")
        (ready,) = log.ready["node-3", "False"]
        assert 30 <= ready - 95 <= 41
        assert 0 <= log.came["node-3", NOT_READY, "NoSchedule"][-1] - ready <= 0.2
        (tainted,) = log.came["node-3", NOT_READY, "NoExecute"]
        assert 0 <= tainted - ready <= 5.2
        # a node that says itself that it is not ready leaves its pods as they are, and so does its
        # silence later on
        assert not events(cluster, "NodeNotReady")

        cluster.fail_node("node-3", "power-loss")
        await cluster.run_until("700s")
        (swapped,) = log.came["node-3", UNREACHABLE, "NoExecute"]
        unknown = log.ready["node-3", "Unknown"][0]
        (off,) = log.went["node-3", NOT_READY, "NoExecute"]
        assert 0 < off - swapped <= 0.05  # two requests, one after the other
        assert 5 <= swapped - unknown <= 5.1
        assert not events(cluster, "NodeNotReady")
        deleted = [at / SECOND for at in cluster.seen.deleted["node-3"]]
        assert len(deleted) == 2
        assert all(300 <= at - tainted <= 300.2 for at in deleted)


async def test_a_short_failure_of_the_runtime_moves_nothing() -> None:
    async with FixedPhases({"": 4}) as cluster:
        log = NodeLog(cluster)
        cluster.apply(*pods_on(["node-3"], 1))
        await cluster.run_until("95s")
        cluster.nodes["node-3"].hang_runtime()
        await cluster.run_until("120s")
        cluster.nodes["node-3"].heal_runtime()
        await cluster.run_until("600s")
        assert ("node-3", "False") not in log.ready
        assert not cluster.seen.deleted


@pytest.mark.parametrize(("offset", "drift_ppm"), [(-7200, 0), (7200, 0), (0, 40_000), (0, -40_000)])
async def test_2_a_nodes_own_clock_does_not_matter(offset: int, drift_ppm: int) -> None:
    """No other clock is compared with the controller's; a clock that is wrong by hours fails no
    node.
    """
    async with FixedPhases({"": 4}) as cluster:
        for name in ("node-2", "node-3"):
            clock = cluster.supervisor[name].clock
            clock.set(cluster.kernel.now_us, offset_us=offset * SECOND, drift_ppm=drift_ppm)
        await cluster.kill("node-3")
        await cluster.run_until("600s")
        assert list(cluster.seen.unknown) == ["node-3"]
        assert 29.6 <= cluster.seen.unknown["node-3"] / SECOND - 95 <= 45.5


# --- 30: nodes are unreachable --------------------------------------------------------------------


@pytest.mark.parametrize("back", [199.5, 202, 205, 208, 209.9])
async def test_30_cut_off_controller_finds_all_nodes_silent_and_taints_none(back: float) -> None:
    """Without an election, because a lost lease would end it at the outage. Its watches return
    later than its passes, by their back-off, so its first pass finds all nodes silent, also those
    that reported before.
    """
    async with FixedPhases({"": 10}, manager(leader_elect="false")) as cluster:
        log, zones = NodeLog(cluster), Zones(cluster)
        cluster.apply(workload("ReplicaSet", "web", 10))
        await cluster.run_until("100s")
        cluster.supervisor["apiserver-0"].crash("killed")
        await cluster.run_until(int(back * SECOND))
        cluster.supervisor["apiserver-0"].start()
        await cluster.run_until("900s")
        unknown = seconds(cluster.seen.unknown)
        assert len(unknown) == 10
        assert back < unknown[0] <= back + 5.3 and unknown[-1] - unknown[0] <= 1
        assert [state for _, _, state in zones.told] == ["Normal", "FullDisruption", "Normal"]
        for name in cluster.nodes_of():
            assert 0 < log.ready[name, "True"][-1] - log.ready[name, "Unknown"][-1] <= 10.5
        assert not cluster.seen.no_execute and not cluster.seen.deleted


@pytest.mark.parametrize("lasts", [20, 100, 400])
async def test_30_controller_that_lost_its_lease_observes_all_nodes_as_new(lasts: int) -> None:
    async with FixedPhases({"": 10}) as cluster:
        await cluster.run_until("100s")
        cluster.supervisor["apiserver-0"].crash("killed")
        await cluster.run_for(lasts * SECOND)
        cluster.supervisor["apiserver-0"].start()
        await cluster.run_for("300s")
        assert not cluster.seen.unknown and not cluster.seen.no_execute


# --- zones ----------------------------------------------------------------------------------------


async def test_nodes_that_are_exempt_from_disruption_do_not_count_but_are_tainted() -> None:
    """12 of 20 are dead: 60 %; without three of the dead 9 of 17: 53 %."""
    async with FixedPhases({"": 20}) as cluster:
        zones = Zones(cluster)
        dead = cluster.nodes_of()[:12]
        await cluster.run_until("20s")
        for name in dead[:3]:
            body = {"metadata": {"labels": {cluster.names.label_node_exclude_disruption: ""}}}
            content_type = "application/merge-patch+json"
            assert cluster.request("patch", "nodes", "", name, body=body, content_type=content_type).ok
        await cluster.kill(*dead)
        await cluster.run_until("260s")
        assert zones.told[-1][2] == "Normal"
        assert sorted(cluster.seen.no_execute) == sorted(dead)
        assert all(10 <= gap <= 10.1 for gap in gaps(seconds(cluster.seen.no_execute)))


@pytest.mark.parametrize(("rate", "recovers"), [("1", False), ("0.9", True)])
async def test_rate_of_exactly_one_does_not_return_after_a_stop(rate: str, recovers: bool) -> None:
    """Upstream's limiter of "never" calls itself one of 1/s, so that nothing seems to change."""
    async with FixedPhases({"": 20}, manager(node_eviction_rate=rate)) as cluster:
        zones = Zones(cluster)
        dead = cluster.nodes_of()[:12]
        await cluster.kill(*dead)
        await cluster.run_until("200s")
        assert zones.told[-1][2] == "PartialDisruption" and not cluster.seen.no_execute
        for node in dead[:6]:
            cluster.heal_node(node)
        await cluster.run_until("300s")
        assert zones.told[-1][2] == "Normal"
        assert len(cluster.seen.no_execute) == (6 if recovers else 0)


async def test_16_many_pods_hold_up_the_finding_of_their_nodes() -> None:
    """A node and its 30 pods are 61 or 62 requests of a client with 20 a second and a burst of 30."""
    async with FixedPhases({"a": 10, "b": 20}) as cluster:
        dead = cluster.nodes_of("a")
        cluster.apply(*pods_on(dead, 30))
        await cluster.run_until("90s")
        await cluster.kill(*dead)
        await cluster.run_until("260s")
        found = seconds(cluster.seen.unknown)
        assert len(found) == 10
        assert abs(found[0] - 132.26) <= 0.03
        asked = 9 * (2 + 2 * 30)
        assert (asked - 9 - 30) / 20 * 0.98 <= found[-1] - found[0] <= asked / 20
