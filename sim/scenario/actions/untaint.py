"""untaint: a person removes taints from nodes."""

from __future__ import annotations

from sim.faults.shared.context import Context
from sim.faults.shared.kinds import StepKind
from sim.scenario.actions.taint import Taint, TaintNodes, check_taints


def _check(context: Context, given: Taint) -> TaintNodes:
    return check_taints(context, given, on=False)


KIND = StepKind(
    name="untaint",
    parameters=Taint,
    check=_check,
    documentation="""
A person removes taints from nodes.""",
    example="""
- {at: 16m, untaint: {nodes: {zone: a}, taints: [{key: k}]}}""",
)
