"""Defaults and order of the metrics of autoscalers."""

from __future__ import annotations

from sim.api.kinds.autoscaling.horizontal_pod_autoscaler.forms import settled
from sim.ident import NAMES
from tests.unit.sim.api.kinds.writes import made

ORCH = NAMES["orch"]


def test_autoscaler_has_cpu_as_default_metric_and_as_last_one() -> None:
    target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    plain = made("horizontalpodautoscalers", {"maxReplicas": 5, "scaleTargetRef": target})
    assert plain["spec"]["metrics"][0]["resource"]["target"] == {
        "type": "Utilization",
        "averageUtilization": 80,
    }
    memory = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Value"}}}
    both = {"maxReplicas": 5, "scaleTargetRef": target, "metrics": [plain["spec"]["metrics"][0], memory]}
    stored = settled({"apiVersion": "autoscaling/v2", **made("horizontalpodautoscalers", both)}, ORCH)
    names = [m["resource"]["name"] for m in stored["spec"]["metrics"]]
    assert names == ["memory", "cpu"]
