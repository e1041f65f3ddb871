"""References to objects of any kind."""

from __future__ import annotations

from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, required


def reference_errors(given: Obj, at: str) -> Errors:
    """Errors of a typed reference to an object."""
    errors: Errors = []
    if given.get("apiGroup") is not None:
        errors += checked(f"{at}.apiGroup", given["apiGroup"], text.subdomain)
    for key in ("kind", "name"):
        if not given.get(key):
            errors.append(required(f"{at}.{key}", f"{key} is required"))
        else:
            errors += checked(f"{at}.{key}", given[key], text.segment)
    return errors
