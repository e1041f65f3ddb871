"""Proposal of one metric of an autoscaler.

Turns a metric of the spec, the values of a metrics source and the target's pods into a number of
replicas with its entry in the status (`Found`), or into a reason for having no proposal (`Failed`).

Mirrors  kubernetes v1.25 pkg/controller/podautoscaler/horizontal.go (computeReplicasForMetric and
         its parts).
Quirk    upstream stores autoscalers in version v1, in which an object or external metric always has
         a value: it is 0 beside an average value.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.controllers.horizontalpodautoscaler import decide
from actors.controllers.shared.metrics_api import Metric, Metrics, none_returned
from sim.api.selectors import from_selector
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.units import format_quantity_milli, quantity_milli


@dataclass(frozen=True, slots=True)
class Target:
    """The autoscaler's target during one sync.

    pods: pods that match the selector of its scale
    current: replicas in the spec of its scale
    observed: replicas in the status of its scale
    """

    namespace: str
    pods: Sequence[Obj]
    current: int
    observed: int
    wall_us: int


@dataclass(frozen=True, slots=True)
class Found:
    """The proposal of one metric.

    name: description of the metric in messages
    shown: entry of the status
    cause: trace record of the newest measurement, 0 if there is none
    """

    replicas: int
    name: str
    shown: Obj
    cause: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """A metric without a proposal.

    problem: text for the condition
    error: full error text with the attempted step
    """

    reason: str
    problem: str
    error: str


@dataclass(frozen=True, slots=True)
class _Result:
    """A proposal and the trace record of the newest measurement behind it."""

    proposal: decide.Proposal
    cause: int


def compute(source: Metrics, metric: Obj, target: Target, periods: decide.Periods) -> Found | Failed:
    """Compute the proposal of a metric."""
    kind = metric["type"]
    match kind:
        case "Resource":
            return _resource(source, metric["resource"], target, periods)
        case "ContainerResource":
            return _resource(source, metric["containerResource"], target, periods)
        case "Pods":
            return _pods(source, metric["pods"], target, periods)
        case "Object":
            return _object(source, metric["object"], target, periods)
        case "External":
            return _external(source, metric["external"], target, periods)
    problem = f'unknown metric source type "{kind}"'
    return Failed("InvalidMetricSourceType", problem, problem)


# --- metrics of pods ------------------------------------------------------------------------------


def _resource(source: Metrics, spec: Obj, target: Target, periods: decide.Periods) -> Found | Failed:
    name, container = spec["name"], spec.get("container", "")
    result = _of_resource(source, spec, target, periods)
    if isinstance(result, str):
        problem = f"failed to get {name} utilization: {result}"
        what, reason = f"{name} resource", "FailedGetResourceMetric"
        if container:
            what, reason = f"{container} container", "FailedGetContainerResourceMetric"
        return Failed(reason, problem, f"failed to get {what} metric value: {problem}")
    current: Obj = {"averageValue": format_quantity_milli(result.proposal.milli)}
    title = f"{name} resource"
    if result.proposal.percent is not None:
        current["averageUtilization"] = result.proposal.percent
        # Only this description distinguishes the two kinds of metric.
        title = f"{name} {'container ' if container else ''}resource utilization (percentage of request)"
    shown: Obj = {"type": "Resource", "resource": {"name": name, "current": current}}
    if container:
        parts = {"name": name, "container": container, "current": current}
        shown = {"type": "ContainerResource", "containerResource": parts}
    return Found(result.proposal.replicas, title, shown, result.cause)


def _of_resource(source: Metrics, spec: Obj, target: Target, periods: decide.Periods) -> _Result | str:
    name, container, wanted = spec["name"], spec.get("container", ""), spec["target"]
    samples = source.resource(target.pods, name, container, target.wall_us)
    prefix = f"unable to get metrics for resource {name}: "
    if isinstance(samples, str):
        return prefix + samples
    if not samples:
        return prefix + none_returned("resource")
    if not target.pods:
        return decide.NO_PODS
    cause = max(sample.cause for sample in samples.values())
    groups = decide.group_pods(target.pods, samples, name, periods, target.wall_us)
    if wanted.get("averageValue") is not None:
        mean = quantity_milli(wanted["averageValue"])
        proposal = decide.by_average(groups, mean, target.current, periods.tolerance)
    else:
        requests = decide.requests_of(target.pods, name, container)
        if isinstance(requests, str):
            return requests
        share = wanted["averageUtilization"]
        proposal = decide.by_utilization(requests, groups, share, target.current, periods.tolerance)
    return proposal if isinstance(proposal, str) else _Result(proposal, cause)


def _pods(source: Metrics, spec: Obj, target: Target, periods: decide.Periods) -> Found | Failed:
    named = spec["metric"]
    name = named["name"]

    def failed(problem: str) -> Failed:
        return Failed("FailedGetPodsMetric", problem, f"failed to get pods metric value: {problem}")

    samples = source.of_pods(target.pods, _metric(named, target), target.wall_us)
    if not samples:
        samples = none_returned("custom")
    if isinstance(samples, str):
        return failed(f"unable to get metric {name}: {samples}")
    if not target.pods:
        return failed(decide.NO_PODS)
    groups = decide.group_pods(target.pods, samples, "", periods, target.wall_us)
    mean = quantity_milli(spec["target"]["averageValue"])
    proposal = decide.by_average(groups, mean, target.current, periods.tolerance)
    if isinstance(proposal, str):
        return failed(proposal)
    current = {"averageValue": format_quantity_milli(proposal.milli)}
    shown = {"type": "Pods", "pods": {"metric": named, "current": current}}
    cause = max(sample.cause for sample in samples.values())
    return Found(proposal.replicas, f"pods metric {name}", shown, cause)


# --- metrics of other objects ---------------------------------------------------------------------


def _object(source: Metrics, spec: Obj, target: Target, periods: decide.Periods) -> Found | Failed:
    named, about, wanted = spec["metric"], spec["describedObject"], spec["target"]
    name, of_each = named["name"], wanted["type"] == "AverageValue"

    def failed(problem: str) -> Failed:
        what = f"failed to get {name} object metric: " if of_each else ""
        error = f"failed to get object metric value: {what}{problem}"
        return Failed("FailedGetObjectMetric", problem, error)

    if wanted["type"] == "Utilization":
        return failed(
            "invalid object metric source: neither a value target nor an average value target was set"
        )
    value = source.of_object(about, _metric(named, target))
    if isinstance(value, str):
        # Quirk: upstream passes the parts of this text in the wrong order.
        return failed(
            f"unable to get metric {name}: {about['kind']} on {target.namespace} {about['name']}/{value}"
        )
    measured = _measured(value.milli, wanted, of_each, target, periods)
    if isinstance(measured, str):
        return failed(measured)
    replicas, current = measured
    title = f"{about['kind']} metric {name}"
    if of_each:
        # Quirk: described as an external metric, and without an object in the status.
        title, about = _external_name(named), {"kind": "", "name": ""}
    shown = {"describedObject": about, "metric": named, "current": current}
    return Found(replicas, title, {"type": "Object", "object": shown}, value.cause)


def _external(source: Metrics, spec: Obj, target: Target, periods: decide.Periods) -> Found | Failed:
    named, wanted = spec["metric"], spec["target"]
    name, of_each = named["name"], wanted.get("averageValue") is not None

    def failed(problem: str) -> Failed:
        which = f"{name} external metric" if of_each else f"external metric {name}"
        error = f"failed to get {name} external metric value: failed to get {which}: {problem}"
        return Failed("FailedGetExternalMetric", problem, error)

    value = source.external(_metric(named, target))
    if isinstance(value, str):
        which = f"{target.namespace}/{name}/{decide.selector_text(named.get('selector'))}"
        return failed(f"unable to get external metric {which}: {value}")
    measured = _measured(value.milli, wanted, of_each, target, periods)
    if isinstance(measured, str):
        return failed(measured)
    replicas, current = measured
    shown = {"type": "External", "external": {"metric": named, "current": current}}
    return Found(replicas, _external_name(named), shown, value.cause)


def _metric(named: Obj, target: Target) -> Metric:
    # Quirk: a missing selector would select nothing, but upstream sends it as no selector at all.
    return Metric(target.namespace, named["name"], from_selector(named.get("selector") or {}))


def _external_name(named: Obj) -> str:
    return f"external metric {named['name']}({decide.selector_text(named.get('selector'))})"


def _measured(
    milli: int, wanted: Obj, of_each: bool, target: Target, periods: decide.Periods
) -> tuple[int, Obj] | str:
    """(proposed replicas, entry of the status) for a measured value, or an error text.

    of_each: True for a target per replica (AverageValue), False for a target of the whole value
    """
    if of_each:
        each = quantity_milli(wanted["averageValue"])
        share = decide.by_share(milli, each, target.observed, periods.tolerance)
        return share.replicas, {"averageValue": format_quantity_milli(share.milli), "value": "0"}
    limit = quantity_milli(wanted["value"])
    whole = decide.by_value(milli, limit, target.pods, target.current, periods.tolerance)
    return whole if isinstance(whole, str) else (whole.replicas, {"value": format_quantity_milli(milli)})
