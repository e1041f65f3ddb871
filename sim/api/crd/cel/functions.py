"""What the functions of rules compute.

Holds: functions are strict (an argument that failed never reaches them) and check the types of
arguments that type checking left open.

Mirrors  cel-go v0.12 interpreter/functions/standard.go, common/types, ext/strings.go;
         apiextensions-apiserver v1.25 pkg/apiserver/schema/cel/library/{urls,regex,lists}.go.
Differs  a search for all matches of a pattern that takes too much work fails, and so does a
         function that would make a very large text.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from itertools import islice, pairwise
from typing import Any

from sim.api.crd.cel.conversions import CONVERTED, INT_MAX, INT_MIN, bounded, is_one_of, timestamp
from sim.api.crd.cel.syntax import Uint
from sim.api.crd.cel.values import (
    NO_OVERLOAD,
    CelError,
    Crash,
    Duration,
    Given,
    Listing,
    Literal,
    LiteralMap,
    Mapping,
    Timestamp,
    TypeName,
    equals,
    type_name,
)
from sim.api.crd.regexes import WORK_MAX, BadPattern, Budget, Pattern, TooMuchWork, compile_pattern
from sim.api.crd.urls import BadUrl, Url, parse_request_uri, parse_url, query_values
from sim.remembered import cached

TEXT_MAX = 32 << 20  # characters of what `replace` and `join` make, which costs know afterwards


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise CelError(NO_OVERLOAD)
    return value


def _int(value: Any) -> int:
    if not is_one_of(value, int):
        raise CelError(NO_OVERLOAD)
    found: int = value
    return found


def _list(value: Any) -> Listing:
    if not isinstance(value, Listing):
        raise CelError(NO_OVERLOAD)
    return value


# --- arithmetic -----------------------------------------------------------------------------------


def _duration(ns: int) -> Duration:
    if not INT_MIN <= ns <= INT_MAX:
        raise CelError("duration overflow")
    return Duration(ns)


def add(one: Any, other: Any) -> Any:
    """The operator +."""
    if one.__class__ is str and other.__class__ is str:
        return one + other
    if isinstance(one, Listing):
        return one.plus(_list(other))
    if isinstance(one, Timestamp | Duration) and isinstance(other, Timestamp | Duration):
        if isinstance(one, Duration) and isinstance(other, Duration):
            return _duration(one.ns + other.ns)
        if isinstance(one, Duration) or isinstance(other, Duration):
            stamp = one if isinstance(one, Timestamp) else other
            assert isinstance(stamp, Timestamp)
            return timestamp(one.ns + other.ns, stamp.zone_s)
    if type(one) is type(other):
        if is_one_of(one, int, Uint):
            return bounded(int(one) + int(other), one)
        if is_one_of(one, float, str, bytes):
            return one + other
    raise CelError(NO_OVERLOAD)


def subtract(one: Any, other: Any) -> Any:
    """The operator -."""
    if isinstance(one, Timestamp) and isinstance(other, Timestamp):
        return _duration(one.ns - other.ns)
    if isinstance(one, Timestamp) and isinstance(other, Duration):
        return timestamp(one.ns - other.ns, one.zone_s)
    if isinstance(one, Duration) and isinstance(other, Duration):
        return _duration(one.ns - other.ns)
    return _number(one, other, lambda a, b: a - b)


def _number(one: Any, other: Any, fn: Callable[[Any, Any], Any]) -> Any:
    if type(one) is not type(other) or not is_one_of(one, int, Uint, float):
        raise CelError(NO_OVERLOAD)
    if isinstance(one, float):
        return fn(one, other)
    return bounded(fn(int(one), int(other)), one)


def _divide(one: Any, other: Any) -> Any:
    if isinstance(one, float) and isinstance(other, float):
        if other == 0:
            return (
                math.nan
                if one == 0 or math.isnan(one)
                else math.copysign(math.inf, one) * math.copysign(1, other)
            )
        return one / other
    if not isinstance(one, float) and other == 0:
        raise CelError("division by zero")
    return _number(one, other, lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def _modulo(one: Any, other: Any) -> Any:
    if isinstance(one, float):
        raise CelError(NO_OVERLOAD)
    if other == 0:
        raise CelError("modulus by zero")
    if one == INT_MIN and other == -1:
        raise CelError("integer overflow")
    return _number(one, other, lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1))


def _negate(value: Any) -> Any:
    if is_one_of(value, int):
        return bounded(-value, value)
    if not isinstance(value, float):
        raise CelError(NO_OVERLOAD)
    return -value


# --- comparison -----------------------------------------------------------------------------------

_ORDERED = (bool, str, bytes, Duration, Timestamp)


def compare(one: Any, other: Any) -> int:
    """-1, 0 or 1: how two values are ordered.  Raises CelError."""
    if is_one_of(one, int, Uint, float) and is_one_of(other, int, Uint, float):
        if one != one or other != other:
            raise CelError("NaN values cannot be ordered")
    elif type(one) is not type(other) or not isinstance(one, _ORDERED):
        raise CelError(NO_OVERLOAD)
    return int(one > other) - int(one < other)


def _contained(item: Any, holder: Any) -> bool:
    if isinstance(holder, Mapping):
        return holder.find(item)[0]
    return _list(holder).contains(item)


def size(value: Any) -> int:
    """The size of a text in characters, or of a list or map in entries."""
    if isinstance(value, Listing | Mapping):
        return value.size()
    if isinstance(value, str | bytes):
        return len(value)
    raise CelError(NO_OVERLOAD)


# --- texts ----------------------------------------------------------------------------------------


def _compiled(pattern: Any) -> Pattern:
    try:
        return compile_pattern(_text(pattern))
    except BadPattern as error:
        raise CelError(f"error parsing regexp: {error}") from None


def _searched(text: Any, pattern: Pattern, most: int) -> list[str]:
    try:
        return pattern.all_in(_text(text), most, Budget(10 * WORK_MAX))
    except TooMuchWork:
        raise CelError("the search for all matches takes too much work") from None


def _matches(text: Any, pattern: Any) -> bool:
    return bool(_searched(text, _compiled(pattern), 1))


def _find(text: Any, pattern: Any) -> str:
    found = _searched(text, _compiled(pattern), 1)
    return found[0] if found else ""


def _find_all(text: Any, pattern: Any, most: Any = -1) -> Listing:
    return Literal(_searched(text, _compiled(pattern), _int(most)))


def _range_error(at: int) -> CelError:
    return CelError(f"index out of range: {at}")


def _char_at(text: Any, at: Any) -> str:
    if not 0 <= _int(at) <= len(_text(text)):
        raise _range_error(at)
    found: str = text[at : at + 1]
    return found


def _index_of(holder: Any, item: Any, start: Any = 0) -> int:
    if isinstance(holder, Listing):
        if item.__class__ in (str, int) and holder.kind() is item.__class__:
            return holder.values().index(item) if item in holder.values() else -1
        return next((i for i, one in enumerate(holder) if equals(one, item)), -1)
    if _text(item) == "":
        return _int(start)
    if not 0 <= _int(start) < len(_text(holder)):
        raise _range_error(start)
    return _text(holder).find(item, start)


def _last_index_of(holder: Any, item: Any, last: Any = None) -> int:
    if isinstance(holder, Listing):
        places = range(holder.size() - 1, -1, -1)
        return next((i for i in places if equals(holder.at(i), item)), -1)
    text = _text(holder)
    if _text(item) == "":
        return len(text) if last is None else _int(last)
    last = len(text) - 1 if last is None else _int(last)
    if not 0 <= last < len(text):
        raise _range_error(last)
    return text.rfind(_text(item), 0, last + len(item))


def _substring(text: Any, start: Any, end: Any = None) -> str:
    stop = len(_text(text)) if end is None else _int(end)
    if end is not None and start > stop:
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    for at in (_int(start), stop):
        if not 0 <= at <= len(text):
            raise _range_error(at)
    found: str = text[start:stop]
    return found


def _check_size(characters: int) -> None:
    if characters > TEXT_MAX:
        raise CelError(f"the text would have more than {TEXT_MAX} characters")


def _replace(text: Any, old: Any, new: Any, most: Any = -1) -> str:
    _check_size(_text(text).count(_text(old)) * len(_text(new)))
    return _text(text).replace(_text(old), _text(new), max(-1, _int(most)))


def _split(text: Any, separator: Any, most: Any = -1) -> Listing:
    count = _int(most)
    if count == 0:
        return Literal([])
    if _text(separator):
        return Literal(list(_text(text).split(separator, -1 if count < 0 else count - 1)))
    parts = list(_text(text))
    if 0 < count < len(parts):
        parts[count - 1 :] = [text[count - 1 :]]
    return Literal(list(parts))


def _join(items: Any, separator: Any = "") -> str:
    if isinstance(items, Given):
        # Quirk: a list of the object itself, unlike one that the rule made, cannot be joined.
        raise Crash("internal error: interface conversion: interface {} is []interface {}, not []string")
    parts = [_text(item) for item in _list(items)]
    _check_size(sum(map(len, parts)) + len(parts) * len(_text(separator)))
    return _text(separator).join(parts)


def _ascii(change: Callable[[str], str]) -> Callable[[Any], str]:
    return lambda text: "".join(change(char) if char.isascii() else char for char in _text(text))


# --- lists and URLs -------------------------------------------------------------------------------


def _is_sorted(items: Any) -> bool:
    values = _list(items).values()
    if items.kind() is not None:
        return all(map(operator.le, values, islice(values, 1, None)))
    return all(compare(a, b) <= 0 for a, b in pairwise(items))


def _best(name: str, sign: int) -> Callable[[Any], Any]:
    def best(items: Any) -> Any:
        found: Any = None
        if _list(items).kind() is not None:
            return (max if sign > 0 else min)(items.values())
        for i, item in enumerate(_list(items)):
            if i == 0 or compare(item, found) == sign:
                found = item
        if _list(items).size() == 0:
            raise CelError(f"{name} called on empty list")
        return found

    return best


ZEROS: dict[str, Any] = {"uint": Uint(0), "double": 0.0, "duration": Duration(0)}


def _sum(items: Any, overload: str = "") -> Any:
    if _list(items).kind() is int and sum(map(abs, items.values())) <= INT_MAX:
        return sum(items.values())
    total: Any = ZEROS.get(overload.partition("_")[2].partition("_")[0], 0)
    for item in _list(items):
        total = add(total, item)
    return total


def _url(text: Any) -> Url:
    try:
        parse_request_uri(_text(text))
        return parse_url(text)
    except BadUrl as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: Any) -> bool:
    try:
        parse_request_uri(_text(text))
    except BadUrl:
        return False
    return True


def _of_url(part: Callable[[Url], Any]) -> Callable[[Any], Any]:
    def get(value: Any) -> Any:
        if not isinstance(value, Url):
            raise CelError(NO_OVERLOAD)
        return part(value)

    return get


def _query(url: Url) -> Mapping:
    return LiteralMap([(key, Literal(list(values))) for key, values in query_values(url.query).items()])


def _text_rule(fn: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda text, other: fn(_text(text), _text(other))


def _not(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(NO_OVERLOAD)
    return not value


def _ordered(by: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(one: Any, other: Any) -> bool:
        kind = one.__class__
        if kind is other.__class__ and kind in (int, str):
            return by(one, other)
        return by(compare(one, other), 0)

    return holds


def _memo(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of a text or number that is remembered."""
    remembered = cached(1024, typed=True)(fn)
    return lambda value: remembered(value) if value.__class__ in (str, int) else fn(value)


OPERATORS: dict[str, Callable[..., Any]] = {
    "_==_": equals,
    "_!=_": lambda one, other: not equals(one, other),
    "!_": _not,
}
IMPLEMENTED: dict[str, Callable[..., Any]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": lambda one, other: _number(one, other, lambda a, b: a * b),
    "_/_": _divide,
    "_%_": _modulo,
    "-_": _negate,
    "_<_": _ordered(operator.lt),
    "_<=_": _ordered(operator.le),
    "_>_": _ordered(operator.gt),
    "_>=_": _ordered(operator.ge),
    "@in": _contained,
    "size": size,
    **CONVERTED,
    "timestamp": _memo(CONVERTED["timestamp"]),
    "duration": _memo(CONVERTED["duration"]),
    "dyn": lambda value: value,
    "type": lambda value: TypeName("type") if isinstance(value, TypeName) else type_name(value),
    "contains": _text_rule(lambda text, other: other in text),
    "startsWith": _text_rule(str.startswith),
    "endsWith": _text_rule(str.endswith),
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "substring": _substring,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "trim": lambda text: _text(text).strip(),
    "lowerAscii": _ascii(str.lower),
    "upperAscii": _ascii(str.upper),
    "isSorted": _is_sorted,
    "min": _best("min", -1),
    "max": _best("max", 1),
    "sum": _sum,
    "url": _memo(_url),
    "isURL": _memo(_is_url),
    "getScheme": _of_url(lambda url: url.scheme),
    "getHost": _of_url(lambda url: url.host),
    "getHostname": _of_url(lambda url: url.hostname),
    "getPort": _of_url(lambda url: url.port),
    "getEscapedPath": _of_url(lambda url: url.escaped_path),
    "getQuery": _of_url(_query),
}
