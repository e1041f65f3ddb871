"""Taints of nodes.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: validateNodeTaints.
"""

from __future__ import annotations

from typing import Any

from sim.api.go.printing import GoValue
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, duplicate, invalid, one_of
from sim.ident import TAINT_EFFECTS


def taint_errors(given: Any, field: str) -> Errors:
    """Errors of taints."""
    errors: Errors = []
    seen: dict[tuple[str, str], None] = {}
    for i, taint in enumerate(given or ()):
        at = f"{field}[{i}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += checked(f"{at}.key", key, text.qualified_name)
        problems = text.label_value(value)
        if problems:
            errors.append(invalid(f"{at}.value", value, ";".join(problems)))
        errors += one_of(f"{at}.effect", effect, TAINT_EFFECTS)
        if (key, effect) in seen:
            error = duplicate(at, GoValue("core.Taint", taint))
            errors.append(
                type(error)(at, error.type, "taints must be unique by key and effect pair", error.value)
            )
        seen[key, effect] = None
    return errors
