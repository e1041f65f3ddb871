"""ServiceAccounts.

Mirrors  kubernetes v1.25 pkg/registry/core/serviceaccount/strategy.go,
         pkg/apis/core/validation/validation.go: ValidateServiceAccount.
"""

from __future__ import annotations

from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.objects import name_of
from sim.api.schema.kind import Cells, Deletion, Kind, Row, Strategy, Sub
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names


def _prepare(obj: Obj, _: Names) -> Obj:
    secrets = obj.get("secrets")
    return (
        {**obj, "secrets": [{"name": s["name"]} if s.get("name") else {} for s in secrets]}
        if secrets
        else obj
    )


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain)


def _validate_update(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"]) + _validate_create(new)


def _prepare_update(new: Obj, _old: Obj, names: Names) -> Obj:
    return _prepare(new, names)


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), len(obj.get("secrets") or ()), age(obj, now_us)]


KIND = Kind(
    rows=(
        Row(
            "",
            "v1",
            "serviceaccounts",
            "ServiceAccount",
            short=("sa",),
            subs=(Sub("token", "c", "TokenRequest", "authentication", "v1"),),
        ),
    ),
    deletion=Deletion(returns_object=True),
    strategy=Strategy(prepare_create=_prepare, prepare_update=_prepare_update),
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "Secrets=secrets", AGE),
    cells=_cells,
)
