"""compact: the storage forgets old history."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Fault, Stage
from sim.faults.shared.parameters import Strict


class Compact(Strict):
    """The parameters of `compact`."""

    keep: Annotated[str, Meta(description="The latest history that stays.")] = "0s"


@dataclass(frozen=True, slots=True)
class CompactHistory(Action):
    """Only the latest history stays."""

    keep_us: int

    def begin(self, stage: Stage, step: str) -> None:
        """Compact the storage."""
        stage.cluster.compact(self.keep_us)


def _check(context: Context, given: Compact) -> CompactHistory:
    return CompactHistory(context.duration(given.keep, "keep"))


FAULT = Fault(
    name="compact",
    parameters=Compact,
    check=_check,
    documentation="""
The storage forgets all history but the latest; a request for an older revision gets 410.""",
    example="""
- {at: 11m, compact: {keep: 30s}}""",
    drawn="""
- {compact: {}, values: {compact.keep: [0s, 5s, 1m]}}""",
)
