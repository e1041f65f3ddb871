"""Defaults: values of fields that a client left out.

Turns a decoded object into the same object with upstream's defaults, and with the members that
upstream's encoding writes even when they are empty.  Each kind brings its own (`Kind.defaults`).

Holds: path copy only; the same object is returned if nothing is missing; defaulting twice is
defaulting once.

Mirrors  kubernetes v1.25 pkg/apis/*/*/defaults.go.
Differs  defaults that depend on the naming set are filled in by the strategy
         (`Strategy.fill_named`).
"""

from __future__ import annotations

from collections.abc import Collection

from sim.api.schema.resource import Resource
from sim.api.types import Obj


def apply_defaults(resource: Resource, obj: Obj, subresource: str = "") -> Obj:
    """The object with the defaults of its kind; the same object where nothing was missing.

    subresource: of the write; parts that the write takes from the stored object are left as they
    are
    """
    kind = resource.behavior
    fill = kind.defaults
    if subresource == "status" and kind.status_defaults is not None:
        fill = kind.status_defaults
    if fill is None:
        return obj
    filled: Obj = fill(obj)
    return filled


def with_gated_defaults(resource: Resource, obj: Obj, gates: Collection[str]) -> Obj:
    """The object with the defaults of fields behind gates that are on, besides those that its kind
    always has.
    """
    fill = resource.behavior.gated_defaults
    return obj if fill is None else fill(obj, gates)
