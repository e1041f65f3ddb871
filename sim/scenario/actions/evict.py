"""evict: a person evicts pods."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from actors.users import EvictAll
from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Stage, StepKind
from sim.faults.shared.parameters import Among, Strict
from sim.faults.shared.picks import PickObjects, checked_pick, drawn
from sim.scenario.actions.context import UserContext, one_or_matching


class Evict(Strict):
    """The parameters of `evict`.  One of name and selector is given."""

    namespace: Annotated[str, Meta(description="Namespace of the pods.")] = "default"
    name: Annotated[str | UnsetType, Meta(description="Name of one pod.")] = UNSET
    selector: Annotated[str | UnsetType, Meta(description="Labels of the pods.")] = UNSET
    pick: PickObjects = UNSET
    among: Among = UNSET


@dataclass(frozen=True, slots=True)
class EvictPods(Action):
    """These pods are evicted."""

    namespace: str
    name: str
    selector: str
    pick: str | None = None

    def begin(self, stage: Stage, step: str) -> None:
        """Begin the command."""
        stage.cluster.admin.do(
            EvictAll(self.namespace, self.name, self.selector, drawn(self.pick or "", step, stage))
        )


def _check(context: UserContext, given: Evict) -> EvictPods:
    name, selector = one_or_matching(context, given.name, given.selector, "evicts")
    return EvictPods(
        given.namespace, name, selector, checked_pick(context, given.pick, given.among, selector) or None
    )


KIND = StepKind(
    name="evict",
    parameters=Evict,
    check=_check,
    documentation="""
A person evicts one pod, or those that match a selector (all, or `pick` of them), by the eviction API and so within disruption budgets.""",
    example="""
- {at: 14m, evict: {selector: app=web}}""",
    drawn="""
- {evict: {pick: 1}, values: {evict.selector: selectors}}""",
)
