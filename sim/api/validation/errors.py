"""Field errors: a field, and what is wrong with it in upstream's words.

Mirrors  apimachinery v1.25 pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from sim.api.go.printing import STRING_MAP, GoValue, go_syntax, go_value
from sim.units import go_quote

REQUIRED, INVALID, UNSUPPORTED = "Required value", "Invalid value", "Unsupported value"
DUPLICATE, FORBIDDEN, NOT_FOUND = "Duplicate value", "Forbidden", "Not found"
TOO_LONG, TOO_MANY, INTERNAL = "Too long", "Too many", "Internal error"

_REASONS = {
    REQUIRED: "FieldValueRequired",
    INVALID: "FieldValueInvalid",
    UNSUPPORTED: "FieldValueNotSupported",
    DUPLICATE: "FieldValueDuplicate",
    FORBIDDEN: "FieldValueForbidden",
    NOT_FOUND: "FieldValueNotFound",
    TOO_LONG: "FieldValueTooLong",
    TOO_MANY: "FieldValueTooMany",
    INTERNAL: "InternalError",
}

# Details that many rules share.
AT_LEAST_ZERO = "must be greater than or equal to 0"
ABOVE_ZERO = "must be greater than zero"
IMMUTABLE = "field is immutable"


class FieldError(msgspec.Struct, frozen=True):
    """One cause of a 422.

    value: the text that shows the bad value, "" where the type shows none
    given: the value with its type, if the rule has handed it over
    """

    field: str
    type: str
    detail: str = ""
    value: str = ""
    given: GoValue | None = None

    @property
    def reason(self) -> str:
        """The reason of the cause in a Status."""
        return _REASONS[self.type]

    @property
    def message(self) -> str:
        """The message of the cause in a Status."""
        parts = [part for part in (self.type, self.value, self.detail) if part]
        return ": ".join(parts)


class WrongType(FieldError, frozen=True):
    """An invalid value of a wrong type."""

    @property
    def reason(self) -> str:
        """The reason of the cause in a Status."""
        return "FieldValueTypeInvalid"


Errors = list[FieldError]


def shown(value: Any) -> str:
    """A bad value in an error: text quoted, numbers and booleans plain, nothing as "null", what has
    another type in Go as it prints that.
    """
    if isinstance(value, GoValue):
        return value.text  # not made again: many errors may share a long one
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, dict):
        return go_syntax(STRING_MAP, value)
    if isinstance(value, list):
        return go_syntax("[]string", value)
    return '"null"' if value is None else go_value(value)


def _about(field: str, kind: str, detail: str, value: Any) -> FieldError:
    """An error that shows the value."""
    return FieldError(field, kind, detail, shown(value), value if isinstance(value, GoValue) else None)


def required(field: str, detail: str = "") -> FieldError:
    """The field must be set."""
    return FieldError(field, REQUIRED, detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """The value of the field breaks a rule."""
    return _about(field, INVALID, detail, value)


def duplicate(field: str, value: Any) -> FieldError:
    """The value occurs twice in a list that must not repeat it."""
    return _about(field, DUPLICATE, "", value)


def not_found(field: str, value: Any) -> FieldError:
    """The value refers to nothing."""
    return _about(field, NOT_FOUND, "", value)


def forbidden(field: str, detail: str) -> FieldError:
    """The field may not be set, or not be changed."""
    return FieldError(field, FORBIDDEN, detail)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """The value is none of a closed set."""
    texts = ", ".join(go_quote(text) for text in supported)
    return _about(field, UNSUPPORTED, f"supported values: {texts}" if texts else "", value)


def one_of(field: str, value: Any, supported: Iterable[str], detail: str = "") -> Errors:
    """Errors of a required value of a closed set.

    detail: of the error if the value is missing

    """
    if not value:
        return [required(field, detail)]
    return [] if value in supported else [unsupported(field, value, supported)]


def among(field: str, value: Any, supported: Iterable[str]) -> Errors:
    """Errors of a value of a closed set; none if it is missing."""
    return [] if value is None or value in supported else [unsupported(field, value, supported)]


def checked(field: str, value: Any, rule: Callable[[Any], Iterable[str]]) -> Errors:
    """Errors of a value by a rule about its form; none if it is missing."""
    return [] if value is None else [invalid(field, value, problem) for problem in rule(value)]


def named(field: str, value: Any, rule: Callable[[Any], Iterable[str]]) -> Errors:
    """Errors of a required value by a rule about its form."""
    return checked(field, value, rule) if value else [required(field)]


def too_long(field: str, limit: int) -> FieldError:
    """The value has too many bytes."""
    return FieldError(field, TOO_LONG, f"must have at most {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """The list has too many items."""
    return FieldError(field, TOO_MANY, f"must have at most {limit} items", str(count))


def at_least_zero(field: str, value: Any) -> Errors:
    """An error if the number is negative; nothing counts as 0."""
    return [invalid(field, value, AT_LEAST_ZERO)] if value is not None and value < 0 else []


def immutable(field: str, new: Any, old: Any, show: Any = None) -> Errors:
    """The error of a field that differs from the old one."""
    if new is old or new == old:
        return []
    return [invalid(field, new if show is None else show, IMMUTABLE)]
