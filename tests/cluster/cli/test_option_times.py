"""Options that set a time, a rate or a bound, at non-default values: when their effects happen.

Each case is worked out before it is run, from the rules beside it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from actors.node.runtime.profile import Override
from sim.api.store import Change
from sim.api.types import Reply
from sim.app.cluster import Cluster
from sim.app.options import api_server_options
from sim.app.plain_plan import plain_nodes
from sim.options.apiserver.server import parse_api_server
from sim.scenario.plan.plan import ClusterPlan
from sim.scenario.schema.sections import Runtime
from sim.units import MS, SECOND, parse_time
from tests.actor.apiserver.cluster import Seen, plane
from tests.cluster.cli.test_options import Commits, deployment, manager, plan, pod
from tests.cluster.fixed import FixedPhases, workload
from tests.cluster.timing.node.test_node_timing_agent import GI, MI, SMALL, condition, using
from tests.cluster.timing.node.test_node_timing_agent import pod as bound_pod

NODE = plain_nodes(1)[0]


def one_node(runtime: Runtime = Runtime(), **flags: Any) -> ClusterPlan:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return ClusterPlan(nodes=(replace(NODE, runtime=runtime, flags=named),))


# --- autoscaling ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "grown"),
    [
        ({}, (300, 332)),
        ({"cpu_initialization_period": "60s"}, (165, 181)),
        ({"cpu_initialization_period": "0s"}, (165, 181)),
        ({"cpu_initialization_period": "60s", "initial_readiness_delay": "200s"}, None),
        ({"cpu_initialization_period": "180s", "initial_readiness_delay": "10s"}, (180, 212)),
    ],
)
async def test_a_young_pod_that_is_not_ready_counts_for_nothing(
    flags: dict[str, str], grown: tuple[int, int] | None
) -> None:
    """Four pods use all of their requests, and the target is half; two of them turn unready some
    100 s after their start.

    In their first minutes such pods do not count, so that two use as much as four should. After
    that they do, unless they turned unready so soon after their start that they were never ready.
    The autoscaler is created at 150 s.
    """
    control = manager(**{f"horizontal_pod_autoscaler_{name}": value for name, value in flags.items()})
    made = workload("Deployment", "web", 4)
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "500m"}}
    container["readinessProbe"] = {"exec": {"command": ["c"]}, "periodSeconds": 1, "failureThreshold": 1}
    target = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 8,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    told: list[tuple[int, float]] = []

    def see(change: Change) -> None:
        if (
            change.prev is not None
            and change.prev.obj["spec"]["replicas"] != change.item.obj["spec"]["replicas"]
        ):
            told.append((change.item.obj["spec"]["replicas"], change.at_us / SECOND))

    nodes = tuple(plain_nodes(2))
    async with Cluster(replace(control, metrics=True, nodes=nodes), seed=1) as cluster:
        for node in cluster.nodes.values():
            node.behave([Override({"cpu_milli": 500})])
        cluster.apply(made)
        await cluster.run_until("100s")
        names = sorted(p["metadata"]["name"] for p in cluster.list("pods", "default"))
        for node in cluster.nodes.values():
            wedged = [Override({"unhealthy_after_us": 0}, pod_prefix=name) for name in names[:2]]
            node.behave([Override({"cpu_milli": 500}), *wedged])
        await cluster.run_until("150s")
        assert cluster.get("deployments", "web")["status"]["readyReplicas"] == 2
        cluster.observe(see, ["deployments"])
        cluster.apply({**scaler, "metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await cluster.run_until("400s")
        assert [size for size, _ in told] == ([8] if grown else [])
        if grown:
            assert grown[0] <= told[0][1] <= grown[1]


# --- the node -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("period", "held"), [("30s", (20, 40.5)), ("95s", (90, 110.5)), ("0s", None)])
async def test_a_pressure_is_shown_so_long_after_a_check_last_saw_it(
    period: str, held: tuple[float, float] | None
) -> None:
    """A check each 10 s, and a report up to 10.4 s after what it changes; the last check that sees
    the pressure is up to 10 s before its end.  Quirk: with a period of 0 it is never shown.
    """
    flags = {"eviction-pressure-transition-period": period}
    async with FixedPhases({"": 1}, flags=flags, capacity=SMALL) as cluster:
        shown: list[tuple[float, str]] = []

        def see(change: Change) -> None:
            for entry in change.item.obj.get("status", {}).get("conditions", ()):
                if entry["type"] == "MemoryPressure" and (not shown or shown[-1][1] != entry["status"]):
                    shown.append((change.at_us / SECOND, entry["status"]))

        cluster.observe(see, ["nodes"])
        await cluster.run_until("60s")
        cluster.nodes["node-0"].set_pressure("memory", 50 * MI)
        await cluster.run_until("93s")
        cluster.nodes["node-0"].end_pressure("memory")
        await cluster.run_until("300s")
        if held is None:
            assert [status for _, status in shown] == ["False"]
        else:
            assert [status for _, status in shown] == ["False", "True", "False"]
            assert 60 <= shown[1][0] <= 80.5
            assert held[0] <= shown[2][0] - 93 <= held[1]


@pytest.mark.parametrize(
    ("ttl", "removed"), [("0s", 300), ("2m", 600), ("5m", 600), ("301s", 900), ("10m", 900)]
)
async def test_an_unused_image_is_kept_for_its_time_from_the_pass_that_first_sees_it(
    ttl: str, removed: int
) -> None:
    """A pass each 300 s.  An image of the first minute is seen by the first, and goes with the
    first that finds it old enough.
    """
    runtime = Runtime(image_pull="1s")
    flags = {
        "minimum_image_ttl_duration": ttl,
        "image_gc_high_threshold": 50,
        "image_gc_low_threshold": 10,
        "eviction_hard": "memory.available<100Mi",
    }
    async with Cluster(one_node(runtime, **flags)) as cluster:
        await cluster.run_until("10s")
        cluster.apply(pod("p"))
        await cluster.run_until("30s")
        node = cluster.nodes["node-0"]
        began = node.machine.agent.image_gc._began_us / SECOND  # the passes' rhythm
        assert node.machine.images
        assert cluster.request("delete", "pods", "default", "p").ok
        node.set_pressure("imagefs", GI)
        gone = 0.0
        while cluster.kernel.now_us < 1300 * SECOND and not gone:
            await cluster.run_for("1s")
            if not node.machine.images:
                gone = cluster.kernel.now_us / SECOND
        assert removed <= gone - began <= removed + 1.1


@pytest.mark.parametrize(
    ("flags", "least", "most"),
    [
        ({}, 300, 310.5),
        ({"node_status_report_frequency": "60s"}, 60, 70.5),
        ({"node_status_report_frequency": "60s", "node_status_update_frequency": "25s"}, 60, 86.1),
        ({"node_status_update_frequency": "60s"}, 300, 362.5),
        ({"node_status_report_frequency": "1s"}, 10, 10.5),
    ],
)
async def test_a_quiet_node_reports_at_the_first_update_after_its_report_is_due(
    flags: dict[str, str], least: float, most: float
) -> None:
    """An update each period times 1 to 1.04; the frequency of updates alone does not change that of
    reports.
    """
    async with Cluster(one_node(**flags)) as cluster:
        await cluster.run_until("60s")
        reports: list[str] = []

        def see(change: Change) -> None:
            at = change.item.obj["status"]["conditions"][0]["lastHeartbeatTime"]
            if reports[-1:] != [at]:
                reports.append(at)

        cluster.observe(see, ["nodes"])
        await cluster.run_for("40m")
        times = [parse_time(at) / SECOND for at in reports]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert gaps
        assert least - 1 <= min(gaps) and max(gaps) <= most + 1  # of whole seconds


@pytest.mark.parametrize(
    ("flags", "least", "most"),
    [
        ({}, 5.8, 7),
        ({"orch_api_qps": 1, "orch_api_burst": 1}, 19, 45),
        ({"orch_api_qps": 0, "orch_api_burst": 0}, 5.8, 7),
    ],
)
async def test_what_an_agent_says_of_its_pods_waits_for_its_rate(
    flags: dict[str, int], least: float, most: float
) -> None:
    """A status is a GET and a PATCH, and each pod has two, of which a batch may take the first
    along with the second: of ten pods these are 40 requests, 6 s after ten at once, or 20 to 40,
    one a second.
    """
    async with Cluster(one_node(**flags)) as cluster:
        await cluster.run_until("60s")
        cluster.apply(*(pod(f"p{n}") for n in range(10)))

        def all_run() -> bool:
            return sum(p["status"]["phase"] == "Running" for p in cluster.list("pods", "default")) < 10

        assert await cluster.run_while(all_run, "120s", SECOND // 10)
        assert least <= cluster.kernel.now_us / SECOND - 60 <= most


@pytest.mark.parametrize(("qps", "burst", "pulled"), [(5, 0, 0), (0, 0, 6), (1, 2, 2), (5, 10, 6)])
async def test_a_registry_is_asked_at_its_rate_or_not_at_all(qps: int, burst: int, pulled: int) -> None:
    """Six pulls at one instant: as many as the burst go, the others fail; without a rate all go,
    without a burst none ever.
    """
    runtime = Runtime(image_pull="1s")
    flags = {"registry_qps": qps, "registry_burst": burst, "serialize_image_pulls": False}
    async with Cluster(one_node(runtime, **flags)) as cluster:
        await cluster.run_until("60s")
        cluster.apply(*(pod(f"p{n}", image=f"i{n}") for n in range(6)))
        await cluster.run_for("8s")
        assert len(cluster.nodes["node-0"].machine.images) == pulled
        said = [e["message"] for e in cluster.list("events", "default") if e["reason"] == "Failed"]
        assert any("pull QPS exceeded" in text for text in said) is (pulled < 6)
        await cluster.run_for("5m")
        assert len(cluster.nodes["node-0"].machine.images) == (6 if pulled else 0)


@pytest.mark.parametrize(
    ("flags", "evicted"),
    [({}, True), ({"enforce-node-allocatable": "none"}, False), ({"enforce-node-allocatable": ""}, False)],
)
async def test_pods_are_held_to_what_is_allocatable_where_that_is_enforced(
    flags: dict[str, str], evicted: bool
) -> None:
    """Of 8Gi 4Gi are set aside; a pod that uses the other 4Gi leaves pods less than the threshold
    of 100Mi.
    """
    flags = {"system-reserved": "memory=4Gi", **flags}
    async with FixedPhases({"": 1}, flags=flags, capacity=SMALL, profile=using({"p": 4096})) as cluster:
        cluster.apply(bound_pod("p"))
        await cluster.run_until("120s")
        assert (cluster.pod("p")["status"].get("reason") == "Evicted") is evicted
        assert (condition(cluster, "MemoryPressure")["status"] == "True") is evicted


@pytest.mark.parametrize(
    ("flags", "allocatable"),
    [
        ({"system-reserved": "cpu=500m", "orch-reserved": "cpu=500m"}, "7"),
        ({"system-reserved": "cpu=500m", "orch-reserved": "cpu=500m", "reserved-cpus": "0-1,7"}, "5"),
        ({"reserved-cpus": 3}, "7"),
    ],
)
async def test_listed_cpus_take_the_place_of_the_cpu_that_is_set_aside(
    flags: dict[str, Any], allocatable: str
) -> None:
    async with Cluster(plan(1, flags)) as cluster:
        await cluster.run_until("20s")
        status = (cluster.get("nodes", "node-0") or {})["status"]
        assert (status["capacity"]["cpu"], status["allocatable"]["cpu"]) == ("8", allocatable)


@pytest.mark.parametrize(("flags", "least", "most"), [({}, 60, 92), ({"sync_frequency": "10s"}, 20, 37)])
async def test_a_pod_that_is_not_ready_is_probed_at_each_look_that_comes_without_a_reason(
    flags: dict[str, str], least: float, most: float
) -> None:
    """A probe each hour fails at first and would succeed from 20 s on; a look each 1 to 1.5 periods
    probes besides.
    """
    probe = {"exec": {"command": ["c"]}, "periodSeconds": 3600}
    node = replace(NODE, flags={name.replace("_", "-"): value for name, value in flags.items()})
    async with Cluster(ClusterPlan(nodes=(node,))) as cluster:
        cluster.nodes["node-0"].behave([Override({"healthy_after_us": 20 * SECOND})])
        # An agent younger than the period spreads its first probes.
        await cluster.run_until("4000s")
        made = pod("p")
        made["spec"]["containers"][0]["readinessProbe"] = probe
        cluster.apply(made)
        await cluster.run_for("2s")
        (status,) = cluster.get("pods", "p")["status"]["containerStatuses"]
        assert not status["ready"]
        began = parse_time(status["state"]["running"]["startedAt"])

        def unready() -> bool:
            return not cluster.get("pods", "p")["status"]["containerStatuses"][0]["ready"]

        assert await cluster.run_while(unready, "200s", SECOND // 10)
        ready = next(c for c in cluster.get("pods", "p")["status"]["conditions"] if c["type"] == "Ready")
        assert least <= (parse_time(ready["lastTransitionTime"]) - began) / SECOND <= most


# --- API server -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1, 60])
async def test_watches_without_a_time_out_end_after_one_to_two_times_the_least(seconds: int) -> None:
    options = api_server_options(parse_api_server({"min-request-timeout": seconds}))
    async with plane(options=options) as p:
        await p.run(SECOND)
        asked: list[list[Reply]] = [p.send_watch({}) for _ in range(60)]
        await p.run(10 * MS)
        seen = [Seen(p.kernel, replies[0].watch) for replies in asked]
        await p.run(2 * seconds * SECOND + SECOND)
        lived = [((one.ended_us or 0) / SECOND - 1) / seconds for one in seen]
        assert 1 <= min(lived) < 1.1 and 1.9 < max(lived) <= 2.02


async def test_request_to_a_paused_storage_ends_at_its_timeout() -> None:
    options = api_server_options(parse_api_server({"request-timeout": "7s"}))
    async with plane(options=options) as p:
        await p.run(SECOND)
        p.supervisor["storage"].pause()
        replies = p.send_create("a")
        await p.run(6_990 * MS)
        assert not replies
        await p.run(20 * MS)
        assert replies[0].code == 504


# --- controller manager ---------------------------------------------------------------------------


@pytest.mark.parametrize("own", [True, False])
async def test_loops_use_service_accounts_of_their_own_if_configured(own: bool) -> None:
    flags = {"use-service-account-credentials": own}
    everything = {"authorization-mode": "AlwaysAllow"}  # the controller manager has no role for it
    async with Cluster(plan(1, controller_manager=flags, api_server=everything)) as cluster:
        makers: set[str] = set()
        store = cluster.storage.store

        def see(change: Change) -> None:
            if change.prev is None:
                makers.add(cluster.storage.writer[0])

        store.subscribe("//pods/", see)
        cluster.apply(deployment("a", 2))
        await cluster.run_for("10s")
        names = cluster.names
        account = names.service_account_user(names.system_namespace, "replicaset-controller")
        assert makers == {account if own else names.user_controller_manager}


async def test_managers_that_do_not_elect_both_act() -> None:
    """Each makes all pods of a set as it sees it without any; what is too much goes again."""
    flags = {"leader-elect": False}
    control = plan(2, controller_manager=flags)
    control = replace(control, controller_manager=replace(control.controller_manager, replicas=2))
    async with Cluster(control) as cluster:
        await cluster.run_for("20s")
        leases = cluster.list("leases", cluster.names.system_namespace)
        assert [entry["metadata"]["name"] for entry in leases] == ["orch-scheduler"]
        commits = Commits(cluster, "pods")
        cluster.apply(deployment("a", 4))
        await cluster.run_for("60s")
        assert len({obj["metadata"]["name"] for _, obj in commits.seen}) == 8
        assert len(cluster.list("pods", "default")) == 4
        assert cluster.counts()["running"] == 4


@pytest.mark.parametrize(("qps", "burst", "last"), [(5, 1, 4.6), (0, 1, 4.6), (10, 4, 2.0), (-1, 1, 0.0)])
async def test_a_loops_creates_and_its_events_share_its_bucket(qps: int, burst: int, last: float) -> None:
    """Twenty creates go in batches of 1, 2, 4, 8 and 5, and behind each of the first four one event
    has its turn.
    """
    async with Cluster(manager(2, orch_api_qps=qps, orch_api_burst=burst)) as cluster:
        await cluster.run_until("30s")
        commits = Commits(cluster, "pods")
        cluster.apply(deployment("a", 20))
        await cluster.run_for("30s")
        first: dict[str, float] = {}
        for at, obj in commits.seen:
            first.setdefault(obj["metadata"]["name"], at)
        assert len(first) == 20
        assert max(first.values()) - min(first.values()) == pytest.approx(last, abs=0.1)
