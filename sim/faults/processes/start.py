"""start: processes that crashed start again."""

from __future__ import annotations

from typing import ClassVar

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Fault, Stage
from sim.faults.shared.parameters import OfProcesses


@dataclass(frozen=True, slots=True)
class StartProcesses(Action):
    """What keeps these processes down ends."""

    what: str
    actors: tuple[str, ...]
    picked: ClassVar[str] = "actors"

    def begin(self, stage: Stage, step: str) -> None:
        """Start each process."""
        for actor in self.actors:
            stage.heal(stage.cluster.actor_named(actor), "down")

    def may_end(self, step: str) -> bool:
        """True for every step: which process a role means is not known before the run."""
        return True


class StartParameters(OfProcesses):
    """The parameters of `start`."""


def _check(context: Context, given: StartParameters) -> StartProcesses:
    return StartProcesses("start", context.actors(given.actor, "actor"))


FAULT = Fault(
    name="start",
    parameters=StartParameters,
    check=_check,
    documentation="""
Processes that a `crash` step ended start again.""",
    example="""
- {at: 5m, start: {actor: scheduler-1}}""",
)
