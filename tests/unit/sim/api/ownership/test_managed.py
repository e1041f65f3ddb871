"""Ownership records: the fields that a write owns."""

from __future__ import annotations

import pytest

from sim.api.ownership.differences import changed_fields, field_set
from sim.api.ownership.field_sets import difference, intersection, of_paths, outside, read_tree, union
from sim.api.ownership.managed import (
    ANCIENT,
    UPDATE_MANAGERS_MAX,
    Writer,
    live_or_given,
    of_registered,
    on_create,
    on_update,
    render,
    reset_fields,
)
from sim.api.schema.field_schemas import schema_of_kind
from sim.api.scheme.scheme import Scheme
from sim.api.store import Managed
from sim.api.types import Obj
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
CONFIG_MAP = SCHEME.resource("configmaps").schema
POD = SCHEME.resource("pods").schema
SERVICE = SCHEME.resource("services").schema


def config_map(data: Obj | None = None, **metadata: object) -> Obj:
    obj: Obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "d", **metadata},
    }
    return obj if data is None else {**obj, "data": data}


def by(manager: str, at: int = 1, subresource: str = "") -> Writer:
    return Writer(manager, "v1", at, subresource)


def owned(managed: object) -> dict[str, object]:
    return {entry["manager"]: entry["fieldsV1"] for entry in render(managed, {})}  # type: ignore[arg-type]


def test_a_creator_owns_maps_with_their_dot_and_nothing_of_the_identity():
    made = on_create(CONFIG_MAP, config_map({"a": "1"}, labels={"x": "y"}, uid="u"), by("m"))
    assert owned(made) == {
        "m": {"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}}
    }


def test_structs_held_by_value_have_no_dot_and_pointers_have_one():
    made = on_create(
        POD,
        {
            "metadata": {"name": "p"},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "resources": {},
                        "ports": [{"containerPort": 80}],
                        "livenessProbe": {"periodSeconds": 1},
                    }
                ],
                "securityContext": {},
            },
            "status": {"phase": "Pending"},
        },
        by("m"),
        reset_fields("pods", "", True),
    )
    port = 'k:{"containerPort":80,"protocol":"TCP"}'
    assert owned(made)["m"] == {
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:name": {},
                    "f:resources": {},
                    "f:ports": {".": {}, port: {".": {}, "f:containerPort": {}}},
                    "f:livenessProbe": {".": {}, "f:periodSeconds": {}},
                }
            },
            "f:securityContext": {},
        }
    }


def test_changed_value_moves_to_its_writer_and_a_removed_one_has_no_owner():
    first = config_map({"a": "1", "b": "2"})
    made = on_create(CONFIG_MAP, first, by("m1"))
    second = config_map({"a": "2", "c": "3"})
    after = on_update(CONFIG_MAP, made, first, second, by("m2", 9))
    assert owned(after) == {"m1": {"f:data": {}}, "m2": {"f:data": {"f:a": {}, "f:c": {}}}}
    gone = on_update(CONFIG_MAP, after, second, config_map(), by("m3", 10))
    assert gone == ()


@pytest.mark.parametrize("key", ["spec", "metadata", "template", "strategy", "eventTime"])
@pytest.mark.parametrize("value", ["v", ""])
def test_entries_of_a_map_that_are_called_as_a_struct_are_entries(key: str, value: str) -> None:
    without = {"data": {"k": "v"}}
    having = {"data": {"k": "v", key: value}}
    assert changed_fields(CONFIG_MAP, without, having) == ({"f:data": {f"f:{key}": {}}}, {})
    assert changed_fields(CONFIG_MAP, having, without) == ({}, {"f:data": {f"f:{key}": {}}})


def test_the_time_moves_with_a_value_and_not_with_a_removal():
    first = config_map({"a": "1", "b": "2"})
    made = on_create(CONFIG_MAP, first, by("m", 1))
    removed = on_update(CONFIG_MAP, made, first, config_map({"a": "1"}), by("m", 2))
    assert [e.time_s for e in removed] == [1]
    changed = on_update(CONFIG_MAP, removed, config_map({"a": "1"}), config_map({"a": "2"}), by("m", 3))
    assert [e.time_s for e in changed] == [3]
    assert changed[0].fields is removed[0].fields


def test_subresources_are_entries_of_their_own_and_never_own_what_they_reset():
    first: Obj = {"metadata": {"name": "p"}, "spec": {"containers": None}, "status": {"phase": "Pending"}}
    made = on_create(
        POD,
        {**first, "metadata": {"name": "p", "labels": {"a": "b"}}},
        by("m"),
        reset_fields("pods", "", True),
    )
    new = {**first, "spec": {"nodeName": "n", "containers": None}, "status": {"phase": "Running"}}
    after = on_update(POD, made, first, new, by("m", 2, "status"), reset_fields("pods", "status", True))
    assert [(e["manager"], e.get("subresource"), e["fieldsV1"]) for e in render(after, {})] == [
        ("m", None, {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}),
        ("m", "status", {"f:status": {"f:phase": {}}}),
    ]


def test_an_emptied_record_stays_empty_under_updates():
    assert on_update(CONFIG_MAP, (), config_map(), config_map({"a": "1"}), by("m")) == ()


def test_a_client_empties_the_record_through_the_main_resource_only():
    live = on_create(CONFIG_MAP, config_map({"a": "1"}), by("m"))
    for given in ([], [{}]):
        assert live_or_given(live, config_map({"a": "1"}, managedFields=given), "") == ()
        assert live_or_given(live, config_map({"a": "1"}, managedFields=given), "status") is live
    assert live_or_given(live, config_map({"a": "1"}), "") is live
    assert live_or_given((), config_map({}, managedFields=render(live, {})), "") == live


def test_invalid_given_record_keeps_the_old_and_of_duplicates_the_later_counts():
    live = on_create(CONFIG_MAP, config_map({"a": "1"}), by("m"))
    (entry,) = render(live, {})
    for wrong in ({"apiVersion": ""}, {"fieldsType": ""}, {"operation": "Sing"}, {"fieldsV1": {"data": {}}}):
        given = [{**entry, **wrong}]
        assert live_or_given(live, config_map({"a": "1"}, managedFields=given), "") is live
    other = {**entry, "fieldsV1": {"f:data": {"f:z": {}}}}
    bare = {key: entry[key] for key in ("operation", "apiVersion", "fieldsType")}
    given = live_or_given(live, config_map({"a": "1"}, managedFields=[entry, bare, other]), "")
    assert [read.fields for read in given] == [{}, {"f:data": {"f:z": {}}}]


def test_given_record_is_read_as_a_set_and_lost_entries_count_until_the_write():
    (entry,) = render(on_create(CONFIG_MAP, config_map({"a": "1"}), by("m")), {})
    assert read_tree({"x:y": {}, "f:a": {"x:y": {}}}) == {"f:a": {}}  # unknown elements are ignored
    assert read_tree({'k:{"b":1, "a":2}': None}) == {'k:{"a":2,"b":1}': {}}
    for wrong in ({"data": {}}, {"k:[]": {}}, {"v:x": {}}, {"i:x": {}}, {"f:a": 1}, "x"):
        assert read_tree(wrong) is None
    old = config_map({"a": "1"})
    new = config_map({"a": "2"}, managedFields=[{**entry, "apiVersion": "v9"}])
    given = of_registered(live_or_given((), new, ""), lambda version: version == "v1")
    assert [(e.api_version, e.fields) for e in given] == [("v9", {})]
    assert owned(on_update(CONFIG_MAP, given, old, new, by("u"))) == {"u": {"f:data": {"f:a": {}}}}


def test_more_than_ten_updaters_fold_the_oldest_into_one():
    obj = config_map({"k0": "0"})
    managed = on_create(CONFIG_MAP, obj, by("m0", 100))
    for i in range(1, UPDATE_MANAGERS_MAX + 3):
        new = config_map({**obj["data"], f"k{i}": "0"})
        managed = on_update(CONFIG_MAP, managed, obj, new, by(f"m{i}", 100 + i))
        obj = new
    assert len(managed) == UPDATE_MANAGERS_MAX
    assert (managed[0].manager, managed[0].time_s) == (ANCIENT, 103)
    assert managed[0].fields == {"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}}


def test_alike_objects_share_one_tree():
    a = on_create(CONFIG_MAP, config_map({"a": "1"}), by("m"))
    b = on_create(CONFIG_MAP, config_map({"a": "2"}), by("m", 7))
    assert a[0].fields is b[0].fields


def test_apply_owns_containers_only_where_they_are_empty():
    assert field_set(
        SERVICE, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
    ) == {
        "f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}, "f:selector": {}}
    }


def test_what_holds_nothing_but_an_empty_list_is_not_owned():
    assert field_set(SERVICE, {"spec": {"ports": []}, "status": {"loadBalancer": {}}}) == {
        "f:status": {"f:loadBalancer": {}}
    }


def test_set_algebra_distinguishes_a_node_from_its_children():
    a = union(of_paths(("x",)), of_paths(("x", "y"), ("z",)))
    assert a == {"f:x": {".": {}, "f:y": {}}, "f:z": {}}
    assert difference(a, of_paths(("x",))) == {"f:x": {"f:y": {}}, "f:z": {}}
    assert outside(a, of_paths(("x",))) == {"f:z": {}}
    assert intersection(a, of_paths(("x",), ("q",))) == {"f:x": {}}
    assert difference(a, a) == {}


def test_oldest_of_a_thousand_managers_are_combined():
    count = 6400
    record = tuple([Managed(f"m{i}", "Update", "v1", 1, of_paths(("data", f"{i}"))) for i in range(count)])
    folded = on_update(CONFIG_MAP, record, config_map({}), config_map({"a": "1"}), by("n", 2))
    assert [len(entry.fields["f:data"]) for entry in folded if entry.manager == ANCIENT] == [count - 8]


def test_an_empty_list_that_the_type_writes_as_null_is_owned():
    node = schema_of_kind("discovery.k8s.io", "v1", "EndpointSlice")
    slices = {"addressType": "IPv4", "endpoints": None, "ports": []}
    assert on_create(node, slices, by("m"))[0].fields == {"f:addressType": {}, "f:ports": {}}
