"""What ReplicaSets and ReplicationControllers share: the checks of their status, and their table.

Mirrors  kubernetes v1.25 pkg/apis/apps/validation/validation.go: ValidateReplicaSetStatus;
         pkg/printers/internalversion/printers.go: printReplicaSet, printReplicationController.
"""

from __future__ import annotations

from sim.api.kinds.common.cells import AGE, NAME, SELECTOR, WIDE, age, container_cells, count
from sim.api.kinds.common.workloads import bound_errors, counter_errors
from sim.api.objects import get_in, name_of
from sim.api.schema.kind import Cells
from sim.api.selectors import format_selector
from sim.api.types import Obj
from sim.api.validation.errors import Errors
from sim.api.validation.metadata import object_meta_update
from sim.ident import Names

_COUNTERS = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
)


def validate_replica_status(new: Obj, old: Obj) -> Errors:
    """Errors of a write to /status of a ReplicaSet or ReplicationController."""
    status = new.get("status") or {}
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += counter_errors(status, _COUNTERS)
    detail = "cannot be greater than status.replicas"
    errors += bound_errors(
        status, ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"), "replicas", detail
    )
    return errors + bound_errors(
        status, ("availableReplicas",), "readyReplicas", "cannot be greater than readyReplicas"
    )


REPLICA_COLUMNS = (
    NAME,
    "Desired:integer=spec.replicas",
    "Current:integer=status.replicas",
    "Ready:integer=status.readyReplicas",
    AGE,
    *WIDE,
    SELECTOR,
)


def replica_set_cells(obj: Obj, now_us: int, _: Names) -> Cells:
    """The cells of a ReplicaSet."""
    numbers = [
        count(obj, "spec", "replicas"),
        count(obj, "status", "replicas"),
        count(obj, "status", "readyReplicas"),
    ]
    return [
        name_of(obj),
        *numbers,
        age(obj, now_us),
        *container_cells(obj),
        format_selector(get_in(obj, ("spec", "selector"))),
    ]
