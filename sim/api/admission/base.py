"""The parts of admission plugins: the attributes of a request, the view of the cluster, the
refusal.

Mirrors  kubernetes v1.25 apiserver pkg/admission/{attributes.go,errors.go,interfaces.go}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.ident import Names


class View(Protocol):
    """What plugins may read: the stored objects, by resource as `Scheme.resource` accepts it."""

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        """The object of that name; None if there is none."""

    def list(self, resource: str, namespace: str = "") -> Sequence[Obj]:
        """All objects, or those of a namespace."""


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """The request that is admitted.

    operation: create, update or delete; `old` is None on create
    warnings: warnings that plugins add to the reply
    """

    operation: str
    resource: Resource
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    old: Obj | None = None
    warnings: list[str] = msgspec.field(default_factory=list)


class Denial(msgspec.Struct, frozen=True):
    """A refusal: the parts of its Status."""

    code: int
    reason: str
    message: str
    details: Obj


class Plugin(Protocol):
    """One plugin of the chain."""

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True if requests of this kind go through `mutate`, which gets no others."""
        ...

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin leaves it (the same if nothing changes), or a refusal."""
        ...


@runtime_checkable
class ValidatingPlugin(Protocol):
    """A plugin that also checks the object as it will be stored."""

    def judges(self, operation: str, plural: str, subresource: str) -> bool:
        """True if requests of this kind go through `validate`, which gets no others."""
        ...

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """A refusal, or None."""
        ...


def forbidden(attributes: Attributes, text: str, name: str = "", causes: list[Obj] | None = None) -> Denial:
    """The refusal `pods "x" is forbidden: TEXT`, as upstream's admission.NewForbidden words it."""
    resource = attributes.resource
    name = name or attributes.name
    details: Obj = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    if causes:
        details["causes"] = causes
    return Denial(403, "Forbidden", f'{resource.group_resource} "{name}" is forbidden: {text}', details)


def is_pod(plural: str, subresource: str) -> bool:
    """True for requests to pods themselves, not to a subresource."""
    return plural == "pods" and not subresource


def is_mirror(names: Names, pod: Obj) -> bool:
    """True if a node agent made the pod to show a static pod."""
    return names.annotation_mirror_pod in (pod["metadata"].get("annotations") or ())


def name_of(attributes: Attributes, obj: Obj) -> str:
    """The name of an object in a refusal."""
    metadata = obj.get("metadata") or {}
    return attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
