"""The resources with requests that write templates serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sim.api.schema.resource import Resource

if TYPE_CHECKING:
    from sim.api.scheme.scheme import Scheme


class Kinds(NamedTuple):
    """The resources that there are templates for, by their plural."""

    pods: Resource
    events: Resource
    nodes: Resource
    leases: Resource
    csinodes: Resource

    @classmethod
    def of(cls, scheme: Scheme) -> Kinds:
        """The resources as a scheme serves them."""
        return cls(*map(scheme.resource, cls._fields))
