"""RuntimeClasses.

Mirrors  kubernetes v1.25 pkg/apis/node/validation/validation.go,
         pkg/registry/node/runtimeclass/strategy.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.pods.affinity import tolerations
from sim.api.kinds.common.pods.warnings import replaced_node_labels
from sim.api.kinds.common.resources import requirements
from sim.api.objects import name_of
from sim.api.schema.kind import Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, duplicate, immutable
from sim.api.validation.metadata import labels, object_meta, object_meta_update
from sim.ident import Names


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain, core=False)
    handler = obj.get("handler") or ""
    errors += checked("handler", handler, text.label)
    overhead = (obj.get("overhead") or {}).get("podFixed") or {}
    errors += requirements({"limits": overhead}, "overhead")
    scheduling = obj.get("scheduling") or {}
    errors += labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    return errors + _toleration_errors(scheduling.get("tolerations") or ())


def _toleration_errors(given: Sequence[Obj]) -> Errors:
    """Quirk: their errors are reported below a member that does not exist."""
    errors = tolerations(given, "scheduling.tolerations.tolerations")
    seen = []
    for i, toleration in enumerate(given):
        key = tuple(toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))
        if key in seen:
            errors.append(duplicate(f"scheduling.tolerations[{i}]", GoValue("core.Toleration", toleration)))
        seen.append(key)
    return errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = _validate_create(new) + object_meta_update(new["metadata"], old["metadata"], core=False)
    return errors + immutable("handler", new.get("handler"), old.get("handler"))


def _client_warnings(obj: Obj, _old: Obj | None, names: Names) -> Iterator[str]:
    known = replaced_node_labels(names)
    for key in sorted((obj.get("scheduling") or {}).get("nodeSelector") or ()):
        if key in known:
            yield f"scheduling.nodeSelector: {known[key]}"


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), obj.get("handler", ""), age(obj, now_us)]


KIND = Kind(
    rows=(Row("node", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),),
    strategy=Strategy(create_by_put=True, unconditional=False),
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    client_warnings=_client_warnings,
    columns=(NAME, "Handler=handler", AGE),
    cells=_cells,
)
