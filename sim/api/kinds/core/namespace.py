"""Namespaces.

Mirrors  kubernetes v1.25 pkg/registry/core/namespace/strategy.go,
         pkg/apis/core/validation/validation.go: ValidateNamespace and its updates;
         pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import fill, present, within
from sim.api.kinds.common.status import fill_status_conditions
from sim.api.objects import get_in, name_of, with_field, with_metadata
from sim.api.schema.kind import NOTHING, STATUS, Cells, Deletion, Kind, Row, Strategy, Sub
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, invalid
from sim.api.validation.metadata import core_finalizer, object_meta, object_meta_update
from sim.ident import Names


def _fill_defaults(obj: Obj) -> Obj:
    obj = within(present(obj, {"spec": {}, "status": {}}), "status", lambda s: fill(s, {"phase": "Active"}))
    return fill_status_conditions(obj)


# --- strategy -------------------------------------------------------------------------------------


def _prepare_create(obj: Obj, names: Names) -> Obj:
    spec = obj.get("spec") or NOTHING
    finalizers = spec.get("finalizers") or []
    if names.finalizer_namespace not in finalizers:
        finalizers = [*finalizers, names.finalizer_namespace]
    return {**obj, "spec": {**spec, "finalizers": finalizers}}


def fill_name_label(obj: Obj, names: Names) -> Obj:
    """The namespace with the label that holds its name, and that no write can remove."""
    metadata = obj["metadata"]
    name, labels = metadata.get("name", ""), metadata.get("labels") or NOTHING
    if not name or labels.get(names.label_metadata_name) == name:
        return obj
    return with_metadata(obj, labels={**labels, names.label_metadata_name: name})


def _prepare_update(new: Obj, old: Obj, _: Names) -> Obj:
    return with_field(new, "spec", old.get("spec"))


def _prepare_finalize(new: Obj, old: Obj, _: Names) -> Obj:
    """Prepare a write to /finalize, the only one that changes spec.finalizers."""
    finalizers = (new.get("spec") or NOTHING).get("finalizers")
    spec = {"finalizers": finalizers} if finalizers else NOTHING
    return {**new, "spec": spec, "status": old.get("status")}


# --- validation -----------------------------------------------------------------------------------


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.label)
    for name in (obj.get("spec") or {}).get("finalizers") or ():
        errors += core_finalizer(name, "spec.finalizers")
    return errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    """Quirk: the strategy checks the object as a new one too."""
    return _validate_create(new) + object_meta_update(new["metadata"], old["metadata"])


def _validate_status(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    phase = (new.get("status") or {}).get("phase", "")
    if new["metadata"].get("deletionTimestamp"):
        if phase != "Terminating":
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            errors.append(invalid("status.Phase", phase, detail))
    elif phase != "Active":
        errors.append(invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty"))
    return errors


def _validate_finalize(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    for i, name in enumerate((new.get("spec") or {}).get("finalizers") or ()):
        errors += core_finalizer(name, f"spec.finalizers[{i}]")
    return errors


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), get_in(obj, ("status", "phase"), ""), age(obj, now_us)]


def _mark(old: Obj, marked: Obj, _: Names, _now_text: str) -> Obj:
    """A deleted namespace is terminating (pkg/registry/core/namespace/storage: Delete)."""
    if get_in(old, ("status", "phase")) == "Terminating":
        return marked
    return {**marked, "status": {**(marked.get("status") or {}), "phase": "Terminating"}}


KIND = Kind(
    rows=(
        Row(
            "",
            "v1",
            "namespaces",
            "Namespace",
            namespaced=False,
            short=("ns",),
            verbs="cdglpuw",
            subs=(Sub("finalize", "u"), STATUS),
        ),
    ),
    deletion=Deletion(compares_itself=True, kept_by_spec=True, mark=_mark),
    strategy=Strategy(
        status=True,
        zero_status={"phase": "Active"},
        fill_named=fill_name_label,
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        prepare_subresource={"finalize": _prepare_finalize},
    ),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "finalize": _validate_finalize, "status": _validate_status},
    columns=(NAME, "Status", AGE),
    settle=fill_name_label,
    cells=_cells,
)
