"""Every action of a timeline does what its name says, on a whole small cluster."""

from pathlib import Path
from typing import Any

import pytest

from sim.kernel import read
from tests.cluster.scenario import RUNNING, WEB, run, step, within

BUDGET: dict[str, Any] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 5, "selector": {"matchLabels": {"app": "web"}}},
}


LOGGER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "logger"},
    "spec": {"containers": [{"name": "c", "image": "r/logger:1"}]},
}


CASES: dict[str, tuple[list[Any], list[Any]]] = {
    "power loss": (
        [step("fail", {"nodes": {"zone": "a"}, "how": "power-loss"}), {"at": "5m", "name": "back", "heal": {"step": "it"}}],
        [
            within("all nodes in zone a have Ready=Unknown", "29s", "46s"),
            {"name": "back", "when": "all nodes in zone a have Ready=True", "within": ["0s", "15s"], "after": "back"},
        ],
    ),
    "hang": (
        [step("fail", {"nodes": {"zone": "a"}, "how": "hang"}, **{"for": "2m"})],
        [within("all nodes in zone a have Ready=Unknown", "29s", "46s"), within("all nodes have Ready=True", "0s", "140s")],
    ),
    "network cut": (
        [step("fail", {"nodes": {"zone": "a"}, "how": "network-cut"}, **{"for": "2m"})],
        [
            within("all nodes in zone a have Ready=Unknown", "29s", "46s"),
            {"name": "no pod goes", "never": {"deleted": "pods"}},
            {"name": "back", "always": "all nodes have Ready=True", "after": "300s"},
        ],
    ),
    "agent crash": (
        [step("fail", {"nodes": {"zone": "a"}, "how": "agent-crash"}, **{"for": "2m"})],
        [within("all nodes in zone a have Ready=Unknown", "29s", "46s"), {"name": "back", "always": "all nodes have Ready=True", "after": "300s"}],
    ),
    "runtime failure": (
        [step("fail", {"nodes": {"zone": "a"}, "how": "runtime-failure"}, **{"for": "2m"})],
        [within("all nodes in zone a have Ready=False", "0s", "45s"), {"name": "back", "always": "all nodes have Ready=True", "after": "300s"}],
    ),
    "files of static pods": (
        [
            step("manifest", {"nodes": {"zone": ["a", "b"]}, "write": LOGGER}),
            {"at": "3m", "name": "gone", "manifest": {"nodes": {"name": "node-a-0"}, "remove": "logger"}},
            {"at": "3m", "name": "spoiled", "manifest": {"nodes": {"name": "node-b-0"}, "spoil": "logger"}},
        ],
        [
            within("exactly 2 pods named logger-node-* are ready", "0.4s", "4s"),
            {"name": "goes", "when": {"removed": "pods", "where": {"name": "logger-node-a-0"}}, "within": ["0s", "35s"], "after": "gone"},
            {"name": "is found", "when": {"removed": "pods", "where": {"name": "logger-node-b-0"}}, "within": ["0s", "55s"], "after": "spoiled"},
        ],
    ),
    "logs that fill disks": (
        [step("workload", {"selector": "app=web", "logRate": "5Gi"}, **{"for": "1m"})],
        [within("any nodes have DiskPressure=True", "8s", "35s")],
    ),
    "reboot": (
        [step("reboot", {"nodes": {"zone": "a"}, "downtime": "90s"})],
        [within("all nodes in zone a have Ready=Unknown", "29s", "46s"), {"name": "back", "always": "all nodes have Ready=True", "after": "240s"}],
    ),
    "partition of a node from the API": (
        [step("partition", {"between": ["node-a-0", "apiserver"]}, **{"for": "100s"})],
        [within("all nodes in zone a have Ready=Unknown", "29s", "46s"), {"name": "back", "always": "all nodes have Ready=True", "after": "300s"}],
    ),
    "a slow network": (
        [step("network", {"between": ["nodes", "apiserver"], "latency": "2s"}), {"at": "3m", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 9}}],
        [{"name": "slow", "when": "at least 9 pods are Running", "within": ["6s", "60s"], "after": "more"}],
    ),
    "an API server crash": (
        [step("crash", {"actor": "apiserver-0", "restartAfter": "20s"}), {"at": "2m5s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 9}}],
        [
            {"name": "no earlier than it is back", "when": "at least 9 pods exist", "within": ["15s", "90s"], "after": "more"},
            {"name": "no node is lost", "never": "any nodes have Ready=Unknown"},
        ],
    ),
    "a stalled API server": (
        [step("stall", {"actor": "apiserver-0"}, **{"for": "20s"}), {"at": "2m5s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 9}}],
        [{"name": "later", "when": "at least 9 pods exist", "within": ["15s", "90s"], "after": "more"}],
    ),
    "a slow controller manager": (
        [step("slow", {"actor": "controller-manager-0", "by": "50ms"})],
        [{"name": "no pod goes", "never": {"deleted": "pods"}}],
    ),
    "a scheduler crash": (
        [step("crash", {"actor": "scheduler-leader", "restartAfter": "30s"}), {"at": "2m5s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 9}}],
        [{"name": "later", "when": "all pods are bound", "within": ["0s", "60s"], "after": "more"}],
    ),
    "a storage pause": (
        [step("storage", {"how": "pause"}, **{"for": "10s"}), {"at": "2m2s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 9}}],
        [{"name": "later", "when": "at least 9 pods are Running", "within": ["7s", "90s"], "after": "more"}],
    ),
    "storage without quorum": (
        [step("storage", {"how": "lost-quorum"}, **{"for": "15s"})],
        [{"name": "no pod goes", "never": {"deleted": "pods"}}, {"name": "back", "always": "all nodes have Ready=True", "after": "240s"}],
    ),
    "slow storage": (
        [step("storage", {"how": "slow", "by": "300ms"}, **{"for": "60s"}), {"at": "2m2s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 9}}],
        [{"name": "later", "when": "at least 9 pods are Running", "within": ["2s", "60s"], "after": "more"}],
    ),
    "a lagging watch cache": (
        [step("lag", {"apiServer": "apiserver-0", "by": "5s"}), {"at": "2m10s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 9}}],
        [{"name": "later", "when": "at least 9 pods exist", "within": ["9s", "40s"], "after": "more"}],
    ),
    "dropped watches and compaction": (
        [step("dropWatches", {}), {"at": "2m", "name": "gone", "compact": {}}, {"at": "3m", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 9}}],
        [{"name": "seen", "when": "at least 9 pods are Running", "within": ["0s", "40s"], "after": "more"}],
    ),
    "apply and delete": (
        [step("apply", {"objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}]}), {"at": "3m", "name": "away", "delete": {"resource": "deployments", "name": "web"}}],
        [
            within("configmaps named c have data.a=1", "0s", "1s"),
            {"name": "collected", "when": "no pods exist", "within": ["1s", "60s"], "after": "away"},
        ],
    ),
    "delete what depends on it first": (
        [step("delete", {"resource": "deployments", "name": "web", "propagationPolicy": "Foreground"})],
        [{"name": "order", "after": "it", "order": [
            {"deleted": "deployments"}, {"deleted": "replicasets"}, {"deleted": "pods"},
            {"removed": "pods"}, {"removed": "replicasets"}, {"removed": "deployments"},
        ]}],
    ),
    "delete and leave what depends on it": (
        [step("delete", {"resource": "deployments", "name": "web", "propagationPolicy": "Orphan"})],
        [within({"removed": "deployments"}, "0s", "1s"), {"name": "the rest stays", "always": "at least 6 pods are Running", "after": "it"}],
    ),
    "patch by name": (
        [step("patch", {"resource": "nodes", "name": "node-a-0", "merge": {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}})],
        [within({"deleted": "pods", "where": {"node": "node-a-0"}}, "0s", "0.3s"),
         {"name": "empty", "never": "any pods on node node-a-0 are Running", "after": "130s"}],
    ),
    "patch by selector": (
        [step("patch", {"resource": "pods", "selector": "app=web", "merge": {"metadata": {"labels": {"app": "free"}}}})],
        [within("at least 12 pods are Running", "0s", "5s")],
    ),
    "delete by selector": (
        [step("delete", {"resource": "pods", "selector": "app=web", "gracePeriodSeconds": 0})],
        [{"name": "replaced", "count": {"created": "pods"}, "equals": 12}],
    ),
    "cordon": (
        [step("cordon", {"nodes": {"zone": ["a", "b"]}}), {"at": "3m", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 12}}],
        [within("all nodes in zone a are cordoned", "0s", "1s"), {"name": "only c", "never": {"created": "pods", "where": {"zone": ["a", "b"]}}, "after": "more"}],
    ),
    "taint": (
        [
            step("taint", {"nodes": {"zone": "a"}, "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}),
            {"at": "4m", "name": "off", "untaint": {"nodes": {}, "taints": [{"key": "k"}]}},
        ],
        [
            within({"deleted": "pods", "where": {"zone": "a"}}, "0s", "0.3s"),
            {"name": "tainted", "always": "all nodes in zone a have taint k:NoExecute", "after": "121s", "until": "4m"},
            {"name": "no more", "when": "no nodes have taint k", "within": ["0s", "1s"], "after": "off"},
        ],
    ),
    "drain": (
        [step("drain", {"nodes": {"zone": "a"}}), {"at": "6m", "name": "open", "uncordon": {"nodes": {"zone": "a"}}}],
        [
            within("no pods in zone a exist", "1s", "60s"),
            {"name": "not cordoned", "when": "no nodes are cordoned", "within": ["0s", "1s"], "after": "open"},
        ],
    ),
    "a clock that runs ahead": (
        [step("clock", {"actor": "node-a-0", "offset": "10m", "driftPpm": 1000})],
        [{"name": "leases are not compared with clocks", "never": "any nodes have Ready=Unknown"}],
    ),
    "a clock that is put back": (
        # upstream counts a renewal only if its time is later than the last one's
        [step("clock", {"actor": "node-a-0", "offset": "-10m"})],
        [within("all nodes in zone a have Ready=Unknown", "29s", "46s")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_an_action_has_its_effect(name: str, tmp_path: Path) -> None:
    timeline, expect = CASES[name]
    await run(tmp_path, timeline, [RUNNING, *expect])
    steps = [record.values["name"] for record in read(tmp_path / "trace") if record.kind == "step"]
    assert steps == [entry["name"] for entry in timeline]


async def test_a_drain_keeps_to_the_disruption_budget(tmp_path: Path) -> None:
    timeline = [step("drain", {"nodes": {"zone": "a"}})]
    expect = [
        RUNNING,
        {
            "name": "never below five",
            "always": "deployments named web have status.readyReplicas>=5",
            "after": "2m",
        },
        within("no pods in zone a exist", "5s", "120s"),
    ]
    await run(tmp_path, timeline, expect, objects=[WEB, BUDGET])


async def test_the_end_of_a_fault_is_in_the_trace_with_its_cause(tmp_path: Path) -> None:
    await run(tmp_path, [step("fail", {"nodes": {"zone": "a"}, "how": "hang"}, **{"for": "2m"})], [])
    records = list(read(tmp_path / "trace"))
    begin = next(record for record in records if record.kind == "step")
    end = next(record for record in records if record.kind == "step-end")
    assert (begin.at_us, end.at_us, end.cause) == (120_000_000, 240_000_000, begin.ident)


async def test_selector_that_matches_nothing_is_reported(tmp_path: Path) -> None:
    result = await run(
        tmp_path, [step("delete", {"resource": "pods", "selector": "app=wob"})], [RUNNING], duration="3m"
    )
    (told,) = result.refused
    assert told.startswith("pods app=wob at 2m0.") and told.endswith("nothing matches in default")


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ({"delete": {"resource": "pods", "selector": "app=web"}}, "delete pods app=web"),
        ({"evict": {"selector": "app=web"}}, "evict pods app=web"),
        ({"evict": {"name": "web-0"}}, "evict pods/web-0"),
        ({"drain": {"nodes": {"zone": "a"}}}, "cordon node-a-0"),
    ],
)
async def test_command_without_a_server_for_a_minute_is_reported(
    action: dict[str, Any], told: str, tmp_path: Path
) -> None:
    timeline = [{"at": "1m", "crash": {"actor": "apiserver"}}, {"at": "2m", **action}]
    result = await run(tmp_path, timeline, [], duration="4m")
    assert [text.partition(" at ")[::2] for text in result.refused] == [
        (told, result.refused[0].partition(" at ")[2])
    ]
    assert result.refused[0].endswith("s: ConnectionRefused")
    drained = [r for r in read(tmp_path / "trace") if r.kind == "command" and r.values["what"] == "drain"]
    assert not drained  # nor is it said to be done


async def test_failed_evictions_are_reported_and_earlier_evictions_are_not(
    tmp_path: Path,
) -> None:
    strict = {**BUDGET, "spec": {**BUDGET["spec"], "minAvailable": 6}}
    timeline = [
        step("evict", {"selector": "app=web"}),
        {"at": "3m", "evict": {"name": "web-0"}},
        {"at": "4m", "delete": {"resource": "pods", "selector": "app=web"}},
    ]
    result = await run(tmp_path, timeline, [RUNNING], objects=[WEB, strict], duration="13m")
    (told,) = result.refused
    assert told.startswith("evict pods/web-0 at 3m0.") and "NotFound" in told


async def test_budget_without_room_is_reported_when_an_eviction_is_abandoned(tmp_path: Path) -> None:
    strict = {**BUDGET, "spec": {**BUDGET["spec"], "minAvailable": 6}}
    result = await run(
        tmp_path, [step("evict", {"selector": "app=web"})], [RUNNING], objects=[WEB, strict], duration="13m"
    )
    assert len(result.refused) == 6
    assert all(
        " at 11m55." in told and "TooManyRequests: Cannot evict pod" in told for told in result.refused
    )


async def test_an_eviction_that_meets_no_server_is_asked_for_again(tmp_path: Path) -> None:
    """The second pod's turn comes 5 s after the first one's, as the server restarts."""
    slow = {"at": "1m50s", "workload": {"selector": "app=web", "stop": "8s"}}
    away = {"at": "2m4s", "crash": {"actor": "apiserver"}, "for": "3s"}
    whole = within("no pods in zone a exist", "10s", "60s")
    timeline = [slow, step("drain", {"nodes": {"zone": "a"}}), away]
    result = await run(tmp_path, timeline, [RUNNING, whole], objects=[WEB, BUDGET])
    assert not result.refused


async def test_a_step_waits_for_what_is_bound_to_a_node_that_is_made_later(tmp_path: Path) -> None:
    """An expectation and a step mean the same by a zone, before its node is there too."""
    pod = {"kind": "Pod", "metadata": {"name": "early"}, "spec": {"nodeName": "late", "containers": WEB["spec"]["template"]["spec"]["containers"]}}  # fmt: skip
    node = {"kind": "Node", "metadata": {"name": "late", "labels": {"topology.orch.io/zone": "d"}}}
    made = {"created": "pods", "where": {"zone": "d"}}
    timeline = [
        step("apply", {"objects": [{"apiVersion": "v1", **pod}]}),
        {"at": "4m", "name": "come", "apply": {"objects": [{"apiVersion": "v1", **node}]}},
        {"when": made, "name": "seen", "dropWatches": {}},
    ]
    await run(tmp_path, timeline, [{"name": "it counts", "count": made, "equals": 1}])
    steps = [(r.values["name"], r.at_us // 1_000_000) for r in read(tmp_path / "trace") if r.kind == "step"]
    assert steps == [("it", 120), ("seen", 120), ("come", 240)]
