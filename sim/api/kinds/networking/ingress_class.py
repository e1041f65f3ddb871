"""IngressClasses.

Mirrors  kubernetes v1.25 pkg/apis/networking/validation/validation.go: ValidateIngressClass and its
         update, pkg/apis/core/validation (IsDomainPrefixedPath).
"""

from __future__ import annotations

import re

from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import present, within
from sim.api.kinds.common.references import reference_errors
from sim.api.objects import name_of
from sim.api.schema.kind import Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    Errors,
    checked,
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
    obj = present(obj, {"spec": {}})
    return within(
        obj, "spec", lambda spec: within(spec, "parameters", lambda p: present(p, {"scope": "Cluster"}))
    )


# --- validation -----------------------------------------------------------------------------------

CONTROLLER_MAX = 250  # validation.go: maxLenIngressClassController

SCOPES = ("Cluster", "Namespace")

_URL_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def _validate_create(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = object_meta(obj["metadata"], False, text.subdomain)
    controller = spec.get("controller") or ""
    if len(controller.encode()) > CONTROLLER_MAX:
        errors.append(too_long("spec.controller", CONTROLLER_MAX))
    return errors + _prefixed_path_errors(controller, "spec.controller") + _parameter_errors(spec)


def _validate_update(new: Obj, old: Obj) -> Errors:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += immutable("spec.controller", spec.get("controller") or "", before.get("controller") or "")
    return errors + _validate_create(new)


def _prefixed_path_errors(value: str, at: str) -> Errors:
    if not value:
        return [required(at)]
    domain, _, path = value.partition("/")
    if not domain or not path:
        return [invalid(at, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = checked(at, domain, text.subdomain)
    if not re.fullmatch(_URL_PATH, path):
        errors.append(invalid(at, path, f"Invalid path (regex used for validation is '{_URL_PATH}')"))
    return errors


def _parameter_errors(spec: Obj) -> Errors:
    given, at = spec.get("parameters"), "spec.parameters"
    if given is None:
        return []
    errors = reference_errors(given, at)
    scope, namespace = given.get("scope"), given.get("namespace")
    where = f"{at}.namespace"
    if scope is None:
        errors.append(required(f"{at}.scope"))
    elif scope not in SCOPES:
        errors.append(unsupported(f"{at}.scope", scope, SCOPES))
    elif scope == "Namespace" and namespace is None:
        errors.append(required(where, "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Namespace":
        errors += checked(where, namespace, text.label)
    elif namespace is not None:
        errors.append(forbidden(where, "`parameters.scope` is set to 'Cluster'"))
    return errors


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    spec = obj.get("spec") or {}
    given, shown = spec.get("parameters"), "<none>"
    if given is not None:
        group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
        shown = f"{given.get('kind', '')}{group}/{given.get('name', '')}"
    return [name_of(obj), spec.get("controller", ""), shown, age(obj, now_us)]


KIND = Kind(
    rows=(Row("networking", "v1", "ingressclasses", "IngressClass", namespaced=False),),
    strategy=Strategy(generation="spec"),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "Controller=spec.controller", "Parameters=spec.parameters", AGE),
    cells=_cells,
)
