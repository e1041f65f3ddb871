"""Types that several parts of the scenario's schema share: names, flags, and changes of objects."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from sim.faults.shared.parameters import Strict

Replicas = Annotated[int, Meta(ge=1, le=9)]
ReplicasOrNone = Annotated[int, Meta(ge=0, le=9)]
Name = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Label = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""The name of a step or an expectation.  It has no control characters, because XML cannot hold them."""
Flags = dict[str, Any]


class Matter(Strict):
    """A change of objects: one field names a resource, or `event` the reason of an Event."""

    created: str | UnsetType = UNSET
    deleted: str | UnsetType = UNSET
    removed: str | UnsetType = UNSET
    changed: str | UnsetType = UNSET
    event: str | UnsetType = UNSET
    where: dict[str, Any] = {}
