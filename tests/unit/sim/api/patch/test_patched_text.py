"""The text of a patched object that does not fit its type."""

from __future__ import annotations

from typing import Any

from sim.api.patch.json_patches import json_patch, merge_patch
from sim.api.patch.patched_text import in_go_order, patched_text
from sim.api.schema.field_schemas import schema_of_kind

POD = {
    "spec": {
        "nodeName": "n",
        "containers": [{"imagePullPolicy": "Always", "name": "c"}],
        "initContainers": [],
    },
    "metadata": {"labels": {"b": "<", "a": ""}, "uid": "u", "name": "p"},
}
SOURCE: Any = in_go_order(schema_of_kind("", "v1", "Pod"), POD)


def test_maps_that_a_patch_has_not_read_keep_the_order_of_gos_fields() -> None:
    patch = {"spec": {"nodeName": 1}}
    assert patched_text(merge_patch(SOURCE, patch), patch) == (
        '{"metadata":{"name":"p","uid":"u","labels":{"a":"","b":"\\u003c"}},'
        '"spec":{"containers":[{"name":"c","imagePullPolicy":"Always"}],"initContainers":[],"nodeName":1}}'
    )


def test_maps_on_the_path_of_an_operation_are_written_in_order_of_their_keys() -> None:
    patch = [{"op": "add", "path": "/metadata/labels/c", "value": 1}]
    assert patched_text(json_patch(SOURCE, patch), patch) == (
        '{"metadata":{"labels":{"a":"","b":"\\u003c","c":1},"name":"p","uid":"u"},'
        '"spec":{"initContainers":[],"containers":[{"name":"c","imagePullPolicy":"Always"}],"nodeName":"n"}}'
    )


def test_custom_objects_are_quoted_in_order_of_their_keys() -> None:
    source: Any = in_go_order(None, {"spec": {"b": 1, "a": {"d": 1, "c": 2}}, "kind": "X"})
    assert patched_text(merge_patch(source, {"x": 1}), {"x": 1}) == (
        '{"kind":"X","spec":{"a":{"c":2,"d":1},"b":1},"x":1}'
    )
