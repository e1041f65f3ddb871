"""delete: a person deletes objects."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from actors.users import DeleteAll
from sim.client.client import Propagation
from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Stage, StepKind
from sim.faults.shared.parameters import Among, Strict
from sim.faults.shared.picks import PickObjects, checked_pick, drawn
from sim.scenario.actions.context import UserContext, one_or_matching

_Seconds = Annotated[int, Meta(ge=0)]


class Delete(Strict):
    """The parameters of `delete`.  One of name and selector is given."""

    resource: Annotated[str, Meta(description="Plural of the kind.")]
    namespace: Annotated[str, Meta(description="Namespace of the objects.")] = "default"
    name: Annotated[str | UnsetType, Meta(description="Name of one object.")] = UNSET
    selector: Annotated[str | UnsetType, Meta(description="Labels of the objects.")] = UNSET
    pick: PickObjects = UNSET
    among: Among = UNSET
    grace_period_seconds: Annotated[
        _Seconds | UnsetType, Meta(description="The grace period; default that of each object.")
    ] = UNSET
    propagation_policy: Annotated[
        Literal["Background", "Foreground", "Orphan"] | UnsetType,
        Meta(description="How the dependents of the objects end."),
    ] = UNSET


@dataclass(frozen=True, slots=True)
class DeleteObjects(Action):
    """These objects are deleted."""

    resource: str
    namespace: str
    name: str
    selector: str
    grace_s: int | None
    policy: Propagation | None = None
    pick: str | None = None

    def begin(self, stage: Stage, step: str) -> None:
        """Begin the command."""
        chosen = self.resource, self.namespace, self.name, self.selector
        draw = drawn(self.pick or "", step, stage)
        stage.cluster.admin.do(DeleteAll(*chosen, self.grace_s, self.policy or "", draw))


def _check(context: UserContext, given: Delete) -> DeleteObjects:
    context.resource(given.resource)
    name, selector = one_or_matching(context, given.name, given.selector, "deletes")
    grace_s, policy = given.grace_period_seconds, given.propagation_policy
    return DeleteObjects(
        given.resource,
        given.namespace,
        name,
        selector,
        None if isinstance(grace_s, UnsetType) else grace_s,
        None if isinstance(policy, UnsetType) else policy,
        checked_pick(context, given.pick, given.among, selector) or None,
    )


KIND = StepKind(
    name="delete",
    parameters=Delete,
    check=_check,
    documentation="""
A person deletes one object, or those that match a selector: all, or `pick` of them, drawn at random each time.""",
    example="""
- {at: 13m, delete: {resource: pods, selector: app=web, gracePeriodSeconds: 0}}
- {at: 13m, every: 1m, times: 5, delete: {resource: pods, selector: app=web, pick: 1}}      # another one each minute
- {at: 13m, delete: {resource: namespaces, name: shop}}
- {at: 13m, delete: {resource: deployments, name: web, propagationPolicy: Foreground}}""",
    drawn="""
- {delete: {resource: pods, pick: 1}, values: {delete.selector: selectors}}""",
)
