"""Options that no timing case names: each set to an unusual value, and the effect it promises seen
in a cluster.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actors.controllers.table import LOOPS
from sim.api.store import Change
from sim.api.types import Obj, Reply
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.errors import InputError
from sim.options.controllers.manager import parse_controller_manager
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.scenario.schema.sections import Runtime
from sim.units import SECOND, parse_time
from tests.cluster.fixed import FixedPhases, workload


def plan(nodes: int = 0, agent: dict[str, Any] | None = None, **components: Any) -> ClusterPlan:
    """A cluster with these flags of components (`controller_manager`, `scheduler`, `api_server`)."""
    hosts = plain_nodes(nodes)
    if agent:
        hosts = tuple(replace(host, flags=agent) for host in hosts)
    return ClusterPlan(nodes=hosts, **{name: ComponentPlan(flags=f) for name, f in components.items()})


def manager(nodes: int = 0, agent: dict[str, Any] | None = None, **flags: Any) -> ClusterPlan:
    """A cluster with these flags of the controller manager, their names with "_" for "-"."""
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return plan(nodes, agent, controller_manager=named)


def pod(name: str, *, app: str = "a", **spec: Any) -> Obj:
    container = {"name": "c", "image": spec.pop("image", "i")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [container], **spec},
    }


def deployment(name: str, replicas: int) -> Obj:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod("", app=name)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


COLD = Runtime(image_pull="10s")  # no image is there yet
SERVICE: Obj = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "a"},
    "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]},
}


class Commits:
    """Times in seconds since the start of the run at which objects of a resource were written, by
    name.
    """

    def __init__(self, cluster: Cluster, resource: str) -> None:
        self.seen: list[tuple[float, Obj]] = []
        cluster.observe(self._see, [resource])

    def _see(self, change: Change) -> None:
        self.seen.append((change.at_us / SECOND, change.item.obj))


# --- controller manager ---------------------------------------------------------------------------


async def test_loops_start_one_after_the_other() -> None:
    """With 20 s to 40 s between the starts of some thirty loops not all have begun after two
    minutes.
    """
    made: list[int] = []
    for interval in ("0s", "20s"):
        async with Cluster(manager(controller_start_interval=interval)) as cluster:
            cluster.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},))
            await cluster.run_for("2s")
            made.append(len(cluster.list("serviceaccounts", "n")) + len(cluster.list("configmaps", "n")))
    assert made[0] == 2
    assert made[1] < 2


async def test_a_node_that_never_reported_has_its_startup_grace() -> None:
    async with Cluster(manager(node_startup_grace_period="100s")) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        await cluster.run_for("95s")
        assert not (cluster.get("nodes", "n") or {}).get("status", {}).get("conditions")
        await cluster.run_for("15s")
        node = cluster.get("nodes", "n") or {}
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "Unknown"


async def test_pod_eviction_timeout_changes_nothing_where_taints_evict() -> None:
    async with Cluster(manager(3, pod_eviction_timeout="1s")) as cluster:
        cluster.apply(deployment("web", 3))
        await cluster.run_for("20s")
        cluster.fail_node("node-0", "power-loss")
        await cluster.run_for("120s")
        assert len(cluster.list("pods")) == 3


async def test_quotas_are_recounted_in_each_sync_period() -> None:
    async with Cluster(manager(resource_quota_sync_period="20s")) as cluster:
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
        cluster.apply({**quota, "spec": {"hard": {"configmaps": "9"}}})
        await cluster.run_for("10s")
        body = {"status": {"used": {"configmaps": "7"}, "hard": {"configmaps": "9"}}}
        merge = "application/merge-patch+json"
        said = cluster.request(
            "patch", "resourcequotas", "default", "q", subresource="status", body=body, content_type=merge
        )
        assert said.ok
        await cluster.run_for("25s")
        used = (cluster.get("resourcequotas", "q") or {})["status"]["used"]
        assert used == {"configmaps": "1"}  # the root CA's


@pytest.mark.parametrize(
    ("flag", "resource"),
    [
        ("endpoint_updates_batch_period", "endpoints"),
        ("endpointslice_updates_batch_period", "endpointslices"),
    ],
)
async def test_a_pods_change_waits_for_the_batch_period(flag: str, resource: str) -> None:
    first: dict[str, float] = {}
    for period in ("0s", "30s"):
        async with Cluster(manager(1, **{flag: period})) as cluster:
            cluster.apply(SERVICE)
            await cluster.run_for("40s")
            commits = Commits(cluster, resource)
            cluster.apply(pod("p"))
            await cluster.run_for("60s")
            first[period] = min(at for at, obj in commits.seen if "10.128" in str(obj)) - 40
    assert first["0s"] < 10
    assert first["30s"] >= 30


async def test_a_slice_holds_no_more_endpoints_than_allowed() -> None:
    async with Cluster(manager(1, max_endpoints_per_slice=2)) as cluster:
        cluster.apply(SERVICE, deployment("a", 5))
        await cluster.run_for("30s")
        slices = cluster.list("endpointslices", "default")
        own = cluster.names.apiserver_service  # of the API servers, which no controller made
        sizes = [len(each["endpoints"]) for each in slices if each["metadata"]["name"] != own]
        assert sorted(sizes) == [1, 2, 2]


async def test_lock_is_where_the_options_place_it() -> None:
    flags = {"leader-elect-resource-namespace": "default", "leader-elect-resource-name": "lock"}
    everything = {"authorization-mode": "AlwaysAllow"}  # roles name the lock of the defaults
    async with Cluster(plan(controller_manager=flags, api_server=everything)) as cluster:
        await cluster.run_for("10s")
        assert "lock" in [lease["metadata"]["name"] for lease in cluster.list("leases", "default")]


async def test_lock_of_another_name_needs_a_role_of_its_own() -> None:
    flags = {"leader-elect-resource-namespace": "default", "leader-elect-resource-name": "lock"}
    async with Cluster(plan(controller_manager=flags)) as cluster:
        await cluster.run_for("10s")
        assert cluster.list("leases", "default") == []


@pytest.mark.parametrize(("modes", "pods"), [("Node", 0), ("Node,RBAC", 2), ("AlwaysAllow", 2)])
async def test_authorization_mode_decides_what_controllers_may_do(modes: str, pods: int) -> None:
    async with Cluster(plan(1, api_server={"authorization-mode": modes})) as cluster:
        cluster.apply(deployment("a", 2))
        await cluster.run_for("30s")
        assert len(cluster.list("nodes")) == 1
        assert len(cluster.list("pods")) == pods


async def test_policy_file_allows_what_its_lines_match(tmp_path: Path) -> None:
    file = tmp_path / "policies.jsonl"
    file.write_text('# the agents\n{"group": "system:nodes"}\n')
    flags = {"authorization-mode": "ABAC", "authorization-policy-file": str(file)}
    async with Cluster(plan(1, api_server=flags)) as cluster:
        cluster.apply(deployment("a", 2))
        await cluster.run_for("30s")
        assert len(cluster.list("nodes")) == 1
        assert cluster.list("replicasets") == []


def test_malformed_policy_file_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "policies.jsonl"
    file.write_text('{"user": "a"}\n{\n')
    flags = {"authorization-mode": "ABAC", "authorization-policy-file": str(file)}
    with pytest.raises(InputError, match=r"policies\.jsonl:2"):
        Cluster(plan(api_server=flags))


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"authorization-mode": ""}, "at least one authorization-mode must be passed"),
        ({"authorization-mode": "RBAC,Roles"}, "'Roles' is not a valid mode"),
        ({"authorization-mode": "RBAC,Node,RBAC"}, "has mode specified more than once"),
        ({"authorization-mode": "Webhook"}, "Webhook's authorization config file not passed"),
        ({"authorization-mode": "ABAC"}, "authorization policy file not passed"),
        ({"authorization-policy-file": "f"}, "cannot specify authorization-policy-file without mode ABAC"),
        ({"authorization-mode": "ABAC", "authorization-policy-file": "/no/such"}, "no such file"),
    ],
)
def test_authorization_options_that_cannot_work_are_refused(flags: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Cluster(plan(api_server=flags))


SYNCS = [
    *("deployment", "endpoint", "service-endpoint", "gc", "namespace", "rc", "replicaset", "resource-quota"),
    *("statefulset", "ttl-after-finished"),
]


async def test_each_loop_has_as_many_workers_as_allowed() -> None:
    """The n-th option gets 30 + n workers, and that many more tasks are there than with one worker
    each.
    """
    counted: list[Counter[str]] = []
    for step in (0, 1):
        flags = {f"concurrent-{name}-syncs": 1 + step * (30 + n) for n, name in enumerate(SYNCS)}
        async with Cluster(plan(controller_manager=flags)) as cluster:
            await cluster.run_for("3s")
            tasks = [task.name.rpartition("-") for task in cluster.kernel.tasks.values()]
            counted.append(Counter(queue for queue, _, number in tasks if number.isdigit()))
    more = Counter((counted[1] - counted[0]).values())
    two_queues = ("gc", "resource-quota")
    assert more == Counter(
        30 + n for n, name in enumerate(SYNCS) for _ in range(2 if name in two_queues else 1)
    )


@pytest.mark.parametrize(
    ("loop", "left"), [("deployment", (0, 0)), ("replicaset", (1, 0)), ("namespace", (1, 3))]
)
async def test_a_loop_without_workers_does_nothing(loop: str, left: tuple[int, int]) -> None:
    """Upstream checks few of these numbers: with none, the other loops run around the blocked one."""
    async with Cluster(manager(1, **{f"concurrent-{loop}-syncs": 0})) as cluster:
        cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}, deployment("a", 3)
        )
        await cluster.run_for("10s")
        assert (len(cluster.list("replicasets")), len(cluster.list("pods"))) == left
        assert cluster.request("delete", "namespaces", "", "n").ok
        await cluster.run_for("20s")
        assert (cluster.get("namespaces", "n") is None) is (loop != "namespace")


@pytest.mark.parametrize(("qps", "wanted"), [(20, 0.95), (0, 3.8), (-1, 0)])
async def test_a_rate_of_zero_is_the_clients_own_and_less_is_no_limit(qps: int, wanted: float) -> None:
    """Of twenty bindings the first goes at once and the others one by one, at five a second where
    no rate is named.
    """
    flags = {"orch-api-qps": qps, "orch-api-burst": 1}
    async with Cluster(plan(1, scheduler=flags)) as cluster:
        await cluster.run_for("20s")
        commits = Commits(cluster, "pods")
        cluster.apply(*(pod(f"p{n}") for n in range(20)))
        await cluster.run_for("20s")
        bound: dict[str, float] = {}
        for at, obj in commits.seen:
            if "nodeName" in obj["spec"]:
                bound.setdefault(obj["metadata"]["name"], at)
        assert len(bound) == 20
        assert max(bound.values()) - min(bound.values()) == pytest.approx(wanted, abs=0.1)


@pytest.mark.parametrize(
    ("period", "least", "most"), [("60s", 0, 120), ("1us", 0, 1.1), ("12h", 600, 1 << 40)]
)
async def test_resync_repairs_what_no_event_reports(period: str, least: float, most: float) -> None:
    """Endpoints overwritten by another client are no event of their Service; the resync is one,
    each 1 to 2 periods, 1 s at least.
    """
    async with Cluster(manager(1, min_resync_period=period)) as cluster:
        cluster.apply(SERVICE, pod("p"))
        await cluster.run_for("30s")
        wrong = {**(cluster.get("endpoints", "a") or {}), "subsets": []}
        assert cluster.request("update", "endpoints", "default", "a", body=wrong).ok
        commits = Commits(cluster, "endpoints")
        await cluster.run_for("10m")
        repaired = [at - 30 for at, obj in commits.seen if obj.get("subsets")]
        assert least <= min(repaired, default=601) <= most


def test_controllers_that_are_named_alone_run_alone() -> None:
    """Without `*` only those named run; the first entry that names one wins."""
    options = parse_controller_manager({"controllers": "deployment,-deployment,job"})
    assert [name for name in LOOPS if options.runs(name)] == ["deployment", "job"]
    assert not parse_controller_manager({"controllers": "-job"}).runs("deployment")


# --- scheduler ------------------------------------------------------------------------------------


async def test_a_scheduler_takes_the_pods_that_name_it() -> None:
    async with Cluster(plan(1, scheduler={"scheduler-name": "mine"})) as cluster:
        await cluster.run_for("10s")
        cluster.apply(pod("theirs"), pod("ours", schedulerName="mine"))
        await cluster.run_for("10s")
        bound = {p["metadata"]["name"]: "nodeName" in p["spec"] for p in cluster.list("pods")}
        assert bound == {"theirs": False, "ours": True}
        said = [e for e in cluster.list("events", "default") if e.get("reason") == "Scheduled"]
        assert [e["reportingComponent"] for e in said] == ["mine"]


async def test_a_pod_that_fails_backs_off_as_long_as_the_options_say() -> None:
    """It is woken at once by a new node that does not help, and tried when its back-off is over."""
    tried: dict[str, float] = {}
    for backoff in ("1s", "40s"):
        flags = {"pod-initial-backoff": backoff, "pod-max-backoff": "50s"}
        async with Cluster(plan(1, scheduler=flags)) as cluster:
            await cluster.run_for("10s")
            commits = Commits(cluster, "pods")
            cluster.apply(pod("p", nodeSelector={"disk": "ssd"}))
            await cluster.run_for("2s")
            merge = "application/merge-patch+json"
            body = {"metadata": {"labels": {"disk": "ssd"}}}
            assert cluster.request("patch", "nodes", "", "node-0", body=body, content_type=merge).ok
            await cluster.run_for("60s")
            tried[backoff] = min(at for at, obj in commits.seen if "nodeName" in obj["spec"]) - 10
    assert tried["1s"] < 4
    assert 40 <= tried["40s"] < 43


# --- API server -----------------------------------------------------------------------------------


async def test_a_toleration_of_less_than_no_time_is_none() -> None:
    flags = {"default-unreachable-toleration-seconds": "-5"}
    async with FixedPhases({"": 10}, plan(api_server=flags)) as cluster:
        cluster.apply(workload("Deployment", "web", 10))
        await cluster.kill("node-0")
        await cluster.run_until("160s")
        tainted = cluster.seen.no_execute["node-0"]
        assert [0 <= at - tainted <= SECOND // 5 for at in cluster.seen.deleted["node-0"]] == [True]


async def test_pods_get_the_tolerations_that_the_api_server_flags_set() -> None:
    flags = {
        "default-not-ready-toleration-seconds": 7,
        "default-unreachable-toleration-seconds": 9,
        "disable-admission-plugins": "ServiceAccount",
    }
    async with Cluster(plan(api_server=flags)) as cluster:
        await cluster.run_for("1s")
        made = cluster.request("create", "pods", "default", body=pod("p")).obj
        assert [t["tolerationSeconds"] for t in made["spec"]["tolerations"]] == [7, 9]


async def test_services_get_the_ports_of_nodes_that_there_are() -> None:
    async with Cluster(plan(api_server={"service-node-port-range": "31000-31001"})) as cluster:
        await cluster.run_for("1s")

        def made(name: str, **port: int) -> Reply:
            spec = {"type": "NodePort", "ports": [{"port": 80, **port}]}
            body = {"metadata": {"name": name}, "spec": spec}
            return cluster.request("create", "services", "default", body=body)

        outside = made("x", nodePort=30000)
        assert outside.code == 422
        assert "The range of valid ports is 31000-31001" in outside.message
        given = [made(name).obj["spec"]["ports"][0]["nodePort"] for name in "ab"]
        assert sorted(given) == [31000, 31001]
        assert (full := made("c")).code == 500
        assert "failed to allocate a nodePort: range is full" in full.message


@pytest.mark.parametrize("gate", [True, False])
async def test_unknown_fields_are_reported_while_their_gate_is_on(gate: bool) -> None:
    async with Cluster(plan(api_server={"feature-gates": {"ServerSideFieldValidation": gate}})) as cluster:
        await cluster.run_for("1s")
        body = {"metadata": {"name": "c"}, "dat": {"a": "b"}}
        said = cluster.request("create", "configmaps", "default", body=body)
        assert (said.code, len(said.warnings)) == (201, int(gate))
        strict = {"fieldValidation": "Strict"}
        said = cluster.request(
            "create", "configmaps", "default", body={**body, "metadata": {"name": "d"}}, options=strict
        )
        assert said.code == (400 if gate else 201)


@pytest.mark.parametrize(
    ("server", "collector", "left"),
    [(True, True, (0, 0)), (True, False, (1, 2)), (False, True, (0, 0)), (False, False, (0, 2))],
)
async def test_what_a_deletion_waits_for_takes_a_server_and_a_collector(
    server: bool, collector: bool, left: tuple[int, int]
) -> None:
    """A server that waits for a collector that there is not keeps the object for ever; without
    either its pods stay.
    """
    name = "enable-garbage-collector"
    control = plan(1, api_server={name: server}, controller_manager={name: collector})
    async with Cluster(control) as cluster:
        cluster.apply(deployment("a", 2))
        await cluster.run_for("20s")
        (owner,) = cluster.list("replicasets", "default")
        body = {"propagationPolicy": "Foreground"}
        assert cluster.request("delete", "deployments", "default", "a", body=body).ok
        await cluster.run_for("60s")
        if server:
            assert len(cluster.list("deployments", "default")) == left[0]
        else:
            assert not cluster.list("deployments", "default")
        assert len(cluster.list("pods", "default")) == left[1]
        assert bool(cluster.get("replicasets", owner["metadata"]["name"])) is bool(left[1])


@pytest.mark.parametrize(("ttl", "late"), [(10, 1), (45, 2), (120, 6), (1800, 60)])
async def test_an_event_lives_its_time_and_as_long_as_a_lease_is_shared(ttl: int, late: int) -> None:
    """A twentieth of the time in whole seconds, and a minute at most."""
    written: dict[str, float] = {}
    lived: list[float] = []

    def see(change: Change) -> None:
        name, at = change.item.obj["metadata"]["name"], change.at_us / SECOND
        if change.deleted:
            lived.append(at - written[name])
        else:
            written[name] = at

    async with Cluster(plan(1, api_server={"event-ttl": f"{ttl}s"})) as cluster:
        cluster.observe(see, ["events"])
        for number in range(20):
            await cluster.run_for("3700ms")
            cluster.apply(pod(f"p-{number}"))
        await cluster.run_for((ttl + late + 5) * SECOND)
        assert len(lived) == len(written) > 60
        assert ttl <= min(lived) and max(lived) <= ttl + late + 0.1


@pytest.mark.parametrize(("ttl", "least", "most"), [("0s", 29, 31), ("900ms", 29, 31), ("1900ms", 1, 2.1)])
async def test_an_events_life_is_of_whole_seconds_and_of_none_it_has_no_end(
    ttl: str, least: float, most: float
) -> None:
    """etcd's leases last whole seconds: 1.9 s are one, and up to one later comes the sweep."""
    async with Cluster(plan(1, api_server={"event-ttl": ttl})) as cluster:
        await cluster.run_for("10s")
        lived = {"p": 0.0}
        cluster.apply(pod("p"))
        for _ in range(300):
            await cluster.run_for("100ms")
            if not any(e["reason"] == "Scheduled" for e in cluster.list("events", "default")):
                break
            lived["p"] += 0.1
        assert least <= lived["p"] <= most


@pytest.mark.parametrize("chance", [0, 0.02])
async def test_goaway_chance_returns_clients_to_a_restarted_server(
    chance: float,
) -> None:
    """A client that has gone to another server stays there otherwise."""
    servers = ComponentPlan(2, {"goaway-chance": chance})
    async with Cluster(replace(plan(5), api_server=servers), seed=1) as cluster:
        await cluster.run_for("1m")
        first = cluster.api_servers["apiserver-0"]
        assert first.watched
        cluster.supervisor["apiserver-0"].crash()
        await cluster.run_for("15s")
        cluster.supervisor["apiserver-0"].start()
        came = first.flown
        await cluster.run_for("15m")
        # an agent makes 7 requests a minute: each of its connections ends once in seven minutes
        assert (first.watched > 5) is (first.flown > came) is bool(chance)


async def test_the_history_is_compacted_in_each_interval() -> None:
    async with Cluster(plan(api_server={"etcd-compaction-interval": "30s"})) as cluster:
        await cluster.run_for("70s")
        assert cluster.storage.store.floor > 0
    async with Cluster(plan(api_server={"etcd-compaction-interval": "0s"})) as cluster:
        await cluster.run_for("15m")
        assert cluster.storage.store.floor == 0


# --- node agent -----------------------------------------------------------------------------------


async def test_a_node_registers_as_its_options_say() -> None:
    agent = {
        "provider-id": "sim://1",
        "enable-controller-attach-detach": False,
        "pods-per-core": 2,
        "node-ip": "192.168.7.9",
        "register-with-taints": "k=v:NoSchedule",
        "node-labels": "disk=ssd",
    }
    async with Cluster(plan(1, agent)) as cluster:
        await cluster.run_for("5s")
        node = cluster.get("nodes", "node-0") or {}
        cores = int(node["status"]["capacity"]["cpu"])
        assert node["status"]["capacity"]["pods"] == str(2 * cores)
        assert node["spec"]["providerID"] == "sim://1"
        assert not any("attach-detach" in key for key in node["metadata"].get("annotations", {}))
        assert {"type": "InternalIP", "address": "192.168.7.9"} in node["status"]["addresses"]
        assert {"key": "k", "value": "v", "effect": "NoSchedule"} in node["spec"]["taints"]
        assert node["metadata"]["labels"]["disk"] == "ssd"


async def test_dual_stack_node_gives_both_addresses_to_its_pods_and_services() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "p"}, "ports": [{"port": 80}]},
    }
    async with Cluster(plan(1, {"node-ip": "fd00::1,10.9.9.9"})) as cluster:
        cluster.apply(pod("p", app="p", hostNetwork=True), service)
        await cluster.run_for("20s")
        status = (cluster.get("pods", "p") or {})["status"]
        assert status["podIPs"] == [{"ip": "fd00::1"}, {"ip": "10.9.9.9"}]
        assert status["hostIP"] == status["podIP"] == "fd00::1"
        (subset,) = (cluster.get("endpoints", "s") or {})["subsets"]
        assert [address["ip"] for address in subset["addresses"]] == ["10.9.9.9"]


async def test_node_without_registration_waits_until_its_object_is_created() -> None:
    async with Cluster(plan(1, {"register-node": False})) as cluster:
        await cluster.run_for("30s")
        assert cluster.list("nodes") == []
        cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}})
        await cluster.run_for("30s")
        assert cluster.counts()["ready"] == 1


async def test_node_reports_at_most_the_allowed_number_of_images() -> None:
    told: list[int] = []
    for limit in (-1, 2):
        host = replace(plain_nodes(1)[0], runtime=COLD, flags={"node-status-max-images": limit})
        async with Cluster(ClusterPlan(nodes=(host,))) as cluster:
            cluster.apply(*(pod(f"p{n}", image=f"i{n}") for n in range(4)))
            await cluster.run_for("6m")
            node = cluster.get("nodes", "node-0") or {}
            told.append(len(node["status"].get("images", ())))
    assert told == [4, 2]


async def test_images_are_pulled_one_after_the_other_or_side_by_side() -> None:
    last: dict[bool, int] = {}
    for serialize in (True, False):
        host = replace(plain_nodes(1)[0], runtime=COLD, flags={"serialize-image-pulls": serialize})
        async with Cluster(ClusterPlan(nodes=(host,))) as cluster:
            await cluster.run_for("10s")
            cluster.apply(*(pod(f"p{n}", image=f"i{n}") for n in range(3)))
            await cluster.run_for("60s")
            started = [p["status"]["containerStatuses"][0]["state"] for p in cluster.list("pods")]
            times = [parse_time(state["running"]["startedAt"]) for state in started]
            last[serialize] = (max(times) - min(times)) // SECOND
    assert last[True] >= 20
    assert last[False] <= 1


async def test_an_agent_says_no_more_than_its_events_burst() -> None:
    """Of some dozen events at its start and of its first pods, two at once and one each ten
    seconds.
    """
    said: list[int] = []
    for flags in ({"event-qps": 5, "event-burst": 50}, {"event-qps": 1, "event-burst": 2}):
        async with Cluster(plan(1, flags)) as cluster:
            cluster.apply(*(pod(f"p{n}") for n in range(10)))
            await cluster.run_for("8s")
            events = cluster.list("events", "default")
            said.append(sum((e.get("source") or {}).get("host") == "node-0" for e in events))
    assert said[0] > 20 > said[1]


async def test_agent_without_debugging_handlers_or_without_the_pod_returns_no_logs() -> None:
    refusals = {
        405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
        404: ("NotFound", "the server could not find the requested resource"),
    }
    async with (
        Cluster(plan(1, {"enable-debugging-handlers": False}), seed=1) as without,
        Cluster(plan(1), seed=1) as restarted,
    ):
        for cluster, wanted in ((without, 405), (restarted, 404)):
            await cluster.run_for("20s")
            cluster.apply(pod("p"))
            await cluster.run_for("20s")
            if wanted == 404:
                cluster.nodes["node-0"].crash_agent()
                cluster.nodes["node-0"].start_agent()
            reply = cluster.request("get", "pods", "default", "p", subresource="log")
            reason, text = refusals[wanted]
            assert (reply.code, reply.reason) == (wanted, reason)
            assert reply.body["message"] == f"{text} ( pods/log p)"
            assert reply.body["details"] == {"name": "p", "kind": "pods/log"}


@pytest.mark.parametrize("flags", [{"port": 9999}, {"port": 9999, "enable-server": False}])
async def test_an_agent_is_asked_for_logs_at_its_port_if_it_answers_at_all(flags: dict[str, Any]) -> None:
    async with Cluster(plan(1, flags)) as cluster:
        await cluster.run_for("20s")
        cluster.apply(pod("p"))
        await cluster.run_for("20s")
        endpoints = (cluster.get("nodes", "node-0") or {})["status"]["daemonEndpoints"]
        assert endpoints == {"kubeletEndpoint": {"Port": 9999}}
        log = partial(cluster.request, "get", "pods", "default", "p", subresource="log")
        assert log().code == (200 if "enable-server" not in flags else 500)
        cluster.fail_node("node-0", "agent-crash")
        await cluster.run_for("1s")
        assert ":9999: connect: connection refused" in str(log().body)
