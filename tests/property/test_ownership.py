"""Ownership and patches against naive models."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.machinery.managed import Writer, on_create, on_update
from sim.machinery.managed_set import difference, intersection, of_paths, outside, union
from sim.machinery.patch import merge_patch
from sim.machinery.schema import schema_of_kind

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
def test_every_value_has_the_one_owner_who_wrote_it_last(writes: list[tuple[str, dict[str, str]]]) -> None:
    manager, data = writes[0]
    obj: dict[str, Any] = {"metadata": {"name": "a"}, "data": data}
    managed = on_create(CONFIG_MAP, obj, Writer(manager, "v1", 0))
    owner = dict.fromkeys(data, manager)
    for time_s, (manager, data) in enumerate(writes[1:], 1):
        new = {**obj, "data": data}
        managed = on_update(CONFIG_MAP, managed, obj, new, Writer(manager, "v1", time_s))
        owner = {k: owner[k] if obj["data"].get(k) == v else manager for k, v in data.items()}
        obj = new
    for key, by in owner.items():
        assert [e.manager for e in managed if f"f:{key}" in e.fields.get("f:data", {})] == [by]
    owned = [f for e in managed for f in e.fields["f:data"] if f != "."]
    assert sorted(owned) == sorted(f"f:{key}" for key in owner)


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
def test_a_merge_patch_applied_twice_is_applied_once(document: Any, patch: Any) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once
