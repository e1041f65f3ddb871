"""Taints of nodes.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: validateNodeTaints.
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.common import text
from sim.api.kinds.common.errors import Errors, Shown, duplicate, go_time, invalid, required, unsupported
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj
from sim.ident import TAINT_EFFECTS


def taint_errors(given: Any, field: str) -> Errors:
    """Errors of taints."""
    errors: Errors = []
    seen: dict[tuple[str, str], None] = {}
    for i, taint in enumerate(given or ()):
        at = f"{field}[{i}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += [invalid(f"{at}.key", key, problem) for problem in text.qualified_name(key)]
        problems = text.label_value(value)
        if problems:
            errors.append(invalid(f"{at}.value", value, ";".join(problems)))
        if not effect:
            errors.append(required(f"{at}.effect"))
        elif effect not in TAINT_EFFECTS:
            errors.append(unsupported(f"{at}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            error = duplicate(at, _go_taint(taint))
            errors.append(
                type(error)(at, error.type, "taints must be unique by key and effect pair", error.value)
            )
        seen[key, effect] = None
    return errors


def _go_taint(taint: Obj) -> Shown:
    key, value, effect = (go_quote(taint.get(k, "")) for k in ("key", "value", "effect"))
    since = go_time(taint.get("timeAdded"))
    return Shown(f"core.Taint{{Key:{key}, Value:{value}, Effect:{effect}, TimeAdded:{since}}}")
