"""Rows of Jobs, CronJobs, HorizontalPodAutoscalers and ResourceQuotas.

Mirrors  kubernetes v1.25 pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.tables.pods import age
from sim.api.objects import get_in, name_of
from sim.api.selectors import format_selector
from sim.api.types import Obj
from sim.ident import Names
from sim.units import human_duration, parse_time

Cells = list[Any]
METRICS_SHOWN = 2  # formatHPAMetrics

_NAME, _AGE = "Name=metadata.name", "Age=metadata.creationTimestamp"
_WIDE = ("*Containers", "*Images")
COLUMNS: dict[tuple[str, str], tuple[str, ...]] = {
    ("batch", "Job"): (_NAME, "Completions=status.succeeded", "Duration", _AGE, *_WIDE, "*Selector=spec.selector"),
    ("batch", "CronJob"): (_NAME, "Schedule=spec.schedule", "Suspend:boolean=spec.suspend",
                           "Active:integer=status.active", "Last Schedule=status.lastScheduleTime", _AGE, *_WIDE,
                           "*Selector"),
    ("autoscaling", "HorizontalPodAutoscaler"): (_NAME, "Reference=spec.scaleTargetRef", "Targets=spec.metrics",
                                                 "MinPods=spec.minReplicas", "MaxPods=spec.maxReplicas",
                                                 "Replicas=status.currentReplicas", _AGE),
    ("", "ResourceQuota"): (_NAME, _AGE, "Request", "Limit"),
}  # fmt: skip


def _containers(spec: Obj) -> Cells:
    found = get_in(spec, ("template", "spec", "containers"), [])
    return [",".join(c["name"] for c in found), ",".join(c.get("image", "") for c in found)]


def job(obj: Obj, now_us: int, _: Names) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    parallelism, succeeded = spec.get("parallelism", 0), status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        completions = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    duration = ""
    if status.get("startTime"):
        end = status.get("completionTime")
        duration = human_duration((parse_time(end) if end else now_us) - parse_time(status["startTime"]))
    selector = format_selector(spec.get("selector"))
    return [name_of(obj), completions, duration, age(obj, now_us), *_containers(spec), selector]


def cron_job(obj: Obj, now_us: int, _: Names) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    suspend = spec.get("suspend")
    shown = "<unset>" if suspend is None else str(bool(suspend))
    last = status.get("lastScheduleTime")
    since = human_duration(now_us - parse_time(last)) if last else "<none>"
    head = [name_of(obj), spec.get("schedule", ""), shown, len(status.get("active") or ()), since]
    made = get_in(spec, ("jobTemplate", "spec"), {})
    return [*head, age(obj, now_us), *_containers(made), format_selector(made.get("selector"))]


def autoscaler(obj: Obj, now_us: int, _: Names) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    least = spec.get("minReplicas")
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(spec.get("metrics") or [], status.get("currentMetrics") or []),
        "<unset>" if least is None else str(least),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now_us),
    ]


def _targets(metrics: list[Obj], seen: list[Obj]) -> str:
    if not metrics:
        return "<none>"
    texts = [
        _target(metric, seen[i] if i < len(seen) else {}) for i, metric in enumerate(metrics[:METRICS_SHOWN])
    ]
    more = len(metrics) - METRICS_SHOWN
    return ", ".join(texts) + (f" + {more} more..." if more > 0 else "")


def _target(metric: Obj, seen: Obj) -> str:
    kind = str(metric.get("type", ""))
    source = kind[:1].lower() + kind[1:]
    target: Obj = get_in(metric, (source, "target"), {})
    current: Obj = get_in(seen, (source, "current"), {})
    if "resource" in source.lower() and target.get("averageValue") is None:
        now, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        left = "<unknown>" if now is None else f"{now}%"
        return f"{left}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if kind in ("Object", "External") and target.get("averageValue") is None:
        return f"{current.get('value') or '<unknown>'}/{target.get('value', '')}"
    tail = " (avg)" if kind in ("Object", "External") else ""
    return f"{current.get('averageValue') or '<unknown>'}/{target.get('averageValue', '')}{tail}"


def quota(obj: Obj, now_us: int, _: Names) -> Cells:
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        group = limits if name.startswith("limits.") else requests
        group.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [name_of(obj), age(obj, now_us), ", ".join(requests), ", ".join(limits)]
