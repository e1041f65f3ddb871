"""The two kinds that all custom resources share: without and with the subresource /status.

A custom resource takes its schema, columns and conversion from its definition (`sim.api.crd`), so
only the strategy is written here.

Mirrors  apiextensions-apiserver v1.25 pkg/registry/customresource/{strategy,status_strategy}.go.
Differs  numbers are not held to the range of int32. An update that changes nothing stores no
         defaults that came later. A body in protobuf is 400; upstream drops the connection.
"""

from __future__ import annotations

from sim.api.objects import with_field
from sim.api.schema.kind import NOTHING, Kind, Strategy
from sim.api.types import Obj
from sim.ident import Names


def _without_status(obj: Obj, _: Names) -> Obj:
    return with_field(obj, "status", None)


def _only_status(new: Obj, old: Obj, _: Names) -> Obj:
    """Quirk: a write to /status of a custom resource does not even change labels."""
    return with_field(old, "status", None if new.get("status") is NOTHING else new["status"])


CUSTOM = Kind(rows=(), strategy=Strategy(generation="content", unconditional=False))
CUSTOM_WITH_STATUS = Kind(
    rows=(),
    strategy=Strategy(
        status=True,
        zero_status=NOTHING,
        generation="content",
        unconditional=False,
        prepare_create=_without_status,
        prepare_status=_only_status,
    ),
)
