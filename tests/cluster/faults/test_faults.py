"""Each fault has the effect on a whole cluster that it has upstream; several at once end one by
one.
"""

from pathlib import Path
from typing import Any

import pytest

from sim.kernel import read
from tests.cluster.scenario import RUNNING, WEB, run, step, within

MORE = {"at": "2m10s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 9}}
READY = "deployments named web have status.readyReplicas"
PROBED: dict[str, Any] = {
    **WEB,
    "spec": {
        **WEB["spec"],
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "r/web:1",
                        "readinessProbe": {
                            "httpGet": {"port": 80},
                            "periodSeconds": 5,
                            "failureThreshold": 2,
                        },
                    }
                ]
            },
        },
    },
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "burst"},
    "spec": {"containers": [{"name": "a", "image": "r/a:1"}]},
}


def apply(*objects: Any) -> dict[str, Any]:
    return {"at": "2m10s", "name": "more", "apply": {"objects": list(objects)}}


INITIAL: dict[str, Any] = {
    **POD,
    "spec": {**POD["spec"], "initContainers": [{"name": "i", "image": "r/init:1"}]},
}
INIT_RUNS = "pods named burst have status.initContainerStatuses[0].restartCount"
TWO = {"apiServer": {"replicas": 2}}

# timeline, expectations, more of the scenario
CASES: dict[str, tuple[list[Any], list[Any], dict[str, Any]]] = {
    "memory pressure": (
        [step("pressure", {"nodes": {"zone": "a"}, "resource": "memory", "available": "80Mi"}, **{"for": "60s"})],
        [
            within("all nodes in zone a have MemoryPressure=True", "0s", "12s"),
            {"name": "gone after the transition period", "when": "all nodes have MemoryPressure=False",
             "within": ["300s", "372s"], "after": "end of it"},
        ],
        {"duration": "10m"},
    ),
    "graceful shutdown": (
        [step("fail", {"nodes": {"zone": "a"}, "how": "shutdown"}, **{"for": "3m"})],
        [within("all nodes in zone a have Ready=Unknown", "29s", "60s"),
         {"name": "back", "when": "all nodes have Ready=True", "within": ["0s", "15s"], "after": "end of it"}],
        {},
    ),
    "a runtime that hangs": (
        [step("fail", {"nodes": {"zone": "a"}, "how": "runtime-hang"}, **{"for": "4m"})],
        [within("all nodes in zone a have Ready=False", "10s", "60s")],
        {},
    ),
    "crash loops": (
        [step("workload", {"selector": "app=web", "exitAfter": "1s", "exitCode": 3}, **{"for": "60s"})],
        [within({"event": "BackOff"}, "1s", "15s"), within(f"{READY}=0", "1s", "6s"),
         {"name": "back", "when": f"{READY}=6", "within": ["0s", "60s"], "after": "end of it"}],
        {},
    ),
    "an init container that fails": (
        # at once, then after 10 s and 20 s (and up to 16 each); then it ends well in its next run
        [step("workload", {"image": "r/init:1", "exitAfter": "1s", "exitCode": 2}, **{"for": "60s"}), apply(INITIAL)],
        [{"name": "again", "when": f"{INIT_RUNS}>=1", "within": ["1s", "6s"], "after": "more"},
         {"name": "and again", "when": f"{INIT_RUNS}>=2", "within": ["11s", "35s"], "after": "more"},
         {"name": "well", "when": "pods named burst are Running", "within": ["0s", "80s"], "after": "end of it"},
         {"name": "not before", "never": "pods named burst are Running", "after": "more", "until": "end of it"}],
        {},
    ),
    "probe failures": (
        [step("workload", {"selector": "app=web", "ready": False}, **{"for": "60s"})],
        [within(f"{READY}=0", "5s", "12s"),
         {"name": "back", "when": f"{READY}=6", "within": ["0s", "7s"], "after": "end of it"},
         {"name": "nothing restarts", "never": {"event": "Killing"}}],
        {"objects": [PROBED]},
    ),
    "probe failures of some": (
        [step("workload", {"selector": "app=web", "pick": 2, "ready": False}, **{"for": "60s"})],
        [within(f"{READY}=4", "5s", "12s"),
         {"name": "the others stay", "never": f"{READY}=3", "after": "it"},
         {"name": "back", "when": f"{READY}=6", "within": ["0s", "7s"], "after": "end of it"}],
        {"objects": [PROBED]},
    ),
    "an image that cannot be pulled": (
        [step("workload", {"image": "r/web:1", "pullError": "manifest unknown"}, **{"for": "60s"}), MORE],
        [{"name": "the others wait", "when": {"event": "Failed"}, "within": ["0s", "3s"], "after": "more"},
         {"name": "then they run", "when": f"{READY}=9", "within": ["0s", "75s"], "after": "end of it"}],
        {},
    ),
    "an overloaded API server": (
        [step("overload", {"apiServer": "apiserver-0", "by": "3s"}, **{"for": "60s"}), MORE],
        [{"name": "slowly", "when": "at least 9 pods exist", "within": ["9s", "30s"], "after": "more"}],
        {},
    ),
    "an API server that refuses": (
        [step("overload", {"apiServer": "apiserver-0", "inflight": 0}, **{"for": "30s"}), MORE],
        [{"name": "later", "when": "at least 9 pods exist", "within": ["20s", "45s"], "after": "more"},
         {"name": "no node is lost", "never": "any nodes have Ready=Unknown"}],
        {},
    ),
    "one of two API servers that stands still": (
        # its clients find their connections dead after 45 s and go to the other one; until then
        # half of the nodes are silent
        [step("stall", {"actor": "apiserver-1"}, **{"for": "5m"}), {**MORE, "at": "3m10s"}],
        [within("at least 1 nodes have Ready=Unknown", "29s", "46s"),
         {"name": "all are back", "when": "all nodes have Ready=True", "within": ["0s", "15s"], "after": "2m45s"},
         {"name": "and stay", "always": "all nodes have Ready=True", "after": "3m15s"},
         {"name": "work goes on", "when": "at least 9 pods are Running", "within": ["0s", "5s"], "after": "more"}],
        {"cluster": {**TWO, "nodes": [{"count": 4}]}, "duration": "10m"},
    ),
    "replicas that diverge": (
        # what the second replica's watchers do not see they do not act on
        [step("diverge", {"apiServer": ["apiserver-0", "apiserver-1"]}, **{"for": "40s"}), MORE],
        [{"name": "when they agree again", "when": "at least 9 pods exist", "within": ["30s", "45s"], "after": "more"}],
        {"cluster": TWO},
    ),
    "a lost quorum": (
        [step("storage", {"how": "lost-quorum"}, **{"for": "20s"}), MORE],
        [{"name": "nothing is written meanwhile", "never": {"changed": "deployments"}, "after": "it", "until": "end of it"},
         {"name": "then it goes on", "when": "at least 9 pods are Running", "within": ["10s", "60s"], "after": "more"},
         {"name": "no node is lost", "never": "any nodes have Ready=Unknown"}],
        {},
    ),
    "a lease taken away": (
        [step("loseLease", {"component": "controller-manager"})],
        [within("leases named *-controller-manager have spec.holderIdentity=intruder", "0s", "1s"),
         {"name": "and back", "when": "leases named *-controller-manager have spec.leaseTransitions>=1",
          "within": ["15s", "40s"], "after": "it"}],
        {},
    ),
    "eviction": (
        [step("evict", {"selector": "app=web"})],
        [within("at least 6 pods are terminating", "0s", "2s"),
         {"name": "replaced", "when": f"{READY}=6", "within": ["0s", "60s"], "after": "10s"}],
        {},
    ),
    "a namespace deleted": (
        [step("apply", {"objects": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
                                    {**WEB, "metadata": {"name": "shop", "namespace": "shop"}}]}),
         {"at": "3m", "name": "gone", "delete": {"resource": "namespaces", "name": "shop"}}],
        [within("at least 6 pods in namespace shop are Running", "0s", "20s"),
         {"name": "with all in it", "when": "no pods in namespace shop exist", "within": ["0s", "60s"], "after": "gone"},
         {"name": "itself", "when": "no namespaces named shop exist", "within": ["0s", "60s"], "after": "gone"}],
        {},
    ),
    "a load of pods that come and go": (
        [step("load", {"rate": "2/s", "create": POD, "lifetime": "10s"}, **{"for": "30s"})],
        [{"name": "about sixty", "count": {"created": "pods", "where": {"name": "burst-*"}}, "atLeast": 40, "atMost": 80},
         {"name": "all go", "when": "no pods named burst-* exist", "within": ["8s", "60s"], "after": "end of it"}],
        {},
    ),
    "a load of scaling": (
        [step("load", {"rate": "1/2s", "scale": {"resource": "deployments", "name": "web", "between": [3, 12]}}, **{"for": "30s"})],
        [{"name": "it was scaled", "count": {"changed": "deployments"}, "atLeast": 12},
         {"name": "within bounds", "always": "at least 3 pods are Running", "after": "it"}],
        {},
    ),
    "history that expires but for the last minute": (
        [step("compact", {"keep": "60s"}), {"at": "2m1s", "name": "cut", "dropWatches": {}}, MORE],
        [{"name": "it goes on", "when": "at least 9 pods are Running", "within": ["0s", "20s"], "after": "more"}],
        {},
    ),
    "a cordon that ends": (
        [step("cordon", {"nodes": {"zone": "a"}}, **{"for": "30s"})],
        [within("any nodes are cordoned", "0s", "1s"),
         {"name": "open", "when": "no nodes are cordoned", "within": ["0s", "1s"], "after": "end of it"}],
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_a_fault_has_its_effect(name: str, tmp_path: Path) -> None:
    timeline, expect, more = CASES[name]
    await run(tmp_path, timeline, [RUNNING, *expect], **more)


# --- when steps happen ----------------------------------------------------------------------------


def steps_of(path: Path) -> list[tuple[float, str]]:
    return [(r.at_us / 1e6, r.values["name"]) for r in read(path / "trace") if r.kind == "step"]


async def test_a_step_happens_when_its_condition_holds_with_the_commit_as_its_cause(tmp_path: Path) -> None:
    timeline = [
        step("fail", {"nodes": {"zone": "a"}, "how": "power-loss"}),
        {"when": "any nodes have Ready=Unknown", "delay": "5s", "name": "back", "heal": {"step": "it"}},
        {"after": "end of it", "delay": "1s", "name": "then", "compact": {}},
    ]
    expect = [
        within("all nodes in zone a have Ready=Unknown", "29s", "46s"),
        {"name": "5 s later", "when": "all nodes have Ready=True", "within": ["0s", "15s"], "after": "back"},
    ]
    await run(tmp_path, timeline, expect)
    records = {record.ident: record for record in read(tmp_path / "trace")}
    back = next(r for r in records.values() if r.kind == "step" and r.values["name"] == "back")
    cause = records[back.cause]
    assert cause.kind == "write" and cause.at_us == back.at_us - 5_000_000
    assert [name for _, name in steps_of(tmp_path)] == ["it", "back", "then"]


async def test_a_step_repeats_and_a_condition_fires_each_time(tmp_path: Path) -> None:
    timeline = [
        {"at": "2m", "name": "kill", "every": "60s", "times": 3, "delete": {"resource": "pods", "selector": "app=web", "gracePeriodSeconds": 0}},
        {"when": f"{READY}=6", "after": "kill", "times": 9, "name": "whole", "dropWatches": {"resource": "configmaps"}},
    ]  # fmt: skip
    await run(tmp_path, timeline, [RUNNING])
    found = steps_of(tmp_path)
    assert [at for at, name in found if name.startswith("kill/")] == [120, 180, 240]
    assert [name for _, name in found if name.startswith("whole/")][-1] in ("whole/3", "whole/4")


CHAOS = [
    {"at": "1m30s", "name": "chaos", "every": "5s..20s", "until": "4m", "random": [
        {"weight": 3, "for": "5s..60s", "fail": {"nodes": {"pick": 1}, "how": "hang"}},
        {"for": "5s..60s", "fail": {"nodes": {"pick": 2}, "how": "power-loss"}},
        {"crash": {"actor": "controller-manager", "pick": 1, "restartAfter": "1s..10s"}},
        {"for": "5s..15s", "storage": {"how": "slow", "by": "100ms"}},
        {"for": "5s..15s", "storage": {"how": "lost-quorum"}},
        {"for": "5s..20s", "partition": {"between": ["zone a", "apiserver"]}},
    ]},
]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
async def test_faults_drawn_at_random_end_one_by_one_and_the_cluster_is_whole_again(
    seed: int, tmp_path: Path
) -> None:
    expect = [
        {"name": "all nodes", "always": "all nodes have Ready=True", "after": "7m"},
        {"name": "all pods", "always": f"{READY}=6", "after": "7m30s"},
    ]
    first = await run(tmp_path, CHAOS, [RUNNING, *expect], duration="8m", seed=seed)
    found = steps_of(tmp_path)
    assert len(found) >= 8
    assert [name for _, name in found] == [f"chaos/{n + 1}" for n in range(len(found))]
    ends = [r.values["name"] for r in read(tmp_path / "trace") if r.kind == "step-end"]
    assert sorted(ends) == sorted(name for _, name in found)
    again = await run(tmp_path, CHAOS, [RUNNING, *expect], duration="8m", seed=seed)
    assert first.trace_sha256 == again.trace_sha256


async def test_the_end_of_one_fault_leaves_the_other_in_force(tmp_path: Path) -> None:
    timeline = [
        step("fail", {"nodes": {"zone": "a"}, "how": "power-loss"}, **{"for": "3m"}),
        {"at": "2m10s", "for": "20s", "fail": {"nodes": {"zone": "a"}, "how": "hang"}},
        {"at": "2m10s", "for": "20s", "fail": {"nodes": {}, "how": "network-cut"}},
    ]
    expect = [
        within("all nodes in zone a have Ready=Unknown", "29s", "70s"),
        {"name": "no other", "never": "any nodes in zone b,c have Ready=Unknown"},
        {"name": "dead until the end", "always": "all nodes in zone a have Ready=Unknown", "after": "3m10s", "until": "5m"},
        {"name": "back", "when": "all nodes have Ready=True", "within": ["0s", "15s"], "after": "end of it"},
    ]  # fmt: skip
    await run(tmp_path, timeline, expect)


async def test_a_healed_node_ends_the_step_that_failed_it(tmp_path: Path) -> None:
    timeline = [
        step("fail", {"nodes": {"zone": ["a", "b"]}, "how": "hang"}),
        {"at": "3m", "name": "one", "heal": {"nodes": {"zone": "a"}}},
        {"at": "4m", "name": "other", "heal": {"nodes": {"zone": "b"}}},
    ]
    await run(tmp_path, timeline, [])
    records = list(read(tmp_path / "trace"))
    begin = next(r for r in records if r.kind == "step" and r.values["name"] == "it")
    (end,) = [r for r in records if r.kind == "step-end"]
    assert (end.at_us, end.values["name"], end.values["step"]) == (240_000_000, "it", begin.ident)


async def test_a_fault_finds_the_leader_while_nothing_can_be_read(tmp_path: Path) -> None:
    timeline = [
        step("storage", {"how": "lost-quorum"}, **{"for": "20s"}),
        {"at": "2m1s", "crash": {"actor": "apiserver", "restartAfter": "15s"}},
        {"at": "2m2s", "name": "killed", "crash": {"actor": "scheduler-leader", "restartAfter": "5s"}},
    ]
    await run(tmp_path, timeline, [RUNNING])
    killed = [
        r.values["name"] for r in read(tmp_path / "trace") if r.kind == "actor" and r.at_us == 122_000_000
    ]
    assert killed == ["scheduler-0"]
