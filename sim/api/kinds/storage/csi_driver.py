"""CSIDrivers.

Mirrors  kubernetes v1.25 pkg/registry/storage/csidriver/strategy.go,
         pkg/apis/storage/validation/validation.go: ValidateCSIDriver and its update;
         pkg/apis/storage/v1/defaults.go; pkg/printers/internalversion/printers.go: printCSIDriver.
Quirk    attachRequired has another name in the errors of an update.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import fill, present, within
from sim.api.objects import get_in, name_of, remove_in, with_metadata
from sim.api.schema.kind import Cells, Deletion, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, duplicate, immutable, invalid, unsupported
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names
from sim.options.features.gates import SELINUX_MOUNT

_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
}


def _fill_defaults(obj: Obj) -> Obj:
    return within(present(obj, {"spec": {}}), "spec", _fill_spec)


def _fill_spec(spec: Obj) -> Obj:
    spec = present(spec, _DEFAULTS)
    return spec if spec.get("volumeLifecycleModes") else {**spec, "volumeLifecycleModes": ["Persistent"]}


def _fill_gated(obj: Obj, gates: Collection[str]) -> Obj:
    if SELINUX_MOUNT not in gates:
        return obj
    return within(obj, "spec", lambda spec: fill(spec, {"seLinuxMount": False}))


# --- strategy -------------------------------------------------------------------------------------

_MOUNT = ("spec", "seLinuxMount")
_COUNTED = ("tokenRequests", "requiresRepublish")


def _drop_disabled(new: Obj, old: Obj, _: Names, gates: Collection[str]) -> Obj:
    unused = get_in(old, _MOUNT) is None and get_in(new, _MOUNT) is not None
    return remove_in(new, _MOUNT) if unused and SELINUX_MOUNT not in gates else new


def _prepare_update(new: Obj, old: Obj, _: Names) -> Obj:
    """The driver with the next generation if a field that may change has changed."""
    mounts = get_in(new, _MOUNT) == get_in(old, _MOUNT)
    if mounts and all((new["spec"].get(f) or None) == (old["spec"].get(f) or None) for f in _COUNTED):
        return new
    return with_metadata(new, generation=old["metadata"].get("generation", 0) + 1)


# --- validation -----------------------------------------------------------------------------------

POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
MODES = ("Persistent", "Ephemeral")
TOKEN_SECONDS_MIN = 600
TOKEN_SECONDS_MAX = 1 << 32


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], False, text.subdomain) + _spec_errors(obj["spec"])


def _validate_update(new: Obj, old: Obj) -> Errors:
    spec, before = new["spec"], old["spec"]
    errors = object_meta_update(new["metadata"], old["metadata"]) + _spec_errors(spec)
    for field in ("attachRequired", "fsGroupPolicy", "podInfoOnMount"):
        at = f"spec.{'attachedRequired' if field == 'attachRequired' else field}"
        errors += immutable(at, spec[field], before[field])
    modes = spec["volumeLifecycleModes"]
    shown = GoValue("[]storage.VolumeLifecycleMode", modes)
    errors += immutable("spec.volumeLifecycleModes", modes, before["volumeLifecycleModes"], shown)
    return errors + _token_errors(spec)  # Quirk: a second time


def _spec_errors(spec: Obj) -> Errors:
    errors: Errors = []
    policy = spec["fsGroupPolicy"]
    if policy not in POLICIES:
        errors.append(unsupported("spec.fsGroupPolicy", policy, POLICIES))
    errors += _token_errors(spec)
    for mode in spec["volumeLifecycleModes"]:
        if mode not in MODES:
            errors.append(unsupported("spec.volumeLifecycleModes", mode, MODES))
    return errors


def _token_errors(spec: Obj) -> Errors:
    errors: Errors = []
    met: dict[str, None] = {}
    for i, request in enumerate(spec.get("tokenRequests") or ()):
        at, audience = f"spec.tokenRequests[{i}]", request.get("audience") or ""
        if audience in met:
            errors.append(duplicate(f"{at}.audience", audience))
            continue
        met[audience] = None
        seconds, where = request.get("expirationSeconds"), f"{at}.expirationSeconds"
        if seconds is not None and seconds < TOKEN_SECONDS_MIN:
            errors.append(invalid(where, seconds, "may not specify a duration less than 10 minutes"))
        if seconds is not None and seconds > TOKEN_SECONDS_MAX:
            errors.append(invalid(where, seconds, "may not specify a duration larger than 2^32 seconds"))
    return errors


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    spec = obj.get("spec") or {}
    requests, modes = spec.get("tokenRequests"), spec.get("volumeLifecycleModes")
    audiences = "<unset>" if requests is None else ",".join(r.get("audience") or "" for r in requests)
    return [
        name_of(obj),
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        audiences,
        bool(spec.get("requiresRepublish")),
        ",".join(modes) if modes else "<none>",
        age(obj, now_us),
    ]


KIND = Kind(
    rows=(Row("storage", "v1", "csidrivers", "CSIDriver", namespaced=False),),
    deletion=Deletion(returns_object=True),
    strategy=Strategy(unconditional=False, prepare_update=_prepare_update),
    defaults=_fill_defaults,
    gated_defaults=_fill_gated,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    drop_disabled=_drop_disabled,
    columns=(
        NAME,
        "AttachRequired:boolean=spec.attachRequired",
        "PodInfoOnMount:boolean=spec.podInfoOnMount",
        "StorageCapacity:boolean=spec.storageCapacity",
        "TokenRequests=spec.tokenRequests",
        "RequiresRepublish:boolean=spec.requiresRepublish",
        "Modes=spec.volumeLifecycleModes",
        AGE,
    ),
    cells=_cells,
)
