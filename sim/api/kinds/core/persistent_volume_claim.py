"""PersistentVolumeClaims.

Mirrors  kubernetes v1.25 pkg/registry/core/persistentvolumeclaim/strategy.go,
         pkg/apis/core/validation/validation.go: ValidatePersistentVolumeClaim and its updates;
         pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from sim.api.go.differences import difference
from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.claims import FOR_ONE_POD, claim_spec, class_of, shown_modes
from sim.api.kinds.common.pods.defaults import fill_claim
from sim.api.objects import annotations_of, get_in, is_deleting, name_of, remove_in
from sim.api.schema.kind import NOTHING, STATUS, Cells, Create, Deletion, Kind, Row, Strategy, Update
from sim.api.schema.quota_use import ONE, Amounts, QuotaUse, amounts_of
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    IMMUTABLE,
    Errors,
    among,
    forbidden,
    immutable,
    invalid,
    required,
    unsupported,
)
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import NAMES, Names
from sim.options.features.gates import (
    ANY_DATA_SOURCE,
    READ_WRITE_ONCE_POD,
    RECOVER_EXPANSION,
    RETROACTIVE_CLASS,
    is_on,
)
from sim.units import quantity_nano, quantity_value

# --- strategy -------------------------------------------------------------------------------------


def _same_sources(obj: Obj, old: Obj, names: Names) -> Obj:
    """The claim with the same dataSource and dataSourceRef, unless AnyVolumeDataSource is off.

    Quirk: a dataSource of any kind but two is dropped without an error.
    """
    spec = obj.get("spec") or NOTHING
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is None and ref is None:
        return obj
    kept = ref is not None or (old.get("spec") or NOTHING).get("dataSource") is not None
    if source is not None and not kept and not _is_claim_or_snapshot(source, names):
        return {**obj, "spec": {k: v for k, v in spec.items() if k != "dataSource"}}
    if source is None or ref is None:
        return {**obj, "spec": {**spec, "dataSource": source or ref, "dataSourceRef": ref or source}}
    return obj


def _prepared(new: Obj, old: Obj, names: Names, gates: Collection[str]) -> Obj:
    """The claim with its sources as both fields."""
    if is_on(gates, ANY_DATA_SOURCE):
        return _same_sources(new, old, names)
    new = remove_in(new, ("spec", "dataSourceRef"))
    source, before = get_in(new, ("spec", "dataSource")), old.get("spec") or NOTHING
    in_use = any(before.get(key) is not None for key in ("dataSource", "dataSourceRef"))
    if source is None or in_use or _is_claim_or_snapshot(source, names):
        return new
    return remove_in(new, ("spec", "dataSource"))


def _drop_expansion(new: Obj, old: Obj, _: Names, gates: Collection[str]) -> Obj:
    """Drop the record of an expansion that can be given up, a feature that is off."""
    for field in () if is_on(gates, RECOVER_EXPANSION) else ("allocatedResources", "resizeStatus"):
        if get_in(old, ("status", field)) is None:
            new = remove_in(new, ("status", field))
    return new


def _is_claim_or_snapshot(source: Obj, names: Names) -> bool:
    known = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", names.group("snapshot.storage")))
    return (source.get("kind"), source.get("apiGroup") or "") in known


# --- validation -----------------------------------------------------------------------------------

_CLASS_ANNOTATIONS = tuple(names.annotation_beta_storage_class for names in NAMES.values())
_RESIZE_STATES = (
    "",
    "ControllerExpansionFailed",
    "ControllerExpansionInProgress",
    "NodeExpansionFailed",
    "NodeExpansionInProgress",
    "NodeExpansionPending",
)
_FORBIDDEN = "spec is immutable after creation except resources.requests for bound claims\n"


def _validate_create(obj: Obj, for_one_pod: bool = False) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain)
    return errors + claim_spec(obj.get("spec") or {}, "spec", for_one_pod)


def _gated_rules(gates: Collection[str]) -> tuple[Create, Mapping[str, Update]]:
    update = partial(_validate_update, gates=gates)
    status = partial(_validate_status, recovers=is_on(gates, RECOVER_EXPANSION))
    create = partial(_validate_create, for_one_pod=is_on(gates, READ_WRITE_ONCE_POD))
    return create, {"": update, "status": status}


def _validate_update(new: Obj, old: Obj, gates: Collection[str] = ()) -> Errors:
    """Quirk: the strategy checks the object twice, so errors about it are listed twice."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    for_one_pod = is_on(gates, READ_WRITE_ONCE_POD) or FOR_ONE_POD in (before.get("accessModes") or ())
    errors = _validate_create(new, for_one_pod)
    errors = errors + object_meta_update(new["metadata"], old["metadata"]) + errors
    was, now = dict(before), dict(spec)
    if not was.get("volumeName") and spec.get("volumeName"):
        was["volumeName"] = spec["volumeName"]  # set once, when the claim is bound
    if is_on(gates, RETROACTIVE_CLASS) and _may_get_class(new, old):
        was["storageClassName"] = spec["storageClassName"]
    if _takes_annotated_class(new, old):
        del now["storageClassName"]
    else:
        errors += _class_annotation_errors(new, old)
    size, floor = (
        ((s.get("resources") or {}).get("requests") or {}).get("storage", "0") for s in (spec, before)
    )
    resources = spec.get("resources") or {}
    if get_in(new, ("status", "phase")) == "Bound" and resources.get("requests") is not None:
        now["resources"] = {**resources, "requests": {**resources["requests"], "storage": floor}}
    if was != now:
        changes = difference("core.PersistentVolumeClaimSpec", was, now)
        errors.append(forbidden("spec", _FORBIDDEN + changes))
    if quantity_nano(size) < quantity_nano(floor):
        detail = "field can not be less than previous value"
        recovers = is_on(gates, RECOVER_EXPANSION)
        capacity = get_in(old, ("status", "capacity", "storage"), "0")
        if recovers:
            detail = "field can not be less than status.capacity"
        if not recovers or quantity_nano(size) <= quantity_nano(capacity):
            errors.append(forbidden("spec.resources.requests.storage", detail))
    return errors + immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))


def _takes_annotated_class(new: Obj, old: Obj) -> bool:
    """True if the class that an annotation names becomes that of the spec
    (validateStorageClassUpgradeFromAnnotation).
    """
    if (old.get("spec") or {}).get("storageClassName") is not None:
        return False
    name, before = (new.get("spec") or {}).get("storageClassName"), annotations_of(old)
    return name is not None and any(
        key in before and before[key] == name == annotations_of(new).get(key, name)
        for key in _CLASS_ANNOTATIONS
    )


def _class_annotation_errors(new: Obj, old: Obj) -> Errors:
    errors: Errors = []
    for key in _CLASS_ANNOTATIONS:
        now = annotations_of(new).get(key, "")
        if now != annotations_of(old).get(key, ""):
            errors.append(invalid(f"metadata.annotations.{key}", now, IMMUTABLE))
    return errors


def _may_get_class(new: Obj, old: Obj) -> bool:
    """True if a claim without a class gets one, which its old annotation must not contradict
    (validateStorageClassUpgradeFromNil).
    """
    name = (new.get("spec") or {}).get("storageClassName")
    if name is None or (old.get("spec") or {}).get("storageClassName") is not None:
        return False
    return all(annotations_of(old).get(key, name) == name for key in _CLASS_ANNOTATIONS)


def _validate_status(new: Obj, old: Obj, recovers: bool = False) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    if not new["metadata"].get("resourceVersion"):
        errors.append(required("resourceVersion"))
    if not (new.get("spec") or {}).get("accessModes"):
        errors.append(required("Spec.accessModes"))
    for name, amount in ((new.get("status") or {}).get("capacity") or {}).items():
        value = quantity_value(amount)
        if value < 0:
            errors.append(invalid(f"status.capacity[{name}]", value, "must be a valid resource quantity"))
    return errors + _expansion_errors(new.get("status") or {}) if recovers else errors


def _expansion_errors(status: Obj) -> Errors:
    """Errors of the record of an expansion."""
    errors: Errors = []
    errors += among("status.resizeStatus", status.get("resizeStatus"), _RESIZE_STATES)
    for name, amount in (status.get("allocatedResources") or {}).items():
        value = quantity_value(amount)
        if name != "storage":
            shown = GoValue("core.ResourceName", name)
            errors.append(unsupported("status.allocatedResources", shown, ("storage",)))
        elif value < 0:
            at = f"status.allocatedResources[{name}]"
            errors.append(invalid(at, value, "must be a valid resource quantity"))
    return errors


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, names: Names) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if is_deleting(obj) else status.get("phase", "")
    bound = spec.get("volumeName", "")
    capacity = get_in(status, ("capacity", "storage"), "0") if bound else ""
    modes = shown_modes(status.get("accessModes") or ()) if bound else ""
    head = [name_of(obj), phase, bound, capacity, modes, class_of(obj, names)]
    return [*head, age(obj, now_us), spec.get("volumeMode") or "<unset>"]


# --- quotas (pkg/quota/v1/evaluator/core/persistent_volume_claims.go) -----------------------------


def _owns(name: str, names: Names) -> bool:
    by_class = f".storageclass.storage.{names.group_domain}/"
    return name in ("persistentvolumeclaims", "requests.storage") or by_class in name


def _usage(claim: Obj, names: Names) -> Amounts:
    spec = claim.get("spec") or {}
    out = {"persistentvolumeclaims": ONE}
    annotations = claim["metadata"].get("annotations") or {}
    by_class = annotations.get(names.annotation_beta_storage_class) or spec.get("storageClassName") or ""
    prefix = f"{by_class}.storageclass.storage.{names.group_domain}/"
    if by_class:
        out[prefix + "persistentvolumeclaims"] = ONE
    storage = amounts_of((spec.get("resources") or {}).get("requests")).get("storage")
    if storage is not None:
        out["requests.storage"] = storage
        if by_class:
            out[prefix + "requests.storage"] = storage
    return out


KIND = Kind(
    rows=(Row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",), subs=(STATUS,)),),
    deletion=Deletion(returns_object=True),
    strategy=Strategy(
        status=True,
        zero_status={"phase": "Pending"},
        completed_by_read=bool,  # by its phase, which is a default
    ),
    defaults=fill_claim,
    drop_disabled=_prepared,
    drop_disabled_status=_drop_expansion,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_status},
    gated_rules=_gated_rules,
    columns=(
        NAME,
        "Status=status.phase",
        "Volume=spec.volumeName",
        "Capacity=status.capacity",
        "Access Modes=status.accessModes",
        "StorageClass=spec.storageClassName",
        AGE,
        "*VolumeMode=spec.volumeMode",
    ),
    cells=_cells,
    quota=QuotaUse(_owns, _usage, charges_updates=True),
)
