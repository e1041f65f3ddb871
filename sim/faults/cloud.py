"""cloud: the cloud does not answer, or answers slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from sim.faults.shared.context import Context, delay_of, in_a_cloud
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import Aspect, Ledger
from sim.faults.shared.parameters import Strict

CLOUD = "cloud"  # the target; the simulated cloud reads its values from the ledger at each request
OUTAGE, CALL = "outage", "call"


class Cloud(Strict):
    """The parameters of `cloud`."""

    how: Annotated[Literal["outage", "slow"], Meta(description="How the cloud fails.")]
    by: Annotated[str | UnsetType, Meta(description="With `slow`: the additional time of each request.")] = (
        UNSET
    )


@dataclass(frozen=True, slots=True)
class CloudFault(Imposed):
    """how: outage slow."""

    how: str
    by_us: int

    def impose(self, stage: Stage, step: str) -> None:
        """The cloud fails."""
        aspect, value = (OUTAGE, True) if self.how == "outage" else (CALL, self.by_us)
        stage.faults.impose(step, CLOUD, aspect, value)


def _check(context: Context, given: Cloud) -> CloudFault:
    in_a_cloud(context, "how")
    return CloudFault(given.how, delay_of(context, given.how, given.by, "slow"))


def _settle(ledger: Ledger, target: str) -> None:
    """Nothing to do: the cloud reads the ledger."""


FAULT = Fault(
    name="cloud",
    parameters=Cloud,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The cloud does not answer questions about instances, or takes longer for each. Needs `cloud-provider` (below).""",
    example="""
- {at: 8m, cloud: {how: slow, by: 2s}, for: 1m}""",
    aspects=(Aspect(OUTAGE, _settle), Aspect(CALL, _settle)),
)
