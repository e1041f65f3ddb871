"""Defaults of Jobs, CronJobs, HorizontalPodAutoscalers, ResourceQuotas and LimitRanges.

Turns a decoded object into the same object with what upstream fills in; `templates` defaults a pod template.

Mirrors  kubernetes v1.25 pkg/apis/{batch,autoscaling}/{v1,v2}/defaults.go, pkg/apis/core/v1/defaults.go (LimitRange).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.kinds.defaults.parts import Fn, Obj, all_of, amounts, fill, present, within
from sim.api.kinds.forms.autoscalers import is_first

_LEFT_OUT = ("active", "succeeded", "failed")  # of a status where they are 0, as upstream's encoding does
_CHANGED: Mapping[str, Any] = {"lastProbeTime": None, "lastTransitionTime": None}


def job(templates: Fn) -> Fn:
    """A Job's defaults: one completion by one pod, unless either is told."""

    def spec(value: Obj) -> Obj:
        if value.get("completions") is None and value.get("parallelism") is None:
            value = {**value, "completions": 1, "parallelism": 1}
        value = fill(
            value, {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}
        )
        value = within(value, "podFailurePolicy", _failure_policy)
        return within(present(value, {"template": {}}), "template", templates)

    def status(value: Obj) -> Obj:
        if any(value.get(name) == 0 for name in _LEFT_OUT):
            value = {k: v for k, v in value.items() if k not in _LEFT_OUT or v}
        return all_of(value, "conditions", lambda condition: present(condition, _CHANGED))

    def defaults(obj: Obj) -> Obj:
        obj = within(present(obj, {"spec": {}, "status": {}}), "spec", spec)
        labels = (obj["spec"].get("template", {}).get("metadata") or {}).get("labels")
        if labels and not (obj.get("metadata") or {}).get("labels"):
            obj = {**obj, "metadata": {**(obj.get("metadata") or {}), "labels": labels}}
        return within(obj, "status", status)

    return defaults


def _failure_policy(policy: Obj) -> Obj:
    """A pattern of a pod's condition wants it to be true."""

    def rule(given: Obj) -> Obj:
        return all_of(given, "onPodConditions", lambda pattern: fill(pattern, {"status": "True"}))

    return all_of(policy, "rules", rule)


def cron_job(templates: Fn) -> Fn:
    """Quirk: of the Job to come, only the pods and what they may fail of get their defaults."""

    def job_spec(value: Obj) -> Obj:
        value = within(value, "podFailurePolicy", _failure_policy)
        return within(present(value, {"template": {}}), "template", templates)

    def job_template(value: Obj) -> Obj:
        value = present(value, {"metadata": {}, "spec": {}})
        value = within(value, "metadata", lambda meta: present(meta, {"creationTimestamp": None}))
        return within(value, "spec", job_spec)

    def spec(value: Obj) -> Obj:
        value = fill(
            value,
            {
                "concurrencyPolicy": "Allow",
                "suspend": False,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
            },
        )
        return within(present(value, {"schedule": "", "jobTemplate": {}}), "jobTemplate", job_template)

    return lambda obj: within(present(obj, {"spec": {}, "status": {}}), "spec", spec)


# autoscaling/v2/defaults.go: scaleUpLimit...; the window for scaling down is the controller's option.
_FAST = [
    {"type": "Pods", "value": 4, "periodSeconds": 15},
    {"type": "Percent", "value": 100, "periodSeconds": 15},
]
_WHOLE = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
_UTILIZATION = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_STATUS: Mapping[str, Any] = {"desiredReplicas": 0, "currentMetrics": None}
_FIRST_STATUS: Mapping[str, Any] = {"currentReplicas": 0, "desiredReplicas": 0}


def autoscaler(obj: Obj) -> Obj:
    """Of the second version, in which all are stored; of the first, what does not depend on its annotations."""

    def up(rules: Obj) -> Obj:
        return fill(rules, {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": _FAST})

    def down(rules: Obj) -> Obj:
        return fill(rules, {"selectPolicy": "Max", "policies": _WHOLE})

    def behavior(value: Obj) -> Obj:
        return within(within(fill(value, {"scaleUp": {}, "scaleDown": {}}), "scaleUp", up), "scaleDown", down)

    def spec(value: Obj) -> Obj:
        value = fill(value, {"minReplicas": 1})
        if not value.get("metrics"):
            value = {**value, "metrics": [_UTILIZATION]}
        value = within(value, "metrics", lambda metrics: [_metric(metric) for metric in metrics])
        return within(value, "behavior", behavior)

    obj = present(obj, {"spec": {}, "status": {}})
    if is_first(obj):
        obj = within(obj, "spec", lambda value: fill(value, {"minReplicas": 1}))
        return within(obj, "status", lambda status: present(status, _FIRST_STATUS))
    obj = within(obj, "spec", spec)
    return within(obj, "status", lambda status: present(status, _STATUS))


def _metric(metric: Obj) -> Obj:
    """Quantities of targets in their canonical text."""
    kind = str(metric.get("type", ""))
    source = metric.get(kind[:1].lower() + kind[1:])
    if not isinstance(source, dict) or not isinstance(source.get("target"), dict):
        return metric
    target = source["target"]
    given = {name: target[name] for name in ("value", "averageValue") if target.get(name) is not None}
    canonical = amounts(given)
    if canonical is given:
        return metric
    return {**metric, kind[:1].lower() + kind[1:]: {**source, "target": {**target, **canonical}}}


def quota(obj: Obj) -> Obj:
    obj = within(present(obj, {"spec": {}, "status": {}}), "spec", lambda spec: within(spec, "hard", amounts))
    return within(obj, "status", lambda status: within(within(status, "hard", amounts), "used", amounts))


_LIMITS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def limit_range(obj: Obj) -> Obj:
    """What a container may have at most is its limit, and that its request, where neither is told."""

    def limit(item: Obj) -> Obj:
        for name in _LIMITS:
            item = within(item, name, amounts)
        if item.get("type") != "Container":
            return item
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        wanted = {name: value for name, value in (("default", default), ("defaultRequest", request)) if value}
        return item if all(item.get(name) == value for name, value in wanted.items()) else {**item, **wanted}

    def spec(value: Obj) -> Obj:
        return all_of(present(value, {"limits": None}), "limits", limit)

    return within(present(obj, {"spec": {}}), "spec", spec)
