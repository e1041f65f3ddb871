"""Errors that show values as Go remembers them from a body.

Turns field errors about an object into those about the body that it was decoded from: a quantity
that was not canonical has no text, and an empty map or list is not the same as none.

Mirrors  apimachinery v1.25 pkg/api/resource/quantity.go (the cached text of a quantity);
         golang encoding/json (empty and nil maps and slices).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from sim.api.go.printing import QUANTITY, GoValue, go_syntax
from sim.api.kinds.common.errors import Errors, FieldError
from sim.api.schema.field_validation import Sent

_STEP = re.compile(r"\.?([^.\[]+)|\[(\d+)\]")


def as_sent(errors: Errors, sent: Sent) -> Errors:
    """The errors with values as the body held them."""
    if not sent.quantities and not sent.emptied:
        return errors
    quantities = {
        go_syntax(QUANTITY, text): go_syntax(QUANTITY, given) for text, given in sent.quantities.items()
    }
    return [
        error if error.given is None else _as_sent(error, error.given, quantities, sent) for error in errors
    ]


def _as_sent(error: FieldError, given: GoValue, quantities: dict[str, str], sent: Sent) -> FieldError:
    value = given.value
    for path in sent.emptied:
        if path.startswith(error.field):
            value = _with_empty(
                value, [key or int(at) for key, at in _STEP.findall(path[len(error.field) :])]
            )
    text = given.text if value is given.value else GoValue(given.kind, value).text
    if f"{QUANTITY}{{" in text:
        for kept, written in quantities.items():
            text = text.replace(kept, written)
    return error if text == error.value else msgspec.structs.replace(error, value=text)


def _with_empty(value: Any, path: list[str | int]) -> Any:
    """The value with an empty list or map at a place where it has none."""
    if not path:
        return {} if value is None else value
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and isinstance(step, str):
        below = _with_empty(value.get(step), rest)
        return value if below is value.get(step) else {**value, step: below}
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return [*value[:step], _with_empty(value[step], rest), *value[step + 1 :]]
    return value
