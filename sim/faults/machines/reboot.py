"""reboot: nodes lose their power and boot again."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sim.faults.machines.fail import FailNodes
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault
from sim.faults.shared.parameters import NodesField, Strict


class Reboot(Strict):
    """The parameters of `reboot`."""

    nodes: NodesField
    downtime: Annotated[
        str, Meta(description="Time until the power is on again; a range draws one each time.")
    ] = "60s"


def _check(context: Context, given: Reboot) -> FailNodes:
    return FailNodes(context.nodes(given.nodes), "power-loss")


FAULT = Fault(
    name="reboot",
    parameters=Reboot,
    check=_check,
    ends=Ends.ITSELF,
    duration="downtime",
    documentation="""
Nodes lose their power and boot again after the downtime. Their pods start in new sandboxes.""",
    example="""
- {at: 1m, reboot: {nodes: {labels: {disk: ssd}, count: 1}, downtime: 60s}}""",
    drawn="""
- {reboot: {nodes: {pick: 1}}, weight: 2, values: {reboot.downtime: [5s, 30s, 1m, 3m]}}""",
)
