"""The kinds of steps of a scenario, as their registry documents them.

Turns a `StepKind` into its name, paragraph, parameters and example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta

from sim.faults import FAULTS
from sim.faults.shared.kinds import Ends, StepKind
from sim.faults.shared.parameters import Strict
from sim.scenario.actions import KINDS

LASTS = "It lasts until `for` or `heal` ends it."


class Parameter(NamedTuple):
    """One parameter of a step.

    default: as the file has it; "required", or "" if the parameter may be left out
    """

    name: str
    default: str
    meaning: str


class StepPage(NamedTuple):
    """What a user reads of one kind of step.

    fault: True for a fault, False for a user's action
    documentation: one paragraph
    example: steps of a timeline, one line each
    """

    name: str
    fault: bool
    documentation: str
    parameters: tuple[Parameter, ...]
    example: str

    @property
    def summary(self) -> str:
        """The first sentence of the documentation."""
        return self.documentation.partition(". ")[0].removesuffix(".") + "."

    def to_json(self) -> dict[str, Any]:
        """The page as JSON."""
        return {**self._asdict(), "parameters": [each._asdict() for each in self.parameters]}


def step_pages() -> Mapping[str, StepPage]:
    """Every kind of step by name, in the order of the registry."""
    return {kind.name: page_of(kind) for kind in KINDS.values()}


def page_of(kind: StepKind) -> StepPage:
    """The page of one kind of step."""
    paragraph = " ".join(kind.documentation.split())
    if kind.ends is Ends.LATER:
        paragraph += f" {LASTS}"
    meanings = descriptions(kind.parameters)
    parameters = tuple(
        Parameter(field.encode_name, default_of(field), meanings[field.name])
        for field in msgspec.structs.fields(kind.parameters)
    )
    is_fault = any(kind is fault for fault in FAULTS)
    return StepPage(kind.name, is_fault, paragraph, parameters, kind.example.strip("\n"))


def descriptions(parameters: type[Strict]) -> dict[str, str]:
    """What each parameter means, by its name in Python."""
    hints = get_type_hints(parameters, include_extras=True)
    return {name: " ".join(_prose(hint)) for name, hint in hints.items()}


def _prose(hint: Any) -> Iterator[str]:
    if get_origin(hint) is Annotated:
        for meta in get_args(hint)[1:]:
            if isinstance(meta, Meta) and meta.description:
                yield meta.description
    if values := [f"`{value}`" for value in _literals(hint)]:
        yield f"One of {', '.join(values)}."


def _literals(hint: Any) -> Iterator[str]:
    """The values of a parameter that takes one of several texts."""
    for inner in get_args(hint):
        if get_origin(hint) is Literal:
            yield inner
        else:
            yield from _literals(inner)


def default_of(field: msgspec.structs.FieldInfo) -> str:
    """The default value as the file has it; "required", or "" if the parameter may be left out."""
    if field.required:
        return "required"
    if field.default in (UNSET, msgspec.NODEFAULT, ""):
        return ""
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
