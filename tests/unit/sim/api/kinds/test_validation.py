"""Semantic validation on plain values; the recorded answers are in test_validation_golden."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sim.api.kinds.samples import VALID, created, made, updated


@pytest.mark.parametrize("resource", sorted(VALID))
def test_valid_object_of_every_kind_passes_create_and_relabelling(resource: str) -> None:
    obj = made(resource)
    assert created(resource, obj) == []
    assert updated(resource, {**obj, "metadata": {**obj["metadata"], "labels": {"x": "y"}}}, obj) == []


@pytest.mark.parametrize("resource", sorted(VALID))
def test_bad_name_is_refused_for_every_kind(resource: str) -> None:
    obj = made(resource)
    bad = {**obj, "metadata": {**obj["metadata"], "name": "a/b"}}
    assert created(resource, bad)


def test_changed_uid_is_reported_by_the_general_rules_and_those_of_the_kind():
    old = made("configmaps")
    new = {**old, "metadata": {**old["metadata"], "uid": "u"}}
    assert updated("configmaps", new, old) == ['metadata.uid: Invalid value: "u": field is immutable'] * 2


@pytest.mark.parametrize(
    "resource", ["events", "configmaps", "leases", "poddisruptionbudgets", "runtimeclasses"]
)
@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": "a%b"},
        {"name": ".."},
        {"labels": {"a b": "c"}},
        {"annotations": {"a b": "c"}},
        {"finalizers": ["a b"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"}]},
    ],
)
def test_metadata_that_breaks_a_general_rule_is_refused_for_every_kind(
    resource: str, wrong: dict[str, Any]
) -> None:
    obj = made(resource, **({"involvedObject": {"namespace": "d"}} if resource == "events" else {}))
    if resource == "runtimeclasses":
        obj = {**obj, "handler": "h"}
    assert created(resource, obj) == []
    assert created(resource, {**obj, "metadata": {**obj["metadata"], **wrong}}) != []
