"""The zero value of a kind: what Go's encoder writes for an object of which nothing is set.

Turns the schema of a type into the fields that are always written: structs, times that are no
pointers, and required fields.

Holds: fields are in the order of their field numbers, which is that of Go's structs.

Mirrors  encoding/json of Go (omitempty leaves out no struct); kubernetes v1.25 staging api
         */types.go; conversions of the internal types, of which some hold numbers where the
         versioned type has pointers (pkg/apis/apps/v1/conversion.go: replicas).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sim.api.protobuf.numbers import numbers, short_name
from sim.api.schema.field_schemas import OBJECT_META, SchemaNode, is_pointer
from sim.api.types import Obj

_ZEROS = {"string": "", "boolean": False, "integer": 0, "number": 0, "quantity": "0", "int-or-string": 0}
# Pointers that a conversion of the internal type sets, since that holds a number.
_CONVERTED = {
    "apps.v1.DeploymentSpec": ("replicas",),
    "apps.v1.ReplicaSetSpec": ("replicas",),
    "apps.v1.StatefulSetSpec": ("replicas",),
    "core.v1.ReplicationControllerSpec": ("replicas",),
}
# Optional fields that Go writes, in types that the server fills in otherwise.
_NULLS = {
    "apiextensions.v1.CustomResourceDefinitionStatus": ("conditions", "storedVersions"),
    "autoscaling.v2.HorizontalPodAutoscalerStatus": ("currentMetrics",),
    "autoscaling.v2beta2.HorizontalPodAutoscalerStatus": ("currentMetrics", "conditions"),
    "discovery.v1.EndpointSlice": ("ports",),
}
_ZERO_WRITTEN = {
    "flowcontrol.v1beta1.FlowSchemaSpec": ("matchingPrecedence",),
    "flowcontrol.v1beta2.FlowSchemaSpec": ("matchingPrecedence",),
}
_OF_EVERY_KIND = ("apiVersion", "kind")


@lru_cache(maxsize=256)
def zero_value(node: SchemaNode) -> Obj:
    """The fields that an encoder writes for the zero of a struct, without version and kind."""
    if node.name == OBJECT_META:
        return {"creationTimestamp": None}
    columns = numbers().get(short_name(node.name), {}).values()
    known = [column.field for column in columns if column.field in node.properties]
    fields = dict.fromkeys([*known, *node.properties])
    made: Obj = {}
    for field in fields:
        if not (field in _OF_EVERY_KIND and "metadata" in node.properties):
            _write(node, field, made)
    return made


def _write(node: SchemaNode, field: str, made: Obj) -> None:
    """Add a field, if the encoder writes it."""
    below = node.properties[field]
    name = short_name(node.name)
    required = field in (*node.required, *node.written, *_ZERO_WRITTEN.get(name, ()))
    if field in (*node.nulls, *_NULLS.get(name, ())):
        made[field] = None
    elif field in _CONVERTED.get(name, ()):
        made[field] = 0
    elif is_pointer(node, field):
        if field in node.required:
            made[field] = None
    elif below.type == "object":
        made[field] = zero_value(below)
    elif below.type in ("time", "micro-time"):
        made[field] = None
    elif below.type in ("quantity", "int-or-string") or required:
        zero: Any = _ZEROS.get(below.type)
        made[field] = None if below.format == "byte" else zero
