"""The spec of a volume claim, alone or in a pod.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidatePersistentVolumeClaimSpec.
Differs  sources that do not match are shown by their path, where upstream shows memory addresses.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.api.go.printing import GoValue
from sim.api.objects import annotations_of, get_in
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, among, checked, forbidden, invalid, required, unsupported
from sim.api.validation.metadata import label_selector
from sim.ident import Names
from sim.units import quantity_nano, quantity_text

FOR_ONE_POD = "ReadWriteOncePod"  # behind the gate of the same name
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce")
_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def shown_modes(modes: Collection[str]) -> str:
    """Access modes as tables show them."""
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in modes)


def class_of(volume: Obj, names: Names) -> str:
    """The class of a volume or a claim; "" if it has none.  The older annotation wins."""
    annotation = annotations_of(volume).get(names.annotation_beta_storage_class)
    return annotation if annotation is not None else get_in(volume, ("spec", "storageClassName")) or ""


def access_mode_errors(modes: Collection[str], at: str, for_one_pod: bool) -> Errors:
    """Errors of access modes.  for_one_pod: True if ReadWriteOncePod is allowed"""
    allowed = (*ACCESS_MODES, FOR_ONE_POD) if for_one_pod else ACCESS_MODES
    errors = [unsupported(at, mode, allowed) for mode in modes if mode not in allowed]
    if FOR_ONE_POD in modes and any(mode in ACCESS_MODES for mode in modes):
        errors.append(forbidden(at, "may not use ReadWriteOncePod with other access modes"))
    return errors


def claim_spec(spec: Obj, field: str, for_one_pod: bool = False) -> Errors:
    """Errors of the spec of a volume claim.  for_one_pod: as for `access_mode_errors`"""
    errors: Errors = []
    modes = spec.get("accessModes") or ()
    if not modes:
        errors.append(required(f"{field}.accessModes", "at least 1 access mode is required"))
    errors += label_selector(spec.get("selector"), f"{field}.selector")
    errors += access_mode_errors(modes, f"{field}.accessModes", for_one_pod)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    at = f"{field}.resources[storage]"
    if size is None:
        errors.append(required(at))
    elif quantity_nano(size) <= 0:
        errors.append(invalid(at, quantity_text(size), "must be greater than zero"))
    errors += checked(f"{field}.storageClassName", spec.get("storageClassName") or None, text.subdomain)
    errors += among(f"{field}.volumeMode", spec.get("volumeMode"), ("Block", "Filesystem"))
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        errors += _data_source(source, f"{field}.dataSource")
    if ref is not None:
        errors += _data_source(ref, f"{field}.dataSourceRef")
    if source is not None and ref is not None and source != ref:
        errors.append(
            invalid(
                field,
                GoValue("field.Path", {"name": "dataSource", "parent": field}),
                "must match dataSourceRef",
            )
        )
    return errors


def _data_source(source: Obj, field: str) -> Errors:
    errors = [required(f"{field}.{key}") for key in ("name", "kind") if not source.get(key)]
    if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
        errors.append(invalid(field, source.get("kind", ""), ""))
    return errors
