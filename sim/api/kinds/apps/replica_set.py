"""ReplicaSets.

Mirrors  kubernetes v1.25 pkg/registry/apps/replicaset/strategy.go,
         pkg/apis/apps/validation/validation.go: ValidateReplicaSet and its updates (an update
         checks the spec twice: its causes appear twice); pkg/apis/apps/v1/defaults.go.
"""

from __future__ import annotations

from functools import partial

from sim.api.kinds.common.fill import fill, present, within
from sim.api.kinds.common.pods.defaults import fill_template
from sim.api.kinds.common.pods.warnings import template_warnings
from sim.api.kinds.common.replicas import REPLICA_COLUMNS, replica_set_cells, validate_replica_status
from sim.api.kinds.common.status import fill_counters
from sim.api.kinds.common.workloads import (
    selector_errors,
    set_template_errors,
    spec_of,
)
from sim.api.schema.kind import SCALE, STATUS, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, at_least_zero
from sim.api.validation.metadata import immutable_selector, object_meta, object_meta_update


def _fill_defaults(obj: Obj) -> Obj:
    def spec(value: Obj) -> Obj:
        return within(present(fill(value, {"replicas": 1}), {"template": {}}), "template", fill_template)

    return fill_counters(within(present(obj, {"spec": {}}), "spec", spec), "replicas")


# --- validation -----------------------------------------------------------------------------------


def _spec_errors(spec: Obj) -> Errors:
    errors = at_least_zero("spec.replicas", spec.get("replicas"))
    errors += at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += selector_errors(spec, "deployment")
    return errors + set_template_errors(spec)


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _spec_errors(spec_of(obj))


def _validate_update(new: Obj, old: Obj) -> Errors:
    if new["metadata"] is not old["metadata"] or spec_of(new) is not spec_of(old):
        errors = _validate_create(new)
        errors += object_meta_update(new["metadata"], old["metadata"])
        errors += _spec_errors(spec_of(new))
        return errors + immutable_selector(spec_of(new).get("selector"), spec_of(old).get("selector"))
    return []


KIND = Kind(
    rows=(
        Row(
            "apps",
            "v1",
            "replicasets",
            "ReplicaSet",
            short=("rs",),
            categories=("all",),
            subs=(SCALE, STATUS),
        ),
    ),
    strategy=Strategy(status=True, zero_status={"replicas": 0}, generation="spec"),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": validate_replica_status},
    pod_spec=("spec", "template", "spec"),
    columns=REPLICA_COLUMNS,
    cells=replica_set_cells,
    client_warnings=partial(template_warnings, path=("spec", "template")),
)
