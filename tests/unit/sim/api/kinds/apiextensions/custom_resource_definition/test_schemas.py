"""Schemas inside of definitions: each keyword that may not be used so is refused once, and defaults
are held to them.
"""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.apiextensions.custom_resource_definition.structure import ERRORS_MAX
from sim.api.types import Obj
from tests.unit.sim.api.definitions import (
    ROOT,
    SPEC,
    STRING,
    definition,
    of_spec,
    refusals,
    version,
)


def many(prefix: str, rows: list[tuple[Obj, str]]) -> list[Any]:
    return [pytest.param(schema, f"{prefix}{says}") for schema, says in rows]


@pytest.mark.parametrize(
    ("schema", "says"),
    many(
        SPEC,
        [
            ({"type": "array"}, ".items: Required value: must be specified"),
            (
                {"type": "array", "items": {}},
                ".items.type: Required value: must not be empty for specified array items",
            ),
            (
                {"type": "strnig"},
                '.type: Unsupported value: "strnig": supported values: "array", "boolean", "integer", "number", '
                '"object", "string"',
            ),
            (
                {"type": "null"},
                ".type: Forbidden: type cannot be set to null, use nullable as an alternative",
            ),
            ({**STRING, "$ref": "#/a"}, ".$ref: Forbidden: $ref is not supported"),
            ({**STRING, "id": "a"}, ".id: Forbidden: id is not supported"),
            (
                {"type": "object", "patternProperties": {"a": STRING}},
                ".patternProperties: Forbidden: patternProperties is not supported",
            ),
            (
                {"type": "object", "definitions": {"a": STRING}},
                ".definitions: Forbidden: definitions is not supported",
            ),
            (
                {"type": "object", "dependencies": {"a": ["b"]}},
                ".dependencies: Forbidden: dependencies is not supported",
            ),
            (
                {"type": "array", "items": STRING, "additionalItems": True},
                ".additionalItems: Forbidden: additionalItems is not supported",
            ),
            (
                {"type": "array", "items": [STRING]},
                ".items: Forbidden: items must be a schema object and not an array",
            ),
            (
                {"type": "array", "items": STRING, "uniqueItems": True},
                ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes "
                "quadratic",
            ),
            (
                {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
                ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ),
            (
                {"type": "object", "allOf": [{"description": "d"}]},
                ".allOf[0].description: Forbidden: must be empty to be structural",
            ),
            (
                {"type": "object", "not": {"default": False}},
                ".not.default: Forbidden: must be undefined to be structural",
            ),
            (
                {"type": "object", "oneOf": [{"additionalProperties": False}]},
                ".oneOf[0].additionalProperties: Forbidden: must be undefined to be structural",
            ),
            (
                {"type": "object", "anyOf": [{"properties": {"a": {"nullable": True}}}]},
                ".anyOf[0].properties[a].nullable: Forbidden: must be false to be structural",
            ),
            (
                {"type": "object", "anyOf": [{"properties": {"metadata": {}}}]},
                ".anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
            ),
            (
                {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
                ".x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if "
                "x-kubernetes-int-or-string is true",
            ),
            (
                {"type": "object", "x-kubernetes-embedded-resource": True},
                ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields",
            ),
            (
                {"type": "array", "items": STRING, "x-kubernetes-list-type": "bag"},
                '.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"',
            ),
            (
                {
                    "type": "array",
                    "items": {"type": "object", "properties": {"k": STRING}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                },
                ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it "
                "must have a default or be a required property",
            ),
            (
                {"type": "object", "x-kubernetes-map-type": "loose"},
                '.x-kubernetes-map-type: Unsupported value: "loose": supported values: "atomic", "granular"',
            ),
            (
                {**STRING, "x-kubernetes-validations": [{"rule": " "}]},
                ".x-kubernetes-validations[0].rule: Required value: rule is not specified",
            ),
            (
                {**STRING, "x-kubernetes-validations": [{"rule": "true", "message": " "}]},
                '.x-kubernetes-validations[0].message: Invalid value: " ": message must be non-empty if specified',
            ),
            (
                {**STRING, "x-kubernetes-validations": [{"rule": "true", "message": "a\nb"}]},
                '.x-kubernetes-validations[0].message: Invalid value: "a\\nb": message must not contain line breaks',
            ),
            (
                {**STRING, "x-kubernetes-validations": [{"rule": "true\n&& true"}]},
                ".x-kubernetes-validations[0].message: Required value: message must be specified if rule contains "
                "line breaks",
            ),
        ],
    ),
)
def test_a_keyword_that_may_not_be_used_so_is_refused(schema: Obj, says: str) -> None:
    assert says in refusals(of_spec(schema))


@pytest.mark.parametrize(
    ("schema", "says"),
    many(
        ROOT,
        [
            ({"type": "array", "items": STRING}, '.type: Invalid value: "array": must be object at the root'),
            (
                {"type": "object", "additionalProperties": STRING},
                ".additionalProperties: Forbidden: must not be used at the root",
            ),
            (
                {"type": "object", "nullable": True},
                ".nullable: Forbidden: nullable cannot be true at the root",
            ),
            (
                {"type": "object", "$schema": "x"},
                ": Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported",
            ),
            (
                {"type": "object", "properties": {"kind": {"type": "integer"}}},
                '.properties[kind].type: Invalid value: "integer": must be string',
            ),
            (
                {"type": "object", "properties": {"metadata": {"type": "object", "description": "d"}}},
                ".properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
                "metadata is implicitly specified",
            ),
            (
                {"type": "object", "properties": {"kind": {**STRING, "default": "Widget"}}},
                ".properties[kind].default: Forbidden: must not be set in top-level kind",
            ),
            (
                {"type": "object", "anyOf": [{"properties": {"spec": {"required": ["a"]}}}]},
                f".properties[spec]: Required value: because it is defined in {ROOT}.anyOf[0].properties[spec]",
            ),
        ],
    ),
)
def test_the_root_of_a_schema_is_an_object_with_metadata(schema: Obj, says: str) -> None:
    assert says in refusals(definition(version(schema=schema)))


def test_the_name_of_objects_may_be_restricted() -> None:
    metadata = {"type": "object", "properties": {"name": {**STRING, "maxLength": 8}}}
    assert (
        refusals(definition(version(schema={"type": "object", "properties": {"metadata": metadata}}))) == []
    )


def test_a_schema_with_a_status_keeps_to_what_can_be_taken_apart() -> None:
    with_status = {"subresources": {"status": {}}}
    wrong = refusals(definition(version(schema={"type": "object", "minProperties": 1}, **with_status)))
    assert "fields are allowed at the root of the schema if the status subresource is enabled" in wrong[0]
    assert refusals(definition(version(schema={"type": "object", "minProperties": 1}))) == []


def test_a_pattern_that_is_none_is_refused() -> None:
    wrong = refusals(of_spec({**STRING, "pattern": "a("}))
    assert wrong[0].startswith(
        f'{SPEC}.pattern: Invalid value: "a(": must be a valid regular expression, but'
    )


# --- defaults inside of schemas ----------


FREE = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}


@pytest.mark.parametrize(
    ("schema", "says"),
    many(
        SPEC,
        [
            (
                {**STRING, "default": 5},
                '.default: Invalid value: "integer":  in body must be of type string: "integer"',
            ),
            (
                {"type": "integer", "minimum": 1, "default": 0},
                ".default: Invalid value: 0:  in body should be greater than or equal to 1",
            ),
            (
                {"type": "object", "default": {"a": 1}},
                '.default: Invalid value: map[string]interface {}{"a":1}: must not have unknown fields',
            ),
            (
                {
                    "type": "object",
                    "default": {"a": "x"},
                    "properties": {"a": {**STRING, "enum": ["y"]}},
                },
                '.default.a: Unsupported value: "x": supported values: "y"',
            ),
            ({**FREE, "default": {"kind": "A"}}, ".default.apiVersion: Required value: must not be empty"),
            (
                {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {
                        "apiVersion": STRING,
                        "metadata": {"type": "object", "properties": {"name": {**STRING, "default": "a/b"}}},
                    },
                },
                '.properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid '
                "metadata: metadata.name: Invalid value: \"a/b\": may not contain '/'",
            ),
        ],
    ),
)
def test_a_default_that_would_not_be_taken_is_refused(schema: Obj, says: str) -> None:
    assert refusals(of_spec(schema)) == [says]


@pytest.mark.parametrize(
    "schema",
    [
        {**STRING, "default": "a"},
        {"type": "object", "default": {}, "properties": {"a": {**STRING, "default": "b"}}},
        {**FREE, "default": {"kind": "A", "apiVersion": "v1", "anything": 1}},
        {"x-kubernetes-int-or-string": True, "default": "50%"},
        {"type": "boolean", "default": False},
    ],
)
def test_a_default_that_fits_is_taken(schema: Obj) -> None:
    assert refusals(of_spec(schema)) == []


# --- bounds ----------


def test_schema_of_many_errors_reports_a_bounded_number() -> None:
    properties = {f"{'n' * 1000}{i}": {} for i in range(3 * ERRORS_MAX)}
    wrong = refusals(definition(version(schema={"type": "object", "properties": properties})))
    assert len(wrong) <= ERRORS_MAX + 1
    assert max(map(len, wrong)) < 1000


@pytest.mark.parametrize("step", ["items", "additionalProperties", "not", "properties"])
def test_a_deep_schema_is_judged(step: str) -> None:
    schema: Obj = {"type": "object"}
    for _ in range(90 if step == "properties" else 180):
        below = {"a": schema} if step == "properties" else schema
        schema = {"type": "array" if step == "items" else "object", step: below}
    deep = of_spec(schema)
    assert (refusals(deep) == []) is (step != "not")


@pytest.mark.parametrize("keys", [["k"] * 100_000, [f"k{i}" for i in range(100_000)]])
def test_errors_of_many_list_keys_are_short(keys: list[str]) -> None:
    items = {"type": "object", "properties": {"k": STRING}, "required": ["k"]}
    listed = {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
    }
    assert 0 < len(refusals(of_spec(listed))) < 200


def many_names(count: int) -> list[str]:
    return [f"p{i}" for i in range(count)]


@pytest.mark.parametrize(
    ("items", "value"),
    [
        ({"type": "integer"}, "x"),
        ({"type": "string", "enum": many_names(5_000)}, "x"),
        (
            {
                "type": "object",
                "required": many_names(5_000),
                "properties": dict.fromkeys(many_names(5_000), STRING),
            },
            {},
        ),
    ],
)
def test_default_of_many_wrong_items_gets_a_bounded_error(items: Obj, value: Any) -> None:
    schema = {"type": "array", "items": items, "default": [value] * 20_000}
    wrong = refusals(of_spec(schema))
    assert 0 < len(wrong) <= ERRORS_MAX
    assert sum(map(len, wrong)) < 4_000_000
