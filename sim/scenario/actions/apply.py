"""apply: a person creates or replaces objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from actors.users import ApplyAll
from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Stage, StepKind
from sim.faults.shared.parameters import Strict
from sim.scenario.actions.context import UserContext


class Apply(Strict):
    """The parameters of `apply`."""

    files: Annotated[list[str], Meta(description="Files below the folder of the scenario.")] = []
    objects: Annotated[list[dict[str, Any]], Meta(description="Manifests.")] = []


@dataclass(frozen=True, slots=True)
class ApplyObjects(Action):
    """These objects are created or replaced."""

    objects: tuple[Mapping[str, Any], ...]
    untraced: ClassVar[tuple[str, ...]] = ("objects",)

    def begin(self, stage: Stage, step: str) -> None:
        """Begin the command."""
        stage.cluster.admin.do(ApplyAll(self.objects))


def _check(context: UserContext, given: Apply) -> ApplyObjects:
    objects = context.objects(given.files, given.objects)
    context.known.add(objects)
    return ApplyObjects(tuple(objects))


KIND = StepKind(
    name="apply",
    parameters=Apply,
    check=_check,
    documentation="""
A person creates or replaces objects.""",
    example="""
- {at: 12m, apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "1"}}], files: []}}""",
)
