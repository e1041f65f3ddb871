"""uncordon: a person opens nodes to new pods."""

from __future__ import annotations

from sim.faults.shared.context import Context
from sim.faults.shared.kinds import StepKind
from sim.scenario.actions.cordon import Cordon, CordonNodes


def _check(context: Context, given: Cordon) -> CordonNodes:
    return CordonNodes(context.nodes(given.nodes), on=False)


KIND = StepKind(
    name="uncordon",
    parameters=Cordon,
    check=_check,
    documentation="""
A person opens nodes to new pods.""",
    example="""
- {at: 16m, uncordon: {nodes: {zone: a}}}""",
)
