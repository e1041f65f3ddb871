"""Which machines serve: a machine serves while it has power and its network is not cut.

Holds: nothing is watched before `watch` is called, and a watch influences nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from actors.node.node import Node
from sim.faults.shared.ledger import AspectName, Ledger
from sim.kernel import Kernel

See = Callable[[str, bool, int], None]


class MachineWatch:
    """Reports the machines of a cluster that begin or cease to serve."""

    def __init__(self, kernel: Kernel, nodes: Mapping[str, Node], faults: Ledger) -> None:
        self._kernel = kernel
        self._nodes = nodes
        self._faults = faults
        self._watchers: list[See] = []

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

    def _power(self, name: str, _: bool) -> None:
        self._see(name)

    def _settled(self, target: str, aspect: AspectName) -> None:
        if aspect == "cut":
            self._see(target)

    def _see(self, name: str) -> None:
        serves = self._nodes[name].machine.powered and not self._faults.values(name, "cut")
        for see in self._watchers:
            see(name, serves, self._kernel.now_us)
