"""PersistentVolumes.

Mirrors  kubernetes v1.25 pkg/registry/core/persistentvolume/strategy.go,
         pkg/apis/core/validation/validation.go: ValidatePersistentVolume and its updates;
         pkg/api/persistentvolume/util.go (the field behind a gate, warnings);
         pkg/printers/internalversion/printers.go: printPersistentVolume.
Differs  an error about a changed source shows no difference, which upstream prints as Go
         structures.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial

from sim.api.go.differences import difference
from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.claims import FOR_ONE_POD, class_of, shown_modes
from sim.api.kinds.common.fill import fill, present, within
from sim.api.kinds.common.persistent_volumes import SOURCES, fill_volume_source, volume_spec
from sim.api.kinds.common.pods.warnings import replaced_node_labels
from sim.api.objects import annotations_of, get_in, is_deleting, name_of, remove_in
from sim.api.schema.kind import STATUS, Cells, Create, Deletion, Kind, Row, Strategy, Update
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, forbidden, immutable, required
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import NAMES, Names
from sim.options.features.gates import EXPAND_SECRET, READ_WRITE_ONCE_POD, is_on

# --- defaults -------------------------------------------------------------------------------------

_POLICY = {"persistentVolumeReclaimPolicy": "Retain"}
_MODE = {"volumeMode": "Filesystem"}


def _fill_defaults(volume: Obj) -> Obj:
    volume = present(volume, {"spec": {}, "status": {}})
    volume = within(volume, "spec", lambda spec: fill_volume_source(present(fill(spec, _POLICY), _MODE)))
    return within(volume, "status", lambda status: fill(status, {"phase": "Pending"}))


# --- strategy -------------------------------------------------------------------------------------

_EXPAND_SECRET = ("spec", "csi", "nodeExpandSecretRef")


def _drop_disabled(new: Obj, old: Obj, _: Names, gates: Collection[str]) -> Obj:
    unused = get_in(old, _EXPAND_SECRET) is None and get_in(new, _EXPAND_SECRET) is not None
    return remove_in(new, _EXPAND_SECRET) if unused and EXPAND_SECRET not in gates else new


# --- validation -----------------------------------------------------------------------------------

# Kinds of volumes that support mount options (pkg/volume/validation/pv_validation.go).
_MOUNTED = (
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cephfs",
    "cinder",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
)
_OPTIONS = tuple(f"volume.beta.{names.domain}/mount-options" for names in NAMES.values())
_SOURCE_AT = "spec.persistentvolumesource"


def _errors(obj: Obj, for_one_pod: bool) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain)
    return errors + volume_spec(obj["spec"], "spec", name_of(obj), for_one_pod=for_one_pod)


def _option_errors(obj: Obj) -> Errors:
    """Errors of mount options in the annotation of older releases (volume/validation)."""
    annotations = annotations_of(obj)
    if any(obj["spec"].get(kind) is not None for kind in _MOUNTED):
        return []
    detail = "may not specify mount options for this volume type"
    return [forbidden(f"metadata.annotations.{key}", detail) for key in _OPTIONS if key in annotations]


def _validate_create(obj: Obj, for_one_pod: bool = False) -> Errors:
    return _errors(obj, for_one_pod) + _option_errors(obj)


def _validate_update(new: Obj, old: Obj, for_one_pod: bool = False) -> Errors:
    """Quirk: the strategy checks the object twice, so errors about it are listed twice."""
    spec, before = new["spec"], old["spec"]
    for_one_pod = for_one_pod or FOR_ONE_POD in (before.get("accessModes") or ())
    errors = _validate_create(new, for_one_pod) + _errors(new, for_one_pod)
    sources, had = _sources(spec, before), _sources(before, before)
    if sources != had:
        changes = difference("core.PersistentVolumeSource", had, sources)
        errors.append(forbidden(_SOURCE_AT, f"{_SOURCE_AT} is immutable after creation\n{changes}"))
    errors += immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
    affinity = before.get("nodeAffinity")
    if affinity is not None:
        shown = GoValue("*core.VolumeNodeAffinity", spec.get("nodeAffinity"))
        errors += immutable("nodeAffinity", spec.get("nodeAffinity"), affinity, shown)
    return errors


def _gated_rules(gates: Collection[str]) -> tuple[Create, Mapping[str, Update]]:
    allowed = is_on(gates, READ_WRITE_ONCE_POD)
    create = partial(_validate_create, for_one_pod=allowed)
    return create, {"status": _validate_status, "": partial(_validate_update, for_one_pod=allowed)}


def _sources(spec: Obj, before: Obj) -> Obj:
    """The sources of a volume, without the secret for its growth if that was not set before."""
    sources = {kind: spec[kind] for kind in SOURCES if spec.get(kind) is not None}
    secret = ("csi", "controllerExpandSecretRef")
    if before.get("csi") is not None and get_in(before, secret) is None and get_in(sources, secret):
        return remove_in(sources, secret)
    return sources


def _validate_status(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    return errors if new["metadata"].get("resourceVersion") else [*errors, required("resourceVersion")]


# --- warnings and table ---------------------------------------------------------------------------


def _client_warnings(obj: Obj, _old: Obj | None, names: Names) -> Iterator[str]:
    labels = replaced_node_labels(names)
    for i, term in enumerate(get_in(obj, ("spec", "nodeAffinity", "required", "nodeSelectorTerms"), ())):
        for j, expression in enumerate(term.get("matchExpressions") or ()):
            key = expression.get("key", "")
            if key in labels:
                at = f"spec.nodeAffinity.required.nodeSelectorTerms[{i}].matchExpressions[{j}].key"
                yield f"{at}: {key} is {labels[key]}"


def _cells(obj: Obj, now_us: int, names: Names) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        get_in(spec, ("capacity", "storage"), "0"),
        shown_modes(spec.get("accessModes") or ()),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if is_deleting(obj) else status.get("phase", ""),
        "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        class_of(obj, names),
        status.get("reason", ""),
        age(obj, now_us),
        spec.get("volumeMode") or "<unset>",
    ]


KIND = Kind(
    rows=(
        Row(
            "",
            "v1",
            "persistentvolumes",
            "PersistentVolume",
            namespaced=False,
            short=("pv",),
            subs=(STATUS,),
        ),
    ),
    deletion=Deletion(returns_object=True),
    # The phase of a new volume is a default, so that storage does not hold it.
    strategy=Strategy(status=True, zero_status={"phase": "Pending"}, completed_by_read=bool),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_status},
    drop_disabled=_drop_disabled,
    gated_rules=_gated_rules,
    columns=(
        NAME,
        "Capacity=spec.capacity",
        "Access Modes=spec.accessModes",
        "Reclaim Policy=spec.persistentVolumeReclaimPolicy",
        "Status=status.phase",
        "Claim=spec.claimRef",
        "StorageClass=spec.storageClassName",
        "Reason=status.reason",
        AGE,
        "*VolumeMode=spec.volumeMode",
    ),
    cells=_cells,
    client_warnings=_client_warnings,
)
