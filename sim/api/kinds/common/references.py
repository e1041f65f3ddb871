"""References to objects of any kind, and values that are checked only if they are given."""

from __future__ import annotations

from collections.abc import Callable

from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, invalid, required


def checked(rule: Callable[[str], text.Problems], value: Json, at: str) -> Errors:
    """Errors of a value by a rule; none if the value is missing or empty."""
    return [invalid(at, value, problem) for problem in rule(value)] if value else []


def reference_errors(given: Obj, at: str) -> Errors:
    """Errors of a typed reference to an object."""
    errors: Errors = []
    if given.get("apiGroup") is not None:
        group = given["apiGroup"]
        errors += [invalid(f"{at}.apiGroup", group, problem) for problem in text.subdomain(group)]
    for key in ("kind", "name"):
        if not given.get(key):
            errors.append(required(f"{at}.{key}", f"{key} is required"))
        else:
            errors += checked(text.segment, given[key], f"{at}.{key}")
    return errors
