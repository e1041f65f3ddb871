"""What several parts of the schema share: names, counts, the strict base, and things that happen to objects."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Replicas = Annotated[int, Meta(ge=1, le=9)]
Name = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Label = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""A name for people: of a step or an expectation.  Without control characters, which XML cannot hold."""
Amount = str | int | float
"""A quantity, as the API has them: 80Mi, 250m, 2, 1.5."""
Flags = dict[str, Any]
OneOrMore = str | list[str]


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A mapping of the file: unknown fields are refused."""


class Matter(Strict):
    """Something that happens to objects: one of these names a resource."""

    created: str | UnsetType = UNSET
    deleted: str | UnsetType = UNSET
    removed: str | UnsetType = UNSET
    changed: str | UnsetType = UNSET
    event: str | UnsetType = UNSET
    """Reason of an Event object recorded."""
    where: dict[str, Any] = {}
