"""Errors of manifests that are known before the run.

Turns a manifest into the object that a server would store, as far as known without a cluster:
with defaults, and without fields that only servers set; and the object into its first field error
with the place in the file.

Holds: an error here is an error on every server. Errors that depend on the contents of the cluster
    (a missing namespace or class, quotas, a port in use, the object to change) appear in the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from sim.api.crd.objects import create_errors, shaped
from sim.api.crd.served import CustomResource
from sim.api.crd.structural_values import BadPart
from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.strategies import for_create
from sim.api.kinds.validation import validate_create
from sim.api.schema.decoding import decode
from sim.api.schema.field_schemas import SchemaNode
from sim.api.schema.field_validation import DecodeError
from sim.api.schema.resource import Resource
from sim.api.validation.errors import REQUIRED, Errors
from sim.errors import InputError, Problems, suggestion
from sim.ident import Names
from sim.patterns import pattern
from sim.scenario.read.source import Document, Path_, parts_of

SOME_UID = "00000000-0000-4000-8000-000000000000"
# Required fields that a server fills in.
ALLOCATED = ("spec.clusterIPs", "spec.healthCheckNodePort")
_FIELD = pattern(r'"([^"]+)"')


class Unsound(Exception):
    """A manifest is no object of its kind; the message says why."""


def typed(resource: Resource, manifest: dict[str, Any]) -> tuple[dict[str, Any], Sequence[str]]:
    """The manifest as an object of its kind, and its unknown fields in words.  Raises Unsound."""
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


def unknown_field(resource: Resource, problem: str, document: Document, path: Path_) -> InputError:
    """The error of an unknown field that `typed` reports: its place, and a similar field."""
    found = _FIELD.search(problem)
    if found is None:
        return document.error(path, problem)
    parts = parts_of(found[1])
    near = suggestion(str(parts[-1]), _fields_at(resource.schema, parts[:-1]))
    return InputError(problem, document.key_place((*path, *parts)), near)


def check_unknown(resource: Resource, problems: Sequence[str], document: Document, path: Path_) -> None:
    """Raise InputError with each unknown field that `typed` reports."""
    found = Problems()
    for problem in problems:
        found.add(unknown_field(resource, problem, document, path))
    found.report()


def _fields_at(schema: SchemaNode, parts: Sequence[str | int]) -> Sequence[str]:
    """The names of the fields at a path into objects of a schema."""
    at: SchemaNode | None = schema
    for part in parts:
        if at is not None:
            at = at.items if isinstance(part, int) else at.properties.get(part, at.values)
    return () if at is None else [*at.properties]


def check_patch(resource: Resource, merge: Mapping[str, Any], document: Document, path: Path_) -> None:
    """Check a merge patch for unknown fields, which servers drop.  Raises InputError."""
    if isinstance(resource, CustomResource):
        return
    try:
        _, problems = typed(resource, dict(merge))
    except Unsound as error:
        raise document.error(path, str(error)) from None
    check_unknown(resource, problems, document, path)


def missing(value: Mapping[str, Any], key: str, what: str, document: Document, path: Path_) -> InputError:
    """The error of a missing key, at the place of a similar key if there is one."""
    near = get_close_matches(key, value, n=1)
    place = document.key_place((*path, near[0])) if near else document.place(path)
    return InputError(f"the object has no {what}", place, f"did you mean {key!r}?" if near else "")


def completed(resource: Resource, obj: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """A typed object as a new object: in its namespace, with its defaults."""
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
    path: Path_,
    gates: Collection[str] = (),
) -> None:
    """Check a `completed` object.  Raises InputError at each wrong field.

    path: of its manifest in the document
    gates: features that are on at the servers although they are off by default
    """
    if misread := resource.behavior.misread:
        if problem := misread(dict(new)):
            raise document.error(path, problem)
    named = {**new, "metadata": {**new["metadata"], "uid": SOME_UID}}
    problems = Problems()
    for error in _errors(resource, named, names, gates):
        if error.type != REQUIRED or error.field not in ALLOCATED:
            place = document.place((*path, *parts_of(error.field)))
            problems.add(InputError(f"{error.field}: {error.message}", place))
    problems.report()


def _errors(resource: Resource, new: dict[str, Any], names: Names, gates: Collection[str]) -> Errors:
    if isinstance(resource, CustomResource):
        return create_errors(resource, new)
    return validate_create(resource, for_create(resource, new, names, gates), gates)
