"""The metrics of a cluster: what containers use, and the values that a scenario states.

Turns what node agents measure of containers (`sim.app.scrapes`) into samples of pods, and the
values that steps state (`StatedMetrics`) into values of metrics, for autoscaling.

Holds: the ready pods of a workload share a `load` evenly, so that more pods use less each. Of the
    values of one series that of the newest active step counts.

Mirrors  kubernetes-sigs/metrics-server v0.6; kubernetes-sigs/custom-metrics-apiserver
         pkg/provider/errors.go (an unknown metric of an object).
Differs  a value that a step states is of the instant of the query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.controllers.shared.metrics_api import Metric, Sample, Value, none_returned, not_fetched
from sim.api.objects import is_ready
from sim.dataclass import dataclass
from sim.faults.surroundings.metric import TellMetric, group_kind

if TYPE_CHECKING:
    from actors.node.node import Node
    from actors.node.runtime.containers import Container
    from actors.node.runtime.machine import Machine
    from actors.node.server.pages.figures import Figures
    from actors.storage import MemoryStore
    from sim.api.scheme.scheme import Scheme
    from sim.api.types import Obj
    from sim.app.scrapes import Reading, Usage
    from sim.kernel import Kernel


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


class Sharing:
    """Counts the ready pods that share a load: those of a workload.

    All ReplicaSets of a Deployment are one workload.
    """

    def __init__(self, store: MemoryStore, scheme: Scheme) -> None:
        self._store = store
        self._pods, self._sets = (scheme.resource(plural).prefix for plural in ("pods", "replicasets"))
        self._revision = -1
        self._owners: dict[str, str] = {}
        self._ready: dict[str, int] = {}

    def of(self, pod: Obj) -> int:
        """How many pods share the load of a pod; 0 if it takes none, since it is not ready."""
        if not is_ready(pod):
            return 0
        if self._store.revision != self._revision:
            self._count()
        return max(1, self._ready.get(self._workload(pod), 1))

    def _count(self) -> None:
        self._revision = self._store.revision
        sets = [item.obj for item in self._store.bucket(self._sets).items.values()]
        self._owners = {one["metadata"]["uid"]: _owner(one) for one in sets}
        pods = [item.obj for item in self._store.bucket(self._pods).items.values()]
        self._ready = Counter(self._workload(one) for one in pods if is_ready(one))
        self._ready.pop("", None)

    def _workload(self, pod: Obj) -> str:
        """The uid of the owner of a pod's controller, or else of that; "" if there is none."""
        owner = _owner(pod)
        return self._owners.get(owner) or owner


def _owner(obj: Obj) -> str:
    """The uid of the controller of an object, "" if it has none."""
    references = obj["metadata"].get("ownerReferences") or ()
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
        self._figures: dict[str, tuple[object, Figures]] = {}
        from sim.app.scrapes import PERIOD_US, Scrapes

        self._window_us = PERIOD_US
        self._scrapes = Scrapes(kernel, self._read)

    def resource(
        self, pods: Sequence[Obj], name: str, container: str, wall_us: int
    ) -> Mapping[str, Sample] | str:
        """Samples of a resource by pod, or an error.  container: "" for all of each pod"""
        samples: dict[str, Sample] = {}
        for pod in pods:
            used = self.pod_usage(pod)
            if used is None:
                continue
            parts = used.parts
            if container:
                if container not in parts:
                    place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                    what = f"container {container} not present in metrics for pod {place}"
                    return f"failed to get container metrics: {what}"
                parts = {container: parts[container]}
            milli = sum(_milli(name, *each) for each in parts.values())
            at_us = self._kernel.epoch_us + used.at_us
            samples[pod["metadata"]["name"]] = Sample(milli, at_us, used.window_us, used.cause)
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
                before = samples.get(name, Sample(0, wall_us, self._window_us))
                cause = max(stated.cause, before.cause)
                samples[name] = Sample(before.milli + milli, wall_us, self._window_us, cause)
        return samples

    def of_object(self, about: Obj, metric: Metric) -> Value | str:
        """The value of a custom metric of an object, or an error."""
        group, name = about.get("apiVersion", "").rpartition("/")[0], about["name"]
        if (group, about["kind"]) == ("", "Namespace"):
            name = metric.namespace  # client.go: only the autoscaler's own namespace is requested
        result = _sum(self._stated.of(metric, group_kind(group, about["kind"]), name))
        if result is not None:
            return result
        resource = self._scheme.by_kind(about.get("apiVersion", ""), about["kind"])
        what = resource.group_resource if resource else about["kind"]
        problem = f"the server could not find the metric {metric.name} for {what} {name}"
        return not_fetched("custom", problem)

    def external(self, metric: Metric) -> Value | str:
        """The value of an external metric, or an error."""
        return _sum(self._stated.of(metric, "")) or none_returned("external")

    def wall_us(self, at_us: int) -> int:
        """An instant as Unix time, by the server's clock."""
        return self._kernel.epoch_us + at_us

    def pod_usage(self, pod: Obj) -> Usage | None:
        """What a pod used between two scrapes."""
        return self._scrapes.pod(pod["metadata"]["uid"])

    def node_usage(self, node: str) -> Usage | None:
        """What a node used between two scrapes."""
        return self._scrapes.node(node)

    def _read(self) -> Reading:
        """Scrape the agents that answer."""
        from actors.node.server.pages.figures import Figures
        from sim.app.scrapes import Point, Reading

        now_us, pods, causes, nodes = (
            self._kernel.now_us,
            dict[str, dict[str, Point]](),
            dict[str, int](),
            dict[str, Point](),
        )
        for name in self._nodes:
            machine = self._machine(name)
            if machine is None:
                continue
            current = self._figures.get(name)
            if current is None or current[0] is not machine.agent:
                current = self._figures[name] = machine.agent, Figures(machine.agent)
            figures, running = current[1], current[1].pods()
            for pod in running:
                pods[pod.worker.uid] = {
                    one.container.name: Point(
                        one.container.started_us, now_us, one.cpu_ns, one.memory, one.cpu_milli
                    )
                    for one in pod.containers
                }
                causes[pod.worker.uid] = machine.records.usage
            rate, memory = sum(pod.cpu_milli for pod in running), figures.node_memory()[1]
            nodes[name] = Point(machine.agent.began_us, now_us, figures.node_cpu_ns(running), memory, rate)
        return Reading(pods, causes, nodes)

    def _machine(self, node: str) -> Machine | None:
        """The machine of a node with an agent that answers requests."""
        result = self._nodes.get(node)
        agent = None if result is None else result.machine.agent
        return None if result is None or agent is None or not agent.options.listens else result.machine

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
        return [c for c in runtime.running(now_us) if c.started_us + self._window_us <= now_us]


def _milli(resource: str, cpu_nano: int, memory: int) -> int:
    """A resource in thousandths, rounded up as a Quantity is."""
    if resource == "memory":
        return memory * 1000
    return -(-cpu_nano // 1_000_000) if resource == "cpu" else 0


def _sum(stated: Iterator[_Stated]) -> Value | None:
    """The sum of all series; None if there is none."""
    series = list(stated)
    if not series:
        return None
    return Value(sum(one.series.value_milli for one in series), max(one.cause for one in series))
