"""scale: a person changes the number of replicas of an object."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actors.users import ScaleTo
from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Stage, StepKind
from sim.faults.shared.parameters import Count, Strict
from sim.scenario.actions.context import UserContext, check_object


class Scale(Strict):
    """The parameters of `scale`."""

    resource: Annotated[str, Meta(description="Plural of the kind, as `deployments`.")]
    name: Annotated[str, Meta(description="Name of the object.")]
    replicas: Annotated[Count, Meta(description="The new number of replicas.")]
    namespace: Annotated[str, Meta(description="Namespace of the object.")] = "default"


@dataclass(frozen=True, slots=True)
class ScaleObject(Action):
    """This object gets another number of replicas."""

    resource: str
    namespace: str
    name: str
    replicas: int

    def begin(self, stage: Stage, step: str) -> None:
        """Begin the command."""
        stage.cluster.admin.do(ScaleTo(self.resource, self.namespace, self.name, self.replicas))


def _check(context: UserContext, given: Scale) -> ScaleObject:
    check_object(context, given.resource, given.namespace, given.name)
    return ScaleObject(given.resource, given.namespace, given.name, given.replicas)


KIND = StepKind(
    name="scale",
    parameters=Scale,
    check=_check,
    documentation="""
A person changes the number of replicas of an object.""",
    example="""
- {at: 12m, scale: {resource: deployments, namespace: default, name: web, replicas: 9}}""",
    drawn="""
- {scale: {resource: deployments, name: x, replicas: 1}, values: {scale.name: deployments, scale.replicas: [0, 1, 3, 10]}}
- {scale: {resource: statefulsets, name: x, replicas: 1}, values: {scale.name: statefulsets, scale.replicas: [0, 1, 3, 5]}}""",
)
