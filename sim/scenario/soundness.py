"""What an API server would refuse of a manifest, known before the run.

Turns a manifest into the object that a server would store of it, as far as it can be told without a cluster: with
defaults, and without what is nobody's to set; and that into the first field error with its place in the file.

Holds: what is refused here a server would refuse whatever its cluster holds; what depends on that (a namespace or a class
that is not there, quotas, a port that is taken, the object that is to be changed) is left to the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sim.errors import InputError
from sim.ident import Names
from sim.machinery.custom import CustomResource
from sim.machinery.custom_objects import create_errors, shaped
from sim.machinery.defaults import apply_defaults
from sim.machinery.fieldvalidation import DecodeError, decode
from sim.machinery.scheme import Resource
from sim.machinery.strategies import for_create
from sim.machinery.structural_values import BadPart
from sim.machinery.validation import validate_create
from sim.machinery.validation.errors import REQUIRED, Errors
from sim.scenario.source import Document

SOME_UID = "00000000-0000-4000-8000-000000000000"
ALLOCATED = ("spec.clusterIPs",)  # required fields that a server fills in from what its cluster has left
_PART = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|\.?([^.\[]+)")


class Unsound(Exception):
    """A manifest is no object of its kind, in words."""


def typed(resource: Resource, manifest: dict[str, Any]) -> tuple[dict[str, Any], Sequence[str]]:
    """The manifest as an object of its kind, and in words the fields that this does not have.  Raises Unsound."""
    if isinstance(resource, CustomResource):
        try:
            return shaped(resource, manifest)
        except BadPart as error:
            raise Unsound(str(error)) from None
    try:
        decoded = decode(resource, manifest)
    except DecodeError as error:
        raise Unsound(error.message.rpartition(f"as a {resource.kind}: ")[2]) from None
    return decoded.obj, decoded.problems


def completed(resource: Resource, obj: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """A typed object as a new one in the namespace where it goes, with its defaults."""
    metadata = dict(obj["metadata"])
    if resource.namespaced:
        metadata["namespace"] = metadata.get("namespace") or names.default_namespace
    else:
        metadata.pop("namespace", None)
    new = {**obj, "metadata": metadata}
    return new if isinstance(resource, CustomResource) else apply_defaults(resource, new)


def check(
    resource: Resource,
    new: Mapping[str, Any],
    names: Names,
    document: Document,
    path: tuple[str | int, ...],
) -> None:
    """InputError at the field of a `completed` object that is wrong, or at what should hold it.

    path: of its manifest in the document
    """
    named = {**new, "metadata": {**new["metadata"], "uid": SOME_UID}}
    for error in _errors(resource, named, names):
        if error.type != REQUIRED or error.field not in ALLOCATED:
            place = document.place((*path, *parts_of(error.field)))
            raise InputError(f"{error.field}: {error.message}", place)


def _errors(resource: Resource, new: dict[str, Any], names: Names) -> Errors:
    if isinstance(resource, CustomResource):
        return create_errors(resource, new)
    return validate_create(resource, for_create(resource.rule, new, names))


def parts_of(field: str) -> list[str | int]:
    """A field as errors name it, part by part: `spec.ports[0].name`, `metadata.labels[a.b/c]`; of [...] nothing is known."""
    found = _PART.findall(field)
    return [int(index) if index else key or name for index, key, name in found if key != "..."]
