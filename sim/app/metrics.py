"""The metrics of a cluster: what containers use, and the values that a scenario states.

Turns the behaviours that scenarios give to containers (`cpu` of each, `load` of all together,
`memory`) into samples of pods, and the values that steps state (`StatedMetrics`) into values of
metrics, for autoscaling.

Holds: the ready pods of a query share a `load` evenly, so that more pods use less each; no
    container uses more CPU than its limit. Of the values of one series that of the newest active
    step counts.

Mirrors  kubernetes-sigs/metrics-server v0.6 as autoscaling sees it: samples of pods on nodes that
         answer, over a window; kubernetes-sigs/custom-metrics-apiserver pkg/provider/errors.go (an
         unknown metric of an object).
Differs  a sample is of the instant of the query, not of the last scrape (15 s apart upstream).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.controllers.shared.metrics_api import Metric, Sample, Value, none_returned, not_fetched
from actors.node.node import Node
from actors.node.runtime.containers import Container
from actors.node.runtime.forecast import memory_of
from actors.node.runtime.machine import Machine
from sim.api.objects import is_ready
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.faults.surroundings.metric import TellMetric, group_kind
from sim.kernel import Kernel
from sim.units import SECOND, quantity_milli

if TYPE_CHECKING:
    from actors.node.server.pages.figures import Figures
    from actors.storage import MemoryStore

WINDOW_US = 15 * SECOND  # metrics-server: --metric-resolution


@dataclass(frozen=True, slots=True)
class _Stated:
    """A series that a step states.  cause: the trace record of the step"""

    series: TellMetric
    cause: int

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of the series."""
        one = self.series
        chosen = None if one.selector is None else tuple(sorted(one.selector.items()))
        return one.name, one.namespace, one.kind, one.about, tuple(sorted(one.labels.items())), chosen


def pods_sharing(store: MemoryStore, scheme: Scheme, pod: Obj) -> int:
    """The number of ready pods that share a load with a ready pod: those of its controller.

    0: the pod takes no load
    """
    if not is_ready(pod):
        return 0
    owner = _owner(pod)
    if not owner:
        return 1
    items = store.bucket(scheme.resource("pods").prefix).items
    namespace = pod["metadata"]["namespace"]
    others = (item.obj for item in items.values() if item.obj["metadata"]["namespace"] == namespace)
    return max(1, sum(is_ready(other) and _owner(other) == owner for other in others))


def _owner(pod: Obj) -> str:
    """The uid of the controller of a pod, "" if it has none."""
    references = pod["metadata"].get("ownerReferences") or ()
    return next((each["uid"] for each in references if each.get("controller")), "")


class StatedMetrics:
    """The series that steps state, by step, in the order in which the steps began."""

    def __init__(self) -> None:
        self._stated: dict[str, _Stated] = {}

    def set(self, step: str, series: TellMetric, cause: int) -> None:
        """State a series of a metric until `remove`."""
        self._stated[step] = _Stated(series, cause)

    def remove(self, step: str, cause: int) -> None:
        """Remove the series of a step; an older value of the series counts again, caused by this."""
        ended = self._stated.pop(step)
        for name, stated in self._stated.items():
            if stated.key == ended.key:
                self._stated[name] = replace(stated, cause=cause)

    def of(self, metric: Metric, kind: str, about: str = "") -> Iterator[_Stated]:
        """The newest values of the series of a metric, of this kind of object."""
        newest = {stated.key: stated for stated in self._stated.values()}
        for stated in newest.values():
            one = stated.series
            same = (one.name, one.namespace, one.kind) == (metric.name, metric.namespace, kind)
            if same and one.about == about and metric.series.matches(one.labels):
                yield stated

    def names(self, *, external: bool) -> Iterator[str]:
        """The names of metrics outside of the cluster, or kind and name of those of its objects."""
        for stated in self._stated.values():
            one = stated.series
            if external and not one.kind:
                yield one.name
            elif one.kind and not external:
                yield f"{one.kind.partition('.')[0].lower()}s/{one.name}"


class MetricsServer:
    """The resource, custom and external metrics APIs in one."""

    def __init__(
        self, kernel: Kernel, nodes: Mapping[str, Node], stated: StatedMetrics, scheme: Scheme
    ) -> None:
        self._kernel = kernel
        self._nodes = nodes
        self._stated = stated
        self._scheme = scheme

    def resource(
        self, pods: Sequence[Obj], name: str, container: str, wall_us: int
    ) -> Mapping[str, Sample] | str:
        """Samples of a resource by pod, or an error.  container: "" for all of each pod"""
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
                cause = self._nodes[pod["spec"]["nodeName"]].machine.records.usage
                samples[pod["metadata"]["name"]] = Sample(milli, wall_us, WINDOW_US, cause)
        return samples

    def of_pods(self, pods: Sequence[Obj], metric: Metric, wall_us: int) -> Mapping[str, Sample] | str:
        """Samples of a custom metric by running pod; a load counts for ready pods only."""
        ready = sum(is_ready(pod) for pod in pods)
        running = [pod for pod in pods if self._running(pod)]
        samples: dict[str, Sample] = {}
        for stated in self._stated.of(metric, "Pod"):
            one = stated.series
            for pod in running:
                labels = pod["metadata"].get("labels") or {}
                if not (one.selector or {}).items() <= labels.items():
                    continue
                milli = one.value_milli
                if one.load:
                    milli = milli // ready if is_ready(pod) else 0
                name = pod["metadata"]["name"]
                before = samples.get(name, Sample(0, wall_us, WINDOW_US))
                cause = max(stated.cause, before.cause)
                samples[name] = Sample(before.milli + milli, wall_us, WINDOW_US, cause)
        return samples

    def of_object(self, about: Obj, metric: Metric) -> Value | str:
        """The value of a custom metric of an object, or an error."""
        group, name = about.get("apiVersion", "").rpartition("/")[0], about["name"]
        if (group, about["kind"]) == ("", "Namespace"):
            name = metric.namespace  # client.go: only the autoscaler's own namespace is requested
        found = _sum(self._stated.of(metric, group_kind(group, about["kind"]), name))
        if found is not None:
            return found
        resource = self._scheme.by_kind(about.get("apiVersion", ""), about["kind"])
        what = resource.group_resource if resource else about["kind"]
        problem = f"the server could not find the metric {metric.name} for {what} {name}"
        return not_fetched("custom", problem)

    def external(self, metric: Metric) -> Value | str:
        """The value of an external metric, or an error."""
        return _sum(self._stated.of(metric, "")) or none_returned("external")

    def containers_of(self, pod: Obj) -> list[tuple[str, int, int]]:
        """Name, CPU in thousandths and memory in bytes of each measured container of a pod, as the
        agent of its node shows them.
        """
        figures, now_us = self._figures(pod["spec"].get("nodeName", "")), self._kernel.now_us
        found = None if figures is None else figures.of(pod["metadata"]["uid"])
        return [
            (one.container.name, one.cpu_milli, one.memory)
            for one in (() if found is None else found.containers)
            if one.container.started_us + WINDOW_US <= now_us
        ]

    def node_usage(self, node: str) -> tuple[int, int] | None:
        """CPU in thousandths and memory in bytes of a node, as its agent shows them; None without
        an answer.
        """
        figures = self._figures(node)
        if figures is None:
            return None
        return sum(pod.cpu_milli for pod in figures.pods()), figures.node_memory()[1]

    def _machine(self, node: str) -> Machine | None:
        """The machine of a node with an agent that answers requests."""
        found = self._nodes.get(node)
        agent = None if found is None else found.machine.agent
        return None if found is None or agent is None or not agent.options.listens else found.machine

    def _figures(self, node: str) -> Figures | None:
        """The readings of a node's agent, if it answers requests."""
        machine = self._machine(node)
        if machine is None:
            return None
        from actors.node.server.server import server_of

        return server_of(machine.agent).figures

    def stated_names(self, *, external: bool) -> list[str]:
        """The stated metrics as discovery names them, without duplicates."""
        return sorted(dict.fromkeys(self._stated.names(external=external)))

    def _running(self, pod: Obj) -> list[Container]:
        """The containers of a pod that have run for a whole window, if its node answers."""
        machine = self._machine(pod["spec"].get("nodeName", ""))
        if machine is None:
            return []
        runtime, now_us = machine.pods.get(pod["metadata"]["uid"]), self._kernel.now_us
        if runtime is None:
            return []
        return [c for c in runtime.running(now_us) if c.started_us + WINDOW_US <= now_us]

    def _used(self, pod: Obj, container: Container, name: str, sharing: int) -> int:
        """The use of a resource in thousandths.

        sharing: the number of pods that share a load, this pod included; 0 if it takes no load
        """
        if name == "memory":
            return memory_of(container, self._kernel.now_us) * 1000
        if name != "cpu":
            return 0
        behaviour = container.behaviour
        used = behaviour.cpu_milli + (behaviour.load_milli // sharing if sharing else 0)
        spec: Obj = next((c for c in pod["spec"]["containers"] if c["name"] == container.name), {})
        limit = ((spec.get("resources") or {}).get("limits") or {}).get("cpu")
        return used if limit is None else min(used, quantity_milli(limit))


def _sum(stated: Iterator[_Stated]) -> Value | None:
    """The sum of all series; None if there is none."""
    series = list(stated)
    if not series:
        return None
    return Value(sum(one.series.value_milli for one in series), max(one.cause for one in series))
