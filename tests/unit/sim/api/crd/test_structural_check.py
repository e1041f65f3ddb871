"""What schemas find wrong with custom objects."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.crd import structural_check
from sim.api.crd.regexes import Budget
from sim.api.crd.structural_check import schema_errors
from sim.api.go.printing import go_float


def found(raw: Any, value: Any) -> list[tuple[str, str, str]]:
    """(field, reason, message) of what is wrong with a value of a field of this schema."""
    errors = schema_errors({"type": "object", "properties": {"p": raw}}, {"p": value})
    return [(error.field, error.reason, error.message) for error in errors]


INVALID, TYPE = "FieldValueInvalid", "FieldValueTypeInvalid"


@pytest.mark.parametrize(
    ("raw", "value", "reason", "message"),
    [
        (
            {"type": "integer"},
            "x",
            TYPE,
            'Invalid value: "string": p in body must be of type integer: "string"',
        ),
        ({"type": "string"}, None, TYPE, 'Invalid value: "null": p in body must be of type string: "null"'),
        (
            {"type": "integer"},
            1.5,
            TYPE,
            'Invalid value: "number": p in body must be of type integer: "number"',
        ),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            TYPE,
            'Invalid value: "boolean": p in body must be of type integer,string: "boolean"',
        ),
        ({"minimum": 1}, 0, INVALID, "Invalid value: 0: p in body should be greater than or equal to 1"),
        (
            {"maximum": 1000000, "exclusiveMaximum": True},
            1000000,
            INVALID,
            "Invalid value: 1000000: p in body should be less than 1e+06",
        ),
        ({"multipleOf": 3}, 4, INVALID, "Invalid value: 4: p in body should be a multiple of 3"),
        ({"maxLength": 2}, "abc", "FieldValueTooLong", "Too long: may not be longer than 2"),
        ({"minLength": 2}, "a", INVALID, 'Invalid value: "a": p in body should be at least 2 chars long'),
        ({"pattern": "^a+$"}, "b", INVALID, "Invalid value: \"b\": p in body should match '^a+$'"),
        ({"format": "date-time"}, "x", TYPE, 'Invalid value: "x": p in body must be of type date-time: "x"'),
        (
            {"enum": ["a", 1]},
            "b",
            "FieldValueNotSupported",
            'Unsupported value: "b": supported values: "a", "1"',
        ),
        (
            {"type": "number", "maximum": 0.5},
            1,
            INVALID,
            "Invalid value: 1: p in body should be less than or equal to 0",
        ),
        ({"maxItems": 1}, [1, 2], "FieldValueTooMany", "Too many: 2: must have at most 1 items"),
        ({"minItems": 1}, [], INVALID, "Invalid value: 0: p in body should have at least 1 items"),
        (
            {"maxProperties": 1},
            {"a": 1, "b": 2},
            "FieldValueTooMany",
            "Too many: 2: must have at most 1 items",
        ),
        (
            {"not": {"type": "string"}},
            "a",
            INVALID,
            'Invalid value: "": "p" must not validate the schema (not)',
        ),
        (
            {"oneOf": [{"minimum": 0}, {"minimum": 1}]},
            5,
            INVALID,
            'Invalid value: "": "p" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        ),
    ],
)
def test_wrong_value_is_reported_in_upstreams_words(raw: Any, value: Any, reason: str, message: str) -> None:
    assert [(r, m) for _, r, m in found(raw, value)] == [(reason, message)]


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ({"type": "number"}, 3),
        ({"type": "integer"}, 3.0),
        ({"type": "number", "minimum": 0.5}, 0),
        ({"type": "string", "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "5%"),
        ({"enum": [1]}, 1.0),
        ({"pattern": "a"}, "xay"),
        ({"format": "unheard-of"}, "x"),
        ({"format": "ipv4"}, "10.0.0.1"),
        ({"format": "duration"}, "1h30m"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 1),
        ({"minimum": "x", "enum": 5, "required": "a", "items": []}, 1),
    ],
)
def test_a_good_value_is_let_be(raw: Any, value: Any) -> None:
    assert found(raw, value) == []


@pytest.mark.parametrize(
    ("raw", "value", "messages"),
    [
        ({"type": "string", "format": "date"}, 5, ['"int64": p in body must be of type date: "int64"']),
        ({"type": "string", "format": "date"}, {}, ['"": p in body must be of type date: ""']),
        ({"type": "string", "format": "date"}, [], []),
        (
            {"type": "string", "format": "other"},
            5,
            ['"integer": p in body must be of type string: "integer"'],
        ),
        (
            {"type": "integer", "format": "int32"},
            True,
            ['"boolean": p in body must be of type integer: "boolean"'],
        ),
        ({"enum": [{"a": 1}]}, {"a": 2}, ['map[string]interface {}{"a":2}: supported values: "{\\"a\\":1}"']),
    ],
)
def test_format_says_what_other_values_than_texts_must_be(raw: Any, value: Any, messages: list[str]) -> None:
    assert [m.partition(": ")[2] for _, _, m in found(raw, value)] == messages


def test_default_of_an_integer_or_string_has_no_type_but_a_format() -> None:
    raw = {"x-kubernetes-int-or-string": True}
    assert schema_errors(raw, 1.5, is_default=True) == []
    (error,) = schema_errors({**raw, "format": "int32"}, 1, is_default=True)
    assert error.message == 'Invalid value: "int64":  in body must be of type int32: "int64"'
    (error,) = schema_errors({"additionalProperties": {"type": "string"}}, {"z": 1}, is_default=True)
    assert (error.field, error.detail) == ("z", '.z in body must be of type string: "integer"')


def test_of_alternatives_the_one_that_went_deepest_says_why() -> None:
    deeper = {"type": "object", "required": ["a"], "properties": {"b": {"type": "integer"}}}
    assert [m for _, _, m in found({"anyOf": [{"type": "string"}, deeper]}, {"b": 1})] == [
        'Invalid value: "": "p" must validate at least one schema (anyOf)',
        "Required value",
    ]


def test_what_is_required_comes_after_what_is_wrong_and_nothing_twice() -> None:
    raw = {"allOf": [{"required": ["b"]}], "required": ["b"], "properties": {"a": {"type": "string"}}}
    assert [field for field, _, _ in found(raw, {"a": 1})] == ["p.b", "<nil>", "p.a"]


def test_places_of_items_and_values_are_named() -> None:
    raw = {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}}
    assert [field for field, _, _ in found(raw, [{}, {"k": 1}])] == ["p[1].k"]


def test_patterns_of_one_object_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structural_check, "Budget", lambda: Budget(200))
    raw = {"type": "array", "items": {"type": "string", "pattern": "^(a|b)*$"}}
    errors = found(raw, ["ab" * 20] * 20)
    assert errors and all("takes too much work to check" in message for _, _, message in errors)
    assert found(raw, ["ab"]) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(5, "5"), (0.1, "0.1"), (123456, "123456"), (1e6, "1e+06"), (1.5e-7, "1.5e-07"), (-2.5, "-2.5")],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert go_float(value) == text
