"""What users' requests meet: rules that lag, names that are not found, machines that are dark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sim.app.checked import checked_plan
from sim.app.cluster import Cluster
from sim.app.run import run_plan
from sim.errors import InputError
from sim.kernel import read
from sim.report import Timeline
from sim.scenario.plan.plan import Plan
from tests.cluster.scenario import WEB, run

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
SERVICE["spec"] = {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]}
DNS: dict[str, Any] = {**WEB, "metadata": {"name": "dns"}}
DNS["spec"] = {
    "replicas": 2,
    "selector": {"matchLabels": {"app": "dns"}},
    "template": {
        "metadata": {"labels": {"app": "dns"}},
        "spec": {"containers": [{"name": "dns", "image": "r/dns:1"}]},
    },
}
NAMES = {**SERVICE, "metadata": {"name": "dns"}}
NAMES["spec"] = {"selector": {"app": "dns"}, "ports": [{"port": 53, "protocol": "UDP"}]}
CLUSTER = {"kubeProxy": {}, "boot": "0s"}
OBJECTS = [WEB, SERVICE, DNS, NAMES]
ROLLOUT = {
    "resource": "deployments",
    "name": "web",
    "merge": {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}},
}


def users(source: str = "node-a-0", rate: str = "5/s", **more: Any) -> dict[str, Any]:
    return {"at": "1m", "name": "users", "request": {"service": "web", "from": source, "rate": rate, **more}}


def planned(folder: Path, timeline: list[Any], objects: list[Any], duration: str) -> Plan:
    """A scenario of two nodes."""
    cluster = {**CLUSTER, "nodes": [{"count": 2, "prefix": "node-a"}]}
    spec = {"duration": duration, "cluster": cluster, "objects": objects, "timeline": timeline}
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "t"}}
    file = folder / "s.yaml"
    file.write_text(json.dumps({**head, "spec": spec}))
    return checked_plan(file)


def lost(at_most: str = "0s", **more: Any) -> dict[str, Any]:
    return {"name": f"lost {more}", "unavailability": {"of": "services/web", "atMost": at_most}, **more}


def with_sleep(seconds: int) -> dict[str, Any]:
    """The Deployment with a hook that sleeps before its containers are ended."""
    container = {"name": "web", "image": "r/web:1"}
    container["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", str(seconds)]}}}
    template = {**WEB["spec"]["template"], "spec": {"containers": [container]}}
    return {**WEB, "spec": {**WEB["spec"], "template": template}}


@pytest.mark.slow
@pytest.mark.parametrize("slept_s", [0, 5])
async def test_rollout_loses_requests_unless_containers_wait_for_the_rules(
    slept_s: int, tmp_path: Path
) -> None:
    timeline = [users(rate="20/s"), {"at": "2m", "name": "rollout", "patch": ROLLOUT}]
    expect = [
        lost(until="rollout", after="users"),
        lost(after="rollout", fails=not slept_s),
        {
            "name": "pods stay available",
            "unavailability": {"of": "deployments/web", "below": 4, "atMost": "0s"},
            "after": "1m",
        },
    ]
    objects = [with_sleep(slept_s) if slept_s else WEB, SERVICE]
    cluster = {"kubeProxy": {"minSyncPeriod": "2s"}, "boot": "0s"}
    await run(tmp_path, timeline, expect, cluster=cluster, objects=objects, duration="4m")


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["1s", "8s"])
async def test_long_requests_are_cut_off_unless_their_servers_end_them_first(
    stop: str, tmp_path: Path
) -> None:
    """A hook keeps new requests away; those of 6 s need a server that waits for them at SIGTERM."""
    timeline = [
        {"at": "0s", "workload": {"selector": "app=web", "stop": stop}, "for": "4m"},
        users(takes="6s", timeout="20s"),
        {"at": "2m", "name": "rollout", "patch": ROLLOUT},
    ]
    expect = [lost(after="users", until="1m50s"), lost(after="1m50s", fails=stop == "1s")]
    objects = [with_sleep(3), SERVICE]
    result = await run(tmp_path, timeline, expect, cluster=CLUSTER, objects=objects, duration="4m")
    assert ("cut off" in result.verdicts[1].measured) == (stop == "1s")


@pytest.mark.slow
async def test_names_are_lost_when_the_servers_of_names_are_and_kept_by_clients(tmp_path: Path) -> None:
    timeline = [
        users(dns="default/dns", nameTtl="20s"),
        {"at": "2m", "name": "gone", "scale": {"resource": "deployments", "name": "dns", "replicas": 0}},
    ]
    expect = [
        lost(after="users", until="2m9s"),
        lost("2m", after="2m22s", fails=True),
        {
            "name": "pods are available",
            "unavailability": {"of": "deployments/web", "atMost": "0s"},
            "after": "1m",
        },
    ]
    result = await run(tmp_path, timeline, expect, cluster=CLUSTER, objects=OBJECTS, duration="5m")
    assert "without a name)" in result.verdicts[1].measured


@pytest.mark.slow
async def test_names_outlast_the_api_servers_until_their_servers_start_again(tmp_path: Path) -> None:
    timeline = [
        users(dns="default/dns", nameTtl="0s"),
        {"at": "2m", "name": "outage", "crash": {"actor": "apiserver"}, "for": "4m"},
        {
            "at": "3m30s",
            "name": "restart",
            "workload": {"selector": "app=dns", "exitAfter": "1s"},
            "for": "10s",
        },
    ]
    expect = [
        lost(after="users", until="restart"),
        {**lost("2m", after="3m45s", until="end of outage"), "fails": True},
        lost(after="6m30s"),
    ]
    result = await run(tmp_path, timeline, expect, cluster=CLUSTER, objects=OBJECTS, duration="7m")
    assert "without a name)" in result.verdicts[1].measured


@pytest.mark.slow
async def test_requests_time_out_until_rules_lead_past_a_dead_machine(tmp_path: Path) -> None:
    """The rules follow when the node is marked: after 40 s to 50 s, and not with the death."""
    timeline = [
        users(timeout="1s"),
        {**users("outside", timeout="1s"), "name": "outside"},
        {"at": "2m", "name": "death", "fail": {"nodes": {"name": "node-b-0"}, "how": "power-loss"}},
    ]
    expect = [
        lost(after="users", until="death"),
        lost("10s", after="death", until="2m40s", fails=True),
        lost(after="2m55s"),
    ]
    result = await run(tmp_path, timeline, expect, cluster=CLUSTER, objects=[WEB, SERVICE], duration="4m")
    assert "timed out)" in result.verdicts[1].measured


@pytest.mark.slow
async def test_stalled_proxy_of_one_node_loses_the_requests_from_there(tmp_path: Path) -> None:
    timeline = [
        users(),
        {"at": "1m30s", "name": "stuck", "stall": {"actor": "kube-proxy-node-a-0"}, "for": "90s"},
        {"at": "2m", "name": "rollout", "patch": ROLLOUT},
    ]
    expect = [
        lost(after="users", until="rollout"),
        lost("20s", after="2m20s", until="end of stuck", fails=True),
        lost(after="3m10s"),
    ]
    await run(tmp_path, timeline, expect, cluster=CLUSTER, objects=[WEB, SERVICE], duration="4m")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "lasts"),
    [
        ({"crash": {"actor": "kube-proxy-node-a-0"}, "for": "30s"}, False),
        ({"reboot": {"nodes": {"name": "node-a-0"}, "downtime": "30s"}}, True),
    ],
)
async def test_rules_outlive_the_proxy_and_are_lost_with_the_power_of_the_machine(
    fault: dict[str, Any], lasts: bool, tmp_path: Path
) -> None:
    timeline = [
        users(rate="1/s", timeout="1s"),
        {"at": "2m", "name": "outage", "crash": {"actor": "apiserver"}, "for": "2m"},
        {"at": "2m10s", "name": "it", **fault},
    ]
    silent = {"always": "any requests to services named web are failing", "after": "2m50s", "until": "4m"}
    expect = [
        {"name": "without rules", **silent, "fails": not lasts},
        lost(after="users", until="it"),
        lost(after="5m"),
    ]
    await run(tmp_path, timeline, expect, cluster=CLUSTER, objects=[WEB, SERVICE], duration="6m")


@pytest.mark.slow
async def test_node_that_is_made_again_has_a_proxy_of_its_own(tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late"}}
    timeline = [
        {"at": "10s", "apply": {"objects": [node]}},
        {"at": "30s", "delete": {"resource": "nodes", "name": "late"}},
        {"at": "50s", "apply": {"objects": [node]}},
    ]
    cluster = {**CLUSTER, "adoptNodes": {}}
    await run(tmp_path, timeline, [], cluster=cluster, objects=[SERVICE], duration="1m10s")
    records = list(read(tmp_path / "trace"))
    lives = [
        (one.values["what"], one.at_us // 1_000_000)
        for one in records
        if one.kind == "actor" and one.values["name"] == "kube-proxy-late"
    ]
    assert lives == [("start", 10), ("crash", 30), ("start", 50)]
    written = [one.at_us for one in records if one.kind == "rules" and one.values["node"] == "late"]
    assert written[0] < 11_000_000 < 50_000_000 < written[-1]


@pytest.mark.slow
async def test_partition_of_nodes_loses_the_requests_between_them(tmp_path: Path) -> None:
    cut = {"between": ["node-a-0", "zone b"], "oneWay": True}
    timeline = [
        users(timeout="1s"),
        {**users("node-c-0", timeout="1s"), "name": "others"},
        {"at": "2m", "name": "cut", "partition": cut, "for": "1m"},
    ]
    expect = [lost(after="users", until="cut"), lost(after="end of cut")]
    result = await run(tmp_path, timeline, expect, cluster=CLUSTER, objects=[WEB, SERVICE], duration="4m")
    assert result.requests["users"]["timed out"] > 50
    assert list(result.requests["others"]) == ["answered"]


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "kept"), [("1/s", True), ("1/10s", False)])
async def test_affinity_keeps_a_client_at_its_pod_until_its_time_is_over(
    rate: str, kept: bool, tmp_path: Path
) -> None:
    config = {"clientIP": {"timeoutSeconds": 5}}
    spec = {**SERVICE["spec"], "sessionAffinity": "ClientIP", "sessionAffinityConfig": config}
    plan = planned(tmp_path, [users(rate=rate)], [WEB, {**SERVICE, "spec": spec}], "3m")
    pods: dict[str, None] = {}

    def prepare(cluster: Cluster) -> None:
        cluster.machine_watch.request_watchers.append(lambda one, _: pods.setdefault(one.endpoint))

    await run_plan(plan, picture=False, prepare=prepare)
    assert (len(pods) == 1) is kept


@pytest.mark.slow
async def test_step_waits_until_requests_fail_and_counts_are_in_the_result(tmp_path: Path) -> None:
    failing = "any requests to services named web are failing"
    timeline = [
        users(rate="1/s", timeout="1s"),
        {"at": "2m", "name": "gone", "scale": {"resource": "deployments", "name": "web", "replicas": 0}},
        {
            "when": failing,
            "after": "gone",
            "name": "back",
            "scale": {"resource": "deployments", "name": "web", "replicas": 1},
        },
    ]
    expect = [
        {"name": "soon", "when": failing, "within": ["0s", "3s"], "after": "gone"},
        {
            "name": "not for long",
            "when": failing.replace("failing", "answered"),
            "within": ["1s", "6s"],
            "after": "back",
        },
    ]
    result = await run(tmp_path, timeline, expect, cluster=CLUSTER, objects=[WEB, SERVICE], duration="3m")
    counts = result.to_json()["requests"]["users"]
    assert counts["answered"] > 100
    assert sum(counts.values()) == 121  # one each second of two minutes
    pictured = result.timeline.clients["default/web"]
    assert {outcome: seconds.total() for outcome, seconds in pictured.items()} == counts
    assert min(pictured["answered"]) == 60 and 120 <= min(pictured["refused"]) < 124
    outcomes: list[Any] = []
    assert list(read(tmp_path / "trace", outcomes.append))
    assert Timeline.of_plain(outcomes[0]["timeline"]).clients == result.timeline.clients


def test_hunt_takes_the_unavailability_of_a_service_as_a_target(tmp_path: Path) -> None:
    head = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: t}\nspec:\n  duration: 8m\n"
    service = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}"
    file = tmp_path / "s.yaml"
    file.write_text(
        f"{head}  cluster: {{nodes: [{{count: 2}}], kubeProxy: {{}}}}\n  objects: [{service}]\n"
        "  timeline: [{at: 1m, request: {service: web, from: node-0, rate: 1/s}, for: 6m}]\n"
        "  hunt: {palette: [stall], maximise: [unavailability of service/web]}\n"
    )
    plan = checked_plan(file)
    assert plan.hunt is not None
    assert plan.hunt.targets[0]["unavailability"] == {"of": "services/web", "atMost": "0s"}
    (drawn,) = plan.hunt.palette
    assert "kube-proxy-node-0" in drawn.values["stall.actor"]


@pytest.mark.slow
@pytest.mark.parametrize("way", [{"fast": False}, {"sockets": True}])
async def test_requests_are_the_same_by_other_ways(way: dict[str, Any], tmp_path: Path) -> None:
    timeline = [users("app=dns", dns="default/dns"), {"at": "90s", "name": "rollout", "patch": ROLLOUT}]
    plan = planned(tmp_path, timeline, OBJECTS, "2m")
    result = await run_plan(plan, picture=False, trace_file=tmp_path / "trace")
    records = [one for one in read(tmp_path / "trace") if one.kind == "request"]
    assert (records[0].values["outcome"], records[0].values["client"]) == ("answered", "users")
    assert (await run_plan(plan, picture=False, **way)).trace_sha256 == result.trace_sha256


@pytest.mark.parametrize(
    ("cluster", "step", "message"),
    [
        ("", "partition: {between: [node-0, node-1]}", "no request goes between node-0 and node-1"),
        ("kubeProxy: {}", "network: {between: [node-0, node-1], loss: 0.1}", "no request goes between"),
        ("kubeProxy: {}", "partition: {between: [kube-proxy, apiserver]}", "kube-proxy-node-0 is no host"),
        ("", "stall: {actor: kube-proxy-node-0}", "no actor is named 'kube-proxy-node-0'"),
    ],
)
def test_wrong_faults_of_proxies_and_nodes_are_an_error(
    cluster: str, step: str, message: str, tmp_path: Path
) -> None:
    head = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: t}\nspec:\n  duration: 8m\n"
    file = tmp_path / "s.yaml"
    file.write_text(
        f"{head}  cluster: {{nodes: [{{count: 2}}], {cluster}}}\n  timeline: [{{at: 1m, {step}, for: 1m}}]\n"
    )
    with pytest.raises(InputError) as caught:
        checked_plan(file)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("cluster", "request_", "message"),
    [
        ("", "from: outside", "the nodes have no proxies"),
        ("kubeProxy: {}", "from: node-9", "'node-9' is no node"),
        ("kubeProxy: {}", "from: outside, dns: dns", "'dns' is no Service"),
        ("kubeProxy: {}", "from: outside, dns: a/b", "do not use the cluster's DNS"),
        ("kubeProxy: {}", "from: node-0, dns: a/b", "no services a/b is made"),
        ("kubeProxy: {}", "from: node-0, service: wbe", "no services default/wbe is made"),
        ("kubeProxy: {}", "from: node-0, rate: 200/s", "200/s is too much"),
        ("kubeProxy: {}", "from: node-0, timeout: 0s", "0s has no effect"),
        ("kubeProxy: {minSyncPeriod: soon}", "from: node-0", "'soon' is not a duration"),
        ("kubeProxy: {syncPeriod: 1s}", "from: node-0", "unknown field 'syncPeriod'"),
    ],
)
def test_wrong_requests_are_an_error(cluster: str, request_: str, message: str, tmp_path: Path) -> None:
    head = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: t}\nspec:\n  duration: 8m\n"
    service = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}"
    words = {"service": "web", "rate": "1/s"}
    inner = ", ".join(
        [*(f"{key}: {one}" for key, one in words.items() if f"{key}:" not in request_), request_]
    )
    file = tmp_path / "s.yaml"
    file.write_text(
        f"{head}  cluster: {{nodes: [{{count: 1}}], {cluster}}}\n  objects: [{service}]\n"
        f"  timeline:\n    - {{at: 1m, request: {{{inner}}}}}\n"
    )
    with pytest.raises(InputError) as caught:
        checked_plan(file)
    assert message in str(caught.value)
