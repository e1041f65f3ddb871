"""loseLease: another holder takes the lease of a leader.

Mirrors  client-go tools/leaderelection/leaderelection.go: `renew` tries every retry period, and
         `tryAcquireOrRenew` is refused while another holder's lease has not expired; only when it
         was refused for the renew deadline does the leader stop (10 s to 12 s by default).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Fault, Stage
from sim.faults.shared.parameters import Strict


class LoseLeaseParameters(Strict):
    """The parameters of `loseLease`."""

    component: Annotated[Literal["controller-manager", "scheduler"], Meta(description="The component.")]
    holder: Annotated[str, Meta(description="The new holder of the lease.")] = "intruder"


@dataclass(frozen=True, slots=True)
class LoseLease(Action):
    """The lease of a component's leader gets another holder."""

    component: str
    holder: str

    def begin(self, stage: Stage, step: str) -> None:
        """Write the holder by an API request."""
        namespace, name = stage.cluster.election_lease(self.component)
        stage.cluster.admin.seize_lease(namespace, name, self.holder)


def _check(_: Context, given: LoseLeaseParameters) -> LoseLease:
    return LoseLease(given.component, given.holder)


FAULT = Fault(
    name="loseLease",
    parameters=LoseLeaseParameters,
    check=_check,
    documentation="""
Another holder takes the lease of the leading replica, by an API request. The old leader acts on until its renewals have
been refused for its renew deadline, as upstream's does, so that the invariant `one-leader` fails. A hunt draws it only
if its palette names it.""",
    example="""
- {at: 5m, loseLease: {component: scheduler, holder: other}}""",
    drawn="""
- {loseLease: {}, values: {loseLease.component: [controller-manager, scheduler]}}""",
    by_name_only=True,
)
