"""A cloud with answers that a test states: load balancers and routes are those of the simulated
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.controllers.shared.cloud import Instance, State
from sim.api.types import Obj
from sim.app.cloud import SimulatedCloud
from sim.options.cloud import CloudSettings


class StatedCloud(SimulatedCloud):
    """ranges: pod CIDRs of instances by node.  `outages`, `slow_us`, `quotas`: what is wrong now."""

    def __init__(self, ranges: Mapping[str, str] | None = None) -> None:
        self.outages: list[tuple[str, ...]] = []
        self.slow: list[tuple[tuple[str, ...], int]] = []
        self.quotas: list[int] = []
        self._ranges = ranges or {}
        # Two methods of a ledger are read.
        super().__init__(self, {}, CloudSettings())  # type: ignore[arg-type]

    def values(self, _: str, aspect: str) -> list[Any]:
        values: dict[str, list[Any]] = {"outage": self.outages, "call": self.slow, "quota": self.quotas}
        return values[aspect]

    def record(self, target: str, aspect: str, value: Any) -> int:
        return int(value in self.values(target, aspect))

    def instance(self, node: Obj) -> Instance | str:
        return Instance(State.RUNNING)

    def pod_ranges(self, node: Obj) -> Sequence[str] | str:
        found = self._ranges.get(node["metadata"]["name"])
        return "no such instance" if found is None else [found]
