"""Feature gates: what each changes, seen in a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from actors.node.runtime.profile import Override
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.ident import Names
from tests.cluster.cli.test_options import Commits, deployment, manager, plan, pod
from tests.cluster.fixed import workload

RUNS = {"name": "c", "image": "r/c:1", "command": ["sleep", "infinity"]}


@pytest.mark.parametrize("gate", [True, False])
async def test_what_a_pod_costs_to_delete_counts_while_its_gate_is_on(gate: bool) -> None:
    """Of two pods of one age the smaller uid goes, but for what the other's deletion is said to
    cost less.
    """
    async with Cluster(manager(1, feature_gates=f"PodDeletionCost={gate}")) as cluster:
        cluster.apply(deployment("a", 2))
        await cluster.run_for("60s")
        by_uid = sorted(cluster.list("pods", "default"), key=lambda p: p["metadata"]["uid"])
        cheap = by_uid[1]["metadata"]["name"]
        body = {"metadata": {"annotations": {cluster.names.annotation_pod_deletion_cost: "-1"}}}
        merge = "application/merge-patch+json"
        assert cluster.request("patch", "pods", "default", cheap, body=body, content_type=merge).ok
        body = {"spec": {"replicas": 1}}
        assert cluster.request("patch", "deployments", "default", "a", body=body, content_type=merge).ok
        await cluster.run_for("5s")
        gone = [
            p["metadata"]["name"]
            for p in cluster.list("pods", "default")
            if "deletionTimestamp" in p["metadata"]
        ]
        left = [p["metadata"]["name"] for p in cluster.list("pods", "default")]
        lost = gone or [p["metadata"]["name"] for p in by_uid if p["metadata"]["name"] not in left]
        assert lost == [by_uid[1 if gate else 0]["metadata"]["name"]]


@pytest.mark.parametrize("gate", [True, False])
async def test_status_of_a_job_counts_ready_pods_while_the_gate_is_on(gate: bool) -> None:
    async with Cluster(manager(1, feature_gates={"JobReadyPods": gate})) as cluster:
        spec = {"template": {"spec": pod("", restartPolicy="Never", containers=[RUNS])["spec"]}}
        cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
        await cluster.run_for("20s")
        status = (cluster.get("jobs", "j") or {})["status"]
        assert (status["active"], status.get("ready")) == (1, 1 if gate else None)


@pytest.mark.parametrize(
    ("server", "loop", "replaced"), [(True, True, 3), (True, False, 1), (False, True, 1)]
)
async def test_several_pods_of_a_set_are_replaced_at_once_if_the_gate_is_on_on_both_sides(
    server: bool, loop: bool, replaced: int
) -> None:
    """The API server keeps the field by its gate, the loop heeds it by its own."""
    gates = [{"feature-gates": {"MaxUnavailableStatefulSet": gate}} for gate in (server, loop)]
    async with Cluster(plan(1, api_server=gates[0], controller_manager=gates[1])) as cluster:
        strategy = {"rollingUpdate": {"maxUnavailable": 3}}
        made = workload("StatefulSet", "db", replicas=4, updateStrategy=strategy)
        cluster.apply(made)
        await cluster.run_for("60s")
        image = {
            "spec": {"containers": [{**made["spec"]["template"]["spec"]["containers"][0], "image": "new"}]}
        }
        merge = "application/merge-patch+json"
        body = {"spec": {"template": image}}
        assert cluster.request("patch", "statefulsets", "default", "db", body=body, content_type=merge).ok
        await cluster.run_for("1s")
        going = ["deletionTimestamp" in each["metadata"] for each in cluster.list("pods", "default")]
        assert sum(going) == replaced


def evicted(cluster: Cluster) -> None:
    body = {"metadata": {"name": "p"}}
    assert cluster.request("create", "pods", "default", "p", body=body, subresource="eviction").ok


def tainted(cluster: Cluster) -> None:
    taint = {"key": "k", "effect": "NoExecute"}
    node = cluster.get("nodes", "node-0") or {}
    taints = [*(node["spec"].get("taints") or ()), taint]
    merge = "application/merge-patch+json"
    body = {"spec": {"taints": taints}}
    assert cluster.request("patch", "nodes", "", "node-0", body=body, content_type=merge).ok


def orphaned(cluster: Cluster) -> None:
    cluster.fail_node("node-0", "power-loss")
    assert cluster.request("delete", "nodes", "", "node-0").ok


def preempted(cluster: Cluster) -> None:
    group = cluster.names.api_version("scheduling", "v1")
    cluster.apply({"apiVersion": group, "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9})
    made = pod("q", priorityClassName="high")
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "5"}}
    cluster.apply(made)


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize(
    ("happens", "why", "phase"),
    [
        (evicted, "EvictionByEvictionAPI", "Running"),
        (tainted, "DeletionByTaintManager", "Running"),
        (orphaned, "DeletionByPodGC", "Failed"),
        (preempted, "PreemptionByKubeScheduler", "Running"),
    ],
)
async def test_a_pod_that_is_disrupted_says_why_while_the_gate_is_on(
    happens: Callable[[Cluster], None], why: str, phase: str, gate: bool
) -> None:
    flags = {"feature-gates": {"PodDisruptionConditions": gate}}
    async with Cluster(plan(1, api_server=flags, controller_manager=flags, scheduler=flags)) as cluster:
        made = pod("p", terminationGracePeriodSeconds=30)
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "5"}}
        cluster.apply(made)
        await cluster.run_for("30s")
        pods = Commits(cluster, "pods")
        happens(cluster)
        await cluster.run_for("90s")
        seen = [obj for _, obj in pods.seen if obj["metadata"]["name"] == "p"]
        told = [
            (obj["status"]["phase"], each["reason"])
            for obj in seen
            for each in obj["status"]["conditions"]
            if each["type"] == "DisruptionTarget"
        ]
        assert seen and set(told) == ({(phase, why)} if gate else set())
        if gate:  # before it is deleted
            assert "deletionTimestamp" not in seen[0]["metadata"] and len(told) == len(seen)


@pytest.mark.parametrize(("ignores", "over"), [(True, []), (False, ["Failed"])])
async def test_a_job_may_ignore_that_its_pods_are_disrupted(ignores: bool, over: list[str]) -> None:
    flags = {"feature-gates": {"PodDisruptionConditions": True, "JobPodFailurePolicy": True}}
    async with Cluster(plan(2, api_server=flags, controller_manager=flags)) as cluster:
        rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
        spec = {
            "backoffLimit": 0,
            "template": {"spec": pod("", restartPolicy="Never", containers=[RUNS])["spec"]},
        }
        policy = {"podFailurePolicy": {"rules": [rule]}} if ignores else {}
        made = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {**spec, **policy},
        }
        cluster.apply(made)
        await cluster.run_for("30s")
        (first,) = cluster.list("pods", "default")
        name = first["metadata"]["name"]
        body = {"metadata": {"name": name}}
        assert cluster.request("create", "pods", "default", name, body=body, subresource="eviction").ok
        await cluster.run_for("2m")
        status = (cluster.get("jobs", "j") or {})["status"]
        assert [each["type"] for each in status.get("conditions") or ()][-1:] == over
        assert (status.get("failed", 0), status.get("active", 0)) == ((0, 1) if ignores else (1, 0))


def zoned(cluster: Cluster, taint: bool = False) -> None:
    """node-0 is in zone a, node-1 in b, where it may be tainted."""
    merge = "application/merge-patch+json"
    for number, zone in enumerate("ab"):
        body: Obj = {"metadata": {"labels": {"zone": zone}}}
        if taint and number:
            body["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
        name = f"node-{number}"
        assert cluster.request("patch", "nodes", "", name, body=body, content_type=merge).ok


def spread(name: str, version: str = "1", **fields: Any) -> Obj:
    """A pod that is spread over the zones."""
    selector = {"matchLabels": {"app": "a"}}
    rule = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    spec = {"nodeSelector": fields.pop("nodeSelector")} if "nodeSelector" in fields else {}
    made = pod(name, topologySpreadConstraints=[{**rule, **fields}], **spec)
    made["metadata"]["labels"]["v"] = version
    return made


def places(cluster: Cluster) -> list[str]:
    """Where pods p… are, in the order of their names."""
    found = [each for each in cluster.list("pods", "default") if each["metadata"]["name"].startswith("p")]
    found.sort(key=lambda each: str(each["metadata"]["name"]))
    return [each["spec"].get("nodeName", "") for each in found]


@pytest.mark.parametrize(
    ("gate", "fields", "taint", "on", "off"),
    [
        # one a zone, as if the third had none
        ("MinDomainsInPodTopologySpread", {"minDomains": 3}, False, 2, 4),
        ("NodeInclusionPolicyInPodTopologySpread", {"nodeTaintsPolicy": "Honor"}, True, 4, 1),
        (
            "NodeInclusionPolicyInPodTopologySpread",
            {"nodeAffinityPolicy": "Ignore", "nodeSelector": {"zone": "a"}},
            False,
            1,
            4,
        ),
    ],
)
@pytest.mark.parametrize("sides", ["both", "server", "scheduler"])
async def test_which_domains_there_are_for_a_spread(
    gate: str, fields: dict[str, Any], taint: bool, on: int, off: int, sides: str
) -> None:
    flags = {"feature-gates": {gate: True}}
    who = {"both": ("api_server", "scheduler"), "server": ("api_server",), "scheduler": ("scheduler",)}[sides]
    async with Cluster(plan(2, **dict.fromkeys(who, flags))) as cluster:
        await cluster.run_for("20s")
        zoned(cluster, taint)
        for number in range(4):
            cluster.apply(spread(f"p{number}", **fields))
            await cluster.run_for("5s")
        assert len([place for place in places(cluster) if place]) == (on if sides == "both" else off)


@pytest.mark.parametrize("gate", [True, False])
async def test_a_spread_may_count_pods_of_the_same_label_only(gate: bool) -> None:
    flags = {"feature-gates": {"MatchLabelKeysInPodTopologySpread": gate}}
    async with Cluster(plan(2, api_server=flags, scheduler=flags)) as cluster:
        await cluster.run_for("20s")
        zoned(cluster)
        old = [spread(f"old{number}", version="1") for number in range(5)]
        for each in old:
            del each["spec"]["topologySpreadConstraints"]
        cluster.apply(*[{**each, "spec": {**each["spec"], "nodeName": "node-0"}} for each in old])
        await cluster.run_for("5s")
        for number in range(4):
            cluster.apply(spread(f"p{number}", version="2", matchLabelKeys=["v", "none"]))
            await cluster.run_for("5s")
        assert places(cluster).count("node-1") == (2 if gate else 4)


async def test_a_taint_that_comes_makes_a_domain_of_a_spread_go() -> None:
    flags = {"feature-gates": {"NodeInclusionPolicyInPodTopologySpread": True}}
    async with Cluster(plan(2, api_server=flags, scheduler=flags)) as cluster:
        await cluster.run_for("20s")
        zoned(cluster)
        fields = {"nodeTaintsPolicy": "Honor"}
        cluster.apply(*[spread(f"p{number}", **fields) for number in range(2)])
        await cluster.run_for("5s")
        assert sorted(places(cluster)) == ["node-0", "node-1"]
        zoned(cluster, taint=True)
        await cluster.run_for("5s")
        cluster.apply(*[spread(f"p{number}", **fields) for number in range(2, 5)])
        await cluster.run_for("5s")
        assert places(cluster)[2:] == ["node-0"] * 3


def scaler(**spec: Any) -> Obj:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": ref, "maxReplicas": 9, **spec}
    meta = {"name": "web", "namespace": "default"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": meta,
        "spec": spec,
    }


async def test_an_autoscaler_may_go_down_to_none_while_its_gate_is_on_or_if_it_did_before() -> None:
    target = {"type": "Value", "value": "1"}
    outside = [{"type": "External", "external": {"metric": {"name": "q"}, "target": target}}]
    made = scaler(minReplicas=0, metrics=outside)
    async with Cluster(plan(0, api_server={"feature-gates": "HPAScaleToZero=true"})) as cluster:
        await cluster.run_for("10s")
        plain = cluster.request("create", "horizontalpodautoscalers", "default", body=scaler(minReplicas=0))
        assert plain.code == 422 and "at least one Object or External metric" in plain.message
        assert cluster.request("create", "horizontalpodautoscalers", "default", body=made).ok
    async with Cluster(plan(0)) as cluster:
        await cluster.run_for("10s")
        refused = cluster.request("create", "horizontalpodautoscalers", "default", body=made)
        assert refused.code == 422 and "must be greater than or equal to 1" in refused.message


SIDECAR = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "cpu",
        "container": "c",
        "target": {"type": "Utilization", "averageUtilization": 50},
    },
}


def annotated(names: Names) -> Obj:
    """As the first version says it, for which it has no field."""
    source = {"name": "cpu", "container": "c", "targetAverageUtilization": 50}
    text = json.dumps([{"type": "ContainerResource", "containerResource": source}])
    annotations = {f"{names.annotation_autoscaling_prefix}metrics": text}
    meta = {"name": "older", "namespace": "default", "annotations": annotations}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3}
    return {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": spec}


@pytest.mark.parametrize("gate", [True, False])
async def test_the_use_of_one_container_counts_while_its_gate_is_on(gate: bool) -> None:
    """Two containers a pod, of which the first uses all that it asked for and the other nothing."""
    given = replace(plan(1, api_server={"feature-gates": {"HPAContainerMetrics": gate}}), metrics=True)
    made = workload("Deployment", "web", replicas=2)
    spec = made["spec"]["template"]["spec"]
    first = {**spec["containers"][0], "name": "c", "resources": {"requests": {"cpu": "100m"}}}
    # it asks for nothing, and need not
    spec["containers"] = [first, {"name": "other", "image": "other"}]
    async with Cluster(given) as cluster:
        for node in cluster.nodes.values():
            node.behave([Override({"cpu_milli": 100}, container="c")])
        cluster.apply(made)
        await cluster.run_for("30s")
        reply = cluster.request(
            "create", "horizontalpodautoscalers", "default", body=scaler(metrics=[SIDECAR])
        )
        assert reply.ok is gate
        cluster.apply(annotated(cluster.names))
        await cluster.run_for("1s")
        if not gate:
            for refusal in (reply.message, *cluster.refused):
                assert "only allowed when HPAContainerMetrics feature is enabled" in refusal
            assert len(cluster.refused) == 1
            return
        held = cluster.get("horizontalpodautoscalers", "older") or {}
        assert held["spec"]["metrics"] == [SIDECAR] and not cluster.refused
        await cluster.run_for("60s")
        status = (cluster.get("horizontalpodautoscalers", "web") or {})["status"]
        (shown,) = status["currentMetrics"]
        assert shown["containerResource"]["current"] == {"averageUtilization": 100, "averageValue": "100m"}
        assert status["desiredReplicas"] > 2


@pytest.mark.parametrize("gate", [True, False])
async def test_probe_by_grpc_has_no_result_without_its_gate(gate: bool) -> None:
    probed = pod("p")
    probe = {"grpc": {"port": 80}, "periodSeconds": 5}
    probed["spec"]["containers"][0] |= {"readinessProbe": probe, "livenessProbe": probe}
    async with Cluster(manager(1, {"feature-gates": f"GRPCContainerProbe={gate}"})) as cluster:
        cluster.apply(probed)
        await cluster.run_for("60s")
        found = cluster.get("pods", "p") or {}
        (state,) = found["status"]["containerStatuses"]
        assert (state["ready"], state["restartCount"]) == (gate, 0)
        texts = {
            event["message"]: event["count"]
            for event in cluster.list("events", "default")
            if event["reason"] == "Unhealthy"
        }
        error = f"probe errored: missing probe handler for p_default({found['metadata']['uid']}):c"
        assert set(texts) == (set() if gate else {f"Readiness {error}", f"Liveness {error}"})
        assert all(count > 5 for count in texts.values())
