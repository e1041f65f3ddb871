"""Pruning, defaults and typed parts of custom objects."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.crd.structural import structural
from sim.api.crd.structural_values import (
    BadPart,
    defaulted,
    pruned,
    typed_metadata,
    with_fitting_metadata,
    with_typed_parts,
    without_nulls,
)

TEXT = {"type": "string"}


def schema(**properties: Any) -> Any:
    spec = {"type": "object", "properties": properties}
    return structural({"type": "object", "properties": {"spec": spec}})


def test_object_without_changes_is_returned_as_itself() -> None:
    obj = {
        "apiVersion": "g/v1",
        "kind": "W",
        "metadata": {"name": "a"},
        "spec": {"a": "x", "l": [{"b": "y"}]},
    }
    node = schema(
        a={"default": "q", **TEXT},
        l={"type": "array", "items": {"type": "object", "properties": {"b": TEXT}}},
    )
    assert pruned(node, obj) == (obj, []) and pruned(node, obj)[0] is obj
    assert without_nulls(node, obj) is obj and defaulted(node, obj) is obj
    assert with_typed_parts(node, obj)[0] is obj


@pytest.mark.parametrize(
    ("property", "given", "left", "unknown"),
    [
        ({"type": "object"}, {"x": 1}, {}, ["spec.p.x"]),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            {"x": {"y": [1]}},
            {"x": {"y": [1]}},
            [],
        ),
        (
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"q": {"type": "object", "properties": {"r": TEXT}}},
            },
            {"q": {"r": "1", "s": 2}, "z": 1},
            {"q": {"r": "1"}, "z": 1},
            ["spec.p.q.s"],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "object"}},
            {"k": {"y": 1}},
            {"k": {}},
            ["spec.p.k.y"],
        ),
        ({"type": "object", "additionalProperties": True}, {"k": {"y": 1}}, {"k": {}}, ["spec.p.k.y"]),
        ({"type": "array", "items": {"type": "object"}}, [{}, {"y": 1}], [{}, {}], ["spec.p[1].y"]),
        ({"x-kubernetes-int-or-string": True}, "5%", "5%", []),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}},
            {"kind": "K", "metadata": {"name": "x"}, "other": 1},
            {"kind": "K", "metadata": {"name": "x"}},
            ["spec.p.other"],
        ),
    ],
)
def test_what_a_schema_does_not_know_goes(property: Any, given: Any, left: Any, unknown: list[str]) -> None:
    obj = {"spec": {"p": given}}
    assert pruned(schema(p=property), obj) == ({"spec": {"p": left}}, unknown)
    assert obj == {"spec": {"p": given}}


def test_unknown_fields_are_reported_alphabetically() -> None:
    assert pruned(schema(), {"z": 1, "spec": {"b": 1, "a": 2}, "a": 1})[1] == ["a", "spec.a", "spec.b", "z"]


def test_a_null_stays_only_where_it_may_be() -> None:
    node = schema(n={"nullable": True, **TEXT}, o=TEXT, d={"default": "q", **TEXT})
    obj = without_nulls(node, {"spec": {"n": None, "o": None, "d": None}})
    assert obj == {"spec": {"n": None, "d": None}}  # to be filled in
    assert defaulted(node, obj) == {"spec": {"n": None, "d": "q"}}


def test_defaults_fill_what_other_defaults_made() -> None:
    node = structural(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "default": {},
                    "properties": {"a": {"default": [1], "type": "array"}},
                }
            },
        }
    )
    assert defaulted(node, {}) == {"spec": {"a": [1]}}


def test_the_default_of_a_maps_values_takes_the_place_of_a_null() -> None:
    node = schema(m={"type": "object", "additionalProperties": {**TEXT, "default": "d"}})
    obj = {"spec": {"m": {"a": None, "b": "x"}}}
    assert defaulted(node, without_nulls(node, obj)) == {"spec": {"m": {"a": "d", "b": "x"}}}


def test_items_and_values_of_maps_have_defaults_of_their_own() -> None:
    below = {"type": "object", "properties": {"a": {"default": 1, "type": "integer"}}}
    node = schema(l={"type": "array", "items": below}, m={"type": "object", "additionalProperties": below})
    made = defaulted(node, {"spec": {"l": [{}, {"a": 2}], "m": {"k": {}}}})
    assert made == {"spec": {"l": [{"a": 1}, {"a": 2}], "m": {"k": {"a": 1}}}}


def test_metadata_is_that_of_any_object() -> None:
    obj, unknown = typed_metadata({"metadata": {"name": "a", "labels": None, "foo": 1}})
    assert (obj, unknown) == ({"metadata": {"name": "a"}}, ["metadata.foo"])
    with pytest.raises(
        BadPart, match=r"cannot unmarshal number into Go struct field ObjectMeta\.labels of type string"
    ):
        typed_metadata({"metadata": {"labels": {"a": 1}}})


def test_metadata_of_wrong_types_are_left_out_of_what_a_webhook_has_patched() -> None:
    given = {"metadata": {"name": "a", "labels": {"a": 1}, "annotations": {"b": "c"}}, "x": 1}
    assert with_fitting_metadata(given) == {"metadata": {"name": "a", "annotations": {"b": "c"}}, "x": 1}
    with pytest.raises(BadPart):
        with_fitting_metadata({"metadata": []})


def test_embedded_objects_have_metadata_too() -> None:
    node = schema(
        e={
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        }
    )
    given = {"spec": {"e": {"kind": "K", "metadata": {"name": "x", "foo": 1}}}}
    assert with_typed_parts(node, given) == (
        {"spec": {"e": {"kind": "K", "metadata": {"name": "x"}}}},
        ["spec.e.metadata.foo"],
    )
    null = with_typed_parts(node, {"spec": {"e": {"kind": "K", "metadata": None}}})
    assert null == ({"spec": {"e": {"kind": "K", "metadata": {}}}}, [])
    with pytest.raises(BadPart, match=r"spec\.e\.kind: Invalid value: 1: must be a string"):
        with_typed_parts(node, {"spec": {"e": {"kind": 1}}})


def test_a_schema_that_makes_no_sense_asks_for_nothing() -> None:
    node = structural({"properties": [], "items": 5, "additionalProperties": "x", "default": None, "type": 7})
    assert defaulted(node, {"a": 1}) == {"a": 1}
    assert pruned(node, {"a": 1}) == ({}, ["a"])
