"""dropWatches: watches end before their time."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Fault, Stage
from sim.faults.shared.parameters import Strict


class DropWatchesParameters(Strict):
    """The parameters of `dropWatches`."""

    resource: Annotated[str, Meta(description="Only watches of this resource.")] = ""
    client: Annotated[str, Meta(description="Only watches of users with a name that matches this glob.")] = ""


@dataclass(frozen=True, slots=True)
class DropWatches(Action):
    """Watches end: of a resource, of clients that match a glob ("" means all)."""

    resource: str
    client: str

    def begin(self, stage: Stage, step: str) -> None:
        """End the watches of every API server."""
        stage.cluster.drop_watches(self.resource, self.client)


def _check(context: Context, given: DropWatchesParameters) -> DropWatches:
    if given.resource:
        context.resource(given.resource)
    return DropWatches(given.resource, given.client)


FAULT = Fault(
    name="dropWatches",
    parameters=DropWatchesParameters,
    check=_check,
    documentation="""
Watches end, on every API server; their clients watch again.""",
    example="""
- {at: 11m, dropWatches: {resource: pods, client: "system:*"}}""",
    drawn="""
- {dropWatches: {}, values: {dropWatches.resource: ["", pods, nodes, leases, deployments, replicasets]}}""",
)
