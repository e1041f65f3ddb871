"""patch: a person changes objects by a JSON merge patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType

from actors.users import PatchAll
from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Stage, StepKind
from sim.faults.shared.parameters import Strict
from sim.scenario.actions.context import UserContext, one_or_matching
from sim.scenario.manifests import soundness
from sim.scenario.manifests.naming import translate


class Patch(Strict, kw_only=True):
    """The parameters of `patch`.  One of name and selector is given."""

    resource: Annotated[str, Meta(description="Plural of the kind.")]
    namespace: Annotated[str, Meta(description="Namespace of the objects.")] = "default"
    name: Annotated[str | UnsetType, Meta(description="Name of one object.")] = UNSET
    selector: Annotated[str | UnsetType, Meta(description="Labels of the objects.")] = UNSET
    merge: Annotated[dict[str, Any], Meta(description="The JSON merge patch.")]
    subresource: Annotated[str, Meta(description="The subresource to patch, as `status`.")] = ""


@dataclass(frozen=True, slots=True)
class PatchObjects(Action):
    """These objects get a merge patch."""

    resource: str
    namespace: str
    name: str
    selector: str
    merge: Mapping[str, Any]
    subresource: str | None = None
    untraced: ClassVar[tuple[str, ...]] = ("merge",)

    def begin(self, stage: Stage, step: str) -> None:
        """Begin the command."""
        chosen = self.resource, self.namespace, self.name, self.selector
        stage.cluster.admin.do(PatchAll(*chosen, self.merge, self.subresource or ""))


def _check(context: UserContext, given: Patch) -> PatchObjects:
    resource = context.resource(given.resource)
    name, selector = one_or_matching(context, given.name, given.selector, "patches")
    if not given.merge:
        raise context.error("merge", "an empty patch changes nothing")
    if given.subresource and resource.subresource(given.subresource) is None:
        raise context.error("subresource", f"{given.resource} have no {given.subresource}")
    merge = translate(given.merge, context.naming)
    assert isinstance(merge, dict)
    if given.subresource in ("", "status"):  # other subresources have other fields
        soundness.check_patch(resource, merge, context.document, (*context.path, "merge"))
    return PatchObjects(given.resource, given.namespace, name, selector, merge, given.subresource or None)


KIND = StepKind(
    name="patch",
    parameters=Patch,
    check=_check,
    documentation="""
A person changes one object, or all that match a selector, by a JSON merge patch.""",
    example="""
- {at: 13m, patch: {resource: nodes, name: node-a-0, merge: {spec: {taints: [{key: k, effect: NoExecute}]}}}}
- {at: 13m, patch: {resource: deployments, selector: app=web, merge: {spec: {paused: true}}}}""",
    drawn="""
- {patch: {resource: deployments, name: x, merge: {}}, values: {patch.name: deployments, patch.merge.spec.template.metadata.annotations.version: ["2", "3", "4"]}}
- {patch: {resource: statefulsets, name: x, merge: {}}, values: {patch.name: statefulsets, patch.merge.spec.template.metadata.annotations.version: ["2", "3", "4"]}}""",
)
