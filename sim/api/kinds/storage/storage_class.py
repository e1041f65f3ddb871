"""StorageClasses.

Mirrors  kubernetes v1.25 pkg/apis/storage/validation/validation.go: ValidateStorageClass and its
         update; pkg/apis/core/validation/validation.go: ValidateTopologySelectorTerm;
         pkg/apis/storage/v1/defaults.go; pkg/api/storage/util.go (warnings);
         pkg/apis/storage/util/helpers.go (the annotations of a default class).
Quirk    an empty term of allowedTopologies repeats one error for each term, because upstream
         compares it with a list that starts with as many empty terms.
"""

from __future__ import annotations

from collections.abc import Iterator

from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import present
from sim.api.kinds.common.pods.warnings import replaced_node_labels
from sim.api.objects import annotations_of, name_of
from sim.api.schema.kind import Cells, Deletion, Kind, Row
from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    Errors,
    checked,
    duplicate,
    forbidden,
    immutable,
    invalid,
    required,
    too_long,
    unsupported,
)
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names


def _fill_defaults(obj: Obj) -> Obj:
    return present(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


# --- validation -----------------------------------------------------------------------------------

PARAMETERS_MAX = 512  # validation.go: maxProvisionerParameterLen
PARAMETER_BYTES_MAX = 256 * 1024  # validation.go: maxProvisionerParameterSize
POLICIES = ("Delete", "Retain")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")

Topology = dict[str, frozenset[str]]


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain)
    provisioner = obj.get("provisioner") or ""
    if not provisioner:
        errors.append(required("provisioner"))
    else:
        # The lower case is checked, and shown.
        errors += checked("provisioner", provisioner.lower(), text.qualified_name)
    errors += _parameter_errors(obj.get("parameters") or {})
    if obj["reclaimPolicy"] not in ("", *POLICIES):
        errors.append(unsupported("reclaimPolicy", obj["reclaimPolicy"], POLICIES))
    if obj["volumeBindingMode"] not in BINDING_MODES:
        errors.append(unsupported("volumeBindingMode", obj["volumeBindingMode"], BINDING_MODES))
    return errors + _topology_errors(obj.get("allowedTopologies") or ())


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = _validate_create(new) + object_meta_update(new["metadata"], old["metadata"])
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        # An empty map of parameters that is sent differs from none; stored, it is none.
        if new.get(field) != (old.get(field) or None):
            errors.append(forbidden(field, f"updates to {field} are forbidden."))
    return errors + immutable("volumeBindingMode", new["volumeBindingMode"], old["volumeBindingMode"])


def _parameter_errors(parameters: Obj) -> Errors:
    if len(parameters) > PARAMETERS_MAX:
        return [too_long("parameters", PARAMETERS_MAX)]
    errors: Errors = []
    if "" in parameters:
        errors.append(invalid("parameters", "", "field can not be empty."))
    if sum(len(f"{key}{value}".encode()) for key, value in parameters.items()) > PARAMETER_BYTES_MAX:
        errors.append(too_long("parameters", PARAMETER_BYTES_MAX))
    return errors


def _topology_errors(terms: Json) -> Errors:
    errors: Errors = []
    known: list[Topology] = [{} for _ in terms]
    for i, term in enumerate(terms):
        at = f"allowedTopologies[{i}].matchLabelExpressions"
        topology: Topology = {}
        for j, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = expression.get("key") or "", expression.get("values") or ()
            errors += _expression_errors(key, values, f"{at}[{j}]")
            if key in topology:
                errors.append(duplicate(f"{at}[{j}].key", key))
            topology[key] = frozenset(values)
        errors += [duplicate(at, "") for other in known if other == topology]
        known.append(topology)
    return errors


def _expression_errors(key: str, values: Json, at: str) -> Errors:
    errors: Errors = [] if values else [required(f"{at}.values")]
    for i, value in enumerate(values):
        if value in values[:i]:
            errors.append(duplicate(f"{at}.values[{i}]", value))
    return errors + checked(f"{at}.key", key, text.qualified_name)


# --- warnings and table ---------------------------------------------------------------------------


def _client_warnings(obj: Obj, _old: Obj | None, names: Names) -> Iterator[str]:
    labels = replaced_node_labels(names)
    for i, term in enumerate(obj.get("allowedTopologies") or ()):
        for j, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key = expression.get("key", "")
            if key in labels:
                at = f"allowedTopologies[{i}].matchLabelExpressions[{j}].key"
                yield f"{at}: {labels[key]}"


def is_default(storage_class: Obj, names: Names) -> bool:
    """True if claims without a class get this one."""
    marks = annotations_of(storage_class)
    keys = (names.annotation_default_storage_class, names.annotation_beta_default_storage_class)
    return any(marks.get(key) == "true" for key in keys)


def _cells(obj: Obj, now_us: int, names: Names) -> Cells:
    return [
        name_of(obj) + (" (default)" if is_default(obj, names) else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now_us),
    ]


KIND = Kind(
    rows=(Row("storage", "v1", "storageclasses", "StorageClass", namespaced=False, short=("sc",)),),
    deletion=Deletion(returns_object=True),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(
        NAME,
        "Provisioner=provisioner",
        "ReclaimPolicy=reclaimPolicy",
        "VolumeBindingMode=volumeBindingMode",
        "AllowVolumeExpansion=allowVolumeExpansion",
        AGE,
    ),
    cells=_cells,
    client_warnings=_client_warnings,
)
