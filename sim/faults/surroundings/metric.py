"""metric: autoscaling measures other values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Ends, Fault, Stage, Undo
from sim.faults.shared.parameters import Amount, Strict


class Metric(Strict):
    """The parameters of `metric`.  One of value and load is given."""

    name: Annotated[str, Meta(description="Name of the metric.")]
    value: Annotated[Amount | UnsetType, Meta(description="The measured value.")] = UNSET
    load: Annotated[Amount | UnsetType, Meta(description="Of pods: the value that all ready pods share.")] = (
        UNSET
    )
    of: Annotated[
        str | UnsetType,
        Meta(description="`pods`, or an object as `services/web`; default: something outside the cluster."),
    ] = UNSET
    namespace: Annotated[str, Meta(description="Of the pods, the object, or the autoscaler.")] = "default"
    selector: Annotated[str, Meta(description="Of pods: their labels.")] = ""
    labels: Annotated[
        dict[str, str],
        Meta(description="Labels of the series, by which an autoscaler may choose among those of a name."),
    ] = msgspec.field(default_factory=dict)


def group_kind(group: str, kind: str) -> str:
    """Kind and group in one: "Deployment.apps", "Service"."""
    return f"{kind}.{group}" if group else kind


@dataclass(frozen=True, slots=True)
class TellMetric(Action):
    """State a series of a metric from now on.

    kind: of the measured object, "Deployment.apps"; "Pod" for the pods that match `selector`; ""
        for something outside the cluster
    load: True if the ready pods share the value
    """

    name: str
    value_milli: int
    namespace: str
    labels: Mapping[str, str]
    kind: str = ""
    about: str = ""
    selector: Mapping[str, str] | None = None
    load: bool = False

    def begin(self, stage: Stage, step: str) -> Undo:
        """State the series; the result removes it."""
        metrics, kernel = stage.cluster.stated_metrics, stage.cluster.kernel
        metrics.set(step, self, kernel.cause)
        return lambda: metrics.remove(step, kernel.cause)


def _check(context: Context, given: Metric) -> TellMetric:
    keys = [key for key in ("value", "load") if getattr(given, key) is not UNSET]
    if len(keys) != 1:
        raise context.error("", "a metric has one of 'value' and 'load'", "give how much is measured")
    if not given.name:
        raise context.error("name", "a metric has a name")
    if not context.known.metrics:
        raise context.error("", "nothing reads metrics in this cluster", "give cluster.metrics: true")
    key = keys[0]
    of, _, about = ("", "", "") if given.of is UNSET else given.of.partition("/")
    resource = context.resource(of, "of") if of else None
    pods = resource is not None and resource.rule == "pods" and not about
    if given.of is not UNSET and not pods and not (of and about):
        raise context.error(
            "of", f"{given.of!r} names no object", "write pods, or one object as services/web"
        )
    for only, present in (("load", key == "load"), ("selector", bool(given.selector))):
        if present and not pods:
            raise context.error(only, f"{only!r} is of pods", "give of: pods")
    return TellMetric(
        name=given.name,
        value_milli=context.milli(getattr(given, key), key),
        namespace=given.namespace,
        labels=given.labels,
        kind=group_kind(resource.group, resource.kind) if resource else "",
        about=about,
        selector=context.labels(given.selector) if pods else None,
        load=key == "load",
    )


FAULT = Fault(
    name="metric",
    parameters=Metric,
    check=_check,
    ends=Ends.LATER,
    documentation="""
Autoscaling measures this value from now on: of something outside the cluster, of an object, or of pods (the value of each,
or a load that the ready pods share). Of one series the newest active step counts. Needs `cluster.metrics`.""",
    example="""
- {at: 2m, metric: {name: queue-length, labels: {queue: mail}, value: 300}, for: 5m}
- {at: 2m, metric: {name: requests, of: services/web, value: 40}}
- {at: 2m, metric: {name: requests, of: pods, namespace: default, selector: app=web, load: 300}}""",
    words={("load", True): "shared", ("load", False): ""},
)
