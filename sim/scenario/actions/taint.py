"""taint: a person adds taints to nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from actors.users import Taint as TaintCommand
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Ends, Stage, StepKind, Undo
from sim.faults.shared.parameters import NodesField, Strict
from sim.scenario.actions.marks import change_marks
from sim.scenario.read.naming import translate
from sim.scenario.read.taints import taints_problem


class Taint(Strict):
    """The parameters of `taint` and `untaint`."""

    nodes: NodesField
    taints: Annotated[
        list[dict[str, str]],
        Meta(
            description="As in the API: `{key, value, effect}`. To remove taints, the value is ignored, and"
            " no effect means each effect."
        ),
    ]


@dataclass(frozen=True, slots=True)
class TaintNodes(Action):
    """Taints are added or removed.

    taints: {key, value, effect}; an effect of "" means each effect, where they are removed
    on: True if they are added
    """

    nodes: tuple[str, ...]
    taints: tuple[Mapping[str, str], ...]
    on: bool
    picked: ClassVar[str] = "nodes"

    def begin(self, stage: Stage, step: str) -> Undo | None:
        """Begin the command; the result removes the taints."""
        add, remove = (self.taints, ()) if self.on else ((), self.taints)
        stage.cluster.admin.do(TaintCommand(self.nodes, add, remove))
        pairs = [(taint["key"], taint.get("effect", "")) for taint in self.taints]
        return change_marks(stage, step, [(node, pair) for node in self.nodes for pair in pairs], self.on)


def check_taints(context: Context, given: Taint, on: bool) -> TaintNodes:
    """The action of a step that adds taints to nodes, or removes them."""
    if not given.taints:
        raise context.error("taints", "there is none")
    if (problem := taints_problem(given.taints, removed=not on)) is not None:
        raise context.error(*problem)
    return TaintNodes(context.nodes(given.nodes), tuple(translate(given.taints, context.naming)), on)


def _check(context: Context, given: Taint) -> TaintNodes:
    return check_taints(context, given, on=True)


KIND = StepKind(
    name="taint",
    parameters=Taint,
    check=_check,
    ends=Ends.LATER,
    documentation="""
A person adds taints to nodes. The end of the step removes those that no other step keeps.""",
    example="""
- {at: 15m, taint: {nodes: {zone: a}, taints: [{key: k, value: v, effect: NoExecute}]}, for: 5m}""",
)
