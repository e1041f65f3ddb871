"""taint, untaint: a person adds taints to nodes, or removes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from msgspec import Meta

from actors.users import Taint as TaintCommand
from sim.api.kinds.common.taints import taint_errors
from sim.dataclass import dataclass
from sim.errors import suggestion_or_all
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Ends, Stage, StepKind, Undo
from sim.faults.shared.parameters import NodesField, Strict
from sim.scenario.actions.marks import change_marks
from sim.scenario.manifests.naming import translate

TAINT_KEYS = ("key", "value", "effect")


class Taint(Strict):
    """The parameters of `taint` and `untaint`."""

    nodes: NodesField
    taints: Annotated[
        list[dict[str, str]],
        Meta(
            description="As in the API: `{key, value, effect}`. To remove taints, the value is ignored, and"
            " no effect means each effect."
        ),
    ]


@dataclass(frozen=True, slots=True)
class TaintNodes(Action):
    """Taints are added or removed.

    taints: {key, value, effect}; an effect of "" means each effect, where they are removed
    on: True if they are added
    """

    nodes: tuple[str, ...]
    taints: tuple[Mapping[str, str], ...]
    on: bool
    picked: ClassVar[str] = "nodes"

    def begin(self, stage: Stage, step: str) -> Undo | None:
        """Begin the command; the result removes the taints."""
        add, remove = (self.taints, ()) if self.on else ((), self.taints)
        stage.cluster.admin.do(TaintCommand(self.nodes, add, remove))
        pairs = [(taint["key"], taint.get("effect", "")) for taint in self.taints]
        return change_marks(stage, step, [(node, pair) for node in self.nodes for pair in pairs], self.on)


def taints_problem(
    given: Sequence[Mapping[str, str]], removed: bool = False
) -> tuple[tuple[str | int, ...], str, str] | None:
    """The place of the first error, the error, and its remedy; None if there is none.

    removed: True if the taints are to be removed, which needs no effect
    """
    for index, taint in enumerate(given):
        for key in taint:
            if key not in TAINT_KEYS:
                return ("taints", index), f"unknown field {key!r}", suggestion_or_all(key, TAINT_KEYS)
    filled = [{"effect": "NoSchedule"} | {k: v for k, v in taint.items() if v} for taint in given]
    for error in taint_errors(filled if removed else given, "taints"):
        return ("taints",), f"{error.field}: {error.message}", ""
    return None


def _checked(context: Context, given: Taint, on: bool) -> TaintNodes:
    """The action of a step that adds taints to nodes, or removes them."""
    if not given.taints:
        raise context.error("taints", "there is none")
    if (problem := taints_problem(given.taints, removed=not on)) is not None:
        raise context.error(*problem)
    return TaintNodes(context.nodes(given.nodes), tuple(translate(given.taints, context.naming)), on)


def _check(context: Context, given: Taint) -> TaintNodes:
    return _checked(context, given, on=True)


KIND = StepKind(
    name="taint",
    parameters=Taint,
    check=_check,
    ends=Ends.LATER,
    documentation="""
A person adds taints to nodes. The end of the step removes those that no other step keeps.""",
    example="""
- {at: 15m, taint: {nodes: {zone: a}, taints: [{key: k, value: v, effect: NoExecute}]}, for: 5m}""",
)


def _check_opposite(context: Context, given: Taint) -> TaintNodes:
    return _checked(context, given, on=False)


OPPOSITE = StepKind(
    name="untaint",
    parameters=Taint,
    check=_check_opposite,
    documentation="""
A person removes taints from nodes.""",
    example="""
- {at: 16m, untaint: {nodes: {zone: a}, taints: [{key: k}]}}""",
)
