"""CSIStorageCapacities: what a driver has left for the volumes of a class.

Mirrors  kubernetes v1.25 pkg/registry/storage/csistoragecapacity/strategy.go,
         pkg/apis/storage/validation/validation.go: ValidateCSIStorageCapacity and its update;
         pkg/api/storage/util.go, pkg/api/node/util.go (warnings).
Quirk    a create checks the object twice, so each error about it is listed twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from sim.api.go.printing import LABEL_SELECTOR, GoValue
from sim.api.kinds.common.fill import amounts
from sim.api.kinds.common.pods.warnings import replaced_node_labels
from sim.api.schema.kind import Kind, Lifecycle, Row, Strategy
from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import AT_LEAST_ZERO, Errors, checked, immutable, invalid
from sim.api.validation.metadata import label_selector, object_meta, object_meta_update
from sim.ident import Names
from sim.units import quantity_nano, quantity_text

_AMOUNTS = ("capacity", "maximumVolumeSize")
_NANO_IN_MILLI = 1_000_000


def _fill_defaults(obj: Obj) -> Obj:
    """The object with its quantities in their canonical texts; they are not rounded."""
    given = {
        key: obj[key]
        for key in _AMOUNTS
        if obj.get(key) is not None and not quantity_nano(obj[key]) % _NANO_IN_MILLI
    }
    canonical = amounts(given)
    return obj if canonical is given else {**obj, **canonical}


# --- validation -----------------------------------------------------------------------------------


def _errors(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain)
    errors += label_selector(obj.get("nodeTopology"), "nodeTopology")
    name = obj.get("storageClassName") or ""
    errors += checked("storageClassName", name, text.subdomain)
    amount = obj.get("capacity")
    if amount is not None and quantity_nano(amount) < 0:
        errors.append(invalid("capacity", quantity_text(amount), AT_LEAST_ZERO))
    return errors


def _validate_create(obj: Obj) -> Errors:
    errors = _errors(obj)
    return errors + errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = _errors(new) + object_meta_update(new["metadata"], old["metadata"])
    topology, before = new.get("nodeTopology"), old.get("nodeTopology")
    shown = GoValue(LABEL_SELECTOR, topology)
    errors += immutable("nodeTopology", _parts(topology), _parts(before), shown)
    return errors + immutable("storageClassName", new.get("storageClassName"), old.get("storageClassName"))


def _parts(selector: Obj | None) -> Json:
    """A selector for comparison: an empty part is the same as a missing one."""
    if selector is None:
        return None
    return selector.get("matchLabels") or {}, selector.get("matchExpressions") or []


def _client_warnings(obj: Obj, _old: Obj | None, names: Names) -> Iterator[str]:
    labels, selector = replaced_node_labels(names), obj.get("nodeTopology") or {}
    for i, expression in enumerate(selector.get("matchExpressions") or ()):
        key = expression.get("key", "")
        if key in labels:
            yield f"nodeTopology.matchExpressions[{i}].key: {key} is {labels[key]}"
    for key in selector.get("matchLabels") or ():
        if key in labels:
            yield f"nodeTopology.matchLabels.{key}: {labels[key]}"


_V1 = Row("storage", "v1", "csistoragecapacities", "CSIStorageCapacity", stored_version="v1")

KIND = Kind(
    rows=(_V1, _V1._replace(version="v1beta1", lifecycle=Lifecycle(24, 27, "v1"))),
    strategy=Strategy(unconditional=False),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    client_warnings=_client_warnings,
)
