"""The two forms of a HorizontalPodAutoscaler: autoscaling/v2, in which all are stored, and v1,
which knows cpu only.

Turns objects of one form into the other.  What v1 has no field for (other metrics, behavior,
conditions) is kept in annotations, as JSON text.

Holds: a conversion to the other form and back loses nothing.  An annotation that cannot be read, or
that holds a value of a wrong type, is ignored, so the converted object always fits the schema.

Mirrors  kubernetes v1.25 pkg/apis/autoscaling/v1/conversion.go, pkg/apis/autoscaling/helpers.go.
Differs  the second version is stored (upstream: the first), which no client can see.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sim.api.schema.field_schemas import schema_of_kind
from sim.api.schema.field_validation import DecodeError, conform
from sim.api.schema.json_text import parse
from sim.api.types import Obj
from sim.ident import Names

FIRST, SECOND = "autoscaling/v1", "autoscaling/v2"
CPU_DEFAULT = 80  # autoscaling.DefaultCPUUtilization
_METRICS, _BEHAVIOR, _CURRENT, _CONDITIONS = "metrics", "behavior", "current-metrics", "conditions"
# annotation -> its field in an object of the second version
_PARTS = {
    _METRICS: ("spec", "metrics"),
    _BEHAVIOR: ("spec", "behavior"),
    _CURRENT: ("status", "currentMetrics"),
    _CONDITIONS: ("status", "conditions"),
}
_KIND = "HorizontalPodAutoscaler"
# name in v2, name in upstream's internal type, which the annotation has
_RULE = (("stabilizationWindowSeconds", "StabilizationWindowSeconds"), ("selectPolicy", "SelectPolicy"))
_POLICY = (("type", "Type"), ("value", "Value"), ("periodSeconds", "PeriodSeconds"))
_CONDITION = ("type", "status", "lastTransitionTime", "reason", "message")


def is_first(obj: Obj) -> bool:
    """True if the object is written in autoscaling/v1."""
    return bool(obj.get("apiVersion") == FIRST)


def is_cpu_share(metric: Obj) -> bool:
    """True if v1 has a field for the metric."""
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return (
        metric.get("type") == "Resource"
        and resource.get("name") == "cpu"
        and target.get("averageUtilization") is not None
    )


def read_into(new: Obj, old: Obj) -> Obj:
    """The updated object as a dry run reads it into the stored one.

    Quirk: metrics of annotations are put before the first metric that is there, which is that of
    the share of cpu, or else the stored object's.
    """
    spec, before = new.get("spec") or {}, (old.get("spec") or {}).get("metrics")
    metrics = spec.get("metrics") or []
    if not before or any(map(is_cpu_share, metrics)):
        return new
    return {**new, "spec": {**spec, "metrics": [*metrics, before[0]]}}


def _cpu_share(percent: int) -> Obj:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _kept(**fields: Any) -> Obj:
    """The fields that have a value, in this order."""
    return {name: value for name, value in fields.items() if value is not None}


# --- metrics --------------------------------------------------------------------------------------


# In the order of upstream's type.
_SOURCES = ("object", "pods", "resource", "containerResource", "external")
Turn = Callable[[str, Obj], Obj]


def _metric(metric: Obj, turn: Turn) -> Obj:
    """A metric with each of its sources turned into another form."""
    made = {field: turn(field, metric[field]) for field in _SOURCES if metric.get(field) is not None}
    return {"type": metric.get("type", ""), **made}


def _described(source: Obj) -> Obj:
    """The object that a metric describes, members in the order of upstream's type."""
    about = source.get("describedObject") or {}
    return _kept(kind=about.get("kind"), name=about.get("name"), apiVersion=about.get("apiVersion"))


def _first_target(field: str, source: Obj) -> Obj:
    """A metric as v1 writes it, members in the order of upstream's type."""
    target, named = source.get("target") or {}, source.get("metric") or {}
    value, average = target.get("value"), target.get("averageValue")
    if field == "object":
        made = _kept(
            target=_described(source),
            metricName=named.get("name"), targetValue=value or "0", selector=named.get("selector"), averageValue=average,
        )  # fmt: skip
    elif field == "pods":
        made = _kept(
            metricName=named.get("name"), targetAverageValue=average or "0", selector=named.get("selector")
        )
    elif field == "external":
        made = _kept(
            metricName=named.get("name"), metricSelector=named.get("selector"), targetValue=value, targetAverageValue=average
        )  # fmt: skip
    else:
        share = target.get("averageUtilization")
        made = _kept(name=source.get("name"), targetAverageUtilization=share, targetAverageValue=average)
        made |= _kept(container=source.get("container"))
    return made


def _second_target(field: str, source: Obj) -> Obj:
    named = _kept(
        name=source.get("metricName", ""), selector=source.get("selector", source.get("metricSelector"))
    )
    value = source.get("targetValue")
    average = source.get("averageValue") if field == "object" else source.get("targetAverageValue")
    share = source.get("targetAverageUtilization")
    if field == "external":
        kind = "AverageValue" if value is None else "Value"
    elif field == "object":
        kind = "Value" if average is None else "AverageValue"
    else:
        kind = "AverageValue" if share is None else "Utilization"
    target = _kept(type=kind, value=value, averageValue=average, averageUtilization=share)
    if field == "object":
        made: Obj = {"describedObject": source.get("target") or {}, "metric": named, "target": target}
    elif field in ("pods", "external"):
        made = {"metric": named, "target": target}
    else:
        made = _kept(name=source.get("name"), container=source.get("container")) | {"target": target}
    return made


def _first_value(field: str, source: Obj) -> Obj:
    """A measured value as v1 writes it, members in the order of upstream's type."""
    current, named = source.get("current") or {}, source.get("metric") or {}
    value, average = current.get("value"), current.get("averageValue")
    name, selector = named.get("name"), named.get("selector")
    if field == "object":
        made = _kept(
            target=_described(source),
            metricName=name,
            currentValue=value or "0",
            selector=selector,
            averageValue=average,
        )
    elif field == "pods":
        made = _kept(metricName=name, currentAverageValue=average or "0", selector=selector)
    elif field == "external":
        made = _kept(
            metricName=name, metricSelector=selector, currentValue=value or "0", currentAverageValue=average
        )
    else:
        share = current.get("averageUtilization")
        made = _kept(
            name=source.get("name"), currentAverageUtilization=share, currentAverageValue=average or "0"
        )
        made |= _kept(container=source.get("container"))
    return made


def _second_value(field: str, source: Obj) -> Obj:
    named = _kept(
        name=source.get("metricName", ""), selector=source.get("selector", source.get("metricSelector"))
    )
    average = source.get("averageValue") if field == "object" else source.get("currentAverageValue")
    current = _kept(
        value=source.get("currentValue"),
        averageValue=average,
        averageUtilization=source.get("currentAverageUtilization"),
    )
    if field == "object":
        made: Obj = {"describedObject": source.get("target") or {}, "metric": named, "current": current}
    elif field in ("pods", "external"):
        made = {"metric": named, "current": current}
    else:
        made = _kept(name=source.get("name"), container=source.get("container")) | {"current": current}
    return made


# --- behavior -------------------------------------------------------------------------------------


def _first_rules(rules: Obj | None) -> Obj | None:
    if rules is None:
        return None
    policies = [
        {inner: policy.get(name) for name, inner in _POLICY} for policy in rules.get("policies") or ()
    ]
    return {inner: rules.get(name) for name, inner in _RULE} | {"Policies": policies or None}


def _second_rules(rules: Obj | None) -> Obj | None:
    if rules is None:
        return None
    made = {name: rules[inner] for name, inner in _RULE if rules.get(inner) is not None}
    policies = [
        {name: policy.get(inner) for name, inner in _POLICY} for policy in rules.get("Policies") or ()
    ]
    return made | ({"policies": policies} if policies else {})


def _first_behavior(behavior: Obj) -> Obj:
    return {
        "ScaleUp": _first_rules(behavior.get("scaleUp")),
        "ScaleDown": _first_rules(behavior.get("scaleDown")),
    }


def _second_behavior(behavior: Obj) -> Obj:
    return _kept(
        scaleUp=_second_rules(behavior.get("ScaleUp")), scaleDown=_second_rules(behavior.get("ScaleDown"))
    )


# --- objects --------------------------------------------------------------------------------------


def to_first(obj: Obj, names: Names) -> Obj:
    """A stored object in autoscaling/v1."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    metrics, current = spec.get("metrics") or (), status.get("currentMetrics") or ()
    parts: tuple[tuple[str, Sequence[Obj], Callable[[Obj], Obj]], ...] = (
        (
            _METRICS,
            [metric for metric in metrics if not is_cpu_share(metric)],
            partial(_metric, turn=_first_target),
        ),
        (_CURRENT, current, partial(_metric, turn=_first_value)),
        (_CONDITIONS, status.get("conditions") or (), lambda c: {k: c[k] for k in _CONDITION if k in c}),
    )
    texts = {part: _dump([turn(item) for item in items]) for part, items, turn in parts if items}
    if spec.get("behavior") is not None:
        texts[_BEHAVIOR] = _dump(_first_behavior(spec["behavior"]))
    meta = obj["metadata"]
    if texts:
        added = {names.annotation_autoscaling_prefix + part: text for part, text in texts.items()}
        meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **added}}
    share = next((m["resource"]["target"]["averageUtilization"] for m in metrics if is_cpu_share(m)), None)
    used = [
        m["resource"].get("current") or {} for m in current if (m.get("resource") or {}).get("name") == "cpu"
    ]
    kept = {k: v for k, v in spec.items() if k not in ("metrics", "behavior")}
    shown = {k: v for k, v in status.items() if k not in ("currentMetrics", "conditions")}
    shown = {"currentReplicas": 0, "desiredReplicas": 0, **shown}
    return {
        **obj,
        "apiVersion": FIRST,
        "metadata": meta,
        "spec": kept | _kept(targetCPUUtilizationPercentage=share),
        "status": shown
        | _kept(currentCPUUtilizationPercentage=used[0].get("averageUtilization") if used else None),
    }


def to_second(obj: Obj, names: Names | None = None) -> Obj:
    """An autoscaling/v1 object in its stored form.

    names: the naming set of the annotations; None for any
    """
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    given = meta.get("annotations") or {}
    prefix = "autoscaling.alpha." if names is None else names.annotation_autoscaling_prefix
    ours = [k for k in given if k.startswith(prefix) and k.rpartition("/")[2] in _PARTS]
    texts = {key.rpartition("/")[2]: given[key] for key in ours}
    share = spec.get("targetCPUUtilizationPercentage")
    metrics = _read(texts, _METRICS, partial(_metric, turn=_second_target)) or []
    metrics += [_cpu_share(share)] if share is not None else []
    behavior = _read(texts, _BEHAVIOR, _second_behavior)
    made = {k: v for k, v in spec.items() if k != "targetCPUUtilizationPercentage"}
    made["metrics"] = metrics or [_cpu_share(CPU_DEFAULT)]
    made |= _kept(behavior=behavior)
    shown = {k: v for k, v in status.items() if k != "currentCPUUtilizationPercentage"}
    if not shown.get("currentReplicas"):
        shown.pop("currentReplicas", None)
    current = _read(texts, _CURRENT, partial(_metric, turn=_second_value))
    used = status.get("currentCPUUtilizationPercentage")
    if current is None and used is not None:  # an annotation has more
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}}]
    shown = {"desiredReplicas": 0, **shown, "currentMetrics": current}
    shown |= _kept(conditions=_read(texts, _CONDITIONS, dict))
    if texts:
        kept = {k: v for k, v in given.items() if k not in ours}
        meta = {k: v for k, v in meta.items() if k != "annotations"} | ({"annotations": kept} if kept else {})
    return {**obj, "apiVersion": SECOND, "metadata": meta, "spec": made, "status": shown}


def settled(obj: Obj, names: Names) -> Obj:
    """An object as upstream's storage gives it back, which is a conversion to v1 and back.

    Quirk: a cpu utilization becomes the last metric, and values that v1 always writes appear.
    """
    if is_first(obj):
        return to_first(to_second(obj, names), names)
    given = obj["metadata"].get("annotations") or {}
    ours = [key for key in given if key in {names.annotation_autoscaling_prefix + part for part in _PARTS}]
    if ours:  # the newer versions never show them
        kept = {key: value for key, value in given.items() if key not in ours}
        obj = {**obj, "metadata": {**obj["metadata"], "annotations": kept}}
    made = to_second(to_first(obj, names), names)
    if obj["apiVersion"].endswith("/v2beta2"):
        return to_beta(made, obj["apiVersion"])
    return made


def to_beta(obj: Obj, api_version: str) -> Obj:
    """A stored object in autoscaling/v2beta2, which always writes its conditions and replicas."""
    status = {"currentReplicas": 0, "conditions": None, **(obj.get("status") or {})}
    return {**obj, "apiVersion": api_version, "status": status}


def from_beta(obj: Obj) -> Obj:
    """An object of autoscaling/v2beta2 in its stored form."""
    status = obj.get("status") or {}
    shown = {key: value for key, value in status.items() if key not in _BETA_ZEROS or value}
    return {**obj, "apiVersion": SECOND, "status": shown}


_BETA_ZEROS = ("currentReplicas", "conditions")


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _read(texts: dict[str, str], part: str, turn: Callable[[Any], Any]) -> Any:
    """The value of an annotation; None if it is missing or cannot be read."""
    try:
        found = parse(texts.get(part, "null"))
        made = [turn(item) for item in found] if isinstance(found, list) else found and turn(found)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    section, field = _PARTS[part]
    node = schema_of_kind("autoscaling", "v2", _KIND)
    fitting, _ = conform(node, {section: {field: made}}, _KIND)
    return None if isinstance(fitting, DecodeError) else (fitting.get(section) or {}).get(field)
