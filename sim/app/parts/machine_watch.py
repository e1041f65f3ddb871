"""Which machines serve: a machine serves while it has power and its network is not cut.

Holds: nothing is watched before `watch` is called, and a watch influences nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.node.node import Node
    from actors.node.runtime.containers import Container, PodRuntime
    from sim.check import Observer
    from sim.check.clients import ServiceRequest
    from sim.faults.shared.ledger import AspectName, Ledger
    from sim.kernel import Kernel

See = Callable[[str, bool, int], None]


class MachineWatch:
    """Reports the machines of a cluster that begin or cease to serve.

    request_watchers: called with each request of a client that has ended, and the time
    """

    def __init__(self, kernel: Kernel, nodes: Mapping[str, Node], faults: Ledger) -> None:
        self._kernel = kernel
        self._nodes = nodes
        self._faults = faults
        self._watchers: list[See] = []
        self.request_watchers: list[Callable[[ServiceRequest, int], None]] = []
        self._program_watchers: list[Callable[[str, PodRuntime, Container, int], None]] = []

    def watch(self, see: See) -> None:
        """Call `see` with node, whether it serves, and the time, from now on."""
        self._watchers.append(see)
        if len(self._watchers) == 1:
            for name, node in self._nodes.items():
                self.add(name, node)
            self._faults.on_settled.append(self._settled)

    def add(self, name: str, node: Node) -> None:
        """Watch a node that was added."""
        if self._watchers:
            node.machine.on_power = partial(self._power, name)
        if self._program_watchers:
            self._watch_programs(name, node)

    def watch_programs(self, observer: Observer) -> None:
        """Let an observer see the containers that run on machines, if it needs them, and requests."""
        if observer.needs_clients:
            self.request_watchers.append(observer.request)
        if not observer.needs_programs:
            return
        self._program_watchers.append(observer.program)
        for name, node in self._nodes.items():
            if len(self._program_watchers) == 1:
                self._watch_programs(name, node)
            for pod in node.machine.pods.values():
                for container in pod.running(self._kernel.now_us):
                    observer.program(name, pod, container, self._kernel.now_us)

    def _watch_programs(self, name: str, node: Node) -> None:
        def start(pod: PodRuntime, container: Container) -> None:
            for see in self._program_watchers:
                see(name, pod, container, self._kernel.now_us)

        node.machine.on_start = start

    def _power(self, name: str, _: bool) -> None:
        self._see(name)

    def _settled(self, target: str, aspect: AspectName) -> None:
        if aspect == "cut":
            self._see(target)

    def serves(self, name: str) -> bool:
        """True if a machine serves now; one that is not known is taken to serve."""
        node = self._nodes.get(name)
        return node is None or (node.machine.powered and not self._faults.values(name, "cut"))

    def _see(self, name: str) -> None:
        serves = self.serves(name)
        for see in self._watchers:
            see(name, serves, self._kernel.now_us)
