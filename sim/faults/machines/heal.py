"""heal: the faults of nodes, or of an earlier step, end."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Fault, Stage
from sim.faults.shared.parameters import Nodes, Strict


class Heal(Strict):
    """The parameters of `heal`.  One of them is given."""

    nodes: Annotated[Nodes | UnsetType, Meta(description="The nodes that are healed.")] = UNSET
    step: Annotated[
        str | UnsetType, Meta(description="The earlier step that ends; NAME/2 for one occurrence.")
    ] = UNSET


@dataclass(frozen=True, slots=True)
class HealNodes(Action):
    """All faults of these nodes end."""

    nodes: tuple[str, ...]
    picked: ClassVar[str] = "nodes"

    def begin(self, stage: Stage, step: str) -> None:
        """Heal each node."""
        for node in self.nodes:
            stage.heal(node)

    def may_end(self, step: str) -> bool:
        """True for every step: which faults a node will have is not known before the run."""
        return True


@dataclass(frozen=True, slots=True)
class EndStep(Action):
    """The fault of an earlier step ends."""

    step: str

    def begin(self, stage: Stage, step: str) -> None:
        """End the active occurrences."""
        stage.end_step(self.step)

    def may_end(self, step: str) -> bool:
        """True for the step that is named."""
        return self.step.partition("/")[0] == step


def _check(context: Context, given: Heal) -> HealNodes | EndStep:
    if (given.nodes is UNSET) == (given.step is UNSET):
        raise context.error("", "heals either nodes or a step")
    if isinstance(given.step, str):
        if given.step.partition("/")[0] not in context.known.steps:
            raise context.error("step", f"no earlier step is named {given.step!r}")
        return EndStep(given.step)
    assert isinstance(given.nodes, Nodes)
    return HealNodes(context.nodes(given.nodes))


FAULT = Fault(
    name="heal",
    parameters=Heal,
    check=_check,
    documentation="""
Faults end before their time: that of an earlier step, or all faults of nodes. The latter leaves what is between hosts
(`partition`, `network`) and what people did (`cordon`, `taint`) unchanged.""",
    example="""
- {at: 2m, heal: {step: disk}}
- {at: 8m, heal: {nodes: {zone: a}}}""",
)
