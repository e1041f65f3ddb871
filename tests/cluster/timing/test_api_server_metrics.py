"""What API servers count of admission, caches, lists, filters and priority levels.

To see it fail: leave out the call that counts, for example `count_cached_list` in the handlers.
"""

from __future__ import annotations

from sim.api.types import Reply, Request
from sim.app.cluster import Cluster
from sim.app.measured.components import ComponentMetrics

POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
ADMISSION = "apiserver_admission_"


def admission(metrics: ComponentMetrics, name: str, kind: str, rejected: str = "false") -> float:
    family = f"{ADMISSION}controller_admission_duration_seconds_count"
    return metrics.value(family, name=name, type=kind, operation="CREATE", rejected=rejected)


def check_admission(cluster: Cluster, metrics: ComponentMetrics) -> None:
    step = f"{ADMISSION}step_admission_duration_seconds"
    before = [admission(metrics, "PodSecurity", "validate"), admission(metrics, "Priority", "admit")]
    steps = metrics.value(f"{step}_count", type="validate", operation="CREATE", rejected="false")
    made = cluster.request("create", "pods", "default", body={**POD, "metadata": {"name": "a"}})
    assert made.code == 201
    after = [admission(metrics, "PodSecurity", "validate"), admission(metrics, "Priority", "admit")]
    assert after == [before[0] + 1, before[1] + 1]
    labels = {"type": "validate", "operation": "CREATE", "rejected": "false"}
    assert metrics.value(f"{step}_count", **labels) == steps + 1
    assert metrics.value(f"{step}_summary_count", **labels) == steps + 1
    assert metrics.value(f"{step}_summary", quantile="0.99", **labels) == 0
    # A plugin that refuses ends the pass: those after it are not counted.
    spec = {**POD["spec"], "priorityClassName": "none"}
    lost = {**POD, "spec": spec, "metadata": {"name": "b"}}
    seen = admission(metrics, "NamespaceLifecycle", "admit"), admission(metrics, "RuntimeClass", "admit")
    assert cluster.request("create", "pods", "default", body=lost).code == 403
    assert admission(metrics, "Priority", "admit", "true") == 1
    assert admission(metrics, "NamespaceLifecycle", "admit") == seen[0] + 1
    assert admission(metrics, "RuntimeClass", "admit") == seen[1]
    assert metrics.value(f"{step}_count", type="admit", operation="CREATE", rejected="true") == 1


async def listed(cluster: Cluster, options: dict[str, str]) -> None:
    await handled(
        cluster, Request(verb="list", resource="services", options=options, user=cluster.admin_user), 200
    )


async def handled(cluster: Cluster, request: Request, code: int) -> None:
    replies: list[Reply] = []
    cluster.api_servers["apiserver-0"].handle(request, replies.append)
    await cluster.run_for("1s")
    assert replies[0].code == code


async def check_caches(cluster: Cluster, metrics: ComponentMetrics) -> None:
    lists, stored = "apiserver_cache_list_", "apiserver_storage_list_"
    place = {"resource_prefix": "/services/specs"}
    assert metrics.value(f"{lists}total", **place) > 0  # informers list from the cache
    before = metrics.value(f"{lists}total", **place), metrics.value(f"{stored}total", resource="services")
    fetched = metrics.value(f"{lists}fetched_objects_total", **place)
    await listed(cluster, {"resourceVersion": "0", "labelSelector": "none=here"})
    after = metrics.value(f"{lists}total", **place), metrics.value(f"{stored}total", resource="services")
    assert after == (before[0] + 1, before[1])
    assert metrics.value(f"{lists}fetched_objects_total", **place) == fetched + 1
    await listed(cluster, {})
    assert metrics.value(f"{stored}total", resource="services") == before[1] + 1
    kind = {"resource": "*core.Pod"}
    assert metrics.value("apiserver_watch_cache_initializations_total", **kind) == 1
    assert metrics.value("watch_cache_capacity", **kind) == 100
    events = metrics.value("apiserver_watch_cache_events_dispatched_total", **kind)
    cluster.request("create", "pods", "default", body={**POD, "metadata": {"name": "c"}})
    assert metrics.value("apiserver_watch_cache_events_dispatched_total", **kind) == events + 1
    assert metrics.value("etcd_request_duration_seconds_count", operation="list", type="*[]core.Service") > 0
    labels = {"resource": "pods", "verb": "WATCH", "scope": "cluster"}
    assert metrics.value("apiserver_longrunning_requests", **labels) > 1


async def check_calls(cluster: Cluster, metrics: ComponentMetrics) -> None:
    """The calls of the storage's client; each cache was filled by a list, and has a watch."""
    assert metrics.value("apiserver_storage_list_total", resource="cronjobs.batch") >= 1
    assert metrics.value("grpc_client_started_total", grpc_method="Watch", grpc_type="bidi_stream") > 30
    labels = {"grpc_method": "Txn", "grpc_service": "etcdserverpb.KV", "grpc_code": "OK"}
    families = ("grpc_client_handled_total", "grpc_client_started_total")
    before = [metrics.value(family, grpc_method="Range") for family in families]
    await listed(cluster, {})
    after = [metrics.value(family, grpc_method="Range") for family in families]
    assert all(later > earlier for later, earlier in zip(after, before, strict=True))
    written = metrics.value(families[0], **labels)
    body = {"metadata": {"name": "m"}}
    made = Request(
        verb="create", resource="configmaps", namespace="default", body=body, user=cluster.admin_user
    )
    await handled(cluster, made, 201)
    assert metrics.value(families[0], **labels) > written
    assert metrics.value("grpc_client_msg_received_total") == 0


def check_pod_security(cluster: Cluster, metrics: ComponentMetrics) -> None:
    family, prefix = "pod_security_evaluations_total", "pod-security.kubernetes.io/"
    allowed = {"decision": "allow", "mode": "enforce", "policy_level": "privileged", "resource": "pod"}
    assert metrics.value(family, **allowed) >= 2
    labels = {f"{prefix}enforce": "restricted", f"{prefix}audit": "baseline"}
    body = {"metadata": {"name": "safe", "labels": labels}}
    assert cluster.request("create", "namespaces", body=body).code == 201
    spec = {**POD["spec"], "hostNetwork": True, "serviceAccountName": "none"}
    account = {"metadata": {"name": "none"}}
    assert cluster.request("create", "serviceaccounts", "safe", body=account).code == 201
    pod = {**POD, "metadata": {"name": "p"}, "spec": spec}
    assert cluster.request("create", "pods", "safe", body=pod).code == 403
    denied = {"decision": "deny", "policy_version": "latest", "request_operation": "create"}
    assert metrics.value(family, mode="enforce", policy_level="restricted", **denied) == 1
    assert metrics.value(family, mode="audit", policy_level="baseline", **denied) == 1


def check_addresses(cluster: Cluster, metrics: ComponentMetrics) -> None:
    prefix = "kube_apiserver_clusterip_allocator_"
    before = metrics.value(f"{prefix}allocated_ips", cidr="10.0.0.0/24")
    ports = [{"port": 80}]
    for name, given in (("a", {}), ("b", {"clusterIP": "10.0.0.9"}), ("c", {"clusterIP": "10.0.0.9"})):
        body = {"metadata": {"name": name}, "spec": {"ports": ports, **given}}
        cluster.request("create", "services", "default", body=body)
    assert metrics.value(f"{prefix}allocated_ips") == before + 2
    assert metrics.value(f"{prefix}available_ips") == 254 - before - 2
    assert metrics.value(f"{prefix}allocation_total", scope="dynamic") == 1
    assert metrics.value(f"{prefix}allocation_total", scope="static") == 1
    assert metrics.value(f"{prefix}allocation_errors_total", scope="static") == 1


async def check_definitions(cluster: Cluster, metrics: ComponentMetrics) -> None:
    rules = [{"rule": "self.a > 0"}]
    spec = {"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": rules}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"}
    body = {
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    definitions = "customresourcedefinitions"
    assert cluster.request("create", definitions, body=body).code == 201
    await cluster.run_for("5s")
    made = {"crd": "foos.example.com", "reason": "add"}
    assert metrics.value("apiextensions_openapi_v2_regeneration_count", **made) == 1
    assert metrics.value("apiextensions_openapi_v3_regeneration_count", version="v1", **made) == 1
    for queue in ("crd_naming_condition_controller", "crd_openapi_controller"):
        assert metrics.value("workqueue_adds_total", name=queue) >= 1
        assert metrics.value("workqueue_work_duration_seconds_count", name=queue) >= 1
    assert metrics.value("workqueue_adds_total", name="crdEstablishing") == 1
    assert metrics.value("apiserver_cel_evaluation_duration_seconds_count") == 0
    one = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": {"a": 1}}
    cluster.apply(one)
    await cluster.run_for("1s")
    assert metrics.value("apiserver_cel_evaluation_duration_seconds_count") == 1
    assert cluster.request("delete", definitions, "", "foos.example.com").ok
    await cluster.run_for("10s")
    gone = {"crd": "foos.example.com", "reason": "remove"}
    assert metrics.value("apiextensions_openapi_v2_regeneration_count", **gone) == 1


async def test_api_servers_count_admission_caches_and_flows() -> None:
    async with Cluster(nodes=1, seed=1, naming="kubernetes") as cluster:
        metrics = cluster.metrics()
        await cluster.run_for("10s")
        check_admission(cluster, metrics)
        await check_caches(cluster, metrics)
        check_pod_security(cluster, metrics)
        check_addresses(cluster, metrics)
        await check_definitions(cluster, metrics)
        filters = "apiserver_request_filter_duration_seconds_count"
        total = metrics.value(filters, filter="authorization")
        assert total == metrics.value(filters, filter="priorityandfairness") > 10
        flows = "apiserver_flowcontrol_"
        labels = {"flow_schema": "system-nodes"}
        ran = metrics.value(f"{flows}request_execution_seconds_count", **labels)
        assert ran == metrics.value(f"{flows}dispatched_requests_total", **labels) > 0
        for name in ("work_estimated_seats", "request_queue_length_after_enqueue"):
            assert metrics.value(f"{flows}{name}_count", **labels) == ran
        # 28 seconds of nanoseconds, of each phase.
        full = f"{flows}priority_level_request_utilization"
        assert metrics.value(f"{full}_count", priority_level="system", phase="executing") == 28 * 10**9
        await check_calls(cluster, metrics)
        server = cluster.api_servers["apiserver-0"]
        server.overload(2_000_000, None)  # each request takes two seconds, and needs a seat
        await cluster.run_for("10s")
        assert metrics.value(f"{full}_sum", phase="executing") > 0
        assert metrics.value(f"{flows}request_execution_seconds_sum") > 2
        slow = metrics.value("apiserver_request_filter_duration_seconds_sum", filter="authorization")
        assert slow == 0
