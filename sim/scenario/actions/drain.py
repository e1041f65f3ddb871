"""drain: a person drains nodes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from actors.users import Drain as DrainCommand
from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Stage, StepKind
from sim.faults.shared.parameters import NodesField, Strict


class Drain(Strict):
    """The parameters of `drain`."""

    nodes: NodesField
    timeout: Annotated[str, Meta(description="The person gives up after this time.")] = "10m"


@dataclass(frozen=True, slots=True)
class DrainNodes(Action):
    """These nodes are closed, and their pods are evicted."""

    nodes: tuple[str, ...]
    timeout_us: int
    picked: ClassVar[str] = "nodes"

    def begin(self, stage: Stage, step: str) -> None:
        """Begin the command."""
        stage.cluster.admin.do(DrainCommand(self.nodes, self.timeout_us))


def _check(context: Context, given: Drain) -> DrainNodes:
    return DrainNodes(context.nodes(given.nodes), context.duration(given.timeout, "timeout"))


KIND = StepKind(
    name="drain",
    parameters=Drain,
    check=_check,
    documentation="""
A person closes nodes and evicts their pods, within disruption budgets.""",
    example="""
- {at: 15m, drain: {nodes: {zone: a}, timeout: 10m}}""",
    drawn="""
- {drain: {nodes: {pick: 1}, timeout: 5m}, weight: 3, then: {uncordon: {nodes: {}}, delay: 1m..5m}}""",
)
