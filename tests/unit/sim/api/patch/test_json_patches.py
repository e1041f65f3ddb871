"""The three kinds of patch."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.patch.json_patches import (
    COPIED_MAX,
    OPERATIONS_MAX,
    PatchError,
    check_merge_patch,
    check_operations,
    json_patch,
    merge_patch,
)
from sim.api.patch.strategic_merge import restore_error, strategic_merge
from sim.api.schema.field_schemas import schema_of_kind
from sim.api.schema.json_text import GO_DEPTH_MAX
from sim.wire.stack import make_room

CONFIG_MAP = schema_of_kind("", "v1", "ConfigMap")
POD = schema_of_kind("", "v1", "Pod")
DEPLOYMENT = schema_of_kind("apps", "v1", "Deployment")
DOC = {"metadata": {"labels": {"x": "y"}}, "data": {"a": "1", "b": "2"}, "list": [1, 2, 3]}


def op(name: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **rest}


@pytest.mark.parametrize(
    ("operation", "data"),
    [
        (op("add", "/data/c", value="3"), {"a": "1", "b": "2", "c": "3"}),
        (op("add", "/data/c"), {"a": "1", "b": "2", "c": None}),
        (op("remove", "/data/b"), {"a": "1"}),
        (op("replace", "/data/none", value="n"), {"a": "1", "b": "2", "none": "n"}),
        (op("copy", "/data/c", **{"from": "/data/none"}), {"a": "1", "b": "2", "c": None}),
        (op("move", "/data/c", **{"from": "/data/a"}), {"b": "2", "c": "1"}),
        (op("test", "/data/none", value=None), {"a": "1", "b": "2"}),
        (op("add", "#/data/~01x~1", value="q"), {"a": "1", "b": "2", "~1x/": "q"}),
        (op("replace", "", value="text"), {"a": "1", "b": "2"}),
    ],
)
def test_json_patch_changes_maps_as_upstream(operation: dict[str, Any], data: dict[str, Any]) -> None:
    assert json_patch(DOC, [operation])["data"] == data


@pytest.mark.parametrize(
    ("operation", "items"),
    [
        (op("add", "/list/-", value=4), [1, 2, 3, 4]),
        (op("add", "/list/-1", value=4), [1, 2, 3, 4]),
        (op("add", "/list/3", value=4), [1, 2, 3, 4]),
        (op("remove", "/list/-1"), [1, 2]),
        (op("replace", "/list/01", value=0), [1, 0, 3]),
    ],
)
def test_json_patch_takes_negative_and_zero_padded_indexes(
    operation: dict[str, Any], items: list[int]
) -> None:
    assert json_patch(DOC, [operation])["list"] == items


@pytest.mark.parametrize(
    "operation",
    [
        op("remove", "/data/none"),
        op("move", "/data/c", **{"from": "/data/none"}),
        op("add", "/nope/x", value=1),
        op("add", "/data/a/b", value=1),
        op("test", "/data/a", value="2"),
        op("test", "/data/a"),
        op("add", "", value={}),
        op("add", "/list/4", value=1),
        op("replace", "/list/x", value=1),
        {"op": "add", "value": 1},
        op("bogus", "/data/a"),
    ],
)
def test_a_failing_json_patch_is_refused_without_a_reason_in_the_text(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch(DOC, [op("add", "/data/z", value="1"), operation])
    assert (caught.value.code, caught.value.details) == (422, {})
    assert "z" not in DOC["data"]  # type: ignore[operator]


def test_malformed_json_patch_is_a_bad_request_and_unknown_fields_are_reported():
    assert check_operations([{"op": "add", "path": "/a", "extra": 1}]) == ["[0].extra"]
    for body, text in (
        ({}, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([{"op": 1}], "cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ):
        with pytest.raises(PatchError, match="error decoding patch") as caught:
            check_operations(body)
        assert text in caught.value.message
    with pytest.raises(PatchError) as caught:
        check_operations([{}] * (OPERATIONS_MAX + 1))
    assert caught.value.code == 413


def test_copies_that_multiply_are_refused_before_they_fill_the_memory() -> None:
    start = op("add", "/x", value={"a": ["text"] * 10})
    doubling = [op("copy", f"/x/{n}", **{"from": "/x"}) for n in range(60)]
    with pytest.raises(PatchError) as caught:
        json_patch(DOC, [start, *doubling])
    assert (caught.value.code, caught.value.details) == (422, {})
    assert "9" in json_patch(DOC, [start, *doubling[:10]])["x"]
    half = op("add", "/x", value="x" * (COPIED_MAX // 2 - 2))
    twice = [op("copy", "/y", **{"from": "/x"})] * 2
    assert json_patch(DOC, [half, *twice])["y"]
    with pytest.raises(PatchError):
        json_patch(DOC, [half, *twice, op("copy", "/z", **{"from": "/list/0"})])


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_operations_nest_no_deeper_than_a_body_may_be() -> None:
    make_room()
    half = GO_DEPTH_MAX // 2
    deep = [op("add", "/c", value=nested(half)), op("add", "/c" + "/a" * half, value=nested(half - 3))]
    assert json_patch(DOC, deep)["c"]
    deep[1] = op("add", "/c" + "/a" * half, value=nested(half + 1))
    with pytest.raises(PatchError) as caught:
        json_patch(DOC, deep)
    assert caught.value.code == 422


def test_a_test_of_what_nests_deep_compares_all_of_it() -> None:
    make_room()
    document = {"a": nested(GO_DEPTH_MAX - 1), "b": {"l": [1, {"x": True}, {}]}}
    same = op("test", "/a", value=nested(GO_DEPTH_MAX - 1))
    assert json_patch(document, [same, op("test", "/b", value={"l": [1, {"x": True}, {}]})])
    for other in (
        op("test", "/a", value=nested(GO_DEPTH_MAX - 2)),
        op("test", "/b", value={"l": [1, {"x": 1}, {}]}),
        op("test", "/b", value={"l": [1.0, {"x": True}, {}]}),
        op("test", "/b", value={"l": [1, {"x": True}, []]}),
    ):
        with pytest.raises(PatchError):
            json_patch(document, [other])


def test_merge_patch_merges_maps_and_shares_what_it_leaves():
    out = merge_patch(DOC, {"data": {"a": None, "c": {"n": None, "m": 1}}, "list": [9]})
    assert out["data"] == {"b": "2", "c": {"m": 1}}
    assert out["list"] == [9]
    assert out["metadata"] is DOC["metadata"]


def test_merge_patch_drops_nulls_from_maps_inside_lists():
    out = merge_patch({}, {"list": [{"a": None, "b": [[{"c": None}], None]}]})
    assert out == {"list": [{"b": [[{}], None]}]}


def test_merge_patch_keeps_nulls_of_a_list_in_place_of_a_map():
    assert merge_patch({"x": {}}, {"x": [{"a": None}]}) == {"x": [{"a": None}]}


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(containers)}}


def test_strategic_patch_merges_lists_by_key_and_puts_new_items_in_front():
    old = pod({"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"})
    new = strategic_merge(
        POD, old, pod({"name": "c", "image": "2"}, {"name": "b", "image": "2", "args": ["z"]})
    )
    assert [(c["name"], c["image"]) for c in new["spec"]["containers"]] == [
        ("c", "2"),
        ("a", "1"),
        ("b", "2"),
    ]
    assert new["spec"]["containers"][1] is old["spec"]["containers"][0]


def test_strategic_patch_obeys_its_directives():
    old = pod({"name": "a"}, {"name": "b"}, {"name": "c"})

    def names(patch: dict[str, Any]) -> list[str]:
        return [c["name"] for c in strategic_merge(POD, old, {"spec": patch})["spec"]["containers"]]

    assert names({"containers": [{"$patch": "delete", "name": "b"}]}) == ["a", "c"]
    assert names({"containers": [{"$patch": "replace"}, {"name": "z"}]}) == ["z"]
    order = [{"name": "c"}, {"name": "a"}, {"name": "b"}]
    assert names({"$setElementOrder/containers": order}) == ["c", "a", "b"]
    assert strategic_merge(
        POD, {"spec": {"a": 1, "hostname": "h"}}, {"spec": {"$retainKeys": ["hostname"]}}
    ) == {"spec": {"hostname": "h"}}
    assert strategic_merge(POD, old, {"spec": {"$patch": "delete"}}) == {"spec": {}}
    finalizers = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic_merge(
        CONFIG_MAP, finalizers, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    ) == {"metadata": {"finalizers": ["b"]}}
    taken = {"spec": {"containers": [{"name": "a", "$deleteFromPrimitiveList/args": ["x"]}]}}
    given = {"spec": {"containers": [{"name": "a", "args": ["x", "y"]}]}}
    assert strategic_merge(POD, given, taken) == {"spec": {"containers": [{"name": "a", "args": ["x"]}]}}
    assert strategic_merge(CONFIG_MAP, finalizers, {"metadata": {"finalizers": ["c"]}}) == {
        "metadata": {"finalizers": ["c", "a", "b"]}
    }


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (pod({"image": "x"}), 500, "map: map[image:x] does not contain declared merge key: name"),
        ({"spec": {"$patch": 1}}, 500, "unknown patch type: %!s(int64=1) in map: map[$patch:1]"),
        ({"spec": {"$retainKeys": "x"}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"containers": ["t"]}}, 500, "list element types are not identical: [[map[name:a]] [t]]"),
        (
            {"spec": {"$setElementOrder/containers": "x"}},
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}},
            500,
            "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
        ),
        ([], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_a_wrong_directive_is_answered_in_upstreams_words(patch: Any, code: int, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        strategic_merge(POD, pod({"name": "a"}), patch)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_what_is_no_merge_patch_is_a_bad_request():
    check_merge_patch({})
    for body, text in (
        (None, "Invalid JSON Patch"),
        ([], "cannot unmarshal array"),
        ("x", "cannot unmarshal string"),
    ):
        with pytest.raises(PatchError) as caught:
            check_merge_patch(body)
        assert text in caught.value.message


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"spec": {"hostNetwork": "true"}}, "unrecognized type: bool"),
        ({"spec": {"containers": {"name": "c"}}}, "cannot restore slice from map"),
        ({"spec": {"containers": [{"args": [1]}]}}, "cannot convert int64 to string"),
        ({"spec": {"nodeSelector": ["x"]}}, "cannot restore map from slice"),
        ({"spec": "x"}, "cannot restore struct from: string"),
        (
            {"metadata": {"ownerReferences": [[]], "deletionTimestamp": 0}},
            "json: cannot unmarshal number into Go value of type string",
        ),
        (
            {
                "spec": {
                    "topologySpreadConstraints": [
                        {"labelSelector": {"matchExpressions": [[]], "matchLabels": ["a"]}}
                    ]
                }
            },
            "cannot restore map from slice",  # the first field of the selector in Go
        ),
        ({"spec": {"activeDeadlineSeconds": 1.5}}, "cannot convert float64 to int64"),
        ({"spec": {"activeDeadlineSeconds": "5"}}, "unrecognized type: int64"),
        ({"spec": {"activeDeadlineSeconds": 5, "hostNetwork": True, "hostname": None}}, ""),
    ],
)
def test_patched_object_of_wrong_types_is_reported_as_by_the_converter(value: Any, error: str) -> None:
    assert restore_error(POD, value) == error


def test_value_that_is_no_text_is_refused_by_the_name_of_its_go_type() -> None:
    claim = {"spec": {"accessModes": [1]}}
    schema = schema_of_kind("", "v1", "PersistentVolumeClaim")
    assert restore_error(schema, claim) == "cannot convert int64 to v1.PersistentVolumeAccessMode"
