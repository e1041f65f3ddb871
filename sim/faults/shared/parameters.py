"""Types of the parameters that the steps of a scenario take.

Each step is a mapping in the file.  A subclass of `Strict` describes it: the fields with their
types and defaults, and the meaning of each field as `Meta(description=...)`, from which the page
for authors of scenarios is generated.  Field names are camelCase in the file (`apiServer`).
Durations are text.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Amount = str | int | float
"""A quantity in the notations of the API: 80Mi, 250m, 2, 1.5."""
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
OneOrMore = str | list[str]
Pick = Annotated[int, Meta(ge=1, le=20_000)]
Way = Literal["not-yet", "healthy"]
Among = Annotated[
    Way | list[Way] | UnsetType,
    Meta(
        description="What `pick` draws from: `not-yet`, what the step has not drawn so far, and `healthy`, what is in "
        "order; or both; default all."
    ),
]
Share = Annotated[float, Meta(ge=0, lt=1)]


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A mapping of the file; an unknown field is an error."""


class Nodes(Strict):
    """A selection of nodes: those that match every part given.

    count: keeps the first nodes by name
    pick: keeps nodes that are drawn at random for each occurrence, a number or a share
    among: what these are drawn from
    """

    zone: OneOrMore | UnsetType = UNSET
    name: OneOrMore | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    count: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    pick: Pick | str | UnsetType = UNSET
    among: Among = UNSET


class OfProcesses(Strict):
    """The parameters of every fault of processes."""

    actor: Annotated[
        OneOrMore, Meta(description="A process, a group of processes, or the present leader of a component.")
    ]
    pick: Annotated[
        Pick | str | UnsetType,
        Meta(description="How many processes are drawn at random each time: `1`, `50%` or `0%..50%`."),
    ] = UNSET
    among: Among = UNSET


NodesField = Annotated[Nodes, Meta(description="The nodes.")]
ApiServers = Annotated[OneOrMore, Meta(description="The API servers: one, several, or `apiserver` for all.")]
