"""Errors that show values as Go remembers them from a body.

Turns field errors about an object into those about the body that it was decoded from: a quantity
that was not canonical has no text, and an empty map is not the same as none.

Mirrors  apimachinery v1.25 pkg/api/resource/quantity.go (the cached text of a quantity);
         golang encoding/json (empty and nil maps and slices).
"""

from __future__ import annotations

from sim.api.kinds.common.errors import Errors, FieldError
from sim.api.kinds.common.resources import go_quantity
from sim.api.schema.field_validation import Sent

_NIL_MAP, _EMPTY_MAP = "map[string]string(nil)", "map[string]string{}"
_LISTS = "[]v1.LabelSelectorRequirement"


def as_sent(errors: Errors, sent: Sent) -> Errors:
    """The errors with values as the body held them."""
    if not sent.quantities and not sent.emptied:
        return errors
    quantities: dict[str, str] = {
        go_quantity(text): go_quantity(given) for text, given in sent.quantities.items()
    }
    return [_as_sent(error, quantities, sent) for error in errors]


def _as_sent(error: FieldError, quantities: dict[str, str], sent: Sent) -> FieldError:
    value, field, emptied = error.value, error.field, sent.emptied
    value = quantities.get(value, value)
    if value == _NIL_MAP and field in emptied:
        value = _EMPTY_MAP
    if value.startswith("v1.LabelSelector{"):
        if f"{field}.matchLabels" in emptied:
            value = value.replace(f"MatchLabels:{_NIL_MAP}", f"MatchLabels:{_EMPTY_MAP}")
        if f"{field}.matchExpressions" in emptied:
            value = value.replace(f"{_LISTS}(nil)", f"{_LISTS}{{}}")
    return error if value == error.value else FieldError(field, error.type, error.detail, value)
