"""Ownership and patches against naive models."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch as replaced

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.api.ownership import differences as managed_fields
from sim.api.ownership import managed, typed_values
from sim.api.ownership.differences import OWN, changed_fields
from sim.api.ownership.field_sets import difference, intersection, of_paths, outside, union
from sim.api.ownership.managed import Writer, on_create, on_update, rebound, render
from sim.api.patch.json_patches import merge_patch
from sim.api.schema.field_schemas import schema_of_kind

CONFIG_MAP = schema_of_kind("", "v1", "ConfigMap")
KEYS = st.sampled_from("abcd")
DATA = st.dictionaries(KEYS, st.sampled_from("123"), min_size=1)
PATHS = st.lists(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3).map(tuple))
JSON = st.recursive(
    st.none() | st.integers() | st.text("ab", max_size=2),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(("m1", "m2", "m3")), DATA), min_size=1, max_size=6))
def test_every_value_has_its_last_writer_as_owner(writes: list[tuple[str, dict[str, str]]]) -> None:
    manager, data = writes[0]
    obj: dict[str, Any] = {"metadata": {"name": "a"}, "data": data}
    record = on_create(CONFIG_MAP, obj, Writer(manager, "v1", 0))
    owner = dict.fromkeys(data, manager)
    for time_s, (manager, data) in enumerate(writes[1:], 1):
        new = {**obj, "data": data}
        record = on_update(CONFIG_MAP, record, obj, new, Writer(manager, "v1", time_s))
        owner = {k: owner[k] if obj["data"].get(k) == v else manager for k, v in data.items()}
        obj = new
    for key, by in owner.items():
        assert [e.manager for e in record if f"f:{key}" in e.fields.get("f:data", {})] == [by]
    owned = [f for e in record for f in e.fields["f:data"] if f != "."]
    assert sorted(owned) == sorted(f"f:{key}" for key in owner)


ITEM_NAMES = st.sampled_from(["a", "b", "", 1, 2, None, True, 1.0, ["a"], {"a": "b"}])
PORTS = st.fixed_dictionaries(
    {}, optional={"containerPort": ITEM_NAMES, "protocol": st.sampled_from(["TCP", "UDP", None])}
)
CONTAINERS = st.fixed_dictionaries(
    {},
    optional={
        "name": ITEM_NAMES,
        "ports": st.lists(PORTS | st.none(), max_size=3),
        "args": st.just(["x", "x"]),
    },
)
PODS = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({}, optional={"finalizers": st.lists(ITEM_NAMES, max_size=3)})},
    optional={"spec": st.fixed_dictionaries({"containers": st.lists(CONTAINERS | st.just("c"), max_size=3)})},
)


@settings(max_examples=300, deadline=None)
@given(PODS)
def test_items_that_are_named_by_a_short_look_have_no_error(pod: dict[str, Any]) -> None:
    schema, found = schema_of_kind("", "v1", "Pod"), list[str]()
    typed_values._check_names(schema, pod, "", found)
    assert typed_values.name_errors(schema, pod) == found


def test_short_look_suffices_for_an_ordinary_pod() -> None:
    port = {"containerPort": 80, "protocol": "TCP"}
    containers = [{"name": name, "ports": [port, {"containerPort": 81}]} for name in "ab"]
    pod = {"metadata": {"finalizers": ["x/y", "x/z"]}, "spec": {"containers": containers}}
    assert typed_values._is_named(schema_of_kind("", "v1", "Pod"), pod)


def members(tree: dict[str, Any], above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    out: set[tuple[str, ...]] = set()
    for name, below in tree.items():
        if name == ".":
            continue
        path = (*above, name[2:])
        out |= members(below, path)
        if not below or "." in below:
            out.add(path)
    return out


@settings(max_examples=100, deadline=None)
@given(PATHS, PATHS)
def test_the_algebra_of_trees_is_the_algebra_of_sets(
    a: list[tuple[str, ...]], b: list[tuple[str, ...]]
) -> None:
    left, right = of_paths(*a), of_paths(*b)
    assert members(union(left, right)) == set(a) | set(b)
    assert members(difference(left, right)) == set(a) - set(b)
    assert members(intersection(left, right)) == set(a) & set(b)
    assert members(outside(left, right)) == {p for p in a if not any(p[: len(q)] == q for q in b)}
    assert union(left, right) is union(right, left)


@settings(max_examples=100, deadline=None)
@given(JSON, JSON)
def test_a_merge_patch_changes_nothing_from_its_third_time_on(document: Any, patch: Any) -> None:
    """A list that takes the place of a map keeps the nulls within it, and loses them when it takes
    the place of itself.
    """
    twice = merge_patch(merge_patch(document, patch), patch)
    assert merge_patch(twice, patch) == twice


POD = schema_of_kind("", "v1", "Pod")
EVENT = schema_of_kind("", "v1", "Event")
ADDRESSES = st.lists(st.sampled_from(("10.0.0.1", "10.0.0.2", "fd::1")), max_size=2, unique=True)
STATUSES = st.fixed_dictionaries(
    {"podIPs": ADDRESSES.map(lambda listed: [{"ip": ip} for ip in listed])},
    optional={"phase": st.sampled_from(("Pending", "Running"))},
)
SENT = st.none() | st.just("own") | st.just("old")
WRITES = st.lists(
    st.tuples(st.sampled_from(("m1", "m2")), STATUSES, st.sampled_from(("status", "")), SENT), max_size=6
)


def pod(status: dict[str, Any], label: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"at": label}},
        "spec": {},
        "status": status,
    }


def written(first: dict[str, Any], writes: Any) -> list[Any]:
    """The rendered records after each write, as the verbs make them."""
    obj = pod({}, "0")
    record = on_create(POD, pod(first, "0"), Writer("m0", "v1", 0))
    shown = [render(record, obj)]
    for time_s, (manager, status, subresource, sent) in enumerate(writes, 1):
        wanted = pod(status, str(time_s % 3))
        if sent:  # a client that sends a record along
            listed = shown[-1] if sent == "own" else shown[0]
            wanted["metadata"]["managedFields"] = listed
        live = managed.live_or_given(record, wanted, subresource)
        reset = managed.reset_fields("pods", subresource, True)
        record = on_update(POD, live, obj, wanted, Writer(manager, "v1", time_s, subresource), reset)
        stored = pod(status if subresource else obj["status"], str(time_s % 3))
        record = rebound(record, wanted, stored)
        obj = stored
        shown.append(render(record, obj))
        address = managed.own_address(obj)
        if address:
            assert f'"{address}"' not in str([entry.fields for entry in record])
        else:
            assert OWN not in str([entry.fields for entry in record])
    return shown


@settings(max_examples=300, deadline=None)
@given(STATUSES, WRITES)
def test_sets_without_a_pods_own_address_say_what_sets_with_it_say(
    first: dict[str, Any], writes: Any
) -> None:
    shown = written(first, writes)
    with replaced.object(managed, "own_address", lambda obj: ""):
        assert shown == written(first, writes)


VALUES = st.sampled_from((None, "", "a", "b", 0, 1))
PARTS = st.none() | st.dictionaries(
    st.sampled_from(("name", "kind", "namespace", "host", "component", "count")), VALUES
)
EVENTS = st.fixed_dictionaries(
    {
        "metadata": st.dictionaries(
            st.sampled_from(("name", "uid", "generateName", "labels")), st.sampled_from(("a", "b"))
        )
    },
    optional={
        "count": VALUES,
        "reason": VALUES,
        "eventTime": VALUES,
        "reportingComponent": VALUES,
        "involvedObject": PARTS,
        "source": PARTS,
        "series": PARTS,
        "related": PARTS,
        "unheardOf": VALUES,
    },
)


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=4))
def test_what_an_event_adds_depends_on_its_shape_only(events: list[dict[str, Any]]) -> None:
    for event in events:
        if isinstance(event["metadata"].get("labels"), str):
            event["metadata"]["labels"] = {"a": "b"}
        assert changed_fields(EVENT, {}, event) == managed_fields._changed(EVENT, {}, event)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(("labels", "annotations", "generateName", "name")), DATA), min_size=1
    )
)
def test_what_new_metadata_adds_is_found_once(metadatas: list[dict[str, Any]]) -> None:
    for given_metadata in metadatas:
        metadata = {k: v if k in ("labels", "annotations") else "n" for k, v in given_metadata.items()}
        added = changed_fields(CONFIG_MAP, {}, {"metadata": metadata})[0]
        long_way = managed_fields._compare(
            CONFIG_MAP.properties["metadata"], {}, managed_fields._owned(metadata)
        )[0]
        assert added.get("f:metadata") == long_way
