"""What a Secret for a service account's token lacks, and what is written into it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from actors.controllers.serviceaccount_tokens.decide import (
    AccountKey,
    account_key,
    filled,
    has_referenced_token,
    is_token_secret,
    missing_fields,
    new_secret,
    secret_key,
    token_owner,
    with_reference,
    without_reference,
)
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["kubernetes"]
ACCOUNT: Obj = {"metadata": {"namespace": "shop", "name": "robot", "uid": "u-1"}}


def _secret(uid: str = "u-1", **data: str) -> Obj:
    annotations = {"kubernetes.io/service-account.name": "robot"}
    if uid:
        annotations["kubernetes.io/service-account.uid"] = uid
    return {
        "metadata": {"namespace": "shop", "name": "key", "uid": "s-1", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
        "data": {name: _encoded(text) for name, text in data.items()},
    }


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def _ca(text: str) -> dict[str, Any]:
    return {"ca.crt": text}


@pytest.mark.parametrize(
    ("secret", "authority", "missing"),
    [
        (_secret(), "ca", ["ca.crt", "namespace", "token"]),
        (_secret(), "", ["namespace", "token"]),
        (_secret(namespace="shop", token="t", **_ca("ca")), "ca", []),
        (_secret(namespace="shop", token="t", **_ca("old")), "ca", ["ca.crt"]),
        (_secret(namespace="shop", token="t", **_ca("old")), "", []),
        (_secret(token="t", **_ca("ca")), "ca", ["namespace"]),
        (_secret(namespace="other", token=""), "", ["token"]),
        ({"metadata": _secret()["metadata"]}, "", ["namespace", "token"]),
    ],
)
def test_secret_lacks_empty_fields_and_another_authority(secret: Obj, authority: str, missing: list[str]):
    assert missing_fields(secret, authority) == missing


def test_filled_secret_keeps_what_it_has_and_names_the_uid():
    secret = _secret(uid="", token="mine", note="x")
    secret["metadata"]["annotations"]["note"] = "y"
    made = filled(secret, ACCOUNT, "ca", "", N)
    assert made["data"] == {
        "token": _encoded("mine"),
        "note": _encoded("x"),
        "ca.crt": _encoded("ca"),
        "namespace": _encoded("shop"),
    }
    assert made["metadata"]["annotations"] == {**_secret()["metadata"]["annotations"], "note": "y"}
    assert "kubernetes.io/service-account.uid" not in secret["metadata"]["annotations"]


def test_filled_secret_holds_the_given_token():
    assert filled(_secret(), ACCOUNT, "", "a.b.c", N)["data"]["token"] == _encoded("a.b.c")


def test_owner_of_a_token_is_identified_by_name_and_uid():
    assert token_owner(_secret(), N) == AccountKey("shop", "robot", "u-1")
    assert token_owner(_secret(uid=""), N) == AccountKey("shop", "robot", "")


@pytest.mark.parametrize(("uid", "changes"), [("u-1", True), ("", True), ("u-0", False)])
def test_reference_is_removed_from_the_account_of_the_secret_only(uid: str, changes: bool):
    account = {**ACCOUNT, "secrets": [{"name": "key"}, {"name": "other"}]}
    made = without_reference(account, secret_key(_secret(uid), N))
    assert made == ({**ACCOUNT, "secrets": [{"name": "other"}]} if changes else None)


def test_account_without_the_reference_is_not_changed():
    assert without_reference(ACCOUNT, secret_key(_secret(), N)) is None


def test_a_bare_secret_is_filled_from_nothing():
    bare = {"metadata": {"namespace": "shop", "name": "key", "uid": "s-1"}, "data": None}
    made = filled(bare, ACCOUNT, "ca", "t", N)
    assert made["data"] == {"ca.crt": _encoded("ca"), "namespace": _encoded("shop"), "token": _encoded("t")}
    assert made["metadata"]["annotations"] == _secret()["metadata"]["annotations"]
    assert secret_key(bare, N)[3:] == ("", "")


def test_token_secrets_are_known_by_their_type():
    assert is_token_secret(_secret(), N)
    assert not is_token_secret({**_secret(), "type": "Opaque"}, N)
    assert not is_token_secret({}, N)
    assert account_key(ACCOUNT) == AccountKey("shop", "robot", "u-1")


@pytest.mark.parametrize(
    ("named", "secrets", "wanted"),
    [
        (["key"], ["key"], True),
        (["other", "key"], ["else", "key"], True),
        (["other"], ["key"], False),
        (None, ["key"], False),
        ([], [], False),
        (["key"], [], False),
    ],
)
def test_an_account_refers_to_one_of_its_tokens(named: list[str] | None, secrets: list[str], wanted: bool):
    account = {**ACCOUNT, "secrets": named and [{"name": name} for name in named]}
    assert has_referenced_token(account, [{"metadata": {"name": name}} for name in secrets]) is wanted
    assert has_referenced_token(ACCOUNT, [_secret()]) is False


def test_references_are_added_behind_those_that_there_are():
    assert with_reference(ACCOUNT, "a")["secrets"] == [{"name": "a"}]
    assert with_reference({**ACCOUNT, "secrets": [{"name": "b"}]}, "a")["secrets"] == [
        {"name": "b"},
        {"name": "a"},
    ]


@pytest.mark.parametrize(
    ("authority", "keys"), [("ca", ["token", "namespace", "ca.crt"]), ("", ["token", "namespace"])]
)
def test_a_new_secret_holds_the_authority_if_there_is_one(authority: str, keys: list[str]):
    made = new_secret(ACCOUNT, "robot-token-x", authority, "t", N)
    assert list(made["data"]) == keys
    assert made["metadata"]["name"] == "robot-token-x"
    assert is_token_secret(made, N)
    made["metadata"]["uid"] = "s-1"
    assert token_owner(made, N) == account_key(ACCOUNT)
