"""Objects as a write hands them to validation, and the errors of validation."""

from __future__ import annotations

from typing import Any

from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.strategies import for_create
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]

SCHEME = Scheme(NAMING)

TEMPLATE: Obj = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


def made(resource: str, spec: Obj, **meta: Any) -> Obj:
    """An object as it comes to validation."""
    obj = {"metadata": {"name": "x", "namespace": "d", "uid": "u", **meta}, "spec": spec}
    found = SCHEME.resource(resource)
    return for_create(found, apply_defaults(found, obj), NAMING)


def problems(resource: str, obj: Obj, old: Obj | None = None) -> list[str]:
    kind = SCHEME.resource(resource)
    errors = validate_create(kind, obj) if old is None else validate_update(kind, obj, old)
    return [f"{error.field}: {error.message}" for error in errors]
