"""crash: processes end and lose their memory."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault
from sim.faults.shared.ledger import AspectName
from sim.faults.shared.parameters import OfProcesses
from sim.faults.shared.processes import TERMINATED, ProcessFault


class Crash(OfProcesses):
    """The parameters of `crash`."""

    restart_after: Annotated[
        str | UnsetType,
        Meta(description="Time until the processes start again; a range draws one each time."),
    ] = UNSET
    gracefully: Annotated[bool, Meta(description="True: by SIGTERM, else by SIGKILL.")] = False


@dataclass(frozen=True, slots=True)
class EndProcesses(ProcessFault):
    """These processes end."""

    def entry(self) -> tuple[AspectName, Any]:
        """The process may not run."""
        return "down", "killed" if self.what == "crash" else TERMINATED


def _check(context: Context, given: Crash) -> EndProcesses:
    how = "terminate" if given.gracefully else "crash"
    return EndProcesses(how, context.actors(given.actor, "actor"))


FAULT = Fault(
    name="crash",
    parameters=Crash,
    check=_check,
    ends=Ends.LATER,
    duration="restartAfter",
    documentation="""
Processes end and stay away until `restartAfter`, `for` or a `start` step. By SIGTERM a leading scheduler releases its lease;
an API server takes requests for `shutdown-delay-duration`, then none, and keeps its watches for a minute. A process that has
not ended when it is to start again starts when it has.""",
    example="""
- {at: 4m, crash: {actor: apiserver-0, restartAfter: 20s}}
- {at: 4m, crash: {actor: scheduler-leader, gracefully: true}}
- {at: 9m, crash: {actor: apiserver-1, gracefully: true, restartAfter: 80s}}""",
    drawn="""
- {crash: {actor: apiserver, restartAfter: 1s..2m}, weight: 4, values: {crash.actor: processes, crash.gracefully: [false, true]}}""",
    words={("what", "terminate"): "gracefully"},
)
