"""Tables of custom resources: the columns that their definition declares.

The JSON paths of a version and an object become cells.

Holds: a path that leads to no value, or to one of another type than its column's, gives an empty
cell (null).

Mirrors  apiextensions-apiserver v1.25 pkg/registry/customresource/tableconvertor/tableconvertor.go.
"""

from __future__ import annotations

import json
from typing import Any

from sim.api.crd.jsonpath import find
from sim.api.crd.served import Column, CustomResource
from sim.api.go.printing import go_float
from sim.api.objects import name_of
from sim.api.schema.field_schemas import OBJECT_META, description
from sim.api.types import Json, Obj
from sim.units import human_duration, parse_time

_AGE = "creationTimestamp"


def _columns(resource: CustomResource) -> tuple[Column, ...]:
    """The columns of the definition; the age if it declares none."""
    age = Column("Age", "date", f".metadata.{_AGE}", "", description(OBJECT_META, (_AGE,)))
    return resource.columns or (age,)


def columns(resource: CustomResource) -> list[Obj]:
    """columnDefinitions."""
    name = Column("Name", "string", "", "name", description(OBJECT_META, ("name",)))
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in (name, *_columns(resource))
    ]


def cells(resource: CustomResource, obj: Obj, now_us: int) -> list[Any]:
    """The cells of one object."""
    return [name_of(obj), *(_cell(column, obj, now_us) for column in _columns(resource))]


def _cell(column: Column, obj: Obj, now_us: int) -> Any:
    try:
        found = find(column.path, obj)
    except ValueError:
        return None
    if not found or found[0] is None:
        return "<no value>" if found and column.type == "string" else None
    value = found[0]  # Quirk: only the first of several
    if column.type == "string":
        return _text(value)
    if column.type == "date":
        return _age(value, now_us)
    if column.type == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if column.type == "integer":
        return int(value)
    number = float(value)
    return int(number) if isinstance(value, int) else number


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return go_float(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _age(value: Json, now_us: int) -> str | None:
    if not isinstance(value, str):
        return None
    if not value:
        return "<unknown>"
    try:
        return human_duration(now_us - parse_time(value))
    except (ValueError, OverflowError):
        return "<invalid>"
