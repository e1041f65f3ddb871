"""What the rules of a replica make of an object."""

from __future__ import annotations

from actors.apiserver.rules import token_suffix

ACCOUNT = {"metadata": {"name": "default", "uid": "1"}}
SPEC = {"containers": [{"name": "a", "image": "i"}]}


def test_a_token_volumes_name_depends_on_spec_and_account_only() -> None:
    assert token_suffix(SPEC, ACCOUNT) == token_suffix({**SPEC}, {**ACCOUNT})
    assert token_suffix(SPEC, ACCOUNT) != token_suffix({"containers": []}, ACCOUNT)
    assert token_suffix(SPEC, ACCOUNT) != token_suffix(SPEC, {"metadata": {"name": "default", "uid": "2"}})
    assert len(token_suffix(SPEC, ACCOUNT)) == 5
