"""ControllerRevisions.

Mirrors  kubernetes v1.25 pkg/apis/apps/validation/validation.go: ValidateControllerRevision and its
         update (data are compared as texts).
"""

from __future__ import annotations

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age, count
from sim.api.objects import controller_of, name_of
from sim.api.raw_text import text_of
from sim.api.schema.kind import Cells, Kind, Row
from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import IMMUTABLE, Errors, at_least_zero, invalid, required
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain)
    if obj.get("data") is None:
        errors.append(required("data", "data is mandatory"))
    return errors + at_least_zero("revision", obj.get("revision"))


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += _validate_create(new)
    if text_of(new.get("data")) != text_of(old.get("data")):
        errors.append(invalid("data", GoValue("*runtime.Unknown", _unknown(new.get("data"))), IMMUTABLE))
    return errors


def _unknown(data: Json) -> Obj | None:
    """Data as Go holds them: the bytes of their JSON text."""
    return None if data is None else {"raw": text_of(data), "contentType": "application/json"}


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    owner = controller_of(obj)
    controller = "<none>"
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        kind = owner["kind"].lower()
        controller = f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"
    return [name_of(obj), controller, count(obj, "revision"), age(obj, now_us)]


KIND = Kind(
    rows=(Row("apps", "v1", "controllerrevisions", "ControllerRevision"),),
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "Controller", "Revision=revision", AGE),
    cells=_cells,
)
