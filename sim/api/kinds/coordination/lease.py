"""Leases.

Mirrors  kubernetes v1.25 pkg/apis/coordination/validation/validation.go,
         pkg/registry/coordination/lease/strategy.go.
"""

from __future__ import annotations

from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import present
from sim.api.objects import get_in, name_of
from sim.api.schema.kind import Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, at_least_zero, invalid
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain, core=False) + _spec_errors(
        obj.get("spec") or {}
    )


def _spec_errors(spec: Obj) -> Errors:
    seconds, changes = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    errors: Errors = []
    if seconds is not None and seconds <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    return errors + at_least_zero("spec.leaseTransitions", changes)


def _validate_update(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"], core=False) + _spec_errors(
        new.get("spec") or {}
    )


def _fill_defaults(obj: Obj) -> Obj:
    return present(obj, {"spec": {}})


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), get_in(obj, ("spec", "holderIdentity"), ""), age(obj, now_us)]


KIND = Kind(
    rows=(Row("coordination", "v1", "leases", "Lease"),),
    strategy=Strategy(create_by_put=True, unconditional=False),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "Holder=spec.holderIdentity", AGE),
    cells=_cells,
)
