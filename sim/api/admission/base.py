"""What admission plugins are made of: what is asked, what they may read, how they refuse.

Mirrors  kubernetes v1.25 apiserver pkg/admission/{attributes.go,errors.go,interfaces.go}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from sim.api.schema.resource import Resource
from sim.api.types import Obj


class View(Protocol):
    """What plugins may read: the stored objects, by resource as `Scheme.resource` takes it."""

    def get(self, resource: str, namespace: str, name: str) -> Obj | None: ...
    def list(self, resource: str, namespace: str = "") -> Sequence[Obj]: ...


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for.

    operation: create, update or delete; `old` is None on create
    warnings: what plugins that let the request through add to its answer
    """

    operation: str
    resource: Resource
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    old: Obj | None = None
    warnings: list[str] = msgspec.field(default_factory=list)


class Denial(msgspec.Struct, frozen=True):
    """A refusal: what its Status needs."""

    code: int
    reason: str
    message: str
    details: Obj


class Plugin(Protocol):
    """One plugin of the chain; some also `validate`.

    concerns: whether requests of this kind are its business; `mutate` is asked about no others.
    """

    def concerns(self, operation: str, plural: str, subresource: str) -> bool: ...
    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial: ...


def forbidden(attributes: Attributes, text: str, name: str = "", causes: list[Obj] | None = None) -> Denial:
    """403 `pods "x" is forbidden: TEXT`, naming the object as upstream's admission.NewForbidden does."""
    resource = attributes.resource
    name = name or attributes.name
    details: Obj = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    if causes:
        details["causes"] = causes
    return Denial(403, "Forbidden", f'{resource.group_resource} "{name}" is forbidden: {text}', details)


def name_of(attributes: Attributes, obj: Obj) -> str:
    metadata = obj.get("metadata") or {}
    return attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
