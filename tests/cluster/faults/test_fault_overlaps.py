"""Faults that overlap, act on crashed or missing processes, or end inside another: each acts and
ends by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.node.runtime.forecast import available
from sim.api.objects import is_ready
from sim.app.cluster import Cluster
from sim.app.director import Director
from sim.faults.machines.fail import WAYS
from sim.kernel import Context, Record, State, Trace, read
from sim.report.perfetto import events
from sim.report.story import Book, about, chosen
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import parse_documents
from sim.units import SECOND

AGENT, CUT = {"nodes": {"name": "node-0"}}, {"nodes": {"name": "node-0"}, "how": "network-cut"}


@asynccontextmanager
async def befalls(tmp_path: Path, *timeline: dict[str, Any], **more: Any) -> AsyncIterator[Cluster]:
    """A cluster of three nodes to which this happens, its trace in `tmp_path`."""
    spec = {
        "duration": "20m",
        "cluster": {"nodes": [{"count": 3}], **more},
        "timeline": list(timeline),
        "expect": [],
    }
    whole = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "t"}, "spec": spec}
    (document,) = parse_documents(yaml.safe_dump(whole), "t.yaml")
    plan = compile_plan(document, tmp_path)
    trace = Trace(tmp_path / "trace", {})
    try:
        async with Cluster(plan.cluster, seed=2, trace=trace) as cluster:
            Director(cluster, lambda *_: None).schedule(plan.steps)
            yield cluster
    finally:
        trace.close()


def fault(at: str, name: str, *, lasts: str = "", **action: Any) -> dict[str, Any]:
    return {"at": at, "name": name, **action, **({"for": lasts} if lasts else {})}


def roots(tmp_path: Path, node: str) -> list[str]:
    """The steps that the verdicts over a node lead back to, in order."""
    book = Book(read(tmp_path / "trace"))

    def unheard(record: Record) -> bool:
        values = record.values
        return (
            record.kind == "decision" and values["what"] == "unheard" and values["target"] == f"nodes/{node}"
        )

    return [str(book.chain(r)[0].values["name"]) for r in book.records if unheard(r)]


# --- what stays in force --------------------------------------------------------------------------


async def test_a_healed_node_is_under_pressure_no_more(tmp_path: Path) -> None:
    pressure = {"nodes": {}, "resource": "memory", "available": "50Mi"}
    async with befalls(
        tmp_path,
        fault("1m", "full", pressure=pressure),
        fault("2m", "free", heal={"nodes": {"name": "node-0"}}),
    ) as cluster:
        await cluster.run_until("1m1s")
        assert all(node.machine.outside for node in cluster.nodes.values())
        await cluster.run_until("2m1s")
        assert [bool(node.machine.outside) for node in cluster.nodes.values()] == [False, True, True]


GI = 1 << 30


@pytest.mark.parametrize(
    ("second", "left"),
    [
        # the same file system under two names: the end of the smaller shortage leaves the other
        ({"resource": "imagefs", "available": "20Gi"}, [1, 1, 1]),
        ({"resource": "imagefs", "available": "512Mi"}, [1, 0.5, 1]),
        ({"resource": "nodefs", "available": "20Gi"}, [1, 1, 1]),
    ],
)
async def test_shortages_of_one_disk_end_one_by_one(
    second: dict[str, Any], left: list[float], tmp_path: Path
) -> None:
    async with befalls(
        tmp_path,
        fault("1m", "first", pressure={"nodes": {}, "resource": "nodefs", "available": "1Gi"}),
        fault("2m", "second", pressure={"nodes": {}, **second}, lasts="1m"),
    ) as cluster:
        found = []
        for at in ("1m30s", "2m30s", "3m30s"):
            await cluster.run_until(at)
            found.append(available(cluster.nodes["node-0"].machine, "nodefs", cluster.kernel.now_us) / GI)
        assert found == left


async def test_another_shortage_does_not_delay_one_that_grows(tmp_path: Path) -> None:
    memory = {"nodes": {}, "resource": "memory"}
    async with befalls(
        tmp_path,
        fault("1m", "leak", pressure={**memory, "available": "2Gi", "ramp": "10m"}),
        fault("2m", "first", pressure={**memory, "available": "20Gi"}, lasts="4m"),
        fault("8m", "second", pressure={**memory, "available": "30Gi"}, lasts="1m"),
        nodes=[{"count": 1, "capacity": {"cpu": 8, "memory": "32Gi"}}],
    ) as cluster:
        found = []
        for at in ("2m", "6m30s", "11m"):
            await cluster.run_until(at)
            found.append(available(cluster.nodes["node-0"].machine, "memory", cluster.kernel.now_us) / GI)
        assert found == [20, 32 - 30 * 0.55, 2]


async def test_agent_that_crashes_during_a_shutdown_no_longer_delays_it(tmp_path: Path) -> None:
    flags = {"shutdown-grace-period": "2m", "shutdown-grace-period-critical-pods": "10s"}
    async with befalls(
        tmp_path,
        fault("40s", "stubborn", workload={"stop": "never"}),
        fault("1m", "down", fail={**AGENT, "how": "shutdown"}, lasts="2m"),
        fault("70s", "dies", fail={**AGENT, "how": "agent-crash"}, lasts="20s"),
        nodes=[{"count": 1, "flags": flags}],
    ) as cluster:
        await cluster.run_until("10s")
        cluster.apply({**PROBED, "spec": {**PROBED["spec"], "terminationGracePeriodSeconds": 100}})
        node, found = cluster.nodes["node-0"], []
        for at in ("69s", "90s", "2m", "3m1s"):
            await cluster.run_until(at)
            found.append((node.actor.running, node.machine.powered))
        assert found == [(True, True), (False, False), (False, False), (True, True)]


async def test_what_was_planned_in_time_happens_though_what_came_after_it_is_too_late(tmp_path: Path) -> None:
    made = {"when": {"created": "secrets"}, "delay": "30s", "until": "2m", "name": "in time"}
    async with befalls(tmp_path, {**made, "dropWatches": {}}) as cluster:
        for at in ("80s", "100s"):
            await cluster.run_until(at)
            cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"at-{at}"}})
        await cluster.run_until("4m")
    begun = [r for r in read(tmp_path / "trace") if r.kind == "step"]
    assert [round(r.at_us / 1e6) for r in begun] == [110]


async def test_each_node_that_is_healed_is_so_by_that_not_by_the_end_of_anothers_fault(
    tmp_path: Path,
) -> None:
    async with befalls(
        tmp_path,
        *(
            fault("1m", f"crash {n}", fail={"nodes": {"name": f"node-{n}"}, "how": "agent-crash"})
            for n in range(3)
        ),
        fault("2m", "repair", heal={"nodes": {}}),
    ) as cluster:
        await cluster.run_until("2m1s")
    records = [r for r in read(tmp_path / "trace") if r.at_us == 120_000_000]
    (repair,) = (r.ident for r in records if r.kind == "step")
    ended = [r.cause for r in records if r.kind == "step-end"]
    started = [r.cause for r in records if r.kind == "actor" and r.values["what"] == "start"]
    assert ended == started == [repair] * 3


@pytest.mark.parametrize("name", ["latency", "cut nodes"])
async def test_a_step_may_be_named_like_a_rule_of_the_cluster(tmp_path: Path, name: str) -> None:
    slow = {"between": ["node-1", "apiserver"], "latency": "50ms"}
    async with befalls(
        tmp_path,
        fault("1m", "cut", fail=CUT),
        fault("1m", name, network=slow, lasts="30s"),
        latency="5ms..6ms",
    ) as cluster:
        network = cluster.kernel.network
        await cluster.run_until("1m1s")
        assert network.link("node-1", "apiserver-0").low_us == 50_000
        assert not network.link("node-0", "apiserver-0").up
        assert network.link("node-2", "apiserver-0").low_us == 5_000
        await cluster.run_until("1m31s")
        assert network.link("node-1", "apiserver-0").low_us == 5_000
        assert not network.link("node-0", "apiserver-0").up


async def test_a_cordon_that_ends_leaves_what_another_keeps_closed(tmp_path: Path) -> None:
    async with befalls(
        tmp_path,
        fault("1m", "two", cordon={"nodes": {"name": ["node-0", "node-1"]}}),
        fault("1m10s", "all", cordon={"nodes": {}}, lasts="30s"),
        fault("2m", "opened", uncordon={"nodes": {"name": "node-0"}}),
        fault("2m10s", "again", cordon={"nodes": {"name": "node-0"}}, lasts="10s"),
    ) as cluster:

        def closed() -> list[str]:
            return [n["metadata"]["name"] for n in cluster.list("nodes") if n["spec"].get("unschedulable")]

        await cluster.run_until("1m20s")
        assert closed() == ["node-0", "node-1", "node-2"]
        await cluster.run_until("1m50s")
        assert closed() == ["node-0", "node-1"]
        await cluster.run_until("2m5s")
        assert closed() == ["node-1"]
        await cluster.run_until("2m30s")
        assert closed() == ["node-1"]


async def test_a_taint_that_ends_leaves_what_another_keeps_and_what_others_put_there(tmp_path: Path) -> None:
    one, two = {"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "PreferNoSchedule"}
    async with befalls(
        tmp_path,
        fault("1m", "one", taint={"nodes": {"name": ["node-0", "node-1"]}, "taints": [one]}),
        fault("1m10s", "both", taint={"nodes": {}, "taints": [one, two]}, lasts="30s"),
        fault("2m", "off", untaint={"nodes": {"name": "node-0"}, "taints": [{"key": "k"}]}),
        fault("2m10s", "again", taint={"nodes": {"name": "node-0"}, "taints": [one]}, lasts="10s"),
    ) as cluster:

        def taints() -> list[list[str]]:
            return [[t["effect"] for t in n["spec"].get("taints") or ()] for n in cluster.list("nodes")]

        await cluster.run_until("1m20s")
        assert taints() == [["NoSchedule", "PreferNoSchedule"]] * 3
        await cluster.run_until("1m50s")
        assert taints() == [["NoSchedule"], ["NoSchedule"], []]
        await cluster.run_until("2m5s")
        assert taints() == [[], ["NoSchedule"], []]
        await cluster.run_until("2m30s")
        assert taints() == [[], ["NoSchedule"], []]


async def test_an_agent_that_lists_again_goes_by_nothing_older_than_what_it_has_seen(tmp_path: Path) -> None:
    """The other server's cache is frozen since before the creation of the pod."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}}
    async with befalls(
        tmp_path,
        fault("1m", "still", diverge={"apiServer": "apiserver-1"}, lasts="5m"),
        fault("80s", "cut", partition={"between": ["node-0", "apiserver-0"]}, lasts="5m"),
        apiServer={"replicas": 2},
    ) as cluster:
        await cluster.run_until("70s")
        cluster.apply({**pod, "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]}})
        for at in ("80s", "130s", "3m", "7m"):
            await cluster.run_until(at)
            (runtime,) = cluster.nodes["node-0"].machine.pods.values()
            assert [container.attempt for container in runtime.containers] == [0]


async def test_connection_found_broken_after_a_pause_was_broken_by_the_cut(tmp_path: Path) -> None:
    """In any order of work after the resume: the pass over the nodes reads the leases before the
    end of their watch is reported.
    """
    manager = "controller-manager-0"
    async with befalls(
        tmp_path,
        fault("1m", "stall", stall={"actor": manager}, lasts="92s"),
        fault("64s", "cut", partition={"between": ["apiserver-0", manager], "oneWay": True}, lasts="2m"),
    ) as cluster:
        await cluster.run_until("4m")
    book = Book(read(tmp_path / "trace"))
    relists = [r for r in book.records if r.kind == "decision" and r.values["what"] == "relist"]
    broken = [
        r for r in relists if r.values["actor"] == manager and r.values["why"]["why"] == "InternalError"
    ]
    assert {"leases", "pods"} <= {r.values["target"] for r in broken}
    assert {book.chain(r)[0].values["name"] for r in broken} == {"cut"}


async def test_process_that_exits_while_slow_is_slow_after_its_restart(tmp_path: Path) -> None:
    """Cut off for too long, a scheduler loses its lease, exits and is started again."""
    async with befalls(
        tmp_path,
        fault("1m", "slow", slow={"actor": "scheduler-0", "by": "20ms"}, lasts="3m"),
        fault("1m10s", "cut", partition={"between": ["scheduler-0", "apiserver"]}, lasts="20s"),
    ) as cluster:
        actor = cluster.supervisor["scheduler-0"]
        await cluster.run_until("2m30s")
        assert actor.incarnations > 1
        assert actor.context is not None
        states = [actor.context.state]
        await cluster.run_until("4m10s")
        assert [*states, actor.context.state] == [State.SLOW, State.RUNNING]


async def test_process_that_resumes_slow_does_held_work_slowly() -> None:
    done: list[int] = []

    def main(ctx: Context) -> None:
        for second in range(1, 4):
            ctx.call_later_us(second * SECOND, lambda _: done.append(ctx.kernel.now_us // SECOND))

    async with Cluster() as cluster:
        cluster.supervisor.add("worker", main)
        for step, aspect, value in (("slow", "slow", 10 * SECOND), ("stalled", "pause", True)):
            cluster.faults.impose(step, "worker", aspect, value)
        await cluster.run_until("5s")
        cluster.faults.lift("stalled")
        await cluster.run_until("28s")
        cluster.faults.lift("slow")  # no more is in the way of the third
        await cluster.run_until("40s")
    assert done == [15, 25, 28]


PROBE = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 1}
PROBED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "nodeName": "node-0",
        "containers": [{"name": "web", "image": "r/web:1", "readinessProbe": PROBE}],
    },
}


async def test_how_programs_behave_changes_while_no_agent_runs_beside_them(tmp_path: Path) -> None:
    async with befalls(
        tmp_path,
        fault("1m", "sick", workload={"selector": "app=web", "ready": False}, lasts="2m10s"),
        fault("50s", "first", fail={**AGENT, "how": "agent-crash"}, lasts="30s"),
        fault("3m", "second", fail={**AGENT, "how": "agent-crash"}, lasts="30s"),
    ) as cluster:
        await cluster.run_until("10s")
        cluster.apply(PROBED)

        def ready() -> bool:
            pod = cluster.get("pods", "web")
            return pod is not None and is_ready(pod)

        await cluster.run_until("55s")
        assert ready()
        await cluster.run_until("2m")
        assert not ready()
        await cluster.run_until("4m")
        assert ready()


async def test_process_stalled_before_its_machine_boots_is_paused_after_the_boot(tmp_path: Path) -> None:
    async with befalls(
        tmp_path, fault("0s", "stalled", stall={"actor": "node-0"}, lasts="1m"), boot="10s"
    ) as cluster:
        await cluster.run_until("50s")
        assert {node["metadata"]["name"] for node in cluster.list("nodes")} == {"node-1", "node-2"}
        await cluster.run_until("1m30s")
        assert len(cluster.list("nodes")) == 3


@pytest.mark.parametrize(
    "action",
    [
        {"fail": {"nodes": {}, "how": "agent-crash"}},
        {"fail": {"nodes": {}, "how": "power-loss"}},
        {"fail": {"nodes": {}, "how": "shutdown"}},
        {"crash": {"actor": ["nodes", "controller-manager", "scheduler"]}},
    ],
)
async def test_no_process_starts_before_its_machine_boots_when_one_fault_ends(
    action: dict[str, Any], tmp_path: Path
) -> None:
    """The same seed without any fault shows when each machine boots."""
    starts = []
    for timeline in ([], [fault("0s", "early", lasts="500ms", **action)]):
        async with befalls(tmp_path, *timeline, boot="10s") as cluster:
            await cluster.run_until("11s")
        started = [r for r in read(tmp_path / "trace") if r.kind == "actor" and r.values["what"] == "start"]
        starts.append({r.values["name"]: r.at_us for r in started})
    assert starts[0] == starts[1]


async def test_a_process_that_still_says_farewell_can_be_killed(tmp_path: Path) -> None:
    async with befalls(
        tmp_path,
        fault("1m", "stuck", stall={"actor": "scheduler-0"}, lasts="2m"),
        fault("1m10s", "asked", crash={"actor": "scheduler-0", "gracefully": True}, lasts="1m"),
        fault("1m20s", "killed", crash={"actor": "scheduler-0"}, lasts="10s"),
    ) as cluster:
        actor, runs = cluster.supervisor["scheduler-0"], []
        for at in ("1m15s", "1m21s", "1m40s", "2m11s"):
            await cluster.run_until(at)
            runs.append(actor.running)
        # Paused, it does not receive the signal; killed; sent SIGTERM, until that is over too.
        assert runs == [True, False, False, True]


@pytest.mark.parametrize("orders", [("60s", "60s"), ("100s", "30s")])
async def test_clocks_that_are_slowed_down_twice_go_on(orders: tuple[str, str], tmp_path: Path) -> None:
    slow = {"actor": "node-0", "driftPpm": -900_000}
    first, second = orders
    async with befalls(
        tmp_path,
        fault("1m", "one", clock=slow, lasts=first),
        fault("90s", "two", clock=slow, lasts=second),
    ) as cluster:
        clock = cluster.supervisor["node-0"].clock
        await cluster.run_until("95s")
        before_us = clock.read_us(cluster.kernel.now_us)
        assert clock.drift_ppm == -990_000
        await cluster.run_until("105s")
        assert clock.read_us(cluster.kernel.now_us) - before_us == 100_000
        await cluster.run_until("20m")
        assert clock.drift_ppm == 0
        assert [is_ready(node) for node in cluster.list("nodes")] == [True] * 3


ON_NODE = [{"fail": {"nodes": {}, "how": how}} for how in sorted(WAYS)]
MIXED: dict[str, list[dict[str, Any]]] = {
    "nodes": [
        *ON_NODE,
        {"fail": {"nodes": {}, "how": "slow-disk", "by": "2s"}},
        {"pressure": {"nodes": {}, "resource": "memory", "available": "50Mi"}},
        {"workload": {"ready": False}},
        {"slow": {"actor": "nodes", "by": "50ms"}},
        {"clock": {"actor": "nodes", "offset": "-1h", "driftPpm": 1000}},
        {"partition": {"between": ["nodes", "apiserver"], "oneWay": True}},
        {"network": {"between": ["nodes", "apiserver"], "latency": "50ms", "loss": 0.1}},
        {"cordon": {"nodes": {}}},
    ],
    "the control plane": [
        *({"storage": {"how": how}} for how in ("pause", "lost-quorum")),
        {"storage": {"how": "slow", "by": "100ms"}},
        {"partition": {"between": ["apiserver-0", "storage"], "oneWay": True}},
        {"network": {"between": ["storage", "apiserver-0"], "latency": "50ms", "loss": 0.1}},
        *({"crash": {"actor": a}} for a in ("storage", "apiserver", "controller-manager", "scheduler-0")),
        {"crash": {"actor": "scheduler-leader", "gracefully": True}},
        *({"stall": {"actor": a}} for a in ("storage", "apiserver", "controller-manager-leader")),
        *({"slow": {"actor": a, "by": "20ms"}} for a in ("apiserver", "controller-manager", "scheduler")),
        {"overload": {"apiServer": "apiserver-0", "by": "1s", "inflight": 3}},
        {"lag": {"apiServer": "apiserver-0", "by": "2s"}},
        {"diverge": {"apiServer": "apiserver-0"}},
        *({"cloud": each} for each in ({"how": "outage"}, {"how": "slow", "by": "1s"})),
        {"clock": {"actor": "controller-manager", "offset": "5m"}},
    ],
}


@pytest.mark.parametrize("of", MIXED)
async def test_nothing_is_left_of_faults_of_every_kind_at_once(tmp_path: Path, of: str) -> None:
    drawn = [{"for": "1s..60s", **body} for body in MIXED[of]]
    mixed = {"at": "1m", "every": "1s..5s", "until": "4m", "name": "mixed", "random": drawn}
    manager = {"flags": {"cloud-provider": "orrery"}}
    async with befalls(tmp_path, mixed, controllerManager=manager) as cluster:
        await cluster.run_until("14m")
        contexts = [actor.context for actor in cluster.supervisor.actors.values()]
        assert all(context is not None and context.state is State.RUNNING for context in contexts)
        assert not any(context.clock.drift_ppm or context.clock.offset_us for context in contexts if context)
        nodes = cluster.list("nodes")
        assert [is_ready(node) for node in nodes] == [True] * 3
        assert not any(node["spec"].get("unschedulable") for node in nodes)
        link = cluster.kernel.network.link("node-0", "apiserver-0")
        assert (link.up, link.low_us, link.loss) == (True, 200, 0.0)
    records = list(read(tmp_path / "trace"))
    begun, ended = ([r.values["name"] for r in records if r.kind == kind] for kind in ("step", "step-end"))
    assert len(begun) > 30
    assert sorted(begun) == sorted(ended)


# --- what is shown --------------------------------------------------------------------------------


async def test_fault_of_one_server_is_shown_from_its_beginning_to_its_own_end(tmp_path: Path) -> None:
    server = {"apiServer": "apiserver-0"}
    async with befalls(
        tmp_path,
        fault("60s", "busy", overload={**server, "by": "1s"}, lasts="40s"),
        fault("70s", "late", lag={**server, "by": "5s"}, lasts="60s"),
        fault("80s", "later", lag={**server, "by": "3s"}, lasts="10s"),
        fault("75s", "still", diverge=server, lasts="50s"),
        fault("85s", "stalled", stall={"actor": "apiserver-0"}, lasts="10s"),
        fault("90s", "dead", crash={"actor": "apiserver-0"}, lasts="10s"),
        fault("100s", "disk", storage={"how": "slow", "by": "1s"}, lasts="20s"),
        fault("105s", "slow", slow={"actor": "storage", "by": "1ms"}, lasts="5s"),
        fault("110s", "quorum", storage={"how": "lost-quorum"}, lasts="5s"),
    ) as cluster:
        await cluster.run_until("150s")
    made = list(events(Book(read(tmp_path / "trace"))))
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in made if e["name"] == "thread_name"}
    lasting = [e for e in made if e["ph"] == "X" and e["cat"] == "actor" and e["dur"] > 1]
    shown = [(named[e["pid"], e["tid"]], e["ts"] // SECOND, e["dur"] // SECOND, e["name"]) for e in lasting]
    assert [one for one in shown if one[0].startswith(("apiserver", "storage"))] == [
        ("apiserver-0", 60, 40, "is overloaded: requests take 1s longer"),
        ("apiserver-0 2", 70, 10, "its watch caches lag: by 5s"),
        ("apiserver-0 3", 75, 50, "its watch caches are frozen"),
        ("apiserver-0 2", 80, 10, "its watch caches lag: by 8s"),
        ("apiserver-0 4", 85, 5, "stands still"),
        ("apiserver-0 2", 90, 40, "its watch caches lag: by 5s"),
        ("apiserver-0 4", 90, 10, "the process is gone: killed"),
        ("storage", 100, 20, "its disk becomes slow: by 1s"),
        ("storage 2", 105, 5, "becomes slow: by 1ms"),
        ("storage 2", 110, 5, "has no quorum"),
    ]


# --- causes of silence ----------------------------------------------------------------------------


async def test_cut_off_host_is_silent_because_of_its_own_cut_and_not_a_later_one(
    tmp_path: Path,
) -> None:
    async with befalls(
        tmp_path,
        fault("1m", "first", fail=CUT),
        fault("1m20s", "second", fail={**CUT, "nodes": {"name": "node-1"}}),
    ) as cluster:
        await cluster.run_until("3m")
    assert roots(tmp_path, "node-0") == ["first"]
    assert roots(tmp_path, "node-1") == ["second"]


async def test_dead_node_is_silent_because_of_its_death_and_not_a_later_hindrance(tmp_path: Path) -> None:
    async with befalls(
        tmp_path,
        fault("1m", "death", fail={**AGENT, "how": "power-loss"}),
        fault("1m10s", "noise", network={"between": ["nodes", "apiserver"], "latency": "20ms"}, lasts="10s"),
        fault("1m25s", "cut", fail=CUT, lasts="1s"),
    ) as cluster:
        await cluster.run_until("3m")
    assert roots(tmp_path, "node-0") == ["death"]


DEATH: dict[str, Any] = {"fail": {**AGENT, "how": "power-loss"}}
ALL_CUT: dict[str, Any] = {"partition": {"between": ["nodes", "apiserver"]}}


@pytest.mark.parametrize(("first", "second", "blamed"), [
    (DEATH, ALL_CUT, "first"),
    (ALL_CUT, DEATH, "first"),
    (ALL_CUT, {"partition": {"between": ["node-0", "apiserver"], "oneWay": True}}, "first"),
    ({"fail": CUT}, ALL_CUT, "first"),
    ({"fail": {**AGENT, "how": "hang"}}, {"fail": CUT}, "first"),
    ({"stall": {"actor": "node-0"}}, {"crash": {"actor": "node-0"}}, "first"),
    # A fault that does not cut it off from all hosts.
    ({"partition": {"between": ["nodes", "apiserver-0"]}}, DEATH, "second"),
    ({"network": {"between": ["nodes", "apiserver"], "loss": 0.1}}, ALL_CUT, "second"),
])  # fmt: skip
async def test_silence_is_caused_by_the_first_fault_that_is_still_active(
    first: dict[str, Any], second: dict[str, Any], blamed: str, tmp_path: Path
) -> None:
    async with befalls(
        tmp_path,
        fault("1m", "first", **first),
        fault("1m25s", "second", **second),
        apiServer={"replicas": 2},
    ) as cluster:
        await cluster.run_until("3m")
    assert set(roots(tmp_path, "node-0")) == {blamed}


async def test_end_of_one_fault_of_an_api_server_leaves_the_other_as_the_cause(tmp_path: Path) -> None:
    async with befalls(
        tmp_path,
        fault("1m", "refuses", overload={"apiServer": "apiserver-0", "inflight": 0}, lasts="2m"),
        fault("1m10s", "trails", lag={"apiServer": "apiserver-0", "by": "10ms"}, lasts="2s"),
    ) as cluster:
        await cluster.run_until("2m30s")
        blamed = cluster.kernel.standing.silence("node-0", "controller-manager-0", 80_000_000)
    begun = {r.values["name"]: r.ident for r in read(tmp_path / "trace") if r.kind == "step"}
    assert blamed == begun["refuses"]


async def test_faults_that_stand_are_not_forgotten_for_those_that_are_over(tmp_path: Path) -> None:
    brief = {"at": "1m5s", "every": "1s", "times": 20, "name": "noise", "for": "500ms"}
    async with befalls(
        tmp_path,
        fault("1m", "death", fail={**AGENT, "how": "power-loss"}),
        {**brief, "network": {"between": ["nodes", "apiserver"], "loss": 0.01}},
    ) as cluster:
        await cluster.run_until("3m")
    assert roots(tmp_path, "node-0") == ["death"]
    book = Book(read(tmp_path / "trace"))
    marked = chosen(about(book, "//nodes//node-0"), "ready=Unknown")
    assert marked is not None


@pytest.mark.parametrize(
    ("action", "other"),
    [
        ({"reboot": {**AGENT, "downtime": "30s"}}, {"reboot": {**AGENT, "downtime": "10m"}}),
        ({"fail": {**AGENT, "how": "agent-crash"}, "for": "30s"}, {"fail": {**AGENT, "how": "power-loss"}}),
        ({"fail": {**AGENT, "how": "hang"}, "for": "30s"}, {"stall": {"actor": "node-0"}}),
        ({"fail": CUT, "for": "30s"}, {"fail": CUT}),
    ],
)
async def test_continued_silence_is_caused_by_the_active_fault_and_not_an_ended_one(
    action: dict[str, Any], other: dict[str, Any], tmp_path: Path
) -> None:
    async with befalls(
        tmp_path,
        {"at": "1m", "name": "first", **action},
        {"at": "80s", "name": "second", **other},
    ) as cluster:
        silence = cluster.kernel.standing.silence
        await cluster.run_until("85s")
        blamed = [silence("node-0", "controller-manager-0", 70_000_000)]
        await cluster.run_until("2m")
        blamed.append(silence("node-0", "controller-manager-0", 110_000_000))
    book = Book(read(tmp_path / "trace"))
    begun = [book.get(ident) for ident in blamed]
    assert [str(book.chain(r)[0].values["name"]) for r in begun if r is not None] == ["first", "second"]


async def test_memory_of_a_leak_grows_until_the_limit_ends_the_container(tmp_path: Path) -> None:
    leak = {"memory": {"from": "50Mi", "perMinute": "20Mi"}}
    container = {"name": "c", "image": "i", "resources": {"limits": {"memory": "100Mi"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    async with befalls(tmp_path, fault("10s", "leak", workload=leak)) as cluster:
        await cluster.run_until("20s")
        cluster.apply({**pod, "metadata": {"name": "p", "namespace": "default"}})
        await cluster.run_until("4m")
        (held,) = [pod for node in cluster.nodes.values() for pod in node.machine.pods.values()]
        first, second = held.containers
        assert (first.reason, first.exit_code) == ("OOMKilled", 137)
        assert first.exit_us is not None
        assert first.exit_us - first.started_us == 150 * SECOND + 1
        assert second.running(cluster.kernel.now_us)
