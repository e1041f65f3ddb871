"""ID tokens of an issuer, and answers of a token webhook: which users they name, and which none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sim.api.auth.authenticator import (
    Accepted,
    Authenticator,
    Credentials,
    Outcome,
    Pending,
    Rejected,
)
from sim.api.auth.authenticators.oidc import FETCH_AGAIN_US, ClaimRules, IdTokens, IssuerKeys, prefix_of
from sim.api.auth.authenticators.token_webhook import ANSWERS_MAX, WebhookTokens, review_of
from sim.api.auth.keys import public_key_set, read_key_set
from sim.api.types import UserInfo
from sim.units import SECOND
from tests.unit.sim.api.auth.tokens import API, NOW_S, N, forged, key

ISSUER = "https://login"
CLAIMS = {
    "iss": ISSUER,
    "aud": "app",
    "sub": "u1",
    "exp": NOW_S + 60,
    "email": "a@b",
    "teams": ["x", "y"],
    "role": "r",
}
NOW_US = NOW_S * SECOND


def id_token(rules: dict[str, Any] | None = None, number: int = 0, **claims: Any) -> Outcome:
    """What a token with these claims is, under rules; a claim of None is left out."""
    wanted = ClaimRules(ISSUER, "app", **(rules or {}))
    keys = IssuerKeys(read_key_set(msgspec.json.encode(public_key_set([key().public]))), fixed=True)
    whole = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return IdTokens(wanted, keys, lambda: NOW_US).authenticate(key(number).token(whole), (API,))


def why(outcome: Outcome) -> str:
    assert isinstance(outcome, Rejected)
    return outcome.text


# --- ID tokens ------------------------------------------------------------------------------------


def test_id_token_names_its_user_and_groups() -> None:
    assert id_token() == Accepted(UserInfo("u1"))
    rules = {"user_claim": "email", "user_prefix": "p:", "groups_claim": "teams", "groups_prefix": "g:"}
    assert id_token(rules) == Accepted(UserInfo("p:a@b", ("g:x", "g:y")))
    assert id_token({"groups_claim": "role"}) == Accepted(UserInfo("u1", ("r",)))
    assert id_token({"groups_claim": "none"}) == Accepted(UserInfo("u1"))
    assert id_token(aud=["x", "app"]) == Accepted(UserInfo("u1"))


@pytest.mark.parametrize(
    ("rules", "claims", "text"),
    [
        ({}, {"aud": "other"}, 'expected audience "app" got ["other"]'),
        ({}, {"aud": None}, 'expected audience "app" got []'),
        ({}, {"exp": NOW_S - 1}, "token is expired"),
        ({}, {"exp": None}, "token is expired"),
        ({}, {"exp": "later"}, "token is expired"),
        ({}, {"nbf": NOW_S + 61}, "before the nbf"),
        ({"algorithms": ("ES256",)}, {}, 'unsupported algorithm, expected ["ES256"] got "RS256"'),
        ({}, {"sub": None}, 'parse username claims "sub": claim not present'),
        ({}, {"sub": 1}, 'parse username claims "sub": it is no text'),
        ({"user_claim": "email"}, {"email_verified": False}, "email not verified"),
        ({"user_claim": "email"}, {"email_verified": "true"}, "email not verified"),
        ({"groups_claim": "teams"}, {"teams": [1]}, 'parse groups claim "teams"'),
        ({"required": {"role": "s"}}, {}, "required claim role value does not match. Got = r, want = s"),
        ({"required": {"hd": "x"}}, {}, "required claim hd not present in ID token"),
    ],
)
def test_id_token_that_breaks_a_rule_is_rejected(
    rules: dict[str, Any], claims: dict[str, Any], text: str
) -> None:
    assert text in why(id_token(rules, **claims))


def test_id_token_of_another_key_or_issuer_names_no_user() -> None:
    assert "failed to verify id token signature" in why(id_token(number=1))
    assert id_token(iss="https://login/") is None


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_id_token_without_a_signature_of_the_issuer_is_rejected(algorithm: str) -> None:
    keys = IssuerKeys([key().public], fixed=True)
    who = IdTokens(ClaimRules(ISSUER, "app"), keys, lambda: NOW_US)
    assert "unsupported algorithm" in why(who.authenticate(forged({"alg": algorithm}, CLAIMS), (API,)))
    listed = IdTokens(ClaimRules(ISSUER, "app", algorithms=("none", "HS256")), keys, lambda: NOW_US)
    assert "failed to verify" in why(listed.authenticate(forged({"alg": algorithm}, CLAIMS), (API,)))


def test_keys_are_fetched_when_none_verifies_and_not_again_at_once() -> None:
    now = [NOW_US]
    keys = IssuerKeys()
    who = IdTokens(ClaimRules(ISSUER, "app"), keys, lambda: now[0])
    token = key().token(CLAIMS)
    assert who.authenticate(token, (API,)) == Pending("oidc", "")
    keys.take(None, now[0])
    assert why(who.authenticate(token, (API,))) == "oidc: authenticator not initialized"
    now[0] += FETCH_AGAIN_US
    assert isinstance(who.authenticate(token, (API,)), Pending)
    keys.take([key().public], now[0])
    assert who.authenticate(token, (API,)) == Accepted(UserInfo("u1"))
    assert "failed to verify" in why(who.authenticate(key(1).token(CLAIMS), (API,)))
    now[0] += FETCH_AGAIN_US
    assert isinstance(who.authenticate(key(1).token(CLAIMS), (API,)), Pending)
    keys.take(None, now[0])  # the old keys stay
    assert who.authenticate(token, (API,)) == Accepted(UserInfo("u1"))


def test_prefix_of_users_is_the_issuer_unless_an_option_says_otherwise() -> None:
    assert prefix_of("", ISSUER, "sub") == "https://login#"
    assert prefix_of("", ISSUER, "email") == ""
    assert (prefix_of("-", ISSUER, "sub"), prefix_of("p", ISSUER, "sub")) == ("", "p")


def test_key_set_that_cannot_be_read_is_refused_and_odd_keys_are_left_out() -> None:
    with pytest.raises(ValueError, match="no JSON web key set"):
        read_key_set(b"[]")
    odd = {"keys": [{"kty": "oct"}, {"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"}, {"kty": "RSA"}]}
    assert read_key_set(msgspec.json.encode(odd)) == []


# --- webhook --------------------------------------------------------------------------------------

CARL = {"username": "carl", "uid": "u", "groups": ["dev"], "extra": {"k": ["v"]}}
TTL_US = 120 * SECOND


class Webhook:
    """A webhook with a clock that tests can move."""

    def __init__(self) -> None:
        self.now_us = NOW_US
        self.tokens = WebhookTokens((API,), TTL_US, lambda: self.now_us)

    def told(self, status: Any, audiences: tuple[str, ...] = (API,)) -> Outcome:
        asked = self.tokens.authenticate("t", audiences)
        assert isinstance(asked, Pending)
        self.tokens.answer(asked, {"status": status})
        return self.tokens.authenticate("t", audiences)


def test_webhook_is_asked_once_for_a_token_until_its_answer_is_old() -> None:
    hook = Webhook()
    carl = UserInfo("carl", ("dev",), "u", {"k": ("v",)})
    assert hook.told({"authenticated": True, "user": CARL}) == Accepted(carl, (API,))
    assert isinstance(hook.tokens.authenticate("other", (API,)), Pending)
    assert isinstance(hook.tokens.authenticate("t", ("vault",)), Pending)
    hook.now_us += TTL_US - 1
    assert isinstance(hook.tokens.authenticate("t", (API,)), Accepted)
    hook.now_us += 1
    assert isinstance(hook.tokens.authenticate("t", (API,)), Pending)


def wrong(kind: str, field: str) -> Rejected:
    return Rejected((f"json: cannot unmarshal {kind} into Go struct field {field}",))


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ({"authenticated": False}, None),
        ({"authenticated": False, "error": "no"}, Rejected(("no",))),
        (
            {"authenticated": "true", "user": CARL},
            wrong("string", "TokenReviewStatus.status.authenticated of type bool"),
        ),
        ({"authenticated": True, "user": CARL, "audiences": ["vault"]}, None),
        (
            {"authenticated": True, "user": {"username": 1}},
            wrong("number", "UserInfo.status.user.username of type string"),
        ),
        (None, None),
        ([], wrong("array", "TokenReview.status of type v1.TokenReviewStatus")),
    ],
)
def test_answer_that_names_no_user_is_none(status: Any, outcome: Outcome) -> None:
    assert Webhook().told(status) == outcome


def test_failure_of_the_webhook_is_an_error_for_a_moment() -> None:
    hook = Webhook()
    asked = hook.tokens.authenticate("t", (API,))
    assert isinstance(asked, Pending)
    hook.tokens.fail(asked, "refused")
    assert hook.tokens.authenticate("t", (API,)) == Rejected(("refused",))
    hook.now_us += SECOND
    assert isinstance(hook.tokens.authenticate("t", (API,)), Pending)


def test_webhook_remembers_a_bounded_number_of_answers() -> None:
    hook = Webhook()
    for number in range(ANSWERS_MAX + 1):
        hook.tokens.answer(Pending("token-webhook", str(number), (API,)), {})
    assert len(hook.tokens._answers) == ANSWERS_MAX
    assert isinstance(hook.tokens.authenticate("0", (API,)), Pending)


def test_review_that_is_sent_names_token_and_audiences() -> None:
    asked = Pending("token-webhook", "t", (API,))
    assert review_of(asked, "authentication.k8s.io/v1") == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "t", "audiences": [API]},
    }


def test_union_is_pending_only_if_no_earlier_authenticator_knows_the_token() -> None:
    def local(token: str, audiences: tuple[str, ...]) -> Outcome:
        return Accepted(UserInfo("u")) if token == "local" else Rejected(("not local",))

    hook = Webhook()
    who = Authenticator(N, [], [local, hook.tokens.authenticate], (API,))
    assert isinstance(who.review("local", ()), Accepted)
    assert isinstance(who.identify(Credentials([("authorization", "Bearer t")])), Pending)
    asked = who.review("t", ())
    assert isinstance(asked, Pending)
    hook.tokens.answer(asked, {})
    assert who.review("t", ()) == Rejected(("invalid bearer token", "not local"))
