"""What the check of a user's action may use in addition to the check of a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sim.faults.shared.context import Context, Key
from sim.faults.shared.kinds import Action
from sim.scenario.read.source import Document, Path_

# The kind of an action within a step, the action, and how long its effect lasts (both ends of a
# range; None: without a known end).
Inner = tuple[str, Action, tuple[int, int] | None]


class UserContext(Context, Protocol):
    """The check of one step.  path: of the step's action in the document."""

    path: Path_

    @property
    def document(self) -> Document:
        """The scenario file."""
        ...

    def objects(self, files: Sequence[str], objects: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The objects of an `apply` step, those of files first."""
        ...

    def manifest(self, value: Any, key: str) -> Mapping[str, Any]:
        """One object that is written out in the scenario."""
        ...

    def acts_on_nodes(self, name: str, key: Key) -> bool:
        """True if the kind of step of this name has the parameter `nodes`."""
        ...

    def inner(self, name: str, body: Any, lasts: Any, key: Key) -> Inner:
        """An action within this step.  lasts: its `for`, None for none"""
        ...


def one_or_matching(context: Context, name: Any, selector: Any, verb: str) -> tuple[str, str]:
    """Name and selector of a target, of which exactly one is given."""
    if isinstance(name, str) == isinstance(selector, str) or name == "":
        raise context.error("", f"{verb} either one name or what a selector matches")
    return (name, "") if isinstance(name, str) else ("", selector)


def check_object(
    context: UserContext,
    resource: str,
    namespace: str,
    name: str,
    within: tuple[str, ...] = (),
    key: str = "name",
) -> None:
    """Check that the scenario makes an object.  within: keys that lead to the parameters; key: the
    parameter with the name
    """
    plural = context.resource(resource, (*within, "resource")).plural
    of_kind = context.known.of_kind(plural)
    if not of_kind:
        where = "resource" if key == "name" else key
        raise context.unknown((*within, where), f"no {plural} are made by this scenario")
    if (namespace, name) not in of_kind:
        near = ", ".join(f"{space}/{one}" for space, one in of_kind)
        raise context.unknown(
            (*within, key),
            f"no {plural} {namespace}/{name} is made by this scenario",
            f"there are: {near}",
        )
