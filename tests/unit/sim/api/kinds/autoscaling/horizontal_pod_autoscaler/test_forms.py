"""The two forms of an autoscaler."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.autoscaling.horizontal_pod_autoscaler.forms import to_first, to_second
from sim.api.types import Obj
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]
PREFIX = "autoscaling.alpha.kubernetes.io/"
CPU: Obj = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
MEMORY: Obj = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
}
INGRESS = {"kind": "Ingress", "name": "i", "apiVersion": "networking.k8s.io/v1"}
OBJECT: Obj = {
    "type": "Object",
    "object": {
        "describedObject": INGRESS,
        "metric": {"name": "rps"},
        "target": {"type": "Value", "value": "10"},
    },
}
PODS: Obj = {
    "type": "Pods",
    "pods": {
        "metric": {"name": "qps", "selector": {"matchLabels": {"a": "b"}}},
        "target": {"type": "AverageValue", "averageValue": "1k"},
    },
}
RULES = {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}]}


def second(*metrics: Obj, status: Obj | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "annotations": {"mine": "x"}},
        "spec": {"maxReplicas": 3, "metrics": list(metrics), **spec},
        "status": {"desiredReplicas": 0, "currentMetrics": None, **(status or {})},
    }


def test_the_share_of_cpu_has_a_field_and_the_rest_is_annotated() -> None:
    first = to_first(second(MEMORY, CPU), NAMING)
    assert first["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    text = '[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}]'
    assert first["metadata"]["annotations"] == {"mine": "x", PREFIX + "metrics": text}


def test_nothing_gets_lost_on_the_way_there_and_back() -> None:
    condition: Obj = {"type": "AbleToScale", "status": "True", "reason": "r", "message": "m"}
    condition = {**condition, "lastTransitionTime": None}
    current = {"averageUtilization": 7, "averageValue": "70m"}
    status = {
        "currentReplicas": 2,
        "conditions": [condition],
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": current}}],
    }
    behavior = {"scaleUp": {**RULES, "stabilizationWindowSeconds": 5}, "scaleDown": RULES}
    full = second(MEMORY, PODS, OBJECT, CPU, status=status, behavior=behavior)
    first = to_first(full, NAMING)
    assert first["status"]["currentCPUUtilizationPercentage"] == 7
    assert to_second(first, NAMING) == full


def test_what_is_measured_of_other_things_is_annotated_too() -> None:
    named = {"name": "m", "selector": {"matchLabels": {"a": "b"}}}
    mean = {"averageValue": "7"}
    current: list[Obj] = [
        {
            "type": "Object",
            "object": {"describedObject": INGRESS, "metric": named, "current": {"value": "3"}},
        },
        {"type": "Pods", "pods": {"metric": named, "current": mean}},
        {"type": "External", "external": {"metric": named, "current": {**mean, "value": "0"}}},
        {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "container": "c", "current": mean},
        },
        {"type": ""},
    ]
    full = second(CPU, status={"currentMetrics": current})
    first = to_first(full, NAMING)
    text = first["metadata"]["annotations"][PREFIX + "current-metrics"]
    selector = '"selector":{"matchLabels":{"a":"b"}}'
    assert f'{{"metricName":"m","currentAverageValue":"7",{selector}}}' in text
    assert f'"metricName":"m","currentValue":"3",{selector}}}' in text
    assert to_second(first, NAMING) == full


def test_without_any_metric_cpu_is_watched() -> None:
    bare = {"apiVersion": "autoscaling/v1", "metadata": {"name": "a"}, "spec": {"maxReplicas": 3}}
    assert to_second(bare)["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 80
    noted = {**bare, "metadata": {"name": "a", "annotations": {PREFIX + "metrics": "garbage"}}}
    assert to_second(noted)["metadata"] == {"name": "a"}
    assert to_second(noted)["spec"]["metrics"][0]["resource"]["name"] == "cpu"


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "part, text",
    [
        *((part, DEEP) for part in ("metrics", "behavior", "current-metrics", "conditions")),
        ("metrics", '[{"type": 1}]'),
        ("metrics", "{}"),
        ("metrics", '[{"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 1e999}}]'),
        ("metrics", '[{"type": "Resource", "resource": {"name": "cpu", "targetAverageValue": "much"}}]'),
        ("metrics", '[{"type": "Pods", "pods": "x"}]'),
        ("behavior", "[1]"),
        ("behavior", '{"ScaleUp": {"StabilizationWindowSeconds": "5"}}'),
        ("current-metrics", '[{"type": "Pods", "pods": {"metricName": {}}}]'),
        ("conditions", '[{"type": []}]'),
    ],
)
def test_an_annotation_that_holds_something_of_a_wrong_type_is_dropped(part: str, text: str) -> None:
    spec: Obj = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3}
    obj: Obj = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {},
        "spec": spec,
    }
    assert to_second({**obj, "metadata": {"annotations": {PREFIX + part: text}}}) == to_second(obj)
