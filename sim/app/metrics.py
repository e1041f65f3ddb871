"""A metrics server: what the containers on the cluster's machines use.

Turns the behaviours that scenarios give to containers (`cpu` of each, `load` of all together, `memory`) into samples of
pods, for autoscaling.

Holds: a `load` is shared evenly by the pods of the question that are ready to take it, so that more of them use less each;
no container uses more cpu than its limit.

Mirrors  kubernetes-sigs/metrics-server v0.6 as autoscaling sees it: samples of pods whose node answers, over a window.
Differs  a sample is of the moment at which it is asked for, not of the last scrape (15 s apart there).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.controllers.metrics import Sample
from actors.node.machine import Container
from actors.node.node import Node
from actors.node.pressure import memory_of
from sim.kernel import Kernel
from sim.machinery.objects import is_ready
from sim.units import SECOND, quantity_milli

Obj = dict[str, Any]
WINDOW_US = 15 * SECOND  # metrics-server: --metric-resolution


class NodeMetrics:
    """The usage of pods, as their machines know it."""

    def __init__(self, kernel: Kernel, nodes: Mapping[str, Node]) -> None:
        self._kernel = kernel
        self._nodes = nodes

    def resource(self, pods: Sequence[Obj], name: str, wall_us: int) -> Mapping[str, Sample] | str:
        ready = sum(is_ready(pod) for pod in pods)
        samples: dict[str, Sample] = {}
        for pod in pods:
            containers = self._running(pod)
            if containers:
                sharing = ready if is_ready(pod) else 0
                milli = sum(self._used(pod, container, name, sharing) for container in containers)
                cause = self._nodes[pod["spec"]["nodeName"]].machine.usage_fault
                samples[pod["metadata"]["name"]] = Sample(milli, wall_us, WINDOW_US, cause)
        return samples

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
