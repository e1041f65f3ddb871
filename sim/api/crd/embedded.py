"""Whole objects inside of custom objects (`x-kubernetes-embedded-resource`).

Turns a value and its schema into the errors of the types and metadata of such objects.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/schema/objectmeta/validation.go.
"""

from __future__ import annotations

import msgspec

from sim.api.crd.structural import Structural
from sim.api.go.printing import ANY, GoValue
from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import REQUIRED, Errors, FieldError, invalid
from sim.api.validation.metadata import object_meta


def embedded_errors(schema: Structural, value: Json, at: str, embedded: bool, errors: Errors) -> None:
    """Collect the errors of the objects in a value.

    embedded: True if the value is such an object itself
    """
    if isinstance(value, list):
        for i, item in enumerate(value) if schema.items is not None else ():
            assert schema.items is not None
            if isinstance(item, dict | list):
                embedded_errors(schema.items, item, f"{at}[{i}]", schema.items.embedded, errors)
        return
    if not isinstance(value, dict):
        return
    if embedded:
        errors += _head_errors(value, at)
    for key, given in value.items():
        below = schema.below(key) if isinstance(given, dict | list) else None
        if below is not None:
            embedded_errors(below, given, schema.place(at, key), below.embedded, errors)


def _head_errors(value: Obj, at: str) -> Errors:
    errors: Errors = []
    for key in ("apiVersion", "kind"):
        if key not in value:
            errors.append(FieldError(f"{at}.{key}", REQUIRED, "must not be empty"))
            continue
        given = value[key]
        field = f"{at}.{key}"
        if not isinstance(given, str):
            errors.append(invalid(field, GoValue(ANY, given), "must be a string"))
        elif not given:
            errors.append(invalid(field, given, "must not be empty"))
        elif key == "apiVersion" and given.count("/") > 1:
            errors.append(invalid(field, given, f"unexpected GroupVersion string: {given}"))
        elif key == "kind" and (problems := text.label_1035(given.lower())):
            detail = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            errors.append(invalid(field, given, detail))
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        metadata = {**metadata, "name": metadata.get("name") or "fakename"}
        found = object_meta(metadata, bool(metadata.get("namespace")), text.segment, core=False)
        errors += [msgspec.structs.replace(error, field=f"{at}.{error.field}") for error in found]
    return errors
