"""ConfigMaps.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateConfigMap.
"""

from __future__ import annotations

from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.data import DATA_BYTES_MAX, decoded_size, immutable_data_errors
from sim.api.objects import name_of
from sim.api.schema import quota_use
from sim.api.schema.kind import Cells, Kind, Row
from sim.api.status import CAUSES_MAX
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, invalid, too_long
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain)
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        if len(errors) > CAUSES_MAX:
            break
        if problems := text.config_key(key):
            errors += [invalid(f"data[{key}]", key, problem) for problem in problems]
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len((value or "").encode())
    for key, value in binary.items():
        errors += checked(f"binaryData[{key}]", key, text.config_key)
        size += decoded_size(value)
    if size > DATA_BYTES_MAX:
        errors.append(too_long("[]", DATA_BYTES_MAX))
    return errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += immutable_data_errors(new, old, ("data", "binaryData"), filled=("data",))
    return errors + _validate_create(new)


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now_us)]


KIND = Kind(
    rows=(Row("", "v1", "configmaps", "ConfigMap", short=("cm",)),),
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "Data=data", AGE),
    cells=_cells,
    quota=quota_use.named("configmaps"),
)
