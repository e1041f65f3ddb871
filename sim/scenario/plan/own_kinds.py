"""Kinds that a scenario defines itself, and remedies for kinds that do not exist.

Turns the CustomResourceDefinitions among a scenario's objects into the kinds by which later objects
are checked, before the run.

Holds: a definition counts for the objects after it, in the order in which objects are applied. The
    check assumes that its names will be accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.crd.served import Served
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.errors import InputError, suggestion, suggestion_or_all

_ACCEPTED = {"conditions": [{"type": kind, "status": "True"} for kind in ("NamesAccepted", "Established")]}


class Planned:
    """The custom resources of the definitions that the scenario applies (`Scheme.more`)."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}
        self.served = Served()

    def add(self, scheme: Scheme, obj: Mapping[str, Any]) -> None:
        """Note an object; only definitions count."""
        resource = scheme.by_kind(obj["apiVersion"], obj["kind"])
        if resource is not None and resource.rule == "customresourcedefinitions":
            self._found[obj["metadata"]["name"]] = {**obj, "status": _ACCEPTED}
            self.served = Served(self._found.values())


def resource_named(scheme: Scheme, name: str) -> Resource:
    """The resource with this plural, perhaps with its group.  Raises InputError."""
    try:
        return scheme.resource(name)
    except KeyError:
        plurals = [resource.plural for resource in scheme.resources]
    remedy = suggestion(name, plurals, "write the plural, such as pods")
    raise InputError(f"there is no resource {name!r}", "", remedy)


def kind_remedy(scheme: Scheme, kind: str) -> str:
    """The remedy for an unknown kind: the versions that have it, or kinds with a similar name."""
    new = [resource for resource in scheme.resources if "create" in resource.verbs]
    versions = [resource.api_version for resource in new if resource.kind == kind]
    if versions:
        return f"it is in {', '.join(dict.fromkeys(versions))}"
    return suggestion_or_all(kind, sorted({resource.kind: None for resource in new}))
