"""Validation by schema: the errors in the values of an object, in upstream's words and order.

Holds: malformed parts of a schema have no effect; the patterns of one object share one
`regexes.Budget`, and a match that would exceed it is refused like a mismatch; equal errors are
reported once.

Mirrors  kube-openapi v1.25 pkg/validation/{validate,errors,strfmt}, apiextensions-apiserver
         pkg/apiserver/validation/validation.go (ValidateCustomResource).
Differs  fields are visited in the object's order, upstream's order is random; at most a thousand
         errors are reported, and none after a million characters.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from msgspec.structs import replace

from sim.api.crd.formats import has_form, is_supported
from sim.api.crd.regexes import BadPattern, Budget, TooMuchWork, compile_pattern
from sim.api.go.printing import ANY, GoValue, go_float, shown
from sim.api.memo import IdentityMemo
from sim.api.patch.json_patches import equal
from sim.api.schema.json_text import go_quote
from sim.api.types import Json, Obj
from sim.api.validation.errors import (
    INVALID,
    TOO_LONG,
    Errors,
    FieldError,
    WrongType,
    required,
    too_many,
    unsupported,
)
from sim.pauses import spent

# The bounds of one reply: a body of megabytes can hold a great many errors.
ERRORS_MAX = 1000
REPORTED_CHARS_MAX = 1 << 20
VALUE_US = 8  # of processor time, for a value without parts


class _Found:
    """The result of the validation of one value. checked: the number of checks, for the choice
    between alternatives.
    """

    __slots__ = ("checked", "errors")

    def __init__(self) -> None:
        self.errors: dict[FieldError, None] = {}  # there may be one per item of a long list
        self.checked = 0

    def add(self, error: FieldError) -> None:
        self.errors[error] = None

    def merge(self, other: _Found) -> None:
        self.errors |= other.errors
        self.checked += other.checked


def schema_errors(raw: Obj, value: Json, budget: Budget | None = None, is_default: bool = False) -> Errors:
    """The errors of an object or another value.  is_default: True for a default in a definition"""
    found = _Check(budget or Budget(), is_default).value(raw, value, "").errors
    return [error if error.field else replace(error, field="<nil>") for error in found]


class _Check:
    """A walk over one object."""

    def __init__(self, budget: Budget, is_default: bool = False) -> None:
        self._budget = budget
        self._is_default = is_default
        self._reported_chars = 0

    def value(self, raw: Json, value: Json, at: str) -> _Found:
        out = _Found()
        spent(VALUE_US)
        if not isinstance(raw, dict):
            return out
        checks = (
            self._types,
            self._combined,
            self._texts,
            _number_errors,
            self._items,
            _enum_errors,
            self._fields,
        )
        for check in (self._types, _enum_errors) if value is None else checks:
            found = _Found()
            found_errors = check(raw, value, at)
            if isinstance(found_errors, _Found):
                found = found_errors
            else:
                for error in found_errors:
                    found.add(error)
                    self._reported_chars += len(error.detail) + len(error.value)
            out.checked += 1
            out.merge(found)
        return out

    # --- alternatives -----------------------------------------------------------------------------

    def _combined(self, raw: Obj, value: Json, at: str) -> _Found:
        out = _Found()
        self._any_of(_list(raw, "anyOf"), value, at, out)
        self._one_of(_list(raw, "oneOf"), value, at, out)
        self._all_of(_list(raw, "allOf"), value, at, out)
        if isinstance(raw.get("not"), dict) and not self.value(raw["not"], value, at).errors:
            out.add(_general(f"{go_quote(at)} must not validate the schema (not)"))
        return out

    def _any_of(self, choices: list[Json], value: Json, at: str, out: _Found) -> None:
        best: _Found | None = None
        for choice in choices:
            found = self.value(choice, value, at)
            if not found.errors:
                return
            if best is None or found.checked > best.checked:
                best = found
        if best is not None:
            out.add(_general(f"{go_quote(at)} must validate at least one schema (anyOf)"))
            out.merge(best)

    def _one_of(self, choices: list[Json], value: Json, at: str, out: _Found) -> None:
        best: _Found | None = None
        valid = 0
        for choice in choices:
            found = self.value(choice, value, at)
            if not found.errors:
                valid += 1
            elif best is None or found.checked > best.checked:
                best = found
        if not choices or valid == 1:
            return
        what = f"Found {valid} valid alternatives" if valid else "Found none valid"
        out.add(_general(f"{go_quote(at)} must validate one and only one schema (oneOf). {what}"))
        if not valid and best is not None:
            out.merge(best)

    def _all_of(self, choices: list[Json], value: Json, at: str, out: _Found) -> None:
        found = [self.value(choice, value, at) for choice in choices]
        for one in found:
            out.merge(one)
        failed = sum(bool(one.errors) for one in found)
        if failed:
            none = ". None validated" if failed == len(found) else ""
            out.add(_general(f"{go_quote(at)} must validate all the schemas (allOf){none}"))

    # --- kinds of values --------------------------------------------------------------------------

    def _types(self, raw: Obj, value: Json, at: str) -> Iterator[FieldError]:
        return _type_errors(raw, value, at, self._is_default)

    def _texts(self, raw: Obj, value: Json, at: str) -> Iterator[FieldError]:
        """Errors of a text.

        Quirk: of length and pattern only the first error is reported; a format error is added to
        it.
        """
        if not isinstance(value, str):
            return
        size = len(value)
        most, least, pattern = _count(raw, "maxLength"), _count(raw, "minLength"), raw.get("pattern")
        if most is not None and size > most:
            yield FieldError(_path(at), TOO_LONG, f"may not be longer than {most}")
        elif least is not None and size < least:
            yield _invalid(at, value, f"should be at least {least} chars long")
        elif isinstance(pattern, str) and pattern:
            problem = self._unmatched(pattern, value)
            if problem:
                yield _invalid(at, value, problem)
        form = raw.get("format")
        if isinstance(form, str) and form and not has_form(form, value):
            yield _wrong_type(at, value, form, value)

    def _unmatched(self, pattern: str, value: str) -> str:
        try:
            if compile_pattern(pattern).is_found_in(value, self._budget):
                return ""
        except BadPattern as error:
            return f"should match '{pattern}, but pattern is invalid: error parsing regexp: {error}'"
        except TooMuchWork:
            return f"should match '{pattern}', which takes too much work to check"
        return f"should match '{pattern}'"

    def _items(self, raw: Obj, value: Json, at: str) -> _Found:
        out = _Found()
        if not isinstance(value, list):
            return out
        below = raw.get("items")
        if isinstance(below, dict):
            for i, item in enumerate(value):
                if self._enough(out):
                    break
                out.merge(self.value(below, item, f"{at}[{i}]"))
        least, most = _count(raw, "minItems"), _count(raw, "maxItems")
        if least is not None and len(value) < least:
            out.add(_invalid(at, len(value), f"should have at least {least} items"))
        if most is not None and len(value) > most:
            out.add(too_many(_path(at), len(value), most))
        return out

    def _fields(self, raw: Obj, value: Json, at: str) -> _Found:
        out = _Found()
        if not isinstance(value, dict):
            return out
        least, most = _count(raw, "minProperties"), _count(raw, "maxProperties")
        if least is not None and len(value) < least:
            out.add(_invalid(at, len(value), f"should have at least {least} properties"))
            return out
        if most is not None and len(value) > most:
            out.add(too_many(_path(at), len(value), most))
            return out
        known = raw.get("properties")
        known = known if isinstance(known, dict) else {}
        rest = raw.get("additionalProperties")
        others = [key for key in value if key not in known]
        for key in others if rest is False or isinstance(rest, dict) else ():
            if self._enough(out):
                return out
            if rest is False:
                text = f"{at}.{key} in body is a forbidden property"
                out.add(FieldError(_path(at), INVALID, text, go_quote(key)))
            else:
                # Quirk: with a dot also at the root, where a field would have none.
                out.merge(self.value(rest, value[key], f"{at}.{key}"))
        for key in value:
            if key in known and not self._enough(out):
                out.merge(self.value(known[key], value[key], _child(at, key)))
        for key in _list(raw, "required"):
            if self._enough(out):
                break
            if isinstance(key, str) and key not in value:
                out.add(required(_child(at, key)))
        return out

    def _enough(self, out: _Found) -> bool:
        """True if there are so many errors that no more are reported."""
        return len(out.errors) >= ERRORS_MAX or (
            bool(out.errors) and self._reported_chars >= REPORTED_CHARS_MAX
        )


# --- parts ----------------------------------------------------------------------------------------


# The formats of Go's numbers (validate/type.go, schemaInfoForType); other values have none.
_GO_FORMATS = {"integer": "int64", "number": "float64"}


def _type_errors(raw: Obj, value: Json, at: str, is_default: bool = False) -> Iterator[FieldError]:
    """The error of a value of a wrong type.

    is_default: True for a default in a definition: unknown formats count there, and an integer or
        string has no type
    Quirk: a format says what a number, boolean or object has to be, and lets any list pass.
    """
    wanted = raw.get("type")
    if raw.get("x-kubernetes-int-or-string") is True:
        wanted = "" if is_default else "integer,string"
    types = wanted.split(",") if isinstance(wanted, str) and wanted else []
    form = raw.get("format")
    form = form if isinstance(form, str) and (is_default or is_supported(form)) else ""
    given = kind_of(value)
    if value is None:
        if types and raw.get("nullable") is not True:
            yield _wrong_type(at, given, ",".join(types), given)
        return
    if not types and not form:
        return
    fits = (
        given in types
        or (given == "integer" and "number" in types)
        or (given == "number" and "integer" in types and _is_integral(float(value)))
    )
    go_format = _GO_FORMATS.get(given, "")
    if form and given not in ("string", "array"):
        if not fits and form != go_format:
            yield _wrong_type(at, go_format, form, go_format)
            return
    elif form and not {"number", "integer"} & set(types):
        return
    if not fits:
        yield _wrong_type(at, given, ",".join(types), given)


_EXACT_MAX = (1 << 53) - 1  # the largest integer that every JSON number shows exactly
_NEARLY = 1e-9
INT64 = 1 << 63  # larger numbers are read as floating point


def _is_integral(value: float) -> bool:
    """Return True if a number counts as an integer: nearly whole, and not too large to be exact."""
    if not abs(value) <= _EXACT_MAX:
        return False
    rest = abs(value - math.trunc(value))
    return rest == 0 or (value > 1 and rest / (value + math.trunc(value)) < _NEARLY)


def kind_of(value: Json) -> str:
    """The type of a JSON value, with integers distinguished from other numbers."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer" if -INT64 <= value < INT64 else "number"
    if isinstance(value, float):
        return "number"
    if value is None:
        return "null"
    return "array" if isinstance(value, list) else "object"


def _number_errors(raw: Obj, value: Json, at: str) -> Iterator[FieldError]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    step, most, least = _number(raw, "multipleOf"), _number(raw, "maximum"), _number(raw, "minimum")
    if isinstance(value, int) and raw.get("type") == "number":
        # Quirk: integers are compared with the integer part of a bound.
        most, least = (None if bound is None else int(bound) for bound in (most, least))
    if step is not None and step > 0 and not _is_multiple(value, step):
        yield _invalid(at, value, f"should be a multiple of {go_float(step)}")
    if most is not None:
        open_end = raw.get("exclusiveMaximum") is True
        if value > most or (open_end and value == most):
            yield _invalid(
                at, value, f"should be less than {'' if open_end else 'or equal to '}{go_float(most)}"
            )
    if least is not None:
        open_end = raw.get("exclusiveMinimum") is True
        if value < least or (open_end and value == least):
            text = f"should be greater than {'' if open_end else 'or equal to '}{go_float(least)}"
            yield _invalid(at, value, text)


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        return float(value / step).is_integer()
    except OverflowError:
        return False


def _enum_errors(raw: Obj, value: Json, at: str) -> Iterator[FieldError]:
    choices = raw.get("enum")
    if isinstance(choices, list) and choices and not _is_one_of(choices, value):
        shown_as = GoValue(ANY, value)
        yield unsupported(_path(at), shown_as, [_text(choice) for choice in choices])


_texts_of: IdentityMemo[dict[str, None]] = IdentityMemo()


def _is_one_of(choices: list[Json], value: Json) -> bool:
    if not isinstance(value, str):
        return any(equal(choice, value) for choice in choices)
    known = _texts_of.get(choices)
    if known is None:
        texts = dict.fromkeys(choice for choice in choices if isinstance(choice, str))
        known = _texts_of.put(texts, choices)
    return value in known


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _list(raw: Obj, name: str) -> list[Json]:
    found = raw.get(name)
    return found if isinstance(found, list) else []


def _number(raw: Obj, name: str) -> float | None:
    found = raw.get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _count(raw: Obj, name: str) -> int | None:
    found = _number(raw, name)
    return None if found is None else int(found)


def _child(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def _path(at: str) -> str:
    return at.removeprefix(".")


def _general(text: str) -> FieldError:
    return FieldError("", INVALID, text, '""')


def _invalid(at: str, value: Json, text: str) -> FieldError:
    return FieldError(_path(at), INVALID, f"{at} in body {text}", shown(ANY, value))


def _wrong_type(at: str, value: str, wanted: str, given: str) -> FieldError:
    text = f"{at} in body must be of type {wanted}: {go_quote(given)}"
    return WrongType(_path(at), INVALID, text, go_quote(value))
