"""slow: each piece of work of a process takes longer."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault
from sim.faults.shared.ledger import AspectName
from sim.faults.shared.parameters import OfProcesses
from sim.faults.shared.processes import ProcessFault


class Slow(OfProcesses, kw_only=True):
    """The parameters of `slow`."""

    by: Annotated[str, Meta(description="Additional time of each piece of work.")]


@dataclass(frozen=True, slots=True)
class SlowProcesses(ProcessFault):
    """Each piece of work of these processes takes `amount_us` longer."""

    amount_us: int = 0

    def entry(self) -> tuple[AspectName, Any]:
        """The process is slow."""
        return "slow", self.amount_us


def _check(context: Context, given: Slow) -> SlowProcesses:
    actors = context.actors(given.actor, "actor")
    return SlowProcesses("slow", actors, context.positive(given.by, "by"))


FAULT = Fault(
    name="slow",
    parameters=Slow,
    check=_check,
    ends=Ends.LATER,
    documentation="""
Each piece of work of the processes takes longer. The watch caches of a slow API server show each change so much later.""",
    example="""
- {at: 4m, slow: {actor: scheduler-0, by: 50ms}, for: 1m}""",
    drawn="""
- {slow: {actor: apiserver}, for: 10s..5m, values: {slow.actor: ["{processes}", "{nodes}"], slow.by: [20ms, 200ms, 2s]}}""",
)
