"""Tables: the rows kubectl prints, made by the server.

Turns objects into the `Table` of meta.k8s.io/v1: upstream's columns of the kind, one row of cells
for each object. Each kind brings its columns and cells (`Kind.columns`, `Kind.cells`).

Mirrors  kubernetes v1.25 pkg/printers/internalversion/printers.go, apimachinery pkg/api/meta/table.
Differs  columns carry a description only where it is that of a field of the schema.
"""

from __future__ import annotations

from functools import lru_cache

from sim.api.crd import tables as custom_tables
from sim.api.crd.served import CustomResource
from sim.api.kinds.conversion import form_of
from sim.api.objects import metadata_of, name_of
from sim.api.schema.field_schemas import definition_name, description
from sim.api.schema.kind import Cells
from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.ident import Names


@lru_cache(maxsize=128)
def columns(resource: Resource) -> list[Obj]:
    """columnDefinitions of a kind."""
    if isinstance(resource, CustomResource):
        return custom_tables.columns(resource)
    kind = resource.behavior
    group, version = kind.described_by or (resource.upstream_group, resource.version)
    name = definition_name(group, version, resource.kind)
    return [_column(text, name) for text in kind.columns]


def _column(text: str, definition: str) -> Obj:
    title, _, path = text.partition("=")
    title, _, type = title.partition(":")
    wide = title.startswith("*")
    title = title.removeprefix("*")
    return {
        "name": title,
        "type": "string" if type in ("", "name") else type,
        "format": "name" if "name" in (type, title.lower()) else "",
        "description": _described(path, definition),
        "priority": 1 if wide else 0,
    }


def _described(path: str, definition: str) -> str:
    """The description of a column: a text in quotes, or that of a field."""
    if path.startswith("'"):
        return path.strip("'")
    return description(definition, tuple(path.split("."))) if path else ""


def cells(resource: Resource, obj: Obj, now_us: int, names: Names) -> Cells:
    """The cells of one object."""
    if isinstance(resource, CustomResource):
        return custom_tables.cells(resource, obj, now_us)
    make = resource.behavior.cells
    if make is None:
        return [name_of(obj), metadata_of(obj).get("creationTimestamp")]
    form = form_of(resource, names)
    return make(obj if form is None else form.stored(obj), now_us, names)


def row(resource: Resource, obj: Obj, now_us: int, names: Names) -> Obj:
    """One row without its object, with the conditions that its kind gives it."""
    made: Obj = {"cells": cells(resource, obj, now_us, names)}
    conditions = resource.behavior.row_conditions
    if conditions is not None and (found := conditions(obj)):
        made["conditions"] = found
    return made
