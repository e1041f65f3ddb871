"""stall: processes are paused and keep their memory."""

from __future__ import annotations

from typing import Any

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault
from sim.faults.shared.ledger import AspectName
from sim.faults.shared.parameters import OfProcesses
from sim.faults.shared.processes import PACE, ProcessFault


@dataclass(frozen=True, slots=True)
class PauseProcesses(ProcessFault):
    """These processes do not run."""

    def entry(self) -> tuple[AspectName, Any]:
        """The process is paused."""
        return "pause", True


class Stall(OfProcesses):
    """The parameters of `stall`."""


def _check(context: Context, given: Stall) -> PauseProcesses:
    return PauseProcesses("stall", context.actors(given.actor, "actor"))


FAULT = Fault(
    name="stall",
    parameters=Stall,
    check=_check,
    ends=Ends.LATER,
    documentation="""
Processes are paused, as by SIGSTOP or a long garbage collection, and keep their memory. A leader that is paused for longer
than its lease loses it.""",
    example="""
- {at: 4m, stall: {actor: controller-manager-leader}, for: 30s}""",
    drawn="""
- {stall: {actor: apiserver}, for: 1s..3m, weight: 3, values: {stall.actor: ["{processes}", "{nodes}"]}}""",
    aspects=PACE,
)
