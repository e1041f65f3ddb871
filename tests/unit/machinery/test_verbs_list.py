"""Where a list is served from, and what its tokens carry."""

from __future__ import annotations

import pytest

from sim.machinery.verbs_call import Refusal
from sim.machinery.verbs_list import ListPlan, decode_token, encode_token, plan_list

TOKEN = encode_token(7, "default/a\0")


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        ({}, ListPlan(False)),
        ({"limit": "5"}, ListPlan(False, 0, 5)),
        ({"resourceVersion": "0"}, ListPlan(True)),
        ({"resourceVersion": "0", "limit": "5"}, ListPlan(True)),
        ({"resourceVersion": "9"}, ListPlan(True, 9)),
        ({"resourceVersion": "9", "limit": "5"}, ListPlan(False, 9, 5)),
        ({"resourceVersion": "9", "resourceVersionMatch": "Exact"}, ListPlan(False, 9)),
        ({"resourceVersion": "9", "resourceVersionMatch": "NotOlderThan"}, ListPlan(True, 9)),
        (
            {"resourceVersion": "9", "resourceVersionMatch": "NotOlderThan", "limit": "5"},
            ListPlan(False, 9, 5, newer=True),
        ),
        ({"continue": TOKEN, "limit": "5"}, ListPlan(False, 7, 5, "default/a\0", continued=True)),
        ({"continue": TOKEN, "resourceVersion": "0"}, ListPlan(False, 7, 0, "default/a\0", continued=True)),
    ],
)
def test_a_list_is_planned_by_upstreams_table(options: dict[str, str], plan: ListPlan) -> None:
    assert plan_list(options, False) == plan


def test_a_resource_without_cache_is_always_listed_from_the_store() -> None:
    assert plan_list({"resourceVersion": "9"}, True) == ListPlan(False, 9, newer=True)
    assert plan_list({"resourceVersion": "0"}, True) == ListPlan(False, 0)


def test_a_token_comes_back_as_it_was_and_rubbish_is_refused() -> None:
    assert decode_token(TOKEN) == (7, "default/a\0")
    assert decode_token(encode_token(-1, "b")) == (-1, "b")
    for bad in ("zzz", "!!", encode_token(0, "x"), encode_token(3, "")):
        with pytest.raises(Refusal) as refused:
            decode_token(bad)
        assert refused.value.code == 400
    with pytest.raises(Refusal):
        plan_list({"continue": TOKEN, "resourceVersion": "5"}, False)
