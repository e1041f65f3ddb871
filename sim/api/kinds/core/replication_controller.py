"""ReplicationControllers.

Mirrors  kubernetes v1.25 pkg/registry/core/replicationcontroller/strategy.go,
         pkg/apis/core/validation/validation.go: ValidateReplicationController;
         pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from sim.api.go.printing import STRING_MAP, GoValue
from sim.api.kinds.common.fill import fill, present, within
from sim.api.kinds.common.pods.defaults import fill_template
from sim.api.kinds.common.pods.spec import template
from sim.api.kinds.common.pods.warnings import (
    keeps_generation,
    template_at,
    template_warnings,
    warnings_of_template,
)
from sim.api.kinds.common.replicas import REPLICA_COLUMNS, replica_set_cells, validate_replica_status
from sim.api.kinds.common.status import fill_counters
from sim.api.kinds.common.workloads import MISMATCH, always_running_errors, read_only_disk_errors, spec_of
from sim.api.objects import get_in
from sim.api.schema import quota_use
from sim.api.schema.kind import SCALE, STATUS, Cells, Kind, Row, Scaling, Strategy
from sim.api.selectors import format_labels
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, at_least_zero, invalid, required
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names


def _fill_defaults(obj: Obj) -> Obj:
    obj = present(obj, {"spec": {}})
    labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels:  # selector and labels default to the labels of the template
        obj = within(obj, "spec", lambda spec: spec if spec.get("selector") else {**spec, "selector": labels})
        obj = within(
            obj, "metadata", lambda given: given if given.get("labels") else {**given, "labels": labels}
        )
    obj = within(obj, "spec", lambda spec: within(fill(spec, {"replicas": 1}), "template", fill_template))
    return fill_counters(obj, "replicas")


def _spec_errors(spec: Obj) -> Errors:
    errors = at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    selector, given = spec.get("selector"), spec.get("template")
    if not selector:
        errors.append(required("spec.selector"))
    errors += at_least_zero("spec.replicas", spec.get("replicas"))
    if given is None:
        return [*errors, required("spec.template")]
    found = (given.get("metadata") or {}).get("labels")
    if any((found or {}).get(key) != value for key, value in (selector or {}).items()):
        errors.append(invalid("spec.template.metadata.labels", GoValue(STRING_MAP, found), MISMATCH))
    errors += template(given, "spec.template")
    return (
        errors
        + read_only_disk_errors(spec, spec.get("replicas") or 0)
        + always_running_errors(spec, "ReplicationController")
    )


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _spec_errors(spec_of(obj))


def _validate_update(new: Obj, old: Obj) -> Errors:
    if new["metadata"] is old["metadata"] and spec_of(new) is spec_of(old):
        return []
    return (
        _validate_create(new)
        + object_meta_update(new["metadata"], old["metadata"])
        + _spec_errors(spec_of(new))
    )


def _cells(obj: Obj, now_us: int, names: Names) -> Cells:
    return [*replica_set_cells(obj, now_us, names)[:-1], format_labels(get_in(obj, ("spec", "selector")))]


def _client_warnings(obj: Obj, old: Obj | None, names: Names) -> list[str]:
    """Quirk: the warnings of an update are about the old template, and only they name the spec."""
    if old is None:
        return list(warnings_of_template(template_at(obj, _TEMPLATE), "template.", names))
    return template_warnings(old, None, names, _TEMPLATE) if not keeps_generation(obj, old) else []


_TEMPLATE = ("spec", "template")

KIND = Kind(
    rows=(
        Row(
            "",
            "v1",
            "replicationcontrollers",
            "ReplicationController",
            short=("rc",),
            categories=("all",),
            subs=(SCALE, STATUS),
        ),
    ),
    scaling=Scaling(plain_selector=True),
    strategy=Strategy(
        status=True, zero_status={"replicas": 0}, generation="spec", default_propagation="Orphan"
    ),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": validate_replica_status},
    pod_spec=(*_TEMPLATE, "spec"),
    columns=REPLICA_COLUMNS,
    cells=_cells,
    client_warnings=_client_warnings,
    quota=quota_use.named("replicationcontrollers"),
)
