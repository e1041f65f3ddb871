"""VolumeAttachments.

Mirrors  kubernetes v1.25 pkg/registry/storage/volumeattachment/strategy.go,
         pkg/apis/storage/validation/validation.go: ValidateVolumeAttachment, its V1 form and its
         update; pkg/printers/internalversion/printers.go: printVolumeAttachment.
Quirk    an update checks the object twice, so each error about it is listed twice; the error about
         a long message names the limit of the metadata.
Differs  an error about a changed spec shows its type alone, where upstream shows memory addresses.
"""

from __future__ import annotations

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import present, within
from sim.api.kinds.common.persistent_volumes import fill_volume_source, volume_spec
from sim.api.kinds.common.pods.volumes import csi_driver_errors
from sim.api.objects import get_in, name_of, with_field
from sim.api.schema.kind import STATUS, Cells, Deletion, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, forbidden, immutable, invalid, required, too_long
from sim.api.validation.metadata import object_meta
from sim.ident import Names

# --- defaults -------------------------------------------------------------------------------------


def _fill_defaults(obj: Obj) -> Obj:
    obj = within(present(obj, {"spec": {}, "status": {}}), "spec", _fill_spec)
    return within(obj, "status", _fill_status)


def _fill_spec(spec: Obj) -> Obj:
    spec = present(spec, {"source": {}})
    return within(spec, "source", lambda source: within(source, "inlineVolumeSpec", fill_volume_source))


def _fill_status(status: Obj) -> Obj:
    status = present(status, {"attached": False})
    for field in ("attachError", "detachError"):
        status = within(status, field, lambda error: present(error, {"time": None}))
    return status


def _prepare_status(new: Obj, old: Obj, _: Names) -> Obj:
    """A write to the status changes no metadata."""
    return with_field(new, "metadata", old["metadata"])


# --- validation -----------------------------------------------------------------------------------

METADATA_MAX = 256 * 1024  # validation.go: maxAttachedVolumeMetadataSize
MESSAGE_MAX = 1024  # validation.go: maxVolumeErrorMessageSize
_ONE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def _errors(obj: Obj) -> Errors:
    """Errors that all versions share."""
    errors = object_meta(obj["metadata"], False, text.subdomain)
    spec, status = obj["spec"], obj.get("status") or {}
    if not spec.get("attacher"):
        errors.append(required("spec.attacher"))
    errors += _source_errors(spec.get("source") or {}, "spec.source")
    node = spec.get("nodeName") or ""
    errors += checked("spec.nodeName", node, text.subdomain)
    metadata = status.get("attachmentMetadata") or {}
    if sum(len(f"{key}{value}".encode()) for key, value in metadata.items()) > METADATA_MAX:
        errors.append(too_long("status.attachmentMetadata", METADATA_MAX))
    for field in ("attachError", "detachError"):
        message = get_in(status, (field, "message")) or ""
        if len(message.encode()) > MESSAGE_MAX:
            errors.append(too_long(f"status.{field}.message", METADATA_MAX))
    return errors


def _source_errors(source: Obj, at: str) -> Errors:
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        return [required(at, _ONE)]
    if inline is not None and name is not None:
        return [forbidden(at, _ONE)]
    if inline is not None:
        return volume_spec(inline, f"{at}.inlineVolumeSpec", inline=True)
    where = f"{at}.persistentVolumeName"
    return [] if name else [required(where, "must specify non empty persistentVolumeName")]


def _validate_create(obj: Obj) -> Errors:
    errors, spec = _errors(obj), obj["spec"]
    errors += csi_driver_errors(spec.get("attacher") or "", "spec.attacher")
    name = get_in(spec, ("source", "persistentVolumeName"))
    problems = () if name is None else text.subdomain(name)
    return errors + [invalid("spec.source.persistentVolumeName", name, problem) for problem in problems]


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = _errors(new)
    return (
        errors
        + errors
        + immutable("spec", new["spec"], old["spec"], GoValue("storage.VolumeAttachmentSpec", new["spec"]))
    )


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        name_of(obj),
        spec.get("attacher", ""),
        get_in(spec, ("source", "persistentVolumeName")) or "",
        spec.get("nodeName", ""),
        bool(status.get("attached")),
        age(obj, now_us),
    ]


KIND = Kind(
    rows=(Row("storage", "v1", "volumeattachments", "VolumeAttachment", namespaced=False, subs=(STATUS,)),),
    deletion=Deletion(returns_object=True),
    strategy=Strategy(
        status=True,
        zero_status={"attached": False},
        unconditional=False,
        prepare_status=_prepare_status,
    ),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_update},
    columns=(
        NAME,
        "Attacher:name=spec.attacher",
        "PV=spec.source.persistentVolumeName",
        "Node=spec.nodeName",
        "Attached:boolean=status.attached",
        AGE,
    ),
    cells=_cells,
)
