"""What a Secret for a service account's token lacks, and what is written into it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from actors.controllers.serviceaccount_tokens.decide import (
    AccountKey,
    filled,
    missing_fields,
    secret_key,
    token_owner,
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
    made = filled(secret, ACCOUNT, "ca", "", N)
    assert made["data"] == {
        "token": _encoded("mine"),
        "note": _encoded("x"),
        "ca.crt": _encoded("ca"),
        "namespace": _encoded("shop"),
    }
    assert made["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == "u-1"
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
