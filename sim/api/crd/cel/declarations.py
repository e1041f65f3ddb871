"""The functions and names that rules may use, with the types of their arguments.

Holds: overloads are in upstream's order, which decides the type of an ambiguous call; the number of
a function's parameters includes the target of a method.

Mirrors  cel-go v0.12 checker/standard.go, ext/strings.go; apiextensions-apiserver v1.25
         pkg/apiserver/schema/cel/library/{urls,regex,lists}.go.
"""

from __future__ import annotations

from typing import NamedTuple

from sim.api.crd.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    URL,
    Type,
    list_of,
    map_of,
    type_of,
)

A, B = Type("param", "A"), Type("param", "B")
LIST, MAP = list_of(A), map_of(A, B)
NOT_FALSE = "@not_strictly_false"


class Overload(NamedTuple):
    """One form of a function. name: what costs are kept by; method: True if it has a target."""

    name: str
    params: tuple[Type, ...]
    result: Type
    method: bool = False

    @property
    def generic(self) -> bool:
        """Return True if it has type parameters."""
        return any(_has_param(kind) for kind in (*self.params, self.result))


def _has_param(kind: Type) -> bool:
    return kind.kind == "param" or any(map(_has_param, kind.args))


# Names of types, which are values of their own.
TYPE_NAMES: dict[str, Type] = {
    "int": type_of(INT),
    "uint": type_of(UINT),
    "bool": type_of(BOOL),
    "double": type_of(DOUBLE),
    "bytes": type_of(BYTES),
    "string": type_of(STRING),
    "list": type_of(LIST),
    "map": type_of(MAP),
    "null_type": type_of(NULL),
    "type": type_of(Type("type")),
    "google.protobuf.Duration": type_of(DURATION),
    "google.protobuf.Timestamp": type_of(TIMESTAMP),
}


def _same(*kinds: Type) -> tuple[tuple[str, tuple[Type, ...], Type], ...]:
    return tuple((kind.name, (kind, kind), kind) for kind in kinds)


def _relation(name: str) -> list[Overload]:
    kinds = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION)
    return [Overload(f"{name}_{kind.name}", (kind, kind), BOOL) for kind in kinds]


def _arithmetic(name: str, *forms: tuple[str, tuple[Type, ...], Type]) -> list[Overload]:
    return [Overload(f"{name}_{suffix}", params, result) for suffix, params, result in forms]


def _operators() -> dict[str, list[Overload]]:
    times = (
        ("timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        ("duration_duration", (DURATION, DURATION), DURATION),
    )
    return {
        "_?_:_": [Overload("conditional", (BOOL, A, A), A)],
        "_&&_": [Overload("logical_and", (BOOL, BOOL), BOOL)],
        "_||_": [Overload("logical_or", (BOOL, BOOL), BOOL)],
        "!_": [Overload("logical_not", (BOOL,), BOOL)],
        NOT_FALSE: [Overload("not_strictly_false", (BOOL,), BOOL)],
        "_==_": [Overload("equals", (A, A), BOOL)],
        "_!=_": [Overload("not_equals", (A, A), BOOL)],
        "_-_": _arithmetic(
            "subtract",
            *_same(INT, UINT, DOUBLE),
            ("timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION),
            *times,
        ),
        "_*_": _arithmetic("multiply", *_same(INT, UINT, DOUBLE)),
        "_/_": _arithmetic("divide", *_same(INT, UINT, DOUBLE)),
        "_%_": _arithmetic("modulo", *_same(INT, UINT)),
        "_+_": _arithmetic(
            "add",
            *_same(INT, UINT, DOUBLE, STRING, BYTES),
            ("list", (LIST, LIST), LIST),
            times[0],
            ("duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP),
            times[1],
        ),
        "-_": [Overload("negate_int", (INT,), INT), Overload("negate_double", (DOUBLE,), DOUBLE)],
        "_[_]": [Overload("index_list", (LIST, INT), A), Overload("index_map", (MAP, A), B)],
        "@in": [Overload("in_list", (A, LIST), BOOL), Overload("in_map", (A, MAP), BOOL)],
        "_<_": _relation("less"),
        "_<=_": _relation("less_equals"),
        "_>_": _relation("greater"),
        "_>=_": _relation("greater_equals"),
    }


_SOURCES: dict[str, tuple[Type, tuple[Type, ...]]] = {
    "int": (INT, (INT, UINT, DOUBLE, STRING, TIMESTAMP, DURATION)),
    "uint": (UINT, (UINT, INT, DOUBLE, STRING)),
    "double": (DOUBLE, (DOUBLE, INT, UINT, STRING)),
    "bool": (BOOL, (BOOL, STRING)),
    "string": (STRING, (STRING, BOOL, INT, UINT, DOUBLE, BYTES, TIMESTAMP, DURATION)),
    "bytes": (BYTES, (BYTES, STRING)),
    "timestamp": (TIMESTAMP, (TIMESTAMP, STRING, INT)),
    "duration": (DURATION, (DURATION, STRING, INT)),
}
CONVERSIONS = (*_SOURCES, "type", "dyn")


def _conversions() -> dict[str, list[Overload]]:
    found = {
        name: [Overload(f"{source.name}_to_{name}", (source,), result) for source in sources]
        for name, (result, sources) in _SOURCES.items()
    }
    found["type"] = [Overload("type", (A,), type_of(A))]
    found["dyn"] = [Overload("to_dyn", (A,), DYN)]
    return found


def _method(name: str, params: tuple[Type, ...], result: Type) -> Overload:
    return Overload(name, params, result, method=True)


_OF_TIMESTAMPS = ("FullYear", "Month", "DayOfYear", "DayOfMonth", "Date", "DayOfWeek")
_OF_BOTH = ("Hours", "Minutes", "Seconds", "Milliseconds")
SUMMABLE = (INT, UINT, DOUBLE, DURATION)
COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)


def _standard() -> dict[str, list[Overload]]:
    sized = (STRING, BYTES, LIST, MAP)
    names = ("string", "bytes", "list", "map")
    found = {
        "size": [
            *(_method(f"size_{n}_inst", (kind,), INT) for n, kind in zip(names, sized, strict=True)),
            *(Overload(f"size_{n}", (kind,), INT) for n, kind in zip(names, sized, strict=True)),
        ],
        **{
            name: [_method(f"{name}_string", (STRING, STRING), BOOL)]
            for name in ("contains", "endsWith", "matches", "startsWith")
        },
    }
    for name in (*_OF_TIMESTAMPS, *_OF_BOTH):
        forms = [
            _method(f"timestamp_to_{name}", (TIMESTAMP,), INT),
            _method(f"timestamp_to_{name}_with_tz", (TIMESTAMP, STRING), INT),
        ]
        if name in _OF_BOTH:
            forms.append(_method(f"duration_to_{name}", (DURATION,), INT))
        found[f"get{name}"] = forms
    return found


def _extensions() -> dict[str, list[Overload]]:
    text, texts = (STRING, STRING), list_of(STRING)
    found = {
        "url": [Overload("string_to_url", (STRING,), URL)],
        "isURL": [Overload("is_url_string", (STRING,), BOOL)],
        "getQuery": [_method("url_get_query", (URL,), map_of(STRING, texts))],
        "find": [_method("string_find_string", text, STRING)],
        "findAll": [
            _method("string_find_all_string", text, texts),
            _method("string_find_all_string_int", (*text, INT), texts),
        ],
        "isSorted": [_method(f"list_{k.name}_is_sorted_bool", (list_of(k),), BOOL) for k in COMPARABLE],
        "sum": [_method(f"list_{k.name}_sum_{k.name}", (list_of(k),), k) for k in SUMMABLE],
    }
    for part in ("Scheme", "Host", "Hostname", "Port", "EscapedPath"):
        found[f"get{part}"] = [_method(f"url_get_{part}", (URL,), STRING)]
    for name in ("max", "min"):
        found[name] = [_method(f"list_{k.name}_{name}_{k.name}", (list_of(k),), k) for k in COMPARABLE]
    for name in ("indexOf", "lastIndexOf"):
        found[name] = [
            _method(f"list_a_{name}_int", (LIST, A), INT),
            _method(f"string_{name}_string", text, INT),
            _method(f"string_{name}_string_int", (*text, INT), INT),
        ]
    return {**found, **_text_functions()}


def _text_functions() -> dict[str, list[Overload]]:
    text, texts = (STRING, STRING), list_of(STRING)
    three = (*text, STRING)
    return {
        "charAt": [_method("string_char_at_int", (STRING, INT), STRING)],
        "lowerAscii": [_method("string_lower_ascii", (STRING,), STRING)],
        "upperAscii": [_method("string_upper_ascii", (STRING,), STRING)],
        "trim": [_method("string_trim", (STRING,), STRING)],
        "replace": [
            _method("string_replace_string_string", three, STRING),
            _method("string_replace_string_string_int", (*three, INT), STRING),
        ],
        "split": [
            _method("string_split_string", text, texts),
            _method("string_split_string_int", (*text, INT), texts),
        ],
        "substring": [
            _method("string_substring_int", (STRING, INT), STRING),
            _method("string_substring_int_int", (STRING, INT, INT), STRING),
        ],
        "join": [
            _method("list_join", (texts,), STRING),
            _method("list_join_string", (texts, STRING), STRING),
        ],
    }


FUNCTIONS: dict[str, list[Overload]] = {
    **_operators(),
    **_conversions(),
    **_standard(),
    **_extensions(),
}
