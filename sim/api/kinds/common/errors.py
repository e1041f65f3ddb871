"""Field errors: what is wrong with which field, in upstream's words.

Mirrors  apimachinery v1.25 pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sim.api.schema.json_text import go_quote

REQUIRED, INVALID, UNSUPPORTED = "Required value", "Invalid value", "Unsupported value"
DUPLICATE, FORBIDDEN, NOT_FOUND = "Duplicate value", "Forbidden", "Not found"
TOO_LONG, TOO_MANY = "Too long", "Too many"

_REASONS = {
    REQUIRED: "FieldValueRequired",
    INVALID: "FieldValueInvalid",
    UNSUPPORTED: "FieldValueNotSupported",
    DUPLICATE: "FieldValueDuplicate",
    FORBIDDEN: "FieldValueForbidden",
    NOT_FOUND: "FieldValueNotFound",
    TOO_LONG: "FieldValueTooLong",
    TOO_MANY: "FieldValueTooMany",
}

# Details that many rules share.
AT_LEAST_ZERO = "must be greater than or equal to 0"
ABOVE_ZERO = "must be greater than zero"
IMMUTABLE = "field is immutable"


class FieldError(msgspec.Struct, frozen=True):
    """One cause of a 422.  `value`: the bad value as it is shown, "" where the type shows none."""

    field: str
    type: str
    detail: str = ""
    value: str = ""

    @property
    def reason(self) -> str:
        return _REASONS[self.type]

    @property
    def message(self) -> str:
        parts = [part for part in (self.type, self.value, self.detail) if part]
        return ": ".join(parts)


class WrongType(FieldError, frozen=True):
    """An invalid value that is of another type than it must be."""

    @property
    def reason(self) -> str:
        return "FieldValueTypeInvalid"


Errors = list[FieldError]


class Shown(str):
    """A value's text as it is to appear, without quotes: a Go struct or map."""


def shown(value: Any) -> str:
    """A bad value in an error: text quoted, numbers and booleans plain, nothing as "null"."""
    if isinstance(value, Shown):
        return value  # not copied: many errors may share a long one
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return '"null"'
    if isinstance(value, dict):
        return go_map(value)
    if isinstance(value, list):
        return go_strings(value)
    return str(value)


def go_map(value: Any) -> Shown:
    """A map of strings as Go's %#v shows it."""
    if value is None:
        return Shown("map[string]string(nil)")
    return Shown(
        "map[string]string{"
        + ", ".join(f"{go_quote(k)}:{go_quote(str(value[k]))}" for k in sorted(value))
        + "}"
    )


def go_strings(value: Any) -> Shown:
    if value is None:
        return Shown("[]string(nil)")
    return Shown("[]string{" + ", ".join(go_quote(str(v)) for v in value) + "}")


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(field, REQUIRED, detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, INVALID, detail, shown(value))


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError(field, DUPLICATE, "", shown(value))


def not_found(field: str, value: Any) -> FieldError:
    return FieldError(field, NOT_FOUND, "", shown(value))


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError(field, FORBIDDEN, detail)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    texts = ", ".join(go_quote(text) for text in supported)
    return FieldError(field, UNSUPPORTED, f"supported values: {texts}" if texts else "", shown(value))


def one_of(field: str, value: Any, supported: Iterable[str], detail: str = "") -> Errors:
    """What is not given is required (`detail` says more of that), and what is given has to be one of these."""
    if not value:
        return [required(field, detail)]
    return [] if value in supported else [unsupported(field, value, supported)]


def too_long(field: str, limit: int) -> FieldError:
    return FieldError(field, TOO_LONG, f"must have at most {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    return FieldError(field, TOO_MANY, f"must have at most {limit} items", str(count))


def at_least_zero(field: str, value: Any) -> Errors:
    return [invalid(field, value, AT_LEAST_ZERO)] if value is not None and value < 0 else []


def immutable(field: str, new: Any, old: Any, show: Any = None) -> Errors:
    """The error of a field that differs from the old one."""
    if new is old or new == old:
        return []
    return [invalid(field, new if show is None else show, IMMUTABLE)]
