"""What is measured in a cluster: what containers use, and whatever a scenario tells of pods, objects and the world outside.

Turns the behaviours that scenarios give to containers (`cpu` of each, `load` of all together, `memory`) into samples of
pods, and what its steps tell (`ToldMetrics`) into values of metrics, for autoscaling.

Holds: a `load` is shared evenly by the pods of the question that are ready to take it, so that more of them use less each;
no container uses more cpu than its limit.  Of what is told of one series the newest step that lasts counts.

Mirrors  kubernetes-sigs/metrics-server v0.6 as autoscaling sees it: samples of pods whose node answers, over a window;
         kubernetes-sigs/custom-metrics-apiserver pkg/provider/errors.go (a metric of an object that nobody knows).
Differs  a sample is of the moment at which it is asked for, not of the last scrape (15 s apart there).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from actors.controllers.shared.metrics_api import Metric, Sample, Value, none_returned, not_fetched
from actors.node.node import Node
from actors.node.pressure.forecast import memory_of
from actors.node.runtime.machine import Container
from sim.api.objects import is_ready
from sim.api.schema.scheme import Scheme
from sim.api.types import Obj
from sim.kernel import Kernel
from sim.scenario.plan.plan import TellMetric, group_kind
from sim.units import SECOND, quantity_milli

WINDOW_US = 15 * SECOND  # metrics-server: --metric-resolution


@dataclass(frozen=True, slots=True)
class _Told:
    series: TellMetric
    cause: int

    @property
    def key(self) -> tuple[object, ...]:
        """What tells one series from another."""
        one = self.series
        chosen = None if one.selector is None else tuple(sorted(one.selector.items()))
        return one.name, one.namespace, one.kind, one.about, tuple(sorted(one.labels.items())), chosen


class ToldMetrics:
    """What steps tell of metrics: by step, in the order in which they began."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def tell(self, step: str, series: TellMetric, cause: int) -> None:
        self._told[step] = _Told(series, cause)

    def forget(self, step: str, cause: int) -> None:
        """The step is over: what was told of its series before counts again, by this."""
        ended = self._told.pop(step)
        for name, told in self._told.items():
            if told.key == ended.key:
                self._told[name] = replace(told, cause=cause)

    def of(self, metric: Metric, kind: str, about: str = "") -> Iterator[_Told]:
        """What is told of a metric of this kind of thing, the newest of each series."""
        newest = {told.key: told for told in self._told.values()}
        for told in newest.values():
            one = told.series
            same = (one.name, one.namespace, one.kind) == (metric.name, metric.namespace, kind)
            if same and one.about == about and metric.series.matches(one.labels):
                yield told


class MetricsServer:
    """The APIs of metrics in one: of resources, as machines know it, of pods and objects, and from outside."""

    def __init__(self, kernel: Kernel, nodes: Mapping[str, Node], told: ToldMetrics, scheme: Scheme) -> None:
        self._kernel = kernel
        self._nodes = nodes
        self._told = told
        self._scheme = scheme

    def resource(
        self, pods: Sequence[Obj], name: str, container: str, wall_us: int
    ) -> Mapping[str, Sample] | str:
        ready = sum(is_ready(pod) for pod in pods)
        samples: dict[str, Sample] = {}
        for pod in pods:
            containers = self._running(pod)
            if container and containers:
                containers = [one for one in containers if one.name == container]
                if not containers:
                    place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                    what = f"container {container} not present in metrics for pod {place}"
                    return f"failed to get container metrics: {what}"
            if containers:
                sharing = ready if is_ready(pod) else 0
                milli = sum(self._used(pod, one, name, sharing) for one in containers)
                cause = self._nodes[pod["spec"]["nodeName"]].machine.usage_fault
                samples[pod["metadata"]["name"]] = Sample(milli, wall_us, WINDOW_US, cause)
        return samples

    def of_pods(self, pods: Sequence[Obj], metric: Metric, wall_us: int) -> Mapping[str, Sample] | str:
        """Of pods that run; a load falls on those that are ready, and nothing of it on the others."""
        ready = sum(is_ready(pod) for pod in pods)
        running = [pod for pod in pods if self._running(pod)]
        samples: dict[str, Sample] = {}
        for told in self._told.of(metric, "Pod"):
            one = told.series
            for pod in running:
                labels = pod["metadata"].get("labels") or {}
                if not (one.selector or {}).items() <= labels.items():
                    continue
                milli = one.value_milli
                if one.load:
                    milli = milli // ready if is_ready(pod) else 0
                name = pod["metadata"]["name"]
                before = samples.get(name, Sample(0, wall_us, WINDOW_US))
                cause = max(told.cause, before.cause)
                samples[name] = Sample(before.milli + milli, wall_us, WINDOW_US, cause)
        return samples

    def of_object(self, about: Obj, metric: Metric) -> Value | str:
        group, name = about.get("apiVersion", "").rpartition("/")[0], about["name"]
        if (group, about["kind"]) == ("", "Namespace"):
            name = metric.namespace  # client.go: nobody asks for another than his own, whatever its name here
        found = _sum(self._told.of(metric, group_kind(group, about["kind"]), name))
        if found is not None:
            return found
        resource = self._scheme.by_kind(about.get("apiVersion", ""), about["kind"])
        what = resource.group_resource if resource else about["kind"]
        problem = f"the server could not find the metric {metric.name} for {what} {name}"
        return not_fetched("custom", problem)

    def external(self, metric: Metric) -> Value | str:
        return _sum(self._told.of(metric, "")) or none_returned("external")

    def _running(self, pod: Obj) -> list[Container]:
        """Its containers that have run for a whole window, if their node answers."""
        node = self._nodes.get(pod["spec"].get("nodeName", ""))
        if node is None or node.machine.agent is None:
            return []
        runtime, now_us = node.machine.pods.get(pod["metadata"]["uid"]), self._kernel.now_us
        if runtime is None:
            return []
        return [c for c in runtime.running(now_us) if c.started_us + WINDOW_US <= now_us]

    def _used(self, pod: Obj, container: Container, name: str, sharing: int) -> int:
        """In milli units; `sharing`: how many pods share a load, this one with them (0: it does not)."""
        if name == "memory":
            return memory_of(container, self._kernel.now_us) * 1000
        if name != "cpu":
            return 0
        behaviour = container.behaviour
        used = behaviour.cpu_milli + (behaviour.load_milli // sharing if sharing else 0)
        spec: Obj = next((c for c in pod["spec"]["containers"] if c["name"] == container.name), {})
        limit = ((spec.get("resources") or {}).get("limits") or {}).get("cpu")
        return used if limit is None else min(used, quantity_milli(limit))


def _sum(told: Iterator[_Told]) -> Value | None:
    """What all series come to; None if there is none."""
    series = list(told)
    if not series:
        return None
    return Value(sum(one.series.value_milli for one in series), max(one.cause for one in series))
