"""The text of a patched object that does not fit its type."""

from __future__ import annotations

from typing import Any

from sim.api.patch.patched_text import in_go_order, merged_patch, patched_text
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
    assert patched_text(SOURCE, patch) == (
        '{"metadata":{"name":"p","uid":"u","labels":{"a":"","b":"\\u003c"}},'
        '"spec":{"containers":[{"name":"c","imagePullPolicy":"Always"}],"initContainers":[],"nodeName":1}}'
    )


def test_maps_on_the_path_of_an_operation_are_written_in_order_of_their_keys() -> None:
    patch = [{"op": "add", "path": "/metadata/labels/c", "value": 1}]
    assert patched_text(SOURCE, patch) == (
        '{"metadata":{"labels":{"a":"","b":"\\u003c","c":1},"name":"p","uid":"u"},'
        '"spec":{"initContainers":[],"containers":[{"name":"c","imagePullPolicy":"Always"}],"nodeName":"n"}}'
    )


def test_custom_objects_are_quoted_in_order_of_their_keys() -> None:
    source: Any = in_go_order(None, {"spec": {"b": 1, "a": {"d": 1, "c": 2}}, "kind": "X"})
    assert patched_text(source, {"x": 1}) == ('{"kind":"X","spec":{"a":{"c":2,"d":1},"b":1},"x":1}')


def test_lists_of_a_merge_patch_are_written_in_order_of_keys() -> None:
    patch = {
        "spec": {"containers": [{"z": 1, "name": None, "a": [[{"d": 1, "c": 2}]]}], "initContainers": []}
    }
    assert '"containers":[{"a":[[{"c":2,"d":1}]],"z":1}]' in patched_text(SOURCE, patch)


def test_what_a_merge_patch_puts_in_place_of_a_map_keeps_its_order() -> None:
    patch = {"metadata": {"labels": [{"z": 1, "a": None}]}}
    assert '"labels":[{"z":1,"a":null}]' in patched_text(SOURCE, patch)


def test_an_add_operation_does_not_read_its_from() -> None:
    patch = [{"op": "add", "path": "/spec/nodeName", "from": "/metadata/name", "value": "m"}]
    assert patched_text(SOURCE, patch).startswith('{"metadata":{"name":"p","uid":"u",')


def test_a_strategic_patch_is_printed_without_the_nulls_of_what_it_adds() -> None:
    original = {"spec": {"a": {"b": 1}, "l": [1], "t": "x"}}
    patch = {
        "spec": {"a": {"b": None, "c": {"d": None}}, "l": [{"e": None}], "t": {"f": None}, "n": [{"g": None}]}
    }
    assert merged_patch(original, patch) == {
        "spec": {"a": {"b": None, "c": {}}, "l": [{"e": None}], "t": {}, "n": [{}]}
    }


def test_a_copy_of_a_map_that_an_operation_has_passed_is_in_order_of_its_keys() -> None:
    container = "/spec/containers/0"
    passed = [
        {"op": "add", "path": f"{container}/image", "value": "i"},
        {"op": "copy", "from": container, "path": "/spec/nodeName"},
    ]
    assert '"nodeName":{"image":"i","imagePullPolicy":"Always","name":"c"}' in patched_text(SOURCE, passed)
    moved = [passed[0], {**passed[1], "op": "move"}]
    assert '"nodeName":{"image":"i","imagePullPolicy":"Always","name":"c"}' in patched_text(SOURCE, moved)
    unread = [{"op": "copy", "from": container, "path": "/spec/nodeName"}]
    assert '"nodeName":{"name":"c","imagePullPolicy":"Always"}' in patched_text(SOURCE, unread)
    into_itself = [{"op": "copy", "from": container, "path": f"{container}/z"}]
    assert '"z":{"imagePullPolicy":"Always","name":"c"}' in patched_text(SOURCE, into_itself)
