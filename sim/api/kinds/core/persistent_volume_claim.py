"""PersistentVolumeClaims.

Mirrors  kubernetes v1.25 pkg/registry/core/persistentvolumeclaim/strategy.go,
         pkg/apis/core/validation/validation.go: ValidatePersistentVolumeClaim and its updates;
         pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from sim.api.kinds.common import text
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.claims import claim_spec, shown_modes
from sim.api.kinds.common.errors import Errors, forbidden, immutable, invalid, required
from sim.api.kinds.common.fill import amounts, fill, present, within
from sim.api.kinds.common.metadata import object_meta, object_meta_update
from sim.api.kinds.common.pods.defaults import fill_claim_spec
from sim.api.kinds.common.pods.warnings import claim_warnings
from sim.api.kinds.common.status import PROBE_TIMES, fill_conditions
from sim.api.kinds.kind import NOTHING, STATUS, Cells, Deletion, Kind, Row, Strategy
from sim.api.kinds.quota_use import ONE, Amounts, QuotaUse, amounts_of
from sim.api.objects import get_in, is_deleting, name_of
from sim.api.types import Obj
from sim.ident import Names
from sim.units import quantity_nano, quantity_value

# --- defaults -------------------------------------------------------------------------------------


def fill_defaults(claim: Obj) -> Obj:
    """Defaults of a claim."""
    claim = within(present(claim, {"spec": {}, "status": {}}), "spec", fill_claim_spec)
    return within(claim, "status", _fill_status)


def _fill_status(status: Obj) -> Obj:
    status = within(fill(status, {"phase": "Pending"}), "capacity", amounts)
    return fill_conditions(within(status, "allocatedResources", amounts), PROBE_TIMES)


# --- strategy -------------------------------------------------------------------------------------


def _prepare_update(obj: Obj, old: Obj, names: Names) -> Obj:
    """The claim with the same dataSource and dataSourceRef.

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


def _is_claim_or_snapshot(source: Obj, names: Names) -> bool:
    known = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", names.group("snapshot.storage")))
    return (source.get("kind"), source.get("apiGroup") or "") in known


# --- validation -----------------------------------------------------------------------------------

_FORBIDDEN = "spec is immutable after creation except resources.requests for bound claims\n"


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + claim_spec(obj.get("spec") or {}, "spec")


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec is before:
        return errors
    errors += _validate_create(new)
    bound = (old.get("status") or {}).get("phase") == "Bound"
    was = dict(before)
    if not was.get("volumeName") and spec.get("volumeName"):
        was["volumeName"] = spec["volumeName"]  # set once, when the claim is bound
    if bound and spec.get("resources"):
        requests = spec["resources"].get("requests")
        was["resources"] = {**(was.get("resources") or {}), "requests": requests}
    if was != spec:
        errors.append(forbidden("spec", _FORBIDDEN))
    size, floor = (
        ((s.get("resources") or {}).get("requests") or {}).get("storage", "0") for s in (spec, before)
    )
    if quantity_nano(size) < quantity_nano(floor):
        detail = "field can not be less than previous value"
        errors.append(forbidden("spec.resources.requests.storage", detail))
    return errors + immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))


def _validate_status(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    if not new["metadata"].get("resourceVersion"):
        errors.append(required("ResourceVersion"))
    if not (new.get("spec") or {}).get("accessModes"):
        errors.append(required("Spec.accessModes"))
    for name, amount in ((new.get("status") or {}).get("capacity") or {}).items():
        value = quantity_value(amount)
        if value < 0:
            errors.append(invalid(f"status.capacity[{name}]", value, "must be a valid resource quantity"))
    return errors


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if is_deleting(obj) else status.get("phase", "")
    bound = spec.get("volumeName", "")
    capacity = get_in(status, ("capacity", "storage"), "") if bound else ""
    modes = shown_modes(status.get("accessModes") or ()) if bound else ""
    head = [name_of(obj), phase, bound, capacity, modes, spec.get("storageClassName") or ""]
    return [*head, age(obj, now_us), spec.get("volumeMode") or "<unset>"]


def _prepare_create(obj: Obj, names: Names) -> Obj:
    return _prepare_update(obj, NOTHING, names)


def _client_warnings(obj: Obj, _old: Obj | None, _: Names) -> Iterator[str]:
    return claim_warnings(obj.get("spec") or NOTHING, "spec")


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
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
    ),
    defaults=fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_status},
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
    client_warnings=_client_warnings,
    quota=QuotaUse(_owns, _usage, charges_updates=True),
)
