"""mark: an instant gets a name, and nothing else happens."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Stage, StepKind
from sim.faults.shared.parameters import Strict


class Mark(Strict):
    """The parameters of `mark`."""

    note: Annotated[str, Meta(description="What the instant is, for the picture and the trace.")] = ""


@dataclass(frozen=True, slots=True)
class NameInstant(Action):
    """An instant that other steps and expectations may name."""

    note: str

    def begin(self, stage: Stage, step: str) -> None:
        """Has no effect; the record of the step is what there is."""


def _check(context: Context, given: Mark) -> NameInstant:
    return NameInstant(given.note)


KIND = StepKind(
    name="mark",
    parameters=Mark,
    check=_check,
    documentation="""
An instant gets a name and nothing else happens: expectations and steps may come `after` it, and the picture shows it.
With `when` it is the instant at which a condition holds.""",
    example="""
- {name: peak, at: 5m, mark: {}}
- {name: noticed, when: any nodes have Ready=Unknown, mark: {note: the first node is given up}}""",
)
