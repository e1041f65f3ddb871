"""HorizontalPodAutoscalers.

Mirrors  kubernetes v1.25 pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go,
         pkg/apis/autoscaling/{v1,v2}/defaults.go, pkg/printers/internalversion/printers.go
         (formatHPAMetrics).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from sim.api.kinds.autoscaling.horizontal_pod_autoscaler.forms import (
    from_beta,
    is_first,
    read_into,
    settled,
    to_beta,
    to_first,
    to_second,
)
from sim.api.kinds.autoscaling.horizontal_pod_autoscaler.validation import (
    create_autoscaler,
    status_autoscaler,
    update_autoscaler,
)
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import amounts, fill, present, within
from sim.api.objects import get_in, name_of, replace_in
from sim.api.schema.kind import STATUS, Cells, Create, Form, Kind, Lifecycle, Row, Strategy, Update
from sim.api.types import Obj
from sim.ident import Names
from sim.options.features.gates import CONTAINER_METRICS, SCALE_TO_ZERO

# --- defaults -------------------------------------------------------------------------------------

# autoscaling/v2/defaults.go: scaleUpLimit...; the window for scaling down is an option of the
# controller.
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


def _fill_defaults(obj: Obj) -> Obj:
    """Defaults of the second version, which is stored; of the first, those that do not depend on
    its annotations.
    """

    def up(rules: Obj) -> Obj:
        return present(rules, {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": _FAST})

    def down(rules: Obj) -> Obj:
        return present(rules, {"selectPolicy": "Max", "policies": _WHOLE})

    def behavior(value: Obj) -> Obj:
        return within(within(fill(value, {"scaleUp": {}, "scaleDown": {}}), "scaleUp", up), "scaleDown", down)

    def spec(value: Obj) -> Obj:
        value = fill(value, {"minReplicas": 1})
        if not value.get("metrics"):
            value = {**value, "metrics": [_UTILIZATION]}
        value = within(value, "metrics", lambda metrics: [_fill_metric(metric) for metric in metrics])
        return within(value, "behavior", behavior)

    obj = present(obj, {"spec": {}, "status": {}})
    if is_first(obj):
        obj = within(obj, "spec", lambda value: fill(value, {"minReplicas": 1}))
        return within(obj, "status", lambda status: present(status, _FIRST_STATUS))
    obj = within(obj, "spec", spec)
    return within(obj, "status", lambda status: present(status, _STATUS))


def _fill_metric(metric: Obj) -> Obj:
    """The metric with the quantities of its target in their canonical text."""
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


# --- strategy -------------------------------------------------------------------------------------

_METRICS = ("spec", "metrics")


def _without_container_metrics(new: Obj, old: Obj) -> Obj:
    metrics = get_in(new, _METRICS) or ()
    if not any("containerResource" in metric for metric in metrics):
        return new
    if any(metric.get("containerResource") is not None for metric in get_in(old, _METRICS) or ()):
        return new
    kept = [{k: v for k, v in metric.items() if k != "containerResource"} for metric in metrics]
    return replace_in(new, _METRICS, kept)


# --- table ----------------------------------------------------------------------------------------

METRICS_SHOWN = 2  # formatHPAMetrics


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
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


def _drop_disabled(new: Obj, old: Obj, names: Names, gates: Collection[str]) -> Obj:
    """Drop container metrics while their gate is off, also where the first version has them in
    annotations.
    """
    if CONTAINER_METRICS in gates:
        return new
    if not is_first(new):
        return _without_container_metrics(new, old)
    read = to_second(new, names)
    kept = _without_container_metrics(read, to_second(old, names) if is_first(old) else old)
    return new if kept is read else to_first(kept, names)


def _gated_rules(gates: Collection[str]) -> tuple[Create, Mapping[str, Update]]:
    fewest = 0 if SCALE_TO_ZERO in gates else 1
    return partial(create_autoscaler, fewest=fewest), {
        "": partial(update_autoscaler, fewest=fewest),
        "status": status_autoscaler,
    }


def _first_form(_api_version: str, names: Names) -> Form:
    return Form(lambda obj: to_second(obj, names), lambda obj: to_first(obj, names))


def _beta_form(api_version: str, _names: Names) -> Form:
    return Form(from_beta, lambda obj: to_beta(obj, api_version))


_V2 = Row(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    short=("hpa",),
    categories=("all",),
    subs=(STATUS,),
    stored_version="v1",
)
KIND = Kind(
    rows=(
        _V2,
        _V2._replace(version="v1", stored_version="", form=_first_form),
        _V2._replace(version="v2beta2", lifecycle=Lifecycle(23, 26, "v2"), form=_beta_form),
    ),
    strategy=Strategy(
        status=True,
        zero_status={"desiredReplicas": 0, "currentMetrics": None},
        read_into=read_into,
    ),
    defaults=_fill_defaults,
    validate_create=create_autoscaler,
    validate_update={"": update_autoscaler, "status": status_autoscaler},
    gated_rules=_gated_rules,
    drop_disabled=_drop_disabled,
    settle=settled,
    columns=(
        NAME,
        "Reference=spec.scaleTargetRef",
        "Targets=spec.metrics",
        "MinPods=spec.minReplicas",
        "MaxPods=spec.maxReplicas",
        "Replicas=status.currentReplicas",
        AGE,
    ),
    described_by=("autoscaling", "v2"),
    cells=_cells,
    owned_across_versions=True,
)
