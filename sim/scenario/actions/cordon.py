"""cordon, uncordon: a person closes nodes to new pods, or opens them."""

from __future__ import annotations

from typing import ClassVar

from actors.users import Cordon as CordonCommand
from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Ends, Stage, StepKind, Undo
from sim.faults.shared.parameters import NodesField, Strict
from sim.scenario.actions.marks import CLOSED, change_marks


class Cordon(Strict):
    """The parameters of `cordon` and `uncordon`."""

    nodes: NodesField


@dataclass(frozen=True, slots=True)
class CordonNodes(Action):
    """These nodes are closed to new pods, or opened.  on: True if they are closed"""

    nodes: tuple[str, ...]
    on: bool
    picked: ClassVar[str] = "nodes"

    def begin(self, stage: Stage, step: str) -> Undo | None:
        """Begin the command; the result opens the nodes again."""
        stage.cluster.admin.do(CordonCommand(self.nodes, self.on))
        return change_marks(stage, step, [(node, CLOSED) for node in self.nodes], self.on)


def _check(context: Context, given: Cordon) -> CordonNodes:
    return CordonNodes(context.nodes(given.nodes), on=True)


KIND = StepKind(
    name="cordon",
    parameters=Cordon,
    check=_check,
    ends=Ends.LATER,
    documentation="""
A person closes nodes to new pods. The end of the step opens those that no other step keeps closed.""",
    example="""
- {at: 15m, cordon: {nodes: {zone: a}}}""",
)


def _check_opposite(context: Context, given: Cordon) -> CordonNodes:
    return CordonNodes(context.nodes(given.nodes), on=False)


OPPOSITE = StepKind(
    name="uncordon",
    parameters=Cordon,
    check=_check_opposite,
    documentation="""
A person opens nodes to new pods.""",
    example="""
- {at: 16m, uncordon: {nodes: {zone: a}}}""",
)
