"""Validation of conditions of the general type.

Mirrors  kubernetes v1.25 apimachinery pkg/apis/meta/v1/validation/validation.go:
         ValidateConditions.
"""

from __future__ import annotations

from collections.abc import Iterable

from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, duplicate, invalid, required, too_long, unsupported
from sim.patterns import pattern

_STATUSES = ("False", "True", "Unknown")
_REASON_MAX, _MESSAGE_MAX = 1024, 32 * 1024
_REASON = pattern("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_FORM = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


def condition_errors(conditions: Iterable[Obj], at: str) -> Errors:
    """Errors of a list of conditions."""
    errors: Errors = []
    seen: dict[str, None] = {}
    for index, condition in enumerate(conditions):
        kind, where = condition.get("type", ""), f"{at}[{index}]"
        if kind in seen:
            errors.append(duplicate(f"{where}.type", kind))
        seen[kind] = None
        errors += _one(condition, where)
    return errors


def _one(condition: Obj, at: str) -> Errors:
    kind, status = condition.get("type", ""), condition.get("status", "")
    errors = checked(f"{at}.type", kind, text.qualified_name)
    if status not in _STATUSES:
        errors.append(unsupported(f"{at}.status", status, _STATUSES))
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        detail = "must be greater than or equal to zero"
        errors.append(invalid(f"{at}.observedGeneration", generation, detail))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{at}.lastTransitionTime", "must be set"))
    reason, message = condition.get("reason", ""), condition.get("message", "")
    if not reason:
        errors.append(required(f"{at}.reason", "must be set"))
    elif not _REASON.fullmatch(reason):
        errors.append(invalid(f"{at}.reason", reason, _FORM))
    if len(reason.encode()) > _REASON_MAX:
        errors.append(too_long(f"{at}.reason", _REASON_MAX))
    if len(message.encode()) > _MESSAGE_MAX:
        errors.append(too_long(f"{at}.message", _MESSAGE_MAX))
    return errors
