"""The fast path of strategic merge against the ordinary one."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch as replaced

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.api.patch import strategic_merge as strategic
from sim.api.patch.json_patches import PatchError
from sim.api.schema.field_schemas import schema_of_kind

POD = schema_of_kind("", "v1", "Pod")
TYPES = st.sampled_from(("Ready", "Initialized", "PodScheduled", "ContainersReady", True, 1, None))
TEXT = st.sampled_from(("a", "b", None))
CONDITION = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(("Ready", "Initialized", "PodScheduled", "ContainersReady")),
        "status": TEXT,
        "reason": TEXT,
        "$patch": st.sampled_from(("delete", "replace", "merge")),
    },
)
PLAIN = st.fixed_dictionaries({"type": st.sampled_from("ABCDE"), "status": TEXT}, optional={"reason": TEXT})
ODD = st.one_of(CONDITION, PLAIN, st.just("text"), st.just(["list"]), st.builds(lambda t: {"type": t}, TYPES))
UNIQUE = st.lists(PLAIN, max_size=4, unique_by=lambda c: str(c["type"]))
LISTS = st.one_of(UNIQUE, UNIQUE, st.lists(ODD, max_size=4))
NAMES = st.permutations("ABCDEF").map(lambda names: [{"type": name} for name in names])
ORDERS = st.one_of(NAMES, NAMES, st.lists(ODD, max_size=4))
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "conditions": LISTS,
        "phase": TEXT,
        "podIPs": st.lists(st.builds(lambda ip: {"ip": ip}, TEXT), max_size=2),
        "containerStatuses": st.lists(
            st.builds(lambda n: {"name": n, "state": {"running": n}}, TEXT), max_size=2
        ),
    },
)
PATCHES = st.tuples(STATUS, st.none() | ORDERS).map(
    lambda pair: pair[0] if pair[1] is None else {**pair[0], "$setElementOrder/conditions": pair[1]}
)


def outcome(original: Any, patch: Any) -> Any:
    try:
        return strategic.strategic_merge(POD, original, patch)
    except PatchError as error:
        return error.code, error.message
    except TypeError:  # what no decoder lets through
        return TypeError


@settings(max_examples=400, deadline=None)
@given(STATUS, PATCHES)
def test_fast_merge_of_named_lists_equals_the_ordinary_merge(old: Any, patch: Any) -> None:
    original = {"metadata": {"name": "p"}, "status": old}
    short = outcome(original, {"status": patch})
    with replaced.object(strategic, "_merge_plain", lambda *_: None):
        assert repr(short) == repr(outcome(original, {"status": patch}))


def naive_without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: naive_without_nulls(v) for k, v in value.items() if v is not None}
    return [naive_without_nulls(v) for v in value] if isinstance(value, list) else value


@settings(max_examples=100, deadline=None)
@given(STATUS)
def test_what_is_new_to_a_document_comes_without_nulls(status: Any) -> None:
    merged = strategic.strategic_merge(POD, {"metadata": {}}, {"status": status})
    assert merged["status"] == naive_without_nulls(status)
