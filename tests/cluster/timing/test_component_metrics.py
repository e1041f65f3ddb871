"""The metrics of the components of a cluster, in virtual time."""

from __future__ import annotations

import pytest

from sim.app.cluster import Cluster
from sim.errors import InputError


async def test_metrics_of_the_scheduler_follow_its_attempts_and_change_no_result() -> None:
    hashes = []
    for counts in (False, True):
        async with Cluster(nodes=2, seed=3) as cluster:
            metrics = cluster.metrics() if counts else None
            await cluster.run_for("20s")
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            large = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "999"}}}]}
            cluster.apply({**pod, "metadata": {"name": "fits"}})
            cluster.apply({**pod, "metadata": {"name": "large"}, "spec": large})
            await cluster.run_for("5s")
            hashes.append(cluster.kernel.trace.sha256())
            if metrics is None:
                continue
            value = metrics.value
            assert value("scheduler_schedule_attempts_total", result="scheduled") == 1
            assert value("scheduler_schedule_attempts_total", result="unschedulable") >= 1
            assert value("scheduler_pending_pods", queue="unschedulable") == 1
            assert value("scheduler_unschedulable_pods", plugin="NodeResourcesFit") == 1
            assert value("scheduler_scheduler_cache_size", type="nodes") == 2
            assert value("scheduler_queue_incoming_pods_total", event="PodAdd", queue="active") == 2
            took_s = value("scheduler_pod_scheduling_duration_seconds_sum", attempts="1")
            assert 0 < took_s < 1
            assert value("workqueue_adds_total", name="endpoint_slice") > 0
            assert value("apiserver_request_total", verb="POST", resource="pods", code="201") == 3
            assert value("scheduler_preemption_victims_count") == 0
            assert value("root_ca_cert_publisher_sync_total", code="200") >= 4
            assert value("node_collector_zone_size") == 2
            assert value("node_collector_zone_health") == 100
            text = metrics.text("scheduler")
            assert "# TYPE scheduler_pending_pods gauge\n" in text
            points = "scheduler_framework_extension_point_duration_seconds"
            for point, status, count in (
                ("PreFilter", "Success", 2),
                ("Filter", "Success", 2),
                ("PostFilter", "Unschedulable", 1),
                ("Score", "Success", 1),
                ("Reserve", "Success", 1),
                ("Permit", "Success", 1),
                ("PreBind", "Success", 1),
                ("Bind", "Success", 1),
            ):
                found = value(f"{points}_count", extension_point=point, status=status)
                assert (point, found) == (point, count)
            assert value(f"{points}_sum", extension_point="Bind") > 0
            assert value("scheduler_scheduler_goroutines", work="binding") == 0
            assert "scheduler_scheduler_goroutines{" in text
            assert "rest_client_exec_plugin_ttl_seconds +Inf\n" in text
            assert "apiserver_audit_event_total 0\n" in text
            assert value("pod_security_exemptions_total") == 0
            assert 'pod_security_exemptions_total{request_operation="update"' in metrics.text("apiserver")
            requested = metrics.families("resources")[0].samples
            assert [(s.labels["pod"], s.value) for s in requested] == [("large", 999)]
            assert "workqueue" not in text
            with pytest.raises(InputError, match="no process 'kubelet' has metrics"):
                metrics.text("kubelet")
            cluster.fail_node("node-0", "power-loss")
            await cluster.run_for("60s")
            assert value("node_collector_zone_health") == 50
            assert value("node_collector_unhealthy_nodes_in_zone") == 1
            assert value("node_collector_evictions_total") == 1
    assert hashes[0] == hashes[1]
