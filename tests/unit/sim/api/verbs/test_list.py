"""Where a list is served from, and what its tokens carry."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode

import pytest

from sim.api.refusals import Refusal
from sim.api.verbs.list import ListPlan, check_match, decode_token, encode_token, plan_list

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


@pytest.mark.parametrize(
    ("token", "revision", "text"),
    [
        ("%", "5", "invalid continue token"),
        (TOKEN, "00", "specifying resource version is not allowed when using continue"),
        ("%", "x", "invalid resource version"),
    ],
)
def test_token_is_read_before_its_revision_is_refused(token: str, revision: str, text: str) -> None:
    """etcd3 store.go, GetList: the revision is parsed, the token is decoded, then both are judged."""
    with pytest.raises(Refusal) as refused:
        plan_list({"continue": token, "resourceVersion": revision}, False)
    assert refused.value.body["message"].startswith(text)


def told(value: object) -> str:
    """What is said of a token that holds a value."""
    token = urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    with pytest.raises(Refusal) as refused:
        decode_token(token)
    message = refused.value.body["message"]
    assert refused.value.code == 400
    assert message.startswith("invalid continue token: continue key is not valid: ")
    return str(message.removeprefix("invalid continue token: continue key is not valid: "))


def test_a_token_of_other_types_is_refused_as_go_decodes_it() -> None:
    version = "meta.k8s.io/v1"
    into = "json: cannot unmarshal {} into Go struct field continueToken.{} of type {}"
    for rv, kind in (("abc", "string"), ([1], "array"), (True, "bool"), (1.5, "number 1.5")):
        assert told({"v": version, "rv": rv, "start": "a"}) == into.format(kind, "rv", "int64")
    assert told({"v": version, "rv": 2**63, "start": "a"}) == into.format(f"number {2**63}", "rv", "int64")
    assert told({"v": version, "rv": 1, "start": 5}) == into.format("number", "start", "string")
    assert told({"v": ["x"]}) == into.format("array", "v", "string")
    assert told([]) == "json: cannot unmarshal array into Go value of type storage.continueToken"
    assert told(None) == told({}) == "server does not recognize this encoded version "
    assert told({"v": version}) == f"incorrect encoded start resourceVersion (version {version})"
    assert told({"v": version, "rv": 1}) == f"encoded start key empty (version {version})"


@pytest.mark.parametrize("start", ["../x", "a/../../x", "a//b", "a/", "//a", "./a"])
def test_a_token_leads_nowhere_above_its_list(start: str) -> None:
    assert told({"v": "meta.k8s.io/v1", "rv": 1, "start": start}) == start


def test_token_that_is_not_base64_is_refused_with_the_position() -> None:
    for token, at in (("%%%", 0), ("abc%", 3), ("abcde", 4), ("abc=", 3), ("é", 0), ("a b", 1)):
        with pytest.raises(Refusal, match=f"illegal base64 data at input byte {at}$"):
            decode_token(token)


def test_match_of_a_watch_without_a_revision_has_two_causes() -> None:
    with pytest.raises(Refusal) as refused:
        check_match({"resourceVersionMatch": "Exact"}, "meta.k8s.io", watching=True)
    assert [cause["message"] for cause in refused.value.body["details"]["causes"]] == [
        "Forbidden: resourceVersionMatch is forbidden for watch",
        "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
    ]


def test_token_round_trips_and_malformed_one_is_refused() -> None:
    assert decode_token(TOKEN) == (7, "default/a\0")
    assert decode_token(encode_token(-1, "b")) == (-1, "b")
    assert decode_token(encode_token(7, "/a\0")) == (7, "/a\0")  # of what has no namespace
    for bad in ("zzz", "!!", encode_token(0, "x"), encode_token(3, "")):
        with pytest.raises(Refusal) as refused:
            decode_token(bad)
        assert refused.value.code == 400
    with pytest.raises(Refusal):
        plan_list({"continue": TOKEN, "resourceVersion": "5"}, False)
